"""Leaving the ground and turning: jumps, hops, leaps, turns about the vertical, flips and rolls.

Of "jump every 3 seconds" and "jump twice per second" counts the time from one landing to the next.
The policy sees how long it has waited.
"""

from __future__ import annotations

import math

from telic.composer.draft import Credit, Draft
from telic.composer.frames import Act, Degree, Direction, Frame
from telic.composer.gaits import STEPPING, keep_time, land_together, usual_gait
from telic.composer.manners import ALIVE, allow_height, be_quiet, do_it_on_purpose, stay_on_feet
from telic.composer.scene import Scene
from telic.composer.sizes import BELOW, GENTLE, QUICK, Goal, jump_height, leap_length, origin, told
from telic.composer.travel import AHEAD, be_fast, require_way, side_of, speed_meant
from telic.judges import metrics, tracks
from telic.judges.tracks import Measure
from telic.rewards.signals import (
    Above,
    Airborne,
    Along,
    Below,
    Cycles,
    Flights,
    Measured,
    Not,
    Part,
    Somersault,
    Touching,
    Turns,
    Waiting,
)
from telic.rewards.terms import (
    Capped,
    Cost,
    Done,
    Hop,
    InTime,
    Pay,
    Ratio,
    Small,
    TurnBy,
    TurnedThere,
    TurnLanding,
    TurnProgress,
    TurnRest,
    TurnSpin,
    When,
)

_FULL = 2.0 * math.pi
_QUARTER = 0.25
_TURN_PAID = 1.15
"""of the rate asked for, up to which turning is paid"""
_BIT = 0.125
"""turns: "a bit to the left" """
_FLIGHT_S, _RISE_M = 0.11, 0.05
"""a flight shorter or lower than this is a foot that vibrates"""
_HOPS_PER_S = 1.0
_OF_JUMP = 0.6
"""a hop that shall be high, in parts of a jump that is"""
_FAST = (Degree.FAST, Degree.VERY_FAST, Degree.MOST)
_LONGEST_S = 30.0
_BEATS = 4
_FLIGHT = 0.7
"""share of the time between two jumps that may be spent in the air"""
_LATE = 0.25
"""share of that time by which a jump may be early or late"""


# ---- jumping and hopping


def jump(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Get the torso high above its standing height, so often or so far as asked for."""
    scene.require("height", "jump")
    is_far = frame.dimension == "distance" or frame.direction in AHEAD
    if frame.period_s is not None and not is_far:
        return _jump_in_time(frame, frame.period_s, scene, draft)
    goal = jump_height(frame, scene)
    if goal.source != "as said":
        if is_far:  # a leap forward need not be as high
            goal = goal._replace(value=0.7 * goal.value)
        draft.doubt(told(f'"{frame.word}"', goal, "m above standing"))
    _rise(frame, scene, draft, goal)
    if is_far:
        _leap(frame, scene, draft)
    allow_height(scene, draft, scene.stands + 2.0 * goal.value + 0.5)
    # Standing must not pay so well that jumping is not worth the risk.
    stay_on_feet(scene, draft, alive=ALIVE)
    draft.seconds = 5.0 if frame.count is None else max(3.0, 1.5 * frame.count + 1.5)


def _rise(frame: Frame, scene: Scene, draft: Draft, goal: Goal) -> None:
    """Reward and judge getting up, and coming down again if jumps are counted."""
    target, count, above = goal.value, frame.count, scene.above_start()
    jumps = Cycles(above, 0.8 * target, 0.3 * target)
    times = Part(jumps, "times")
    height = Ratio(above, target, low=0.0, most=None if goal.is_open else 2.0)
    height = Capped(above, target) if goal.is_exact else height
    rise = Pay(Measured("vertical_velocity"), 0.0, 3.0)
    if count is not None:
        left = Below(times, count - 0.5)
        height, rise = When(left, height), When(left, rise)
        if scene.has("speed"):
            rest = When(Not(left), Small(Measured("speed"), 1.0))
            draft.pay("rest", 1.0, rest, "at rest once it is done")
        # The last landing is what ends it: counted already, and paid as the others are.
        draft.pay("land", 1.0, Done(jumps, count), "once per jump: down again")
    draft.pay("height", 1.0, height, f"height above standing, in parts of {target:.2g} m")
    draft.pay("rise", 0.3, rise, "upward velocity")
    _judge_height(goal, scene, draft, weight=3.0)
    if scene.has("air_time"):
        _leave_ground(draft, 0.15)
    counted = tracks.cycles(_above_start(scene), 0.8 * target, 0.3 * target)
    if count is not None:
        draft.counted("jumps", tracks.last(counted), frame, weight=3.0, tag="too_low")
    done = (count or 1) - 0.5
    draft.ends_when(Above(times, done), tracks.above(counted, done))


def _above_start(scene: Scene) -> Measure:
    return tracks.less("height", scene.starts)


def _judge_height(goal: Goal, scene: Scene, draft: Draft, weight: float = 1.0) -> None:
    title, value = f"gets {goal.value:.2g} m above standing", tracks.highest(_above_start(scene))
    credit = Credit(weight=weight, tag="too_low", **origin(goal))
    if goal.is_exact:
        draft.score_near(title, value, goal.value, 0.25 * goal.value, **credit)
    else:
        draft.score(title, value, 0.15 * goal.value, goal.value, **credit)


def _leave_ground(draft: Draft, seconds: float) -> None:
    """Judge that it is in the air for so long at once."""
    draft.score("leaves the ground", tracks.highest("air_time"), 0.03, seconds, tag="too_low")


def _leap(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Cover ground in the air."""
    is_aside = frame.direction in (Direction.LEFT, Direction.RIGHT)
    quantity = "lateral_velocity" if is_aside else "forward_velocity"
    scene.require(quantity, f"jump to the {frame.direction}" if is_aside else "jump forward")
    scene.require("air_time", "jump a distance")
    way = (frame.direction or Direction.FORWARD).value
    along = way if frame.direction in AHEAD else Direction.FORWARD.value
    goal = leap_length(frame, scene)
    target = goal.value
    if goal.source != "as said":
        draft.doubt(told(f'"{frame.word}" {way}', goal, "m in the air"))
    fast = Ratio(Along(along), max(target / 0.4, 0.2), most=None if goal.is_open else 2.0)
    draft.pay("leap", 1.0, When(Airborne(), fast), f"speed {way} in the air")
    credit = Credit(weight=3.0, tag="too_slow", **origin(goal))
    value = tracks.highest(metrics.leap(along))
    draft.score(f"leaps {target:.2g} m {way}", value, 0.1 * target, 0.9 * target, **credit)
    do_it_on_purpose(scene, draft)


def hop(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Fly and land, again and again, on the spot or on the way."""
    scene.require("air_time", "hop")
    landings, hops = Flights(_FLIGHT_S), metrics.flights(_FLIGHT_S, _RISE_M)
    draft.pay("hop", 5.0, Hop(landings), "at each landing, for the time in the air before it")
    draft.pay("rise", 0.3, Pay(Measured("vertical_velocity"), 0.0, 2.0), "upward velocity")
    credit = Credit(weight=3.0, tag="drags")
    draft.score("hops once a second", tracks.per_second(hops), 0.15, _HOPS_PER_S, **credit)
    title, value = "is in the air a fifth of the time", tracks.share_above("air_time", 0.0)
    draft.score(title, value, 0.05, 0.2, weight=1.0, tag="too_low")
    if frame.dimension == "height":
        _hop_high(frame, scene, draft)
    if frame.count:
        tolerance = 0.25 + 0.05 * frame.count
        draft.counted("hops", tracks.last(hops), frame, tolerance, **credit)
        draft.seconds = max(2.0, frame.count / _HOPS_PER_S)
    land_together(scene, draft)
    _hop_to(frame, scene, draft)
    highest = jump_height(Frame(verb=frame.verb, word=frame.word, degree=Degree.MUCH), scene)
    allow_height(scene, draft, scene.stands + 2.0 * highest.value + 0.5)
    stay_on_feet(scene, draft)
    done = (frame.count or max(2, round(frame.duration_s or 2.0))) - 0.5
    draft.ends_when(Above(Part(landings, "times"), done), tracks.above(hops, done))


def _hop_high(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Hop as high as asked for."""
    goal = jump_height(frame, scene)
    if goal.source != "as said":
        part = f"{_OF_JUMP:.0%} of a jump: {goal.source}"
        goal = goal._replace(value=_OF_JUMP * goal.value, source=part)
        draft.doubt(told(f'"{frame.word}"', goal, "m above standing"))
    target = goal.value
    pays = Ratio(scene.above_start(), target, low=0.0, most=None if goal.is_open else 1.5)
    draft.pay("height", 1.0, pays, f"height above standing, in parts of {target:.2g} m")
    value = tracks.highest(metrics.in_air(_above_start(scene)))
    credit = Credit(weight=3.0, tag="too_low", **origin(goal))
    draft.score(f"hops {target:.2g} m high", value, 0.15 * target, target, **credit)


def _hop_to(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Hop to somewhere, or on the spot."""
    scene.require("forward_velocity", "hop")
    if frame.direction is Direction.IN_PLACE:
        draft.pay("stay", 0.5, Small(Measured("horizontal_speed"), 3.0), "not going anywhere")
        draft.score("stays on the spot", tracks.farthest("displacement"), 1.5, 0.5, tag="drifts")
    elif frame.direction in AHEAD or (frame.dimension != "height" and frame.degree in _FAST):
        direction = frame.direction if frame.direction in AHEAD else None
        name = (direction or Direction.FORWARD).value
        require_way(name, "hop", scene)
        be_fast(draft, name, speed_meant(frame, scene, draft))


def beats(period_s: float) -> int:
    """Return how often it is to be done while it is judged."""
    return max(min(_BEATS, math.floor(_LONGEST_S / period_s - 0.5)), 1)


def _jump_in_time(frame: Frame, period: float, scene: Scene, draft: Draft) -> None:
    """Jump once in so many seconds, again and again."""
    count = beats(period)
    if count < 2:
        why = f"an episode lasts {_LONGEST_S:g} s at most, which is less than two of these"
        raise scene.cannot(f"jump every {period:g} s", why)
    goal = jump_height(frame, scene)
    most = scene.gravity * (0.5 * _FLIGHT * period) ** 2 / 2.0  # h = g (t / 2)^2 / 2
    if goal.source != "as said":
        if goal.value > most:
            goal = goal._replace(value=most, source=f"what there is time for in {period:g} s")
        draft.doubt(told(f'"{frame.word}"', goal, "m above standing"))
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
    _judge_height(goal, scene, draft)
    times, done = tracks.cycles(_above_start(scene), 0.8 * target, 0.3 * target), count - 0.5
    value = metrics.on_time(times, period, _LATE * period, count - 1)
    draft.score(f"jumps every {period:g} s", value, 0.2, 1.0, weight=4.0, tag="too_slow")
    if scene.has("air_time"):
        _leave_ground(draft, min(0.15, 0.5 * _FLIGHT * period))
    draft.ends_when(Above(Part(jumps, "times"), done), tracks.above(times, done))
    allow_height(scene, draft, scene.stands + 2.0 * goal.value + 0.5)
    stay_on_feet(scene, draft)
    draft.seconds = (count + 0.5) * period


# ---- turning about the vertical


def turn(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Turn about the vertical."""
    scene.require("heading_rate", "turn about the vertical")
    turns = _turns_meant(frame)
    if turns == _BIT and frame.amount is None:
        draft.doubt(f'"{frame.word}" a little is taken as {360 * _BIT:g} degrees')
    if turns is None:
        _spin(frame, draft, side_of(frame))
        _step_round(frame, scene, draft)
    else:
        _turn_by(frame, draft, side_of(frame), turns)
    stay_on_feet(scene, draft)


def _step_round(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Let a robot that is driven by position step to a clock: else it shuffles and hardly turns."""
    if "commands" not in scene.spec.arguments:
        return
    if gait := usual_gait(frame.model_copy(update={"verb": Act.GO, "amount": None}), scene):
        keep_time(gait, scene, draft)
        draft.settings |= {"log_std": STEPPING}


def _turns_meant(frame: Frame) -> float | None:
    """Return how far to turn; None: on and on."""
    amount = frame.amount
    if amount is None and frame.degree is Degree.LITTLE and frame.dimension == "turning":
        return _BIT
    if amount and amount.unit == "turns":
        return amount.value * (frame.count or 1)
    if amount and amount.unit == "rad":
        return amount.value / _FULL * (frame.count or 1)
    return float(frame.count) if frame.count else None


def _spin(frame: Frame, draft: Draft, side: str) -> None:
    amount = frame.amount
    rate = 2.0 if frame.degree in QUICK else 0.5 if frame.degree in GENTLE else 1.0
    is_said = amount is not None and amount.unit == "rad/s" and amount.value > 0.0
    if amount and is_said:
        rate = amount.value * (BELOW if amount.rule == "at_most" else 1.0)
    if frame.duration_s:
        draft.seconds = max(frame.duration_s + 1.0, 2.0)
    goal = 0.7 * rate * draft.seconds / _FULL
    is_open = frame.degree is Degree.MOST and not frame.amount
    heading, turned = Turns(side), metrics.turned(side)
    turning, fast = Part(heading, "rate"), tracks.turning_rate(turned)
    # What is paid for turning faster than asked is taken from staying on the spot.
    pays = Ratio(turning, rate, most=None if is_open else _TURN_PAID)
    draft.pay("turn", 1.0, pays, f"turning to the {side}")
    title, value = f"turns to the {side}", tracks.last_in_full_time(turned, draft.seconds)
    credit = Credit(weight=3.0, tag="under_rotates", is_open=is_open)
    if amount and is_said and amount.rule != "at_least":
        goal = rate * draft.seconds / _FULL
        draft.score_near(title, value, goal, 0.15 * goal, **credit)
    else:
        draft.score(title, value, (0.5 if is_said else 0.1) * goal, goal, **credit)
    value = tracks.share_above(fast, 0.3 * rate)
    draft.score("keeps turning", value, 0.2, 0.6, weight=1.0, tag="stops")
    if frame.duration_s:
        held = tracks.above(fast, 0.5 * rate)
        draft.ends_when(Above(turning, 0.5 * rate), held, frame.duration_s)
    else:
        there = _QUARTER - 0.03
        draft.ends_when(Above(Part(heading, "turned"), there), tracks.above(turned, there))


def _turn_by(frame: Frame, draft: Draft, side: str, turns: float) -> None:
    """Turn by an amount and stop there."""
    draft.is_seen = True  # where it faces does not say how often it has turned
    rule = frame.amount.rule if frame.amount else frame.count_rule
    is_least = rule == "at_least"
    if rule == "at_most":
        draft.doubt(f'"{frame.word}": about {BELOW * turns:.2g} turns, below the {turns:.2g} said')
        turns *= BELOW
    tolerance = min(0.06 + 0.05 * turns, turns / 4.0)
    slow = 1.0 if frame.degree not in GENTLE else 0.5
    draft.seconds = min(max(3.0, 1.5 * turns * _FULL / slow + 2.0), 30.0)
    heading, turned = Turns(side), metrics.turned(side)
    meaning = f"turned to the {side}, in parts of {turns:.3g} turns"
    draft.pay("turn", 1.0, TurnBy(heading, turns, at_least=is_least), meaning)
    there = TurnedThere(heading, turns, tolerance, at_least=is_least)
    draft.pay("there", 1.0, there, "there, and no longer turning")
    credit = Credit(weight=3.0, tag="under_rotates")
    if is_least:
        title = f"turns at least {turns:.3g} turns to the {side}"
        draft.score(title, tracks.highest(turned), 0.2 * turns, turns, **credit)
    else:
        title = f"turns {turns:.3g} turns to the {side}"
        draft.score_near(title, tracks.last(turned), turns, tolerance, **credit)
        value = tracks.share_near(turned, turns, 2 * tolerance)
        draft.score("stops there", value, 0.02, 0.15, weight=1.0, tag="over_rotates")
    far = turns - tolerance
    draft.ends_when(Above(Part(heading, "turned"), far), tracks.above(turned, far))


# ---- turning over


def flip(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Turn over backward, forward or sideways in the air, and land on the feet."""
    if frame.direction in (Direction.SIDEWAYS, Direction.LEFT, Direction.RIGHT):
        scene.require("roll_turns", "flip sideways")
        sign = -1 if frame.direction is Direction.LEFT else 1
        return _somersault(frame, scene, draft, "roll_turns", sign, "sideways")
    scene.require("pitch_turns", "flip")
    is_forward = frame.direction is Direction.FORWARD
    sign, which = (1, "forward") if is_forward else (-1, "backward")
    _somersault(frame, scene, draft, "pitch_turns", sign, which)


def roll(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Turn over on the ground or over the hands: rolls and cartwheels."""
    is_straight = frame.direction in (Direction.FORWARD, Direction.BACKWARD)
    if is_straight or not scene.has("roll_turns"):
        if not is_straight and frame.direction is not None:
            scene.require("roll_turns", "roll sideways")
        scene.require("pitch_turns", "roll over")
        is_back = frame.direction is Direction.BACKWARD
        quantity, (sign, which) = "pitch_turns", (-1, "backward") if is_back else (1, "forward")
    else:
        quantity, which = "roll_turns", "sideways"
        sign = -1 if frame.direction is Direction.LEFT else 1
    if frame.until_end and frame.count is None:
        _keep_rolling(draft, quantity, sign, which)
    else:
        _somersault(frame, scene, draft, quantity, sign, which)


def _keep_rolling(draft: Draft, quantity: str, sign: int, which: str) -> None:
    """Turn over again and again, with no landing: two turns in five seconds at least."""
    spin, seconds = Measured(quantity.replace("turns", "rate"), sign=sign), 5.0
    draft.pay("roll", 1.0, Ratio(spin, 4.0, most=1.5), f"rolling {which}")
    turns = tracks.less(quantity, sign=sign)
    value, fast = tracks.last_in_full_time(turns, seconds), tracks.turning_rate(turns)
    credit = Credit(weight=3.0, tag="under_rotates")
    draft.score(f"rolls {which} on and on", value, 0.3, 2.0, **credit)
    value = tracks.share_above(fast, 0.8)
    draft.score("does not stop rolling", value, 0.2, 0.6, weight=1.0, tag="stops")
    draft.ends_when(Above(spin, 0.8), tracks.above(fast, 0.8), seconds)
    draft.seconds = seconds
    _turn_over_boldly(draft)


def _turn_over_boldly(draft: Draft) -> None:
    """Let exploration begin with large motions: small ones turn no robot over."""
    be_quiet(draft, 0.02)
    draft.settings |= {"log_std": 0.0, "entropy_coef": 0.002}
    draft.practice = 3.5


def _somersault(
    frame: Frame, scene: Scene, draft: Draft, quantity: str, sign: int, which: str
) -> None:
    """Turn over `count` times and come to stand."""
    is_flip, count, has_feet = (
        frame.verb is Act.FLIP,
        frame.count or 1,
        scene.has("feet_in_contact"),
    )
    over = Somersault(quantity, sign, count, has_feet=has_feet)
    # Spin pays until the turn is complete and costs from then on, when resting pays instead: so
    # there is one turn. Height and a cost for the torso on the ground make it a flip, not a roll.
    draft.pay("turn", 1.0, TurnProgress(over), f"new progress of the {which} turn")
    words = "turning the right way before the turn is complete, calm after it"
    draft.pay("spin", 1.0, TurnSpin(over), words)
    if is_flip and scene.has("height_above_start"):
        lift = Pay(Measured("height_above_start"), -0.3, 1.2)
        words = "height before the turn is complete"
        draft.pay("lift", 0.4, When(Not(Part(over, "done")), lift), words)
    if is_flip and scene.spec.torso and scene.has("contact_force"):
        drag = Cost(Touching((scene.spec.torso,), 5.0))
        draft.pay("drag", 0.3, drag, "torso on the ground, as a cost")
    draft.pay("land", 1.0, TurnLanding(over), "once: on its feet after the turn")
    draft.pay("rest", 1.5, TurnRest(over), "upright and slow after the turn")
    _turn_over_boldly(draft)
    most_often, rule = count, frame.count_rule
    count = 1 if rule == "at_most" else most_often
    turns = tracks.less(quantity, sign=sign)
    stands, most = metrics.landed(turns, count - 0.15, has_feet), tracks.highest(turns)
    least = "at least " if rule == "at_least" else ""
    title = f"turns {which} {least}{'once' if count == 1 else f'{count} times'}"
    draft.score(title, most, 0.2 * count, count - 0.15, weight=3.0, tag="under_rotates")
    value = tracks.longest(stands)
    draft.score("lands on its feet", value, 0.02, 0.25, weight=1.5, tag="no_landing")
    if rule != "at_least":
        # A constraint, as one flip is not three: turning on and on is something else.
        zero, goal = most_often + 0.9, most_often + 0.4
        draft.require("does not turn on and on", most, zero, goal, tag="over_rotates")
    draft.ends_when(Above(Part(over, "landed"), 0.0), stands)
    draft.seconds = 3.0 + 1.5 * (most_often - 1)
