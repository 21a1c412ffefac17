"""Do revisions chase the vivid worst episode? Regressions beside a control group: improvements."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from telic.core.config import Record
from telic.search.analysis.load import Result
from telic.search.records import Candidate, Iteration

_WORST = re.compile(r"\bworst\b", re.IGNORECASE)


class Group(Record):
    """Revisions with one outcome."""

    name: str
    cases: int
    worst_below_median: int
    """cases in which the worst episode was worse than the median one"""
    mentions_worst: int
    """of those, cases whose explanation speaks of the worst"""

    @property
    def share(self) -> float | None:
        """Share of cases with a vivid worst episode; None without cases."""
        return self.worst_below_median / self.cases if self.cases else None


class SalienceReport(Record):
    """How often a vivid worst episode went before regressions, and before improvements."""

    title: str
    regressions: Group
    improvements: Group
    unchanged: Group
    risk_ratio: float | None
    """chance to regress with a vivid worst episode, over the chance without; None: undefined"""
    low: float | None
    """lower end of its 95 % interval"""
    high: float | None
    reward_groups: dict[str, int]
    """how worst, median and best episode compare, over all revisions"""

    @property
    def conclusion(self) -> str:
        """What may be concluded, in a sentence."""
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
    """Look at every revision of a search."""
    pairs = revisions(result)
    change = {id(pair[1]): _change(*pair) for pair in pairs}
    worse = [pair for pair in pairs if change[id(pair[1])] < 0]
    better = [pair for pair in pairs if change[id(pair[1])] > 0]
    same = [pair for pair in pairs if change[id(pair[1])] == 0]
    vivid = [pair for pair in pairs if is_vivid(pair[0])]
    plain = [pair for pair in pairs if not is_vivid(pair[0])]
    exposed = sum(change[id(pair[1])] < 0 for pair in vivid)
    unexposed = sum(change[id(pair[1])] < 0 for pair in plain)
    ratio, low, high = risk_ratio(exposed, len(vivid), unexposed, len(plain))
    groups: dict[str, int] = {}
    for first, _ in pairs:
        name = reward_group(first)
        groups[name] = groups.get(name, 0) + 1
    return SalienceReport(
        title=f"{result.summary.env}: {result.summary.label}, {len(pairs)} revisions",
        regressions=_group("regressions", worse),
        improvements=_group("improvements", better),
        unchanged=_group("no change", same),
        risk_ratio=ratio,
        low=low,
        high=high,
        reward_groups=groups,
    )


def revisions(result: Result) -> list[tuple[Candidate, Candidate]]:
    """Return every pair of a candidate and its revision."""
    found = [_pair(each) for log in result.iterations.values() for each in log]
    return [pair for pair in found if pair is not None]


def is_vivid(candidate: Candidate) -> bool:
    """Whether the worst episode was worse than the median one."""
    returns = candidate.tried.returns
    return min(returns) < float(np.median(returns))


def reward_group(candidate: Candidate) -> str:
    """Say how the worst, the median and the best episode compare."""
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
    """Return a risk ratio with its 95 % log-normal interval (Katz, 1978); None where undefined."""
    if not hits or not misses or not exposed or not unexposed:
        return None, None, None
    ratio = (hits / exposed) / (misses / unexposed)
    error = math.sqrt(1 / hits - 1 / exposed + 1 / misses - 1 / unexposed)
    return ratio, ratio * math.exp(-1.96 * error), ratio * math.exp(1.96 * error)


def _change(first: Candidate, second: Candidate) -> float:
    """Return what a revision brought; a policy left as it is brings nothing but luck."""
    return 0.0 if first.params == second.params else second.mean - first.mean


def _group(name: str, pairs: list[tuple[Candidate, Candidate]]) -> Group:
    vivid = [pair for pair in pairs if is_vivid(pair[0])]
    spoken = sum(bool(_WORST.search(second.explanation)) for _, second in vivid)
    return Group(name=name, cases=len(pairs), worst_below_median=len(vivid), mentions_worst=spoken)


def _pair(iteration: Iteration) -> tuple[Candidate, Candidate] | None:
    first = [each for each in iteration.candidates if each.place == "first"]
    second = [each for each in iteration.candidates if each.place == "second"]
    if not first or not second:
        return None
    return max(first, key=lambda each: each.mean), second[0]
