"""Read numbers, units, counts and durations out of the words of an intent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from telic.composer.frames import Amount, Rule, Unit
from telic.composer.words import (
    Token,
    determiners,
    later_rules,
    number_rules,
    table,
    units,
)

_BEFORE = ("at", "for", "by", "of", "in", "from")
_EVERY = ("every", "each")
_PER = ("per", "a", "an", "every", "each")
_RATES: dict[Unit, Unit] = {"m": "m/s", "rad": "rad/s", "turns": "rad/s", "times": "times"}
_TURN = 2.0 * math.pi
_BETWEEN_NUMBERS = ("and", "to", "or")


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


@dataclass(slots=True)
class Numbers:
    """The numbers of a frame: at most one of each kind."""

    amount: Amount | None = None
    count: int | None = None
    count_rule: Rule = "about"
    duration_s: float | None = None
    period_s: float | None = None
    bounds: list[Amount] = field(default_factory=list[Amount])
    """both ends of a range: "at least 1 m/s and at most 3 m/s"; the amount is its middle"""

    def bounds_more(self, amount: Amount | None) -> bool:
        """Take another bound of what was said already; return whether it is one."""
        first = self.amount
        if first is None or amount is None or amount.unit != first.unit:
            return False
        rules = {each.rule for each in (self.bounds or [first])}
        if self.bounds or "about" in (amount.rule, *rules) or amount.rule in rules:
            return False
        self.bounds = [first, *self.bounds, amount]
        middle = sum(each.value for each in self.bounds) / len(self.bounds)
        self.amount = Amount(value=middle, unit=first.unit, rule="about")
        return True

    def means(self, reading: Reading) -> None:
        """Keep how a count is meant; of times, one more or less is what comes next."""
        if self.count is None or reading.rule is None:
            return
        next_to = 1 if reading.rule == "at_least" else -1 if reading.rule == "at_most" else 0
        self.count = max(1, self.count + next_to * reading.is_strict)
        self.count_rule = reading.rule

    def ends(self, spread: float) -> None:
        """Keep both ends of a range whose middle was taken."""
        middle = self.amount
        if middle is not None and spread > 0.0:
            low, high = middle.value - spread, middle.value + spread
            self.bounds = [
                middle.model_copy(update={"value": low, "rule": "at_least"}),
                middle.model_copy(update={"value": high, "rule": "at_most"}),
            ]

    def take(
        self,
        amount: Amount | None,
        count: int | None,
        duration_s: float | None,
        period_s: float | None = None,
    ) -> bool:
        """Take what is new; return whether everything was."""
        news = {
            "amount": amount,
            "count": count,
            "duration_s": duration_s,
            "period_s": period_s,
        }
        said = {name: new for name, new in news.items() if new is not None}
        if not said or any(getattr(self, name) is not None for name in said):
            return False
        for name, new in said.items():
            setattr(self, name, new)
        return True


def read_amount(tokens: Sequence[Token], start: int) -> Reading | None:
    """Return the number that begins at a place, with all that belongs to it."""
    counts = table("numbers")["counts"]
    if start < len(tokens) and tokens[start].word in counts:
        return _read_rate(tokens, start, counts[tokens[start].word])
    if start < len(tokens) and tokens[start].word in _EVERY:
        return _read_period(tokens, start)
    before, place, rule = _read_rule(tokens, start)
    is_strict = rule is not None and _is_strict(tokens[start:place])
    if rule is not None and place < len(tokens) and tokens[place].word in counts:
        count, at = counts[tokens[place].word], tuple(range(start, place + 1))
        return Reading(at, count=count, rule=rule, is_strict=is_strict)
    if rule is None and _is_vague(tokens, place):
        rule = "at_least"
    spread = _spread(tokens, place)
    numbered = _read_range(tokens, place) or _read_article(tokens, start, place)
    if numbered is None:
        return None
    value, place = numbered
    unit = units().find(tokens, _skip(tokens, place, ("of",)))
    if unit is None:
        return replace(_bare(tokens, start, place, value, rule), is_strict=is_strict)
    at = (*range(start, place), *unit.at)
    kind, factor = cast("Unit", unit.senses[0].value), unit.senses[0].says["factor"]
    per = _read_per(tokens, unit.end) if kind in _RATES else None
    if per is not None:
        seconds, at = per.duration_s or 1.0, (*at, *per.at)
        if kind == "times":  # "three times a second"
            return Reading(at, period_s=round(seconds / value, 6)) if value > 0.0 else None
        kind, factor = _RATES[kind], factor * (_TURN if kind == "turns" else 1.0) / seconds
    value = round(value * factor, 9)
    after = later_rules().find(tokens, at[-1] + 1) if rule is None else None
    if after is not None:
        at, rule = (*at, *after.at), cast("Rule", after.senses[0].value)
    found = _with_unit(at, value, kind, rule, before)
    return replace(found, spread=round(spread * factor, 9), is_strict=is_strict)


def _is_strict(said: Sequence[Token]) -> bool:
    """Say whether a rule leaves the number itself out: "more than", but not "no more than"."""
    words = [token.word for token in said]
    if {"no", "not", "never", "without"} & set(words):
        return False
    text = f" {' '.join(words)} "
    return any(f" {each} " in text for each in table("numbers")["strict"]["words"])


def _is_vague(tokens: Sequence[Token], place: int) -> bool:
    """Say whether a number is one that nobody counts: "several", "a few"."""
    at = _skip(tokens, place)
    return at < len(tokens) and tokens[at].word in table("numbers")["vague"]["words"]


def _read_per(tokens: Sequence[Token], place: int) -> Reading | None:
    """Read what makes a rate of an amount: "per second", "a minute", "/ h", "every 2 s"."""
    if place >= len(tokens) or tokens[place].word not in _PER:
        return None
    value, after = _read_number(tokens, place + 1) or (1.0, place + 1)
    unit = units().find(tokens, after)
    if unit is None or unit.senses[0].value != "s" or value <= 0.0:
        return None
    at = (*range(place, after), *unit.at)
    return Reading(at, duration_s=value * unit.senses[0].says["factor"])


def _read_rate(tokens: Sequence[Token], start: int, count: int) -> Reading:
    """Read "twice", and "twice per second" as once in half a second."""
    per = _read_per(tokens, start + 1)
    if per is None:
        return Reading((start,), count=count)
    return Reading((start, *per.at), period_s=round((per.duration_s or 1.0) / count, 6))


def _read_period(tokens: Sequence[Token], start: int) -> Reading | None:
    """Read "every 3 seconds" and "every second"."""
    place = start + 1
    numbered = _read_number(tokens, place)
    value, place = numbered or (1.0, place)
    unit = units().find(tokens, place)
    if unit is None or unit.senses[0].value == "times" or value <= 0.0:
        return None
    if unit.senses[0].value != "s":
        return Reading((*range(start, place), *unit.at))  # "every 2 m" is neither a way nor a count
    seconds = round(value * unit.senses[0].says["factor"], 9)
    return Reading((*range(start, place), *unit.at), period_s=seconds)


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


def _read_rule(tokens: Sequence[Token], place: int) -> tuple[set[str], int, Rule | None]:
    """Read "for at least about": the prepositions, the place after them all, and the rule."""
    before: set[str] = set()
    rule: Rule | None = None
    while place < len(tokens):
        found = number_rules().find(tokens, place)
        if found is not None:
            rule = rule or cast("Rule", found.senses[0].value)
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
    return number_rules().find(tokens, place) is not None or _read_number(tokens, place) is not None


def _read_range(tokens: Sequence[Token], place: int) -> tuple[float, int] | None:
    """Read "2", "1-2", "1 to 2" or "between 1 and 2 m/s"; a range is its middle."""
    between = place < len(tokens) and tokens[place].word == "between"
    first = _read_number(tokens, place + between)
    if first is None:
        return None
    value, place = first
    if place < len(tokens) and tokens[place].word in _BETWEEN_NUMBERS:
        joined = "and" if between else "to"
        second = _read_number(tokens, place + 1)
        if second is not None and tokens[place].word in (joined, "to", "or"):
            return (value + second[0]) / 2.0, second[1]
        unit = units().find(tokens, place)
        if between and unit is None and second is None:
            return None
    return value, place


def _spread(tokens: Sequence[Token], place: int) -> float:
    """Return how far the ends of a range are from its middle; 0: it is a single number."""
    between = place < len(tokens) and tokens[place].word == "between"
    first, middle = _read_number(tokens, place + between), _read_range(tokens, place)
    return abs(middle[0] - first[0]) if first and middle else 0.0


def _read_number(tokens: Sequence[Token], place: int) -> tuple[float, int] | None:
    """Read digits or number words: "2.5", "twenty five", "half", "two and a half"."""
    place = _skip(tokens, place)
    if place >= len(tokens):
        return None
    value = tokens[place].number
    if value is None:
        found = _read_number_words(tokens, place)
        if found is None:
            return None
        value, place = found
    else:
        place += 1
    below = tokens[place + 1].number if tokens[place + 1 : place + 2] else None
    if below and tokens[place].text == "/":  # "3/4"
        return value / below, place + 2
    words = [token.word for token in tokens[place : place + 3]]
    if words == ["and", "a", "half"]:
        return value + 0.5, place + 3
    if words[:1] == ["point"] and (digits := _read_digits(tokens, place + 1)):
        return float(f"{value:g}.{digits}"), place + 1 + len(digits)
    return value, place


def _read_digits(tokens: Sequence[Token], place: int) -> str:
    """Read what follows the point of "two point two five"."""
    values, digits = table("numbers")["values"], ""
    while place < len(tokens) and values.get(tokens[place].word, 10) in range(10):
        digits += f"{values[tokens[place].word]:g}"
        place += 1
    return digits


def _read_number_words(tokens: Sequence[Token], place: int) -> tuple[float, int] | None:
    values = table("numbers")["values"]
    start, total = place, 0.0
    while place < len(tokens) and tokens[place].word in values:
        value = values[tokens[place].word]
        if value == 100:
            total = max(total, 1.0) * 100.0
        elif place > start and not (total >= 20 and total % 10 == 0 and value >= 1):
            break
        else:
            total += value
        place += 1
    return (total, place) if place > start else None


def _read_article(tokens: Sequence[Token], start: int, place: int) -> tuple[float, int] | None:
    """Read "for a second", "a metre", "a full turn" as one of them."""
    # The article was read with the preposition or stands here.
    here = place if place < len(tokens) and tokens[place].word in ("a", "an", "one") else None
    first = place if here is None else here + 1
    if here is None and not (start < place and tokens[place - 1].word in ("a", "an")):
        full = first < len(tokens) and tokens[first].word in ("full", "complete", "whole")
        return (1.0, first) if full and units().find(tokens, first) else None
    unit = units().find(tokens, first)
    if unit is None:
        return None
    kind, long_name = unit.senses[0].value, len(tokens[unit.at[0]].word) > 2
    after = [token.word for token in tokens[start:place]]
    counted = kind == "m" or (kind == "s" and "for" in after) or len(unit.at) > 1
    return (1.0, first) if long_name and counted else None


def _skip(tokens: Sequence[Token], place: int, others: Sequence[str] = ()) -> int:
    """Return the place after articles, where something follows them."""
    after = place
    while after < len(tokens) and tokens[after].word in (*determiners(), *others):
        after += 1
    return after if after < len(tokens) else place
