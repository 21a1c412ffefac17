"""Episode metrics: functions with a unit that judges apply to recorded episodes.

    score("averages 3 m/s forward", metrics.net_speed(episode, "forward"), zero=0.3, goal=3.0)
    score("comes far", metrics.highest(episode, "displacement"), zero=0.3, goal=3.0)

Judge files import these metrics and those of `telic.judges.tracks` as `metrics`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from telic.judges.episode import RecordedEpisode as Episode
from telic.judges.tracks import (
    METRICS,
    Array,
    Measure,
    change,
    column,
    combined,
    first,
    highest,
    last,
    metric,
    rate_of,
    since,
    track,
)
from telic.rewards.signals import component
from telic.storage.trajectories import COMMANDS

Feet = Sequence[int]
Way = str | float
"""a direction by name or in degrees to the left of the robot's initial heading; "ahead" means the
heading at the start of the judged part"""
DEGREES = {"forward": 0.0, "left": 90.0, "sideways": 90.0, "backward": 180.0, "right": -90.0}
_NEW_COMMAND, _ANSWER_S, _AHEAD_S = 0.05, 0.75, 0.25
"""minimum change of a new command, time to respond, and margin before the next command in s"""
_PLACES = ("x_position", "y_position")


def every_metric() -> dict[str, Callable[..., Any]]:
    """Return all metrics for judge files by name, including the metrics of `tracks`."""
    return {name: each.function for name, each in METRICS.items()}


# ---- going


@metric("m", *_PLACES)
def place(episode: Episode, direction: Way, aside: str | None = None) -> Array:
    """Position along {direction}."""
    if direction == "ahead":
        direction = math.degrees(float(episode["heading"][0]))
    return component(direction, aside, lambda axis: episode[f"{axis}_position"])


@metric("m/s", *_PLACES)
def pace(episode: Episode, direction: Way, aside: str | None = None) -> Array:
    """Speed {direction}, averaged over half seconds."""
    return episode.pace(place(episode, direction, aside))


@metric("m/s", *_PLACES)
def net_speed(episode: Episode, direction: Way, aside: str | None = None) -> float:
    """Distance covered {direction} per second of the full time."""
    way = place(episode, direction, aside)
    return float(way[-1] - way[0]) / max(episode.full_seconds - episode.dt, episode.dt)


@metric("1", *_PLACES)
def still_under_way(episode: Episode, direction: Way, target: float) -> float:
    """Distance covered {direction} in the last fifth of the recording, relative to {target} m."""
    way = place(episode, direction)
    made = way - way[0]
    return float(abs(made[-1] - made[int(0.8 * len(made))])) / target


@metric("1", *_PLACES)
def drift(episode: Episode, direction: Way) -> float:
    """Largest lateral displacement per meter covered {direction}."""
    if direction == "ahead":
        direction = math.degrees(float(episode["heading"][0]))
    degrees = direction if not isinstance(direction, str) else DEGREES[direction]
    aside = place(episode, degrees + 90.0)
    far = np.hypot(*(episode[axis] - episode[axis][0] for axis in _PLACES))
    return float(np.max(np.abs(aside - aside[0]))) / max(float(np.max(far)), 0.5)


@metric("degrees", "heading")
def facing_error(episode: Episode, degrees: float) -> float:
    """Mean error of the heading relative to {degrees} degrees to the left of the start."""
    off = (episode["heading"] - math.radians(degrees) + np.pi) % (2.0 * np.pi) - np.pi
    return float(np.degrees(np.abs(off)).mean())


@metric("turns", *_PLACES)
def winding(episode: Episode, side: str) -> Array:
    """Turns of the path about its center to the {side}."""
    x, y = episode["x_position"], episode["y_position"]
    angle = np.unwrap(np.arctan2(y - y.mean(), x - x.mean()))
    angle = -angle if side == "right" else angle
    return (angle - angle[0]) / (2.0 * np.pi)


@metric("m", *_PLACES)
def radius(episode: Episode) -> float:
    """Mean distance from the center of the path."""
    x, y = episode["x_position"], episode["y_position"]
    return float(np.hypot(x - x.mean(), y - y.mean()).mean())


@metric("1")
def full_length(episode: Episode) -> float:
    """Duration of the episode as a fraction of its full length."""
    return episode.seconds / episode.full_seconds


@metric("1", "action_strength")
def shaking(episode: Episode) -> float:
    """Mean change of the action between steps, where 2 is the full range."""
    pushed = np.clip(episode["action_strength"], -1.0, 1.0)
    return float(np.mean(np.abs(np.diff(pushed, axis=0)))) if len(pushed) > 1 else 0.0


# ---- feet and gaits


@metric("per second", "foot_contact", is_total=True)
def touchdowns(episode: Episode) -> float:
    """Touchdowns per second of the full time."""
    down = episode["foot_contact"] > 0
    return float(np.sum(down[1:] & ~down[:-1])) / episode.full_seconds


@metric("1", "foot_phase", "foot_phase_lock")
def phase_match(episode: Episode, one: Feet, other: Feet) -> float:
    """Cosine of the phase between pairs of feet: 1 in phase, -1 half a stride apart."""
    phase, lock = episode["foot_phase"][-1], episode["foot_phase_lock"][-1]
    a, b = list(one), list(other)
    return float((lock[a] * lock[b] * np.cos(2.0 * np.pi * (phase[a] - phase[b]))).mean())


@metric("1", "foot_phase", "foot_phase_lock")
def phase_lags(episode: Episode, one: Feet, other: Feet) -> Array:
    """Phase between the landings of pairs of feet, as a fraction of a stride."""
    phase, lock = episode["foot_phase"][-1], episode["foot_phase_lock"][-1]
    a, b = list(one), list(other)
    return np.abs((phase[a] - phase[b] + 0.5) % 1.0 - 0.5) * lock[a] * lock[b]


@metric("1", "foot_phase", "foot_phase_lock", "foot_contact")
def lands_as_one(episode: Episode, one: Feet, other: Feet) -> float:
    """Cosine of the phase between the two feet, or fraction of steps on a single foot."""
    down = episode["foot_contact"] > 0
    alone = down & (down.sum(-1, keepdims=True) == 1)
    on_one = float(alone.sum(0).max()) / max(float(down.any(-1).sum()), 1.0)
    return max(phase_match(episode, one, other), 2.0 * on_one - 1.0)


def _treads(episode: Episode, slow: float, leg: float, axes: Sequence[str]) -> tuple[float, Array]:
    """Return the distance covered while moving, in leg lengths, and the touchdowns of each foot."""
    down = episode["foot_contact"] > 0
    paces = [episode.pace(episode[axis]) for axis in axes]
    speed = np.hypot(*paces) if len(paces) > 1 else np.abs(paces[0])
    going = speed > slow
    treads = (down[1:] & ~down[:-1]) & going[1:, None]
    return float(speed[going].sum()) * episode.dt / leg, treads.sum(0)


@metric("leg lengths", "foot_contact", *_PLACES)
def way_per_touch(
    episode: Episode, slow: float, leg: float, axes: Sequence[str] = _PLACES
) -> float:
    """Distance covered per touchdown of the foot with the most touchdowns, in leg lengths.

    `slow` is the minimum speed that counts as moving, and `axes` are the axes of possible motion.
    """
    way, treads = _treads(episode, slow, leg, axes)
    return way / max(float(treads.max()), 1.0) if way > 1.0 else 1.0


@metric("leg lengths", "foot_contact", "stride_frequency", *_PLACES)
def way_per_step(episode: Episode, slow: float, leg: float, axes: Sequence[str] = _PLACES) -> float:
    """Distance covered per step of the foot with the fewest steps, in leg lengths."""
    way, treads = _treads(episode, slow, leg, axes)
    swings = last(episode, "stride_frequency") * episode.seconds
    return way / max(min(swings, float(treads.min())), 1.0) if way > 2.0 else 1.0


@metric("m", "foot_height")
def foot_clearance(episode: Episode, feet: Feet = (), rank: int = -1) -> Array:
    """Height of the lowest of the feet {feet} above the lowest foot.

    Without `feet`, the measured foot has `rank` lower feet.
    """
    up = episode["foot_height"] - episode["foot_height"].min(-1, keepdims=True)
    return up[:, list(feet)].min(-1) if feet else np.sort(up, axis=-1)[:, rank]


@metric("1", "foot_duty_factor", is_total=True)
def skew(episode: Episode, one: Feet, other: Feet) -> float:
    """Difference between the duty factors of the two sides."""
    duty = episode["foot_duty_factor"][-1]
    return float(abs(duty[list(one)].mean() - duty[list(other)].mean()))


@metric("1", is_total=True)
def on_time(episode: Episode, times: Array, period: float, late: float, count: int) -> float:
    """Fraction of {count} repetitions done {period} s after the previous one."""
    done = np.flatnonzero(np.diff(times, prepend=0.0) > 0) * episode.dt
    return float((np.abs(np.diff(done) - period) < late).sum()) / count


# ---- poles and blocks


@metric("rad", "pole_angles")
def pole_angle(episode: Episode) -> Array:
    """Angle of the pole farthest from upright."""
    return np.abs(episode["pole_angles"]).max(-1)


@metric("m", "body_position")
def block(episode: Episode, seen_from: str) -> Array:
    """Distance of the block from the {seen_from}; for its start, the height."""
    where = episode.quantity("body_position", "block")
    if seen_from == "start":
        return where[:, 2] - where[0, 2]
    return np.linalg.norm(where - episode.quantity("body_position", seen_from), axis=-1)


@metric("1", "body_position")
def block_in_hand(episode: Episode) -> float:
    """Fraction of the time off the table with the hand within 0.08 m of the block."""
    up = block(episode, "start") > 0.03
    return float(np.mean(block(episode, "fingertip")[up] < 0.08)) if np.any(up) else 0.0


# ---- commands


def _commanded_and_done(episode: Episode) -> tuple[Array, Array]:
    """Return the commands of each step and the measured rates over half seconds, both (T, 3).

    The rates are the forward speed, the speed to the left and the yaw rate.
    """
    facing = np.unwrap(episode["heading"])
    x, y = (episode.pace(episode[axis]) for axis in _PLACES)
    ahead = x * np.cos(facing) + y * np.sin(facing)
    aside = y * np.cos(facing) - x * np.sin(facing)
    commands = np.stack([episode[name] for name in COMMANDS], -1).astype(float)
    return commands, np.stack((ahead, aside, episode.pace(facing)), -1)


def settled(commands: Array, dt: float) -> Array:
    """Return the steps, (T,), after the response time to a command and well before the next one."""
    steps = np.arange(len(commands))
    new = np.concatenate(([True], np.abs(np.diff(commands, axis=0)).max(-1) > _NEW_COMMAND))
    since = steps - np.maximum.accumulate(np.where(new, steps, 0))
    next_new = np.concatenate((new[1:], [False]))
    until = np.minimum.accumulate(np.where(next_new, steps, len(commands) + 1000)[::-1])[::-1]
    return (since * dt >= _ANSWER_S) & ((until - steps) * dt >= _AHEAD_S)


@metric("1", "heading", *_PLACES)
def command_error(episode: Episode, which: int, least: float) -> float:
    """Mean error of commanded rate {which}, relative to that of standing still.

    `which` is 0 for forward speed, 1 for sideways speed and 2 for the turning rate. `least` is the
    minimum commanded value used for normalization.
    """
    commands, done = _commanded_and_done(episode)
    counts = settled(commands, episode.dt)
    counts = counts if counts.any() else np.ones(len(commands), dtype=bool)
    asked = np.abs(commands[counts]).mean(0)[which]
    missed = np.abs(done - commands)[counts].mean(0)[which]
    return float(missed / max(asked, least))


@metric("1", "heading", *_PLACES)
def moves_at_rest(episode: Episode, largest: Sequence[float]) -> float:
    """Largest mean rate while commanded to stand, relative to the largest commands."""
    commands, done = _commanded_and_done(episode)
    counts = settled(commands, episode.dt)
    rests = (counts if counts.any() else True) & (np.abs(commands).max(-1) < 1e-6)
    moved = np.abs(done) / np.array(largest)
    return float(moved[rests].mean(0).max()) if rests.any() else 0.0


# ---- reference motions


@metric("times", "body_position", "body_height", "heading")
def hand_waves(episode: Episode, body: str, least_m: float, far_m: float) -> Array:
    """Number of times that {body}, while raised, moved {far_m} m to both sides."""
    up = episode.quantity("body_height", body) - episode["height"] > least_m
    hand = episode.quantity("body_position", body)
    ahead, aside = hand[:, 0] - episode["x_position"], hand[:, 1] - episode["y_position"]
    aside = aside * np.cos(episode["heading"]) - ahead * np.sin(episode["heading"])
    held = aside[up] if up.any() else aside
    aside = aside - 0.5 * (np.quantile(held, 0.05) + np.quantile(held, 0.95))
    return episode.count(up & (aside > far_m), aside < -far_m)


def periodic(terms: Sequence[float], angle: Array) -> Array:
    """Return a periodic course from its mean, then cosine and sine of each harmonic."""
    course = np.full(np.shape(angle), terms[0])
    for place, size in enumerate(terms[1:]):
        wave = np.sin if place % 2 else np.cos
        course = course + size * wave((place // 2 + 1) * angle)
    return course


@metric("rad", "joint_position")
def motion_error(
    episode: Episode, hertz: float, joints: Sequence[tuple[str, Sequence[float]]], shifts: int
) -> float:
    """Mean deviation of the joints from the motion, at the best matching phase of its cycle.

    Each joint has a name and Fourier coefficients: the mean, then cosine and sine per harmonic. The
    motion is compared at `shifts` phases of its cycle.
    """
    done = np.stack([episode.quantity("joint_position", joint) for joint, _ in joints], -1)
    at = 2.0 * math.pi * hertz * episode.dt * np.arange(1, len(done) + 1)
    at = at + 2.0 * math.pi / shifts * np.arange(shifts)[:, None]
    shown = np.stack([periodic(terms, at) for _, terms in joints], -1)
    return float(np.abs(done - shown).mean((1, 2)).min())


# ---- measures composed of these


def gone(axes: Sequence[str] = _PLACES, at: Sequence[float] = ()) -> Measure:
    """Return the distance from the start, or from a point relative to the start."""
    ways = [change(track(axis)) for axis in axes]
    ways = [way - to for way, to in zip(ways, at, strict=True)] if at else ways
    far = abs(ways[0]) if len(ways) == 1 else combined("hypot", *ways)
    return replace(far, words=f"distance from {tuple(at)}" if at else "distance from the start")


def turned_back(direction: Way, aside: str | None = None) -> Measure:
    """Return the fraction of the distance that was lost by moving back."""
    way = place(direction, aside)
    farthest = highest(way)
    return (farthest - last(way)) / combined("maximum", farthest - first(way), 0.5)


def climbed(sign: int) -> Measure:
    """Return the height of the ground climbed in steps, or the distance along a slope."""
    rise = change(track("ground_height", sign=sign))
    return rise / combined("maximum", first("ground_step"), 1e-3)


def turned(side: str) -> Measure:
    """Return the turns of the heading to a side."""
    return track("heading_turns", sign=-1 if side == "right" else 1)


def turning_rate(turns: Measure) -> Measure:
    """Return the rate of turns in rad/s."""
    return replace(rate_of(turns) * 6.2832, unit="rad/s")


def raised(body: str, least_m: float) -> Measure:
    """Return whether a body is more than `least_m` m above the torso."""
    return track("body_height", body) - track("height") > least_m


def rise(bodies: Sequence[str], *, highest: bool = False, from_torso: bool = True) -> Measure:
    """Return the height of the lowest or highest body relative to its initial height."""
    ends = [track("body_height", body) for body in bodies]
    ends = [change(end - track("height") if from_torso else end) for end in ends]
    words = f"height of {' and '.join(bodies)} relative to its initial height"
    return replace(combined("maximum" if highest else "minimum", *ends), words=words)


def touching(bodies: Sequence[str], least: float) -> Measure:
    """Return whether a contact force above `least` N acts on one of the bodies."""
    force = combined("maximum", *(track("contact_force", body) for body in bodies))
    words = f"a force above {least:.3g} N acts on {' and '.join(bodies)}"
    return replace(force > least, words=words)


def contact(feet: Feet) -> Measure:
    """Return whether any of the given feet is on the ground."""
    return combined("maximum", *(column(track("foot_contact"), foot) for foot in feet))


def on_feet(others: Feet, mine: Feet = ()) -> Measure:
    """Return whether the robot stands on a foot in `mine` (default: any), but none in `others`."""
    held = (contact(mine) if mine else track("feet_in_contact")) > 0.0
    held = held & (contact(others) <= 0.0) if others else held
    return replace(held, words="it stands on the right feet only")


def on_few_feet(most: int) -> Measure:
    """Return whether the robot stands on between one and `most` feet."""
    held = (track("feet_in_contact") > 0.0) & (track("feet_in_contact") <= most)
    return replace(held, words=f"it stands on at most {most} feet")


def flying(least_s: float, least_m: float) -> Measure:
    """Return whether the robot is in a flight of over `least_s` s that rises `least_m` m."""
    air = track("air_time")
    rises = since(track("height"), air <= 0.0) > least_m
    words = f"it is in a flight of over {least_s:.3g} s that rises {least_m:.3g} m"
    return replace((air > least_s) & rises, words=words)


def standing(upright: float, height: float | None = None) -> Measure:
    """Return whether the torso is upright and high enough."""
    held = track("uprightness") > upright
    return held if height is None else held & (track("height") > height)


def lying(height: float, flat: bool) -> Measure:
    """Return whether the torso is below a height and, if required, flat."""
    held = track("height") < height
    return held & (abs(track("uprightness")) < 0.6) if flat else held
