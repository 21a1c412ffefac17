"""The parts of a judgement: measured values with partial credit, and how they add up.

A judge file returns leaves. A leaf measures one thing: nothing is earned up to `zero`, everything
from `goal` on, a share in between; it is passed at the goal, on the same measure. The score is the
mean credit by weight. A leaf that comes `after` another one counts only once that one has earned
more than half. A guard rules out look-alikes: the whole score is multiplied by its credit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from telic.core.config import Record
from telic.errors import UsageError

_GATE = 0.5


class Leaf(Record):
    """One measured part of a judgement."""

    title: str
    value: float | None
    """as measured; None: could not be measured in this episode"""
    unit: str = ""
    zero: float
    goal: float
    weight: float = 1.0
    credit: float
    """share earned, 0 to 1, before gates"""
    counted: float
    """share that counts: 0 behind a closed gate"""
    passed: bool
    tag: str | None = None
    """what went wrong, in a word, when it is not passed"""
    is_guard: bool = False


def leaf(
    title: str,
    value: float,
    *,
    zero: float,
    goal: float,
    weight: float = 1.0,
    unit: str = "",
    tag: str | None = None,
    after: Leaf | None = None,
) -> Leaf:
    """Judge one measured value: no credit at `zero`, full credit at `goal`, which may be lower."""
    credit = _credit(value, zero, goal)
    is_open = after is None or after.counted > _GATE
    return Leaf(
        title=title,
        value=_number(value),
        unit=unit,
        zero=zero,
        goal=goal,
        weight=weight,
        credit=credit,
        counted=credit if is_open else 0.0,
        passed=is_open and credit >= 1.0,
        tag=tag,
    )


def guard(
    title: str,
    value: float,
    *,
    zero: float,
    goal: float,
    unit: str = "",
    tag: str | None = None,
    after: Leaf | None = None,
) -> Leaf:
    """Judge what must hold for anything else to count: the score is multiplied by its credit.

    Behind a closed gate there is nothing to guard yet, and the score stays as it is.
    """
    made = leaf(title, value, zero=zero, goal=goal, weight=0.0, unit=unit, tag=tag)
    if after is not None and after.counted <= _GATE:
        made = made.model_copy(update={"value": None, "credit": 1.0, "counted": 1.0})
        return made.model_copy(update={"passed": False, "tag": None, "is_guard": True})
    return made.model_copy(update={"is_guard": True})


def near(
    title: str,
    value: float,
    target: float,
    tolerance: float,
    *,
    weight: float = 1.0,
    unit: str = "",
    tag: str | None = None,
    after: Leaf | None = None,
) -> Leaf:
    """Judge closeness to a target: full credit within the tolerance, none at four times it."""
    made = leaf(
        title,
        abs(value - target),
        zero=4.0 * tolerance,
        goal=tolerance,
        weight=weight,
        unit=unit,
        tag=tag,
        after=after,
    )
    return made.model_copy(update={"title": f"{title} (within {tolerance:g} of {target:g})"})


def total(leaves: Sequence[Leaf]) -> float:
    """Return the score of an episode, 0 to 1."""
    weights = sum(each.weight for each in leaves)
    if weights <= 0.0:
        raise UsageError("A judge must return at least one leaf with a weight.")
    score = sum(each.weight * each.counted for each in leaves) / weights
    for each in leaves:
        if each.is_guard:
            score *= each.credit
    return score


def _credit(value: float, zero: float, goal: float) -> float:
    if zero == goal:
        raise UsageError(
            f"zero and goal of a leaf are both {zero:g}: partial credit needs a range."
        )
    if not math.isfinite(value):
        return 0.0
    return min(max((value - zero) / (goal - zero), 0.0), 1.0)


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
