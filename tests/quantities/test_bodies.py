import math

import mujoco
import numpy as np
import pytest
import torch

from telic import quantities as q
from telic.errors import UnknownName


def value(tensor):
    return tensor.squeeze(0).tolist()


def tumbling_ant(pose):
    robot = pose("Ant")
    random = np.random.default_rng(3)
    robot.data.qpos[:] += random.normal(0, 0.3, robot.model.nq)
    robot.data.qpos[3:7] /= np.linalg.norm(robot.data.qpos[3:7])
    robot.data.qvel[:] = random.normal(0, 2.0, robot.model.nv)
    return robot


def test_body_position_height_and_velocity_are_those_of_mujoco(pose):
    robot = tumbling_ant(pose)
    info = robot.info()
    expected = np.zeros(6)
    mujoco.mj_objectVelocity(
        robot.model,
        robot.data,
        mujoco.mjtObj.mjOBJ_XBODY,
        robot.model.body("aux_2").id,
        expected,
        0,
    )
    assert value(q.body_velocity(info, "aux_2")) == pytest.approx(expected[3:].tolist())
    assert value(q.body_position(info, "aux_2")) == robot.data.body("aux_2").xpos.tolist()
    assert value(q.body_height(info, "aux_2")) == robot.data.body("aux_2").xpos[2]


def test_the_body_of_a_loose_tree_has_its_own_reference_point(pose):
    info = pose("Reacher").move(target_x=0.5, joint0=2.0).info()
    assert value(q.body_velocity(info, "target")) == pytest.approx([0.5, 0, 0])
    # fingertip 0.21 m from the shoulder, turning at 2 rad/s
    assert value(q.body_velocity(info, "fingertip")) == pytest.approx([0, 0.42, 0], abs=1e-12)


def test_center_of_mass_and_its_velocity_are_those_of_mujoco(pose):
    robot = tumbling_ant(pose)
    info = robot.info()
    mujoco.mj_subtreeVel(robot.model, robot.data)
    torso = robot.model.body("torso").id
    expected = robot.data.subtree_linvel[torso]
    assert value(q.center_of_mass_velocity(info)) == pytest.approx(expected.tolist())
    assert value(q.center_of_mass(info)) == robot.data.subtree_com[torso].tolist()
    assert value(q.center_of_mass_height(info)) == robot.data.subtree_com[torso][2]


def test_unknown_bodies_and_joints_get_suggestions(pose):
    info = pose("Walker2d").info()
    with pytest.raises(UnknownName, match="foot_left"):
        q.body_position(info, "foot_lft")
    with pytest.raises(UnknownName, match="leg_joint"):
        q.joint_position(info, "leg_jont")


def test_joint_speed_is_that_of_the_joints_and_not_of_the_root(recording):
    qvel = torch.zeros(2, 6)
    qvel[0, :3] = 5.0
    qvel[1, 3:] = torch.tensor([3.0, 0.0, 0.0])
    speeds = q.joint_speed(recording("Hopper", qvel=qvel))
    assert speeds.tolist() == pytest.approx([0.0, 3.0**0.5])


def test_a_foot_touches_when_it_carries_one_percent_of_the_weight(recording, pose):
    weight = pose("Walker2d").model.body_mass.sum() * 9.81
    force = torch.zeros(2, 8)
    force[0, 4] = 0.011 * weight  # right foot
    force[1, 4] = 0.009 * weight
    force[1, 7] = weight  # left foot
    info = recording("Walker2d", contacts=force)
    assert q.foot_contact(info).tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert q.feet_in_contact(info).tolist() == [1.0, 1.0]
    assert q.contact_force(info, "foot_left").tolist() == pytest.approx([0.0, weight])


def test_power_is_torque_times_joint_velocity(pose):
    robot = pose("HalfCheetah").move(bthigh=2.0, ffoot=-3.0, rootx=9.0)
    robot.act([0.5, 0, 0, 0, 0, 0.25])
    # gears 120 and 30: |0.5 * 120 * 2| + |0.25 * 30 * -3|
    assert value(q.power(robot.info())) == pytest.approx(120.0 + 22.5)
    # MuJoCo clamps controls to [-1, 1], and so do we
    robot.act([7.0, 0, 0, 0, 0, 0])
    assert value(q.power(robot.info())) == pytest.approx(240.0)
    robot.info()
    assert robot.data.qfrc_actuator[3] == pytest.approx(120.0)


SERVO = """
<mujoco><worldbody><body name="arm"><joint name="j" axis="0 1 0"/><geom size=".1" mass="1"/>
</body></worldbody>
<actuator><position joint="j" kp="20" kv="3" gear="2" forcerange="-15 15"/></actuator></mujoco>
"""


@pytest.mark.parametrize("control", [0.5, 3.0])
def test_power_of_a_servo_follows_its_spring_and_its_limit(pose, control):
    robot = pose("arm", mujoco.MjModel.from_xml_string(SERVO))
    info = robot.set(j=0.2).move(j=-1.5).act(control).info()
    assert value(q.power(info)) == pytest.approx(abs(robot.data.qfrc_actuator[0] * -1.5))
    assert robot.data.qfrc_actuator[0] != 0


def test_reacher_measures_the_distance_to_its_target(pose):
    info = pose("Reacher").info()
    # fingertip at (0.21, 0), target at (0.1, -0.1), both at the same height
    assert value(q.distance_to_target(info)) == pytest.approx(math.hypot(0.11, 0.1))
    turned = pose("Reacher").set(joint0=math.pi / 2, target_x=0.0, target_y=0.2).info()
    assert value(q.distance_to_target(turned)) == pytest.approx(0.01)


def test_legs_are_splayed_by_the_joints_that_move_them_aside(recording, pose):
    model = pose("Humanoid").model
    qpos = torch.tensor(model.qpos0).repeat(4, 1)
    for row, name in enumerate(("right_knee", "right_hip_x", "left_hip_z"), start=1):
        qpos[row, model.joint(name).qposadr[0]] += 1.0
    splayed = q.leg_splay(recording("Humanoid", qpos=qpos))
    aside = 4  # two axes of each hip
    assert splayed.tolist() == pytest.approx([0.0, 0.0, aside**-0.5, aside**-0.5], abs=1e-6)
