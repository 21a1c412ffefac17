"""Bodies are where MuJoCo has them, and as fast, for every robot that motions are for."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
import torch

from telic.motions.robot import MotionRobot, motion_robot

ROBOTS = ["planar-biped", "Humanoid-v5", "Walker2d-v5", "Ant-v5"]


def _random_state(robot: MotionRobot, rng: np.random.Generator) -> mujoco.MjData:
    data = mujoco.MjData(robot.model)
    data.qpos[:] = robot.facts.rest_qpos
    for limb in robot.facts.limbs:
        data.qpos[limb.qpos] = rng.uniform(-2, 2)
    root = robot.facts.root
    for slide in root.slides:
        data.qpos[slide.qpos] = rng.uniform(-2, 2)
    if root.quaternion is not None:
        quat = rng.normal(size=4)
        data.qpos[root.quaternion : root.quaternion + 4] = quat / np.linalg.norm(quat)
    elif root.hinge is not None:
        data.qpos[root.hinge.qpos] = rng.uniform(-3, 3)
    data.qvel[:] = rng.normal(size=robot.model.nv)
    mujoco.mj_forward(robot.model, data)
    return data


def _velocity(robot: MotionRobot, data: mujoco.MjData, body: int) -> tuple[np.ndarray, np.ndarray]:
    out = np.zeros(6)
    mujoco.mj_objectVelocity(robot.model, data, mujoco.mjtObj.mjOBJ_XBODY, body, out, 0)
    return out[3:].copy(), out[:3].copy()


@pytest.mark.parametrize("name", ROBOTS)
def test_bodies_and_their_velocities_are_those_of_mujoco(name: str) -> None:
    robot = motion_robot(name)
    kinematics = robot.kinematics
    rng = np.random.default_rng(3)
    for _ in range(5):
        data = _random_state(robot, rng)
        qpos = torch.tensor(data.qpos, dtype=torch.float32)[None]
        pose = robot.from_qpos(qpos)
        linear, angular = _velocity(robot, data, robot.root)
        speed = torch.tensor([data.qvel[limb.dof] for limb in robot.facts.limbs])[None].float()
        root_speed = (torch.tensor(each)[None].float() for each in (linear, angular))
        states = kinematics.states(*pose, *root_speed, speed)
        for place, body in enumerate(kinematics.bodies):
            wanted = _velocity(robot, data, body)
            assert np.allclose(states.pos[0, place], data.xpos[body], atol=1e-4)
            turned = float(np.abs(np.dot(states.quat[0, place].numpy(), data.xquat[body])))
            assert turned == pytest.approx(1.0, abs=1e-5)
            assert np.allclose(states.lin_vel[0, place], wanted[0], atol=1e-3)
            assert np.allclose(states.ang_vel[0, place], wanted[1], atol=1e-3)
