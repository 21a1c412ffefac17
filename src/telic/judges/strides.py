"""Legs that step: where each foot of a puppet is at every moment of a gait.

A foot stands still on the ground while the torso passes over it, is lifted, and is put down in
front again. Joint angles come from damped least squares on the foot's place: a dozen poses of one
stride are solved, everything else is interpolated between them.
"""

from __future__ import annotations

from typing import NamedTuple

import mujoco
import numpy as np

from telic.envs.spec import Leg, Robot
from telic.judges.criteria import Motion

_POSES = 13
"""of a stance and of a swing, ends included"""
_ITERATIONS = 12
_DAMPING = 1e-4
_ROTATION_M = 0.05
"""how much keeping the sole level counts, as metres for a radian"""
_LIFT, _SWEEP = 0.15, 0.6
"""of the leg's length: how high a foot swings, and how far it sweeps at most"""


class FootTimes(NamedTuple):
    """What each foot does at each moment, (T, F)."""

    is_down: np.ndarray
    part: np.ndarray
    """share of the stance or of the swing that is over"""


def foot_times(motion: Motion, phase: np.ndarray) -> FootTimes:
    """Return what the feet do at phases of the stride, in turns, (T,)."""
    down, part = (np.zeros((len(phase), len(motion.feet))) for _ in range(2))
    for foot, landings in enumerate(motion.feet):
        since = (phase[:, None] - np.asarray(landings)) % 1.0
        ahead = (np.asarray(landings) - phase[:, None]) % 1.0
        ago, left = since.min(1), np.where(ahead == 0.0, 1.0, ahead).min(1)
        down[:, foot] = ago < motion.duty
        swing = np.maximum(ago + left - motion.duty, 1e-6)
        part[:, foot] = np.where(ago < motion.duty, ago / motion.duty, (ago - motion.duty) / swing)
    return FootTimes(down > 0, np.clip(part, 0.0, 1.0))


def step(
    poses: np.ndarray, model: mujoco.MjModel, robot: Robot, motion: Motion, phase: np.ndarray
) -> None:
    """Set the joints of the legs in poses (T, nq) at rest, as the gait has them at each phase."""
    times = foot_times(motion, phase)
    seconds = motion.duty / max(motion.stride_hz, 1e-3)
    # On the spot and in turns the feet are only lifted.
    velocity = np.array([motion.forward_mps, motion.left_mps, 0.0])
    for index, (foot, leg) in enumerate(zip(robot.feet, robot.legs, strict=True)):
        if index >= len(motion.feet) or not leg.qpos:
            continue
        sweep = velocity * seconds
        sweep *= min(1.0, _SWEEP * leg.length_m / max(float(np.linalg.norm(sweep)), 1e-9))
        stance, swing = _angles(model, robot, poses[0], foot, leg, sweep)
        grid = np.linspace(0.0, 1.0, _POSES)
        for place, column in enumerate(leg.qpos):
            poses[:, column] = np.where(
                times.is_down[:, index],
                np.interp(times.part[:, index], grid, stance[:, place]),
                np.interp(times.part[:, index], grid, swing[:, place]),
            )


def _angles(
    model: mujoco.MjModel, robot: Robot, rest: np.ndarray, foot: int, leg: Leg, sweep: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the joint angles of a leg along a stance and along a swing, (P, joints) each."""
    parts = np.linspace(0.0, 1.0, _POSES)[:, None]
    up = np.array([0.0, 0.0, _LIFT * leg.length_m])
    # While it stands the foot goes back as seen from the torso, then forward through the air.
    back, forth = sweep * (0.5 - parts), sweep * (parts - 0.5) + up * np.sin(np.pi * parts)
    solver = _Leg(model, robot, rest, foot, leg)
    return (
        np.array([solver.reach(way) for way in back]),
        np.array([solver.reach(way) for way in forth]),
    )


class _Leg:
    """One leg of a robot in its resting pose, moved to put its foot somewhere."""

    def __init__(
        self, model: mujoco.MjModel, robot: Robot, rest: np.ndarray, foot: int, leg: Leg
    ) -> None:
        self._model, self._foot, self._rest = model, foot, rest
        limbs = {limb.qpos: limb for limb in robot.limbs}
        self._columns = list(leg.qpos)
        self._dofs = [limbs[column].dof for column in leg.qpos]
        self._ranges = [limbs[column].range for column in leg.qpos]
        self._data = mujoco.MjData(model)
        self._data.qpos[:] = rest
        mujoco.mj_kinematics(model, self._data)
        self._start = self._data.xipos[foot].copy()
        self._turned = self._data.xquat[foot].copy()

    def reach(self, way: np.ndarray) -> np.ndarray:
        """Return the joint angles with the foot this way off its place at rest, as near as can."""
        model, data = self._model, self._data
        moving, turning = np.zeros((3, model.nv)), np.zeros((3, model.nv))
        twist = np.zeros(3)
        data.qpos[:] = self._rest
        for _ in range(_ITERATIONS):
            mujoco.mj_kinematics(model, data)
            mujoco.mj_comPos(model, data)
            mujoco.mj_jacBodyCom(model, data, moving, turning, self._foot)
            mujoco.mju_subQuat(twist, self._turned, data.xquat[self._foot])
            world = np.zeros(3)
            mujoco.mju_rotVecQuat(world, twist, data.xquat[self._foot])
            error = np.concatenate(
                (self._start + way - data.xipos[self._foot], _ROTATION_M * world)
            )
            slope = np.concatenate((moving, _ROTATION_M * turning))[:, self._dofs]
            change = slope.T @ np.linalg.solve(slope @ slope.T + _DAMPING * np.eye(6), error)
            for column, limits, more in zip(self._columns, self._ranges, change, strict=True):
                value = float(data.qpos[column] + more)
                data.qpos[column] = value if limits is None else float(np.clip(value, *limits))
        return data.qpos[self._columns].copy()
