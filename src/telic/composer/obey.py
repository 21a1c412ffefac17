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
from telic.composer.frames import Act, Direction, Frame
from telic.composer.gaits import (
    ANY_GAIT,
    STEPPING,
    gait_meant,
    go_in_steps,
    keep_time,
    step_in,
    usual_gait,
)
from telic.composer.manners import cost_of_change, stay_on_feet
from telic.composer.scene import Scene
from telic.composer.sizes import FROUDE, GENTLE, froude_speed, speed
from telic.errors import Refused
from telic.judges import metrics
from telic.judges.criteria import Motion
from telic.rewards.signals import CommandError, IsCommanded
from telic.rewards.terms import FollowTurn, FollowVelocity, Level, StandOnFeet, Sway

_TOP_FROUDE = 0.25
"""of the largest speed that is commanded where none was said: a brisk walk"""
_ASIDE = 0.5
"""of it, the largest speed sideways"""
_TURN = 0.17
"""rad/s in parts of sqrt(g / L), the largest turning rate: legs are pendulums"""
_EVERY_S, _SECONDS = 2.5, 10.0
_STILL = 0.2
"""share of commands to stand"""
_FLOOR = 0.15
"""of the largest rate: an episode that was told less is measured by this"""
_NOTHING, _WELL, _GUARD = 1.0, 0.35, 0.75
"""error as a share of that of standing still: worth nothing, everything, and too much to count"""
_MOVES, _RESTS = 0.5, 0.25
"""of the largest rates, while it was told to stand"""
_PRACTICE = 3.0
"""times as long as going at all: there are three rates to learn"""
_SWAYING, _MEAN_S = 2, 0.4
"""of so many feet its hips sway; seconds that errors are then averaged over"""


_NAMES = ("forward", "sideways", "turn")
_RATES = (
    ("goes ahead and back", "m/s", "the speed ahead", "does not go ahead or back", 2.0),
    ("goes sideways", "m/s", "the speed aside", "does not go sideways", 1.5),
    ("turns", "rad/s", "the turning rate", "does not turn", 1.5),
)
"""of each rate: title, unit, words, title where it is never commanded, weight"""
_LED = ((1, 0, 0), (0.6, 0, 1), (0, 0, 0), (0, 1, 0), (-1, 0, -0.6), (0, -1, 1))
"""commands that a robot is led through, in parts of the largest ones"""
_ONLY = {
    Direction.FORWARD: ((0.0, 1.0), (0.0, 0.0)),
    Direction.BACKWARD: ((-1.0, 0.0), (0.0, 0.0)),
    Direction.LEFT: ((0.0, 0.0), (0.0, 1.0)),
    Direction.RIGHT: ((0.0, 0.0), (-1.0, 0.0)),
    Direction.SIDEWAYS: ((0.0, 0.0), (-1.0, 1.0)),
}
"""commands ahead and aside where a direction was said, in parts of the largest ones"""
_EVERY_WAY = ((-1.0, 1.0), (-1.0, 1.0))
_Span = tuple[float, float]


class CommandRange(NamedTuple):
    """What is commanded: the largest rates, and the lowest and highest ones."""

    ahead: float
    aside: float
    turn: float
    spans: tuple[_Span, _Span, _Span]

    @property
    def most(self) -> tuple[float, float, float]:
        """The largest rates; of one that is never commanded, what would suit the others."""
        return self.ahead, self.aside, self.turn


def obey(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Do as commanded: speeds ahead and aside, and a turning rate."""
    most = range_meant(frame, scene, draft)
    draft.env_args["commands"] = {
        **{name: [*span] for name, span in zip(_NAMES, most.spans, strict=True)},
        "every_s": _EVERY_S,
        "still": _STILL,
        "heading": 0.0,
    }
    draft.seconds = max(_SECONDS, (frame.duration_s or 0.0) + 1.0)
    draft.practice = _PRACTICE
    draft.settings |= {"log_std": STEPPING}
    _pay(most, scene, draft)
    _judge(most, draft)
    _step(frame, most, scene, draft)
    go_in_steps(frame.gait, scene, draft)
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
    ahead, lowest = _speed_meant(frame, scene)
    amount = frame.amount
    turn = _TURN * math.sqrt(scene.gravity / (scene.leg or 0.3))
    if amount is not None and amount.unit == "rad/s" and amount.value > 0.0:
        turn = amount.value
    ahead, aside, turn = (float(f"{value:.2g}") for value in (ahead, _ASIDE * ahead, turn))
    ways = _ONLY.get(frame.direction, _EVERY_WAY) if frame.direction else _EVERY_WAY
    (back, forth), (right, left) = ways
    low = back * ahead if lowest is None else lowest
    most = CommandRange(
        ahead, aside, turn, ((low, forth * ahead), (right * aside, left * aside), (-turn, turn))
    )
    (low, high), (right, left), _ = most.spans
    draft.doubt(
        f'"{frame.word}": commands of {low:g} to {high:g} m/s ahead, {right:g} to {left:g} m/s to '
        f"the left and up to {turn:g} rad/s of turning, another one every {_EVERY_S:g} s"
    )
    return most


def _speed_meant(frame: Frame, scene: Scene) -> tuple[float, float | None]:
    """Return the largest speed, and the lowest one where both ends were said."""
    ends = [bound.value for bound in frame.bounds if bound.unit == "m/s"]
    if len(ends) > 1 and max(ends) > 0.0:
        return max(ends), min(ends)
    amount = frame.amount
    if amount is not None and amount.unit == "m/s" and amount.value > 0.0:
        return amount.value, None
    usual = froude_speed(scene, _TOP_FROUDE) or scene.top_speed
    is_share = amount is not None and amount.unit == "share"
    if frame.degree is None and frame.gait not in FROUDE and not is_share:
        return usual, None
    told = speed(frame.model_copy(update={"verb": Act.GO}), scene).value
    return (told if frame.degree in GENTLE or is_share else max(told, usual)), None


# ---- what is paid


def _pay(most: CommandRange, scene: Scene, draft: Draft) -> None:
    # With every step the hips of a biped sway and turn, more than what is commanded. Paid by the
    # moment, a policy holds its hips still instead of going where it is told.
    sways = len(scene.feet()) <= _SWAYING
    missed = CommandError(most.ahead, most.turn, mean_s=_MEAN_S if sways else 0.0)
    if sways:
        # What no mean sees is charged: a policy that is paid by means alone turns to and fro.
        draft.pay("sway", 0.1, Sway(missed), "turning to and fro with every step, as a cost")
    words = "velocity over the ground close to the commanded one"
    draft.pay("obey", 2.5, FollowVelocity(missed), words)
    draft.pay("turn", 1.5, FollowTurn(missed), "turning rate close to the commanded one")
    draft.pay("level", 0.5, Level(), "going up and down, rolling and pitching, as a cost")
    if scene.has("action_change"):
        cost_of_change(scene, draft, 0.1)


def _step(frame: Frame, most: CommandRange, scene: Scene, draft: Draft) -> None:
    """Step to a clock while it is told to go, and stand on all feet while it is told to stand."""
    moving = IsCommanded(most.ahead, most.turn)
    if frame.gait not in ANY_GAIT:
        gait = gait_meant(frame, scene)
        if gait is not None:
            step_in(gait, frame, scene, draft)
    gait = usual_gait(frame, scene)
    if gait is not None:
        keep_time(gait, scene, draft, only=moving)
    if scene.has("foot_contact"):
        words = "feet in the air while it is told to stand, as a cost"
        draft.pay("stand", 0.5, StandOnFeet(moving), words)


# ---- what is judged


def _judge(most: CommandRange, draft: Draft) -> None:
    for place, (title, unit, what, never, weight) in enumerate(_RATES):
        is_told, largest = most.spans[place] != (0.0, 0.0), most.most[place]
        value = metrics.command_error(place, (_FLOOR if is_told else 1.0) * largest)
        if not is_told:
            draft.score(never, value, _NOTHING, _WELL, weight=1.0, tag="drifts")
            continue
        said = f"{title} as told, {_words(most.spans[place])} {unit}"
        draft.score(said, value, _NOTHING, _WELL, weight=weight, tag="wrong_speed")
        guarded = f"does not ignore {what} it is told"
        draft.require(guarded, value, _NOTHING, _GUARD, tag="wrong_speed")
    value = metrics.moves_at_rest(most.most)
    draft.require("stands when it is told to", value, _MOVES, _RESTS, tag="drifts")


def _words(span: _Span) -> str:
    low, high = span
    return f"up to {high:g}" if low == -high else f"{low:g} to {high:g}"


# ---- how a robot led by hand does it


def led_as_told(frame: Frame, scene: Scene, seconds: float) -> tuple[Motion, ...]:
    """Return motions that do what they are told, in all directions and at rest."""
    spans = range_meant(frame, scene, Draft()).spans
    lasts = seconds / len(_LED)
    # From -1 to 1: from the lowest command to the highest; nothing stays nothing.
    motions = [
        [
            0.9 * (high if part > 0.0 else -low) * part
            for (low, high), part in zip(spans, parts, strict=True)
        ]
        for parts in _LED
    ]
    return tuple(_led((a, b, c), frame, scene, lasts) for a, b, c in motions)


def _led(told: tuple[float, float, float], frame: Frame, scene: Scene, lasts: float) -> Motion:
    ahead, aside, turn = told
    values: dict[str, Any] = {"seconds": lasts, "told": told, "circle": True}
    if not any(told):
        return Motion.model_validate(values)
    values |= {"forward_mps": ahead, "left_mps": aside, "turn_rps": turn, "stride_hz": 1.5}
    gait = usual_gait(frame, scene)
    if gait is not None:
        values |= {"stride_hz": gait.hertz, "feet": gait.landings, "duty": gait.duty}
    return Motion.model_validate(values)
