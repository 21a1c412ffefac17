"""Reject contradictory or unknown intents and contradictory criteria before training.

Every request is a demand: a quantity in an interval during a time span, always or at least once.
Two demands on the same quantity with overlapping spans and disjoint intervals are contradictory,
unless both need to hold only once. The effects of a verb (a jump leaves the ground) are also
demands, so no rules for pairs of words are needed, and so are criteria, based on their metrics.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

from telic.composer._draft import Draft, JudgePart
from telic.composer._sizes import speed
from telic.composer.frames import Frame, Limit, ParsedIntent
from telic.composer.lexicon import ignored_words, word_table
from telic.composer.scene import Scene
from telic.errors import Contradiction, NotUnderstood

_SPEED, _WAY, _AHEAD = "the speed in m/s", "the distance to the start in m", "the way forward in m"
_FEET, _HANDS = "the height of the feet above the ground in m", "the hands on the ground"
_TURN, _TILT = "the turn of the heading in turns", "the cosine of the tilt"
_HEIGHT = "the height of the torso in m"
_FAR, _CREDIT = math.inf, 0.75
_STILL_MPS, _MOVES_MPS = 0.25, 0.3
_DRIFT_M, _RAIL_M, _DRIFT_TURNS = 0.5, 0.5, 0.08
_COMMANDED_M = 1.0
_LASTS_S = 4.0
"""minimum duration of a requested speed, which is half of a default episode"""
_UPRIGHT, _TILTED, _INVERTED = 0.5, 0.2, -0.2


class Demand(NamedTuple):
    """Requirement that a quantity lies in an interval during one phase or the whole episode."""

    quantity: str
    low: float
    high: float
    words: str
    phase: int | None = None
    """index of the phase, or None for the whole episode"""
    always: bool = True
    """whether it must hold at every step rather than at least once"""

    def excludes(self, other: Demand) -> bool:
        """Return whether two requirements are mutually exclusive."""
        meets = None in (self.phase, other.phase) or self.phase == other.phase
        apart = self.low > other.high or other.low > self.high
        return self.quantity == other.quantity and meets and apart and (self.always or other.always)

    def interval(self) -> str:
        """Return a description of the interval."""
        if self.high == _FAR:
            return f"at least {self.low:.3g}"
        if self.low == -_FAR:
            return f"at most {self.high:.3g}"
        return f"between {self.low:.3g} and {self.high:.3g}"


def require_possible(parsed: ParsedIntent, scene: Scene) -> None:
    """Raise Contradiction if the requirements of an intent are mutually exclusive."""
    demands = [demand for frame in parsed.frames for demand in _of_frame(frame, scene)]
    demands += [demand for limit in parsed.limits for demand in _of_limit(limit)]
    hint = 'Remove one of them, or put it in a later phase: "..., then ...".'
    _require(demands, "{} cannot both be done: {}.", hint)


def require_consistent(draft: Draft) -> None:
    """Raise Contradiction if the criteria of a phase are mutually exclusive."""
    demands = [demand for part in draft.parts for demand in _of_part(part, draft.seconds)]
    hint = "Change the goal of one of them, or remove it."
    _require(demands, "The criteria {} cannot both be met: {}.", hint)


def _require(demands: Sequence[Demand], message: str, hint: str) -> None:
    for one, other in combinations(demands, 2):
        if one.words != other.words and one.excludes(other):
            why = f"{one.quantity} would have to be {one.interval()} and {other.interval()}"
            raise Contradiction(
                message.format(f'"{one.words}" and "{other.words}"', why), hint=hint
            )


def _of_frame(frame: Frame, scene: Scene) -> Iterator[Demand]:
    """Yield the requirements that a verb and its postures imply."""
    word, phase = frame.word, frame.phase
    turns = 0.5 if frame.turns is None else frame.turns
    is_in_place = frame.direction == "in_place"
    match frame.verb:
        case "go" | "hop" | "circle" if not is_in_place:
            yield from _of_going(frame, scene)
        case "obey":  # commands may require travel and turns
            yield Demand(_WAY, _COMMANDED_M, _FAR, word, phase, False)
            yield Demand(_AHEAD, _COMMANDED_M, _FAR, word, phase, False)
        case "flip":
            yield Demand(_TILT, -_FAR, _INVERTED, word, phase, False)
        case "lie" if scene.is_tall:
            yield Demand(_TILT, -_FAR, _TILTED, word, phase)
        case _:
            pass
    if frame.verb == "lie" or (frame.verb == "stand" and is_in_place):
        yield Demand(_SPEED, -_FAR, _STILL_MPS, word, phase)
    if frame.verb in ("jump", "hop", "flip"):
        yield Demand(_FEET, 0.02, _FAR, word, phase, False)
    if frame.verb in ("turn", "circle", "obey"):
        yield Demand(_TURN, turns, _FAR, word, phase, False)
    yield from _of_poses(frame, scene)


def _of_poses(frame: Frame, scene: Scene) -> Iterator[Demand]:
    """Yield the requirements of held heights and postures."""
    word, phase = frame.word, frame.phase
    for held in (each for each in frame.held if each.quantity == "height" and not each.is_peak):
        yield Demand(_HEIGHT, held.low, held.high, f"{word} with the {held.name}", phase)
    for posture in frame.postures:
        row = scene.posture(posture)
        quantity = {"height": _HEIGHT, "uprightness": _TILT}.get(row.get("quantity", ""))
        if quantity is None or (quantity == _TILT and scene.has("pole_angle")):
            continue
        low, high = row.get("low", -_FAR), row.get("high", _FAR)
        if quantity == _HEIGHT:  # as a fraction between lying and standing
            low, high = (scene.lies + k * (scene.stands - scene.lies) for k in (low, high))
        low, high = (-high, -low) if row.get("sign", 1) < 0 else (low, high)
        yield Demand(quantity, low, high, f"{word} {posture.replace('_', ' ')}", phase)
    if "front_legs" in frame.postures:
        yield Demand(_HANDS, 1.0, 1.0, f"{word} on its hands", phase)


def _of_going(frame: Frame, scene: Scene) -> Iterator[Demand]:
    word, phase, way = frame.word, frame.phase, frame.way_m
    ends = frame.duration_s or frame.count or way or frame.given("steps")
    if not ends:  # what ends can be followed by rest
        yield Demand(_SPEED, _MOVES_MPS, _FAR, word, phase)
    if frame.verb == "circle" or (frame.verb == "hop" and frame.direction is None):
        return
    if way is None:
        way = _RAIL_M if scene.on_rail else _LASTS_S * speed(frame, scene).value
    yield Demand(_WAY, way, _FAR, word, phase, False)
    if frame.direction in (None, "forward"):
        yield Demand(_AHEAD, way, _FAR, word, phase, False)
    for bound in frame.bounds:
        low = -_FAR if bound.rule == "at_most" else bound.value
        high = _FAR if bound.rule == "at_least" else bound.value
        words = f"{bound.rule.replace('_', ' ')} {bound.value:g} {bound.unit}"
        yield Demand(f"what is asked for in {bound.unit}", low, high, words, phase)


def _of_limit(limit: Limit) -> Iterator[Demand]:
    given = limit.amount.value if limit.amount is not None else None
    turns = given / (2 * math.pi) if given else _DRIFT_TURNS
    limits = {
        "no_jump": (_FEET, -_FAR, 0.0),
        "no_drift": (_WAY, -_FAR, given or _DRIFT_M),
        "no_forward": (_AHEAD, -_FAR, given or _DRIFT_M),
        "no_turn": (_TURN, -_FAR, turns),
        "upright": (_TILT, _UPRIGHT, _FAR),
        "no_touch": (f"the {limit.part} on the ground", 0.0, 0.0),
    }
    if limit.kind in limits:
        yield Demand(*limits[limit.kind], limit.words)


def _of_part(part: JudgePart, seconds: float) -> Iterator[Demand]:
    """Yield the requirements for a criterion to earn most of the credit."""
    middle = part.zero + _CREDIT * (part.goal - part.zero)
    low, high = (middle, _FAR) if part.goal > part.zero else (-_FAR, middle)
    if part.is_about:
        reach = 0.5 * abs(part.goal - part.zero)
        low, high = part.goal - reach, part.goal + reach
    yield Demand(part.quantity, low, high, part.title)
    code = re.sub(r"^on_way\([^,]+, [^,]+, (.+)\)$", r"\1", part.measure)
    if code.startswith("net_speed(") and low > 0.0:
        yield Demand("the distance to the start", low * seconds, _FAR, part.title, None, False)
    elif found := re.fullmatch(r"(highest|lowest|farthest)\((.+)\)", code):
        # A largest value of at most x holds always; of at least x, once.
        always = (found[1] != "lowest") == (high < _FAR)
        yield _about(found[2], Demand("", low, high, part.title, None, always))
    elif low > 0.5 and (found := re.fullmatch(r"share\((.+) ([<>]) ([-+.\de]+)\)", code)):
        ends = (-_FAR, float(found[3])) if found[2] == "<" else (float(found[3]), _FAR)
        # More than half of the time for each exceeds the total.
        about = _about(found[1], Demand("", *ends, part.title))
        yield about._replace(quantity=f"{about.quantity}, for most of the time,")


def _about(track: str, demand: Demand) -> Demand:
    """Convert a requirement on a track to a requirement on the underlying quantity."""
    if track.startswith(("hypot(change(", "abs(change(", "displacement")):
        return demand._replace(quantity="the distance to the start")
    if found := re.fullmatch(r"(\w+) - ([.\d]+)", track):
        low, high = (end + float(found[2]) for end in (demand.low, demand.high))
        return demand._replace(quantity=found[1], low=low, high=high)
    return demand._replace(quantity=track)


def not_understood(parsed: ParsedIntent) -> NotUnderstood:
    """Return the error for an intent that has unknown verbs or no known words."""
    words = ", ".join(f'"{word}"' for word in parsed.lost)
    return NotUnderstood(
        f"The requested action, {words}, cannot be judged."
        if parsed.lost and parsed.frames
        else f'"{parsed.intent}" does not contain a movement that the composer knows.'
    )


def what_instead(intent: str, name: str, able: Sequence[str], works: Callable[[str], bool]) -> str:
    """Return suggestions after a refusal: the intent nearest in meaning, or the use of a model."""
    words, options = re.findall(r"\w+", intent.lower()), list[str]()
    foreign = [word for word in words if word in word_table("requests")["foreign"]["words"]]
    letters = "".join(filter(str.isalpha, intent))
    is_foreign = len(foreign) > 1 or (foreign and len(words) < 4) or not letters.isascii()
    for meaning, deeds in word_table("requests")["near"].items():
        if re.search(rf"\b({meaning})(s|es|ing|ped|ed)?\b", intent, re.IGNORECASE):
            options += deeds
    given = {*words} - ignored_words()
    options += sorted(able, key=lambda example: -len(given & {*example.split()}))
    near = next((each for each in options if each != intent and works(each)), None)
    nearest = f'Nearest: "{near}". ' if near else ""
    nearest = f"Only English is supported. {nearest}" if is_foreign else nearest
    can = f"{name} can: {', '.join(able)}. " if able else "Try another environment. "
    return f"{nearest}{can}Or use a model: --model PROVIDER:MODEL (see telic run --help)."
