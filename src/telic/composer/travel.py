"""Going somewhere: at a speed, for a distance, on the spot, in a circle."""

from __future__ import annotations

import math

from telic.composer.draft import Credit, Draft, measure
from telic.composer.extremes import LONGEST_S
from telic.composer.footing import go_in_steps
from telic.composer.frames import Degree, Direction, Frame
from telic.composer.gaits import ON_GROUND, gait_meant, step_in
from telic.composer.grounds import lay_ground, require_ground
from telic.composer.manners import stay_on_feet, stay_straight
from telic.composer.scene import Scene
from telic.composer.sizes import BELOW, FROUDE, Goal, origin, practice, speed, told
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
_GRIP, _GRIP_THERE = 0.1, 0.2


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
    meaning = f"share of the time faster than {0.3 * goal.value:.2g} m/s, over half seconds"
    value = measure(tracks.share_above, measure(metrics.pace, name, second), 0.3 * goal.value)
    draft.leaf("keeps going", meaning, value, 0.3, 0.75, tag="stops")
    if aside is None:
        stay_straight(scene, draft, name)
    lay_ground(frame, scene, draft, goal.value, (name, second))
    if gait is not None and frame.gait is not None:
        step_in(gait, frame, scene, draft)
        go_in_steps(frame.gait, scene, draft, _GRIP)
    elif frame.gait in FROUDE and not scene.spec.feet:
        draft.doubt(f'it has no feet: of "{frame.word}" only the speed can be judged')
    stay_on_feet(scene, draft)
    _end_at_speed(frame, draft, goal, name, second)
    if frame.duration_s:
        draft.seconds = max(frame.duration_s + 1.0, 2.0)


def _end_at_speed(frame: Frame, draft: Draft, goal: Goal, name: str, aside: str | None) -> None:
    """Say that it is done once it has been at speed for long enough."""
    along, pace = Along(name, aside), measure(metrics.pace, name, aside)
    low, high = 0.7 * goal.value, 1.4 * goal.value
    lasts = SETTLED * (frame.duration_s or _SEQUEL_S)
    draft.ends_when(Above(along, low), measure(tracks.above, pace, low), lasts)
    if goal.is_exact:
        draft.ends_when(Below(along, high), measure(tracks.below, pace, high), lasts)


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
    value = measure(metrics.net_speed, name, aside)
    way = name if aside is None else f"{name} and {aside}"
    title, words = f"moves {way} at {target:.2g} m/s", f"way made {way} in the full time"
    credit = Credit(weight=3.0, unit="m/s", **origin(goal))
    if goal.is_exact:
        meaning = f"speed {way}, best at {target:.2g} m/s"
        draft.pay("speed", 1.0, Exact(along, target, 0.5 * target), meaning)
        credit["tag"] = "wrong_speed"
        draft.near(title, words, value, target, 0.25 * target, **credit)
    else:
        meaning = f"speed {way}, in parts of {target:.2g} m/s"
        pays = Ratio(along, target, most=None if goal.is_open else most)
        draft.pay("speed", 1.0, pays, meaning)
        credit["tag"] = "too_slow"
        draft.leaf(title, words, value, 0.1 * target, target, **credit)
    if goal.is_said:
        _keep_to_number(draft, goal, name, aside)


def _keep_to_number(draft: Draft, goal: Goal, name: str, aside: str | None) -> None:
    """Guard a speed that was said as a number: what is far from it does not pass by its gait."""
    way, tag = ("off", "wrong_speed") if goal.is_exact else ("short of", "too_slow")
    meaning = f"speed over the full time, {way} what was said, as a share of it"
    at_least = not goal.is_exact
    value = measure(metrics.speed_error, name, goal.value, aside=aside, at_least=at_least)
    # Below a number that must not be exceeded there is room up to that number.
    is_below = goal.source.startswith("below")
    off, far_off = (1.0 / BELOW - 1.0, 0.6) if is_below else (_OFF, _FAR_OFF)
    draft.guard("is about as fast as said", meaning, value, far_off, off, tag=tag)


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
    made, where = measure(metrics.way_made, direction), f"{target:.3g} m {direction}"
    value, meaning = measure(tracks.last, made), "way made from the start to the end"
    credit = Credit(weight=3.0, unit="m", kind="cumulative", tag="too_far")
    if is_least:
        draft.leaf(f"ends at least {where}", meaning, value, 0.5 * target, target, **credit)
    else:
        close = min(max(0.12 * target, 0.05), target / 4)
        draft.near(f"ends {where}", meaning, value, target, close, **credit)
    value, meaning = measure(tracks.highest, made), "farthest way from the start"
    credit = Credit(weight=1.5, unit="m", tag="too_slow")
    draft.total(f"gets {where}", meaning, value, 0.1 * target, 0.9 * target, **credit)
    stop_in_the_end(draft, 0.8, 0.3, 1.5)
    # Who is still under way when time is up has arrived by chance.
    meaning = f"way made in the last fifth of the time, in parts of {target:.3g} m"
    value = measure(metrics.still_under_way, direction, target)
    draft.guard("has arrived by then", meaning, value, 0.18, 0.1, tag="drifts")
    stay_straight(scene, draft, direction)
    if frame.gait in FROUDE:
        go_in_steps(frame.gait, scene, draft, _GRIP_THERE)
    stay_on_feet(scene, draft)
    there = 0.88 * target
    draft.ends_when(Above(Made(direction), there), measure(tracks.above, made, there))
    usual = speed(frame.model_copy(update={"amount": None}), scene).value
    draft.seconds = min(max(1.5 * target / usual + 2.0, 4.0), LONGEST_S)


def stop_in_the_end(draft: Draft, zero: float, goal: float, weight: float) -> None:
    """Judge that it is slow in the last second."""
    meaning, value = "mean speed over the last second", measure(tracks.mean_of_last, "speed", 1.0)
    draft.leaf("stops there", meaning, value, zero, goal, weight=weight, unit="m/s", tag="drifts")


def step_in_place(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Walk on the spot: one foot after the other, without going anywhere."""
    scene.require("stride_alternation", f"{frame.gait or 'go'} in place")
    draft.pay("step", 3.0, Touchdown(Strides()), "a foot comes down")
    draft.pay("stay", 0.7, Small(Measured("horizontal_speed"), 4.0), "not going anywhere")
    title, value = "puts its feet down twice a second", measure(metrics.touchdowns)
    meaning = "touchdowns per second"
    draft.total(title, meaning, value, 0.3, 2.0, weight=2.0, unit="1/s", tag="drags")
    meaning, value = "stride_alternation at the end", measure(tracks.last, "stride_alternation")
    draft.leaf("one foot after the other", meaning, value, 0.3, 0.8, weight=1.5, tag="one_sided")
    value = measure(tracks.farthest, "displacement")
    meaning = "farthest distance from the start"
    draft.guard("stays on the spot", meaning, value, 2.0, 0.7, unit="m", tag="drifts")
    stay_on_feet(scene, draft)
    landed, lasts = Above(Part(Strides(), "landed"), 0.0), frame.duration_s or _SEQUEL_S
    draft.ends_when(landed, measure(metrics.touches), lasts)


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
    turned = measure(tracks.above, measure(metrics.turned, side), round_)
    draft.ends_when(Above(Part(Turns(side), "turned"), round_), turned)


def side_of(frame: Frame) -> str:
    """Return the side that it turns to."""
    is_right = frame.direction in (Direction.RIGHT, Direction.CLOCKWISE)
    return "right" if is_right else "left"


def _judge_circle(draft: Draft, side: str, radius: float, rate: float, laps: float) -> None:
    wound = measure(metrics.winding, side)
    times = "once" if laps == 1 else f"{laps:g} times"
    title, meaning = f"goes round {times} to the {side}", "turns of the path about its own middle"
    value = measure(tracks.last, wound)
    credit = Credit(weight=2.0, unit="turns", tag="under_rotates")
    draft.total(title, meaning, value, 0.2 * laps, 0.9 * laps, **credit)
    credit["weight"] = 1.0
    title, words = "faces where it goes", "turns of the heading"
    turned = measure(tracks.last, measure(metrics.turned, side))
    draft.total(title, words, turned, 0.2 * laps, 0.85 * laps, **credit)
    way, credit = 2.0 * math.pi * radius * laps, Credit(weight=1.5, unit="m", tag="too_slow")
    length = measure(tracks.last, "distance_travelled")
    title = f"goes {way:.2g} m"
    draft.total(title, "length of the path", length, 0.2 * way, 0.75 * way, **credit)
    title, words = (
        f"keeps {radius:.2g} m from the middle",
        "mean distance from the middle of the path",
    )
    close = min(0.35 * radius, radius / 4)
    draft.near(title, words, measure(metrics.radius), radius, close, unit="m", tag="drifts")
    title, credit = "really goes round", Credit(unit="turns", tag="never_moves")
    draft.guard(title, meaning, value, 0.1 * laps, 0.5 * laps, **credit)
    # Whoever walks there and back passes the middle of the path twice, too.
    slow = 0.2 * rate / (2.0 * math.pi)
    meaning = "share of the time in which the path winds on, over half seconds"
    value = measure(tracks.share_above, measure(tracks.pace_of, wound), slow)
    draft.guard("goes round steadily", meaning, value, 0.3, 0.65, tag="stops")
