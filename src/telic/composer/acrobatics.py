"""Jumping and turning: high or far, about the vertical, over head and heels, or sideways."""

from __future__ import annotations

import math

from telic.composer.draft import Credit, Draft, measure
from telic.composer.frames import Act, Degree, Direction, Frame
from telic.composer.gaits import STEPPING, keep_time, usual_gait
from telic.composer.hops import jump_in_time, leave_ground
from telic.composer.manners import ALIVE, allow_height, be_quiet, do_it_on_purpose, stay_on_feet
from telic.composer.scene import Scene
from telic.composer.sizes import BELOW, GENTLE, QUICK, Goal, jump_height, leap_length, origin, told
from telic.composer.travel import AHEAD, side_of
from telic.judges import metrics, tracks
from telic.rewards.signals import (
    Above,
    Airborne,
    Along,
    Below,
    Cycles,
    Measured,
    Not,
    Part,
    Somersault,
    Touching,
    Turns,
)
from telic.rewards.terms import (
    Capped,
    Cost,
    Done,
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


def jump(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Get the torso high above its standing height, so often or so far as asked for."""
    scene.require("height", "jump")
    is_far = frame.dimension == "distance" or frame.direction in AHEAD
    if frame.period_s is not None and not is_far:
        return jump_in_time(frame, scene, draft)
    goal = jump_height(frame, scene)
    if goal.source != "as said":
        if is_far:  # a leap forward need not be as high
            goal = goal._replace(value=0.7 * goal.value)
        draft.doubt(told(f'"{frame.word}"', goal, "m above standing"))
    _rise(frame, scene, draft, goal)
    if is_far:
        _leap(frame, scene, draft)
    allow_height(scene, draft, scene.stands + 2.0 * goal.value + 0.5)
    # To stand must not pay so well that nobody dares to jump.
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
    seen = measure(tracks.less, "height", scene.starts)
    title, meaning = f"gets {target:.2g} m above standing", "highest point of the torso"
    value = measure(tracks.highest, seen)
    credit = Credit(weight=3.0, unit="m", kind="cumulative", tag="too_low", **origin(goal))
    if goal.is_exact:
        draft.near(title, meaning, value, target, 0.25 * target, **credit)
    else:
        draft.total(title, meaning, value, 0.15 * target, target, **credit)
    if scene.has("air_time"):
        leave_ground(draft, 0.15)
    counted = measure(tracks.cycles, seen, 0.8 * target, 0.3 * target)
    if count is not None:
        meaning = f"times it rose {0.8 * target:.2g} m and came down again"
        value = measure(tracks.last, counted)
        draft.counted("jumps", meaning, value, frame, weight=3.0, tag="too_low")
    done = (count or 1) - 0.5
    draft.ends_when(Above(times, done), measure(tracks.above, counted, done))


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
    title, meaning = f"leaps {target:.2g} m {way}", "longest way made in one flight"
    value = measure(tracks.highest, measure(metrics.leap, along))
    credit = Credit(weight=3.0, unit="m", tag="too_slow", **origin(goal))
    draft.total(title, meaning, value, 0.1 * target, 0.9 * target, **credit)
    do_it_on_purpose(scene, draft)


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
    heading, turned = Turns(side), measure(metrics.turned, side)
    turning = Part(heading, "rate")
    # What is paid for turning faster than asked is taken from staying on the spot.
    pays = Ratio(turning, rate, most=None if is_open else _TURN_PAID)
    draft.pay("turn", 1.0, pays, f"turning to the {side}")
    title, meaning = f"turns to the {side}", "turns of the heading from start to end"
    value = measure(tracks.last_in_full_time, turned, draft.seconds)
    credit = Credit(
        weight=3.0, unit="turns", kind="cumulative", tag="under_rotates", is_open=is_open
    )
    if amount and is_said and amount.rule != "at_least":
        goal = rate * draft.seconds / _FULL
        draft.near(title, meaning, value, goal, 0.15 * goal, **credit)
    else:
        draft.total(title, meaning, value, (0.5 if is_said else 0.1) * goal, goal, **credit)
    meaning = f"share of the time turning faster than {0.3 * rate:.2g} rad/s"
    fast = measure(tracks.turning_rate, turned)
    value = measure(tracks.share_above, fast, 0.3 * rate)
    draft.leaf("keeps turning", meaning, value, 0.2, 0.6, weight=1.0, tag="stops")
    if frame.duration_s:
        held = measure(tracks.above, fast, 0.5 * rate)
        draft.ends_when(Above(turning, 0.5 * rate), held, frame.duration_s)
    else:
        there = _QUARTER - 0.03
        draft.ends_when(Above(Part(heading, "turned"), there), measure(tracks.above, turned, there))


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
    heading, turned = Turns(side), measure(metrics.turned, side)
    meaning = f"turned to the {side}, in parts of {turns:.3g} turns"
    draft.pay("turn", 1.0, TurnBy(heading, turns, at_least=is_least), meaning)
    there = TurnedThere(heading, turns, tolerance, at_least=is_least)
    draft.pay("there", 1.0, there, "there, and no longer turning")
    credit = Credit(weight=3.0, unit="turns", kind="cumulative", tag="under_rotates")
    words = "turns of the heading"
    if is_least:
        title, value = f"turns at least {turns:.3g} turns to the {side}", tracks.highest
        draft.leaf(title, words, measure(value, turned), 0.2 * turns, turns, **credit)
    else:
        title, words = f"turns {turns:.3g} turns to the {side}", f"{words} at the end"
        draft.near(title, words, measure(tracks.last, turned), turns, tolerance, **credit)
        meaning = f"share of the time within {2 * tolerance:.2g} turns of it"
        value = measure(tracks.share_near, turned, turns, 2 * tolerance)
        draft.leaf("stops there", meaning, value, 0.02, 0.15, weight=1.0, tag="over_rotates")
    far = turns - tolerance
    draft.ends_when(Above(Part(heading, "turned"), far), measure(tracks.above, turned, far))


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
    be_quiet(draft, 0.02)
    turns = measure(tracks.less, quantity, sign=sign)
    title, meaning = f"rolls {which} on and on", f"{quantity.replace('_', ' ')} from start to end"
    value = measure(tracks.last_in_full_time, turns, seconds)
    draft.total(title, meaning, value, 0.3, 2.0, weight=3.0, unit="turns", tag="under_rotates")
    meaning = "share of the time turning faster than 0.8 rad/s"
    fast = measure(tracks.turning_rate, turns)
    value = measure(tracks.share_above, fast, 0.8)
    draft.leaf("does not stop rolling", meaning, value, 0.2, 0.6, weight=1.0, tag="stops")
    draft.ends_when(Above(spin, 0.8), measure(tracks.above, fast, 0.8), seconds)
    draft.seconds = seconds
    draft.settings |= {"log_std": 0.0, "entropy_coef": 0.002}  # small motions turn nobody over
    draft.practice = 3.5


def _somersault(
    frame: Frame, scene: Scene, draft: Draft, quantity: str, sign: int, which: str
) -> None:
    """Turn over `count` times and come to stand."""
    is_flip, count = frame.verb is Act.FLIP, frame.count or 1
    over = Somersault(quantity, sign, count, has_feet=scene.has("feet_in_contact"))
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
    be_quiet(draft, 0.02)
    turns = measure(tracks.less, quantity, sign=sign)
    most_often, rule = count, frame.count_rule
    count = 1 if rule == "at_most" else most_often
    stands = measure(metrics.landed, turns, count - 0.15, scene.has("feet_in_contact"))
    least = "at least " if rule == "at_least" else ""
    title = f"turns {which} {least}{'once' if count == 1 else f'{count} times'}"
    most, value = f"most {quantity.replace('_', ' ')}", measure(tracks.highest, turns)
    credit = Credit(weight=3.0, unit="turns", tag="under_rotates")
    draft.total(title, most, value, 0.2 * count, count - 0.15, **credit)
    title, meaning = "lands on its feet", "longest time on its feet after the turn"
    credit = Credit(weight=1.5, unit="s", tag="no_landing")
    draft.leaf(title, meaning, measure(tracks.longest, stands), 0.02, 0.25, **credit)
    if rule != "at_least":
        # A guard, as one flip is not three: who turns on and on does something else.
        title, zero, goal = "does not turn on and on", most_often + 0.9, most_often + 0.4
        credit = Credit(kind="cumulative", unit="turns", tag="over_rotates")
        draft.guard(title, most, value, zero, goal, **credit)
    draft.ends_when(Above(Part(over, "landed"), 0.0), stands)
    draft.seconds = 3.0 + 1.5 * (most_often - 1)
    draft.settings |= {"log_std": 0.0, "entropy_coef": 0.002}  # small motions turn nobody over
    draft.practice = 3.5
