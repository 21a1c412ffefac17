"""Propagate edited goals to titles, constraints, reward and judge.

"walk at 1 m/s" with a goal of 0.5 is "walk at 0.5 m/s": the intent is composed again with that
number. A goal not determined by a number of the intent (a share of the time) changes alone.
Mutually exclusive criteria are refused (`telic.composer._conflict`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, get_args

from telic.composer.frames import Amount, AmountRule, Frame, ParsedIntent, Unit
from telic.errors import TelicError, UnknownName
from telic.judges.criteria import Composition, Criterion

_SAME = 0.01
"""relative tolerance for equal goals, as titles show two digits"""
_DIMENSIONS = {"m/s": ("speed",), "m": ("distance", "height"), "turns": ("turning",)}


def follow_edits(
    parsed: ParsedIntent,
    made: Composition,
    criteria: Sequence[Criterion],
    build: Callable[[ParsedIntent], Composition],
) -> tuple[ParsedIntent, list[Criterion]]:
    """Return the intent with the numbers that edited goals stand for, and the criteria by it.

    Criteria may be those of an earlier call. Raises UnknownName for one that is not the judge's.
    """
    present = made
    for each in criteria:
        given, old, goal = _find(each.title, made), _find(each.title, present), each.goal
        if given is None or old is None or given.is_guard or goal is None or not old.goal:
            continue
        if goal == given.goal:
            continue
        for other in _with_goal(parsed, old, goal) if not _is_same(goal, old.goal) else ():
            try:
                again = build(other)
            except TelicError:
                continue
            new = _find(each.title, again)
            if new is not None and new.goal is not None and _is_same(new.goal, goal):
                parsed, present = other, again
                break
    found: list[Criterion] = []
    for each in criteria:
        new = _find(each.title, present)
        if new is None:
            raise UnknownName("criterion", each.title, [one.title for one in made.criteria])
        old = _find(each.title, made) or new
        update: dict[str, Any] = {"weight": each.weight}
        for name in ("zero", "goal"):
            given, was = getattr(each, name), getattr(old, name)
            if given is not None and was is not None and not _is_same(given, was):
                now = getattr(new, name)
                update[name] = now if now is not None and _is_same(given, now) else given
        found.append(new.model_copy(update=update))
    return parsed, found


def _find(title: str, made: Composition) -> Criterion | None:
    """Return the criterion with a title, ignoring the numbers in it."""
    alike = [each for each in made.criteria if _masked(each.title) == _masked(title)]
    return next((each for each in made.criteria if each.title == title), next(iter(alike), None))


def _masked(title: str) -> str:
    plain = re.sub(r" \(±[^)]*\)|\bat (least|most) ", "", title).replace(" once", " 1 times")
    return re.sub(r"\d[\d.]*(e-?\d+)?", "#", plain)


def _is_same(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=_SAME, abs_tol=1e-6)


def _with_goal(parsed: ParsedIntent, old: Criterion, goal: float) -> Iterator[ParsedIntent]:
    """Yield variants of the intent, each with one number changed or added to match a goal."""
    for place, frame in enumerate(parsed.frames):
        for change in _changes(frame, old, goal):
            frames = [*parsed.frames]
            frames[place] = frame.model_copy(update=change)
            yield parsed.model_copy(update={"frames": tuple(frames)})


def _changes(frame: Frame, old: Criterion, goal: float) -> Iterator[dict[str, Any]]:
    share = goal / old.goal if old.goal else 1.0
    if frame.amount is not None and share > 0.0:
        value = frame.amount.value * share
        yield {"amount": frame.amount.model_copy(update={"value": value}), "bounds": ()}
    if frame.count is not None and goal >= 1.0 and goal == round(goal):
        yield {"count": round(goal)}
    if frame.duration_s is not None and share > 0.0:
        yield {"duration_s": frame.duration_s * share}
    if old.unit in get_args(Unit) and goal > 0.0:
        rule: AmountRule = "about" if old.direction == "about" else "at_least"
        given = Amount.model_validate({"value": goal, "unit": old.unit, "rule": rule})
        for dimension in _DIMENSIONS.get(old.unit, ()):
            plain = {"degree": None, "factor": None, "bounds": ()}
            yield {"amount": given, "dimension": dimension, **plain}
