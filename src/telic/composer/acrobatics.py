"""Jumping and turning: high or far, about the vertical, over head and heels, or sideways."""

from __future__ import annotations

import math

from telic.composer.draft import Credit, Draft
from telic.composer.frames import Act, Degree, Direction, Frame
from telic.composer.gaits import STEPPING, keep_time, usual_gait
from telic.composer.hops import jump_in_time
from telic.composer.manners import (
    ALIVE,
    allow_height,
    be_quiet,
    do_it_on_purpose,
    follow_heading,
    rest_after,
    stay_on_feet,
)
from telic.composer.scene import Scene
from telic.composer.sizes import BELOW, GENTLE, QUICK, Goal, jump_height, leap_length, origin, told
from telic.composer.travel import AHEAD

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
    target, low, count = goal.value, 0.3 * goal.value, frame.count
    draft.remember("is_up")
    draft.remember("jumps")
    draft.need(
        scene.leap(),
        "rising = quantities.vertical_velocity(info)",
        f'up = torch.maximum(self.memory["is_up"], (leap > {0.8 * target:.4g}).float())',
        f"down = up * (leap < {low:.4g}).float()",
        'self.memory["is_up"] = up - down',
        'self.memory["jumps"] = self.memory["jumps"] + down',
    )
    left = "1.0"
    if count is not None:
        draft.need(f'over = (self.memory["jumps"] > {count - 0.5:g}).float()')
        left = "(1.0 - over)"
        rest_after(scene, draft, "over")
        # The last landing is what ends it: counted already, and paid as the others are.
        is_due = f'(self.memory["jumps"] < {count + 0.5:g}).float()'
        draft.add(
            "land", f"5.0 * down * {is_due}", 1.0, "once per jump: down again", r"[\text{land}]"
        )
    most = "" if goal.is_open else ", 1.0" if goal.is_exact else ", 2.0"
    code = f"{left} * (leap / {target:.4g}).clamp(0.0{most})"
    if goal.is_exact:
        code += f" - {left} * (leap / {target:.4g} - 1.1).clamp(0.0, 2.0)"
    meaning = f"height above standing, in parts of {target:.2g} m"
    draft.add("height", code, 1.0, meaning, r"\max(h, 0) / h^*")
    draft.add("rise", f"{left} * rising.clamp(0.0, 3.0)", 0.3, "upward velocity", r"\max(v_z, 0)")
    draft.measure(
        scene.leap(judged=True),
        f"jumps = episode.count(leap > {0.8 * target:.4g}, leap < {low:.4g})",
    )
    title = f"gets {target:.2g} m above standing"
    meaning = "highest point of the torso"
    value = "float(np.max(leap))"
    credit = Credit(weight=3.0, unit="m", kind="cumulative", tag="too_low", **origin(goal))
    if goal.is_exact:
        draft.near(title, meaning, value, target, 0.25 * target, **credit)
    else:
        draft.total(title, meaning, value, 0.15 * target, target, **credit)
    if scene.has("air_time"):
        title = "leaves the ground"
        meaning = "longest time without a foot on the ground"
        value = 'float(np.max(episode["air_time"]))'
        draft.total(title, meaning, value, 0.03, 0.15, weight=1.0, unit="s", tag="too_low")
    if count is not None:
        meaning = f"times it rose {0.8 * target:.2g} m and came down again"
        draft.counted("jumps", meaning, "float(jumps[-1])", frame, weight=3.0, tag="too_low")
    done = f"{(count or 1) - 0.5:g}"
    draft.ends_when(f'self.memory["jumps"] > {done}', f"jumps > {done}")


def _leap(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Cover ground in the air."""
    is_aside = frame.direction in (Direction.LEFT, Direction.RIGHT)
    is_back = frame.direction in (Direction.BACKWARD, Direction.RIGHT)
    axis, quantity = ("y", "lateral_velocity") if is_aside else ("x", "forward_velocity")
    scene.require(quantity, f"jump to the {frame.direction}" if is_aside else "jump forward")
    scene.require("air_time", "jump a distance")
    sign = "-" if is_back else ""
    way = (frame.direction or Direction.FORWARD).value
    goal = leap_length(frame, scene)
    target = goal.value
    if goal.source != "as said":
        draft.doubt(told(f'"{frame.word}" {way}', goal, "m in the air"))
    draft.need(
        f"along = {sign}{scene.velocity(quantity)}",
        "airborne = (quantities.feet_in_contact(info) == 0).float()",
    )
    most = "" if goal.is_open else ", 2.0"
    code = f"airborne * (along / {max(target / 0.4, 0.2):.4g}).clamp(-1.0{most})"
    draft.add("leap", code, 1.0, f"speed {way} in the air", r"[\text{air}] v")
    draft.measure(
        f'place = {sign}episode["{axis}_position"]',
        'flight = episode.since(place, episode["feet_in_contact"] > 0)',
    )
    title = f"leaps {target:.2g} m {way}"
    meaning = "longest way made in one flight"
    value = "float(np.max(flight))"
    draft.total(
        title,
        meaning,
        value,
        0.1 * target,
        0.9 * target,
        weight=3.0,
        unit="m",
        tag="too_slow",
        **origin(goal),
    )
    do_it_on_purpose(scene, draft)


def turn(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Turn about the vertical."""
    scene.require("heading_rate", "turn about the vertical")
    is_right = frame.direction in (Direction.RIGHT, Direction.CLOCKWISE)
    sign, which = ("-", "right") if is_right else ("", "left")
    follow_heading(scene, draft, sign)
    draft.need(f"turned = {sign}turns")
    draft.measure(f'turned = {sign}episode["heading_turns"]')
    turns = _turns_meant(frame)
    if turns == _BIT and frame.amount is None:
        draft.doubt(f'"{frame.word}" a little is taken as {360 * _BIT:g} degrees')
    if turns is None:
        _spin(frame, draft, which)
        _step_round(frame, scene, draft)
    else:
        _turn_by(frame, draft, which, turns)
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


def _spin(frame: Frame, draft: Draft, which: str) -> None:
    amount = frame.amount
    rate = 2.0 if frame.degree in QUICK else 0.5 if frame.degree in GENTLE else 1.0
    is_said = amount is not None and amount.unit == "rad/s" and amount.value > 0.0
    if amount and is_said:
        rate = amount.value * (BELOW if amount.rule == "at_most" else 1.0)
    if frame.duration_s:
        draft.seconds = max(frame.duration_s + 1.0, 2.0)
    goal = 0.7 * rate * draft.seconds / _FULL
    is_open = frame.degree is Degree.MOST and not frame.amount
    # What is paid for turning faster than asked is taken from staying on the spot.
    most = "" if is_open else f", {_TURN_PAID:g}"
    latex = r"\omega/\omega^*" if is_open else rf"\min(\omega/\omega^*{most})"
    code = f"(turning / {rate:.4g}).clamp(-1.0{most})"
    draft.add("turn", code, 1.0, f"turning to the {which}", latex)
    title = f"turns to the {which}"
    meaning = "turns of the heading from start to end"
    value = f"float(turned[-1]) * {draft.seconds:g} / episode.full_seconds"
    credit = Credit(
        weight=3.0, unit="turns", kind="cumulative", tag="under_rotates", is_open=is_open
    )
    if amount and is_said and amount.rule != "at_least":
        goal = rate * draft.seconds / _FULL
        draft.near(title, meaning, value, goal, 0.15 * goal, **credit)
    else:
        draft.total(title, meaning, value, (0.5 if is_said else 0.1) * goal, goal, **credit)
    meaning = f"share of the time turning faster than {0.3 * rate:.2g} rad/s"
    value = (
        f"episode.share(np.gradient(turned) * {_FULL:.5g} / episode.dt > {0.3 * rate:.4g})"
        " if len(turned) > 1 else 0.0"
    )
    draft.leaf("keeps turning", meaning, value, 0.2, 0.6, weight=1.0, tag="stops")
    if frame.duration_s:
        held = f"turning > {0.5 * rate:.4g}"
        judged = f"np.gradient(turned) * {_FULL:.5g} / episode.dt > {0.5 * rate:.4g}"
        draft.ends_when(held, judged, frame.duration_s)
    else:
        draft.ends_when(f"turned > {_QUARTER - 0.03:g}", f"turned > {_QUARTER - 0.03:g}")


def _turn_by(frame: Frame, draft: Draft, which: str, turns: float) -> None:
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
    code = f"(turned / {turns:.4g}).clamp(-1.0, 1.0)" + (
        "" if is_least else f" - ((turned - {turns:.4g}) / {turns:.4g}).clamp(0.0, 2.0)"
    )
    meaning = f"turned to the {which}, in parts of {turns:.3g} turns"
    draft.add("turn", code, 1.0, meaning, r"\min(\psi / \psi^*, 1)")
    lacking = f"({turns:.4g} - turned){'.clamp(min=0.0)' if is_least else ''} / {tolerance:.4g}"
    code = f"torch.exp(-({lacking}) ** 2) * torch.exp(-turning.abs())"
    meaning = "there, and no longer turning"
    draft.add("there", code, 1.0, meaning, r"e^{-(\Delta\psi/w)^2} e^{-|\omega|}")
    credit = Credit(weight=3.0, unit="turns", kind="cumulative", tag="under_rotates")
    words = "turns of the heading"
    if is_least:
        title, value = f"turns at least {turns:.3g} turns to the {which}", "float(np.max(turned))"
        draft.leaf(title, words, value, 0.2 * turns, turns, **credit)
    else:
        title, words = f"turns {turns:.3g} turns to the {which}", f"{words} at the end"
        draft.near(title, words, "float(turned[-1])", turns, tolerance, **credit)
        meaning = f"share of the time within {2 * tolerance:.2g} turns of it"
        value = f"episode.share(np.abs(turned - {turns:.4g}) < {2 * tolerance:.4g})"
        draft.leaf("stops there", meaning, value, 0.02, 0.15, weight=1.0, tag="over_rotates")
    there = f"turned > {turns - tolerance:.4g}"
    draft.ends_when(there, there)


def flip(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Turn over backward, forward or sideways in the air, and land on the feet."""
    if frame.direction in (Direction.SIDEWAYS, Direction.LEFT, Direction.RIGHT):
        scene.require("roll_turns", "flip sideways")
        sign = "-" if frame.direction is Direction.LEFT else ""
        return _somersault(frame, scene, draft, "roll_turns", sign, "sideways")
    scene.require("pitch_turns", "flip")
    is_forward = frame.direction is Direction.FORWARD
    sign, which = ("", "forward") if is_forward else ("-", "backward")
    _somersault(frame, scene, draft, "pitch_turns", sign, which)


def roll(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Turn over on the ground or over the hands: rolls and cartwheels."""
    is_straight = frame.direction in (Direction.FORWARD, Direction.BACKWARD)
    if is_straight or not scene.has("roll_turns"):
        if not is_straight and frame.direction is not None:
            scene.require("roll_turns", "roll sideways")
        scene.require("pitch_turns", "roll over")
        is_back = frame.direction is Direction.BACKWARD
        quantity, (sign, which) = "pitch_turns", ("-", "backward") if is_back else ("", "forward")
    else:
        quantity, which = "roll_turns", "sideways"
        sign = "-" if frame.direction is Direction.LEFT else ""
    if frame.until_end and frame.count is None:
        _keep_rolling(draft, quantity, sign, which)
    else:
        _somersault(frame, scene, draft, quantity, sign, which)


def _keep_rolling(draft: Draft, quantity: str, sign: str, which: str) -> None:
    """Turn over again and again, with no landing: two turns in five seconds at least."""
    rate, seconds = quantity.replace("turns", "rate"), 5.0
    draft.need(f"spin = {sign}quantities.{rate}(info)")
    draft.add("roll", "(spin / 4.0).clamp(-1.0, 1.5)", 1.0, f"rolling {which}", r"\omega / 4")
    be_quiet(draft, 0.02)
    draft.measure(f'turns = {sign}episode["{quantity}"]')
    title = f"rolls {which} on and on"
    meaning = f"{quantity.replace('_', ' ')} from start to end"
    value = f"float(turns[-1]) * {seconds:g} / episode.full_seconds"
    draft.total(title, meaning, value, 0.3, 2.0, weight=3.0, unit="turns", tag="under_rotates")
    meaning = "share of the time turning faster than 0.8 rad/s"
    value = (
        f"episode.share(np.gradient(turns) * {_FULL:.5g} / episode.dt > 0.8)"
        " if len(turns) > 1 else 0.0"
    )
    draft.leaf("does not stop rolling", meaning, value, 0.2, 0.6, weight=1.0, tag="stops")
    draft.ends_when("spin > 0.8", f"np.gradient(turns) * {_FULL:.5g} / episode.dt > 0.8", seconds)
    draft.seconds = seconds
    draft.settings |= {"log_std": 0.0, "entropy_coef": 0.002}  # small motions turn nobody over
    draft.practice = 3.5


def _somersault(
    frame: Frame, scene: Scene, draft: Draft, quantity: str, sign: str, which: str
) -> None:
    """Turn over `count` times and come to stand."""
    is_flip = frame.verb is Act.FLIP
    count = frame.count or 1
    rate = quantity.replace("turns", "rate")
    feet = "quantities.feet_in_contact(info) > 0" if scene.has("feet_in_contact") else "upright > 0"
    draft.remember("turned", 6)
    draft.remember("best")
    draft.remember("landed")
    draft.need(
        f'self.memory["turned"], turns = quantities.{quantity}.update(self.memory["turned"], info)',
        f'best = torch.maximum(self.memory["best"], ({sign}turns).clamp(0.0, {count:.1f}))',
        'progress = best - self.memory["best"]',
        'self.memory["best"] = best',
        "upright = quantities.uprightness(info)",
        f"done = best > {count - 0.1:.2f}",
        f"down = done & (upright > 0.8) & ({feet})",
        'landed = torch.maximum(self.memory["landed"], down.float())',
        'landing = landed - self.memory["landed"]',
        'self.memory["landed"] = landed',
        f"spin = {sign}quantities.{rate}(info)",
    )
    # Spin pays until the turn is complete and costs from then on, when resting pays instead: so
    # there is one turn. Height and a cost for the torso on the ground make it a flip, not a roll.
    draft.add("turn", "25.0 * progress", 1.0, f"new progress of the {which} turn", r"\Delta b")
    code = "torch.where(done, -spin.abs(), spin.clamp(-4.0, 12.0)) / 6.0"
    meaning = "turning the right way before the turn is complete, calm after it"
    draft.add("spin", code, 1.0, meaning, r"\omega / 6")
    if is_flip and scene.has("height_above_start"):
        draft.need("lift = quantities.height_above_start(info)")
        code = "(~done).float() * lift.clamp(-0.3, 1.2)"
        draft.add("lift", code, 0.4, "height before the turn is complete", r"h")
    if is_flip and scene.spec.torso and scene.has("contact_force"):
        draft.need(f'force = quantities.contact_force(info, "{scene.spec.torso}")')
        draft.add(
            "drag", "-(force > 5.0).float()", 0.3, "torso on the ground, as a cost", r"-[F > 5]"
        )
    draft.add("land", "15.0 * landing", 1.0, "once: on its feet after the turn", r"[\text{land}]")
    code = "done.float() * upright * (0.5 + 0.5 * torch.exp(-quantities.speed(info)))"
    meaning = "upright and slow after the turn"
    draft.add("rest", code, 1.5, meaning, r"\text{done}\cos\theta (1 + e^{-v}) / 2")
    be_quiet(draft, 0.02)
    _judge_somersault(frame, scene, draft, f"{sign}episode", quantity, which)
    draft.ends_when("landed > 0", "stands")
    draft.seconds = 3.0 + 1.5 * (count - 1)
    draft.settings |= {"log_std": 0.0, "entropy_coef": 0.002}  # small motions turn nobody over
    draft.practice = 3.5


def _judge_somersault(
    frame: Frame, scene: Scene, draft: Draft, episode: str, quantity: str, which: str
) -> None:
    most_often, rule = frame.count or 1, frame.count_rule
    count = 1 if rule == "at_most" else most_often
    touches = 'episode["feet_in_contact"] > 0' if scene.has("feet_in_contact") else "over"
    draft.measure(
        f'turns = {episode}["{quantity}"]',
        f"over = turns > {count - 0.15:.2f}",
        f'stands = over & (episode["uprightness"] > 0.7) & ({touches})',
    )
    least = "at least " if rule == "at_least" else ""
    title = f"turns {which} {least}{'once' if count == 1 else f'{count} times'}"
    most, value, goal = f"most {quantity.replace('_', ' ')}", "float(np.max(turns))", count - 0.15
    draft.total(
        title, most, value, 0.2 * count, goal, weight=3.0, unit="turns", tag="under_rotates"
    )
    meaning = "longest time on its feet after the turn"
    stands = "episode.longest(stands)"
    draft.leaf(
        "lands on its feet", meaning, stands, 0.02, 0.25, weight=1.5, unit="s", tag="no_landing"
    )
    if rule == "at_least":
        return
    title, zero, goal = "does not turn on and on", most_often + 0.9, most_often + 0.4
    # A guard, as one flip is not three: who turns on and on does something else.
    draft.guard(title, most, value, zero, goal, kind="cumulative", unit="turns", tag="over_rotates")
