"""Find everything in an intent that has a meaning: phrases, parts, numbers and forbidden things."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from telic.composer.amounts import read_amount
from telic.composer.bindings import WHOLE, bound
from telic.composer.frames import LimitKind, Unit
from telic.composer.marks import Mark
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
_STAYS = ("stay", "stays", "staying", "remain", "remaining", "keep", "keeping")
# What a limit may be about: not "bending the knees", which is not judged.
_JUDGED_PARTS = {*WHOLE, "pole", "poles", "tip"}


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
    return bound(tokens, marks)


def parts_at(tokens: Sequence[Token], spec: EnvSpec) -> list[BodyPart | None]:
    """Return the body part that begins at each place."""
    return [find_part(tokens, place, spec) for place in range(len(tokens))]


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
        limited = read_amount(tokens, mark.at[-1]) if len(mark.at) > 1 else None
        if limited is not None and limited.rule is not None:  # "but never faster than 2 m/s"
            return [Mark("join", mark.at[:-1], (Sense("join", "and"),))]
        return _limits(tokens, mark, names) or [mark]  # alone it blocks its clause
    options = [
        [Mark("number", reading.at, reading=reading)] if reading else [],
        [Mark("part", part.at, part=part)] if part else [],
        [mark] if mark else [],
        _said_with_negation(tokens, place, names),
        _kept_within(tokens, place),
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


def _kept_within(tokens: Sequence[Token], place: int) -> list[Mark]:
    """Read "stay within 1 m of the start" as how far it may go, not how high."""
    words = [token.word for token in tokens[place : place + 2]]
    reading = read_amount(tokens, place + 1) if words[1:] == ["within"] else None
    if words[0] not in _STAYS or reading is None or reading.amount is None:
        return []
    if reading.amount.unit != "m":
        return []
    after = [token.word for token in tokens[reading.end : reading.end + 3]]
    is_start = after[:1] == ["of"] and {"start", "origin", "beginning", "spot"} & {*after}
    at = (place, *reading.at, *(range(reading.end, reading.end + len(after)) if is_start else ()))
    amount = reading.amount
    return [Mark("limit", at, limit=LimitKind.NO_DRIFT, amount=amount)]


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
        if part.name not in WHOLE:
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
