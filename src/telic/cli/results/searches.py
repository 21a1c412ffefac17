"""Policy searches and their analyses on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.table import Table

from telic.cli.output import console, table, view
from telic.core.text import duration, number

if TYPE_CHECKING:
    from telic.search.analysis.labels import LabelReport
    from telic.search.api import Search
    from telic.search.records import SearchSummary
    from telic.verbs.search import (
        ComparisonResult,
        EditReports,
        SalienceReports,
        SearchMap,
        SearchMethods,
        SearchTasks,
    )


@view
def show_search(search: Search) -> None:
    """Print what a search came to."""
    summary = search.summary
    if not summary.runs:
        console.print("[bold]stopped[/]; the same command goes on")
        return
    show_summary(summary)
    console.print(f"\nbest    {list(search.best.best)}")
    console.print(f"folder  {search.path}")
    console.print(f"map     telic search page {search.path.name}")
    if summary.outcome == "stopped":
        console.print("[bold]stopped[/]; the same command goes on")


@view
def show_summary(summary: SearchSummary) -> None:
    """Print a line per run."""
    console.print(_runs_table(summary))


@view
def show_tasks(found: SearchTasks) -> None:
    """Print a line per task."""
    rows = [
        (
            task.id,
            f"{task.states} states" if task.is_table else f"{len(task.observations)} numbers",
            ", ".join(task.actions),
            number(task.target),
            task.time_limit,
        )
        for task in found.tasks
    ]
    console.print(table("tasks", ["env", "sees", "actions", "target", "steps at most"], rows))


@view
def show_methods(found: SearchMethods) -> None:
    """Print a line per method."""
    rows = [
        (name, ", ".join(f"{k}={_short(v)}" for k, v in values.items() if v != found.plain[k]))
        for name, values in found.methods.items()
    ]
    console.print(table("methods", ["method", "switches that differ from the defaults"], rows))


@view
def show_comparison(found: ComparisonResult) -> None:
    """Print the tables and the curves."""
    from telic.report.terminal import render_terminal
    from telic.search.analysis.compare import build_report

    console.print(render_terminal(build_report(found.comparison)))
    if found.out is not None:
        console.print(f"written to {found.out}")


@view
def show_map(made: SearchMap) -> None:
    """Print where the map is."""
    console.print(f"page    {made.page}")


@view
def show_salience(found: SalienceReports) -> None:
    """Print a table per search."""
    for report in found.reports:
        columns = ["group", "cases", "worst < median", "share"]
        console.print(table(report.title, columns, report.rows()))
        console.print(report.conclusion)


@view
def show_labels(report: LabelReport) -> None:
    """Print what moving the label did."""
    console.print(table(report.title, ["called the worst", "pairs", "regressed"], report.rows()))
    console.print(report.conclusion)


@view
def show_edits(found: EditReports) -> None:
    """Print a table per search."""
    for report in found.reports:
        columns = ["outcome", "pattern", "cases", "share"]
        console.print(table(report.title, columns, report.rows()))


def _short(value: Any) -> str:
    return "+".join(value) if isinstance(value, tuple | list) else str(value)


def _runs_table(summary: SearchSummary) -> Table:
    names = ["run", "fresh", "95 % interval", "all", "selected", "best seen", "incumbent"]
    columns = [*names, "episodes", "calls", "to good"]
    rows: list[tuple[Any, ...]] = []
    for run in summary.runs:
        low, high = run.fresh.low, run.fresh.high
        rows.append(
            (
                str(run.run),
                run.fresh.mean,
                "–" if low is None else f"[{number(low)}, {number(high)}]",
                run.mean_all,
                run.mean_selected,
                run.best_seen,
                run.incumbent_area,
                run.episodes,
                run.calls,
                run.episodes_to_good,
            )
        )
    return table(f"{summary.env}: {summary.label}, {duration(summary.seconds)}", columns, rows)
