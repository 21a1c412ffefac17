"""Convert words such as fast, high and far to numbers, based on leg length and calibration.

Animals of all sizes change from walking to running near the same Froude number v^2 / (g L) of about
0.5, where L is the leg length (Alexander 1989). Gaits are therefore mapped to Froude numbers, and
twice the leg length increases the speed by the square root of two. The speed that plain training
reaches on a robot (`tables/calibration.toml`) raises goals that would be too easy but never lowers
them. Numbers that cannot be achieved in an episode are rejected.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from telic.composer.frames import Degree, Frame
from telic.composer.lexicon import word_table
from telic.composer.scene import Scene
from telic.errors import BeyondLimits

_TABLE = word_table("speeds")
FROUDE: dict[str, float] = _TABLE["froude"]
BY_STEPS = ("step", "march")
"""gaits whose frequency is that of steps instead of strides"""
_SHARE_FAST, _SHARE_MOST = 0.6, 0.8
_USUAL_OF_TOP = 0.4
GENTLE = ("very_slow", "slow", "little")
QUICK = ("fast", "very_fast", "most", "much")
_WALKS_BELOW = 0.3
BELOW = 0.7
"""goal for an upper bound, as a fraction of the bound"""
_JUMP_LEGS, _LEAP_LEGS, _UNKNOWN_JUMP, _UNKNOWN_LEAP = 0.25, 1.0, 0.2, 0.5
"""height and distance of jumps in leg lengths, and defaults in meters for unknown legs"""
_MAX_PRACTICE = 4.0
_NEAR_BEST = 0.9
MAX_S = 40.0
"""maximum episode length in seconds"""
_MAX_SPEED, _MAX_JUMP = 3.0, 5.0
"""maximum speed as a multiple of the best known, and maximum jump height in leg lengths"""
_MAX_TIMES, _MAX_TURNS = 100.0, 80.0
_MIN_WAY, _MIN_JUMP = 0.5, 0.2
"""minimum distance and jump height in leg lengths, to exclude lurching and flailing"""
_MIN_M, _MIN_TURN, _MIN_MPS = 0.05, 0.01, 0.01


class Goal(NamedTuple):
    """Numeric goal for a phrase of an intent on a robot, with its source."""

    value: float
    is_exact: bool
    """whether exceeding the goal is also an error"""
    source: str
    is_open: bool = False
    """whether the goal is open-ended, as in "as fast as possible" """
    best: float | None = None
    """best known value on this robot, for an open-ended goal"""
    best_source: str = ""
    is_given: bool = False
    """whether the intent states the number"""
    within: float | None = None
    base: float | None = None
    """baseline of a comparison, such as the plain walk in "walk faster" """


def _with_best(goal: Goal, scene: Scene, what: str) -> Goal:
    """Set the best known value ("speed" or "jump") of an open-ended goal."""
    best = scene.known.get(f"best_{what}")
    if not goal.is_open or best is None:
        return goal
    is_fast = what == "speed" and best > froude_speed(scene, FROUDE["run"])
    if is_fast and _NEAR_BEST * best < goal.value:
        # The goal cannot exceed the best known value.
        source = f"{_NEAR_BEST:.0%} of the best known value"
        goal = goal._replace(value=_NEAR_BEST * best, source=source)
    return goal._replace(best=best, best_source=scene.known[f"best_{what}_source"])


def compared(frame: Frame, goal: Callable[[Frame, Scene], Goal], scene: Scene, unit: str) -> Goal:
    """Return the goal of a comparison as a multiple of the plain goal."""
    plain = goal(replace(frame, factor=None, degree=None), scene)
    factor = frame.factor or 1.0
    source = f"{factor:g} times the {plain.value:.2g} {unit} of a plain {frame.word}"
    return Goal(factor * plain.value, factor < 1.0, source, base=plain.value)


def speed(frame: Frame, scene: Scene) -> Goal:
    """Return the speed goal of a frame, in m/s."""
    if frame.factor is not None and frame.dimension == "speed":
        return compared(frame, speed, scene, "m/s")
    amount, top = frame.amount, scene.top_speed
    reached = "its known top speed" if "top_speed" in scene.known else "the top speed for its size"
    if amount and amount.unit in ("m/s", "share") and amount.value > 0.0:
        is_exact = amount.rule != "at_least"
        if amount.unit == "share":
            source = f"{amount.value:.0%} of {reached}, {top:.2g} m/s"
            return Goal(amount.value * top, is_exact, source, is_given=True)
        if amount.rule == "at_most":
            # Well below the upper bound, so that a speed at the bound does not pass.
            source = f"below the given {amount.value:g} m/s"
            return Goal(BELOW * amount.value, True, source, is_given=True)
        within = min((amount.value * share for share in frame.tolerances), default=None)
        return Goal(amount.value, is_exact, "as given", is_given=True, within=within)
    degree = frame.degree if frame.dimension in (None, "speed") else None
    if frame.dimension == "distance" and frame.degree == "most":
        degree = "most"  # maximum distance in a given time means maximum speed
    is_gentle, is_open = degree in GENTLE, degree == "most"
    if scene.leg is None:
        share = _TABLE["gait_of_top"].get(frame.gait or "", _USUAL_OF_TOP)
        share = _TABLE["of_top"][degree] if degree else share
        goal = Goal(share * top, is_gentle, f"{share:.0%} of {reached}, {top:.2g} m/s", is_open)
        return _with_best(goal, scene, "speed")
    gait = frame.gait if frame.gait in FROUDE else None
    least = _legged_speed(gait, degree, scene)
    share = _top_share(gait, degree)
    if share * float(scene.known.get("top_speed", 0.0)) > least:
        source = f"{share:.0%} of this robot's reference speed, {top:g} m/s"
        goal = Goal(share * top, False, source, is_open)
    else:
        froude = least**2 / (scene.gravity * scene.leg)
        source = f"Froude {froude:.2g} with legs of {scene.leg:.2g} m"
        goal = Goal(least, is_gentle, source, is_open)
    return _with_best(goal, scene, "speed")


def froude_speed(scene: Scene, froude: float) -> float:
    """Return the speed in m/s for a Froude number: v = sqrt(Fr g L)."""
    return math.sqrt(froude * scene.gravity * (scene.leg or 0.0))


def _legged_speed(gait: str | None, degree: Degree | None, scene: Scene) -> float:
    """Return the minimum speed for a gait and a degree."""
    plain = _TABLE["plain"].get(degree) if degree and not gait else None
    named = gait or plain or ("run" if degree == "most" else "walk")
    value = froude_speed(scene, FROUDE[named])
    is_given = plain is not None or (gait, degree) == ("sprint", "very_fast")
    if degree is None or degree == "moderate" or is_given:
        return value
    is_walking = FROUDE[gait or "run"] < _WALKS_BELOW
    faster = _TABLE["faster_walk"] if is_walking else _TABLE["faster_run"]
    return value * (_TABLE["slower"][degree] if degree in _TABLE["slower"] else faster[degree])


def _top_share(gait: str | None, degree: Degree | None) -> float:
    """Return the minimum fraction of the known top speed for a gait and a degree."""
    plain = _TABLE["plain"].get(degree, "run") if degree else ""
    share = _TABLE["share"].get(gait or plain, 0.0)
    if not share or degree in GENTLE:
        return 0.0
    if degree is None or degree == "moderate":
        return share if gait else 0.0
    return max(share, _SHARE_FAST if degree in ("fast", "much") else _SHARE_MOST)


def jump_height(frame: Frame, scene: Scene) -> Goal:
    """Return the goal for the jump height, in meters above standing."""
    if frame.factor is not None and frame.dimension == "height":
        return compared(frame, jump_height, scene, "m")
    amount, leg = frame.amount, scene.leg or 0.0
    if amount is not None and amount.unit == "m" and frame.dimension != "distance":
        if amount.rule == "at_most":
            return Goal(BELOW * amount.value, True, f"below the given {amount.value:g} m")
        return Goal(amount.value, bool(frame.bounds), "as given")
    own, known = _JUMP_LEGS * leg, float(scene.known.get("jump", 0.0))
    value, source = own, f"{_JUMP_LEGS:g} of the leg length, {leg:.2g} m"
    if known > own:
        value, source = known, "this robot's reference jump"
    if not value:
        value, source = _UNKNOWN_JUMP, "an estimate for an unknown robot"
    is_about = frame.degree is not None and frame.dimension in (None, "height")
    degree = frame.degree if frame.degree and is_about else "moderate"
    share = _TABLE["up"].get(degree, 1.0)
    source = source if share == 1.0 else f"{share:.0%} of {source}"
    is_low = degree in GENTLE  # a high jump is not a small one
    return _with_best(Goal(share * value, is_low, source, degree == "most"), scene, "jump")


def leap_length(frame: Frame, scene: Scene) -> Goal:
    """Return the goal for the leap distance, in meters of flight."""
    if frame.factor is not None and frame.dimension == "distance":
        return compared(frame, leap_length, scene, "m")
    length, leg = frame.given("m"), scene.leg or 0.0
    if length is not None and frame.dimension == "distance":
        return Goal(length, False, "as given")
    own, known = _LEAP_LEGS * leg, 0.5 * float(scene.known.get("top_speed", 0.0))
    value, source = own, f"the leg length, {leg:.2g} m"
    if known > own or not own:
        value, source = known or _UNKNOWN_LEAP, "half a second at its known top speed"
    degree = frame.degree if frame.dimension == "distance" else None
    factor = 0.5 if degree in GENTLE else 1.0
    return Goal(factor * value, False, source, degree == "most")


def practice(scene: Scene, value: float) -> float:
    """Return the training time for a speed, relative to the time for the calibrated speed."""
    return min(max(value / (_SHARE_FAST * scene.top_speed), 1.0), _MAX_PRACTICE)


def goal_note(name: str, goal: Goal, unit: str = "m/s") -> str:
    """Describe a goal to the user before training."""
    way = "about" if goal.is_exact else "at least"
    more = ""
    if goal.is_open:
        known = "no best value" if goal.best is None else f"the best known: {goal.best:.2g}"
        more = f", and as much more as possible ({known})"
    return f"{name}: {way} {goal.value:.2g} {unit} ({goal.source}){more}"


def require_sizes(frames: Iterable[Frame], scene: Scene) -> None:
    """Reject numbers that are too large or too small to be achieved in an episode."""
    for frame in frames:
        for value, least, most, unit in _sizes(frame, scene):
            if value > most:
                why = f"at most {most:.3g} {unit} are possible"
            elif 0.0 < value < least:
                why = f"less than {least:.2g} {unit} is too small to judge"
            else:
                continue
            error = scene.cannot(f'show "{frame.word}" by {value:g} {unit}', why)
            raise BeyondLimits(error.message)


def _sizes(frame: Frame, scene: Scene) -> Iterator[tuple[float, float, float, str]]:
    """Yield each stated number with its minimum, maximum and unit."""
    amount, verb, leg = frame.amount, frame.verb, scene.leg or 0.0
    if frame.count is not None:
        yield float(frame.count), 0.0, _MAX_TIMES, "times"
    if amount is None:
        return
    fastest = max(
        scene.top_speed, scene.known.get("best_speed", 0.0), froude_speed(scene, FROUDE["sprint"])
    )
    rails = [joint.high for joint in scene.spec.joints if joint.kind == "slide" and joint.high]
    least_way, farthest = max(_MIN_M, _MIN_WAY * leg), fastest * MAX_S
    farthest = min(farthest, *rails) if scene.on_rail and rails else farthest
    is_way = amount.unit == "m" and frame.dimension == "distance"
    if amount.unit == "m/s" and verb in ("go", "hop", "circle"):
        yield amount.value, _MIN_MPS, _MAX_SPEED * fastest, "m/s"
    elif is_way and verb == "go":
        yield amount.value, least_way, farthest, "m"
    elif is_way and verb == "circle":
        laps = 2.0 * math.pi * (frame.count or 1)
        yield amount.value, least_way, farthest / laps, "m of radius"
    elif amount.unit == "m" and frame.dimension == "height" and verb in ("jump", "hop"):
        yield amount.value, _MIN_JUMP * leg, _MAX_JUMP * (leg or 1.0), "m high"
    elif frame.turns is not None and "whole" in word_table("acts")[verb]:
        yield frame.turns, _MIN_TURN, _MAX_TURNS, "turns"
