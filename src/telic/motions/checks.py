"""Quality checks that reject clips which are unsuitable for training.

Every test in `TESTS` has a limit with the name of the test in `FilterLimits`. Measurements and
rejections name the joint or body and the time of the worst value.
"""

from __future__ import annotations

import copy
from typing import NamedTuple

import mujoco
import numpy as np
import torch
from pydantic import Field
from scipy.spatial.transform import Rotation

from telic.core.config import Config
from telic.core.rotations import rotate
from telic.motions._figure import SIDES, RobotFigure, Sole, contact_points
from telic.motions.clip import MotionClip
from telic.motions.robot import MotionRobot

_NEAR_M, _SLOW_M_S = 0.03, 0.4
"""height and speed below which a sole counts as support"""
_LYING_M = 0.05
"""height below which another body counts as support"""
_MIN_SUPPORT = 3
_COLLISION_SAMPLES = 40
"""approximate number of frames sampled for mesh collisions"""


class WorstValue(NamedTuple):
    """Worst value of a test, with its joint or body and its time."""

    value: float
    part: str = ""
    time_s: float | None = None


TESTS: dict[str, str] = {
    "joint_limit_rad": "{part} exceeds its limit by {value:.3f} rad",
    "joint_speed": "{part} moves at {value:.1f} rad/s",
    "joint_jump_rad": "{part} jumps by {value:.2f} rad in one frame",
    "root_speed": "the root moves at {value:.1f} m/s",
    "root_jump_m": "the root jumps by {value:.2f} m in one frame",
    "root_spin": "the root rotates at {value:.1f} rad/s",
    "root_jump_rad": "the root orientation jumps by {value:.2f} rad in one frame",
    "self_collision_m": "{part} overlap by {value:.3f} m for a fifth of the clip",
    "arm_phase": "{part} swings in phase with the leg of the same side (correlation {value:.2f})",
    "skate_m_s": "{part} slides at {value:.2f} m/s during stance",
    "sliding_s": "no foot is at rest for {value:.2f} s on the ground",
    "sunk_m": "{part} is {value:.3f} m below the ground",
    "floating_s": "nothing touches the ground for {value:.2f} s",
}
"""rejection message of each test, by name of the limit"""


class FilterLimits(Config):
    """Limits of the tests. A limit of None disables the test."""

    seconds: float = Field(default=1.0, ge=0, description="minimum duration in s")
    most_seconds: float = Field(default=600.0, gt=0, description="maximum duration in s")
    joint_limit_rad: float | None = Field(default=0.05, ge=0, description="joint limit excess, rad")
    joint_speed: float | None = Field(default=30.0, gt=0, description="joint speed in rad/s")
    joint_jump_rad: float | None = Field(
        default=0.3, gt=0, description="joint jump in a single frame in rad"
    )
    root_speed: float | None = Field(default=8.0, gt=0, description="root speed in m/s")
    root_jump_m: float | None = Field(default=0.06, gt=0, description="root jump in one frame in m")
    root_spin: float | None = Field(default=25.0, gt=0, description="root angular speed in rad/s")
    root_jump_rad: float | None = Field(
        default=0.35, gt=0, description="jump of the root orientation in a single frame in rad"
    )
    self_collision_m: float | None = Field(
        default=0.05, gt=0, description="depth in m to which bodies overlap for a fifth of the clip"
    )
    arm_phase: float | None = Field(
        default=0.8, gt=0, description="correlation of an arm with the leg on the same side"
    )
    skate_m_s: float | None = Field(default=0.2, gt=0, description="foot speed in stance in m/s")
    sliding_s: float | None = Field(
        default=1.0, gt=0, description="time on the ground without a foot at rest in s"
    )
    sunk_m: float | None = Field(default=0.05, gt=0, description="sole depth below ground in m")
    floating_s: float | None = Field(default=1.0, gt=0, description="time off the ground in s")

    def reasons(self, clip: MotionClip, measured: dict[str, WorstValue]) -> list[str]:
        """Return the reasons to reject a clip, or an empty list if it passes."""
        found: list[str] = []
        if clip.duration_s < self.seconds:
            found.append(f"lasts {clip.duration_s:.2f} s, less than {self.seconds:g} s")
        if clip.duration_s > self.most_seconds:
            found.append(f"lasts {clip.duration_s:.0f} s, more than {self.most_seconds:g} s")
        for name, text in TESTS.items():
            worst, most = measured.get(name), getattr(self, name)
            if worst is not None and most is not None and worst.value > most:
                at = "" if worst.time_s is None else f" at {worst.time_s:.2f} s"
                found.append(f"{text.format(**worst._asdict())}{at} (limit {most:g})")
        return found


def measure(robot: MotionRobot, clip: MotionClip) -> dict[str, WorstValue]:
    """Return the worst value of every applicable test."""
    joints, names, fps = clip.joint_pos.astype(float), clip.joint_names, clip.fps

    def worst(values: np.ndarray, parts: tuple[str, ...] = (), shift: float = 0.0) -> WorstValue:
        """Return the maximum of values (T,) or (T, parts), with its part and time."""
        place = np.unravel_index(int(np.argmax(values)), values.shape)
        part = parts[int(place[1])] if parts else ""
        return WorstValue(max(0.0, float(values[place])), part, (int(place[0]) + shift) / fps)

    turn = Rotation.from_quat(clip.root_quat, scalar_first=True)
    spin = (turn[1:] * turn[:-1].inv()).as_rotvec()
    middle = (spin[2:] + spin[:-2]) / 2 if len(spin) > 2 else spin[:0]
    snap = np.linalg.norm(spin[1:-1] - middle, axis=-1) if len(spin) > 2 else np.zeros(1)
    step = np.linalg.norm(np.diff(clip.root_pos.astype(float), axis=0), axis=-1)
    found: dict[str, WorstValue] = {
        "joint_limit_rad": worst(np.maximum(robot.low - joints, joints - robot.high), names),
        "joint_speed": worst(np.abs(np.diff(joints, axis=0)) * fps, names, 1),
        "joint_jump_rad": worst(frame_jump(joints[..., None]), names),
        "root_speed": worst(step * fps, shift=1),
        "root_jump_m": worst(frame_jump(clip.root_pos.astype(float))),
        "root_spin": worst(np.linalg.norm(spin, axis=-1) * fps, shift=1),
        "root_jump_rad": worst(snap, shift=2),
    }
    return found | _on_ground(robot, clip) | _self_collision(robot, clip) | _arm_phase(robot, clip)


def frame_jump(values: np.ndarray) -> np.ndarray:
    """Return the deviation of each frame of vectors (T, ..., k) from a cubic through its neighbors.

    The deviation of a well-sampled motion is small: 0.03 rad for an amplitude of 1 rad at 3 Hz and
    30 frames per second. A one-frame spike deviates by its size, and a step by half its size.
    """
    off = np.zeros(values.shape[:-1])
    if len(values) < 5:
        return off
    fourth = values[:-4] - 4 * values[1:-3] + 6 * values[2:-2] - 4 * values[3:-1] + values[4:]
    off[2:-2] = np.linalg.norm(fourth, axis=-1) / 6
    for at, sign in ((0, 1), (-1, -1)):
        ends = values[::sign]
        third = np.linalg.norm(ends[0] - 3 * ends[1] + 3 * ends[2] - ends[3], axis=-1)
        off[at] = np.maximum(third - 3 * off[::sign][2:5].max(axis=0), 0.0)
    return off


# ---- feet and ground


class _Ground(NamedTuple):
    """Sole points (T, P, 3), sole heights (T, P) and lowest points of other bodies (T,)."""

    points: list[np.ndarray]
    heights: list[np.ndarray]
    others: np.ndarray


def _ground(robot: MotionRobot, clip: MotionClip) -> _Ground:
    pos, quat = robot.bodies_of(clip)

    def moved(sole: Sole) -> np.ndarray:
        own = torch.as_tensor(sole.points, dtype=torch.float32)
        spread = quat[:, sole.body, None].expand(-1, len(own), 4)
        return (pos[:, sole.body, None] + rotate(spread, own.expand(clip.frames, -1, 3))).numpy()

    figure = RobotFigure(robot)
    soles = [figure.soles[side] for side in figure.sides]
    points = [moved(sole) for sole in soles]
    heights = [way[..., 2] - sole.radii for way, sole in zip(points, soles, strict=True)]
    feet = {sole.body for sole in soles}
    others = [each for each in contact_points(robot) if each.body not in feet]
    lowest = [(moved(each)[..., 2] - each.radii).min(axis=1) for each in others]
    return _Ground(points, heights, np.min(lowest, axis=0) if lowest else np.full(len(pos), np.inf))


def _foot_speeds(clip: MotionClip, ground: _Ground) -> tuple[np.ndarray, np.ndarray]:
    """Return the speed of each sole's lowest point and the support mask, both (T-1, feet).

    Without annotated contacts, support requires a low and slow sole, to exclude low swings.
    """
    speeds, supports = list[np.ndarray](), list[np.ndarray]()
    for foot, (points, height) in enumerate(zip(ground.points, ground.heights, strict=True)):
        step = np.linalg.norm(np.diff(points[..., :2], axis=0), axis=-1) * clip.fps
        lowest = height[1:].argmin(axis=1)[:, None]
        speed = np.take_along_axis(step, lowest, axis=1)[:, 0]
        if clip.contacts is not None:
            stands = clip.contacts[1:, foot] & clip.contacts[:-1, foot]
        else:
            low = height.min(axis=1) < _NEAR_M
            stands = low[1:] & low[:-1] & (speed < _SLOW_M_S)
        speeds.append(speed)
        supports.append(stands)
    return np.stack(speeds, axis=1), np.stack(supports, axis=1)


def _on_ground(robot: MotionRobot, clip: MotionClip) -> dict[str, WorstValue]:
    ground = _ground(robot, clip)
    feet = tuple(robot.model.body(foot).name or "foot" for foot in robot.facts.feet)
    speeds, supports = _foot_speeds(clip, ground)
    low = np.stack([height.min(axis=1) for height in ground.heights], axis=1)
    frame, foot = np.unravel_index(int(np.argmin(low)), low.shape)
    sunk = WorstValue(max(0.0, -float(low.min())), feet[int(foot)], int(frame) / clip.fps)
    found: dict[str, WorstValue] = {"sunk_m": sunk}
    slides = [
        WorstValue(float(speeds[stands, i].mean()), feet[i], int(np.argmax(stands)) / clip.fps)
        for i, stands in enumerate(supports.T)
        if stands.sum() >= _MIN_SUPPORT
    ]
    if slides:
        found["skate_m_s"] = max(slides, key=lambda each: each.value)
    grounded = (low[1:] < _NEAR_M).any(axis=1) & (ground.others[1:] > _LYING_M)
    still = (supports & (speeds < _SLOW_M_S)).any(axis=1)
    found["sliding_s"] = _longest(grounded & ~still, clip.fps)
    air = (low > _NEAR_M).all(axis=1) & (ground.others > _LYING_M)
    found["floating_s"] = _longest(air, clip.fps)
    return found


def ground_offset(robot: MotionRobot, clip: MotionClip) -> float:
    """Return the ground height of a clip in m, the 2nd percentile of the lowest sole height."""
    heights = _ground(robot, clip).heights
    return float(np.percentile(np.min([each.min(axis=1) for each in heights], axis=0), 2))


def _longest(flags: np.ndarray, fps: float) -> WorstValue:
    """Return the duration and start of the longest run of True."""
    start, end = max(runs(flags), key=lambda run: run[1] - run[0], default=(0, 0))
    return WorstValue((end - start) / fps, "", start / fps) if end else WorstValue(0.0)


def runs(flags: np.ndarray) -> list[tuple[int, int]]:
    """Return (first, last + 1) of each run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], flags.astype(int), [0]))))
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]


# ---- swapped joint columns


def _self_collision(robot: MotionRobot, clip: MotionClip) -> dict[str, WorstValue]:
    """Return the 80th percentile of the penetration depth of the worst pair of bodies.

    Bodies that overlap in the default pose, and neighbors in the tree, are ignored.
    """
    model = copy.deepcopy(robot.model)
    solid = model.geom_bodyid > 0  # with visual meshes, as simplified collision shapes are too slim
    model.geom_contype[:] = model.geom_conaffinity[:] = solid
    model.body_contype[:] = model.body_conaffinity[:] = 1
    data = mujoco.MjData(model)

    def overlaps(qpos: np.ndarray) -> dict[tuple[int, int], float]:
        data.qpos[:] = qpos
        mujoco.mj_fwdPosition(model, data)
        found: dict[tuple[int, int], float] = {}
        for contact in data.contact:
            one, two = sorted(int(model.geom_bodyid[g]) for g in contact.geom)
            if one > 0 and contact.dist < 0:
                found[one, two] = max(found.get((one, two), 0.0), -float(contact.dist))
        return found

    rest = overlaps(np.array(robot.facts.rest_qpos))
    every = max(1, clip.frames // _COLLISION_SAMPLES)
    frames = list(range(0, clip.frames, every))
    seen = [overlaps(qpos) for qpos in robot.qpos_of(clip)[::every]]
    pairs = {pair for each in seen for pair in each if pair not in rest}
    best = WorstValue(0.0)
    for pair in pairs:
        depth = np.array([each.get(pair, 0.0) for each in seen])
        value = float(np.percentile(depth, 80))
        if value > best.value:
            names = " and ".join(model.body(body).name or str(body) for body in pair)
            best = WorstValue(value, names, frames[int(np.argmax(depth))] / clip.fps)
    return {"self_collision_m": best}


def _arm_phase(robot: MotionRobot, clip: MotionClip) -> dict[str, WorstValue]:
    """Return the correlation of the hands with the ankles on the same side while walking.

    Arms normally swing in antiphase with the legs. Arms and legs in phase indicate swapped columns.
    """
    figure = RobotFigure(robot)
    speed = float(np.linalg.norm((clip.root_pos[-1] - clip.root_pos[0])[:2])) / clip.duration_s
    if not figure.has_arms or speed < 0.3 or clip.duration_s < 1.5:
        return {}
    pos = robot.bodies_of(clip)[0].numpy()
    turn = Rotation.from_quat(clip.root_quat, scalar_first=True).inv()
    apart: dict[str, np.ndarray] = {}
    for part in ("hand", "ankle"):
        left, right = (pos[:, figure.points[f"{side}_{part}"].body] for side in SIDES)
        apart[part] = turn.apply(left - right)[:, 0]
    hands, feet = (apart[part] - apart[part].mean() for part in ("hand", "ankle"))
    if hands.std() < 0.03 or feet.std() < 0.08:
        return {}
    together = hands * feet
    value, when = float(together.mean() / (hands.std() * feet.std())), int(np.argmax(together))
    return {"arm_phase": WorstValue(value, "an arm", when / clip.fps)}
