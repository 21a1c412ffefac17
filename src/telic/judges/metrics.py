"""Episode metrics: functions with a unit that judges apply to recorded episodes.

    score("averages 3 m/s forward", metrics.net_speed(episode, "forward"), zero=0.3, goal=3.0)
    score("is upright", metrics.share_above(episode, "uprightness", 0.85), zero=0.3, goal=0.8)

Judge files import these and the metrics of `telic.judges.tracks` under one name, `metrics`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from telic.judges.episode import RecordedEpisode as Episode
from telic.judges.tracks import METRICS, Array, Track, last, metric, values_of
from telic.storage.trajectories import COMMANDS

Feet = Sequence[int]
Way = str | float
"""a direction by name or in degrees to the left of the robot's initial heading; "ahead" means the
heading at the start of the judged part"""
_AXES = {
    "forward": ("x_position", 1.0),
    "backward": ("x_position", -1.0),
    "left": ("y_position", 1.0),
    "right": ("y_position", -1.0),
    "sideways": ("y_position", 1.0),
}
DEGREES = {"forward": 0.0, "left": 90.0, "sideways": 90.0, "backward": 180.0, "right": -90.0}
_DIAGONAL = 0.7071
_NEW_COMMAND, _ANSWER_S, _AHEAD_S = 0.05, 0.75, 0.25
"""minimum change of a new command, time to respond, and margin before the next command in s"""
_PLACES = ("x_position", "y_position")


def every_metric() -> dict[str, Callable[..., Any]]:
    """Return all metrics for judge files, from this module and `tracks`, by name."""
    return {name: each.function for name, each in METRICS.items()}


# ---- going


@metric("m", *_PLACES)
def place(episode: Episode, direction: Way, aside: str | None = None) -> Array:
    """Position along {direction}."""
    if direction == "ahead":
        direction = math.degrees(float(episode["heading"][0]))
    if not isinstance(direction, str):
        angle = math.radians(direction)
        return episode["x_position"] * math.cos(angle) + episode["y_position"] * math.sin(angle)
    axis, sign = _AXES[direction]
    found = -episode[axis] if sign < 0 else episode[axis]
    return found if aside is None else _DIAGONAL * (found + place(episode, aside))


@metric("m", *_PLACES)
def way_made(episode: Episode, direction: Way) -> Array:
    """Distance covered {direction}."""
    along = place(episode, direction)
    return along - along[0]


@metric("1", *_PLACES)
def way_there(episode: Episode, direction: Way, metres: float) -> Episode:
    """Part of the episode until {metres} m are covered {direction}."""
    return episode.before(episode.first(way_made(episode, direction) > metres))


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
def speed_error(
    episode: Episode, direction: Way, goal: float, aside: str | None = None, at_least: bool = False
) -> float:
    """Difference of the speed {direction} over the full time from {goal} m/s, relative to it."""
    ratio = net_speed(episode, direction, aside) / goal
    return max(1.0 - ratio, 0.0) if at_least else abs(ratio - 1.0)


@metric("1", *_PLACES)
def still_under_way(episode: Episode, direction: Way, target: float) -> float:
    """Distance covered {direction} in the last fifth of the recording, relative to {target} m."""
    made = way_made(episode, direction)
    return float(abs(made[-1] - made[int(0.8 * len(made))])) / target


@metric("1", *_PLACES)
def turned_back(episode: Episode, direction: Way, aside: str | None = None) -> float:
    """Fraction of the distance {direction} that was lost by moving back."""
    way = place(episode, direction, aside)
    return float((np.max(way) - way[-1]) / max(np.max(way) - way[0], 0.5))


@metric("m", *_PLACES)
def gone(episode: Episode, axes: Sequence[str] = _PLACES) -> Array:
    """Distance from the start."""
    ways = [episode[axis] - episode[axis][0] for axis in axes]
    return np.hypot(*ways) if len(ways) > 1 else np.abs(ways[0])


@metric("1", "y_position", "distance_travelled")
def aside_per_metre(episode: Episode) -> float:
    """Lateral displacement per meter travelled."""
    return float(np.ptp(episode["y_position"])) / max(1.0, last(episode, "distance_travelled"))


@metric("1", *_PLACES)
def drift(episode: Episode, direction: Way) -> float:
    """Largest lateral displacement per meter covered {direction}."""
    if direction == "ahead":
        direction = math.degrees(float(episode["heading"][0]))
    degrees = direction if not isinstance(direction, str) else DEGREES[direction]
    aside = way_made(episode, degrees + 90.0)
    return float(np.max(np.abs(aside))) / max(float(np.max(gone(episode))), 0.5)


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


@metric("turns", "heading_turns")
def turned(episode: Episode, side: str) -> Array:
    """Turns of the heading to the {side}."""
    return -episode["heading_turns"] if side == "right" else episode["heading_turns"]


@metric("steps", "ground_height", "ground_step")
def climbed(episode: Episode, sign: int) -> Array:
    """Height of the ground climbed, in steps; for slopes, distance along the slope."""
    ground, step = episode["ground_height"], max(float(episode["ground_step"][0]), 1e-3)
    return (-(ground - ground[0]) if sign < 0 else ground - ground[0]) / step


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


@metric("1", "foot_contact")
def touches(episode: Episode) -> Array:
    """A foot touches the ground."""
    return np.asarray((episode["foot_contact"] > 0).any(-1))


@metric("1/s", "foot_contact", is_total=True)
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
def phase_apart(episode: Episode, one: Feet, other: Feet) -> float:
    """Negative cosine of the phase between pairs of feet: 1 half a stride apart."""
    return -phase_match(episode, one, other)


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

    `slow`: minimum speed that counts as moving; `axes`: axes along which it can move.
    """
    way, treads = _treads(episode, slow, leg, axes)
    return way / max(float(treads.max()), 1.0) if way > 1.0 else 1.0


@metric("leg lengths", "foot_contact", "stride_frequency", *_PLACES)
def way_per_step(episode: Episode, slow: float, leg: float, axes: Sequence[str] = _PLACES) -> float:
    """Distance covered per step of the foot with the fewest steps, in leg lengths."""
    way, treads = _treads(episode, slow, leg, axes)
    swings = last(episode, "stride_frequency") * episode.seconds
    return way / max(min(swings, float(treads.min())), 1.0) if way > 2.0 else 1.0


@metric("1", "foot_contact", "foot_height")
def on_feet(
    episode: Episode,
    others: Feet,
    mine: Feet = (),
    clear_m: float | None = None,
) -> Array:
    """The robot stands on the right feet only, with the others off the ground.

    `clear_m`: minimum height of the others above the lowest foot.
    """
    down = episode["foot_contact"] > 0
    up = ~down[:, list(others)].any(-1) if len(others) else np.ones(len(down), dtype=bool)
    held = np.asarray(up & (down[:, list(mine)] if len(mine) else down).any(-1))
    if clear_m is None:
        return held
    return held & (_feet_up(episode)[:, list(others)].min(-1) > clear_m)


@metric("1", "foot_contact", "foot_height")
def on_few_feet(episode: Episode, most: int, clear_m: float | None = None) -> Array:
    """The robot stands on at most {most} feet, with the others off the ground."""
    down = episode["foot_contact"] > 0
    held = (down.sum(-1) <= most) & down.any(-1)
    if clear_m is None:
        return held
    return held & (np.sort(_feet_up(episode), axis=-1)[:, most] > clear_m)


def _feet_up(episode: Episode) -> Array:
    return episode["foot_height"] - episode["foot_height"].min(-1, keepdims=True)


@metric("1", "contact_force")
def touching(episode: Episode, bodies: Sequence[str], least: float) -> Array:
    """A force above {least} N acts on {bodies}."""
    forces = [episode.quantity("contact_force", body) for body in bodies]
    return np.stack(forces, -1).max(-1) > least


@metric("1", "contact_force", "foot_contact")
def on_hands_only(episode: Episode, hands: Sequence[str], least: float) -> Array:
    """A hand touches the ground and no foot does."""
    return touching(episode, hands, least) & ~touches(episode)


@metric("1", "foot_duty_factor", is_total=True)
def skew(episode: Episode, one: Feet, other: Feet) -> float:
    """Difference between the duty factors of the two sides."""
    duty = episode["foot_duty_factor"][-1]
    return float(abs(duty[list(one)].mean() - duty[list(other)].mean()))


# ---- jumping, turning over


@metric("times", "air_time", "height")
def flights(episode: Episode, least_s: float, least_m: float) -> Array:
    """Flights of over {least_s} s that rise {least_m} m and land."""
    air = episode["air_time"]
    rise = episode.since(episode["height"], air == 0)
    return episode.count((air > least_s) & (rise > least_m), air == 0)


@metric("1", "air_time", "height")
def flying(episode: Episode, least_s: float, least_m: float) -> Array:
    """The robot is in a flight of over {least_s} s that rises {least_m} m."""
    air = episode["air_time"]
    return (air > least_s) & (episode.since(episode["height"], air == 0) > least_m)


@metric("as the track", "air_time")
def in_air(episode: Episode, track: Track) -> Array:
    """{track} in flight."""
    return np.where(episode["air_time"] > 0, values_of(episode, track), 0.0)


@metric("m", "feet_in_contact", *_PLACES)
def leap(episode: Episode, direction: Way) -> Array:
    """Distance covered {direction} in one flight."""
    return episode.since(place(episode, direction), episode["feet_in_contact"] > 0)


@metric("1", is_total=True)
def on_time(episode: Episode, times: Array, period: float, late: float, count: int) -> float:
    """Fraction of {count} repetitions done {period} s after the previous one."""
    done = np.flatnonzero(np.diff(times, prepend=0.0) > 0) * episode.dt
    return float((np.abs(np.diff(done) - period) < late).sum()) / count


@metric("1", "uprightness", "feet_in_contact")
def landed(episode: Episode, turns: Array, least: float, has_feet: bool = True) -> Array:
    """The robot is on its feet after more than {least} turns."""
    over = turns > least
    stands = over & (episode["uprightness"] > 0.7)
    return stands & (episode["feet_in_contact"] > 0) if has_feet else stands


# ---- postures


@metric("1", "height", "uprightness")
def standing(episode: Episode, upright: float, height: float | None = None) -> Array:
    """The torso is upright and high enough."""
    held = episode["uprightness"] > upright
    return held if height is None else held & (episode["height"] > height)


@metric("1", "height", "uprightness")
def lying(episode: Episode, height: float, flat: bool) -> Array:
    """The torso lies below {height} m."""
    low = episode["height"] < height
    return low & (np.abs(episode["uprightness"]) < 0.6) if flat else low


# ---- limbs, poles, blocks


@metric("m", "body_height", "height")
def rise(
    episode: Episode, bodies: Sequence[str], highest: bool = False, from_torso: bool = True
) -> Array:
    """Height of {bodies} relative to its initial height."""
    ends = np.stack([episode.quantity("body_height", body) for body in bodies], -1)
    if from_torso:
        ends = ends - episode["height"][:, None]
    moved = ends - ends[0]
    return moved.max(-1) if highest else moved.min(-1)


def _swing(episode: Episode, body: str, sign: int) -> Array:
    ahead = episode.quantity("body_position", body)[:, 0] - episode["x_position"]
    ahead = -ahead if sign < 0 else ahead
    return np.gradient(ahead) / episode.dt if len(ahead) > 1 else np.zeros(1)


def _is_free(episode: Episode, foot: int, others: Feet) -> Array:
    down = episode["foot_contact"] > 0
    return ~down[:, foot] & down[:, list(others)].any(-1) if len(others) else ~down[:, foot]


@metric("m/s", "body_position", "foot_contact")
def kick_speed(episode: Episode, body: str, foot: int, others: Feet = (), sign: int = 1) -> Array:
    """Speed of {body} off the ground, relative to the torso."""
    return np.where(_is_free(episode, foot, others), _swing(episode, body, sign), 0.0)


@metric("times", "body_position", "foot_contact")
def kicks(
    episode: Episode,
    body: str,
    foot: int,
    least: float,
    others: Feet = (),
    sign: int = 1,
) -> Array:
    """Back-and-forth swings of {body} faster than {least} m/s."""
    swing = _swing(episode, body, sign)
    return episode.count(_is_free(episode, foot, others) & (swing > least), swing < 0.0)


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

    The rates are the speed ahead, the speed to the left and the yaw rate.
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

    `which`: 0 for the speed ahead, 1 for sideways speed, 2 for the turning rate; `least`: minimum
    commanded value used for normalization.
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


@metric("1", "body_height", "height")
def hand_up(episode: Episode, body: str, least_m: float) -> Array:
    """{body} is more than {least_m} m above the torso."""
    return episode.quantity("body_height", body) - episode["height"] > least_m


@metric("times", "body_position", "body_height", "heading")
def hand_waves(episode: Episode, body: str, least_m: float, far_m: float) -> Array:
    """Number of times that {body}, while raised, moved {far_m} m to both sides."""
    up, hand = hand_up(episode, body, least_m), episode.quantity("body_position", body)
    ahead, aside = hand[:, 0] - episode["x_position"], hand[:, 1] - episode["y_position"]
    aside = aside * np.cos(episode["heading"]) - ahead * np.sin(episode["heading"])
    held = aside[up] if up.any() else aside
    aside = aside - 0.5 * (np.quantile(held, 0.05) + np.quantile(held, 0.95))
    return episode.count(up & (aside > far_m), aside < -far_m)


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
    most = max(len(course) for _, course in joints)
    waves = [np.ones_like(at)]
    for k in range(1, most // 2 + 1):
        waves += [np.cos(k * at), np.sin(k * at)]
    table = np.array([[*course, *[0.0] * (most - len(course))] for _, course in joints])
    shown = np.stack(waves, -1) @ table.T
    return float(np.abs(done - shown).mean((1, 2)).min())
