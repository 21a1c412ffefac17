"""Puppets: episodes in which a robot is led by hand through what an intent asks for.

A puppet's torso follows a path, its feet are kept on the ground, and from every pose on the way the
real environment makes one real step. No policy is needed to see what right looks like: judges and
rewards are tried on puppets before anything is trained. `telic.judges.examples` makes episodes of
them, and of bad habits to tell them from.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import mujoco
import numpy as np

from telic.envs.spec import Robot, Root
from telic.judges.criteria import Motion
from telic.judges.strides import foot_times, step

_GRAVITY = 9.81
_HOVER_M, _MOVING = 0.012, 0.1
"""feet that would be dragged along faster than this, m/s or rad/s, hover a little instead"""
_FLY_M = 0.03
"""height of the lowest foot of a gait in flight"""
_STRIDE_RAD = 0.25
_PLANE, _SPHERE, _CAPSULE = (
    int(getattr(mujoco.mjtGeom, f"mjGEOM_{name}")) for name in ("PLANE", "SPHERE", "CAPSULE")
)


class Poses(NamedTuple):
    """States along a path: qpos (T, nq), qvel (T, nv), and what the feet do after each, (T, F)."""

    qpos: np.ndarray
    qvel: np.ndarray
    feet: np.ndarray
    """1 on the ground, 0 in the air, NaN: as physics has it"""


class _Path(NamedTuple):
    """Where the torso is relative to its resting pose, each (T,)."""

    x: np.ndarray
    y: np.ndarray
    lift: np.ndarray
    heading: np.ndarray
    pitch: np.ndarray
    roll: np.ndarray
    stride: np.ndarray
    """phase of the legs, radians; NaN where they rest"""
    motion: np.ndarray
    """which of the motions it is"""


def lead(
    model: mujoco.MjModel,
    robot: Robot,
    motions: Sequence[Motion],
    dt: float,
    steps: int,
    rest: np.ndarray | None = None,
) -> Poses:
    """Return `steps` poses, one per control step, of a robot led through motions one by one.

    What the robot's root cannot do (going left in a plane) is left out.

    Args:
        model: the robot's model.
        robot: facts about it.
        motions: what it does, the last one until the end.
        dt: seconds per control step.
        steps: how many.
        rest: pose to start from, (nq,); None: the robot's resting pose.
    """
    path = _path(motions, dt, steps + 1)
    start = np.asarray(robot.rest_qpos) if rest is None else rest
    poses = np.tile(start, (steps + 1, 1))
    feet = np.full((steps + 1, len(robot.feet)), np.nan)
    _swing(poses, robot, path)
    for index, motion in enumerate(motions):
        during = path.motion == index
        if motion.feet and during.any():
            legs = np.tile(start, (int(during.sum()), 1))
            phase = np.nan_to_num(path.stride[during]) / (2.0 * np.pi)
            step(legs, model, robot, motion, phase)
            poses[during] = legs
            feet[during, : len(motion.feet)] = foot_times(motion, phase).is_down
    _move(poses, robot.root, path)
    _put_on_ground(model, robot.root, poses, path.lift)
    qvel = np.zeros((steps, model.nv))
    for t in range(steps):
        mujoco.mj_differentiatePos(model, qvel[t], dt, poses[t], poses[t + 1])
    return Poses(poses[:-1], qvel, feet[1:])


def _path(motions: Sequence[Motion], dt: float, length: int) -> _Path:
    """Return the path of the torso; the last motion goes on to the end."""
    rows: list[np.ndarray] = []
    at = np.zeros(8)
    for index, motion in enumerate(motions):
        is_last = index == len(motions) - 1
        steps = length - len(rows) if is_last else round(motion.seconds / dt)
        base, clock = at.copy(), np.arange(1, steps + 1) * dt
        flown, lift = _flights(motion, np.minimum(clock, motion.seconds))
        if motion.feet and not motion.jumps:
            times = foot_times(motion, motion.stride_hz * clock)
            lift = np.where(times.is_down.any(1), 0.0, _FLY_M)
        heading = base[3] + motion.turn_rps * clock
        along = heading if motion.circle else np.zeros(steps)
        ahead, aside = motion.forward_mps * dt, motion.left_mps * dt
        part = np.stack(
            [
                base[0] + np.cumsum(ahead * np.cos(along) - aside * np.sin(along)),
                base[1] + np.cumsum(ahead * np.sin(along) + aside * np.cos(along)),
                lift,
                heading,
                base[4] + 2 * np.pi * motion.pitch_turns * flown,
                base[5] + 2 * np.pi * motion.roll_turns * flown,
                2 * np.pi * motion.stride_hz * clock
                if motion.stride_hz
                else np.full(steps, np.nan),
                np.full(steps, index),
            ],
            axis=1,
        )
        rows += list(part[: length - len(rows)])
        if len(rows):
            at = rows[-1]
    start = np.array([0, 0, 0, 0, 0, 0, np.nan, 0])
    return _Path(*np.array([start, *rows])[:length].T)


def _flights(motion: Motion, clock: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the share of the motion's turning that is done, and the height, at each time."""
    if motion.jumps == 0:
        fastest = max(abs(motion.forward_mps), abs(motion.left_mps), abs(motion.turn_rps))
        hover = _HOVER_M if fastest > _MOVING else 0.0
        return clock / motion.seconds, np.full_like(clock, hover)
    period = motion.seconds / motion.jumps
    flight = min(2 * np.sqrt(2 * motion.height_m / _GRAVITY), 0.8 * period)
    number, since = np.divmod(clock, period)
    share = np.clip((since - 0.5 * (period - flight)) / max(flight, 1e-6), 0.0, 1.0)
    return (number + share) / motion.jumps, motion.height_m * 4 * share * (1 - share)


def _swing(poses: np.ndarray, robot: Robot, path: _Path) -> None:
    """Swing neighbouring limbs against one another where the path strides."""
    for index, limb in enumerate(robot.limbs):
        offset = _STRIDE_RAD * np.sin(path.stride + np.pi * (index % 2))
        values = poses[:, limb.qpos] + np.nan_to_num(offset)
        poses[:, limb.qpos] = values if limb.range is None else np.clip(values, *limb.range)


def _move(poses: np.ndarray, root: Root, path: _Path) -> None:
    for axis, way in (("x", path.x), ("y", path.y)):
        slide = root.slide(axis)
        if slide is not None:
            poses[:, slide.qpos] += slide.sign * way
    if root.hinge is not None:
        turned = {"x": path.roll, "y": path.pitch, "z": path.heading}[root.hinge.axis]
        poses[:, root.hinge.qpos] += root.hinge.sign * turned
    if root.quaternion is not None:
        columns = slice(root.quaternion, root.quaternion + 4)
        rest = poses[0, columns].copy()
        for t in range(len(poses)):
            turned = np.zeros(4)
            quaternion = np.array([1.0, 0.0, 0.0, 0.0])
            for axis, angle in ((2, path.heading), (1, path.pitch), (0, path.roll)):
                mujoco.mju_axisAngle2Quat(turned, np.eye(3)[axis], float(angle[t]))
                mujoco.mju_mulQuat(quaternion, quaternion.copy(), turned)
            mujoco.mju_mulQuat(poses[t, columns], quaternion, rest)


def _put_on_ground(model: mujoco.MjModel, root: Root, poses: np.ndarray, lift: np.ndarray) -> None:
    """Shift every pose up or down until its lowest point is `lift` above the floor."""
    slide = root.slide("z")
    if slide is None or _PLANE not in model.geom_type:
        return
    data = mujoco.MjData(model)
    floor = float(model.geom_pos[list(model.geom_type).index(_PLANE), 2])
    own = np.flatnonzero(model.geom_bodyid)
    for pose, height in zip(poses, lift, strict=True):
        data.qpos[:] = pose
        mujoco.mj_kinematics(model, data)
        gap = float(_lowest(model, data, own).min()) - floor
        pose[slide.qpos] += slide.sign * (height - gap)


def _lowest(model: mujoco.MjModel, data: mujoco.MjData, geoms: np.ndarray) -> np.ndarray:
    """Return the height of each geom's lowest point; exact for balls and capsules, else safe."""
    size: np.ndarray = model.geom_size[geoms]
    up: np.ndarray = np.abs(data.geom_xmat[geoms].reshape(-1, 3, 3)[:, 2])
    kind: np.ndarray = model.geom_type[geoms]
    reach: np.ndarray = np.where(
        kind == _SPHERE,
        size[:, 0],
        np.where(kind == _CAPSULE, size[:, 0] + up[:, 2] * size[:, 1], (up * size).sum(1)),
    )
    return data.geom_xpos[geoms, 2] - reach
