"""Turning: about the vertical, on and on or by an amount; over head and heels, or sideways."""

from __future__ import annotations

import math

from telic.composer.draft import Draft
from telic.composer.frames import Act, Direction, Frame
from telic.composer.manners import follow_heading, stay_on_feet
from telic.composer.scene import GENTLE, QUICK, Scene

_FULL = 2.0 * math.pi
_QUARTER = 0.25


def turn(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Turn about the vertical."""
    scene.require("heading_rate", "turn about the vertical")
    is_right = frame.direction in (Direction.RIGHT, Direction.CLOCKWISE)
    sign, which = ("-", "right") if is_right else ("", "left")
    follow_heading(scene, draft, sign)
    draft.need(f"turned = {sign}turns")
    draft.measure(f'turned = {sign}episode["heading_turns"]')
    turns = _turns_meant(frame)
    if turns is None:
        _spin(frame, draft, which)
    else:
        _turn_by(frame, draft, which, turns)
    stay_on_feet(scene, draft)


def _turns_meant(frame: Frame) -> float | None:
    """Return how far to turn; None: on and on."""
    amount = frame.amount
    if amount and amount.unit == "turns":
        return amount.value * (frame.count or 1)
    if amount and amount.unit == "rad":
        return amount.value / _FULL * (frame.count or 1)
    return float(frame.count) if frame.count else None


def _spin(frame: Frame, draft: Draft, which: str) -> None:
    amount = frame.amount
    rate = 2.0 if frame.degree in QUICK else 0.5 if frame.degree in GENTLE else 1.0
    if amount and amount.unit == "rad/s" and amount.value > 0.0:
        rate = amount.value
    if frame.duration_s:
        draft.seconds = max(frame.duration_s + 1.0, 2.0)
    goal = 0.7 * rate * draft.seconds / _FULL
    code = f"(turning / {rate:.4g}).clamp(-1.0, 1.5)"
    draft.add("turn", code, 1.0, f"turning to the {which}", r"\min(\omega/\omega^*, 1.5)")
    title = f"turns to the {which}"
    meaning = "turns of the heading from start to end"
    value = f"float(turned[-1]) * {draft.seconds:g} / episode.full_seconds"
    draft.total(
        title, meaning, value, 0.1 * goal, goal, weight=3.0, unit="turns", tag="under_rotates"
    )
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
    is_least = frame.amount is not None and frame.amount.rule == "at_least"
    tolerance = min(0.06 + 0.05 * turns, turns / 4.0)
    slow = 1.0 if frame.degree not in GENTLE else 0.5
    draft.seconds = min(max(3.0, 1.5 * turns * _FULL / slow + 2.0), 30.0)
    code = f"(turned / {turns:.4g}).clamp(-1.0, 1.0)" + (
        "" if is_least else f" - ((turned - {turns:.4g}) / {turns:.4g}).clamp(0.0, 2.0)"
    )
    meaning = f"turned to the {which}, in parts of {turns:.3g} turns"
    draft.add("turn", code, 1.0, meaning, r"\min(\psi / \psi^*, 1)")
    code = (
        f"torch.exp(-((turned - {turns:.4g}) / {tolerance:.4g}) ** 2) * torch.exp(-turning.abs())"
    )
    meaning = "there, and no longer turning"
    draft.add("there", code, 1.0, meaning, r"e^{-(\Delta\psi/w)^2} e^{-|\omega|}")
    name, words = f"turns {turns:.3g} turns to the {which}", "turns of the heading"
    if is_least:
        value = "float(np.max(turned))"
        draft.total(
            name, words, value, 0.2 * turns, turns, weight=3.0, unit="turns", tag="under_rotates"
        )
    else:
        draft.near(
            name,
            f"{words} at the end",
            "float(turned[-1])",
            turns,
            tolerance,
            weight=3.0,
            unit="turns",
            kind="cumulative",
            tag="under_rotates",
        )
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
        _somersault(frame, scene, draft, "roll_turns", sign, "sideways")
        return
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
    draft.need("effort = action.square().mean(-1)")
    draft.add("control", "-effort", 0.02, "mean squared action, as a cost", r"-\overline{a^2}")
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
    touches = 'episode["feet_in_contact"] > 0' if scene.has("feet_in_contact") else "over"
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
    draft.need("effort = action.square().mean(-1)")
    draft.add("control", "-effort", 0.02, "mean squared action, as a cost", r"-\overline{a^2}")
    draft.measure(
        f'turns = {sign}episode["{quantity}"]',
        f"over = turns > {count - 0.15:.2f}",
        f'stands = over & (episode["uprightness"] > 0.7) & ({touches})',
    )
    times = "once" if count == 1 else f"{count} times"
    draft.total(
        f"turns {which} {times}",
        f"most {quantity.replace('_', ' ')}",
        "float(np.max(turns))",
        0.2 * count,
        count - 0.15,
        weight=3.0,
        unit="turns",
        tag="under_rotates",
    )
    title = "lands on its feet"
    meaning = "longest time on its feet after the turn"
    value = "episode.longest(stands)"
    draft.leaf(title, meaning, value, 0.02, 0.25, weight=1.5, unit="s", tag="no_landing")
    draft.total(
        "does not turn on and on",
        f"most {quantity.replace('_', ' ')}",
        "float(np.max(turns))",
        count + 0.9,
        count + 0.4,
        weight=0.5,
        unit="turns",
        tag="over_rotates",
    )
    draft.ends_when("landed > 0", "stands")
    draft.seconds = 3.0 + 1.5 * (count - 1)
    draft.settings |= {"log_std": 0.0, "entropy_coef": 0.002}  # small motions turn nobody over
    draft.practice = 3.5
