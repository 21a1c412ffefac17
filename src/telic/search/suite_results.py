"""What a suite compares and what came of it: rows, declared tests, claims, and their tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
from pydantic import Field

from telic.core.config import Config, Record
from telic.search.accounting import (
    ACCOUNTINGS,
    VERDICTS,
    Accounting,
    CountedRow,
    PublishedClaim,
    Verdict,
    make_claims,
    published,
)
from telic.search.compare import Test, compare_pair, holm
from telic.search.records import SearchConfig
from telic.search.tables import ResultTable
from telic.search.worlds import TASKS, find_task

SuiteTerms = Literal["own", "raw", "published"]
SUITE_TERMS: tuple[SuiteTerms, ...] = ("own", "raw", "published")
_WORDS = {
    "all": "all",
    "better_of_two": "better of two",
    "best_seen": "best seen",
    "fresh": "fresh",
}


class SuiteConfig(Config):
    """What is compared."""

    schema_version: Literal[1] = 1
    envs: tuple[str, ...] = Field(default=TASKS, description="tasks")
    methods: tuple[str, ...] = Field(
        default=("cma", "tabular", "climb", "random"), description="methods, the first one ahead"
    )
    terms: tuple[SuiteTerms, ...] = Field(
        default=SUITE_TERMS,
        description="own: telic's; raw: with raw observations; published: all as in the paper",
    )
    runs: int = Field(default=10, ge=1, description="independent repetitions of every row")
    episodes: int = Field(default=4000, ge=1, description="episodes of the budget, per run")
    fresh_episodes: int = Field(default=400, ge=1, description="new episodes per run")
    seed: int = Field(default=0, ge=0, description="root of all random numbers")
    equal_steps: bool = Field(
        default=False, description="baselines also with the steps that the first method took"
    )


class SuiteRow(Record):
    """One method on one task, under some terms."""

    env: str
    method: str
    terms: SuiteTerms
    has_equal_steps: bool = False
    """whether the budget is the steps that the task's first row took"""

    @property
    def name(self) -> str:
        """How tables call it."""
        return f"{self.method}, equal steps" if self.has_equal_steps else self.method

    def request(self, config: SuiteConfig, steps: int | None = None) -> SearchConfig:
        """Return the search that this row is."""
        return SearchConfig.parse(
            {
                "env": self.env,
                "method": self.method,
                "runs": config.runs,
                "seed": config.seed,
                "episodes": config.episodes,
                "fresh_episodes": config.fresh_episodes,
                "raw": self.terms == "raw",
                "faithful": self.terms == "published",
                "steps": steps,
            }
        )


class SuitePlan(Record):
    """Rows and tests, declared before anything is played."""

    schema_version: Literal[1] = 1
    config: SuiteConfig
    rows: tuple[SuiteRow, ...]
    left_out: tuple[str, ...]
    """combinations that do not apply, and why"""
    tests: tuple[str, ...]
    """what is tested, in words"""


class RowResult(Record):
    """What a row came to."""

    row: SuiteRow
    search: str
    label: str
    episodes_per_candidate: int | None
    steps: float
    """environment steps of a run, on average"""
    values: dict[Accounting, tuple[float, ...]]
    """a number per run, by accounting"""


class SuiteResults(Record):
    """What a suite came to."""

    schema_version: Literal[1] = 1
    outcome: Literal["completed", "stopped"]
    rows: tuple[RowResult, ...]
    tests: tuple[Test, ...]
    claims: tuple[PublishedClaim, ...]

    def tally(self, terms: SuiteTerms, theirs: str) -> dict[Verdict, int]:
        """Return on how many tasks the leading rows of some terms may claim what."""
        found = [
            claim.verdict
            for claim in self.claims
            if claim.ours == terms and claim.theirs.partition(":")[0] == theirs
        ]
        return {verdict: found.count(verdict) for verdict in VERDICTS}


def title_of(row: SuiteRow) -> str:
    """Return a row's method and terms."""
    return f"{row.name} ({row.terms})"


def leading_rows(rows: Sequence[SuiteRow]) -> dict[tuple[str, SuiteTerms], SuiteRow]:
    """Return the first row of every task and terms, which stands for us beside published ones."""
    out: dict[tuple[str, SuiteTerms], SuiteRow] = {}
    for row in rows:
        out.setdefault((row.env, row.terms), row)
    return out


def tested_rows(rows: Sequence[SuiteRow]) -> Iterator[tuple[SuiteRow, SuiteRow]]:
    """Yield the pairs that are tested: each task's first row against its others."""
    first: dict[str, SuiteRow] = {}
    for row in rows:
        if row.env in first:
            yield first[row.env], row
        first.setdefault(row.env, row)


def put_together(plan: SuitePlan, done: Sequence[RowResult]) -> SuiteResults:
    """Return what rows came to, with the tests that were declared for them."""
    by_row = {result.row: result for result in done}
    tests = [
        compare_pair(
            f"{one.env}: {title_of(one)}",
            by_row[one].values["fresh"],
            title_of(other),
            by_row[other].values["fresh"],
        )
        for one, other in tested_rows(plan.rows)
        if one in by_row and other in by_row
    ]
    leading = [
        CountedRow(env, terms, by_row[row].values, _episodes_that_matter(by_row[row]))
        for (env, terms), row in leading_rows(plan.rows).items()
        if row in by_row
    ]
    return SuiteResults(
        outcome="completed" if len(done) == len(plan.rows) else "stopped",
        rows=tuple(done),
        tests=tuple(holm(tests)),
        claims=tuple(make_claims(leading)),
    )


def _episodes_that_matter(result: RowResult) -> int | None:
    """Return the episodes per candidate; None where all episodes of a policy are the same."""
    is_certain = find_task(result.row.env).is_deterministic
    return None if is_certain else result.episodes_per_candidate


def suite_tables(results: SuiteResults) -> list[ResultTable]:
    """Return every row and published number, what may be claimed, the tests, and the count."""
    envs = list(dict.fromkeys(result.row.env for result in results.rows))
    rows = [row for env in envs for row in _rows_of(results, env)]
    columns = ["env", "method", "terms", "runs", *_WORDS.values(), "episodes each", "steps"]
    tables = [ResultTable("mean ± standard deviation over runs", columns, rows)]
    if results.claims:
        heads = ["env", "terms", "published", *(_WORDS[each] for each in ACCOUNTINGS), "verdict"]
        claims = [_claim_row(claim) for claim in results.claims]
        title = (
            "ours minus published; ≥ beside what theirs cannot exceed, ≤ where ours are luckier "
            "means of fewer episodes"
        )
        tables.append(ResultTable(title, heads, claims))
        counts = [
            (terms, theirs, *results.tally(terms, theirs).values())
            for terms in SUITE_TERMS
            for theirs in dict.fromkeys(c.theirs.partition(":")[0] for c in results.claims)
            if any(results.tally(terms, theirs).values())
        ]
        tables.append(ResultTable("tasks by verdict", ["terms", "published", *VERDICTS], counts))
    if results.tests:
        heads = ["first", "other", "difference", "95 % low", "95 % high", "Welch p", "Holm p"]
        tests = [
            (t.one, t.other, t.difference, t.low, t.high, t.welch_p, t.holm_p)
            for t in results.tests
        ]
        tables.append(
            ResultTable("fresh: the first row of a task against its others", heads, tests)
        )
    return tables


def _rows_of(results: SuiteResults, env: str) -> Iterator[tuple[object, ...]]:
    for result in results.rows:
        if result.row.env == env:
            yield (
                env,
                result.row.name,
                result.row.terms,
                len(result.values["fresh"]),
                *(_spread(result.values[accounting]) for accounting in ACCOUNTINGS),
                result.episodes_per_candidate,
                result.steps,
            )
    for method, row in published(env).items():
        cells = [f"{row[a].mean:g} ± {row[a].std:g}" if a in row else None for a in ACCOUNTINGS]
        yield (env, method, "the paper's", 10, *cells, 20, None)


def _spread(values: Sequence[float]) -> str | None:
    if not values:
        return None
    mean = f"{np.mean(values):.4g}"
    if len(values) < 2:
        return mean
    spread = round(float(np.std(values, ddof=1)), 9)  # without what is only rounding
    return f"{mean} ± {spread:.2g}"


def _claim_row(claim: PublishedClaim) -> tuple[object, ...]:
    cells: dict[Accounting, str] = {}
    for standing in claim.standings:
        chance = "" if standing.p is None else f" (p {standing.p:.2g})"
        bound = "≥ " if standing.is_bound else "≤ " if standing.is_lucky else ""
        cells[standing.ours] = f"{bound}{standing.difference:+.3g}{chance}"
    told = (cells.get(accounting) for accounting in ACCOUNTINGS)
    return (claim.env, claim.ours, claim.theirs, *told, claim.verdict)
