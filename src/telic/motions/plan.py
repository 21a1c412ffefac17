"""Plans of motions: where root, feet and hands of any robot on two legs should be, over time.

Lengths are in legs (hip to ankle) and times in the time a leg takes to swing as a pendulum would,
so that one plan is a brisk walk for a small robot and for a tall one. Steps are planned first; the
root then moves as an inverted pendulum whose foot is the planned one, which keeps the point of
balance (zero moment point) under the soles.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from telic.motions.figure import SIDES, Side

GRAVITY = 9.81
FPS = 50.0


class Footing(NamedTuple):
    """Where a foot stands: ahead, to the left, and turned."""

    x: float
    y: float
    yaw: float = 0.0


class Stride(NamedTuple):
    """One foot that goes to another place."""

    side: Side
    to: Footing
    start_s: float
    end_s: float
    lift: float
    """highest point of the way, m"""


@dataclass(frozen=True, slots=True)
class FootPath:
    """A foot over time."""

    place: np.ndarray
    """(T, 3) the middle of the sole, from where it stands at first, m"""
    yaw: np.ndarray
    """(T,)"""
    stands: np.ndarray
    """(T,) bool"""


@dataclass(slots=True)
class MotionPlan:
    """What the parts of a robot should do."""

    frames: int
    feet: dict[Side, FootPath]
    balance: np.ndarray
    """(T, 2) where the root should be above ground if it moved slowly"""
    root: np.ndarray
    """(T, 2) ground position of the root"""
    yaw: np.ndarray
    height: np.ndarray
    """(T,) of the root beside its usual one, m"""
    pitch: np.ndarray
    roll: np.ndarray
    twist: np.ndarray
    """(T,) yaw of the chest against the root, where the robot can"""
    hands: dict[Side, np.ndarray] = field(default_factory=dict[Side, np.ndarray])
    """(T, 3) from the shoulder, in the root's frame, in arm's lengths"""
    is_slow: bool = False
    """whether nothing is thrown: balance alone must keep it up"""


def times(plan_or_frames: MotionPlan | int) -> np.ndarray:
    """Return the time of each frame, s."""
    frames = plan_or_frames if isinstance(plan_or_frames, int) else plan_or_frames.frames
    return np.arange(frames) / FPS


def smooth(share: np.ndarray) -> np.ndarray:
    """Return 0 to 1 without a jerk at the ends, for shares that go from 0 to 1."""
    share = np.clip(share, 0.0, 1.0)
    return share**3 * (10 + share * (6 * share - 15))


def standing(duration_s: float, stance: dict[Side, Footing]) -> MotionPlan:
    """Return a plan in which nothing moves."""
    return stepping(duration_s, stance, [], 1.0)


def stepping(
    duration_s: float, stance: dict[Side, Footing], strides: list[Stride], height_m: float
) -> MotionPlan:
    """Return the plan of a walk of given strides.

    Args:
        duration_s: how long it takes.
        stance: where the feet stand at first.
        strides: which feet go where, in order of time; one foot at a time.
        height_m: of the mass above the ground, which says how it falls.
    """
    frames = max(2, round(duration_s * FPS) + 1)
    feet: dict[Side, FootPath] = {side: _foot_path(frames, side, stance, strides) for side in SIDES}
    balance = _balance(frames, stance, strides)
    yaw = (feet["left"].yaw + feet["right"].yaw) / 2
    zero = np.zeros(frames)
    root = pendulum(balance, height_m)
    return MotionPlan(frames, feet, balance, root, yaw, zero, zero.copy(), zero.copy(), zero.copy())


def _foot_path(
    frames: int, side: Side, stance: dict[Side, Footing], strides: list[Stride]
) -> FootPath:
    time, here = times(frames), stance[side]
    place = np.tile([here.x, here.y, 0.0], (frames, 1))
    yaw, stands = np.full(frames, here.yaw), np.ones(frames, dtype=bool)
    for stride in strides:
        if stride.side != side:
            continue
        share = (time - stride.start_s) / (stride.end_s - stride.start_s)
        during, after = (share > 0) & (share < 1), share >= 1
        way = smooth(share)
        for column, (a, b) in enumerate(((here.x, stride.to.x), (here.y, stride.to.y))):
            place[during, column] = a + (b - a) * way[during]
            place[after, column] = b
        place[during, 2] = stride.lift * np.sin(np.pi * way[during]) ** 2
        yaw[during] = here.yaw + (stride.to.yaw - here.yaw) * way[during]
        yaw[after] = stride.to.yaw
        stands[during] = False
        here = stride.to
    return FootPath(place, yaw, stands)


def _balance(frames: int, stance: dict[Side, Footing], strides: list[Stride]) -> np.ndarray:
    """Return the point of balance: under the foot that stands, on its way between while both do."""
    here = dict(stance)
    middle = _middle(here)
    knots: list[tuple[float, np.ndarray]] = [(0.0, middle)]
    for stride in strides:
        other: Side = "right" if stride.side == "left" else "left"
        under = np.array([here[other].x, here[other].y])
        knots += [(stride.start_s, under), (stride.end_s, under)]
        here[stride.side] = stride.to
    knots.append((max(times(frames)[-1], knots[-1][0] + 0.4), _middle(here)))
    when = np.array([time for time, _ in knots])
    where = np.array([place for _, place in knots])
    return np.stack([np.interp(times(frames), when, where[:, i]) for i in range(2)], axis=1)


def _middle(stance: dict[Side, Footing]) -> np.ndarray:
    return np.mean([(each.x, each.y) for each in stance.values()], axis=0)


def pendulum(balance: np.ndarray, height_m: float) -> np.ndarray:
    """Return the ground path (T, 2) of a mass whose point of balance is as given.

    Solves x - (height / gravity) x'' = balance, at rest before the first and after the last frame.
    """
    frames = len(balance)
    stiff = height_m / GRAVITY * FPS**2
    matrix = np.eye(frames) * (1.0 + 2.0 * stiff)
    side = np.arange(frames - 1)
    matrix[side, side + 1] = matrix[side + 1, side] = -stiff
    matrix[0, 0] = matrix[-1, -1] = 1.0 + stiff
    return np.linalg.solve(matrix, balance)


def cut(plan: MotionPlan, first: int, last: int) -> MotionPlan:
    """Return the frames of a plan from `first` up to, and without, `last`."""
    part = slice(first, last)
    feet: dict[Side, FootPath] = {
        side: FootPath(path.place[part], path.yaw[part], path.stands[part])
        for side, path in plan.feet.items()
    }
    hands: dict[Side, np.ndarray] = {side: way[part] for side, way in plan.hands.items()}
    return MotionPlan(
        frames=last - first,
        feet=feet,
        balance=plan.balance[part],
        root=plan.root[part],
        yaw=plan.yaw[part],
        height=plan.height[part],
        pitch=plan.pitch[part],
        roll=plan.roll[part],
        twist=plan.twist[part],
        hands=hands,
        is_slow=plan.is_slow,
    )
