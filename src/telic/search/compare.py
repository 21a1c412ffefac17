"""Put searches side by side, with tests; unequal terms are refused, and told why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np

from telic.core.config import Record
from telic.core.stats import (
    bootstrap,
    interquartile_mean,
    mann_whitney,
    probability_of_improvement,
    welch,
)
from telic.core.stats import holm as corrected
from telic.errors import ConfigError, Refused, UnknownName
from telic.report import document as doc
from telic.search.language_model import SCRIPTED
from telic.search.plan import BASELINE
from telic.search.records import SearchRunSummary
from telic.search.report import Curve, curve, draw_curves, line_chart
from telic.search.results import Result
from telic.search.tables import ResultTable, write_tables
from telic.storage.files import write_text

_RESAMPLES = 2000
_LINES = {
    "env": "env",
    "label": "method",
    "runs": "runs",
    "mean": "mean",
    "std": "std",
    "low": "95 % low",
    "high": "95 % high",
    "middle": "middle half",
}
_TESTS = {
    "one": "first",
    "other": "other",
    "difference": "difference",
    "low": "95 % low",
    "high": "95 % high",
    "welch_p": "Welch p",
    "holm_p": "Holm p",
    "mann_whitney_p": "Mann-Whitney p",
    "improvement": "chance to beat",
}
"""columns of the tables, by the field they show"""
METRICS = (
    *("fresh", "final", "mean", "mean_all", "better_of_two"),
    *("mean_selected", "best_seen", "incumbent_area"),
)
_OF_NOISY_MEANS = ("better_of_two", "mean_selected", "best_seen")
"""metrics that look better the fewer episodes a mean has"""


class Test(Record):
    """Two methods on one task."""

    __test__ = False  # not one for pytest

    one: str
    other: str
    difference: float
    """mean of one minus mean of the other"""
    low: float | None
    """lower end of the 95 % bootstrap interval of the difference"""
    high: float | None
    welch_p: float | None
    mann_whitney_p: float | None
    holm_p: float | None = None
    """the Welch p, corrected for the number of comparisons that were asked for"""
    improvement: float
    """chance that a run of one beats a run of the other; ties count half"""


def compare_pair(
    one: str, ones: Sequence[float], other: str, others: Sequence[float], seed: int = 0
) -> Test:
    """Return what can be said about two lists of results, one value per run."""
    a, b = np.asarray(ones, dtype=np.float64), np.asarray(others, dtype=np.float64)
    low = high = None
    if len(a) > 1 and len(b) > 1:
        rng = np.random.default_rng(seed)
        draws = [x[rng.integers(0, len(x), (_RESAMPLES, len(x)))].mean(1) for x in (a, b)]
        low, high = np.quantile(draws[0] - draws[1], [0.025, 0.975]).tolist()
    return Test(
        one=one,
        other=other,
        difference=float(a.mean() - b.mean()),
        low=low,
        high=high,
        welch_p=welch(a, b),
        mann_whitney_p=mann_whitney(a, b),
        improvement=probability_of_improvement(a, b),
    )


def holm(tests: Sequence[Test]) -> list[Test]:
    """Return the tests with Holm's correction over all that have a p."""
    adjusted = corrected([test.welch_p for test in tests])
    return [test.model_copy(update={"holm_p": p}) for test, p in zip(tests, adjusted, strict=True)]


class MethodLine(Record):
    """One method on one task."""

    env: str
    label: str
    model: str
    runs: int
    mean: float
    std: float | None
    middle: float | None
    """interquartile mean"""
    low: float | None
    """lower end of the 95 % bootstrap interval of the mean"""
    high: float | None
    values: tuple[float, ...]


class ComparisonReport(Record):
    """A comparison as data."""

    metric: str
    lines: tuple[MethodLine, ...]
    tests: tuple[Test, ...]
    differences: tuple[str, ...]
    """how the terms differ, where the comparison was wanted anyway"""
    notes: tuple[str, ...] = ()
    """what else differs and does not forbid the comparison"""


class SearchComparison(NamedTuple):
    """A comparison, its tables, and the searches behind it."""

    report: ComparisonReport
    tables: list[ResultTable]
    results: list[Result]


def compare_searches(
    results: Sequence[Result], metric: str = "fresh", *, despite_differences: bool = False
) -> SearchComparison:
    """Compare searches on each task they share; the first one named is tested against the others.

    Raises Refused when terms differ (task settings, budget, policy, ...) or a scripted model was
    used, which is for tests and says nothing about any method.
    """
    if metric not in METRICS:
        raise UnknownName("metric", metric, list(METRICS))
    if not results:
        raise ConfigError("There is nothing to compare.", hint="Name two or more searches.")
    differences = check_terms(results, metric, despite_differences=despite_differences)
    lines = [_line(result, metric) for result in results]
    tests: list[Test] = []
    for env in dict.fromkeys(line.env for line in lines):
        first, *others = [line for line in lines if line.env == env]
        tests += [
            compare_pair(f"{env}: {first.label}", first.values, other.label, other.values)
            for other in others
        ]
    report = ComparisonReport(
        metric=metric,
        lines=tuple(lines),
        tests=tuple(holm(tests)),
        differences=tuple(differences),
        notes=tuple(_notes(results)),
    )
    return SearchComparison(report, _tables(report, results), list(results))


def check_terms(
    results: Sequence[Result], metric: str = "fresh", *, despite_differences: bool = False
) -> list[str]:
    """Return how terms differ; raises Refused unless that is accepted.

    Terms that decide what a return is worth always count, others where the metric hangs on them.
    """
    scripted = [r.folder.name for r in results if r.summary.model.startswith(SCRIPTED)]
    if scripted:
        raise Refused(
            f"{', '.join(scripted)} used the scripted model, which is for tests only.",
            hint="Compare searches with a real model, or without any.",
        )
    differences = [
        f"{one.folder.name} and {other.folder.name}: {difference}"
        for one, other in _pairs(results)
        for difference in (
            *one.summary.protocol.differences(other.summary.protocol),
            *_of_the_metric(one, other, metric),
        )
    ]
    if differences and not despite_differences:
        raise Refused(
            "These searches were made under different terms, so their returns do not compare: "
            f"{'; '.join(differences)}.",
            hint="Run one of them again with the other's settings, or pass --anyway.",
        )
    return differences


def _pairs(results: Sequence[Result]) -> Iterator[tuple[Result, Result]]:
    for one, other in combinations(results, 2):
        if one.summary.env == other.summary.env:
            yield one, other


def _of_the_metric(one: Result, other: Result, metric: str) -> Iterator[str]:
    """Yield why a metric means different things in two searches."""
    plans = one.plan, other.plan
    if metric == "mean":
        reports = [plan.switches.report for plan in plans]
        if reports[0] != reports[1]:
            yield f"the headline counts {reports[0]} against {reports[1]}"
    if metric in _OF_NOISY_MEANS and plans[0].rollouts != plans[1].rollouts:
        yield f"means of {plans[0].rollouts} against {plans[1].rollouts} episodes"
    if metric == "mean_selected":
        among = [_selected_among(result) for result in (one, other)]
        if among[0] != among[1]:
            yield f"the best of {among[0]} candidates against the best of {among[1]}"


def _selected_among(result: Result) -> int:
    """Return how many candidates an iteration usually selects among."""
    counts = [len(each.candidates) for log in result.iterations.values() for each in log]
    return int(np.median(counts))


def _notes(results: Sequence[Result]) -> list[str]:
    """Return every other difference of protocol, so that a reader can judge it."""
    notes: list[str] = []
    for one, other in _pairs(results):
        mine, theirs = one.summary, other.summary
        found = [
            *mine.protocol.stated(theirs.protocol),
            *(
                f"{name}: {mine.versions.get(name)} against {theirs.versions.get(name)}"
                for name in sorted({*mine.versions, *theirs.versions})
                if mine.versions.get(name) != theirs.versions.get(name)
            ),
        ]
        if one.plan.config.seed != other.plan.config.seed:
            found.append(f"seed: {one.plan.config.seed} against {other.plan.config.seed}")
        if len(mine.runs) != len(theirs.runs):
            found.append(f"runs: {len(mine.runs)} against {len(theirs.runs)}")
        if mine.model != theirs.model:
            found.append(f"model: {mine.model} against {theirs.model}")
        notes += [f"{one.folder.name} and {other.folder.name}: {text}" for text in found]
    for result in results:
        if result.summary.method.startswith(BASELINE):
            notes.append(f"{result.folder.name}: evaluations come on top of the training budget")
        if len(result.summary.runs) < result.plan.config.runs:
            wanted = result.plan.config.runs
            notes.append(f"{result.folder.name}: {len(result.summary.runs)} of {wanted} runs ended")
    return notes


def write_comparison(comparison: SearchComparison, folder: Path) -> None:
    """Write tables in four forms, and a picture of curves per task."""
    write_tables(comparison.tables, folder, notes=comparison.report.notes)
    for env, kind, curves in _curves(comparison):
        write_text(folder / f"{env}-{kind}.svg", draw_curves(_curve_title(env, kind), curves))


def build_report(comparison: SearchComparison) -> doc.Report:
    """Return the document of a comparison: its tables, and how the searches progressed."""
    tables = tuple(table.shown() for table in comparison.tables)
    charts = tuple(
        doc.Figure(line_chart(_curve_title(env, kind), curves))
        for env, kind, curves in _curves(comparison)
    )
    told = tuple(
        doc.Text(note, "note")
        for note in (*comparison.report.differences, *comparison.report.notes)
    )
    sections = (doc.Section("Results", (*tables, *told)), doc.Section("Progress", charts))
    return doc.Report(f"Searches compared by {comparison.report.metric}", sections)


def _curves(comparison: SearchComparison) -> Iterator[tuple[str, str, dict[str, Curve]]]:
    """Yield task, kind of policy, and the curve of every search of that task."""
    for env in dict.fromkeys(result.summary.env for result in comparison.results):
        for kind in ("incumbent", "selected"):
            curves = {
                result.summary.label: curve(list(result.iterations.values()), kind)
                for result in comparison.results
                if result.summary.env == env
            }
            yield env, kind, curves


def _curve_title(env: str, kind: str) -> str:
    return f"{env}: {kind} policy, mean ± std over runs"


def value(run: SearchRunSummary, metric: str) -> float | None:
    """Return a run's number by the metric's name; None where it was not kept."""
    if metric in ("fresh", "final"):
        measured = run.fresh if metric == "fresh" else run.final
        return measured.mean if measured else None
    return getattr(run, metric)


def _values(result: Result, metric: str) -> list[float]:
    measured = [value(run, metric) for run in result.summary.runs]
    return [mean for mean in measured if mean is not None]


def _line(result: Result, metric: str) -> MethodLine:
    values = _values(result, metric)
    if not values:
        raise ConfigError(
            f"{result.folder.name} has no {metric} number.", hint="Compare by another metric."
        )
    interval = bootstrap(values)
    return MethodLine(
        env=result.summary.env,
        label=result.summary.label,
        model=result.summary.model,
        runs=len(values),
        mean=float(np.mean(values)),
        std=float(np.std(values, ddof=1)) if len(values) > 1 else None,
        middle=interquartile_mean(values),
        low=interval.low if interval else None,
        high=interval.high if interval else None,
        values=tuple(values),
    )


def _tables(report: ComparisonReport, results: Sequence[Result]) -> list[ResultTable]:
    warning = " (terms differ)" if report.differences else ""
    main = _table(f"{report.metric}, over runs{warning}", _LINES, report.lines)
    every = ResultTable(
        "all metrics, means over runs",
        ["env", "method", *METRICS, "episodes to good", "steps", "calls"],
        [_every(result) for result in results],
    )
    if not report.tests:
        return [main, every]
    title = f"{report.metric}: the first method against the others"
    return [main, every, _table(title, _TESTS, report.tests)]


def _table(title: str, columns: dict[str, str], records: Sequence[Record]) -> ResultTable:
    rows = [tuple(getattr(record, name) for name in columns) for record in records]
    return ResultTable(title, list(columns.values()), rows)


def _every(result: Result) -> tuple[object, ...]:
    runs = result.summary.runs
    values = [_values(result, metric) for metric in METRICS]
    means = [float(np.mean(runs_values)) if runs_values else None for runs_values in values]
    reached = [run.episodes_to_good for run in runs if run.episodes_to_good is not None]
    to_good = f"{np.mean(reached):.0f} in {len(reached)} of {len(runs)}" if reached else None
    steps, calls = (float(np.mean([getattr(r, name) for r in runs])) for name in ("steps", "calls"))
    return result.summary.env, result.summary.label, *means, to_good, steps, calls
