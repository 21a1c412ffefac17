"""Behaviors with flight phases or rotations, such as jumps, hops, flips and rolls.

"jump every 3 seconds" and "jump twice per second" specify the time between landings. For such
intents, the policy observes the time since the last landing.
"""

from __future__ import annotations

import math

from telic.composer import _manners as manners
from telic.composer import _sizes as sizes
from telic.composer import _travel as travel
from telic.composer._draft import Draft
from telic.composer._gaits import land_together
from telic.composer._sizes import Goal
from telic.composer.frames import Frame
from telic.composer.scene import Scene
from telic.judges import metrics, tracks
from telic.judges.tracks import track
from telic.rewards import signals, terms
from telic.rewards.signals import Above, Below, Measured, Not, Part
from telic.rewards.terms import Capped, Cost, Pay, Ratio, Small, SmallSquare, When

_FLIGHT_S, _RISE_M = 0.11, 0.05
"""minimum duration and rise of a flight, to exclude vibrating feet"""
_OF_JUMP, _MIN_HOP_M = 0.6, 0.08
"""height of a high hop as a fraction of a high jump, and minimum hop height in meters"""
_MAX_S, _BEATS = 30.0, 4
_FLIGHT, _LATE = 0.7, 0.25
"""maximum fraction of the time between jumps spent in the air, and tolerance of the jump time"""


def beats(period_s: float) -> int:
    """Return the number of repetitions that the judge requires."""
    return max(min(_BEATS, math.floor(_MAX_S / period_s - 0.5)), 1)


def jump(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Jump to a height above standing with the requested count, period or distance."""
    scene.require("height", "jump")
    is_far = frame.dimension == "distance" or frame.direction in travel.AHEAD
    goal, count, period = _jump_goal(frame, scene, draft)
    target, seen = goal.value, track("height") - scene.starts
    above = Measured("height", minus=scene.starts)
    jumps = signals.Cycles(above, 0.8 * target, 0.3 * target)
    times, counted = Part(jumps, "times"), tracks.cycles(seen, 0.8 * target, 0.3 * target)
    height = Ratio(above, target, low=0.0, most=None if goal.is_open else 2.0)
    height = Capped(above, target) if goal.is_exact else height
    rise, slow = Pay(Measured("vertical_velocity"), 0.0, 3.0), Small(Measured("speed"), 1.0)
    if period is not None:
        wait = signals.Waiting(jumps, period)
        due = Part(wait, "due")
        in_time = terms.InTime(wait, _LATE * period)
        draft.pay("land", 1.0, in_time, "once per jump, on a timely landing")
        if scene.has("speed"):
            draft.pay("rest", 0.5, When(Not(due), slow), "at rest between the jumps")
        height, rise = When(due, height), When(due, rise)
    elif count is not None:
        left = Below(times, count - 0.5)
        height, rise = When(left, height), When(left, rise)
        if scene.has("speed"):
            draft.pay("rest", 1.0, When(Not(left), slow), "at rest afterward")
        # The last landing ends the phase; it is already counted and rewarded like the others.
        draft.pay("land", 1.0, terms.Done(jumps, count), "once per jump: down again")
    draft.pay("height", 1.0, height, f"height above standing, as a fraction of {target:.2g} m")
    draft.pay("rise", 0.3, rise, "upward velocity")
    _judge_jump(frame, goal, period, scene, draft)
    done = (count or 1) - 0.5
    draft.ends_when(Above(times, done), counted > done)
    if is_far:
        _leap(frame, scene, draft)
    manners.allow_height(scene, draft, scene.stands + 2.0 * target + 0.5)
    # Keep the reward for standing low enough to make jumping worth the risk.
    manners.stay_on_feet(scene, draft, alive=manners.ALIVE if period is None else None)
    draft.seconds = 5.0 if count is None else max(3.0, 1.5 * count + 1.5)
    draft.seconds = draft.seconds if period is None else ((count or 0) + 0.5) * period


def _jump_goal(
    frame: Frame, scene: Scene, draft: Draft
) -> tuple[sizes.Goal, int | None, float | None]:
    """Return the goals for the height, the count and the period of jumps."""
    is_far = frame.dimension == "distance" or frame.direction in travel.AHEAD
    goal, count, period = sizes.jump_height(frame, scene), frame.count, frame.period_s
    if is_far or period is None:
        period = None
        if is_far and goal.source != "as given":  # a leap forward need not be as high
            goal = goal._replace(value=0.7 * goal.value)
    else:
        count = beats(period)
        if count < 2:
            why = f"an episode of at most {_MAX_S:g} s is shorter than two periods"
            raise scene.cannot(f"jump every {period:g} s", why, "air_time")
        most = scene.gravity * (0.5 * _FLIGHT * period) ** 2 / 2.0  # h = g (t / 2)^2 / 2
        if goal.source != "as given" and goal.value > most:
            goal = goal._replace(value=most, source=f"the highest possible every {period:g} s")
    if goal.source != "as given":
        draft.doubt(sizes.goal_note(f'"{frame.word}"', goal, "m above standing"))
    return goal, count, period


def _judge_jump(frame: Frame, goal: Goal, period: float | None, scene: Scene, draft: Draft) -> None:
    """Judge the height, the time in the air, and the count or regularity of jumps."""
    seen, target = track("height") - scene.starts, goal.value
    counted = tracks.cycles(seen, 0.8 * target, 0.3 * target)
    title, value = "rises %s above standing height", tracks.highest(seen)
    within, weight = 0.25 * target if goal.is_exact else None, 3.0 if period is None else 1.0
    zero, tag = 0.15 * target, "too_low"
    draft.score(title, value, zero, target, within=within, weight=weight, tag=tag, of=goal)
    if scene.has("air_time"):
        seconds = 0.15 if period is None else min(0.15, 0.5 * _FLIGHT * period)
        draft.score("is airborne for %s", tracks.highest("air_time"), 0.03, seconds, tag="too_low")
    if period is not None:
        value = metrics.on_time(counted, period, _LATE * period, beats(period) - 1)
        title = f"jumps every {period:g} s (± {_LATE * period:.2g} s)"
        draft.score(title, value, 0.2, 1.0, weight=4.0, tag="too_slow")
    elif frame.count is not None:
        draft.counted("jumps", tracks.last(counted), frame, tag="too_low")


def _leap(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Jump over a distance."""
    is_aside = frame.direction in ("left", "right")
    quantity = "lateral_velocity" if is_aside else "forward_velocity"
    scene.require(quantity, f"jump to the {frame.direction}" if is_aside else "jump forward")
    scene.require("air_time", "jump a distance")
    way = frame.direction or "forward"
    along = way if frame.direction in travel.AHEAD else "forward"
    goal = sizes.leap_length(frame, scene)
    target = goal.value
    if goal.source != "as given":
        draft.doubt(sizes.goal_note(f'"{frame.word}" {way}', goal, "m in the air"))
    speed, most = max(target / 0.4, 0.2), None if goal.is_open else 2.0
    fast = Ratio(signals.Along(along), speed, most=most)
    draft.pay("leap", 1.0, When(signals.Airborne(), fast), f"speed {way} in the air")
    leap = tracks.since(metrics.place(along), track("feet_in_contact") > 0.0)
    title, value = f"leaps %s {way}", tracks.highest(leap)
    low, high, tag = 0.1 * target, 0.9 * target, "too_slow"
    draft.score(title, value, low, high, weight=3.0, tag=tag, of=goal)
    manners.do_not_thrash(scene, draft)


def hop(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Take off and land repeatedly, either in place or while traveling."""
    scene.require("air_time", "hop")
    if frame.period_s is not None and frame.direction not in travel.AHEAD:
        jump(frame, scene, draft)  # "hop twice per second"
        return
    landings, flies = signals.Flights(_FLIGHT_S), metrics.flying(_FLIGHT_S, _RISE_M)
    hops = tracks.repeats(flies, track("air_time") <= 0.0)
    draft.pay("hop", 5.0, terms.Hop(landings), "flight time, paid at each landing")
    is_fast = frame.degree in ("fast", "very_fast", "most") or frame.given("m/s") is not None
    is_fast = is_fast and frame.direction != "in_place" and frame.dimension != "height"
    travels = is_fast or frame.direction in travel.AHEAD or frame.dimension == "distance"
    # Without a way to go, only the time in the air pays: standing still would earn the rest.
    rise = Pay(Measured("vertical_velocity"), 0.0, 2.0)
    draft.pay("rise", 0.3 if travels else 2.0, rise, "upward velocity")
    if not travels:
        draft.pay("air", 0.5, Pay(signals.Airborne(), 0.0, 1.0), "in the air")
    title, value = "hops at least once per second", tracks.per_second(hops)
    draft.score(title, value, 0.15, 1.0, weight=3.0, tag="drags")
    draft.score("is airborne", tracks.share(track("air_time") > 0.0), 0.05, 0.2, tag="too_low")
    if frame.dimension == "height":
        goal = sizes.jump_height(frame, scene)
        if goal.source != "as given":
            part = f"{_OF_JUMP:.0%} of a jump: {goal.source}"
            least = _MIN_HOP_M if goal.is_exact else 0.0
            goal = goal._replace(value=max(_OF_JUMP * goal.value, least), source=part)
            draft.doubt(sizes.goal_note(f'"{frame.word}"', goal, "m above standing"))
        target, most = goal.value, None if goal.is_open else 1.5
        words = f"height above standing, as a fraction of {target:.2g} m"
        above = Measured("height", minus=scene.starts)
        draft.pay("height", 1.0, Ratio(above, target, low=0.0, most=most), words)
        value = tracks.highest((track("height") - scene.starts) * (track("air_time") > 0.0))
        zero, within = 0.15 * target, 0.5 * target if goal.is_exact else None
        title, tag = "hops %s high", "too_high" if goal.is_exact else "too_low"
        draft.score(title, value, zero, target, within=within, weight=3.0, tag=tag, of=goal)
    if frame.count:
        draft.counted("hops", tracks.last(hops), frame, 0.25 + 0.05 * frame.count, tag="drags")
        draft.seconds = max(2.0, float(frame.count))
    land_together(scene, draft)
    scene.require("forward_velocity", "hop")
    if frame.dimension == "distance" and (length := frame.given("m")) is not None:
        travel.go(frame, scene, draft)
        under_way, way = 0.85 * length, travel.seen_from_start(frame, scene)
        draft.parts = [
            part.until(way, under_way) if part.title.startswith(("hops", "is airborne")) else part
            for part in draft.parts
        ]
        return
    if frame.direction == "in_place":
        near = SmallSquare(signals.Gone(scene.axes), 4.0)
        slow = Small(Measured("horizontal_speed"), 3.0)
        draft.pay("home", 1.5, When(signals.Airborne(), near), "near the start, in the air")
        draft.pay("stay", 0.5, When(signals.Airborne(), slow), "straight up, in the air")
        title, value = "stays within 0.5 m of the start", tracks.farthest("displacement")
        draft.score(title, value, 1.5, 0.5, tag="drifts")
    elif travels:
        name = frame.direction if frame.direction in travel.AHEAD else "forward"
        travel.require_way(name, "hop", scene)
        travel.be_fast(draft, name, travel.speed_meant(frame, scene, draft))
    highest = sizes.jump_height(Frame(verb=frame.verb, word=frame.word, degree="much"), scene)
    manners.allow_height(scene, draft, scene.stands + 2.0 * highest.value + 0.5)
    manners.stay_on_feet(scene, draft, alive=None if travels else manners.ALIVE)
    done = (frame.count or max(2, round(frame.duration_s or 2.0))) - 0.5
    draft.ends_when(Above(Part(landings, "times"), done), hops > done)


def turn_over(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Flip in the air, or roll on the ground or over the hands, and land on the feet."""
    is_flip, direction = frame.verb == "flip", frame.direction
    if is_flip:
        is_sideways = direction in ("sideways", "left", "right")
    else:
        is_straight = direction in ("forward", "backward")
        is_sideways = not is_straight and (direction is not None or scene.has("roll_turns"))
    if is_sideways:
        scene.require("roll_turns", "flip sideways" if is_flip else "roll sideways")
        quantity, which, sign = "roll_turns", "sideways", -1 if direction == "left" else 1
    else:
        scene.require("pitch_turns", "flip" if is_flip else "roll over")
        usual = "backward" if is_flip else "forward"
        is_forward = (direction or usual) == "forward"
        quantity, which = "pitch_turns", "forward" if is_forward else "backward"
        sign = 1 if is_forward else -1
    # Start exploration with large actions, since small ones cannot turn a robot over.
    draft.settings |= {"log_std": 0.0, "entropy_coef": 0.002}
    draft.practice = 3.5
    if not is_flip and frame.until_end and frame.count is None:
        _keep_rolling(draft, quantity, sign, which)
    else:
        _somersault(frame, scene, draft, quantity, sign, which)


def _keep_rolling(draft: Draft, quantity: str, sign: int, which: str) -> None:
    """Turn over continuously without a landing, at least twice in five seconds."""
    spin, seconds = Measured(quantity.replace("turns", "rate"), sign=sign), 5.0
    draft.pay("roll", 1.0, Ratio(spin, 4.0, most=1.5), f"rolling {which}")
    turns = track(quantity, sign=sign)
    value, fast = tracks.last(turns) * seconds, metrics.turning_rate(turns)
    title, value = f"rolls {which} at least twice", value / tracks.full_seconds()
    draft.score(title, value, 0.3, 2.0, weight=3.0, tag="under_rotates")
    value = tracks.share(fast > 0.8)
    draft.score("keeps rolling", value, 0.2, 0.6, weight=1.0, tag="stops")
    draft.ends_when(Above(spin, 0.8), fast > 0.8, seconds)
    draft.seconds = seconds
    manners.charge_effort(draft, 0.02)


def _somersault(
    frame: Frame, scene: Scene, draft: Draft, quantity: str, sign: int, which: str
) -> None:
    """Turn over `count` times and end standing."""
    is_flip, most_often, rule = frame.verb == "flip", frame.count or 1, frame.count_rule
    has_feet = scene.has("feet_in_contact")
    over = signals.Somersault(quantity, sign, most_often, has_feet=has_feet)
    # Spin is rewarded until the turn is complete, then penalized while rest is rewarded, which
    # yields one turn. Height and a ground-contact cost for the torso make it a flip, not a roll.
    draft.pay("turn", 1.0, terms.TurnProgress(over), f"new progress of the {which} turn")
    words = "rotating in the right direction before the turn is complete, calm after it"
    draft.pay("spin", 1.0, terms.TurnSpin(over), words)
    if is_flip and scene.has("height_above_start"):
        lift = Pay(Measured("height_above_start"), -0.3, 1.2)
        words = "height before the turn is complete"
        draft.pay("lift", 0.4, When(Not(Part(over, "done")), lift), words)
    if is_flip and scene.spec.torso and scene.has("contact_force"):
        drag = Cost(signals.Touching((scene.spec.torso,), 5.0))
        draft.pay("drag", 0.3, drag, "torso on the ground, as a cost")
    if not scene.lies_next:
        draft.pay("land", 1.0, terms.TurnLanding(over), "once: on its feet after the turn")
        draft.pay("rest", 1.5, terms.TurnRest(over), "upright and slow after the turn")
    manners.charge_effort(draft, 0.02)
    count = 1 if rule == "at_most" else most_often
    turns = track(quantity, sign=sign)
    is_over, most = turns > count - 0.15, tracks.highest(turns)
    stands = is_over & (track("uprightness") > 0.7)
    stands = stands & (track("feet_in_contact") > 0.0) if has_feet else stands
    least = "at least " if rule == "at_least" else ""
    title = f"turns {which} {least}{'once' if count == 1 else f'{count} times'}"
    draft.score(title, most, 0.2 * count, count - 0.15, weight=3.0, tag="under_rotates")
    if scene.lies_next:
        draft.ends_when(Above(Part(over, "done"), 0.0), is_over)
    else:
        title, value = "lands on its feet for %s", tracks.longest(stands)
        draft.score(title, value, 0.02, 0.25, weight=1.5, tag="no_landing")
        draft.ends_when(Above(Part(over, "landed"), 0.0), stands)
    if rule != "at_least":
        # A constraint, because continuous turning must not pass as a counted flip.
        zero, goal = most_often + 0.9, most_often + 0.4
        draft.require("does not over-rotate", most, zero, goal, tag="over_rotates")
    draft.seconds = 3.0 + 1.5 * (most_often - 1)
