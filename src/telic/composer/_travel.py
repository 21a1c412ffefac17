"""Walking and running at a speed, over a distance, in circles, with turns or on command.

Velocity commands are resampled every few seconds, sometimes as zero. The error of each of the three
rates is judged relative to that of standing still, so a robot fails if it ignores one rate.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from telic.composer import _gaits as gaits
from telic.composer import _sizes as sizes
from telic.composer._draft import Draft
from telic.composer._manners import charge_change, stay_on_feet, stay_straight
from telic.composer._phases import QUARTER
from telic.composer.frames import Frame
from telic.composer.lexicon import word_table
from telic.composer.scene import Scene
from telic.errors import Refused
from telic.judges import metrics, tracks
from telic.judges.tracks import Measure, track
from telic.rewards import signals, terms
from telic.rewards.signals import Above, Along, Below, Measured, Part, Turns
from telic.rewards.terms import Exact, Ratio, Small, When

AHEAD = ("forward", "backward", "left", "right")
_RAIL_M = 0.5
_OVERSHOOT = 1.1
"""target for a minimum distance, as a multiple of it"""
_MOST, _MAX_WALKING = 1.5, 1.15
"""multiples of the goal up to which speed is rewarded, in general and for walking"""
_STRIDES, _STEP_LEGS = 4.0, 0.5
"""minimum number of strides for judging a gait over a distance, and step length in leg lengths"""
_ON_AXIS = {"forward": 1, "backward": -1}
_OFF, _FAR_OFF = 0.2, 0.45
"""relative errors of a stated speed that earn full credit and no credit"""
_SEQUEL_S = 2.0
"""default time at speed before the next phase, in seconds"""
SETTLED = 0.85
"""fraction of a stated duration that must be at speed, to allow for acceleration"""


# ---- going


def go(frame: Frame, scene: Scene, draft: Draft, aside: Frame | None = None) -> None:
    """Travel in a direction at a speed, or diagonally if a second direction (`aside`) is given."""
    gaits.require_ground(frame, scene)
    if frame.gait == "swim" and scene.spec.feet:
        raise scene.cannot("swim", "the scene has no water", "")
    if frame.direction == "in_place":
        _step_in_place(frame, scene, draft)
        return
    name, way, second = _way(frame, scene), seen_from_start(frame, scene), None
    gait = gaits.gait_meant(frame, scene)
    if scene.on_rail or frame.way_m is not None:
        _go_distance(frame, scene, draft, name, way)
        return
    is_counted = frame.given("steps") is not None
    if is_counted and frame.ground is None and frame.direction not in ("up", "down"):
        _take_steps(frame, scene, draft, name, way)
        return
    goal = speed_meant(frame, scene, draft)
    if aside is not None:
        second = _way(aside, scene)
    most = _MAX_WALKING if gait and gait.name in gaits.ON_GROUND else _MOST
    if scene.is_turning and scene.has("heading_velocity") and name in _ON_AXIS:
        # On a curve, "forward" is the current heading.
        sign = _ON_AXIS[name]
        along = Measured("heading_velocity", sign=sign)
        pace = track("heading_velocity", sign=sign)
        draft.pay("speed", 1.0, Ratio(along, goal.value, most=most), "forward speed of the body")
        title = f"averages %s {name}, where it faces"
        zero, value = 0.1 * goal.value, tracks.mean(pace)
        draft.score(title, value, zero, goal.value, weight=3.0, tag="too_slow", of=goal)
    else:
        be_fast(draft, name, goal, most=most, aside=second, way=way)
        along, pace = Along(way, second), metrics.pace(way, second)
    value = tracks.share(pace > 0.3 * goal.value)
    draft.score("keeps moving", value, 0.3, 0.9 if frame.until_end else 0.75, tag="stops")
    if frame.direction != "sideways":
        stay_straight(frame, scene, draft, way, second)
    gaits.lay_ground(frame, scene, draft, goal.value, (way, second))
    if gait is not None and frame.gait is not None and not gaits.SUPPORT & {*frame.postures}:
        gaits.step_in(gait, frame, scene, draft)
        gaits.go_in_steps(frame.gait, scene, draft)
    elif frame.gait in sizes.FROUDE and not scene.spec.feet:
        draft.doubt(f'the robot has no feet, so only the speed of "{frame.word}" can be judged')
    _keep_stroking(frame, scene, draft)
    gaits.keep_rate(frame, scene, draft)
    stay_on_feet(scene, draft)
    low, high = 0.7 * goal.value, 1.4 * goal.value
    lasts = SETTLED * (frame.duration_s or _SEQUEL_S)
    draft.ends_when(Above(along, low), pace > low, lasts)
    if goal.is_exact:
        draft.ends_when(Below(along, high), pace < high, lasts)
    if frame.duration_s:
        draft.seconds = max(frame.duration_s + 1.0, 2.0)


def _keep_stroking(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Bend joints most of the time while swimming: after a single stroke, a robot drifts far."""
    if frame.gait != "swim":
        return
    scene.require("joint_speed", "swim")
    draft.pay("strokes", 0.3, Ratio(Measured("joint_speed"), 1.0, most=1.0), "joints in motion")
    value = tracks.share(track("joint_speed") > 0.5)
    draft.require("bends its joints", value, 0.3, 0.75, tag="stops")


def _way(frame: Frame, scene: Scene) -> str:
    """Return the direction of travel. Raise BadEnvironment if the robot cannot move in it."""
    direction = frame.direction or "forward"
    if scene.on_rail:
        direction = {"right": "forward", "left": "backward"}.get(direction, direction)
    if direction not in (*AHEAD, "sideways"):
        direction = "forward"
    require_way(direction, "go", scene)
    return direction


def seen_from_start(frame: Frame, scene: Scene) -> metrics.Way:
    """Return the direction of travel in the start frame, including earlier turns."""
    name = _way(frame, scene)
    if frame.bearing is not None and scene.has("y_position"):
        return {0.0: "forward"}.get(frame.bearing, round(frame.bearing, 1))
    if frame.heading is None and scene.has("heading_velocity"):
        return "ahead" if name == "forward" else name
    if not frame.heading or frame.is_of_start or not scene.has("heading_velocity"):
        return name
    degrees = (frame.heading + metrics.DEGREES[name] + 180.0) % 360.0 - 180.0
    return next((each for each, own in metrics.DEGREES.items() if own == degrees), degrees)


def require_way(direction: str, what: str, scene: Scene) -> None:
    """Raise BadEnvironment if the robot cannot move in a direction."""
    is_aside = direction in ("left", "right", "sideways")
    scene.require("lateral_velocity" if is_aside else "forward_velocity", f"{what} {direction}")


def be_fast(
    draft: Draft,
    name: str,
    goal: sizes.Goal,
    most: float = _MOST,
    aside: str | None = None,
    way: metrics.Way | None = None,
) -> None:
    """Reward and judge speed up to a multiple of the goal, with `way` in the start frame."""
    seen = name if way is None else way
    target, along, value = goal.value, Along(seen, aside), metrics.net_speed(seen, aside)
    way = name if aside is None else f"{name} and {aside}"
    if goal.is_exact:
        pays, tag = Exact(along, target, 0.5 * target), "wrong_speed"
        within = goal.within or 0.25 * target
        draft.pay("speed", 1.0, pays, f"speed {way}, best at {target:.2g} m/s")
    else:
        tag, within = "too_slow", None
        pays = Ratio(along, target, most=None if goal.is_open else most)
        draft.pay("speed", 1.0, pays, f"speed {way}, as a fraction of {target:.2g} m/s")
    title = f"averages %s {way}"
    draft.score(title, value, 0.1 * target, target, within=within, weight=3.0, tag=tag, of=goal)
    if goal.is_given:
        # A large error from a stated speed must not pass because of a good gait. For an upper
        # bound, speeds from the goal up to the bound are tolerated.
        is_below = goal.source.startswith("below")
        off, far_off = (1.0 / sizes.BELOW - 1.0, 0.6) if is_below else (_OFF, _FAR_OFF)
        error = value / target - 1.0
        value = abs(error) if goal.is_exact else tracks.combined("maximum", -error, 0.0)
        draft.require(f"is within {off:.0%} of the stated speed", value, far_off, off, tag=tag)


def speed_meant(frame: Frame, scene: Scene, draft: Draft) -> sizes.Goal:
    """Return the intended speed. Also notes it for the user, and sets the training time."""
    goal = sizes.speed(frame, scene)
    if goal.source != "as given":
        draft.doubt(sizes.goal_note(f'"{frame.word}"', goal))
    draft.practice = max(draft.practice, sizes.practice(scene, goal.value))
    known = scene.known.get("top_speed")
    if known is not None and goal.value > known:
        draft.doubt(
            f"this robot's reference speed is {known:g} m/s (two to four minutes of plain "
            f"training): {goal.value:.2g} m/s may require more steps, or a GPU"
        )
    return goal


def _go_distance(
    frame: Frame, scene: Scene, draft: Draft, direction: str, way: metrics.Way
) -> None:
    """Travel a distance in the requested gait and stay at the end."""
    given, rule = frame.given("m"), frame.amount.rule if frame.amount else "about"
    target = given or _RAIL_M
    if given and rule == "at_most":
        target *= sizes.BELOW
        draft.doubt(f'"{frame.word}": about {target:.2g} m, below the given {given:g} m')
    is_least = bool(given) and rule == "at_least"
    aim = target * (_OVERSHOOT if is_least else 1.0)
    if not given:
        draft.doubt(f'"{frame.word}" is interpreted as {target:g} m along the rail')
    made, seen = signals.Made(way), tracks.change(metrics.place(way))
    pace = frame.amount if frame.given("m/s") else frame.pace
    (x, y), paced = frame.point or (0.0, None), replace(frame, amount=pace)
    point = (x, y) if y else None
    direction = f"toward ({point[0]:g}, {point[1]:g})" if point else direction
    pays = terms.Arrive(made, aim, max(0.2 * target, 0.1))
    draft.pay("way", 1.0, pays, f"close to {aim:.2g} m {direction}")
    around = min([max(0.12 * target, 0.05), target / 4, *(target * k for k in frame.tolerances)])
    if point is not None:
        scene.require("y_position", f"go {direction}")
        draft.pay("there", 1.0, terms.Near(signals.Gone(scene.axes, point), 1.0), "destination")
        title, value = "ends %s from there", tracks.last(metrics.gone(at=point))
        draft.score(title, value, 0.5 * target, around, weight=3.0, tag="too_far")
        draft.is_seen = True
    else:
        title, value = f"ends %s {direction}", tracks.last(seen)
        within = None if is_least else around
        draft.score(title, value, 0.5 * target, target, within=within, weight=3.0, tag="too_far")
    title, value = f"covers %s {direction}", tracks.highest(seen)
    draft.score(title, value, 0.1 * target, 0.9 * target, weight=1.5, tag="too_slow")
    if scene.is_last:
        stop_in_the_end(draft, 0.8, 0.3, 1.5)
        # Without stopping, the robot is at the target only by chance when the episode ends.
        value = metrics.still_under_way(way, target)
        draft.require("has arrived before the end", value, 0.18, 0.1, tag="drifts")
    stay_straight(frame, scene, draft, way)
    gait, usual = gaits.gait_meant(frame, scene), sizes.speed(paced, scene).value
    if frame.gait in sizes.FROUDE and not gaits.SUPPORT & {*frame.postures}:
        if gait is not None and gait.hertz * target / usual < _STRIDES:
            draft.doubt(f"{target:g} m is too short to judge the order of its touchdowns")
        elif gait is not None:  # judged only on the way, because the robot stands after arrival
            under_way = Below(made, 0.85 * target)
            gaits.step_in(gait, frame, scene, draft, under_way, (way, 0.85 * target))
        gaits.go_in_steps(frame.gait, scene, draft, weight=0.2)
    stay_on_feet(scene, draft)
    if pace or (frame.dimension == "speed" and (frame.degree or frame.factor)):
        goal = speed_meant(paced, scene, draft)
        within = (0.25 if goal.is_given else 0.5) * goal.value if goal.is_exact else None
        hurry = Exact(Along(way), goal.value, goal.value) if goal.is_exact else Along(way)
        draft.pay("pace", 0.5, When(Below(made, 0.85 * target), hurry), "speed on the way")
        value, zero = metrics.net_speed(way).until(way, 0.85 * target), 0.1 * goal.value
        title, tag = "averages %s on the way", "wrong_speed" if goal.is_exact else "too_slow"
        draft.score(title, value, zero, goal.value, within=within, weight=3.0, tag=tag, of=goal)
    there = (1.0 if is_least else 0.95) * target
    draft.ends_when(Above(made, there), seen > there)
    draft.seconds = min(max(1.5 * target / usual + 2.0, 4.0), sizes.MAX_S)
    be_in_time(frame, draft, seen < 0.88 * target)


def be_in_time(frame: Frame, draft: Draft, on_way: Measure) -> None:
    """Judge a stated time limit, unless episodes are too short to exceed it."""
    limit, late = frame.within_s or 0.0, 1.5 * (frame.within_s or 0.0)
    if limit and frame.degree == "most":
        draft.seconds = limit  # "as far as you can in 5 s"
    elif 0.0 < late <= sizes.MAX_S:
        draft.seconds, value = max(draft.seconds, late), tracks.longest(on_way)
        draft.score("is on the way for %s", value, late, limit, weight=3.0, tag="too_slow")


def _take_steps(frame: Frame, scene: Scene, draft: Draft, direction: str, way: metrics.Way) -> None:
    """Take a number of steps of a minimum length and stop. Quadrupeds use two feet per step."""
    scene.require("stride_alternation", "count its steps")
    assert frame.amount is not None and scene.leg is not None
    count, leg = max(round(frame.amount.value), 1), scene.leg
    usual = sizes.speed(replace(frame, amount=None), scene).value
    draft.seconds = min(max(1.0 * count + 2.0, 4.0), sizes.MAX_S)
    made, there = signals.Made(way), round(_STEP_LEGS * leg * count, 3)
    draft.pay("way", 1.0, terms.Arrive(made, there, 0.5 * there), f"close to {there:.2g} m")
    draft.pay("step", 1.0, terms.Touchdown(signals.Strides()), "touchdown of a foot")
    per_step = len(scene.spec.feet) / 2.0 / draft.seconds
    goal, within = per_step * count, per_step * max(0.5, 0.1 * count)
    value, title = metrics.touchdowns(), f"takes {count} step{'s' if count > 1 else ''}"
    if frame.amount.rule == "about":
        draft.score(title, value, 0.0, goal, within=within, weight=3.0, tag="wrong_gait")
    else:
        is_least = frame.amount.rule == "at_least"
        title = f"takes at {'least' if is_least else 'most'} {count} steps"
        zero = goal - 2 * within if is_least else goal + 2 * within
        draft.score(title, value, zero, goal, weight=3.0, tag="wrong_gait")
    title, value = f"covers %s {direction}", tracks.highest(tracks.change(metrics.place(way)))
    draft.score(title, value, 0.1 * there, 0.5 * there, weight=2.0, tag="too_slow")
    value = tracks.last("stride_alternation")
    draft.score("steps with one foot after the other", value, 0.3, 0.8, tag="one_sided")
    if scene.is_last:
        stop_in_the_end(draft, max(0.8 * usual, 0.4), 0.3, 1.5)
    stay_straight(frame, scene, draft, way)
    gaits.go_in_steps(frame.gait, scene, draft, weight=0.2)
    stay_on_feet(scene, draft)
    draft.ends_when(Above(made, 0.5 * there), tracks.change(metrics.place(way)) > 0.5 * there)


def stop_in_the_end(draft: Draft, zero: float, goal: float, weight: float) -> None:
    """Judge that the speed is low in the last second."""
    title, value = "moves %s in the last second", tracks.mean_of_last("speed", 1.0)
    draft.score(title, value, zero, goal, weight=weight, tag="drifts")


def _step_in_place(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Walk in place with alternating feet."""
    if not scene.spec.feet:
        raise scene.cannot(f"{frame.gait or 'go'} in place", "it has no feet to step with")
    scene.require("stride_alternation", f"{frame.gait or 'go'} in place")
    strides = signals.Strides()
    draft.pay("step", 3.0, terms.Touchdown(strides), "touchdown of a foot")
    draft.pay("stay", 0.7, Small(Measured("horizontal_speed"), 4.0), "no displacement")
    gaits.keep_rate(frame, scene, draft)
    if frame.period_s is None:
        title, value = "takes at least 2 steps per second", metrics.touchdowns()
        draft.score(title, value, 0.3, 2.0, weight=2.0, tag="drags")
    gait = gaits.gait_meant(frame, scene)
    if gait is not None and gait.name not in gaits.ANY_GAIT:
        gaits.step_in(gait, frame, scene, draft)
    else:
        title, value = "steps with one foot after the other", tracks.last("stride_alternation")
        draft.score(title, value, 0.3, 0.8, weight=1.5, tag="one_sided")
    title, value = "stays within 0.7 m of the start", tracks.farthest("displacement")
    draft.require(title, value, 2.0, 0.7, tag="drifts")
    stay_on_feet(scene, draft)
    lasts = frame.duration_s or _SEQUEL_S
    draft.ends_when(Above(Part(strides, "landed"), 0.0), track("feet_in_contact") > 0.0, lasts)


# ---- turning


def side_of(frame: Frame) -> str:
    """Return the side to turn to."""
    is_right = frame.direction in ("right", "clockwise")
    return "right" if is_right else "left"


def circle(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Travel in a circle, forward along the heading while turning."""
    scene.require("heading_velocity", "go in a circle")
    target, side = speed_meant(frame, scene, draft).value, side_of(frame)
    radius = target / 0.8
    if frame.dimension == "distance":
        wider = {"little": 0.5, "much": 2.0, "most": 2.0}
        radius *= wider.get(frame.degree or "moderate", 1.0)
        radius = frame.given("m") or radius
    rate, laps = target / radius, frame.all_turns or 1.0
    draft.seconds = min(1.3 * laps * 2.0 * math.pi / rate + 1.0, sizes.MAX_S)
    how = "" if frame.gait in (None, "walk") else "; its gait is not judged"
    draft.doubt(f"the circle is assumed to have a radius of {radius:.2g} m, to the {side}{how}")
    heading, turned, wound = Turns(side), metrics.turned(side), metrics.winding(side)
    ahead, where = Ratio(signals.Ahead(), target, most=1.2), "along its heading"
    if frame.direction == "backward":
        ahead = Ratio(Measured("heading_velocity", sign=-1), target, most=1.2)
        back, where = -track("heading_velocity"), "against its heading"
        value = tracks.share(back > 0.3 * target)
        draft.score("goes backward", value, 0.3, 0.75, weight=2.0, tag="drifts")
    draft.pay("speed", 1.0, ahead, f"speed {where}, as a fraction of {target:.2g} m/s")
    turning = Exact(Part(heading, "rate"), rate, 0.6 * rate)
    draft.pay("turn", 1.0, turning, f"turning {side} at {rate:.2g} rad/s")
    title = f"goes round {'once' if laps == 1 else f'{laps:g} times'} to the {side}"
    value, tag = tracks.last(wound), "under_rotates"
    draft.score(title, value, 0.2 * laps, 0.9 * laps, weight=2.0, tag=tag)
    faced = tracks.last(turned)
    draft.score("faces where it goes", faced, 0.2 * laps, 0.85 * laps, weight=1.0, tag=tag)
    way, length = 2.0 * math.pi * radius * laps, tracks.last("distance_traveled")
    draft.score("travels %s", length, 0.2 * way, 0.75 * way, weight=1.5, tag="too_slow")
    title, mean = "keeps a radius of %s", metrics.radius()
    draft.score(title, mean, 0.0, radius, within=radius / 4, tag="drifts")
    draft.require("goes round half way", value, 0.1 * laps, 0.5 * laps, tag="never_moves")
    # Walking back and forth also passes the middle of the path twice.
    steadily = tracks.share(tracks.pace_of(wound) > 0.2 * rate / (2.0 * math.pi))
    draft.require("goes round steadily", steadily, 0.3, 0.65, tag="stops")
    stay_on_feet(scene, draft)
    done = 0.9 * laps
    draft.ends_when(Above(Part(heading, "turned"), done), turned > done)


def turn(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Turn about the vertical axis by an angle or continuously."""
    scene.require("heading_rate", "turn about the vertical")
    amount, turns = frame.amount, frame.all_turns
    if amount is None and frame.degree == "little" and frame.dimension == "turning":
        turns = 0.125
        draft.doubt(f'"{frame.word}" a little is interpreted as 45 degrees')
    elif amount is None and turns is None and frame.direction is None:
        draft.doubt(f'"{frame.word}" is to the left, because no direction is given')
    elif frame.amount is QUARTER:  # no angle was given
        draft.doubt(f'"{frame.word}" before the next part is interpreted as 90 degrees')
    if turns is not None:
        _turn_by(frame, draft, side_of(frame), turns)
    else:
        _spin(frame, draft, side_of(frame))
        # Position-controlled robots need a step clock; without it they shuffle and hardly turn.
        going = replace(frame, verb="go", amount=None)
        if "commands" in scene.spec.arguments and (gait := gaits.usual_gait(going, scene)):
            gaits.keep_time(gait, scene, draft)
            draft.settings |= {"log_std": gaits.STEPPING}
    stay_on_feet(scene, draft)


def _spin(frame: Frame, draft: Draft, side: str) -> None:
    rate = 2.0 if frame.degree in sizes.QUICK else 0.5 if frame.degree in sizes.GENTLE else 1.0
    rate, is_slower = rate * (frame.factor or 1.0), (frame.factor or 1.0) < 1.0
    given, rule = frame.given("rad/s"), frame.amount.rule if frame.amount else "about"
    if given:
        rate = given * (sizes.BELOW if rule == "at_most" else 1.0)
    if frame.duration_s:
        draft.seconds = max(frame.duration_s + 1.0, 2.0)
    whole = rate * draft.seconds / (2.0 * math.pi)
    is_open = frame.degree == "most" and not frame.amount
    heading, turned = Turns(side), metrics.turned(side)
    turning, fast = Part(heading, "rate"), metrics.turning_rate(turned)
    # Reward for turning faster than requested would compete with staying in place.
    pays = Ratio(turning, rate, most=None if is_open else 1.15)
    draft.pay("turn", 1.0, pays, f"turning to the {side}")
    title, value = f"rotates %s to the {side}", tracks.last(turned) * draft.seconds
    is_exact = bool(given) and rule != "at_least"
    goal, within = (whole, 0.15 * whole) if is_exact else (0.7 * whole, None)
    base = goal / frame.factor if frame.factor else None
    zero, tag = (0.5 if given else 0.1) * goal, "under_rotates"
    of = sizes.Goal(goal, is_exact or is_slower, "", is_open, base=base)
    value /= tracks.full_seconds()
    draft.score(title, value, zero, goal, within=within, weight=3.0, tag=tag, of=of)
    value = tracks.share(fast > 0.3 * rate)
    draft.score("keeps turning", value, 0.2, 0.85 if frame.until_end else 0.6, tag="stops")
    if frame.duration_s:
        draft.ends_when(Above(turning, 0.5 * rate), fast > 0.5 * rate, frame.duration_s)
    else:
        draft.ends_when(Above(Part(heading, "turned"), 0.22), turned > 0.22)


def _turn_by(frame: Frame, draft: Draft, side: str, turns: float) -> None:
    """Turn by an angle and stop."""
    draft.is_seen = True  # the heading alone does not determine the number of turns
    rule = frame.amount.rule if frame.amount else frame.count_rule
    is_least = rule == "at_least"
    if rule == "at_most":
        draft.doubt(
            f'"{frame.word}": about {sizes.BELOW * turns:.2g} turns, below the given {turns:.2g}'
        )
        turns *= sizes.BELOW
    tolerance = min([0.06 + 0.05 * turns, turns / 4.0, *(turns * off for off in frame.tolerances)])
    slow = 1.0 if frame.degree not in sizes.GENTLE else 0.5
    draft.seconds = min(max(3.0, 3.0 * math.pi * turns / slow + 2.0), 30.0)
    heading, turned = Turns(side), metrics.turned(side)
    meaning = f"turned to the {side}, as a fraction of {turns:.3g} turns"
    draft.pay("turn", 1.0, terms.TurnBy(heading, turns, at_least=is_least), meaning)
    there = terms.TurnedThere(heading, turns, tolerance, at_least=is_least)
    draft.pay("there", 1.0, there, "at the target heading, not turning")
    verb = "turns" if turns < 1.0 else "rotates"
    title, within = f"{verb} %s to the {side}", None if is_least else tolerance
    value, tag = (tracks.highest if is_least else tracks.last)(turned), "under_rotates"
    draft.score(title, value, 0.2 * turns, turns, within=within, weight=3.0, tag=tag)
    if not is_least:
        value = tracks.share(abs(turned - turns) < 2 * tolerance)
        draft.score("holds that heading", value, 0.02, 0.15, weight=1.0, tag="over_rotates")
    far = turns - tolerance
    draft.ends_when(Above(Part(heading, "turned"), far), turned > far)
    be_in_time(frame, draft, turned < far)


# ---- commanded velocities

_Rates = tuple[float, float, float]
_Spans = tuple[tuple[float, float], ...]
_EVERY_S = 2.5
_TABLE = word_table("commands")


def command_range(frame: Frame, scene: Scene, draft: Draft) -> tuple[_Rates, _Spans]:
    """Return the largest rates (forward, sideways, turn) and the bounds of each.

    The rates are as stated, or scaled by the leg length.
    """
    if "commands" not in scene.spec.arguments or not scene.has("command_error"):
        why = "its environment has no commands (`telic robots` lists robots with commands)"
        raise scene.cannot("obey commands", why, "command_error")
    given, lowest = frame.given("m/s"), None
    ends = [bound.value for bound in frame.bounds if bound.unit == "m/s"]
    if len(ends) > 1 and max(ends) > 0.0:
        ahead, lowest = max(ends), min(ends)
    elif given:
        ahead = given
    else:
        ahead = sizes.froude_speed(scene, 0.25) or scene.top_speed  # a brisk walk
        is_share = frame.given("share") is not None
        if frame.degree is not None or frame.gait in sizes.FROUDE or is_share:
            stated = sizes.speed(replace(frame, verb="go"), scene).value
            is_less = frame.degree in sizes.GENTLE or is_share
            ahead = stated if is_less else max(stated, ahead)
    legs = 0.17 * math.sqrt(scene.gravity / (scene.leg or 0.3))  # pendulum frequency of the legs
    turn = frame.given("rad/s") or legs
    ahead, aside, turn = (float(f"{value:.2g}") for value in (ahead, 0.5 * ahead, turn))
    every_way = ((-1.0, 1.0), (-1.0, 1.0))
    (back, forth), (right, left) = (
        _TABLE["only"].get(frame.direction, every_way) if frame.direction else every_way
    )
    low, high = back * ahead if lowest is None else lowest, forth * ahead
    right, left = right * aside, left * aside
    draft.doubt(
        f'"{frame.word}": commands of {low:g} to {high:g} m/s forward, {right:g} to {left:g} m/s '
        f"to the left and up to {turn:g} rad/s of yaw, resampled every {_EVERY_S:g} s"
    )
    return (ahead, aside, turn), ((low, high), (right, left), (-turn, turn))


def track_commands(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Track commanded forward, sideways and turning velocities."""
    most, spans = command_range(frame, scene, draft)
    names = _TABLE["rates"]
    draft.env_args["commands"] = {
        **{name: [*span] for name, span in zip(names, spans, strict=True)},
        "every_s": _EVERY_S,
        "still": 0.2,  # fraction of zero commands
        "heading": 0.0,
    }
    draft.seconds = max(10.0, (frame.duration_s or 0.0) + 1.0)
    draft.practice = 3.0  # multiple of the steps for walking, as there are three rates
    draft.settings |= {"log_std": gaits.STEPPING}
    # With every step, the hips of a biped sway and yaw by more than the command. An instantaneous
    # reward would make the policy hold its hips still, so the mean rate is rewarded. Oscillations
    # that cancel in the mean are penalized separately.
    sways = len(scene.feet()) <= 2
    missed = signals.CommandError(most[0], most[2], mean_s=0.4 if sways else 0.0)
    if sways:
        words = "yaw oscillation with every step, as a cost"
        draft.pay("sway", 0.1, terms.Sway(missed), words)
    words = "horizontal velocity close to the command"
    draft.pay("obey", 2.5, terms.FollowVelocity(missed), words)
    draft.pay("turn", 1.5, terms.FollowTurn(missed), "yaw rate close to the command")
    draft.pay("level", 0.5, terms.Level(), "vertical motion, roll and pitch, as a cost")
    if scene.has("action_change"):
        charge_change(scene, draft, 0.1)
    for place, (unit, what, never, weight) in enumerate(_TABLE["rates"].values()):
        low, high = spans[place]
        is_commanded = (low, high) != (0.0, 0.0)
        value = metrics.command_error(place, (0.15 if is_commanded else 1.0) * most[place])
        if not is_commanded:
            draft.score(never, value, 1.0, 0.35, weight=1.0, tag="drifts")
            continue
        span = f"up to {high:g}" if low == -high else f"{low:g} to {high:g}"
        title = f"tracks the commanded {what}, {span} {unit}"
        draft.score(title, value, 1.0, 0.35, weight=weight, tag="wrong_speed")
        title = f"does not ignore the commanded {what}"
        draft.require(title, value, 1.0, 0.75, tag="wrong_speed")
    value = metrics.moves_at_rest(most)
    draft.require("stands when commanded to", value, 0.5, 0.25, tag="drifts")
    moving = signals.IsCommanded(most[0], most[2])
    if frame.gait not in gaits.ANY_GAIT and (gait := gaits.gait_meant(frame, scene)) is not None:
        gaits.step_in(gait, frame, scene, draft)
    if (gait := gaits.usual_gait(frame, scene)) is not None:
        gaits.keep_time(gait, scene, draft, only=moving)
    if scene.has("foot_contact"):
        words = "feet in the air while commanded to stand, as a cost"
        draft.pay("stand", 0.5, terms.StandOnFeet(moving), words)
    gaits.go_in_steps(frame.gait, scene, draft)
    stay_on_feet(scene, draft)


def require_alone(frames: Sequence[Frame]) -> None:
    """Reject combinations of velocity commands with other behaviors."""
    first = next((frame for frame in frames if frame.verb == "obey"), None)
    other = next((frame for frame in frames if frame is not first), None)
    if first is not None and other is not None:
        raise Refused(
            f'"{first.word}" cannot be combined with other actions. The commands define the '
            f'motion, so "{other.word}" cannot be added.',
            hint='Omit one of them, or combine the gait with the command: "trot as commanded".',
        )
