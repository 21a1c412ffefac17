"""Refuse before training what cannot be had together, and what nobody understands.

Everything that is asked for is a demand: a quantity in an interval, for a span of time, always or
at some moment. Two demands on one quantity whose spans meet and whose intervals do not are a
contradiction, unless both are content with a moment. What a verb implies of other quantities (who
jumps is in the air, who goes gets away from the start) is a demand like any other, so that no pair
of words needs a rule of its own.

Criteria are read in the same way, by the metrics that measure them: a person may have edited them.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any, NamedTuple

from telic.composer.draft import Draft, JudgePart
from telic.composer.frames import Act, Direction, Frame, Limit, LimitKind, ParsedIntent, Posture
from telic.composer.lexicon import ignored_words, table
from telic.composer.parse import parse
from telic.composer.scene import Scene
from telic.composer.travel import speed_meant
from telic.envs.spec import EnvSpec
from telic.errors import Contradiction, NotUnderstood
from telic.judges.tracks import Measure

_FAR, _CREDIT = math.inf, 0.75
_STILL_MPS, _MOVES_MPS = 0.25, 0.3
_DRIFT_M, _RAIL_M, _TURN = 0.5, 0.5, 0.08
_TOLD_M = 1.0
_LASTS_S = 4.0
"""half of a usual episode: what a speed comes to at least"""
_UPRIGHT, _TILTED, _INVERTED = 0.5, 0.2, -0.2
_FLIES = {Act.JUMP, Act.HOP, Act.FLIP}
_TURNS = {Act.TURN, Act.CIRCLE}
_AHEAD = (None, Direction.FORWARD)


class Demand(NamedTuple):
    """A quantity in an interval, over one phase or throughout."""

    quantity: str
    low: float
    high: float
    words: str
    phase: int | None = None
    """None: throughout"""
    always: bool = True
    """at every moment of that time; False: at one at least"""

    def excludes(self, other: Demand) -> bool:
        """Say whether both cannot hold."""
        meets = None in (self.phase, other.phase) or self.phase == other.phase
        apart = self.low > other.high or other.low > self.high
        return self.quantity == other.quantity and meets and apart and (self.always or other.always)


def require_possible(parsed: ParsedIntent, scene: Scene) -> None:
    """Refuse an intent that asks for what cannot be had together.

    Raises:
        Contradiction: names both.
    """
    demands: list[Demand] = []
    for frame in parsed.frames:
        demands += _of_frame(frame, scene)
    for limit in parsed.limits:
        demands += _of_limit(limit, scene)
    for one, other in combinations(demands, 2):
        if one.words != other.words and one.excludes(other):
            raise Contradiction(
                f'"{one.words}" and "{other.words}" cannot both be done: {_why(one, other)}.',
                hint='Leave one of them out, or say that it comes later: "..., then ...".',
            )


def require_consistent(draft: Draft) -> None:
    """Refuse criteria of one phase that cannot all be met.

    Raises:
        Contradiction: names both.
    """
    demands = [demand for part in draft.parts for demand in _of_part(part, draft.seconds)]
    for one, other in combinations(demands, 2):
        if one.words != other.words and one.excludes(other):
            raise Contradiction(
                f'The criteria "{one.words}" and "{other.words}" cannot both be met: '
                f"{_why(one, other)}.",
                hint="Change the goal of one of them, or leave it out.",
            )


def _why(one: Demand, other: Demand) -> str:
    return f"{one.quantity} would have to be {_interval(one)} and {_interval(other)}"


def _interval(demand: Demand) -> str:
    if demand.high == _FAR:
        return f"at least {demand.low:.3g}"
    if demand.low == -_FAR:
        return f"at most {demand.high:.3g}"
    return f"between {demand.low:.3g} and {demand.high:.3g}"


# ------------------------------ what verbs ask


def _of_frame(frame: Frame, scene: Scene) -> Iterator[Demand]:
    word, phase = frame.word, frame.phase
    match frame.verb:
        case Act.GO | Act.HOP | Act.CIRCLE if frame.direction is not Direction.IN_PLACE:
            yield from _of_going(frame, scene)
        case Act.STAND | Act.STOP | Act.LIE if _rests(frame):
            yield Demand("the speed in m/s", -_FAR, _STILL_MPS, word, phase)
        case _:
            pass
    if frame.verb is Act.OBEY:  # commands to go and to turn will come
        yield Demand("the way from the start in m", _TOLD_M, _FAR, word, phase, False)
        yield Demand("the way forward in m", _TOLD_M, _FAR, word, phase, False)
        yield Demand("the turn of the heading in turns", 0.5, _FAR, word, phase, False)
    if frame.verb in _FLIES:
        yield Demand("the height of the feet above the ground in m", 0.02, _FAR, word, phase, False)
    if frame.verb in _TURNS:
        yield Demand("the turn of the heading in turns", _turns(frame), _FAR, word, phase, False)
    if frame.verb is Act.FLIP:
        yield Demand("the cosine of the tilt", -_FAR, _INVERTED, word, phase, False)
    if frame.verb is Act.LIE and scene.is_tall:
        yield Demand("the cosine of the tilt", -_FAR, _TILTED, word, phase)
    yield from _of_postures(frame, scene)


def _turns(frame: Frame) -> float:
    """Return how far it turns at least."""
    amount = frame.amount
    if amount is not None and amount.unit in ("rad", "turns"):
        return amount.value / (2.0 * math.pi if amount.unit == "rad" else 1.0)
    return 0.5


def _rests(frame: Frame) -> bool:
    """Return whether it asks for rest all the time: not so of what comes to a stop in the end."""
    return frame.verb is not Act.STOP and (
        frame.direction is Direction.IN_PLACE or frame.verb is Act.LIE
    )


def _of_going(frame: Frame, scene: Scene) -> Iterator[Demand]:
    amount, phase = frame.amount, frame.phase
    ends = frame.duration_s or frame.count or (amount and amount.unit == "m")
    if not ends:  # what ends can be followed by rest
        yield Demand("the speed in m/s", _MOVES_MPS, _FAR, frame.word, frame.phase)
    if frame.verb is Act.CIRCLE or (frame.verb is Act.HOP and frame.direction is None):
        return
    lasts = _RAIL_M if scene.on_rail else _LASTS_S * speed_meant(frame, scene, Draft()).value
    way = amount.value if amount and amount.unit == "m" else lasts
    yield Demand("the way from the start in m", way, _FAR, frame.word, phase, False)
    if frame.direction in _AHEAD:
        yield Demand("the way forward in m", way, _FAR, frame.word, phase, False)
    for bound in frame.bounds:
        low = -_FAR if bound.rule == "at_most" else bound.value
        high = _FAR if bound.rule == "at_least" else bound.value
        words = f"{bound.rule.replace('_', ' ')} {bound.value:g} {bound.unit}"
        yield Demand(f"what is asked for in {bound.unit}", low, high, words, frame.phase)


def _of_postures(frame: Frame, scene: Scene) -> Iterator[Demand]:
    word = frame.word
    tilts = {
        Posture.UPRIGHT: (_UPRIGHT, _FAR),
        Posture.LEVEL: (_UPRIGHT, _FAR),
        Posture.UPSIDE_DOWN: (-_FAR, _INVERTED),
    }
    span = scene.stands - scene.lies
    heights = {
        Posture.LOW: (-_FAR, scene.lies + 0.7 * span),
        Posture.LYING: (-_FAR, scene.lies + 0.3 * span),
        Posture.HIGH: (scene.lies + 0.85 * span, _FAR),
    }
    for posture in frame.postures:
        words = f"{word} {posture.value.replace('_', ' ')}"
        if posture in tilts and not scene.has("pole_angle"):
            yield Demand("the cosine of the tilt", *tilts[posture], words, frame.phase)
        if posture in heights and scene.has("height"):
            yield Demand("the height of the torso in m", *heights[posture], words, frame.phase)
        if posture is Posture.FRONT_LEGS:
            yield Demand("the hands on the ground", 1.0, 1.0, words, frame.phase)


def _of_limit(limit: Limit, scene: Scene) -> Iterator[Demand]:
    said = limit.amount.value if limit.amount is not None else None
    span = scene.stands - scene.lies
    match limit.kind:
        case LimitKind.NO_JUMP:
            yield Demand("the height of the feet above the ground in m", -_FAR, 0.0, limit.words)
        case LimitKind.NO_DRIFT:
            yield Demand("the way from the start in m", -_FAR, said or _DRIFT_M, limit.words)
        case LimitKind.NO_FORWARD:
            yield Demand("the way forward in m", -_FAR, said or _DRIFT_M, limit.words)
        case LimitKind.NO_TURN:
            turns = said / (2 * math.pi) if said else _TURN
            yield Demand("the turn of the heading in turns", -_FAR, turns, limit.words)
        case LimitKind.UPRIGHT:
            yield Demand("the cosine of the tilt", _UPRIGHT, _FAR, limit.words)
        case LimitKind.NO_HANDS:
            yield Demand("the hands on the ground", 0.0, 0.0, limit.words)
        case LimitKind.LOW_HEIGHT:
            most = said or scene.lies + 0.7 * span
            yield Demand("the height of the torso in m", -_FAR, most, limit.words)
        case LimitKind.KEEP_HEIGHT:
            least = said or scene.stands
            is_least = limit.amount is not None and limit.amount.rule == "at_least"
            high = _FAR if is_least else least + 0.15
            yield Demand("the height of the torso in m", least - 0.15, high, limit.words)
        case _:
            return


# ------------------------------ what criteria ask


def _of_part(part: JudgePart, seconds: float) -> Iterator[Demand]:
    """Yield what a criterion asks of the quantity it measures to earn most of its credit."""
    middle = part.zero + _CREDIT * (part.goal - part.zero)
    low, high = (middle, _FAR) if part.goal > part.zero else (-_FAR, middle)
    if part.is_about:
        reach = 0.5 * abs(part.goal - part.zero)
        low, high = part.goal - reach, part.goal + reach
    yield Demand(part.quantity, low, high, part.title)
    name = part.value.name if part.value is not None else ""
    args: tuple[Any, ...] = part.value.args if part.value is not None else ()
    match name:
        case "net_speed" if low > 0.0:
            yield Demand("the way from the start", low * seconds, _FAR, part.title, None, False)
        case "highest" | "lowest" | "farthest":
            # The largest is at most so much: always. It is at least so much: once.
            always = (name != "lowest") == (high < _FAR)
            yield _about(args[0], Demand("", low, high, part.title, None, always))
        case "share_above" | "share_below" if low > 0.5:
            bound = float(args[1])
            ends = (-_FAR, bound) if name == "share_below" else (bound, _FAR)
            # More than half of the time here and more than half of the time there is too much.
            found = _about(args[0], Demand("", *ends, part.title))
            yield found._replace(quantity=f"{found.quantity}, for most of the time,")
        case _:
            return


def _about(track: Measure | str, demand: Demand) -> Demand:
    """Return a demand on a track as one on the quantity behind it."""
    if str(track).startswith(("metrics.gone(", "displacement")):
        return demand._replace(quantity="the way from the start")
    if isinstance(track, Measure) and track.name == "less" and track.args[2] > 0:
        quantity, less, _ = track.args
        return demand._replace(quantity=quantity, low=demand.low + less, high=demand.high + less)
    return demand._replace(quantity=str(track))


# ---- an intent whose verb is lost: the nearest one that is understood

_CLOSE = 0.85
_PLAIN = {"go": ["run", "walk"], "jump": ["jump"]}
_LATER = re.compile(r",?\s*\b(?:and then|then|after that|afterwards|before|finally|next)\b")


def not_understood(
    parsed: ParsedIntent, lost: Sequence[str], spec: EnvSpec, able: Sequence[str]
) -> NotUnderstood:
    """Return the refusal of an intent that says what to do in words nobody knows.

    Args:
        parsed: the intent.
        lost: the words where the verb should be; none: nothing at all was understood.
        spec: the robot.
        able: an example of each thing this robot can be asked to do.
    """
    words = ", ".join(f'"{word}"' for word in lost)
    message = (
        f"I do not know how to judge {words}, and that is what is to be done."
        if lost
        else f'Nothing in "{parsed.intent}" is a movement the composer knows.'
    )
    known = f"{spec.id} can: {', '.join(able)}." if able else "Try another environment."
    near = nearest(parsed, lost, spec, able)
    hint = f'{known} Nearest: "{near}". Or let a model write: --model.' if near else known
    return NotUnderstood(message, hint=hint)


def nearest(
    parsed: ParsedIntent, lost: Sequence[str], spec: EnvSpec, able: Sequence[str]
) -> str | None:
    """Return the nearest intent that is understood as a whole; None: nothing is near.

    First the lost verb is replaced by a known one that is written alike or means nearly the same;
    then the part of a sequence that lost it is left out; last, the example of what this robot can
    do with most words in common is taken.
    """
    options = [_replaced(parsed.intent, word, other) for word in lost for other in _alike(word)]
    pieces = _LATER.split(parsed.intent)
    kept = [piece.strip(" ,.;") for piece in pieces if not any(word in piece for word in lost)]
    options += [", then ".join(kept)] if lost else []
    for option in options:
        read = parse(option, spec)
        if read.frames and not read.not_understood and not read.lost:
            return option
    said = set(re.findall(r"\w+", parsed.intent.lower())) - ignored_words()
    ranked = sorted(able, key=lambda example: -len(said & set(example.split())))
    return ranked[0] if ranked and said & set(ranked[0].split()) else None


def _alike(word: str) -> list[str]:
    """Return known verbs that are written alike, then the plain ones of the same meaning."""
    rows = [(act, row["words"]) for act, rows in table("verbs").items() for row in rows]
    plain = [words[0] for _, words in rows if " " not in words[0]]
    alike = difflib.get_close_matches(word.lower(), plain, n=2, cutoff=_CLOSE)
    own = [act for act, words in rows if word.lower() in words]
    return [each for each in alike if each != word.lower()] + [
        verb for act in own for verb in _PLAIN.get(act, [])
    ]


def _replaced(text: str, word: str, other: str) -> str:
    return re.sub(rf"\b{re.escape(word)}\b", other, text, flags=re.IGNORECASE)
