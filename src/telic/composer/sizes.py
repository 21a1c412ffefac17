"""What fast, high and far are for a robot: from its legs, and from what it is known to reach.

Animals of all sizes change from walking to running near the same Froude number, v^2 / (g L) with
the length L of the legs: about 0.5 (Alexander 1989). So the words for gaits are Froude numbers
here, and a robot twice as long must be faster by the root of two. What plain training is known to
reach on a robot (`calibration.toml`) raises goals that would be too easy, and never lowers them: a
humanoid that cannot run yet is told so. Numbers that no episode can show are refused.
"""

from __future__ import annotations

import functools
import math
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from telic.composer.draft import GoalOrigin
from telic.composer.frames import Act, Degree, Frame
from telic.composer.scene import Scene

FROUDE = {
    "crawl": 0.02,
    "march": 0.05,
    "pronk": 0.05,
    "walk": 0.07,
    "pace": 0.2,
    "trot": 0.2,
    "skip": 0.25,
    "jog": 0.3,
    "bound": 0.35,
    "run": 0.5,
    "gallop": 0.6,
    "sprint": 1.0,
}
"""least Froude number at which a gait is one; people walk at 0.05 to 0.4 and jog from 0.3 on"""
_WALKING = 0.07
_PLAIN = {Degree.FAST: "run", Degree.MUCH: "run", Degree.VERY_FAST: "sprint"}
"""gait whose speed is meant where no gait is said: "go fast" """
_SHARE = {"run": 0.4, "gallop": 0.4, "sprint": 0.8}
"""of the known top speed, which a gait that shall be fast reaches at least"""
_SHARE_FAST, _SHARE_MOST = 0.6, 0.8
_OF_TOP = {
    Degree.VERY_SLOW: 0.08,
    Degree.SLOW: 0.2,
    Degree.LITTLE: 0.2,
    Degree.MODERATE: 0.4,
    Degree.MUCH: 0.6,
    Degree.FAST: 0.6,
    Degree.VERY_FAST: 0.8,
    Degree.MOST: 0.8,
}
"""speed of what has no legs, as a share of the top speed"""
_GAIT_OF_TOP = {"crawl": 0.2, "walk": 0.35, "jog": 0.45, "run": 0.5, "sprint": 0.8}
_USUAL_OF_TOP = 0.4
GENTLE = (Degree.VERY_SLOW, Degree.SLOW, Degree.LITTLE)
QUICK = (Degree.FAST, Degree.VERY_FAST, Degree.MOST, Degree.MUCH)
_SLOWER = {Degree.VERY_SLOW: 0.35, Degree.SLOW: 0.6, Degree.LITTLE: 0.6}
_FASTER_WALK = {Degree.FAST: 1.5, Degree.MUCH: 1.5, Degree.VERY_FAST: 2.0, Degree.MOST: 2.0}
_FASTER_RUN = {Degree.FAST: 1.15, Degree.MUCH: 1.15, Degree.VERY_FAST: 1.3, Degree.MOST: 1.3}
_WALKS_BELOW = 0.3
BELOW = 0.7
"""of a number that is not to be exceeded, what is aimed at"""
_JUMP_LEGS, _LEAP_LEGS = 0.25, 1.0
"""a jump up and one forward, in lengths of the leg"""
_UP = {Degree.VERY_SLOW: 0.5, Degree.SLOW: 0.5, Degree.LITTLE: 0.5, Degree.MODERATE: 0.8}
"""share of the height known to be reached; of "high" and "as high as possible" all of it"""
_LONGEST_PRACTICE = 4.0
_NEAR_BEST = 0.9
LONGEST_S = 40.0
"""of an episode"""
_MOST_SPEED, _MOST_JUMP = 3.0, 5.0
"""times the best speed that is known, and the length of the legs"""
_MOST_TIMES, _MOST_TURNS = 100.0, 80.0
_LEAST_WAY, _LEAST_JUMP = 0.5, 0.2
"""of the length of the legs: one lurch gets a body so far, and flailing so high"""
_LEAST_M, _LEAST_TURN, _LEAST_MPS = 0.05, 0.01, 0.01
_TURNING = (Act.TURN, Act.FLIP, Act.ROLL, Act.CIRCLE)
_GOES = (Act.GO, Act.HOP, Act.CIRCLE)
_LEAPS = (Act.JUMP, Act.HOP)


class Goal(NamedTuple):
    """A number that words stand for on a robot, and where it comes from."""

    value: float
    is_exact: bool
    """whether more would be wrong, too"""
    source: str
    is_open: bool = False
    """whether more is always better: "as fast as possible" """
    best: float | None = None
    """of what is open, the best that is known of this robot"""
    best_source: str = ""
    is_said: bool = False
    """whether the very number was said"""


@functools.cache
def known_bests() -> dict[str, dict[str, Any]]:
    """Return the table of the best that is known of each robot."""
    with (Path(__file__).parent / "bests.toml").open("rb") as file:
        return tomllib.load(file)


def _with_best(goal: Goal, scene: Scene, what: str) -> Goal:
    """Return an open goal with the best that is known, "speed" or "jump"."""
    known = known_bests().get(scene.spec.id, {})
    if not goal.is_open or what not in known:
        return goal
    best = float(known[what])
    value, source = goal.value, goal.source
    if what == "speed" and _NEAR_BEST * best < value and best > froude_speed(scene, FROUDE["run"]):
        # Nobody has been seen to do more than the best: that much cannot be asked for.
        value, source = _NEAR_BEST * best, f"{_NEAR_BEST:.0%} of the best that is known"
    return goal._replace(value=value, source=source, best=best, best_source=known[f"{what}_source"])


def speed(frame: Frame, scene: Scene) -> Goal:
    """Return the speed that a frame means, m/s."""
    return _with_best(_speed(frame, scene), scene, "speed")


def _speed(frame: Frame, scene: Scene) -> Goal:
    amount, top = frame.amount, scene.top_speed
    if amount and amount.unit in ("m/s", "share") and amount.value > 0.0:
        is_exact = amount.rule != "at_least"
        if amount.rule == "at_most" and amount.unit == "m/s":
            # Well below what must not be exceeded, so that being at it is not enough any more.
            below = f"below the {amount.value:g} m/s that was said"
            return Goal(BELOW * amount.value, True, below, is_said=True)
        if amount.unit == "share":
            share = f"{amount.value:.0%} of {_known(scene)}"
            return Goal(amount.value * top, is_exact, share, is_said=True)
        return Goal(amount.value, is_exact, "as said", is_said=True)
    degree = _degree(frame)
    is_open = degree is Degree.MOST
    if scene.leg is None:
        share = _GAIT_OF_TOP.get(frame.gait or "", _USUAL_OF_TOP)
        share = _OF_TOP[degree] if degree else share
        return Goal(share * top, degree in GENTLE, f"{share:.0%} of {_known(scene)}", is_open)
    gait = frame.gait if frame.gait in FROUDE else None
    least = froude_speed(scene, _froude(gait, degree)) * _factor(gait, degree)
    reached = _share(gait, degree) * float(scene.known.get("top_speed", 0.0))
    if reached > least:
        said = f"{_share(gait, degree):.0%} of the {scene.top_speed:g} m/s that plain training of "
        return Goal(reached, False, f"{said}this robot reached", is_open)
    return Goal(least, degree in GENTLE, _froude_words(scene, least), is_open)


def froude_speed(scene: Scene, froude: float) -> float:
    """Return the speed of a Froude number, m/s: v = sqrt(Fr g L)."""
    return math.sqrt(froude * scene.gravity * (scene.leg or 0.0))


def _froude_words(scene: Scene, value: float) -> str:
    froude = value**2 / (scene.gravity * (scene.leg or 1.0))
    return f"Froude {froude:.2g} with legs of {scene.leg:.2g} m"


def _known(scene: Scene) -> str:
    reached = "its known top speed" if "top_speed" in scene.known else "the top speed of its size"
    return f"{reached}, {scene.top_speed:.2g} m/s"


def _degree(frame: Frame) -> Degree | None:
    if frame.dimension == "distance" and frame.degree is Degree.MOST:
        return Degree.MOST  # the farthest in a given time is the fastest
    return frame.degree if frame.dimension in (None, "speed") else None


def _froude(gait: str | None, degree: Degree | None) -> float:
    if gait is None and degree is Degree.MOST:
        return FROUDE["run"]
    plain = _PLAIN.get(degree) if degree and gait is None else None
    return FROUDE[plain] if plain else FROUDE.get(gait or "", _WALKING)


def _factor(gait: str | None, degree: Degree | None) -> float:
    is_said = (gait is None and degree in _PLAIN) or (gait, degree) == ("sprint", Degree.VERY_FAST)
    if degree is None or degree is Degree.MODERATE or is_said:
        return 1.0
    if degree in _SLOWER:
        return _SLOWER[degree]
    is_walking = FROUDE.get(gait or "run", _WALKING) < _WALKS_BELOW
    return (_FASTER_WALK if is_walking else _FASTER_RUN)[degree]


def _share(gait: str | None, degree: Degree | None) -> float:
    """Return the share of the known top speed that this asks for at least."""
    if degree in GENTLE:
        return 0.0
    fast = gait or (_PLAIN.get(degree) if degree else None) or ("run" if degree else "")
    share = _SHARE.get(fast, 0.0)
    if not share or degree in (None, Degree.MODERATE):
        return share if gait else 0.0
    return max(share, _SHARE_FAST if degree in (Degree.FAST, Degree.MUCH) else _SHARE_MOST)


def jump_height(frame: Frame, scene: Scene) -> Goal:
    """Return how high a jump is meant to be, metres above standing."""
    amount = frame.amount
    if amount is not None and amount.unit == "m" and frame.dimension != "distance":
        if amount.rule == "at_most":
            below = f"below the {amount.value:g} m that was said"
            return Goal(BELOW * amount.value, True, below)
        return Goal(amount.value, bool(frame.bounds), "as said")
    own = _JUMP_LEGS * (scene.leg or 0.0)
    known = float(scene.known.get("jump", 0.0))
    value, source = own, f"{_JUMP_LEGS:g} of the length of its legs, {scene.leg or 0.0:.2g} m"
    if known > own:
        value, source = known, "what plain training of this robot reached"
    if not value:
        value, source = 0.2, "an estimate: nothing is known of this robot"
    about_height = frame.degree and frame.dimension in (None, "height")
    degree = frame.degree if frame.degree and about_height else Degree.MODERATE
    share = _UP.get(degree, 1.0)
    part = "" if share == 1.0 else f"{share:.0%} of "
    goal = Goal(share * value, False, part + source, degree is Degree.MOST)
    return _with_best(goal, scene, "jump")


def leap_length(frame: Frame, scene: Scene) -> Goal:
    """Return how far a jump is meant to go, metres in the air."""
    amount = frame.amount
    if amount is not None and amount.unit == "m" and frame.dimension == "distance":
        return Goal(amount.value, False, "as said")
    own, known = _LEAP_LEGS * (scene.leg or 0.0), 0.5 * float(scene.known.get("top_speed", 0.0))
    value, source = own, f"the length of its legs, {scene.leg or 0.0:.2g} m"
    if known > own or not own:
        value, source = known or 0.5, "half a second at its known top speed"
    degree = frame.degree if frame.dimension == "distance" else None
    factor = 0.5 if degree in GENTLE else 1.0
    return Goal(factor * value, False, source, degree is Degree.MOST)


def origin(goal: Goal) -> GoalOrigin:
    """Return what a leaf says about where its goal comes from."""
    return GoalOrigin(
        source=goal.source, is_open=goal.is_open, best=goal.best, best_source=goal.best_source
    )


def practice(scene: Scene, value: float) -> float:
    """Return how much longer a speed takes to learn than what the calibration was measured on."""
    reached = _SHARE_FAST * scene.top_speed
    return min(max(value / reached, 1.0), _LONGEST_PRACTICE)


def told(name: str, goal: Goal, unit: str = "m/s") -> str:
    """Return a goal as it is told before training."""
    way = "about" if goal.is_exact else "at least"
    more = ""
    if goal.is_open:
        known = "no best is known" if goal.best is None else f"the best known is {goal.best:.2g}"
        more = f", and as much more as it can ({known})"
    return f"{name}: {way} {goal.value:.2g} {unit} ({goal.source}){more}"


# ---- numbers that no episode can show: too far, too fast, too often, or no more than a stumble


class _Size(NamedTuple):
    """A number that was said, and between which it can be shown."""

    value: float
    least: float
    most: float
    unit: str

    def why_not(self) -> str | None:
        """Return why it cannot be judged; None: it can."""
        if self.value > self.most:
            return f"an episode of {LONGEST_S:g} s has room for {self.most:.3g} {self.unit} at most"
        if 0.0 < self.value < self.least:
            return f"less than {self.least:.2g} {self.unit} is no more than a stumble"
        return None


def require_sizes(frames: Iterable[Frame], scene: Scene) -> None:
    """Refuse what takes longer than an episode, or is no more than a stumble.

    Raises:
        BadEnvironment: says how much could be asked for.
    """
    for frame in frames:
        for size in _sizes(frame, scene):
            if why := size.why_not():
                said = f"{size.value:g} {size.unit}"
                raise scene.cannot(f'show "{frame.word}" by {said}', why)


def _sizes(frame: Frame, scene: Scene) -> Iterator[_Size]:
    amount = frame.amount
    if frame.count is not None:
        yield _Size(float(frame.count), 0.0, _MOST_TIMES, "times")
    if amount is None:
        return
    fastest, leg = _fastest(scene), scene.leg or 0.0
    least_way = max(_LEAST_M, _LEAST_WAY * leg)
    match amount.unit:
        case "m/s" if frame.verb in _GOES:
            yield _Size(amount.value, _LEAST_MPS, _MOST_SPEED * fastest, "m/s")
        case "m" if frame.verb is Act.GO and frame.dimension == "distance":
            yield _Size(amount.value, least_way, fastest * LONGEST_S, "m")
        case "m" if frame.verb is Act.CIRCLE and frame.dimension == "distance":
            laps = 2.0 * math.pi * (frame.count or 1)
            yield _Size(amount.value, least_way, fastest * LONGEST_S / laps, "m of radius")
        case "m" if frame.verb in _LEAPS and frame.dimension == "height":
            yield _Size(amount.value, _LEAST_JUMP * leg, _MOST_JUMP * (leg or 1.0), "m high")
        case "turns" | "rad" if frame.verb in _TURNING:
            turns = amount.value / (2.0 * math.pi if amount.unit == "rad" else 1.0)
            yield _Size(turns, _LEAST_TURN, _MOST_TURNS, "turns")
        case _:
            return


def _fastest(scene: Scene) -> float:
    """Return the best speed that is known of a robot, or that its legs are good for."""
    known = known_bests().get(scene.spec.id, {}).get("speed", 0.0)
    legs = froude_speed(scene, FROUDE["sprint"]) if scene.leg is not None else 0.0
    return max(scene.top_speed, float(known), legs)
