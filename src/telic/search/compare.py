"""Put searches side by side, with tests; unequal terms are refused, and told why."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

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
from telic.core.text import number
from telic.errors import ConfigError, Refused, UnknownName
from telic.report import document as doc
from telic.report.markdown import render_block
from telic.search.language_model import SCRIPTED
from telic.search.records import SearchRunSummary
from telic.search.report import Curve, curve, draw_curves, line_chart
from telic.search.results import Result
from telic.storage.files import write_text

_RESAMPLES = 2000
_LINE, _PAD, _EDGE = 26, 18, 16  # pixels of a table's picture
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
    differences: list[str] = []
    for one, other in combinations(results, 2):
        if one.summary.env == other.summary.env:
            names = f"{one.folder.name} and {other.folder.name}"
            between = one.summary.protocol.differences(other.summary.protocol)
            differences += [f"{names}: {difference}" for difference in between]
    if differences and not despite_differences:
        raise Refused(
            "These searches were made under different terms, so their returns do not compare: "
            f"{'; '.join(differences)}.",
            hint="Run one of them again with the other's settings, or pass --anyway.",
        )
    return differences


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


class ResultTable(NamedTuple):
    """A title, names of columns, and rows of numbers and words."""

    title: str
    columns: list[str]
    rows: list[tuple[Any, ...]]

    def shown(self) -> doc.Table:
        """Return it as people see it, with few digits."""
        rows = [[cell(value) for value in row] for row in self.rows]
        return doc.Table(self.columns, rows, self.title)


def cell(value: Any) -> str:
    """Write a number for people; words stay as they are."""
    return value if isinstance(value, str) else number(value)


def markdown(table: ResultTable) -> str:
    """Return the table as Markdown."""
    return render_block(table.shown()) + "\n"


def comma_separated(table: ResultTable) -> str:
    """Return the table as CSV, with all digits; a missing number is empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows(["" if value is None else value for value in row] for row in table.rows)
    return out.getvalue()


def latex(table: ResultTable) -> str:
    """Return the table as LaTeX, for the package booktabs."""
    body = [" & ".join(_escaped(cell(value)) for value in row) + r" \\" for row in table.rows]
    return "\n".join(
        [
            r"\begin{table}",
            rf"\caption{{{_escaped(table.title)}}}",
            rf"\begin{{tabular}}{{{'l' * len(table.columns)}}}",
            r"\toprule",
            " & ".join(map(_escaped, table.columns)) + r" \\",
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def table_picture(table: ResultTable) -> np.ndarray:
    """Return the table as an (H, W, 3) uint8 picture."""
    from telic.rendering.media import draw_text, text_width

    words = [table.columns, *([cell(value) for value in row] for row in table.rows)]
    words = [[_ascii(word) for word in row] for row in words]
    widths = [max(text_width(row[i]) for row in words) + _PAD for i in range(len(table.columns))]
    title = _ascii(table.title)
    width = max(sum(widths), text_width(title)) + 2 * _EDGE
    height = (len(words) + 1) * _LINE + 2 * _EDGE
    # Ink is light, so draw on black and turn the picture over.
    dark = np.zeros((height, width, 3), np.uint8)
    draw_text(dark, title, _EDGE, _EDGE)
    for line, row in enumerate(words, 1):
        left = _EDGE
        for text, room in zip(row, widths, strict=True):
            if text:
                draw_text(dark, text, left, _EDGE + line * _LINE)
            left += room
    below = _EDGE + 2 * _LINE - 4
    dark[below, _EDGE : width - _EDGE] = 120
    return 255 - dark


def write_tables(tables: Sequence[ResultTable], folder: Path, name: str = "table") -> None:
    """Write tables in all four forms."""
    from telic.rendering.media import write_png

    write_text(folder / f"{name}.md", "\n".join(map(markdown, tables)))
    write_text(folder / f"{name}.tex", "\n".join(map(latex, tables)))
    for index, table in enumerate(tables, 1):
        which = name if index == 1 else f"{name}-{index}"
        write_text(folder / f"{which}.csv", comma_separated(table))
        write_png(folder / f"{which}.png", table_picture(table))


def _escaped(text: str) -> str:
    for sign in "&%$#_{}":
        text = text.replace(sign, "\\" + sign)
    return text.replace("±", r"$\pm$").replace("–", "--")


def _ascii(text: str) -> str:
    return text.replace("±", "+-").replace("–", "-").encode("ascii", "replace").decode()
