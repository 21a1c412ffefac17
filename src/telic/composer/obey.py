"""Obeying commands: one policy goes ahead, back, aside and turns as a joystick says.

The environment draws another command every few seconds and shows it to the policy; some are to
stand still. What is judged is how far each of the three rates is off, as a share of what standing
still would be off by: who never moves earns nothing whatever was drawn, and who ignores one of the
three fails by that one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from telic.composer.draft import Draft
from telic.composer.footing import go_in_steps
from telic.composer.frames import Act, Frame
from telic.composer.gaits import gait_meant, step_in
from telic.composer.manners import cost_of_change, stay_on_feet
from telic.composer.scene import Scene
from telic.composer.sizes import FROUDE, GENTLE, froude_speed, speed
from telic.errors import Refused
from telic.judges.criteria import Motion

_TOP_FROUDE = 0.25
"""of the largest speed that is commanded where none was said: a brisk walk"""
_ASIDE = 0.5
"""of it, the largest speed sideways"""
_TURN = 0.17
"""rad/s in parts of sqrt(g / L), the largest turning rate: legs are pendulums"""
_EVERY_S, _SECONDS = 2.5, 10.0
_STILL = 0.2
"""share of commands to stand"""
_ANSWER_S, _AHEAD_S = 0.75, 0.25
"""after a new command it has time to answer; paces are measured over half seconds"""
_NEW = 0.05
"""change of a command, in its unit, from which it is a new one"""
_FLOOR = 0.15
"""of the largest rate: an episode that was told less is measured by this"""
_NOTHING, _WELL, _GUARD = 1.0, 0.35, 0.75
"""error as a share of that of standing still: worth nothing, everything, and too much to count"""
_MOVES, _RESTS = 0.5, 0.25
"""of the largest rates, while it was told to stand"""
_PRACTICE = 3.0
"""times as long as going at all: there are three rates to learn"""
_GRIP = 0.1
_ANY_GAIT = (None, "walk", "run", "jog", "step", "march")
_LONG_STEP, _SHORT_STEP = 1.0, 0.5
"""swing of a foot, in parts of sqrt(L / g): all is paid for, and nothing"""


class CommandRange(NamedTuple):
    """The largest rates that are commanded, to both sides."""

    ahead: float
    aside: float
    turn: float


def obey(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Do as commanded: speeds ahead and aside, and a turning rate."""
    most = range_meant(frame, scene, draft)
    draft.env_args["commands"] = {
        "forward": [-most.ahead, most.ahead],
        "sideways": [-most.aside, most.aside],
        "turn": [-most.turn, most.turn],
        "every_s": _EVERY_S,
        "still": _STILL,
        "heading": 0.0,
    }
    draft.seconds = max(_SECONDS, (frame.duration_s or 0.0) + 1.0)
    draft.practice = _PRACTICE
    _pay(most, scene, draft)
    _judge(most, draft)
    gait = gait_meant(frame.model_copy(update={"gait": _pattern(frame)}), scene)
    if gait is not None:
        step_in(gait, frame, scene, draft)
    else:
        _pay_steps(most, scene, draft)
    go_in_steps(frame.gait, scene, draft, _GRIP)
    stay_on_feet(scene, draft)


def require_alone(frames: Sequence[Frame]) -> None:
    """Refuse something else to do beside obeying: the commands say what is done, and when."""
    told = next((frame for frame in frames if frame.verb is Act.OBEY), None)
    other = next((frame for frame in frames if frame is not told), None)
    if told is not None and other is not None:
        raise Refused(
            f'"{told.word}" is all that a robot can do at once: the commands say what it does, so '
            f'"{other.word}" cannot be asked for besides.',
            hint='Leave one of them out; a gait is said with the command: "trot as commanded".',
        )


def range_meant(frame: Frame, scene: Scene, draft: Draft) -> CommandRange:
    """Return what may be commanded: what was said, or what suits the length of the legs."""
    if "commands" not in scene.spec.arguments or not scene.has("command_error"):
        why = "its environment gives none; robots that telic drives by position do (telic robots)"
        raise scene.cannot("obey commands", why)
    leg = scene.leg or 0.3
    amount = frame.amount
    turn = _TURN * math.sqrt(scene.gravity / leg)
    if amount is not None and amount.unit == "m/s" and amount.value > 0.0:
        ahead = amount.value
    else:
        ahead = froude_speed(scene, _TOP_FROUDE) or scene.top_speed
        is_share = amount is not None and amount.unit == "share"
        if frame.degree is not None or frame.gait in FROUDE or is_share:
            told = speed(frame.model_copy(update={"verb": Act.GO}), scene).value
            ahead = told if frame.degree in GENTLE or is_share else max(told, ahead)
        if amount is not None and amount.unit == "rad/s" and amount.value > 0.0:
            turn = amount.value
    most = CommandRange(*(float(f"{value:.2g}") for value in (ahead, _ASIDE * ahead, turn)))
    draft.doubt(
        f'"{frame.word}": commands of up to {most.ahead:g} m/s ahead and back, {most.aside:g} m/s '
        f"to the sides and {most.turn:g} rad/s of turning, another one every {_EVERY_S:g} s"
    )
    return most


# ---- what is paid


def _pay(most: CommandRange, scene: Scene, draft: Draft) -> None:
    draft.need(
        *_over_ground(scene),
        'off_ahead = (ahead - info["command_forward"]) / ' + f"{most.ahead:.4g}",
        'off_aside = (aside - info["command_sideways"]) / ' + f"{most.ahead:.4g}",
        "off = (off_ahead.square() + off_aside.square() + 1e-8).sqrt()",
        'off_turn = ((quantities.heading_rate(info) - info["command_turn"]) / '
        f"{most.turn:.4g}).abs()",
    )
    code = "torch.exp(-4.0 * off.square()) + 0.4 * (1.0 - off).clamp(-1.0)"
    latex = r"e^{-4 \lVert v - v^* \rVert^2} + 0.4 (1 - \lVert v - v^* \rVert)"
    draft.add("obey", code, 1.5, "velocity over the ground close to the commanded one", latex)
    code = "torch.exp(-4.0 * off_turn.square()) + 0.4 * (1.0 - off_turn).clamp(-1.0)"
    latex = r"e^{-4 (\omega - \omega^*)^2} + 0.4 (1 - |\omega - \omega^*|)"
    draft.add("turn", code, 1.0, "turning rate close to the commanded one", latex)
    draft.need(
        "bobbing = quantities.vertical_velocity(info).square()",
        "rocking = quantities.roll_rate(info).square() + quantities.pitch_rate(info).square()",
    )
    code = "-(2.0 * bobbing + 0.05 * rocking).clamp(max=2.0)"
    latex = r"-(2 v_z^2 + 0.05 (\omega_x^2 + \omega_y^2))"
    draft.add("level", code, 0.5, "going up and down, rolling and pitching, as a cost", latex)
    if scene.has("action_change"):
        cost_of_change(scene, draft, 0.1)


def _over_ground(scene: Scene) -> tuple[str, ...]:
    """Return code for the velocity as the robot sees it, if possible the mean of the step."""
    if not {"x_velocity", "y_velocity"} <= set(scene.spec.info_keys):
        return (
            "ahead = quantities.heading_velocity(info)",
            "aside = quantities.sideways_velocity(info)",
        )
    return (
        "facing = quantities.heading(info)",
        'ahead = info["x_velocity"] * facing.cos() + info["y_velocity"] * facing.sin()',
        'aside = info["y_velocity"] * facing.cos() - info["x_velocity"] * facing.sin()',
    )


def _pay_steps(most: CommandRange, scene: Scene, draft: Draft) -> None:
    """Pay feet that land after a swing of some length, unless it was told to stand."""
    if scene.leg is None or not scene.has("foot_air_time"):
        return
    pendulum = math.sqrt(scene.leg / scene.gravity)
    low, wide = _SHORT_STEP * pendulum, (_LONG_STEP - _SHORT_STEP) * pendulum
    draft.remember("aloft", len(scene.spec.feet))
    draft.need(
        'was_aloft = self.memory["aloft"]',
        'self.memory["aloft"], aloft = quantities.foot_air_time.update(self.memory["aloft"], info)',
        "landed = ((was_aloft > 0) & (aloft == 0)).float()",
        'is_told = (torch.hypot(info["command_forward"], info["command_sideways"])'
        f" > {0.05 * most.ahead:.4g})"
        f' | (info["command_turn"].abs() > {0.05 * most.turn:.4g})',
        f"swung = ((was_aloft - {low:.4g}) / {wide:.4g}).clamp(-1.0, 1.0)",
    )
    code = "(landed * swung).sum(-1) * is_told.float()"
    latex = r"\sum_i [\text{lands}] (t_i - t_0)"
    draft.add("steps", code, 0.5, "feet that land after a swing, while it is told to go", latex)
    code = "-(aloft > 0).float().mean(-1) * (~is_told).float()"
    draft.add("stand", code, 0.5, "feet in the air while it is told to stand, as a cost", r"-[c_i]")


# ---- what is judged


def _judge(most: CommandRange, draft: Draft) -> None:
    floors = ", ".join(f"{_FLOOR * each:.4g}" for each in most)
    largest = ", ".join(f"{each:.4g}" for each in most)
    draft.measure(
        'told = np.stack((episode["command_forward"], episode["command_sideways"], '
        'episode["command_turn"]), -1)',
        'facing = np.unwrap(episode["heading"])',
        'over_x, over_y = episode.pace(episode["x_position"]), episode.pace(episode["y_position"])',
        "ahead = over_x * np.cos(facing) + over_y * np.sin(facing)",
        "aside = over_y * np.cos(facing) - over_x * np.sin(facing)",
        "done = np.stack((ahead, aside, episode.pace(facing)), -1)",
        "steps = np.arange(len(told))",
        f"new = np.concatenate(([True], np.abs(np.diff(told, axis=0)).max(-1) > {_NEW:g}))",
        "since = steps - np.maximum.accumulate(np.where(new, steps, 0))",
        "next_new = np.concatenate((new[1:], [False]))",
        "until = np.minimum.accumulate(np.where(next_new, steps, len(told) + 1000)[::-1])[::-1]",
        f"settled = (since * episode.dt >= {_ANSWER_S:g})"
        f" & ((until - steps) * episode.dt >= {_AHEAD_S:g})",
        "counted = settled if settled.any() else np.ones(len(told), dtype=bool)",
        "asked = np.abs(told[counted]).mean(0)",
        "missed = np.abs(done - told)[counted].mean(0)",
        f"missed = missed / np.maximum(asked, np.array([{floors}]))",
        "rests = counted & (np.abs(told).max(-1) < 1e-6)",
        f"moved = np.abs(done) / np.array([{largest}])",
    )
    ways = (
        (f"goes ahead and back as told, up to {most.ahead:g} m/s", "the speed ahead", 2.0),
        (f"goes sideways as told, up to {most.aside:g} m/s", "the speed aside", 1.5),
        (f"turns as told, up to {most.turn:g} rad/s", "the turning rate", 1.5),
    )
    for place, (title, what, weight) in enumerate(ways):
        meaning = f"mean error of {what}, as a share of that of standing still"
        value = f"float(missed[{place}])"
        draft.leaf(title, meaning, value, _NOTHING, _WELL, weight=weight, tag="wrong_speed")
        guarded = f"does not ignore {what} it is told"
        draft.guard(guarded, meaning, value, _NOTHING, _GUARD, tag="wrong_speed")
    meaning = "largest mean rate while it was told to stand, of the largest commanded ones"
    value = "float(moved[rests].mean(0).max()) if rests.any() else 0.0"
    draft.guard("stands when it is told to", meaning, value, _MOVES, _RESTS, tag="drifts")


# ---- how a robot led by hand does it


def led_as_told(frame: Frame, scene: Scene, seconds: float) -> tuple[Motion, ...]:
    """Return motions that do what they are told, in all directions and at rest."""
    most = range_meant(frame, scene, Draft())
    f, s, t = 0.9 * most.ahead, 0.9 * most.aside, 0.9 * most.turn
    commands = ((f, 0, 0), (0.6 * f, 0, t), (0, 0, 0), (0, s, 0), (-f, 0, -0.6 * t), (0, -s, t))
    lasts = seconds / len(commands)
    return tuple(_led(told, frame, scene, lasts) for told in commands)


def _led(told: tuple[float, float, float], frame: Frame, scene: Scene, lasts: float) -> Motion:
    ahead, aside, turn = told
    values: dict[str, Any] = {"seconds": lasts, "told": told, "circle": True}
    if not any(told):
        return Motion.model_validate(values)
    values |= {"forward_mps": ahead, "left_mps": aside, "turn_rps": turn, "stride_hz": 1.5}
    feet = len(scene.spec.feet)
    usual = "trot" if feet == 4 else "walk" if feet > 1 else None
    gait = gait_meant(frame.model_copy(update={"gait": _pattern(frame) or usual}), scene)
    if gait is not None:
        values |= {"stride_hz": gait.hertz, "feet": gait.landings, "duty": gait.duty}
    return Motion.model_validate(values)


def _pattern(frame: Frame) -> str | None:
    """Return the gait that was asked for; "walk" and "run" leave open when which foot lands."""
    return None if frame.gait in _ANY_GAIT else frame.gait
