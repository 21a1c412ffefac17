"""Numbers out of a model's answer, strictly: exactly the right ones, or a precise complaint."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, ClassVar

from pydantic import Field, field_validator

from telic.core.config import Record
from telic.search.space import Space

Numbers = tuple[float, ...]
Objection = Callable[[Numbers], str | None]

_INDEXED = re.compile(r"params\s*\[\s*(\d+)\s*\]\s*[:=]\s*([^;,\n]*)")
_LISTED = 6


class Answer(Record):
    """One proposed policy."""

    space: ClassVar[Space]
    params: Any
    explanation: str = ""


def read_numbers(value: Any, space: Space) -> Numbers:
    """Return the numbers of an answer; raises ValueError that says exactly what is wrong.

    A list is expected; a mapping of indices, and text like "params[0]: 1.5; params[1]: -2", are
    understood as well.
    """
    if isinstance(value, str):
        value = _from_text(value, space)
    if isinstance(value, dict):
        value = _from_pairs([(_index(name), each) for name, each in value.items()], space)
    if not isinstance(value, list | tuple):
        raise ValueError(f"expected a list of {space.rank} numbers, not {type(value).__name__}")
    if len(value) != space.rank:
        raise ValueError(f"expected {space.rank} numbers, got {len(value)}")
    numbers = [_number(index, each) for index, each in enumerate(value)]
    if space.choices is not None:
        _check_choices(numbers, space.choices)
    return tuple(numbers)


def answer_record(space: Space, objection: Objection, count: int = 1) -> type[Record]:
    """Return the record that an answer of `count` policies must become.

    Args:
        space: where the numbers lie.
        objection: says why a policy is not welcome (tried before), or returns None.
        count: policies asked for; more than one are a list named candidates.
    """
    told = f"{space.rank} numbers, in order"
    told += (
        f", each one of {list(space.choices)}"
        if space.choices
        else (f", each in [{space.low:g}, {space.high:g}] with at most {space.decimals} decimals")
    )

    class Proposal(Answer):
        """A policy, and why."""

        params: tuple[float, ...] = Field(
            description=told,
            json_schema_extra={"minItems": space.rank, "maxItems": space.rank},
        )
        explanation: str = Field(description="why, in one to three sentences")

        @field_validator("params", mode="before")
        @classmethod
        def _read(cls, value: Any) -> Numbers:
            numbers = read_numbers(value, space)
            if problem := objection(space.fit(numbers).params):
                raise ValueError(problem)
            return numbers

    Proposal.space = space
    if count == 1:
        return Proposal

    class Proposals(Record):
        """Several policies."""

        candidates: tuple[Proposal, ...] = Field(min_length=count, max_length=count)

    return Proposals


def _from_text(text: str, space: Space) -> Any:
    pairs = [(int(index), number.strip()) for index, number in _INDEXED.findall(text)]
    if pairs:
        return _from_pairs(pairs, space)
    return [each for each in re.split(r"[\s,;]+", text.strip(" \t\n[]()")) if each]


def _from_pairs(pairs: list[tuple[int, Any]], space: Space) -> list[Any]:
    found: dict[int, Any] = {}
    for index, value in pairs:
        if index >= space.rank:
            raise ValueError(f"there is no params[{index}]: the last is params[{space.rank - 1}]")
        if index in found:
            raise ValueError(f"params[{index}] is given twice: {found[index]} and {value}")
        found[index] = value
    missing = [f"params[{index}]" for index in range(space.rank) if index not in found]
    if missing:
        more = f" and {len(missing) - _LISTED} more" if len(missing) > _LISTED else ""
        raise ValueError(f"{', '.join(missing[:_LISTED])}{more} missing")
    return [found[index] for index in range(space.rank)]


def _index(name: Any) -> int:
    match = re.fullmatch(r"(?:params\s*\[)?\s*(\d+)\s*\]?", str(name))
    if match is None:
        raise ValueError(
            f'"{name}" is not the name of a parameter: write params[0], params[1], ...'
        )
    return int(match[1])


def _number(index: int, value: Any) -> float:
    try:
        if isinstance(value, bool):
            raise TypeError
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"params[{index}] is {str(value)[:40]!r}, which is not a number") from None
    if not math.isfinite(number):
        raise ValueError(f"params[{index}] is {number}, which is not a finite number")
    return number


def _check_choices(numbers: list[float], choices: tuple[int, ...]) -> None:
    wrong = [f"params[{i}] = {each:g}" for i, each in enumerate(numbers) if each not in choices]
    if wrong:
        more = f" and {len(wrong) - _LISTED} more" if len(wrong) > _LISTED else ""
        raise ValueError(f"{', '.join(wrong[:_LISTED])}{more}: allowed are {list(choices)}")
