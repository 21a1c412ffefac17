"""What revisions change, and what comes of it: surgical fixes, redesigns, spoiled good policies."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import numpy as np

from telic.core.config import Record
from telic.search.analysis.load import Result
from telic.search.analysis.salience import revisions
from telic.search.environments.task import Task
from telic.search.records import Candidate

_SAME = 0.05  # a change of a number up to here is none
_SURGICAL, _REDESIGN, _SEVERAL = 3, 8, 4
_MEANINGFUL = 0.1


class Levels(NamedTuple):
    """Returns of a task that count as next to nothing, part of the way, and nearly done."""

    near_zero: float
    partial: float
    high: float


class EditReport(Record):
    """How many revisions of each pattern, by outcome."""

    title: str
    regressions: dict[str, int]
    improvements: dict[str, int]
    equal_with_edit: int
    equal_without_edit: int
    won: int
    """revisions that were selected"""
    revisions: int

    def rows(self) -> list[tuple[Any, ...]]:
        """Return the patterns as rows of a table, with their share of the outcome."""
        out: list[tuple[Any, ...]] = []
        for name, counts in (("worse", self.regressions), ("better", self.improvements)):
            total = sum(counts.values())
            out += [(name, p, n, n / total) for p, n in sorted(counts.items(), key=lambda e: -e[1])]
        out.append(("equal", "with an edit", self.equal_with_edit, None))
        out.append(("equal", "without an edit", self.equal_without_edit, None))
        return out


def edit_report(result: Result) -> EditReport:
    """Sort every revision of a search."""
    levels = levels_of(result.plan.task)
    worse: Counter[str] = Counter()
    better: Counter[str] = Counter()
    equal = {True: 0, False: 0}
    pairs = revisions(result)
    for first, second in pairs:
        edits = edit_distance(first, second, is_table=result.plan.task.is_table)
        change = second.mean - first.mean
        if change < 0:
            worse[regression(first.mean, change, edits, levels)] += 1
        elif change > 0:
            better[improvement(first.mean, edits, levels)] += 1
        else:
            equal[edits > 0] += 1
    won = sum(each.winner == "second" for log in result.iterations.values() for each in log)
    return EditReport(
        title=f"{result.summary.env}: {result.summary.label}",
        regressions=dict(worse),
        improvements=dict(better),
        equal_with_edit=equal[True],
        equal_without_edit=equal[False],
        won=won,
        revisions=len(pairs),
    )


def levels_of(task: Task) -> Levels:
    """Return the levels of a task, from its shares of the way to the target."""
    return Levels(*(task.worst + s * (task.target - task.worst) for s in task.edit_levels))


def edit_distance(first: Candidate, second: Candidate, *, is_table: bool) -> int:
    """Return how many numbers a revision changed."""
    change = np.abs(np.array(first.params) - np.array(second.params))
    return int((change > (0.0 if is_table else _SAME)).sum())


def regression(before: float, change: float, edits: int, levels: Levels) -> str:
    """Name a revision that made things worse; the first pattern that fits."""
    if edits == 0:
        return "chance alone"
    if before > levels.high and -change > _MEANINGFUL:
        return "spoiled a nearly optimal policy"
    if before > levels.partial and edits <= _SURGICAL:
        return "a small fix backfired"
    if before <= levels.near_zero and edits >= _REDESIGN:
        return "redesign without information"
    return "other"


def improvement(before: float, edits: int, levels: Levels) -> str:
    """Name a revision that made things better; the first pattern that fits."""
    if edits == 0:
        return "chance alone"
    if before > levels.high and edits <= _SURGICAL:
        return "fine-tuning"
    if before > levels.partial and edits <= _SURGICAL:
        return "a small fix hit the point"
    if before <= levels.near_zero and edits >= _REDESIGN:
        return "rescue guided by history"
    if before > levels.near_zero and edits >= _SEVERAL:
        return "a fix of several numbers"
    return "other"
