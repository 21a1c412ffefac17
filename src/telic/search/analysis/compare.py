"""Put searches side by side, with tests; unequal terms are refused, and told why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from telic.search.analysis.figures import (
    Curve,
    ResultTable,
    curve,
    draw_curves,
    line_chart,
    write_tables,
)
from telic.search.answers import SCRIPTED
from telic.search.records import SearchRunSummary
from telic.search.results import Result
from telic.storage.files import write_text

_RESAMPLES = 2000
METRICS = ("fresh", "final", "mean", "mean_all", "mean_selected", "best_seen", "incumbent_area")


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
    differences = check_terms(results, despite_differences=despite_differences)
    lines = [_line(result, metric) for result in results]
    tests: list[Test] = []
    for env in dict.fromkeys(line.env for line in lines):
        first, *others = [line for line in lines if line.env == env]
        tests += [
            compare_pair(f"{env}: {first.label}", first.values, other.label, other.values)
            for other in others
        ]
    report = ComparisonReport(
        metric=metric, lines=tuple(lines), tests=tuple(holm(tests)), differences=tuple(differences)
    )
    return SearchComparison(report, _tables(report, results), list(results))


def check_terms(results: Sequence[Result], *, despite_differences: bool = False) -> list[str]:
    """Return how terms differ; raises Refused unless that is accepted."""
    scripted = [r.folder.name for r in results if r.summary.model.startswith(SCRIPTED)]
    if scripted:
        raise Refused(
            f"{', '.join(scripted)} used the scripted model, which is for tests only.",
            hint="Compare searches with a real model, or without any.",
        )
    found: list[str] = []
    for number, one in enumerate(results):
        for other in results[number + 1 :]:
            if one.summary.env == other.summary.env:
                between = one.summary.protocol.differences(other.summary.protocol)
                found += [f"{one.folder.name} and {other.folder.name}: {each}" for each in between]
    if found and not despite_differences:
        raise Refused(
            "These searches were made under different terms, so their returns do not compare: "
            + "; ".join(found)
            + ".",
            hint="Run one of them again with the other's settings, or pass --anyway.",
        )
    return found


def write_comparison(comparison: SearchComparison, folder: Path) -> None:
    """Write tables in four forms, and a picture of curves per task."""
    write_tables(comparison.tables, folder)
    for env, kind, curves in _curves(comparison):
        write_text(folder / f"{env}-{kind}.svg", draw_curves(_curve_title(env, kind), curves))


def build_report(comparison: SearchComparison) -> doc.Report:
    """Return the document of a comparison: its tables, and how the searches progressed."""
    tables = tuple(table.shown() for table in comparison.tables)
    charts = tuple(
        doc.Figure(line_chart(_curve_title(env, kind), curves))
        for env, kind, curves in _curves(comparison)
    )
    sections = (doc.Section("Results", tables), doc.Section("Progress", charts))
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
    found = [value(run, metric) for run in result.summary.runs]
    return [each for each in found if each is not None]


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
    main = ResultTable(
        f"{report.metric}, over runs" + (" (terms differ)" if report.differences else ""),
        ["env", "method", "runs", "mean", "std", "95 % low", "95 % high", "middle half"],
        [(e.env, e.label, e.runs, e.mean, e.std, e.low, e.high, e.middle) for e in report.lines],
    )
    every = ResultTable(
        "all metrics, means over runs",
        ["env", "method", *METRICS, "episodes to good", "steps", "calls"],
        [_every(result) for result in results],
    )
    tests = ResultTable(
        f"{report.metric}: the first method against the others",
        [
            "first",
            "other",
            "difference",
            "95 % low",
            "95 % high",
            "Welch p",
            "Holm p",
            "Mann-Whitney p",
            "chance to beat",
        ],
        [
            (
                t.one,
                t.other,
                t.difference,
                t.low,
                t.high,
                t.welch_p,
                t.holm_p,
                t.mann_whitney_p,
                t.improvement,
            )
            for t in report.tests
        ],
    )
    return [main, every, tests] if report.tests else [main, every]


def _every(result: Result) -> tuple[object, ...]:
    runs = result.summary.runs
    values = [_values(result, metric) for metric in METRICS]
    means = [float(np.mean(each)) if each else None for each in values]
    reached = [run.episodes_to_good for run in runs if run.episodes_to_good is not None]
    to_good = f"{np.mean(reached):.0f} in {len(reached)} of {len(runs)}" if reached else None
    steps, calls = (float(np.mean([getattr(r, name) for r in runs])) for name in ("steps", "calls"))
    return result.summary.env, result.summary.label, *means, to_good, steps, calls
