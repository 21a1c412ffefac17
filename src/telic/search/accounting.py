"""Four ways to count what a search came to, and what may be said beside published numbers.

The same runs look better or worse by how they are counted: the mean of everything tried, of the
better of two, the largest mean seen, or the chosen policy on fresh episodes. So every method is
counted in all four ways as far as is known, and nothing is claimed that turns under one of them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from telic.core.config import Record
from telic.core.stats import holm, welch
from telic.search.records import SearchIteration, SearchRunSummary

Accounting = Literal["all", "better_of_two", "best_seen", "fresh"]
ACCOUNTINGS: tuple[Accounting, ...] = ("all", "better_of_two", "best_seen", "fresh")
Verdict = Literal["win", "win where known", "tie", "turns", "loss"]
VERDICTS: tuple[Verdict, ...] = ("win", "win where known", "tie", "turns", "loss")

_RUNS, _EPISODES_EACH = 10, 20  # behind every published number
_OF_NOISY_MEANS = ("better_of_two", "best_seen")
_ROUNDED = 0.005  # published numbers have two decimals
_LEVEL = 0.05
_BOUNDS: dict[Accounting, Accounting] = {"all": "better_of_two", "fresh": "best_seen"}
"""a published number that the unpublished one does not exceed: the mean of all is at most that of
the better ones, and fresh episodes of the chosen policy are on average no better than the luckiest
mean seen"""


def counted(run: SearchRunSummary, accounting: Accounting) -> float | None:
    """Return a run's number by an accounting; None where an earlier version did not keep it."""
    match accounting:
        case "all":
            return run.mean_all
        case "better_of_two":
            return run.better_of_two
        case "best_seen":
            return run.best_seen
        case "fresh":
            return run.fresh.mean


def better_of_two(iterations: Sequence[SearchIteration], *, has_revisions: bool) -> float:
    """Return the mean of the better of two candidates, as R2PO counts, whoever proposed them.

    Two that follow one another are a pair; with revisions, only two of the same iteration. One that
    is left over stands for itself.
    """
    means = [[candidate.mean for candidate in each.candidates] for each in iterations]
    groups = means if has_revisions else [[mean for group in means for mean in group]]
    pairs = [group[i : i + 2] for group in groups for i in range(0, len(group), 2)]
    return float(np.mean([max(pair) for pair in pairs]))


class PublishedMean(NamedTuple):
    """A mean over ten runs and its standard deviation, rounded to two decimals."""

    mean: float
    std: float

    @property
    def runs(self) -> np.ndarray:
        """Ten runs with this mean and this spread, which is all that a t-test looks at."""
        half = np.resize([1.0, -1.0], _RUNS)
        return self.mean + self.std * half / half.std(ddof=1)


Published = Mapping[Accounting, PublishedMean]


@cache
def published(env: str) -> dict[str, Published]:
    """Return what was published for a task, by method and accounting; empty for other tasks."""
    file = Path(__file__).parent / "published.toml"
    tables: dict[str, dict[str, dict[Accounting, list[float]]]] = tomllib.loads(
        file.read_text(encoding="utf-8")
    )
    return {
        method: {accounting: PublishedMean(*pair) for accounting, pair in row.items()}
        for method, row in tables.get(env, {}).items()
    }


class CountedDifference(Record):
    """Our runs beside a published number."""

    ours: Accounting
    theirs: Accounting
    is_lucky: bool = False
    """whether our means are of fewer episodes than theirs, so that the best owe more to luck"""
    difference: float
    p: float | None
    """two-sided, by Welch's t-test, with Holm's correction for all comparisons of the table; None:
    neither list has any spread, so that the difference decides"""

    @property
    def is_bound(self) -> bool:
        """Whether theirs is not known and stands for what it cannot exceed."""
        return self.ours != self.theirs

    @property
    def sign(self) -> int:
        """1 where ours is higher beyond chance and rounding, -1 where it is lower, else 0."""
        is_certain = self.p is None or self.p < _LEVEL
        if abs(self.difference) <= _ROUNDED or not is_certain:
            return 0
        return 1 if self.difference > 0 else -1


class PublishedClaim(Record):
    """One row of ours beside one published method, in every accounting that is known."""

    env: str
    ours: str
    theirs: str
    standings: tuple[CountedDifference, ...]

    @property
    def verdict(self) -> Verdict:
        """What may be said.

        A win is higher in one accounting, lower in none, and no lower than what bounds the
        accountings that were not published: it cannot turn. `win where known` could. What luck may
        have made higher counts for nothing, and what is lower in spite of it counts against us.
        """
        direct = [standing for standing in self.standings if not standing.is_bound]
        signs = {standing.sign for standing in direct}
        if any(standing.sign == 1 and not standing.is_lucky for standing in self.standings):
            if any(standing.difference < -_ROUNDED for standing in direct):
                return "turns"
            is_safe = all(standing.difference >= -_ROUNDED for standing in self.standings)
            return "win" if is_safe else "win where known"
        return "loss" if -1 in signs else "tie"


class CountedRow(NamedTuple):
    """A row of ours."""

    env: str
    name: str
    values: Mapping[Accounting, Sequence[float]]
    """a number per run"""
    episodes: int | None
    """per candidate; None where all episodes of a policy are the same"""


def make_claims(rows: Sequence[CountedRow]) -> list[PublishedClaim]:
    """Hold rows against everything published."""
    claims = [
        PublishedClaim(env=row.env, ours=row.name, theirs=method, standings=_standings(row, theirs))
        for row in rows
        for method, theirs in published(row.env).items()
    ]
    adjusted = iter(holm([standing.p for claim in claims for standing in claim.standings]))
    return [
        claim.model_copy(
            update={
                "standings": tuple(
                    standing.model_copy(update={"p": next(adjusted)})
                    for standing in claim.standings
                )
            }
        )
        for claim in claims
    ]


def _standings(row: CountedRow, theirs: Published) -> tuple[CountedDifference, ...]:
    values = row.values
    has_fewer = row.episodes is not None and row.episodes < _EPISODES_EACH
    out: list[CountedDifference] = []
    for accounting in ACCOUNTINGS:
        bound = accounting if accounting in theirs else _BOUNDS.get(accounting)
        if bound is None or bound not in theirs or not values.get(accounting):
            continue
        ours = np.array(values[accounting])
        out.append(
            CountedDifference(
                ours=accounting,
                theirs=bound,
                is_lucky=has_fewer and accounting in _OF_NOISY_MEANS,
                difference=float(ours.mean() - theirs[bound].mean),
                p=welch(ours, theirs[bound].runs) if len(ours) > 1 else 1.0,
            )
        )
    return tuple(out)
