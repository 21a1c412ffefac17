"""Families of generated motions and their plans: trajectories of root, feet and hands.

Lengths are in leg lengths (hip to ankle) and times in pendulum periods of the leg, so a plan fits
both small and tall robots. Steps are planned first. The root then moves as an inverted pendulum
over the planned feet, which keeps the zero moment point under the soles.
"""

from __future__ import annotations

import functools
import math
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import interpolate as _interpolate

from telic.motions._figure import SIDES, Side

GRAVITY = 9.81
FPS = 50.0


class Footing(NamedTuple):
    """Placement of a foot: forward and left position, and yaw."""

    x: float
    y: float
    yaw: float = 0.0


class Stride(NamedTuple):
    """Single step that moves one foot to a new placement."""

    side: Side
    to: Footing
    start_s: float
    end_s: float
    lift: float
    """maximum swing height in m"""


@dataclass(frozen=True, slots=True)
class FootPath:
    """Trajectory of a foot."""

    place: np.ndarray
    """center of the sole (T, 3) relative to its initial position, in m"""
    yaw: np.ndarray
    """yaw of the foot (T,), in rad"""
    stands: np.ndarray
    """whether the foot is in stance (T,)"""


@dataclass(slots=True)
class MotionPlan:
    """Trajectories of root, feet, chest and hands."""

    frames: int
    feet: dict[Side, FootPath]
    root: np.ndarray
    """position of the root (T, 2) on the ground"""
    yaw: np.ndarray
    height: np.ndarray
    """root height (T,) relative to its resting height, in m"""
    pitch: np.ndarray
    twist: np.ndarray
    """yaw of the chest (T,) relative to the root, if the robot has a waist joint"""
    hands: dict[Side, np.ndarray] = field(default_factory=dict[Side, np.ndarray])
    """hand positions (T, 3) relative to the shoulder in the root frame, in arm lengths"""


def times(plan: MotionPlan) -> np.ndarray:
    """Return the time of each frame in s."""
    return np.arange(plan.frames) / FPS


def smooth(share: np.ndarray) -> np.ndarray:
    """Return a smooth step from 0 to 1 with zero slope at both ends."""
    share = np.clip(share, 0.0, 1.0)
    return share**3 * (10 + share * (6 * share - 15))


def _standing(duration_s: float, stance: dict[Side, Footing]) -> MotionPlan:
    """Return a plan without motion."""
    return stepping(duration_s, stance, [], 1.0)


def stepping(
    duration_s: float, stance: dict[Side, Footing], strides: list[Stride], height_m: float
) -> MotionPlan:
    """Return a walk with the given strides.

    Args:
        duration_s: duration in s.
        stance: initial foot placements.
        strides: strides in order of time, one foot at a time.
        height_m: height in m of the center of mass for the inverted pendulum.
    """
    frames = max(2, round(duration_s * FPS) + 1)
    feet: dict[Side, FootPath] = {side: _foot_path(frames, side, stance, strides) for side in SIDES}
    yaw = (feet["left"].yaw + feet["right"].yaw) / 2
    zero = np.zeros(frames)
    root = pendulum(_balance(frames, stance, strides), height_m)
    return MotionPlan(frames, feet, root, yaw, zero, zero.copy(), zero.copy())


def _foot_path(
    frames: int, side: Side, stance: dict[Side, Footing], strides: list[Stride]
) -> FootPath:
    time, here = np.arange(frames) / FPS, stance[side]
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
    """Return the zero moment point, which lies between the feet in double support."""
    here, time = dict(stance), np.arange(frames) / FPS
    knots: list[tuple[float, np.ndarray]] = [(0.0, _middle(here))]
    for stride in strides:
        other: Side = "right" if stride.side == "left" else "left"
        under = np.array([here[other].x, here[other].y])
        knots += [(stride.start_s, under), (stride.end_s, under)]
        here[stride.side] = stride.to
    knots.append((max(time[-1], knots[-1][0] + 0.4), _middle(here)))
    when = np.array([time for time, _ in knots])
    where = np.array([place for _, place in knots])
    return np.stack([np.interp(time, when, where[:, i]) for i in range(2)], axis=1)


def _middle(stance: dict[Side, Footing]) -> np.ndarray:
    return np.mean([(each.x, each.y) for each in stance.values()], axis=0)


def pendulum(balance: np.ndarray, height_m: float) -> np.ndarray:
    """Return the path (T, 2) of a mass with the given zero moment point.

    Solves x - (height / gravity) x'' = balance for a mass at rest before and after the frames.
    """
    frames = len(balance)
    stiff = height_m / GRAVITY * FPS**2
    matrix = np.eye(frames) * (1.0 + 2.0 * stiff)
    side = np.arange(frames - 1)
    matrix[side, side + 1] = matrix[side + 1, side] = -stiff
    matrix[0, 0] = matrix[-1, -1] = 1.0 + stiff
    return np.linalg.solve(matrix, balance)


def cut(plan: MotionPlan, first: int, last: int) -> MotionPlan:
    """Return the frames of a plan from `first` (inclusive) to `last` (exclusive)."""
    part = slice(first, last)
    names = ("root", "yaw", "height", "pitch", "twist")
    feet: dict[Side, FootPath] = {
        side: FootPath(path.place[part], path.yaw[part], path.stands[part])
        for side, path in plan.feet.items()
    }
    hands: dict[Side, np.ndarray] = {side: way[part] for side, way in plan.hands.items()}
    rows: dict[str, Any] = {name: getattr(plan, name)[part] for name in names}
    return replace(plan, frames=last - first, feet=feet, hands=hands, **rows)


interpolate: Any = _interpolate  # untyped
Parameters = Mapping[str, float]
_DOUBLE = 0.24
"""double support as a fraction of the step duration"""


class Measures(NamedTuple):
    """Body measurements on which plans depend."""

    leg_m: float
    height_m: float
    """height of the center of mass above the ground, in m"""
    stance: dict[Side, Footing]
    """foot placements in the resting pose"""

    @property
    def rhythm_s(self) -> float:
        """Period of the leg as a pendulum, in s."""
        return math.pi * math.sqrt(self.leg_m * 2 / 3 / GRAVITY)

    @property
    def speed(self) -> float:
        """Speed in m/s that is equivalent to 1 m/s for legs of 0.88 m."""
        return math.sqrt(self.leg_m / 0.88)


class ParameterRange(NamedTuple):
    """Range of values of a parameter."""

    low: float
    high: float


class MotionFamily(NamedTuple):
    """Family of motions with its parameters."""

    make: Callable[[Measures, Parameters], MotionPlan]
    says: str
    held: str
    """parameter with values reserved for validation and test"""
    ranges: dict[str, ParameterRange]
    is_planar: bool = True
    """whether the motion is possible in the sagittal plane"""
    needs_arms: bool = False


# ---- in place


def _waves(plan: MotionPlan, hertz: float) -> np.ndarray:
    """Return a cosine wave from 0 to 1 and back, starting at rest at 0."""
    time = times(plan)
    return (1.0 - np.cos(2 * math.pi * hertz * time)) / 2


def _whole(duration_s: float, hertz: float) -> float:
    """Return a duration rounded to a whole number of periods, but at least one."""
    return max(1, round(duration_s * hertz)) / hertz


def stand(body: Measures, p: Parameters) -> MotionPlan:
    """Stand and sway slightly."""
    plan = _standing(p["seconds"], body.stance)
    plan.root = plan.root + 0.01 * body.leg_m * np.sin(2 * math.pi * p["hertz"] * times(plan))[
        :, None
    ] * np.array([1.0, 0.3])
    plan.height = plan.height - p["bend"] * body.leg_m
    return plan


def squat(body: Measures, p: Parameters) -> MotionPlan:
    """Squat and stand up."""
    plan = _standing(_whole(p["seconds"], p["hertz"]), body.stance)
    down = _waves(plan, p["hertz"])
    plan.height = -p["depth"] * body.leg_m * down
    plan.pitch = 0.9 * p["depth"] * down
    return plan


def shift(body: Measures, p: Parameters) -> MotionPlan:
    """Shift the weight forward and backward, and from foot to foot."""
    plan = _standing(_whole(p["seconds"], p["hertz"]), body.stance)
    phase = 2 * math.pi * p["hertz"] * times(plan)
    settle = smooth(times(plan) * 2) * smooth((times(plan)[-1] - times(plan)) * 2)
    width = abs(body.stance["left"].y - body.stance["right"].y)
    plan.root = plan.root + settle[:, None] * np.stack(
        [p["ahead"] * body.leg_m * np.sin(phase), 0.5 * p["aside"] * width * np.sin(phase / 2)], 1
    )
    plan.height = plan.height - 0.03 * body.leg_m
    return plan


def bow(body: Measures, p: Parameters) -> MotionPlan:
    """Lean the trunk forward and straighten up."""
    plan = _standing(_whole(p["seconds"], p["hertz"]), body.stance)
    down = _waves(plan, p["hertz"])
    plan.pitch = p["angle"] * down
    plan.root[:, 0] -= 0.18 * body.leg_m * np.sin(plan.pitch)
    plan.height = plan.height - 0.04 * body.leg_m * (1 + down)
    return plan


def hop(body: Measures, p: Parameters) -> MotionPlan:
    """Jump with both feet, in place or forward."""
    rise, dip = p["rise"] * body.leg_m, p["dip"] * body.leg_m
    flight = 2 * math.sqrt(2 * rise / GRAVITY)
    off = GRAVITY * flight / 2
    push = min(0.6, max(0.12, 3 * dip / off))
    knots = np.cumsum([0.0, 0.5, 0.45, push, flight, push, 0.5, 0.3])
    heights = [0.0, 0.0, -dip, 0.0, 0.0, -dip, 0.0, 0.0]
    slopes = [0.0, 0.0, 0.0, off, -off, 0.0, 0.0, 0.0]
    plan = _standing(float(knots[-1]), body.stance)
    time = times(plan)
    height = interpolate.CubicHermiteSpline(knots, heights, slopes)(time)
    air = (time > knots[3]) & (time < knots[4])
    high = off * (time - knots[3]) - GRAVITY / 2 * (time - knots[3]) ** 2
    plan.height = np.where(air, high, height) - 0.03 * body.leg_m
    far = p["ahead"] * body.leg_m
    speed = np.interp(time, knots[2:6], [0.0, 1.0, 1.0, 0.0])
    way = np.cumsum(speed) / speed.sum() * far
    share = np.clip((time - knots[3]) / flight, 0, 1)
    for side in SIDES:
        path = plan.feet[side]
        path.place[:, 0] += far * smooth(share)
        path.place[:, 2] += np.where(air, np.maximum(high, 0.0), 0.0)
        path.stands[:] = ~air
    plan.root[:, 0] += way
    plan.pitch = 0.8 * p["dip"] * np.clip(-height / max(dip, 1e-6), 0, 1)
    return plan


# ---- stepping


def _walked(
    body: Measures, steps: int, step_s: float, advance: Callable[[int, Side], Footing], lift: float
) -> tuple[MotionPlan, float]:
    """Return a walk that starts and ends in a stance, and the time of the first step in s."""
    start = 0.5 + step_s * _DOUBLE / 2
    strides: list[Stride] = []
    for number in range(steps):
        side: Side = SIDES[number % 2]
        begin = start + number * step_s
        lasts = step_s * (1 - _DOUBLE)
        strides.append(Stride(side, advance(number, side), begin, begin + lasts, lift))
    duration = start + steps * step_s + 0.7
    plan = stepping(duration, body.stance, strides, body.height_m)
    return plan, start


def walk(body: Measures, p: Parameters) -> MotionPlan:
    """Walk straight at constant speed, forward or backward."""
    speed = p["speed"] * body.speed
    step_s = body.rhythm_s * 0.72 * (1.25 - 0.2 * abs(p["speed"])) * p["rhythm"]
    stride = speed * step_s
    ramp = 3
    total = max(6, math.ceil(p["seconds"] / step_s)) + 2 * ramp

    def advance(number: int, side: Side) -> Footing:
        full = np.clip(
            np.minimum(np.arange(number + 1) + 1, total - 1 - np.arange(number + 1)), 0, ramp
        )
        return Footing(
            body.stance[side].x + stride * float(full.sum()) / ramp, body.stance[side].y, 0.0
        )

    plan, start = _walked(body, total, step_s, advance, p["lift"] * body.leg_m)
    first = round((start + ramp * step_s) * 50)
    last = min(first + round(_whole(p["seconds"], 1 / (2 * step_s)) * 50) + 1, plan.frames)
    plan = cut(plan, first, last)
    plan.pitch = np.full(plan.frames, 0.05 * p["speed"])
    return plan


def start_stop(body: Measures, p: Parameters) -> MotionPlan:
    """Start walking from standing and stop."""
    step_s = body.rhythm_s * 0.72 * (1.25 - 0.2 * abs(p["speed"]))
    stride = p["speed"] * body.speed * step_s
    total = round(p["steps"])

    def advance(number: int, side: Side) -> Footing:
        ends = np.minimum(np.arange(number + 1) + 1, total - 1 - np.arange(number + 1))
        return Footing(
            body.stance[side].x + stride * float(np.clip(ends, 0, 2).sum()) / 2,
            body.stance[side].y,
        )

    return _walked(body, total, step_s, advance, 0.08 * body.leg_m)[0]


def march(body: Measures, p: Parameters) -> MotionPlan:
    """March in place with high knees."""
    step_s = body.rhythm_s * 0.8 / p["rhythm"]
    steps = 2 * round(p["seconds"] / step_s / 2)

    def advance(number: int, side: Side) -> Footing:
        return body.stance[side]

    return _walked(body, max(2, steps), step_s, advance, p["lift"] * body.leg_m)[0]


def step_over(body: Measures, p: Parameters) -> MotionPlan:
    """Step over a low obstacle with one foot after the other."""
    step_s = body.rhythm_s * p["slow"]
    far = p["far"] * body.leg_m

    def advance(number: int, side: Side) -> Footing:
        return Footing(body.stance[side].x + far * (1 + number // 2), body.stance[side].y)

    return _walked(body, 4, step_s, advance, p["lift"] * body.leg_m)[0]


def side_step(body: Measures, p: Parameters) -> MotionPlan:
    """Step sideways and close with the other foot."""
    step_s = body.rhythm_s * 0.9
    width = p["width"] * body.leg_m
    first = 0 if width > 0 else 1

    def advance(number: int, side: Side) -> Footing:
        moved = (
            (number + 2 - first) // 2 if (number + first) % 2 == 0 else (number + 1 - first) // 2
        )
        return Footing(body.stance[side].x, body.stance[side].y + width * moved)

    return _walked(body, 2 * round(p["steps"]), step_s, advance, 0.08 * body.leg_m)[0]


def turn(body: Measures, p: Parameters) -> MotionPlan:
    """Turn in place with steps."""
    step_s = body.rhythm_s * 0.85

    def advance(number: int, side: Side) -> Footing:
        yaw = p["angle"] * (number + 1)
        x, y = body.stance[side].x, body.stance[side].y
        return Footing(
            x * math.cos(yaw) - y * math.sin(yaw), x * math.sin(yaw) + y * math.cos(yaw), yaw
        )

    return _walked(body, 2 * round(p["steps"]), step_s, advance, 0.07 * body.leg_m)[0]


# ---- arms and trunk


def twist(body: Measures, p: Parameters) -> MotionPlan:
    """Turn the chest left and right."""
    plan = _standing(_whole(p["seconds"], p["hertz"]), body.stance)
    settle = smooth(times(plan) * 2) * smooth((times(plan)[-1] - times(plan)) * 2)
    plan.twist = p["angle"] * settle * np.sin(2 * math.pi * p["hertz"] * times(plan))
    plan.height = plan.height - 0.04 * body.leg_m
    return plan


def raise_arms(body: Measures, p: Parameters) -> MotionPlan:
    """Raise both arms to the front or the side, then lower both arms."""
    plan = _standing(_whole(p["seconds"], p["hertz"]), body.stance)
    angle = p["high"] * _waves(plan, p["hertz"])
    for side, sign in zip(SIDES, (1.0, -1.0), strict=True):
        out = np.sin(angle)
        plan.hands[side] = 0.9 * np.stack(
            [out * math.cos(p["aside"]), sign * (out * math.sin(p["aside"]) + 0.1), -np.cos(angle)],
            axis=1,
        )
    return plan


def wave(body: Measures, p: Parameters) -> MotionPlan:
    """Wave with one hand."""
    plan = _standing(p["seconds"], body.stance)
    _wave_hand(plan, p)
    return plan


def _wave_hand(plan: MotionPlan, p: Parameters) -> None:
    side: Side = "left" if p["left"] > 0.5 else "right"
    sign = 1.0 if side == "left" else -1.0
    time = times(plan)
    up = smooth(time / 0.8) * smooth((time[-1] - time) / 0.8)
    swing = p["wide"] * np.sin(2 * math.pi * p["hertz"] * time)
    raised = np.stack(
        [np.full_like(time, 0.45), sign * (0.35 + swing), np.full_like(time, 0.55)], 1
    )
    down = np.array([0.15, sign * 0.15, -0.9])
    plan.hands[side] = down + up[:, None] * (raised - down)


def reach(body: Measures, p: Parameters) -> MotionPlan:
    """Reach out with one hand and retract it."""
    plan = _standing(_whole(p["seconds"], p["hertz"]), body.stance)
    side: Side = "left" if p["left"] > 0.5 else "right"
    sign = 1.0 if side == "left" else -1.0
    out = _waves(plan, p["hertz"])[:, None]
    near = np.array([0.35, sign * 0.1, -0.55])
    far = 0.92 * np.array(
        [
            math.cos(p["up"]) * math.cos(p["aside"]),
            sign * math.cos(p["up"]) * math.sin(p["aside"]),
            math.sin(p["up"]),
        ]
    )
    plan.hands[side] = near + out * (far - near)
    return plan


def walk_wave(body: Measures, p: Parameters) -> MotionPlan:
    """Walk while waving with one hand."""
    plan = walk(body, {"rhythm": 1.0, **p, "lift": 0.08})
    _wave_hand(plan, p)
    return plan


def walk_back(body: Measures, p: Parameters) -> MotionPlan:
    """Walk backward."""
    return walk(body, {**p, "speed": -p["speed"]})


_PLANS = (
    *(stand, squat, shift, bow, march, walk, walk_back, start_stop, step_over, hop),
    *(side_step, turn, twist, raise_arms, wave, reach, walk_wave),
)


@functools.cache
def families() -> dict[str, MotionFamily]:
    """Return all families by name."""
    table = tomllib.loads((Path(__file__).parent / "families.toml").read_text())
    found: dict[str, MotionFamily] = {}
    for make in _PLANS:
        own = table[make.__name__]
        found[make.__name__] = MotionFamily(
            make=make,
            says=(make.__doc__ or "").strip(),
            held=own["held"],
            ranges={name: ParameterRange(*values[:2]) for name, values in own["ranges"].items()},
            is_planar=own.get("planar", True),
            needs_arms=own.get("arms", False),
        )
    return found
