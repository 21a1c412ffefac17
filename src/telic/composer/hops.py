"""Hopping: flying and landing, again and again, as high as asked for, at the times asked for.

Of "jump every 3 seconds" and "jump twice per second" counts the time from one landing to the next.
The policy sees how long it has waited.
"""

from __future__ import annotations

import math

import numpy as np

from telic.composer.draft import Credit, Draft, measure
from telic.composer.frames import Degree, Direction, Frame
from telic.composer.gaits import land_together
from telic.composer.manners import allow_height, stay_on_feet
from telic.composer.scene import Scene
from telic.composer.sizes import Goal, jump_height, origin, told
from telic.composer.travel import AHEAD, be_fast, require_way, speed_meant
from telic.judges import metrics, tracks
from telic.rewards.signals import Above, Cycles, Flights, Measured, Not, Part, Waiting
from telic.rewards.terms import Hop, InTime, Pay, Ratio, Small, When

_FLIGHT_S, _RISE_M = 0.11, 0.05
"""a flight shorter or lower than this is a foot that trembles"""
_HOPS_PER_S = 1.0
_OF_JUMP = 0.6
"""a hop that shall be high, in parts of a jump that is"""
_FAST = (Degree.FAST, Degree.VERY_FAST, Degree.MOST)


def hop(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Fly and land, again and again, on the spot or on the way."""
    scene.require("air_time", "hop")
    landings = Flights(_FLIGHT_S)
    draft.pay("hop", 5.0, Hop(landings), "at each landing, for the time in the air before it")
    draft.pay("rise", 0.3, Pay(Measured("vertical_velocity"), 0.0, 2.0), "upward velocity")
    hops = measure(metrics.flights, _FLIGHT_S, _RISE_M)
    meaning = f"flights of over {_FLIGHT_S:g} s that rise {_RISE_M:g} m and land, per second"
    value, credit = measure(tracks.per_second, hops), Credit(weight=3.0, unit="1/s", tag="drags")
    draft.total("hops once a second", meaning, value, 0.15, _HOPS_PER_S, **credit)
    title = "is in the air a fifth of the time"
    meaning = "share of the time without a foot on the ground"
    value = measure(tracks.share_above, "air_time", 0.0)
    draft.leaf(title, meaning, value, 0.05, 0.2, weight=1.0, tag="too_low")
    if frame.dimension == "height":
        _high(frame, scene, draft)
    if frame.count:
        tolerance = 0.25 + 0.05 * frame.count
        value = measure(tracks.last, hops)
        credit = Credit(weight=3.0, tag="drags")
        draft.counted("hops", "flights with a landing", value, frame, tolerance, **credit)
        draft.seconds = max(2.0, frame.count / _HOPS_PER_S)
    land_together(scene, draft)
    _where(frame, scene, draft)
    jump = jump_height(Frame(verb=frame.verb, word=frame.word, degree=Degree.MUCH), scene)
    allow_height(scene, draft, scene.stands + 2.0 * jump.value + 0.5)
    stay_on_feet(scene, draft)
    done = (frame.count or max(2, round(frame.duration_s or 2.0))) - 0.5
    draft.ends_when(Above(Part(landings, "times"), done), measure(tracks.above, hops, done))


def _high(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Hop as high as asked for."""
    goal = jump_height(frame, scene)
    if goal.source != "as said":
        part = f"{_OF_JUMP:.0%} of a jump: {goal.source}"
        goal = goal._replace(value=_OF_JUMP * goal.value, source=part)
        draft.doubt(told(f'"{frame.word}"', goal, "m above standing"))
    target = goal.value
    pays = Ratio(scene.above_start(), target, low=0.0, most=None if goal.is_open else 1.5)
    draft.pay("height", 1.0, pays, f"height above standing, in parts of {target:.2g} m")
    above = measure(metrics.in_air, measure(tracks.less, "height", scene.starts))
    title, value = f"hops {target:.2g} m high", measure(tracks.highest, above)
    meaning = "highest point of the torso above standing, in flight"
    credit = Credit(weight=3.0, unit="m", tag="too_low", **origin(goal))
    draft.total(title, meaning, value, 0.15 * target, target, **credit)


def _where(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Hop to somewhere, or on the spot."""
    scene.require("forward_velocity", "hop")
    if frame.direction is Direction.IN_PLACE:
        draft.pay("stay", 0.5, Small(Measured("horizontal_speed"), 3.0), "not going anywhere")
        meaning = "farthest way from the start along x"
        value = measure(tracks.farthest, "displacement")
        draft.leaf("stays on the spot", meaning, value, 1.5, 0.5, unit="m", tag="drifts")
    elif frame.direction in AHEAD or (frame.dimension != "height" and frame.degree in _FAST):
        direction = frame.direction if frame.direction in AHEAD else None
        name = (direction or Direction.FORWARD).value
        require_way(name, "hop", scene)
        be_fast(draft, name, speed_meant(frame, scene, draft))


_LONGEST_S = 30.0
_BEATS = 4
_FLIGHT = 0.7
"""share of the time between two jumps that may be spent in the air"""
_LATE = 0.25
"""share of that time by which a jump may be early or late"""


def beats(period_s: float) -> int:
    """Return how often it is to be done while it is judged."""
    return max(min(_BEATS, math.floor(_LONGEST_S / period_s - 0.5)), 1)


def jump_in_time(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Jump once in so many seconds, again and again."""
    period = frame.period_s or 1.0
    count = beats(period)
    if count < 2:
        why = f"an episode lasts {_LONGEST_S:g} s at most, which is less than two of these"
        raise scene.cannot(f"jump every {period:g} s", why)
    goal = _height(frame, scene, period)
    if goal.source != "as said":
        draft.doubt(told(f'"{frame.word}"', goal, "m above standing"))
    _teach(goal, period, count, scene, draft)
    _judge(goal, period, count, scene, draft)
    allow_height(scene, draft, scene.stands + 2.0 * goal.value + 0.5)
    stay_on_feet(scene, draft)
    draft.seconds = (count + 0.5) * period


def _height(frame: Frame, scene: Scene, period: float) -> Goal:
    """Return how high to jump: no higher than there is time for, h = g (t / 2)^2 / 2."""
    goal = jump_height(frame, scene)
    most = scene.gravity * (0.5 * _FLIGHT * period) ** 2 / 2.0
    if goal.source == "as said" or goal.value <= most:
        return goal
    return goal._replace(value=most, source=f"what there is time for in {period:g} s")


def _teach(goal: Goal, period: float, count: int, scene: Scene, draft: Draft) -> None:
    target, height = goal.value, scene.above_start()
    jumps = Cycles(height, 0.8 * target, 0.3 * target)
    wait = Waiting(jumps, period)
    due = Part(wait, "due")
    meaning = f"height above standing when a jump is due, in parts of {target:.2g} m"
    draft.pay("height", 1.0, When(due, Ratio(height, target, low=0.0, most=2.0)), meaning)
    rising = When(due, Pay(Measured("vertical_velocity"), 0.0, 3.0))
    draft.pay("rise", 0.3, rising, "upward velocity when a jump is due")
    draft.pay("land", 1.0, InTime(wait, _LATE * period), "once per jump: down again in time")
    if scene.has("speed"):
        rest = When(Not(due), Small(Measured("speed"), 1.0))
        draft.pay("rest", 0.5, rest, "at rest between the jumps")
    times = measure(tracks.cycles, _height_above(scene), 0.8 * target, 0.3 * target)
    done = count - 0.5
    draft.ends_when(Above(Part(jumps, "times"), done), measure(tracks.above, times, done))


def _height_above(scene: Scene) -> np.ndarray:
    return measure(tracks.less, "height", scene.starts)


def _judge(goal: Goal, period: float, count: int, scene: Scene, draft: Draft) -> None:
    target, height = goal.value, _height_above(scene)
    times = measure(tracks.cycles, height, 0.8 * target, 0.3 * target)
    title, meaning = f"gets {target:.2g} m above standing", "highest point of the torso"
    credit = Credit(unit="m", tag="too_low", **origin(goal))
    value = measure(tracks.highest, height)
    draft.total(title, meaning, value, 0.15 * target, target, **credit)
    meaning = f"jumps {period:g} s after the one before, of the {count - 1} there is time for"
    value = measure(metrics.on_time, times, period, _LATE * period, count - 1)
    draft.total(f"jumps every {period:g} s", meaning, value, 0.2, 1.0, weight=4.0, tag="too_slow")
    if scene.has("air_time"):
        leave_ground(draft, min(0.15, 0.5 * _FLIGHT * period))


def leave_ground(draft: Draft, seconds: float) -> None:
    """Judge that it is in the air for so long at once."""
    meaning = "longest time without a foot on the ground"
    value = measure(tracks.highest, "air_time")
    draft.total("leaves the ground", meaning, value, 0.03, seconds, unit="s", tag="too_low")
