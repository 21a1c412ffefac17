"""Going somewhere: at a speed, for a distance, on the spot, in a circle."""

from __future__ import annotations

import math

from telic.composer.draft import Credit, Draft
from telic.composer.frames import Degree, Direction, Frame
from telic.composer.gaits import (
    ON_GROUND,
    gait_meant,
    go_in_steps,
    lay_ground,
    require_ground,
    step_in,
)
from telic.composer.manners import stay_on_feet, stay_straight
from telic.composer.scene import Scene
from telic.composer.sizes import BELOW, FROUDE, LONGEST_S, Goal, origin, practice, speed, told
from telic.judges import metrics, tracks
from telic.rewards.signals import Above, Ahead, Along, Below, Made, Measured, Part, Strides, Turns
from telic.rewards.terms import Arrive, Exact, Ratio, Small, Touchdown

AHEAD = (Direction.FORWARD, Direction.BACKWARD, Direction.LEFT, Direction.RIGHT)
_ON_RAIL = {Direction.RIGHT: Direction.FORWARD, Direction.LEFT: Direction.BACKWARD}
_RAIL_M = 0.5
_BEYOND = 1.1
"""where to aim at who must get so far at least, in parts of that"""
_MOST, _WALKED = 1.5, 1.15
"""times the goal up to which speed is paid for: a walk that is faster is none"""
_CIRCLE_RPS = 0.8
_WIDER = {Degree.LITTLE: 0.5, Degree.MUCH: 2.0, Degree.MOST: 2.0}
_OFF, _FAR_OFF = 0.2, 0.45
"""shares of a speed that was said as a number, by which it may be missed, and by which it is"""
_SEQUEL_S = 2.0
"""how long to go before what comes next, where it was not said"""
SETTLED = 0.85
"""share of the time asked for that must be at speed: getting there takes some of it"""


def go(frame: Frame, scene: Scene, draft: Draft, aside: Frame | None = None) -> None:
    """Travel in a direction at a speed; with `aside`, between two directions."""
    require_ground(frame, scene)
    if frame.direction is Direction.IN_PLACE:
        step_in_place(frame, scene, draft)
        return
    name = _direction(frame, scene)
    require_way(name, "go", scene)
    amount = frame.amount
    gait = gait_meant(frame, scene)
    if scene.on_rail or (amount and amount.unit == "m" and frame.dimension != "height"):
        travel(frame, scene, draft, name)
        return
    if frame.count and frame.gait == "step":
        draft.doubt(f'the steps of "{frame.word}" are not counted')
    goal = speed_meant(frame, scene, draft)
    second = None
    if aside is not None:
        second = _direction(aside, scene)
        require_way(second, "go", scene)
    most = _WALKED if gait and gait.name in ON_GROUND else _MOST
    be_fast(draft, name, goal, most=most, aside=second)
    value = tracks.share_above(metrics.pace(name, second), 0.3 * goal.value)
    draft.score("keeps going", value, 0.3, 0.75, tag="stops")
    if aside is None:
        stay_straight(scene, draft, name)
    lay_ground(frame, scene, draft, goal.value, (name, second))
    if gait is not None and frame.gait is not None:
        step_in(gait, frame, scene, draft)
        go_in_steps(frame.gait, scene, draft)
    elif frame.gait in FROUDE and not scene.spec.feet:
        draft.doubt(f'it has no feet: of "{frame.word}" only the speed can be judged')
    stay_on_feet(scene, draft)
    _end_at_speed(frame, draft, goal, name, second)
    if frame.duration_s:
        draft.seconds = max(frame.duration_s + 1.0, 2.0)


def _end_at_speed(frame: Frame, draft: Draft, goal: Goal, name: str, aside: str | None) -> None:
    """Say that it is done once it has been at speed for long enough."""
    along, pace = Along(name, aside), metrics.pace(name, aside)
    low, high = 0.7 * goal.value, 1.4 * goal.value
    lasts = SETTLED * (frame.duration_s or _SEQUEL_S)
    draft.ends_when(Above(along, low), tracks.above(pace, low), lasts)
    if goal.is_exact:
        draft.ends_when(Below(along, high), tracks.below(pace, high), lasts)


def _direction(frame: Frame, scene: Scene) -> str:
    """Return the direction of travel over the ground."""
    direction = frame.direction or Direction.FORWARD
    if scene.on_rail:
        direction = _ON_RAIL.get(direction, direction)
    is_way = direction in (*AHEAD, Direction.SIDEWAYS)
    return direction.value if is_way else Direction.FORWARD.value


def require_way(direction: str, what: str, scene: Scene) -> None:
    """Refuse to move in a direction that the robot cannot move in."""
    is_aside = direction in ("left", "right", "sideways")
    scene.require("lateral_velocity" if is_aside else "forward_velocity", f"{what} {direction}")


def be_fast(
    draft: Draft, name: str, goal: Goal, most: float = _MOST, aside: str | None = None
) -> None:
    """Add the term and the criterion of a speed; `most`: times the goal that is paid for."""
    target, along = goal.value, Along(name, aside)
    value, way = metrics.net_speed(name, aside), name if aside is None else f"{name} and {aside}"
    title, credit = f"moves {way} at {target:.2g} m/s", Credit(weight=3.0, **origin(goal))
    if goal.is_exact:
        meaning = f"speed {way}, best at {target:.2g} m/s"
        draft.pay("speed", 1.0, Exact(along, target, 0.5 * target), meaning)
        draft.score_near(title, value, target, 0.25 * target, tag="wrong_speed", **credit)
    else:
        meaning = f"speed {way}, in parts of {target:.2g} m/s"
        pays = Ratio(along, target, most=None if goal.is_open else most)
        draft.pay("speed", 1.0, pays, meaning)
        draft.score(title, value, 0.1 * target, target, tag="too_slow", **credit)
    if goal.is_said:
        _keep_to_number(draft, goal, name, aside)


def _keep_to_number(draft: Draft, goal: Goal, name: str, aside: str | None) -> None:
    """Guard a speed that was said as a number: what is far from it does not pass by its gait."""
    tag = "wrong_speed" if goal.is_exact else "too_slow"
    value = metrics.speed_error(name, goal.value, aside, at_least=not goal.is_exact)
    # Below a number that must not be exceeded there is room up to that number.
    is_below = goal.source.startswith("below")
    off, far_off = (1.0 / BELOW - 1.0, 0.6) if is_below else (_OFF, _FAR_OFF)
    draft.require("is about as fast as said", value, far_off, off, tag=tag)


def speed_meant(frame: Frame, scene: Scene, draft: Draft) -> Goal:
    """Return the speed that is meant; say so before training, and practise long enough for it."""
    goal = speed(frame, scene)
    if goal.source != "as said":
        draft.doubt(told(f'"{frame.word}"', goal))
    draft.practice = max(draft.practice, practice(scene, goal.value))
    known = scene.known.get("top_speed")
    if known is not None and goal.value > known:
        draft.doubt(
            f"plain training of this robot for two to four minutes reached {known:g} m/s: "
            f"{goal.value:.2g} m/s may need more steps, or a GPU"
        )
    return goal


def travel(frame: Frame, scene: Scene, draft: Draft, direction: str) -> None:
    """Go a distance, and stay there."""
    amount = frame.amount
    is_said = amount is not None and amount.unit == "m" and amount.value > 0.0
    target = amount.value if amount and is_said else _RAIL_M
    if amount and is_said and amount.rule == "at_most":
        target *= BELOW
        draft.doubt(f'"{frame.word}": about {target:.2g} m, below the {amount.value:g} m said')
    is_least = amount is not None and is_said and amount.rule == "at_least"
    aim = target * (_BEYOND if is_least else 1.0)
    if not is_said:
        draft.doubt(f'"{frame.word}" is taken as {target:g} m along the rail')
    pays = Arrive(Made(direction), aim, max(0.2 * target, 0.1))
    draft.pay("way", 1.0, pays, f"close to {aim:.2g} m {direction}")
    made, where = metrics.way_made(direction), f"{target:.3g} m {direction}"
    value = tracks.last(made)
    credit = Credit(weight=3.0, tag="too_far")
    if is_least:
        draft.score(f"ends at least {where}", value, 0.5 * target, target, **credit)
    else:
        close = min(max(0.12 * target, 0.05), target / 4)
        draft.score_near(f"ends {where}", value, target, close, **credit)
    credit = Credit(weight=1.5, tag="too_slow")
    draft.score(f"gets {where}", tracks.highest(made), 0.1 * target, 0.9 * target, **credit)
    stop_in_the_end(draft, 0.8, 0.3, 1.5)
    # A robot that is still under way when time is up has arrived by chance.
    value = metrics.still_under_way(direction, target)
    draft.require("has arrived by then", value, 0.18, 0.1, tag="drifts")
    stay_straight(scene, draft, direction)
    if frame.gait in FROUDE:
        go_in_steps(frame.gait, scene, draft, weight=0.2)
    stay_on_feet(scene, draft)
    there = 0.88 * target
    draft.ends_when(Above(Made(direction), there), tracks.above(made, there))
    usual = speed(frame.model_copy(update={"amount": None}), scene).value
    draft.seconds = min(max(1.5 * target / usual + 2.0, 4.0), LONGEST_S)


def stop_in_the_end(draft: Draft, zero: float, goal: float, weight: float) -> None:
    """Judge that it is slow in the last second."""
    value = tracks.mean_of_last("speed", 1.0)
    draft.score("stops there", value, zero, goal, weight=weight, tag="drifts")


def step_in_place(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Walk on the spot: one foot after the other, without going anywhere."""
    scene.require("stride_alternation", f"{frame.gait or 'go'} in place")
    draft.pay("step", 3.0, Touchdown(Strides()), "a foot comes down")
    draft.pay("stay", 0.7, Small(Measured("horizontal_speed"), 4.0), "not going anywhere")
    title = "puts its feet down twice a second"
    draft.score(title, metrics.touchdowns(), 0.3, 2.0, weight=2.0, tag="drags")
    value = tracks.last("stride_alternation")
    draft.score("one foot after the other", value, 0.3, 0.8, weight=1.5, tag="one_sided")
    draft.require("stays on the spot", tracks.farthest("displacement"), 2.0, 0.7, tag="drifts")
    stay_on_feet(scene, draft)
    landed, lasts = Above(Part(Strides(), "landed"), 0.0), frame.duration_s or _SEQUEL_S
    draft.ends_when(landed, metrics.touches(), lasts)


def circle(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Go round in a circle: forward along the heading while the heading turns."""
    scene.require("heading_velocity", "go in a circle")
    target = speed_meant(frame, scene, draft).value
    side = side_of(frame)
    amount = frame.amount
    radius = target / _CIRCLE_RPS
    if frame.dimension == "distance":
        radius *= _WIDER.get(frame.degree or Degree.MODERATE, 1.0)
        radius = amount.value if amount and amount.unit == "m" else radius
    rate = target / radius
    laps = float(frame.count or 1)
    draft.seconds = min(1.3 * laps * 2.0 * math.pi / rate + 1.0, LONGEST_S)
    draft.doubt(f"the circle is taken as one with a radius of {radius:.2g} m, to the {side}")
    meaning = f"speed where it faces, in parts of {target:.2g} m/s"
    draft.pay("speed", 1.0, Ratio(Ahead(), target, most=1.2), meaning)
    turning = Exact(Part(Turns(side), "rate"), rate, 0.6 * rate)
    draft.pay("turn", 1.0, turning, f"turning {side} at {rate:.2g} rad/s")
    _judge_circle(draft, side, radius, rate, laps)
    stay_on_feet(scene, draft)
    round_ = 0.9 * laps
    turned = tracks.above(metrics.turned(side), round_)
    draft.ends_when(Above(Part(Turns(side), "turned"), round_), turned)


def side_of(frame: Frame) -> str:
    """Return the side that it turns to."""
    is_right = frame.direction in (Direction.RIGHT, Direction.CLOCKWISE)
    return "right" if is_right else "left"


def _judge_circle(draft: Draft, side: str, radius: float, rate: float, laps: float) -> None:
    wound, turned = metrics.winding(side), tracks.last(metrics.turned(side))
    title = f"goes round {'once' if laps == 1 else f'{laps:g} times'} to the {side}"
    value, tag = tracks.last(wound), "under_rotates"
    draft.score(title, value, 0.2 * laps, 0.9 * laps, weight=2.0, tag=tag)
    draft.score("faces where it goes", turned, 0.2 * laps, 0.85 * laps, weight=1.0, tag=tag)
    way, length = 2.0 * math.pi * radius * laps, tracks.last("distance_travelled")
    credit = Credit(weight=1.5, tag="too_slow")
    draft.score(f"goes {way:.2g} m", length, 0.2 * way, 0.75 * way, **credit)
    title, close = f"keeps {radius:.2g} m from the middle", min(0.35 * radius, radius / 4)
    draft.score_near(title, metrics.radius(), radius, close, tag="drifts")
    draft.require("really goes round", value, 0.1 * laps, 0.5 * laps, tag="never_moves")
    # A robot that walks there and back passes the middle of the path twice, too.
    steadily = tracks.share_above(tracks.pace_of(wound), 0.2 * rate / (2.0 * math.pi))
    draft.require("goes round steadily", steadily, 0.3, 0.65, tag="stops")
