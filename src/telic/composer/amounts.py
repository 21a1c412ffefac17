"""Read numbers, units, counts and durations out of the words of an intent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

from telic.composer.frames import Amount, Rule, Unit
from telic.composer.lexicon import Reader, Sense, Token, determiners, lexicon, table

_BEFORE = ("at", "for", "by", "of", "in", "from")
_EVERY = ("every", "each")
_PER = ("per", "a", "an", "every", "each")
_RATES = {"m": "m/s", "rad": "rad/s", "turns": "rad/s", "times": "times"}
_TURN = 2.0 * math.pi
FOOT_M = 0.3048


@dataclass(frozen=True, slots=True)
class Reading:
    """A number that was read: an amount, a count, a duration, or bare (no unit yet)."""

    at: tuple[int, ...]
    amount: Amount | None = None
    count: int | None = None
    duration_s: float | None = None
    period_s: float | None = None
    """once in so many seconds"""
    bare: float | None = None
    rule: Rule | None = None
    """how it was said to be meant; None: it was not said"""
    is_strict: bool = False
    """whether the number itself is not meant: "more than twice" is three times at least"""
    spread: float = 0.0
    """of a range, whose middle the amount is: how far its ends are from it"""

    @property
    def end(self) -> int:
        """Place after its last word."""
        return self.at[-1] + 1


def read_amount(tokens: Sequence[Token], start: int) -> Reading | None:
    """Return the number that begins at a place, with all that belongs to it."""
    if _word(tokens, start) in _EVERY:
        return _read_period(tokens, start)
    numbers = table("numbers")
    before, place, said = _read_rule(tokens, start)
    rule, is_strict = cast("Rule | None", said and said.value), bool(said and said.says)
    count = numbers["counts"].get(_word(tokens, place))
    if count is not None and (rule is not None or place == start):  # "twice"
        value, spread, kind, factor = float(count), 0.0, "times", 1.0
        at = tuple(range(start, place + 1))
    else:
        if rule is None and _word(tokens, _skip(tokens, place)) in numbers["vague"]["words"]:
            rule = "at_least"  # "several", "a few"
        numbered = _read_range(tokens, place) or _read_article(tokens, start, place)
        if numbered is None:
            return None
        value, spread, place = numbered
        unit = lexicon().find(tokens, _skip(tokens, place, ("of",)), "unit")
        if unit is None:
            found = _bare(tokens, start, place, value, rule)
            return replace(found, spread=spread, is_strict=is_strict)
        at = (*range(start, place), *unit.at)
        kind, factor = unit.senses[0].value, unit.senses[0].says["factor"]
    per = _read_per(tokens, at[-1] + 1, _PER) if kind in _RATES else None
    if per is not None and per[1] == "s":
        seconds, at = per[0], (*at, *per[2])
        if kind == "times":  # "three times a second"
            return Reading(at, period_s=round(seconds / value, 6)) if value > 0.0 else None
        kind, factor = _RATES[kind], factor * (_TURN if kind == "turns" else 1.0) / seconds
    after = lexicon().find(tokens, at[-1] + 1, "after") if rule is None else None
    if after is not None:
        at, rule = (*at, *after.at), cast("Rule", after.senses[0].value)
    found = _with_unit(at, round(value * factor, 9), cast("Unit", kind), rule, before)
    return replace(found, spread=round(spread * factor, 9), is_strict=is_strict)


def number_reader(*kinds: str) -> Reader:
    """Return a reader of numbers of some kinds, for phrases of a lexicon.

    A kind is a unit, or a property of a `Reading`; none: any number.
    """

    def read(tokens: Sequence[Token], place: int) -> tuple[tuple[int, ...], Reading] | None:
        found = read_amount(tokens, place)
        if found is None:
            return None
        unit = found.amount.unit if found.amount else None
        is_kind = any(unit == kind or getattr(found, kind, None) is not None for kind in kinds)
        return (found.at, found) if is_kind or not kinds else None

    return read


def _word(tokens: Sequence[Token], place: int) -> str:
    return tokens[place].word if 0 <= place < len(tokens) else ""


def _read_per(
    tokens: Sequence[Token], place: int, words: Sequence[str]
) -> tuple[float, str, tuple[int, ...]] | None:
    """Read "per second", "a minute", "every 2 m": how much, of which unit, and where it stands."""
    if _word(tokens, place) not in words:
        return None
    value, after = _read_number(tokens, place + 1) or (1.0, place + 1)
    unit = lexicon().find(tokens, after, "unit")
    if unit is None or value <= 0.0:
        return None
    sense = unit.senses[0]
    return value * sense.says["factor"], sense.value, (*range(place, after), *unit.at)


def _read_period(tokens: Sequence[Token], start: int) -> Reading | None:
    """Read "every 3 seconds" and "every second"; "every 2 m" is neither a way nor a count."""
    per = _read_per(tokens, start, _EVERY)
    if per is None or per[1] == "times":
        return None
    return Reading(per[2], period_s=round(per[0], 9) if per[1] == "s" else None)


def _with_unit(
    at: tuple[int, ...], value: float, unit: Unit, rule: Rule | None, before: set[str]
) -> Reading:
    if unit == "s" and before & {"in"} and rule is None:
        rule = "at_most"
    amount = Amount(value=value, unit=unit, rule=rule or "about")
    if unit == "times":
        if value < 1:  # "half of the time"
            return Reading(at, amount.model_copy(update={"unit": "share"}), rule=rule)
        return Reading(at, count=round(value), rule=rule)
    if unit == "s" and rule != "at_most":
        return Reading(at, amount if rule == "at_least" else None, duration_s=value, rule=rule)
    return Reading(at, amount, rule=rule)


def _bare(
    tokens: Sequence[Token], start: int, place: int, value: float, rule: Rule | None
) -> Reading:
    at = tuple(range(start, place))
    named = any(t.word in (*determiners(), "full") for t in tokens[max(start - 1, 0) : place])
    if named and value in table("numbers")["angles"]["bare_degrees"]:
        amount = Amount(value=math.radians(value), unit="rad", rule=rule or "about")
        return Reading(at, amount, rule=rule)
    return Reading(at, bare=value, rule=rule)


def _read_rule(tokens: Sequence[Token], place: int) -> tuple[set[str], int, Sense | None]:
    """Read "for at least about": the prepositions, the place after them all, and the rule."""
    before: set[str] = set()
    rule: Sense | None = None
    while place < len(tokens):
        found = lexicon().find(tokens, place, "rule")
        if found is not None:
            rule = rule or found.senses[0]
            place = found.end
        elif tokens[place].word in _BEFORE:
            before.add(tokens[place].word)
            place += 1
        elif before and tokens[place].word in determiners() and _starts_number(tokens, place + 1):
            place += 1
        else:
            break
    return before, place, rule


def _starts_number(tokens: Sequence[Token], place: int) -> bool:
    is_rule = lexicon().find(tokens, place, "rule") is not None
    return is_rule or _read_number(tokens, place) is not None


def _read_range(tokens: Sequence[Token], place: int) -> tuple[float, float, int] | None:
    """Read "2", "1-2", "1 to 2" or "between 1 and 2 m/s": middle, half width, place after it."""
    between = _word(tokens, place) == "between"
    first = _read_number(tokens, place + between)
    if first is None:
        return None
    value, place = first
    joint = _word(tokens, place)
    if joint in ("and", "to", "or"):
        second = _read_number(tokens, place + 1)
        if second is not None and (between or joint != "and"):
            middle = (value + second[0]) / 2.0
            return middle, abs(middle - value), second[1]
        if between and second is None and lexicon().find(tokens, place, "unit") is None:
            return None
    return value, 0.0, place


def _read_number(tokens: Sequence[Token], place: int) -> tuple[float, int] | None:
    """Read digits or number words: "2.5", "twenty five", "half", "two and a half"."""
    place = _skip(tokens, place)
    value = tokens[place].number if place < len(tokens) else None
    if value is not None:
        place += 1
    else:
        found = _read_number_words(tokens, place)
        if found is None:
            return None
        value, place = found
    below = tokens[place + 1].number if place + 1 < len(tokens) else None
    if below and tokens[place].text == "/":  # "3/4"
        return value / below, place + 2
    if [_word(tokens, place + k) for k in range(3)] == ["and", "a", "half"]:
        return value + 0.5, place + 3
    if _word(tokens, place) == "point":  # "two point two five"
        values, digits = table("numbers")["values"], ""
        while (digit := values.get(_word(tokens, place + 1 + len(digits)), 10)) in range(10):
            digits += f"{digit:g}"
        if digits:
            return float(f"{value:g}.{digits}"), place + 1 + len(digits)
    return value, place


def _read_number_words(tokens: Sequence[Token], place: int) -> tuple[float, int] | None:
    values = table("numbers")["values"]
    start, total = place, 0.0
    while (value := values.get(_word(tokens, place))) is not None:
        if value == 100:
            total = max(total, 1.0) * 100.0
        elif place > start and not (total >= 20 and total % 10 == 0 and value >= 1):
            break
        else:
            total += value
        place += 1
    return (total, place) if place > start else None


def _read_article(
    tokens: Sequence[Token], start: int, place: int
) -> tuple[float, float, int] | None:
    """Read "for a second", "a metre", "a full turn" as one of them."""
    is_here = _word(tokens, place) in ("a", "an", "one")
    first = place + is_here
    unit = lexicon().find(tokens, first, "unit")
    if unit is None:
        return None
    # The article may have been read with the preposition.
    if not is_here and not (start < place and tokens[place - 1].word in ("a", "an")):
        is_full = tokens[first].word in ("full", "complete", "whole")
        return (1.0, 0.0, first) if is_full else None
    kind, is_long = unit.senses[0].value, len(tokens[unit.at[0]].word) > 2
    is_for = any(token.word == "for" for token in tokens[start:place])
    counted = kind == "m" or (kind == "s" and is_for) or len(unit.at) > 1
    return (1.0, 0.0, first) if is_long and counted else None


def _skip(tokens: Sequence[Token], place: int, others: Sequence[str] = ()) -> int:
    """Return the place after articles, where something follows them."""
    after = place
    while after < len(tokens) and tokens[after].word in (*determiners(), *others):
        after += 1
    return after if after < len(tokens) else place
