import math

import mujoco
import numpy as np
import pytest
import torch

from telic import quantities as q
from telic.errors import UsageError


def value(tensor):
    return tensor.squeeze(0).tolist()


def quaternion(axis, angle):
    result = np.zeros(4)
    mujoco.mju_axisAngle2Quat(result, np.array(axis, dtype=float), angle)
    return result


X, Y, Z = (1, 0, 0), (0, 1, 0), (0, 0, 1)


@pytest.mark.parametrize("robot", ["HalfCheetah", "Hopper", "Walker2d"])
def test_a_planar_robot_leaning_forward_has_positive_pitch(pose, robot):
    leaning = pose(robot).set(rooty=0.5).move(rooty=2.0)
    info = leaning.info()
    assert value(q.pitch(info)) == pytest.approx(0.5)
    assert value(q.pitch_rate(info)) == pytest.approx(2.0)
    assert value(q.angular_speed(info)) == pytest.approx(2.0)
    assert value(q.uprightness(info)) == pytest.approx(math.cos(0.5))
    # MuJoCo itself says that the nose went down by sin(0.5) and that the torso turns about +y
    forward = leaning.data.body("torso").xmat.reshape(3, 3)[:, 0]
    assert forward[2] == pytest.approx(-math.sin(0.5))
    assert leaning.data.body("torso").cvel[1] == pytest.approx(2.0)


def test_height_is_the_torso_in_the_world_whatever_the_zero_of_the_joint(pose):
    cheetah = pose("HalfCheetah").set(rootz=0.1)
    hopper = pose("Hopper").set(rootz=1.5)
    for robot, expected, above in ((cheetah, 0.8, 0.1), (hopper, 1.5, 0.25)):
        info = robot.info()
        assert value(q.height(info)) == pytest.approx(expected)
        assert value(q.height(info)) == pytest.approx(robot.data.body("torso").xpos[2])
        assert value(q.height_above_start(info)) == pytest.approx(above)


def test_velocities_of_a_planar_robot(pose):
    info = pose("Walker2d").set(rootx=7.0).move(rootx=-3.0, rootz=4.0).info()
    assert value(q.x_position(info)) == 7.0
    assert value(q.forward_velocity(info)) == -3.0
    assert value(q.vertical_velocity(info)) == 4.0
    assert value(q.speed(info)) == pytest.approx(5.0)
    assert value(q.horizontal_speed(info)) == pytest.approx(3.0)


def test_velocities_of_a_free_robot_are_in_the_world(pose):
    turned = [1.0, 2.0, 0.75, *quaternion(Z, math.pi / 2)]
    info = pose("Ant").set(root=turned).move(root=[3.0, 4.0, 12.0, 0, 0, 0]).info()
    assert value(q.x_position(info)) == 1.0
    assert value(q.y_position(info)) == 2.0
    assert value(q.forward_velocity(info)) == 3.0
    assert value(q.lateral_velocity(info)) == 4.0
    assert value(q.vertical_velocity(info)) == 12.0
    assert value(q.speed(info)) == pytest.approx(13.0)
    assert value(q.horizontal_speed(info)) == pytest.approx(5.0)
    # it faces +y, where it moves with 4 m/s
    assert value(q.heading_velocity(info)) == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("axis", "angle", "roll", "pitch", "heading", "upright"),
    [
        (X, 0.4, 0.4, 0.0, 0.0, math.cos(0.4)),
        (Y, 0.3, 0.0, 0.3, 0.0, math.cos(0.3)),
        (Z, 2.5, 0.0, 0.0, 2.5, 1.0),
        (Z, -2.5, 0.0, 0.0, -2.5, 1.0),
        (X, math.pi, math.pi, 0.0, 0.0, -1.0),
    ],
)
def test_angles_of_a_free_robot(pose, axis, angle, roll, pitch, heading, upright):
    info = pose("Ant").set(root=[0, 0, 0.75, *quaternion(axis, angle)]).info()
    assert value(q.roll(info)) == pytest.approx(roll, abs=1e-12)
    assert value(q.pitch(info)) == pytest.approx(pitch, abs=1e-12)
    assert value(q.heading(info)) == pytest.approx(heading, abs=1e-12)
    assert value(q.yaw(info)) == value(q.heading(info))
    assert value(q.uprightness(info)) == pytest.approx(upright)


def test_angles_compose_as_yaw_then_pitch_then_roll(pose):
    both, all_three = np.zeros(4), np.zeros(4)
    mujoco.mju_mulQuat(both, quaternion(Z, 0.7), quaternion(Y, 0.2))
    mujoco.mju_mulQuat(all_three, both, quaternion(X, -0.4))
    info = pose("Humanoid").set(root=[0, 0, 1.4, *all_three]).info()
    assert value(q.heading(info)) == pytest.approx(0.7)
    assert value(q.pitch(info)) == pytest.approx(0.2)
    assert value(q.roll(info)) == pytest.approx(-0.4)
    # up_z of R_z R_y R_x is cos(pitch) cos(roll)
    assert value(q.uprightness(info)) == pytest.approx(math.cos(0.2) * math.cos(0.4))


def test_rates_of_a_free_robot_are_what_its_gyroscope_reads(pose):
    nose_down = quaternion(Y, math.pi / 2)
    robot = pose("Ant").set(root=[0, 0, 2, *nose_down]).move(root=[0, 0, 0, 1.0, 2.0, 3.0])
    info = robot.info()
    assert value(q.roll_rate(info)) == pytest.approx(1.0)
    assert value(q.pitch_rate(info)) == pytest.approx(2.0)
    assert value(q.yaw_rate(info)) == pytest.approx(3.0)
    assert value(q.angular_speed(info)) == pytest.approx(math.sqrt(14.0))
    # its forward axis points down, so rolling at +1 turns it about the world's vertical at -1
    assert value(q.heading_rate(info)) == pytest.approx(-1.0)
    assert robot.data.body("torso").cvel[2] == pytest.approx(-1.0)


def test_humanoid_standup_starts_lying_and_knows_what_upright_means(pose):
    lying = pose("HumanoidStandup").info()
    assert value(q.uprightness(lying)) == pytest.approx(0.0, abs=1e-12)
    standing = pose("HumanoidStandup").set(root=[0, 0, 1.4, *quaternion(Y, math.pi / 2)])
    info = standing.move(root=[0, 0, 0, 1.0, 2.0, 3.0]).info()
    assert value(q.uprightness(info)) == pytest.approx(1.0)
    assert value(q.heading(info)) == pytest.approx(0.0, abs=1e-12)
    assert value(q.pitch(info)) == pytest.approx(0.0, abs=1e-12)
    # MuJoCo agrees that the pelvis hangs below the torso, and how it turns in the world
    assert standing.data.body("pelvis").xpos[2] < standing.data.body("torso").xpos[2] - 0.3
    world = standing.data.body("torso").cvel[:3]
    rates = [value(each(info)) for each in (q.roll_rate, q.pitch_rate, q.yaw_rate)]
    assert rates == pytest.approx(world.tolist())


def test_swimmer_has_a_heading_but_no_height(pose):
    info = pose("Swimmer").set(free_body_rot=-2.0).move(free_body_rot=0.5, slider2=1.5).info()
    assert value(q.heading(info)) == pytest.approx(-2.0)
    assert value(q.heading_rate(info)) == pytest.approx(0.5)
    assert value(q.yaw_rate(info)) == pytest.approx(0.5)
    assert value(q.lateral_velocity(info)) == 1.5
    with pytest.raises(UsageError, match='Swimmer-v5 has no quantity "height"') as caught:
        q.height(info)
    assert "moves along z" in str(caught.value)
    assert "forward_velocity" in caught.value.hint


def test_a_quantity_of_values_without_an_environment_is_refused():
    with pytest.raises(UsageError, match="do not name their environment"):
        q.height({"qpos": torch.zeros(1, 9)})
