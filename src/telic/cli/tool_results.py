"""Searches, environments, checks, benchmarks and plugins on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from telic.cli.output import console, table, view
from telic.core.text import duration, number

if TYPE_CHECKING:
    from telic.bench.intents import Benchmark
    from telic.bench.results import CaseGroup, Rate
    from telic.search.labels import LabelReport
    from telic.search.records import SearchSummary
    from telic.search.runner import Search
    from telic.verbs.machine import (
        EnvList,
        EnvPage,
        JudgeBenchmark,
        MachineReport,
        PluginFiles,
        PluginProblems,
        QuantityList,
    )
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
    from telic.search.compare import build_report

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


_MARKS = {"ok": "[green]✓[/]", "note": "[yellow]•[/]", "bad": "[red]✗[/]"}


@view
def show_envs(found: EnvList) -> None:
    """Print a line per environment."""
    rows = [
        (each.id, each.obs_dim, each.act_dim, each.max_episode_steps, each.description)
        for each in found.envs
        if found.every or each.fast
    ]
    columns = ["environment", "observed", "actions", "steps", "what it is"]
    console.print(table(None, columns, rows))
    console.print(
        "\nDescribe one: telic envs Ant-v5. Also: any Gymnasium id (--all), module:Class, robot.xml"
    )


@view
def show_env(page: EnvPage) -> None:
    """Print the page of an environment."""
    from telic.quantities.reference import environment_page

    console.print(environment_page(page.env), markup=False, soft_wrap=True)


@view
def show_quantities(found: QuantityList) -> None:
    """Print a line per quantity."""
    rows = [(each.name, each.unit, each.formula) for each in found.quantities]
    console.print(table(None, ["quantity", "unit", "formula"], rows))


@view
def show_machine(report: MachineReport) -> None:
    """Print a line per check, and how to mend what is missing."""
    for check in report.checks:
        mark = _MARKS[check.state]
        console.print(f"{mark} [bold]{check.name}[/]: {check.message}", soft_wrap=True)
        if check.fix:
            console.print(f"    {check.fix}", soft_wrap=True)


@view
def show_plugin(files: PluginFiles) -> None:
    """Print what changed."""
    for name in files.changed:
        console.print(name)
    console.print(f"[green]✓[/] {len(files.changed)} files changed in {files.plugin}")


@view
def show_problems(found: PluginProblems) -> None:
    """Print what is wrong."""
    for problem in found.problems:
        console.print(f"[red]✗[/] {problem}", markup=True, soft_wrap=True)
    if found.ok:
        console.print("[green]✓[/] the package is sound")


@view
def show_judges(benchmark: JudgeBenchmark) -> None:
    """Print where judges are right and wrong."""
    report, output = benchmark
    rows: list[tuple[str | int, ...]] = []
    for pair in dict.fromkeys(each.pair for each in report.examples):
        own = [each for each in report.examples if each.pair == pair]
        wrong = [each.name for each in own if not each.agrees]
        rows.append(
            (pair, own[0].env, sum(each.agrees for each in own), len(own), ", ".join(wrong))
        )
    console.print(table(None, ["pair", "robot", "right", "of", "wrong about"], rows))
    for each in report.examples:
        if not each.agrees:
            what = "is wrong, yet scores" if not each.is_right else "is right, yet scores"
            console.print(
                f"\n[yellow]{escape(each.pair)}[/]: {escape(each.name)} ({each.kind}) {what} "
                f"{number(each.score, 2)}\n  [dim]{escape(each.why)}[/]",
                soft_wrap=True,
            )
    for name, why in report.refused.items():
        console.print(f"\n[blue]{escape(name)}[/] was refused: {escape(why)}", soft_wrap=True)
    console.print(f"\n[bold]{_rate(report.agreement)}[/] of the scores agree with the truth")
    console.print(f"right ones recognised: {_rate(report.recognised)}")
    console.print(f"wrong ones rejected: {_rate(report.rejected)}")
    console.print(f"bad habits that would pass: {len(report.habit_passes)}")
    console.print(f"scores that differ the second time: {len(report.not_repeated)}")
    console.print(f"all of it  {output}")


@view
def show_benchmark(benchmark: Benchmark) -> None:
    """Print a line per case, then rates by difficulty, category and robot."""
    path, found = benchmark
    rows = [
        (
            each.case.id,
            each.case.difficulty,
            each.outcome.replace("_", " "),
            each.score,
            each.low,
            each.iterations,
            each.env_steps,
            duration(each.seconds),
            each.reason or "",
        )
        for each in found.results
    ]
    columns = ["case", "difficulty", "outcome", "score", "proves", "tries", "steps", "time", "why"]
    console.print()
    console.print(table(None, columns, rows))
    for title, groups in (
        ("difficulty", found.by_difficulty),
        ("category", found.by_category),
        ("robot", found.by_env),
    ):
        console.print()
        console.print(table(None, [title, "passed", "95 % interval", "mean score"], _rows(groups)))
    console.print(f"\n[bold]{_rate(found.overall)}[/] pass")
    if found.median_seconds_to_pass is not None:
        console.print(
            f"a pass takes {duration(found.median_seconds_to_pass)} and "
            f"{number(found.median_steps_to_pass)} steps (median)"
        )
    cost = "an unknown amount" if found.usd is None else f"${found.usd:.2f}"
    console.print(f"all of it took {duration(found.seconds)} and {cost} for models")
    if found.waiting:
        console.print(f"not finished, the same command goes on: {', '.join(found.waiting)}")
    console.print(f"page  {path / 'index.html'}")


def _rows(groups: tuple[CaseGroup, ...]) -> list[tuple[str, str, str, float | None]]:
    return [
        (
            each.name,
            f"{each.rate.passed} of {each.rate.total}",
            f"{each.rate.low:.0%} to {each.rate.high:.0%}",
            each.mean_score,
        )
        for each in groups
    ]


def _rate(rate: Rate) -> str:
    if rate.share is None:
        return "0 of 0"
    return (
        f"{rate.passed} of {rate.total} ({rate.share:.0%}; {rate.low:.0%} to {rate.high:.0%} with "
        "95 % confidence)"
    )
