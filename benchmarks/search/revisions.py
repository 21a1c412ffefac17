"""Analyze revisions: their changes, their results, and whether they chase the worst episode.

    python benchmarks/search/revisions.py latest [SEARCH …] [--runs-dir runs]

Regressions are compared with improvements as a control group.
"""

from __future__ import annotations

import argparse
import math
import re
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from telic.core.config import Record
from telic.search.records import PolicyCandidate, SearchIteration
from telic.search.runner import Result, load_search
from telic.search.task import SearchTask
from telic.search.worlds import find_task

_WORST = re.compile(r"\bworst\b", re.IGNORECASE)
_SAME = 0.05  # a change of a number up to here is none
_SURGICAL, _REDESIGN, _SEVERAL = 3, 8, 4
_MEANINGFUL = 0.1
_FEWEST = 10  # revisions with and without a vivid worst episode, and of either outcome


class RevisionGroup(Record):
    """Revisions with one outcome."""

    name: str
    cases: int
    worst_below_median: int
    """number of cases in which the worst episode was worse than the median one"""
    mentions_worst: int
    """number of these cases whose explanation mentions the worst episode"""

    @property
    def share(self) -> float | None:
        """Fraction of cases with a vivid worst episode, or None without cases."""
        return self.worst_below_median / self.cases if self.cases else None


class SalienceReport(Record):
    """Frequency of a vivid worst episode before regressions and before improvements."""

    title: str
    regressions: RevisionGroup
    improvements: RevisionGroup
    unchanged: RevisionGroup
    risk_ratio: float | None
    """relative risk of a regression after a vivid worst episode, or None if undefined"""
    low: float | None
    """lower end of the 95 % interval"""
    high: float | None
    reward_groups: dict[str, int]
    """comparison of the worst, median and best episode over all revisions"""

    @property
    def conclusion(self) -> str:
        """Conclusion in one sentence."""
        if self.risk_ratio is None or self.low is None or self.high is None:
            return "Too few revisions of either kind to say anything."
        span = f"risk ratio {self.risk_ratio:.2f}, 95 % interval [{self.low:.2f}, {self.high:.2f}]"
        if self.low > 1:
            return f"Revisions regress more often when the worst episode stands out ({span})."
        return f"No sign that a vivid worst episode makes revisions regress ({span})."

    def rows(self) -> list[tuple[Any, ...]]:
        """Return the groups as rows of a table."""
        groups = (self.regressions, self.improvements, self.unchanged)
        return [(g.name, g.cases, g.worst_below_median, g.share) for g in groups]


def salience_report(result: Result) -> SalienceReport:
    """Analyze every revision of a search."""
    pairs = revisions(result)
    changes = [(pair, _change(*pair)) for pair in pairs]
    worse = _group("regressions", [pair for pair, change in changes if change < 0])
    better = _group("improvements", [pair for pair, change in changes if change > 0])
    same = _group("no change", [pair for pair, change in changes if change == 0])
    vivid = sum(group.worst_below_median for group in (worse, better, same))
    exposed = worse.worst_below_median
    ratio, low, high = risk_ratio(exposed, vivid, worse.cases - exposed, len(pairs) - vivid)
    return SalienceReport(
        title=f"{result.summary.env}: {result.summary.label}, {len(pairs)} revisions",
        regressions=worse,
        improvements=better,
        unchanged=same,
        risk_ratio=ratio,
        low=low,
        high=high,
        reward_groups=dict(Counter(reward_group(first) for first, _ in pairs)),
    )


def revisions(result: Result) -> list[tuple[PolicyCandidate, PolicyCandidate]]:
    """Return every pair of a candidate and its revision."""
    pairs = [_pair(iteration) for log in result.iterations.values() for iteration in log]
    return [pair for pair in pairs if pair is not None]


def is_vivid(candidate: PolicyCandidate) -> bool:
    """Return whether the worst episode was worse than the median one."""
    returns = candidate.tried.returns
    return min(returns) < float(np.median(returns))


def reward_group(candidate: PolicyCandidate) -> str:
    """Describe the comparison of the worst, median and best episode."""
    returns = candidate.tried.returns
    worst, median, best = min(returns), float(np.median(returns)), max(returns)
    if worst == best:
        return "identical"
    if worst == median:
        return "worst = median < best"
    return "worst < median = best" if median == best else "all different"


def risk_ratio(
    hits: int, exposed: int, misses: int, unexposed: int
) -> tuple[float | None, float | None, float | None]:
    """Return a risk ratio with its 95 % log-normal interval (Katz, 1978), or None for few cases."""
    cases = hits + misses
    groups = exposed, unexposed, cases, exposed + unexposed - cases
    if not hits or not misses or min(groups) < _FEWEST:
        return None, None, None
    ratio = (hits / exposed) / (misses / unexposed)
    error = math.sqrt(1 / hits - 1 / exposed + 1 / misses - 1 / unexposed)
    return ratio, ratio * math.exp(-1.96 * error), ratio * math.exp(1.96 * error)


def _change(first: PolicyCandidate, second: PolicyCandidate) -> float:
    """Return the effect of a revision, which is only luck for an unchanged policy."""
    return 0.0 if first.params == second.params else second.mean - first.mean


def _group(name: str, pairs: list[tuple[PolicyCandidate, PolicyCandidate]]) -> RevisionGroup:
    vivid = [pair for pair in pairs if is_vivid(pair[0])]
    spoken = sum(bool(_WORST.search(second.explanation)) for _, second in vivid)
    return RevisionGroup(
        name=name, cases=len(pairs), worst_below_median=len(vivid), mentions_worst=spoken
    )


def _pair(iteration: SearchIteration) -> tuple[PolicyCandidate, PolicyCandidate] | None:
    first = [candidate for candidate in iteration.candidates if candidate.place == "first"]
    second = [candidate for candidate in iteration.candidates if candidate.place == "second"]
    if not first or not second:
        return None
    return max(first, key=lambda candidate: candidate.mean), second[0]


class Levels(NamedTuple):
    """Returns of a task that count as near zero, partial and nearly complete."""

    near_zero: float
    partial: float
    high: float


class EditReport(Record):
    """Number of revisions of each pattern, by outcome."""

    title: str
    regressions: dict[str, int]
    improvements: dict[str, int]
    equal_with_edit: int
    equal_without_edit: int
    won: int
    """number of revisions that were selected"""
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
    """Classify every revision of a search."""
    levels = levels_of(find_task(result.plan.task.id))
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


def levels_of(task: SearchTask) -> Levels:
    """Return the levels of a task, from its fractions of the range to the target."""
    return Levels(*(task.worst + s * (task.target - task.worst) for s in task.edit_levels))


def edit_distance(first: PolicyCandidate, second: PolicyCandidate, *, is_table: bool) -> int:
    """Return the number of parameters that a revision changed."""
    change = np.abs(np.array(first.params) - np.array(second.params))
    return int((change > (0.0 if is_table else _SAME)).sum())


def regression(before: float, change: float, edits: int, levels: Levels) -> str:
    """Return the first pattern that describes a revision with a worse result."""
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
    """Return the first pattern that describes a revision with a better result."""
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


def main():
    """Print both reports for every named search."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("searches", nargs="+")
    parser.add_argument("--runs-dir", type=Path, default=Path("runs"))
    options = parser.parse_args()
    for name in options.searches:
        result = load_search(options.runs_dir, name)
        salience, edits = salience_report(result), edit_report(result)
        print(salience.title, *salience.rows(), salience.conclusion, sep="\n  ")
        print(edits.title, *edits.rows(), sep="\n  ")


if __name__ == "__main__":
    main()
