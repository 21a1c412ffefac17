"""Find everything in an intent that has a meaning: phrases, parts, numbers and forbidden things.

Of several verbs in a clause one is meant (`merge`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from telic.composer.amounts import Reading, read_amount
from telic.composer.frames import Act, Amount, LimitKind, Unit
from telic.composer.parts import BodyPart, find_part
from telic.composer.words import (
    Match,
    Sense,
    Token,
    determiners,
    forbidden,
    ignored_phrases,
    ignored_words,
    phrases,
)
from telic.envs.spec import EnvSpec

# Limits that a distance, height or angle can be given for, and its unit.
_MEASURED: dict[LimitKind, Unit] = {
    LimitKind.NO_DRIFT: "m",
    LimitKind.NO_FORWARD: "m",
    LimitKind.NO_TURN: "rad",
    LimitKind.LOW_HEIGHT: "m",
    LimitKind.KEEP_HEIGHT: "m",
}
# After a number: more than what is not said, and not known.
_COMPARED = {
    *("lower", "higher", "faster", "slower", "farther", "further", "longer", "shorter"),
    *("deeper", "taller", "more", "less"),
}
# Parts that move when the whole robot does: "without moving the cart".
_WHOLE = {"torso", "cart", "base"}
_LOOK_BACK = 4
_GOES = {Act.GO, Act.JUMP, Act.HOP}
_FOOT_M = 0.3048
# What a limit may be about: not "bending the knees", which is not judged.
_JUDGED_PARTS = {*_WHOLE, "pole", "poles", "tip"}


@dataclass(frozen=True, slots=True)
class Mark:
    """A piece of the text with a meaning; `slot` says which of the others is filled."""

    slot: str
    at: tuple[int, ...]
    senses: tuple[Sense, ...] = ()
    reading: Reading | None = None
    part: BodyPart | None = None
    limit: LimitKind | None = None
    amount: Amount | None = None

    @property
    def end(self) -> int:
        """Place after its last word."""
        return self.at[-1] + 1

    def sense(self, verb: str | None = None) -> Sense | None:
        """Return what it means beside a verb; meanings for that verb alone come first."""
        suited = [sense for sense in self.senses if sense.suits(verb)]
        return max(suited, key=lambda each: "verbs" in each.says, default=None)

    def is_join(self, *values: str) -> bool:
        """Return whether it is one of these joining words."""
        return any(sense.slot == "join" and sense.value in values for sense in self.senses)


def scan(tokens: Sequence[Token], names: Sequence[BodyPart | None]) -> list[Mark]:
    """Return the marks of a text in order, the longest at each place; `names` are its parts."""
    marks: list[Mark] = []
    place = 0
    while place < len(tokens):
        found = _at(tokens, place, names)
        idle = ignored_phrases().find(tokens, place)
        if idle is not None and (not found or idle.end > found[-1].end):
            place = idle.end  # "in one direction" is no number
            continue
        marks += [mark for mark in found if not mark.is_join("unread")]
        place = found[-1].end if found else place + 1
    marks = [_of_parts(tokens, marks, index) for index in range(len(marks))]
    read = {place for mark in marks for place in mark.at}
    marks = [mark for mark in marks if not _is_of_unknown(tokens, mark, read)]
    marks = [mark for mark in marks if not _is_relative(tokens, mark)]
    taken = {place for mark in marks if mark.slot == "number" for place in mark.at}
    marks = [mark for mark in marks if mark.slot != "part" or not taken & {*mark.at}]
    return [_with_first_as(tokens, mark) for mark in marks]


def _of_parts(tokens: Sequence[Token], marks: Sequence[Mark], index: int) -> Mark:
    """Return a number of parts as one that says nothing yet: "three legs" is no count of hops.

    Whoever goes or jumps "20 feet" is told how far.
    """
    mark, part = marks[index], marks[index + 1] if index + 1 < len(marks) else None
    reading = mark.reading
    if reading is None or reading.bare is None or part is None or part.part is None:
        return mark
    if part.at[0] != mark.end:
        return mark
    before = marks[index - 1].sense() if index else None
    goes = before is not None and (before.slot == "direction" or before.value in _GOES)
    if not goes or tokens[mark.end].word not in ("feet", "foot") or len(part.at) > 1:
        return replace(mark, reading=Reading(mark.at))
    amount = Amount(value=round(_FOOT_M * reading.bare, 9), unit="m", rule=reading.rule or "about")
    said = Reading((*mark.at, *part.at), amount, rule=reading.rule)
    return Mark("number", said.at, reading=said)


def _is_of_unknown(tokens: Sequence[Token], mark: Mark, read: set[int]) -> bool:
    """Return whether a number measures what nobody knows: "a stride of 30 cm"."""
    before = mark.at[0] - 1
    if mark.slot != "number" or before < 0 or tokens[mark.at[0]].word != "of":
        return False
    return before not in read and tokens[before].word not in ignored_words()


def _is_relative(tokens: Sequence[Token], mark: Mark) -> bool:
    """Return whether a number says how much more than something: "5 cm lower", "20 % faster"."""
    reading, after = mark.reading, tokens[mark.end : mark.end + 1]
    if mark.slot != "number" or reading is None or reading.bare is not None:
        return False
    return any(token.word in _COMPARED for token in after)


def parts_at(tokens: Sequence[Token], spec: EnvSpec) -> list[BodyPart | None]:
    """Return the body part that begins at each place."""
    return [find_part(tokens, place, spec) for place in range(len(tokens))]


def is_acting(mark: Mark) -> bool:
    """Return whether a mark is a verb that does something rather than keeps something."""
    return mark.slot == "verb" and not _says(mark, "holder")


def as_verb(mark: Mark, verb: Act) -> Mark:
    """Return a verb that keeps something as what it means there: "keep" a pole is balance it."""
    sense = replace(mark.senses[0], value=str(verb), says={"until_end": True})
    return replace(mark, senses=(sense,))


def merge(verbs: list[Mark]) -> tuple[list[Mark], list[Mark]]:
    """Return the verbs of a clause that are meant, and those that gave way to them.

    "keep running", "move by hopping", "walk in a circle", "stop walking" and "trot as commanded"
    are one verb each.
    """
    kept = [mark for mark in verbs if not _says(mark, "holder") and not _says(mark, "weak")]
    kept = [mark for mark in kept if not _is_landing(mark)] or kept[:1]
    kept = kept or [mark for mark in verbs if is_acting(mark)][:1]
    first, *others = kept
    rest = [mark for mark in others if mark.senses != first.senses]
    if _verb(first) == Act.STOP:
        rest = []
    elif Act.OBEY in map(_verb, rest) or _verb(first) == Act.OBEY:
        first, rest = _obeying([first, *rest])
    elif rest and _verb(rest[0]) == Act.CIRCLE and _verb(first) in (Act.GO, Act.TURN):
        first, rest = _going_round(first, rest[0]), rest[1:]
    helping = [mark for mark in verbs if mark is not kept[0] and mark not in rest]
    return [_helped(first, helping), *rest], helping


def _helped(mark: Mark, helping: list[Mark]) -> Mark:
    """Return a verb with what its helpers add: "keep" that it lasts, "end up" that it is last."""
    sense = mark.senses[0]
    added: dict[str, Any] = {}
    if any(_says(each, "holder") for each in helping):
        added["until_end"] = True
    if any(_is_landing(each) for each in helping):
        added["sequel"] = True
    return replace(mark, senses=(replace(sense, says={**sense.says, **added}),))


def _going_round(going: Mark, circle: Mark) -> Mark:
    """Return "walk in a circle" as one verb; turning in a circle stays turning."""
    value = circle.senses[0].value if _verb(going) == Act.GO else going.senses[0].value
    says = {**circle.senses[0].says, **going.senses[0].says}
    sense = replace(circle.senses[0], value=value, says=says)
    return replace(circle, at=(*going.at, *circle.at), senses=(sense,))


def _obeying(verbs: Sequence[Mark]) -> tuple[Mark, list[Mark]]:
    """Return "trot as commanded" as one verb, and the verbs that are something else to do."""
    told = next(mark for mark in verbs if _verb(mark) == Act.OBEY)
    ways = [mark for mark in verbs if _verb(mark) in (Act.GO, Act.OBEY)]
    says = {key: value for mark in ways for key, value in mark.senses[0].says.items()}
    sense = replace(told.senses[0], says=says)
    at = tuple(sorted({place for mark in ways for place in mark.at}))
    return replace(told, at=at, senses=(sense,)), [mark for mark in verbs if mark not in ways]


def _verb(mark: Mark) -> Act:
    return Act(mark.senses[0].value)


def _says(mark: Mark, key: str) -> bool:
    return bool(mark.senses[0].says.get(key))


def _is_landing(mark: Mark) -> bool:
    return _verb(mark) == Act.STAND and _says(mark, "sequel")


def _at(tokens: Sequence[Token], place: int, names: Sequence[BodyPart | None]) -> list[Mark]:
    token = tokens[place]
    if token.silent:
        value = {",": "and", ".": "stop"}.get(token.word)
        return [Mark("join", (place,), (Sense("join", value),))] if value else []
    match = phrases().find(tokens, place)
    if match is not None and len(match.at) == 1 and _is_noun(tokens, place):
        match = None
    reading, part = read_amount(tokens, place), names[place]
    mark = _phrase_mark(match) if match else None
    compared = reading is not None and reading.rule is not None  # "no faster than 2 m/s"
    if mark is not None and mark.is_join("negation") and not compared:
        return _limits(tokens, mark, names) or [mark]  # alone it blocks its clause
    options = [
        [Mark("number", reading.at, reading=reading)] if reading else [],
        [Mark("part", part.at, part=part)] if part else [],
        [mark] if mark else [],
        _said_with_negation(tokens, place, names),
    ]
    return max(options, key=lambda option: option[-1].end if option else 0)


def _is_noun(tokens: Sequence[Token], place: int) -> bool:
    """Return whether a word is a thing here: "with small steps", "a straight back"."""
    if tokens[place].word == "steps":
        return True
    before = [token.word for token in tokens[max(place - 2, 0) : place]]
    named = bool(determiners() & {*before})
    return tokens[place].word == "back" and named and before[-1:] != ["way"]


def _phrase_mark(match: Match) -> Mark:
    sense = match.senses[0]
    limit = LimitKind(sense.value) if sense.slot == "limit" else None
    slot = "until_end" if sense.value == "until_end" else sense.slot
    return Mark(slot, match.at, match.senses, limit=limit)


def _said_with_negation(
    tokens: Sequence[Token], place: int, names: Sequence[BodyPart | None]
) -> list[Mark]:
    """Read "don't move the cart", where "don't move" is a phrase too, and "from falling"."""
    if tokens[place].word not in ("don't", "dont", "do", "from"):
        return []
    length = 2 if tokens[place].word == "do" else 1
    if length == 2 and [t.word for t in tokens[place : place + 2]] != ["do", "not"]:
        return []
    at = tuple(range(place, place + length))
    return _limits(tokens, Mark("join", at), names)


def _limits(
    tokens: Sequence[Token], negation: Mark, names: Sequence[BodyPart | None]
) -> list[Mark]:
    marks: list[Mark] = []
    at, place = negation.at, negation.end
    while True:
        skipped, place = _skip_to_forbidden(tokens, place, names)
        match = forbidden().find(tokens, place)
        if match is None:
            return marks
        limit = Mark("limit", (*at, *skipped, *match.at), limit=LimitKind(match.senses[0].value))
        limit = _with_object(limit, tokens, names)
        if limit is None:
            return marks
        marks.append(limit)
        at = _list_joint(tokens, match.at[0], limit.end)
        if not at:
            return marks
        place = at[-1] + 1


def _list_joint(tokens: Sequence[Token], first: int, place: int) -> tuple[int, ...]:
    """Return where a list of forbidden things goes on: "falling, jumping or turning".

    After a comma or "and" it does so only in the same form; "don't fall, jump" asks for a jump.
    """
    words = [token.word for token in tokens[place : place + 3]]
    length = 2 if words[:2] in ([",", "or"], [",", "and"], [",", "nor"]) else 1
    if not words or words[0] not in (",", "and", "or", "nor") or len(words) <= length:
        return ()
    same = words[length].endswith("ing") and tokens[first].word.endswith("ing")
    if words[length - 1] in ("or", "nor") or same:
        return tuple(range(place, place + length))
    return ()


def _skip_to_forbidden(
    tokens: Sequence[Token], place: int, names: Sequence[BodyPart | None]
) -> tuple[tuple[int, ...], int]:
    """Pass words between: "letting the pole", "ever"; a part passed belongs to the limit."""
    skipped: tuple[int, ...] = ()
    while place < len(tokens) and forbidden().find(tokens, place) is None:
        part = names[place]
        if part is not None:
            skipped, place = (*skipped, *part.at), part.end
        elif tokens[place].word in ignored_words() or tokens[place].word == "ever":
            place += 1
        else:
            break
    return skipped, place


def _with_object(
    limit: Mark, tokens: Sequence[Token], names: Sequence[BodyPart | None]
) -> Mark | None:
    """Add the part ("moving the cart") and the number ("more than 1 m") that follow a limit."""
    place = limit.end
    while place < len(tokens) and tokens[place].word in ("the", "its", "your"):
        place += 1
    part = names[place] if place < len(names) else None
    if limit.limit == LimitKind.NO_TOUCH:
        return replace(limit, at=(*limit.at, *part.at), part=part) if part else None
    if part is not None and limit.limit == LimitKind.NO_DRIFT:
        if part.name not in _WHOLE:
            return None  # one limb held still is not the robot held in place
        limit = replace(limit, at=(*limit.at, *part.at))
    elif part is not None and part.name not in _JUDGED_PARTS:
        return None
    elif part is not None:
        limit = replace(limit, at=(*limit.at, *part.at))
    reading = read_amount(tokens, limit.end)
    if limit.limit is None or reading is None or reading.amount is None:
        return limit
    if _MEASURED.get(limit.limit) != reading.amount.unit:
        return None  # so much of it is allowed, and how much it is is not judged
    # "without moving more than 1 m" allows one metre at most.
    amount = reading.amount.model_copy(update={"rule": "at_most"})
    return replace(limit, at=(*limit.at, *reading.at), amount=amount)


def _with_first_as(tokens: Sequence[Token], mark: Mark) -> Mark:
    """Let "as possible" own the first "as" of "as high as possible" too."""
    sense = mark.sense()
    if sense is None or sense.value != "most" or tokens[mark.at[0]].word != "as":
        return mark
    for place in range(mark.at[0] - 1, max(mark.at[0] - 1 - _LOOK_BACK, -1), -1):
        if tokens[place].word == "as":
            return replace(mark, at=(place, *mark.at))
    return mark
