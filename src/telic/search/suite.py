"""Tasks x methods x seeds in one folder, and one table of them beside what others published.

runs/suite_<time>_<hex>/
    suite.json                what is compared, and the tests, written before the first episode
    search_<time>_<hex>/      a search per row
    results.json table.*      what it came to
    lock

A row that is done is not done again, and a search goes on where it was cut off, so the same command
goes on with a suite that was killed anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from telic.core.events import Listener, ignore
from telic.errors import ConfigError, TelicError
from telic.search.accounting import ACCOUNTINGS, Accounting, counted, published
from telic.search.plan import BASELINE, make_plan
from telic.search.records import SearchConfig, SearchFolder, SearchSummary, list_searches
from telic.search.run import SearchRun
from telic.search.runner import run_search
from telic.search.suite_results import (
    RowResult,
    SuiteConfig,
    SuitePlan,
    SuiteResults,
    SuiteRow,
    leading_rows,
    put_together,
    suite_tables,
    tested_rows,
    title_of,
)
from telic.search.tables import ResultTable, write_tables
from telic.search.worlds import find_task
from telic.storage.files import read_record, write_json
from telic.storage.layout import Below, holders_of, new_name
from telic.storage.locks import RunLock, lock_holder

_PLENTY = 10**6


@dataclass(frozen=True, slots=True)
class SuiteFolder:
    """The files of one suite."""

    path: Path

    plan = Below("suite.json")
    """rows and tests"""
    results = Below("results.json")
    """what it came to"""
    lock = Below("lock")
    """held by the process that works on it"""


class SearchSuite(NamedTuple):
    """A suite that was done, or stopped."""

    path: Path
    results: SuiteResults
    tables: list[ResultTable]

    def as_data(self) -> dict[str, object]:
        """Return the result as plain data."""
        return {"path": str(self.path), **self.results.model_dump(mode="json")}


def plan_suite(config: SuiteConfig) -> SuitePlan:
    """Return the rows and tests of a suite; raises UsageError for what does not exist."""
    rows: list[SuiteRow] = []
    left_out: list[str] = []
    for env in config.envs:
        is_table = find_task(env).is_table
        for terms in config.terms:
            if terms == "raw" and is_table:
                left_out.append(f"{env}: a state has no raw observation beside its number")
                continue
            for method in config.methods:
                row = SuiteRow(env=env, method=method, terms=terms)
                if why := _misfit(row, config):
                    left_out.append(f"{env}: {why}")
                    continue
                _require_room(row, config)
                rows.append(row)
                if terms != "own":
                    break  # whoever stands for us there is enough
                if method.startswith(BASELINE) and config.equal_steps:
                    rows.append(row.model_copy(update={"has_equal_steps": True}))
    if not rows:
        raise ConfigError(
            f"No method applies to any task: {'; '.join(dict.fromkeys(left_out))}",
            hint="See telic search methods and telic search envs.",
        )
    _check_equal_steps(rows)
    return SuitePlan(
        config=config,
        rows=tuple(rows),
        left_out=tuple(dict.fromkeys(left_out)),
        tests=tuple(_declared(rows)),
    )


def _misfit(row: SuiteRow, config: SuiteConfig) -> str | None:
    """Return why a method does not apply to a task; raises UnknownName for one that is none."""
    try:
        plan = make_plan(row.request(config).replace(episodes=_PLENTY))
        if row.method.startswith(BASELINE):
            from telic.search.baselines import find_algorithm

            find_algorithm(row.method, plan.task)
    except ConfigError as error:
        return str(error)
    return None


def _require_room(row: SuiteRow, config: SuiteConfig) -> None:
    """Raise ConfigError when the budget is too small for a row."""
    plan = make_plan(row.request(config))
    if not row.method.startswith(BASELINE):
        SearchRun(plan, 1, None).require_room()


def _check_equal_steps(rows: Sequence[SuiteRow]) -> None:
    """Refuse equal steps where there is nothing to be equal to."""
    first = {row.env: row for row in reversed(rows)}
    for row in rows:
        if row.has_equal_steps and first[row.env].method.startswith(BASELINE):
            raise ConfigError(
                f"On {row.env} no search comes before {row.method}, so there are no steps to be "
                "equal to.",
                hint="Name a method that applies there first, e.g. --method cma --method tabular.",
            )


def _declared(rows: Sequence[SuiteRow]) -> Iterator[str]:
    how = "Welch's t-test, two-sided, Holm's correction over all of its kind"
    for one, other in tested_rows(rows):
        yield f"{one.env}: fresh of {title_of(one)} against {title_of(other)}; {how}"
    for (env, terms), row in leading_rows(rows).items():
        for method in published(env):
            yield f"{env}: {row.name} ({terms}) against published {method}, every accounting; {how}"


def run_suite(
    config: SuiteConfig,
    runs_dir: Path,
    *,
    jobs: int | None = None,
    on_event: Listener = ignore,
    should_stop: Callable[[], bool] = lambda: False,
) -> SearchSuite:
    """Do what is left of a suite and put it into tables.

    Raises:
        TelicError: with what happened, why, and what to do.
    """
    plan = plan_suite(config)
    folder = _unfinished(plan, runs_dir) or SuiteFolder(runs_dir / new_name("suite"))
    done: list[RowResult] = []
    with RunLock(folder.lock, folder.path.name):
        if not folder.plan.exists():
            write_json(folder.plan, plan)
        for row in plan.rows:
            if should_stop():
                break
            steps = _steps_of(done, row.env) if row.has_equal_steps else None
            request = row.request(config, steps)
            search = _finished(folder, request)
            if search is None:
                found = run_search(
                    request, folder.path, jobs=jobs, on_event=on_event, should_stop=should_stop
                )
                if found.summary.outcome != "completed":
                    break
                search = SearchFolder(found.path)
            done.append(_result(row, search))
        results = put_together(plan, done)
        write_json(folder.results, results)
        tables = suite_tables(results)
        write_tables(tables, folder.path, notes=plan.left_out)
    return SearchSuite(folder.path, results, tables)


def _unfinished(plan: SuitePlan, runs_dir: Path) -> SuiteFolder | None:
    """Return the latest suite of exactly this plan that nobody works on, finished or not."""
    for path in holders_of("suite.json", runs_dir):
        folder = SuiteFolder(path)
        try:
            is_same = read_record(folder.plan, SuitePlan) == plan
        except TelicError:  # a damaged folder is nothing to go on with
            continue
        if is_same and lock_holder(folder.lock) is None:
            return folder
    return None


def _finished(folder: SuiteFolder, request: SearchConfig) -> SearchFolder | None:
    """Return the search of exactly this request, if it came to its end."""
    for search in list_searches(folder.path):
        if search.summary.exists() and read_record(search.config, SearchConfig) == request:
            summary = read_record(search.summary, SearchSummary)
            if summary.outcome == "completed" and len(summary.runs) == request.runs:
                return search
    return None


def _steps_of(done: Sequence[RowResult], env: str) -> int:
    return round(next(each.steps for each in done if each.row.env == env))


def _result(row: SuiteRow, search: SearchFolder) -> RowResult:
    summary = read_record(search.summary, SearchSummary)
    values: dict[Accounting, tuple[float, ...]] = {}
    for accounting in ACCOUNTINGS:
        numbers = [counted(run, accounting) for run in summary.runs]
        values[accounting] = tuple(number for number in numbers if number is not None)
    return RowResult(
        row=row,
        search=search.name,
        label=summary.label,
        episodes_per_candidate=summary.protocol.rollouts,
        steps=float(np.mean([run.steps for run in summary.runs])),
        values=values,
    )
