"""Find everything in an intent that has a meaning: phrases, parts, numbers, forbidden things."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from telic.composer.amounts import Reading, read_amount
from telic.composer.frames import Amount, LimitKind
from telic.composer.parts import Part, find_part
from telic.composer.tokens import Token
from telic.composer.words import Match, Sense, forbidden, ignored_words, phrases
from telic.envs.spec import EnvSpec

# Limits a distance, height or angle can be given for.
_MEASURED = {
    LimitKind.NO_DRIFT,
    LimitKind.NO_FORWARD,
    LimitKind.NO_TURN,
    LimitKind.NO_JUMP,
    LimitKind.LOW_HEIGHT,
    LimitKind.KEEP_HEIGHT,
    LimitKind.UPRIGHT,
}
# Parts that move when the whole robot does: "without moving the cart".
_WHOLE = {"torso", "cart", "base"}
_LOOK_BACK = 4


@dataclass(frozen=True, slots=True)
class Mark:
    """A piece of the text with a meaning; `slot` says which of the others is filled."""

    slot: str
    at: tuple[int, ...]
    senses: tuple[Sense, ...] = ()
    reading: Reading | None = None
    part: Part | None = None
    limit: LimitKind | None = None
    amount: Amount | None = None

    @property
    def end(self) -> int:
        """Place after its last word."""
        return self.at[-1] + 1

    def sense(self, verb: str | None = None) -> Sense | None:
        """Return what it means beside a verb; meanings for that verb alone come first."""
        suited = [each for each in self.senses if each.suits(verb)]
        return max(suited, key=lambda each: "verbs" in each.says, default=None)

    def is_join(self, *values: str) -> bool:
        """Return whether it is one of these joining words."""
        return any(each.slot == "join" and each.value in values for each in self.senses)


def scan(tokens: Sequence[Token], names: Sequence[Part | None]) -> list[Mark]:
    """Return the marks of a text in order, the longest at each place; `names` are its parts."""
    marks: list[Mark] = []
    place = 0
    while place < len(tokens):
        found = _at(tokens, place, names)
        marks += found
        place = found[-1].end if found else place + 1
    return [_with_first_as(tokens, mark) for mark in marks]


def parts_at(tokens: Sequence[Token], spec: EnvSpec) -> list[Part | None]:
    """Return the body part that begins at each place."""
    return [find_part(tokens, place, spec) for place in range(len(tokens))]


def _at(tokens: Sequence[Token], place: int, names: Sequence[Part | None]) -> list[Mark]:
    token = tokens[place]
    if token.silent:
        value = {",": "and", ".": "stop"}.get(token.word)
        return [Mark("join", (place,), (Sense("join", value),))] if value else []
    match = phrases().find(tokens, place)
    reading, part = read_amount(tokens, place), names[place]
    mark = _phrase_mark(match) if match else None
    compared = reading is not None and reading.rule is not None  # "no faster than 2 m/s"
    if mark is not None and mark.is_join("negation") and not compared:
        return _negated(tokens, mark, names)
    options = [
        [Mark("number", reading.at, reading=reading)] if reading else [],
        [Mark("part", part.at, part=part)] if part else [],
        [mark] if mark else [],
        _said_with_negation(tokens, place, names),
    ]
    return max(options, key=lambda option: option[-1].end if option else 0)


def _phrase_mark(match: Match) -> Mark:
    sense = match.senses[0]
    limit = LimitKind(sense.value) if sense.slot == "limit" else None
    slot = "until_end" if sense.value == "until_end" else sense.slot
    return Mark(slot, match.at, match.senses, limit=limit)


def _said_with_negation(
    tokens: Sequence[Token], place: int, names: Sequence[Part | None]
) -> list[Mark]:
    """Read "don't move the cart", where "don't move" is a phrase too, and "from falling"."""
    if tokens[place].word not in ("don't", "dont", "do", "from"):
        return []
    length = 2 if tokens[place].word == "do" else 1
    if length == 2 and [t.word for t in tokens[place : place + 2]] != ["do", "not"]:
        return []
    at = tuple(range(place, place + length))
    return _limits(tokens, Mark("join", at), names)


def _negated(tokens: Sequence[Token], negation: Mark, names: Sequence[Part | None]) -> list[Mark]:
    """Return the limits a negation makes, or the negation alone, which blocks its clause."""
    return _limits(tokens, negation, names) or [negation]


def _limits(tokens: Sequence[Token], negation: Mark, names: Sequence[Part | None]) -> list[Mark]:
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
    tokens: Sequence[Token], place: int, names: Sequence[Part | None]
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


def _with_object(limit: Mark, tokens: Sequence[Token], names: Sequence[Part | None]) -> Mark | None:
    """Add the part ("moving the cart") and the number ("more than 1 m") that follow a limit."""
    place = limit.end
    while place < len(tokens) and tokens[place].word in ("the", "its", "your"):
        place += 1
    part = names[place] if place < len(names) else None
    if part is not None and limit.limit == LimitKind.NO_DRIFT:
        if part.name not in _WHOLE:
            return None  # one limb held still is not the robot held in place
        limit = replace(limit, at=(*limit.at, *part.at))
    elif part is not None:
        limit = replace(limit, at=(*limit.at, *part.at))
    reading = read_amount(tokens, limit.end)
    if reading is None or reading.amount is None or limit.limit not in _MEASURED:
        return limit
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
