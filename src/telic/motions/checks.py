"""What a clip is worth on its robot: measured, with reasons where it should not be trained on.

Limits, speeds, feet that slide or sink, floating, balance and torques: each is a number, each limit
is a setting, and whoever leaves a clip out says which was broken and by how much.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import mujoco
import numpy as np
import torch
from pydantic import Field

from telic.core.config import Config
from telic.core.rotations import rotate
from telic.core.tensors import from_numpy
from telic.motions.clip import MotionClip
from telic.motions.figure import SIDES, RobotFigure, Sole
from telic.motions.robot import MotionRobot

_NEAR_M = 0.02
"""how near to the ground a sole stands"""
_LEAST_STANDING = 3
_NEWTONS = 1.0
_SLOW_BALANCE_M = 0.02
_linalg: Any = np.linalg


class ClipReport(NamedTuple):
    """What was measured of a clip; None: it cannot be told for this robot."""

    seconds: float
    beyond_limits_rad: float
    """farthest that a joint is beyond its limits"""
    joint_speed: float
    """fastest joint, rad/s"""
    root_speed: float
    """fastest the root moves, m/s"""
    slide_m_s: float | None
    """how fast soles slide while they stand, on average; None: none ever stands"""
    sunk_m: float
    """deepest that a sole is below the ground"""
    floating_s: float
    """longest time without any sole near the ground"""
    torque_share: float | None
    """torque of the hardest-worked joint as a share of its limit, 95 % of the time"""
    balance_m: float | None
    """farthest that the point of balance is outside of the soles, 95 % of the time"""


class FilterLimits(Config):
    """How bad a clip may be."""

    seconds: float = Field(default=1.0, ge=0, description="least duration, s")
    most_seconds: float = Field(default=600.0, gt=0, description="longest duration, s")
    beyond_limits_rad: float = Field(default=0.02, ge=0, description="joints beyond limits, rad")
    joint_speed: float = Field(default=30.0, gt=0, description="fastest joint, rad/s")
    root_speed: float = Field(default=8.0, gt=0, description="fastest root, m/s")
    slide_m_s: float = Field(default=0.2, gt=0, description="feet that slide while they stand, m/s")
    sunk_m: float = Field(default=0.04, gt=0, description="soles below the ground, m")
    floating_s: float = Field(default=1.0, gt=0, description="nothing near the ground, s")
    torque_share: float | None = Field(
        default=None, gt=0, description="of the joints' limits; None: not looked at"
    )
    balance_m: float | None = Field(
        default=None, ge=0, description="point of balance outside of the soles; None: not looked at"
    )

    def of(self, clip: MotionClip) -> FilterLimits:
        """Return the limits for a clip; one that was planned to be slow has to be in balance."""
        if self.balance_m is None and clip.origin.parameters.get("is_slow") == 1.0:
            return self.replace(balance_m=_SLOW_BALANCE_M)
        return self

    def reasons(self, report: ClipReport) -> list[str]:
        """Return why a clip should be left out; nothing: it is fine."""
        found: list[str] = []
        if report.seconds < self.seconds:
            found.append(f"lasts {report.seconds:.2f} s, less than {self.seconds:g} s")
        if report.seconds > self.most_seconds:
            found.append(f"lasts {report.seconds:.0f} s, more than {self.most_seconds:g} s")
        words = {
            "beyond_limits_rad": "a joint is {value:.3f} rad beyond its limit",
            "joint_speed": "a joint moves at {value:.1f} rad/s",
            "root_speed": "the root moves at {value:.1f} m/s",
            "slide_m_s": "feet slide at {value:.2f} m/s while they stand",
            "sunk_m": "a foot is {value:.3f} m below the ground",
            "floating_s": "nothing is near the ground for {value:.2f} s",
            "torque_share": "a joint needs {value:.2f} of its torque",
            "balance_m": "the point of balance is {value:.3f} m outside of the soles",
        }
        for name, text in words.items():
            value, most = getattr(report, name), getattr(self, name)
            if value is not None and most is not None and value > most:
                found.append(f"{text.format(value=value)}; {most:g} is the most")
        return found


def measure(robot: MotionRobot, clip: MotionClip, *, with_forces: bool = True) -> ClipReport:
    """Return what a clip is worth on its robot."""
    speed = clip.velocities()
    beyond = np.maximum(robot.low - clip.joint_pos, clip.joint_pos - robot.high).max(initial=0.0)
    soles = _soles(robot, clip)
    low = np.stack([height.min(axis=1) for _, height in soles], axis=1)
    near = low < _NEAR_M
    forces = _forces(robot, clip, soles) if with_forces else None
    return ClipReport(
        seconds=clip.duration_s,
        beyond_limits_rad=max(0.0, float(beyond)),
        joint_speed=float(np.abs(speed.joints).max(initial=0.0)),
        root_speed=float(np.linalg.norm(speed.root_linear, axis=-1).max()),
        slide_m_s=sliding(soles, clip),
        sunk_m=max(0.0, -float(low.min(initial=0.0))),
        floating_s=_longest(np.logical_not(near.any(axis=1))) / clip.fps,
        torque_share=None if forces is None else forces[0],
        balance_m=None if forces is None else forces[1],
    )


SolePath = tuple[np.ndarray, np.ndarray]
"""points of a sole in the world (T, P, 3), and the heights of their undersides (T, P)"""


def _soles(robot: MotionRobot, clip: MotionClip) -> list[SolePath]:
    """Return the soles frame by frame, in the order of the clip's contacts."""
    figure = RobotFigure(robot)
    columns = (from_numpy(each) for each in (clip.root_pos, clip.root_quat, clip.joint_pos))
    pos, quat = robot.kinematics().poses(*columns)
    paths: list[SolePath] = []
    for side in sorted(SIDES, key=lambda side: robot.facts.feet.index(figure.feet[side])):
        sole = figure.soles[side]
        own = torch.as_tensor(sole.points, dtype=torch.float32)
        spread = quat[:, sole.body, None].expand(-1, len(own), 4)
        points = pos[:, sole.body, None] + rotate(spread, own.expand(clip.frames, -1, 3))
        place = points.numpy()
        paths.append((place, place[..., 2] - sole.radii))
    return paths


def sliding(soles: list[SolePath], clip: MotionClip) -> float | None:
    """Return how fast soles slide while they stand, m/s; None: none stands."""
    speeds: list[np.ndarray] = []
    for foot, (place, height) in enumerate(soles):
        step = np.linalg.norm(np.diff(place[..., :2], axis=0), axis=-1) * clip.fps
        if clip.contacts is not None:
            stands = clip.contacts[1:, foot] & clip.contacts[:-1, foot]
        else:
            near = height.min(axis=1) < _NEAR_M
            stands = near[1:] & near[:-1]
        # What of the sole is up in the air may move: only what is lowest stands.
        lowest = np.take_along_axis(step, height[1:].argmin(axis=1)[:, None], axis=1)[:, 0]
        speeds.append(lowest[stands])
    found = np.concatenate(speeds)
    return float(found.mean()) if len(found) >= _LEAST_STANDING else None


def slide_of(robot: MotionRobot, clip: MotionClip) -> float | None:
    """Return how fast the soles of a clip slide while they stand, m/s."""
    return sliding(_soles(robot, clip), clip)


def _longest(flags: Any) -> int:
    """Return the length of the longest run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], flags.astype(int), [0]))))
    return int((edges[1::2] - edges[::2]).max(initial=0))


# ---- forces


def _forces(
    robot: MotionRobot, clip: MotionClip, soles: list[SolePath]
) -> tuple[float | None, float | None]:
    """Return the share of torques and how far the balance is off, of 95 % of the frames.

    What moves the root must come from the ground: it is shared out among the points of the soles
    that stand, as evenly as it can be, and the joints do the rest.
    """
    model, data = robot.model, mujoco.MjData(robot.model)
    columns = (from_numpy(each) for each in (clip.root_pos, clip.root_quat, clip.joint_pos))
    qpos = robot.to_qpos(*columns).numpy()
    speed = clip.velocities()
    qvel = robot.to_qvel(from_numpy(clip.root_quat), *map(from_numpy, speed)).numpy()
    qacc: Any = np.gradient(qvel, 1.0 / clip.fps, axis=0)
    limits = _torque_limits(robot)
    joints = np.array([limb.dof for limb in robot.facts.limbs])
    root = np.array([dof for dof in range(model.nv) if dof not in set(joints.tolist())])
    bodies = [robot.kinematics().bodies[sole.body] for sole in _ordered(robot)]
    shares, away = list[float](), list[float]()
    for frame in range(0, clip.frames, max(1, clip.frames // 200)):
        data.qpos[:], data.qvel[:], data.qacc[:] = qpos[frame], qvel[frame], qacc[frame]
        mujoco.mj_fwdPosition(model, data)
        mujoco.mj_fwdVelocity(model, data)
        needed = np.zeros(model.nv)
        mujoco.mj_rne(model, data, 1, needed)
        needed += model.dof_armature * qacc[frame]
        standing = _standing(soles, bodies, frame)
        if not standing:
            continue
        jacobian = np.zeros((3 * len(standing), model.nv))
        for place, (body, point) in enumerate(standing):
            mujoco.mj_jac(model, data, jacobian[3 * place : 3 * place + 3], None, point, body)
        force: np.ndarray = _linalg.lstsq(jacobian[:, root].T, needed[root], rcond=None)[0]
        torque = np.abs(needed - jacobian.T @ force)[joints]
        if limits is not None:
            shares.append(float((torque / limits).max()))
        away.append(_off_balance(np.array([point for _, point in standing]), force.reshape(-1, 3)))
    share = float(np.percentile(shares, 95)) if shares else None
    return share, float(np.percentile(away, 95)) if away else None


def _ordered(robot: MotionRobot) -> list[Sole]:
    figure = RobotFigure(robot)
    order = sorted(SIDES, key=lambda side: robot.facts.feet.index(figure.feet[side]))
    return [figure.soles[side] for side in order]


def _standing(soles: list[SolePath], bodies: list[int], frame: int) -> list[tuple[int, np.ndarray]]:
    """Return the points of the soles that are near the ground, the outermost eight of a foot."""
    found: list[tuple[int, np.ndarray]] = []
    for (place, height), body in zip(soles, bodies, strict=True):
        near = np.flatnonzero(height[frame] < _NEAR_M)
        if len(near) > 8:
            points = place[frame, near, :2]
            ways = np.stack([np.cos(a := np.arange(8) * np.pi / 4), np.sin(a)])
            near = near[np.unique((points @ ways).argmax(axis=0))]
        found += [(body, place[frame, point].astype(float)) for point in near]
    return found


def _off_balance(points: np.ndarray, forces: np.ndarray) -> float:
    """Return how far the point of balance is outside of the box of the standing points, m."""
    up = forces[:, 2].sum()
    if up < _NEWTONS:
        return 0.0
    centre = (points[:, :2] * forces[:, 2:]).sum(axis=0) / up
    low, high = points[:, :2].min(axis=0), points[:, :2].max(axis=0)
    return float(np.linalg.norm(np.maximum(np.maximum(low - centre, centre - high), 0.0)))


def _torque_limits(robot: MotionRobot) -> np.ndarray | None:
    """Return what each joint's drive can do; None: some have no limit that is known."""
    motors = robot.facts.motors
    if motors is None:
        return None
    limits: dict[int, float] = {}
    for motor in motors:
        if motor.force_range is not None:
            most = max(abs(each) for each in motor.force_range)
        elif motor.control_range is not None and motor.bias == (0.0, 0.0, 0.0):
            most = motor.gain * max(abs(each) for each in motor.control_range)
        else:
            continue
        limits[motor.dof] = limits.get(motor.dof, 0.0) + abs(motor.gear) * most
    found = [limits.get(limb.dof, np.inf) for limb in robot.facts.limbs]
    return np.array(found) if np.isfinite(found).any() else None
