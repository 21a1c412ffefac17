"""The public robots themselves: fetched for real, built, and held in the pose they start in."""

import mujoco
import numpy as np
import pytest

from telic.envs.robot_facts import robot_facts
from telic.errors import ResourceError
from telic.robots.build import built_robot
from telic.robots.catalogue import RobotNumbers, license_texts, named_robot, robot_names

HELD_S = 3.0
FALLS = ("unitree-g1", "cmu-humanoid")
"""whose published gains, or motors of 20 N m in the ankles, hold no pose: a policy must balance"""


def held(path):
    """Hold the pose of a model; return it, its data, and where it began."""
    model = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    began = data.qpos.copy()
    of_joints = model.actuator_trntype == int(mujoco.mjtTrn.mjTRN_JOINT)
    joints = model.actuator_trnid[of_joints, 0]
    data.ctrl[of_joints] = began[model.jnt_qposadr[joints]]
    for _ in range(int(HELD_S / model.opt.timestep)):
        mujoco.mj_step(model, data)
    return model, data, began


@pytest.mark.slow
@pytest.mark.parametrize("name", robot_names())
def test_a_public_robot_loads_and_holds_its_pose(name):
    try:
        path = built_robot(name)
    except ResourceError as error:
        pytest.skip(f"no index of packages can be reached: {error}")
    robot = named_robot(name)
    assert not robot.package.license_files or license_texts(robot)
    facts = robot_facts(path)
    measured = RobotNumbers(facts.mass_kg, facts.joints, facts.actuators, facts.height_m)
    assert (robot.numbers, robot.kind) == (measured, facts.kind)
    model, data, began = held(path)
    assert np.isfinite(data.qpos).all() and not data.warning.number.any()
    if model.jnt_type[0] != mujoco.mjtJoint.mjJNT_FREE:
        assert robot.kind in ("arm", "hand") and np.abs(data.qvel).max() < 0.05
        return
    assert np.allclose(began[3:7], (1, 0, 0, 0))
    upright = np.zeros(9)
    mujoco.mju_quat2Mat(upright, data.qpos[3:7])
    stands = data.qpos[2] > 0.8 * began[2] and upright[8] > 0.9
    assert stands or name in FALLS
