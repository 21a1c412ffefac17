"""The camera follows what travels and stands still for what does not."""

import numpy as np
import pytest

from telic.rendering._camera import _boxes, place_cameras
from telic.rendering.look import load_dressed
from telic.rendering.replay import model_file
from telic.storage.trajectories import TrajectoryFacts


def model(task):
    path = model_file(TrajectoryFacts(env_id=f"{task}-v5", dt_s=0.05))
    assert path is not None
    return load_dressed(path, repaint=True)


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


def test_what_cannot_travel_is_seen_whole_from_a_fixed_place():
    cart = model("InvertedPendulum")
    poses = np.column_stack((np.linspace(-1, 1, 30), np.zeros(30)))
    cameras = place_cameras(cart, poses, 0.04)
    assert len({camera.look_at.tobytes() for camera in cameras}) == 1
    assert cameras[0].look_at[0] == pytest.approx(0, abs=0.01)
    half_width = cameras[0].distance_m * np.tan(np.radians(22.5)) * 4 / 3
    assert half_width > 1.1


def corners_seen(robot, poses, camera_list, pixels=180, aspect=4 / 3):
    """Return where the corners of the box around the robot are, in half heights of the picture."""
    half = np.tan(np.radians(22.5))
    places = []
    for box, camera in zip(_boxes(robot, poses), camera_list, strict=True):
        position, forward, right, up = camera.axes()
        corners = np.array([[box[i, 0], box[j, 1], box[k, 2]] for i, j, k in np.ndindex(2, 2, 2)])
        offset = corners - position
        depth = offset @ forward
        places.append(np.column_stack((offset @ right, offset @ up)) / depth[:, None] / half)
    return np.array(places)  # (frames, 8, 2)


@pytest.mark.parametrize("task", ["HalfCheetah", "Hopper", "Ant", "Humanoid"])
def test_the_whole_robot_stays_in_the_picture_also_in_flight(task):
    robot = model(task)
    rng = np.random.default_rng(0)
    poses = np.repeat(robot.qpos0[None], 30, axis=0)
    slides = 2 if robot.jnt_type[0] == 0 else 1  # the column of the height
    poses[:, 0] = np.cumsum(rng.uniform(-0.1, 0.3, 30))
    poses[:, slides] += 1.5 * np.abs(np.sin(np.arange(30) / 4))
    if slides == 1:
        poses[:, 2] = np.linspace(0, -6.3, 30)  # a backflip
    for view, near in (("side", False), ("three-quarter", True), ("front", False)):
        cameras = place_cameras(robot, poses, 0.05, view, near=near)
        seen = corners_seen(robot, poses, cameras)
        assert np.abs(seen[..., 1]).max() <= 1.0, "out of the picture above or below"
        assert np.abs(seen[..., 0]).max() <= 4 / 3, "out of the picture at a side"
