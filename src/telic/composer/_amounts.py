"""Parse numbers, units, counts and durations from the tokens of an intent."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import cast

from telic.composer.frames import Amount, AmountRule, Unit
from telic.composer.lexicon import (
    PhraseReader,
    Sense,
    Token,
    WordSpan,
    determiners,
    lexicon,
    word_table,
)

_BEFORE = ("at", "for", "by", "of", "in", "from")
_EVERY = ("every", "each")
_PER = ("per", "a", "an", *_EVERY)
_RATES = {"m": "m/s", "rad": "rad/s", "turns": "rad/s", "times": "times", "steps": "steps"}


@dataclass(frozen=True, slots=True)
class Reading(WordSpan):
    """Number parsed from the text: an amount, a count, a duration, or a number without a unit."""

    amount: Amount | None = None
    count: int | None = None
    duration_s: float | None = None
    period_s: float | None = None
    """period of a repetition in seconds"""
    bare: float | None = None
    rule: AmountRule | None = None
    """comparison such as "at least", or None if unspecified"""
    is_strict: bool = False
    """whether the number itself is excluded, as in "more than twice" (at least three times)"""
    is_end: bool = False
    """whether "to" precedes the number"""
    is_steps: bool = False
    """whether the period is that of a step (two per stride)"""
    spread: float = 0.0
    """half-width of a range whose center is the amount"""


def read_amount(tokens: Sequence[Token], start: int) -> Reading | None:
    """Parse the number at a position, with its unit and modifiers."""
    words, numbers = [token.word for token in tokens], word_table("numbers")
    if words[start : start + 1] and words[start] in _EVERY:  # "every 2 m" is neither way nor count
        per = _read_per(tokens, start)
        period = round(per[0], 9) if per and per[1] == "s" else None
        return Reading(per[2], period_s=period) if per and per[1] != "times" else None
    before, place, given = _read_rule(tokens, start)
    rule, is_strict = cast("AmountRule | None", given and given.value), bool(given and given.says)
    count = numbers["counts"].get(words[place]) if place < len(words) else None
    if count is not None and (rule is not None or place == start):  # "twice"
        value, spread, kind, factor = float(count), 0.0, "times", 1.0
        at = tuple(range(start, place + 1))
    else:
        if rule is None and {*words[_skip(tokens, place) :][:1]} & {*numbers["vague"]["words"]}:
            rule = "at_least"  # "several", "a few"
        numbered = _read_range(tokens, place) or _read_article(tokens, start, place)
        if numbered is None:
            return None
        value, spread, place = numbered
        at = tuple(range(start, place))
        unit = lexicon().find(tokens, _skip(tokens, place, ("of",)), "unit")
        if unit is None:
            named = {*words[max(start - 1, 0) : place]} & {*determiners(), "full"}
            if named and value in numbers["angles"]["bare_degrees"]:  # "do a 360"
                amount = Amount(value=math.radians(value), unit="rad", rule=rule or "about")
                return Reading(at, amount, rule=rule, spread=spread, is_strict=is_strict)
            return Reading(at, bare=value, rule=rule, spread=spread, is_strict=is_strict)
        at += unit.at
        if _is_half_more(words, unit.end) and value % 1 == 0:
            at, value = (*at, *range(unit.end, unit.end + 3)), value + 0.5  # "a meter and a half"
        kind, factor = unit.senses[0].value, unit.senses[0].says["factor"]
    per = _read_per(tokens, at[-1] + 1) if kind in _RATES else None
    if kind == "hz":
        kind, per = "times", (1.0, "s", ())
    if per is not None and per[1] == "s":
        at += per[2]
        if kind in ("times", "steps"):  # "three times a second"
            period = round(per[0] / value, 6) if value > 0.0 else None
            is_steps = kind == "steps"
            return Reading(at, period_s=period, rule=rule, is_steps=is_steps) if period else None
        factor *= (2.0 * math.pi if kind == "turns" else 1.0) / per[0]
        kind = _RATES[kind]
    after = lexicon().find(tokens, at[-1] + 1, "after") if rule is None else None
    if after is not None:
        at, rule = at + after.at, cast("AmountRule", after.senses[0].value)
    found = _with_unit(at, round(value * factor, 9), cast("Unit", kind), rule, "in" in before)
    is_end = words[max(start - 1, 0)] == "to"
    return replace(found, spread=round(spread * factor, 9), is_strict=is_strict, is_end=is_end)


_METERS = r"(-?(?:\d+\.?\d*|\.\d+))(?: m| meters| metres)?"
_POINT = re.compile(
    rf"(?:\( x , y \) = )?[(\[] {_METERS} , {_METERS} [)\]](?= |$)"
    rf"|x (?:= |of )?{_METERS}(?:(?: ,| and)* y (?:= |of )?{_METERS})?(?= |$)"
)


def read_point(
    tokens: Sequence[Token], place: int
) -> tuple[tuple[int, ...], tuple[float, float | None]] | None:
    """Parse "(2, 1)", "x = 2 m, y = 1 m" or "x = 3" into coordinates in m."""
    found = _POINT.match(" ".join(token.text.lower() for token in tokens[place:]))
    if found is None:
        return None
    x, y = (found[1], found[2]) if found[1] else (found[3], found[4])
    length = len(found[0].split(" "))
    return tuple(range(place, place + length)), (float(x), float(y) if y else None)


def number_reader(*kinds: str, rules: Sequence[str | None] = ()) -> PhraseReader:
    """Return a phrase reader for numbers of the given kinds, or only for those with `rules`.

    A kind is a unit or a property of a `Reading`. Without kinds, any number matches.
    """

    def read(tokens: Sequence[Token], place: int) -> tuple[tuple[int, ...], Reading] | None:
        found = read_amount(tokens, place)
        if found is None or (rules and ("range" if found.spread else found.rule) not in rules):
            return None
        unit = found.amount.unit if found.amount else None
        is_kind = any(unit == kind or getattr(found, kind, None) is not None for kind in kinds)
        return (found.at, found) if is_kind or not kinds else None

    return read


def denied(reading: Reading) -> Reading:
    """Return the bound of a negated number, such as "never above 2"."""
    rule = {"at_least": "at_most", "at_most": "at_least"}.get(reading.rule or "")
    return replace(reading, rule=cast("AmountRule | None", rule))


def number_readers() -> dict[str, PhraseReader]:
    """Return the named readers of the phrases."""
    rows = word_table("numbers")["readers"].items()
    return {name: number_reader(*row["kinds"], rules=row.get("rules", ())) for name, row in rows}


def _with_unit(
    at: tuple[int, ...], value: float, unit: Unit, rule: AmountRule | None, is_in: bool
) -> Reading:
    if unit == "s" and is_in and rule is None:
        rule = "at_most"
    if unit == "times" and value >= 1 and value == int(value):
        return Reading(at, count=int(value), rule=rule)
    if unit == "times" and value < 1:  # "half of the time"
        unit = "share"
    amount = Amount(value=value, unit=unit, rule=rule or "about")
    if unit == "s" and rule != "at_most":
        return Reading(at, amount if rule == "at_least" else None, duration_s=value, rule=rule)
    return Reading(at, amount, rule=rule)


def _read_per(tokens: Sequence[Token], place: int) -> tuple[float, str, tuple[int, ...]] | None:
    """Parse "per second" or "every 2 m" into the amount, the unit and the token positions."""
    if place >= len(tokens) or tokens[place].word not in _PER:
        return None
    value, after = _read_number(tokens, place + 1) or (1.0, place + 1)
    unit = lexicon().find(tokens, after, "unit")
    if unit is None or value <= 0.0:
        return None
    sense = unit.senses[0]
    return value * sense.says["factor"], sense.value, (*range(place, after), *unit.at)


def _read_rule(tokens: Sequence[Token], place: int) -> tuple[set[str], int, Sense | None]:
    """Parse phrases like "for at least" into prepositions, the next position and a comparison."""
    before: set[str] = set()
    rule: Sense | None = None
    while place < len(tokens):
        found = lexicon().find(tokens, place, "rule")
        is_article = bool(before) and tokens[place].word in determiners()
        if found is not None:
            rule = found.senses[0] if rule is None or rule.value == "about" else rule
            place = found.end - 1
        elif tokens[place].word in _BEFORE:
            before.add(tokens[place].word)
        elif not is_article or not (
            lexicon().find(tokens, place + 1, "rule") or _read_number(tokens, place + 1)
        ):
            break
        place += 1
    return before, place, rule


def _read_range(tokens: Sequence[Token], place: int) -> tuple[float, float, int] | None:
    """Parse "2", "1-2" or "between 1 and 2" into the center, half-width and next position."""
    between = place < len(tokens) and tokens[place].word == "between"
    first = _read_number(tokens, place + between)
    if first is None:
        return None
    value, place = first
    after = [token.word for token in tokens[place : place + 4]]
    if between and "and" in after:
        place += after.index("and")  # "between 20° and 60°"
    joint = tokens[place].word if place < len(tokens) else ""
    if joint == "±" and (around := _read_number(tokens, place + 1)):
        return value, *around
    if joint in ("and", "to", "or"):
        second = _read_number(tokens, place + 1)
        if second is not None and (between or joint != "and"):
            middle = (value + second[0]) / 2.0
            return middle, abs(middle - value), second[1]
        if between and second is None:
            return None
    return value, 0.0, place


def _read_number(tokens: Sequence[Token], place: int) -> tuple[float, int] | None:
    """Parse digits or number words, such as "2.5", "twenty five" or "two and a half"."""
    place = _skip(tokens, place)
    values, words = word_table("numbers")["values"], [token.word for token in tokens[place:]]
    value = tokens[place].number if words else None
    used = 1
    if value is None:
        used, total = 0, 0.0
        while used < len(words) and (value := values.get(words[used])) is not None:
            if value == 100:
                total = max(total, 1.0) * 100.0
            elif used and not (total >= 20 and total % 10 == 0 and value >= 1):
                break
            else:
                total += value
            used += 1
        if not used:
            return None
        value = total
    after = place + used
    below = tokens[after + 1].number if after + 1 < len(tokens) else None
    if below and tokens[after].text == "/":  # "3/4"
        return value / below, after + 2
    if _is_half_more(words, used):
        return value + 0.5, after + 3
    part = word_table("numbers")["parts"].get(" ".join(words[used : used + 1]))
    if part is not None and value % 1 == 0:
        return value * part, after + 1  # "three quarters"
    if words[used : used + 1] == ["point"]:  # "two point two five"
        after_point = (values.get(word, 10) for word in words[used + 1 :])
        digits = "".join(f"{each:g}" for each in takewhile(range(10).__contains__, after_point))
        if digits:
            return float(f"{value:g}.{digits}"), after + 1 + len(digits)
    return value, after


def _read_article(
    tokens: Sequence[Token], start: int, place: int
) -> tuple[float, float, int] | None:
    """Parse "for a second", "a meter" or "a full turn" as an amount of one."""
    words = [token.word for token in tokens]
    is_here = words[place : place + 1] in (["a"], ["an"], ["one"])
    first = place + is_here
    if words[first : first + 2] == ["third", "of"]:
        return 1 / 3, 0.0, first + 1
    unit = lexicon().find(tokens, first, "unit")
    if unit is None:
        return None
    # The article may have been read with the preposition.
    if not is_here and not (start < place and words[place - 1] in ("a", "an")):
        return (1.0, 0.0, first) if words[first] in ("full", "complete", "whole") else None
    kind, is_long = unit.senses[0].value, len(words[unit.at[0]]) > 2
    counted = kind in ("m", "steps") or (kind == "s" and "for" in words[start:place])
    counted = counted or len(unit.at) > 1 or _is_half_more(words, unit.end)
    return (1.0, 0.0, first) if is_long and counted else None


def _is_half_more(words: Sequence[str], place: int) -> bool:
    """Return whether the next words are "and a half"."""
    return [*words[place : place + 3]] == ["and", "a", "half"]


def _skip(tokens: Sequence[Token], place: int, others: Sequence[str] = ()) -> int:
    """Return the position after any articles that are followed by another word."""
    after = place
    while after < len(tokens) and tokens[after].word in (*determiners(), *others):
        after += 1
    return after if after < len(tokens) else place
