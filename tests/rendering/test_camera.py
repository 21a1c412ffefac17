"""The camera follows what travels and stands still for what does not."""

import numpy as np
import pytest

from telic.rendering.camera import Camera, place_cameras, radius_m
from telic.rendering.look import load_dressed
from telic.rendering.replay import model_file
from telic.storage.trajectories import TrajectoryFacts


def model(task):
    path = model_file(TrajectoryFacts(env_id=f"{task}-v5", dt_s=0.05))
    assert path is not None
    return load_dressed(path, repaint=True)


def test_forward_is_to_the_right_seen_from_the_side():
    position, forward, right, up = Camera(np.zeros(3), 2.0, 90.0, 0.0).axes()
    assert position == pytest.approx((0, -2, 0))
    assert forward == pytest.approx((0, 1, 0))
    assert right == pytest.approx((1, 0, 0))
    assert up == pytest.approx((0, 0, 1))


def test_steady_motion_is_followed_without_lag_and_hops_are_seen(cheetah):
    poses = cheetah["qpos"].copy()
    poses[:, 3:] = 0
    poses[20:22, 1] = 0.5  # a hop
    cameras = place_cameras(model("HalfCheetah"), poses, 0.05)
    x = np.array([camera.look_at[0] for camera in cameras])
    assert np.ptp(x - poses[:, 0]) < 1e-6
    z = np.array([camera.look_at[2] for camera in cameras])
    assert np.ptp(z) < 0.1, "the camera should not hop along"
    assert {(c.azimuth_deg, c.distance_m) for c in cameras} == {(90.0, cameras[0].distance_m)}


def test_shaking_is_smoothed(cheetah):
    poses = cheetah["qpos"].copy()
    poses[:, 0] += 0.2 * (-1.0) ** np.arange(len(poses))
    cameras = place_cameras(model("HalfCheetah"), poses, 0.05)
    steps = np.diff([camera.look_at[0] for camera in cameras])
    assert np.ptp(steps) < 0.05


@pytest.mark.parametrize(
    ("task", "low", "high"),
    [("HalfCheetah", 2, 4), ("Hopper", 2, 3.5), ("Ant", 3, 5), ("Humanoid", 2.5, 4.5)],
)
def test_the_distance_fits_the_robot(task, low, high):
    robot = model(task)
    (camera,) = place_cameras(robot, robot.qpos0[None], 0.05)
    assert low < camera.distance_m < high
    assert camera.distance_m > 2.6 * radius_m(robot), "it would not fit into the picture"


def test_what_cannot_travel_is_seen_whole_from_a_fixed_place():
    cart = model("InvertedPendulum")
    poses = np.column_stack((np.linspace(-1, 1, 30), np.zeros(30)))
    cameras = place_cameras(cart, poses, 0.04)
    assert len({camera.look_at.tobytes() for camera in cameras}) == 1
    assert cameras[0].look_at[0] == pytest.approx(0, abs=0.01)
    half_width = cameras[0].distance_m * np.tan(np.radians(22.5)) * 4 / 3
    assert half_width > 1.1


def test_what_moves_in_a_plane_is_seen_from_the_top_unless_asked_otherwise():
    reacher = model("Reacher")
    assert place_cameras(reacher, reacher.qpos0[None], 0.02)[0].elevation_deg < -89
    assert place_cameras(reacher, reacher.qpos0[None], 0.02, "side")[0].elevation_deg > -20
