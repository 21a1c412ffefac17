"""Searches, environments, checks, benchmarks and plugins on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.markup import escape

from telic.cli.console import console, print_facts, print_rows
from telic.cli.output import view
from telic.core.text import duration, is_row, number

if TYPE_CHECKING:
    from telic.bench.intents import Benchmark
    from telic.bench.results import CaseGroup, Rate
    from telic.search.records import SearchSummary
    from telic.search.runner import Search
    from telic.search.suite import SearchSuite
    from telic.verbs.machine import (
        EnvList,
        EnvPage,
        JudgeBenchmark,
        MachineReport,
        PluginFiles,
        PluginProblems,
        QuantityList,
    )
    from telic.verbs.robots import RobotLine, RobotList, RobotPage, RobotSheet, RobotText
    from telic.verbs.search import (
        ComparisonResult,
        SearchMethods,
        SearchTasks,
    )
    from telic.web.site import SavedSite

_MARKS = {"ok": "[green]✓[/]", "note": "[yellow]•[/]", "bad": "[red]✗[/]"}


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
    console.print(f"map     telic report {search.path.name}")
    if summary.outcome == "stopped":
        console.print("[bold]stopped[/]; the same command goes on")


@view
def show_summary(summary: SearchSummary) -> None:
    """Print a line per run."""
    names = ["run", "fresh", "95 % interval", "all", "better of two", "best seen", "incumbent"]
    rows = [
        (
            str(run.run),
            run.fresh.mean,
            "–"
            if run.fresh.low is None
            else f"[{number(run.fresh.low)}, {number(run.fresh.high)}]",
            run.mean_all,
            run.better_of_two,
            run.best_seen,
            run.incumbent_area,
            run.episodes,
            run.calls,
            run.episodes_to_good,
        )
        for run in summary.runs
    ]
    title = f"{summary.env}: {summary.label}, {duration(summary.seconds)}"
    print_rows([*names, "episodes", "calls", "to good"], rows, title)


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
    print_rows(["env", "sees", "actions", "target", "steps at most"], rows, title="tasks")


@view
def show_methods(found: SearchMethods) -> None:
    """Print a line per method."""
    rows = [
        (name, ", ".join(f"{k}={_short(v)}" for k, v in values.items() if v != found.plain[k]))
        for name, values in found.methods.items()
    ]
    print_rows(["method", "switches that differ from the defaults"], rows, title="methods")


@view
def show_comparison(found: ComparisonResult) -> None:
    """Print the tables and the curves."""
    from telic.report.terminal import render_terminal
    from telic.search.compare import build_report

    console.print(render_terminal(build_report(found.comparison)))
    if found.out is not None:
        console.print(f"written to {found.out}")


@view
def show_suite(suite: SearchSuite) -> None:
    """Print the tables of a suite."""
    from telic.search.tables import cell

    for table in suite.tables:
        rows = [tuple(cell(value) for value in row) for row in table.rows]
        print_rows(table.columns, rows, title=table.title)
    console.print(f"folder  {suite.path}")
    if suite.results.outcome == "stopped":
        console.print("[bold]stopped[/]; the same command goes on")


def _short(value: Any) -> str:
    return "+".join(value) if is_row(value) else str(value)


@view
def show_envs(found: EnvList) -> None:
    """Print a line per environment."""
    rows = [
        (env.id, env.obs_dim, env.act_dim, env.max_episode_steps, env.description)
        for env in found.envs
        if found.every or env.fast
    ]
    columns = ["environment", "observed", "actions", "steps", "what it is"]
    print_rows(columns, rows)
    console.print(
        "\nDescribe one: telic envs Ant-v5. Also: any Gymnasium id (--all), module:Class, robot.xml"
    )


@view
def show_robots(found: RobotList) -> None:
    """Print a line per robot."""
    rows = [
        (
            *(each.robot, each.title, each.kind, each.mass_kg, each.joints, each.actuators),
            *(each.height_m, each.licence, each.package, "yes" if each.model else "no"),
        )
        for each in found.robots
    ]
    columns = ["robot", "what it is", "kind", "kg", "joints", "driven", "height m"]
    print_rows([*columns, "licence", "files from", "fetched"], rows)
    console.print(
        '\nUse one: telic run "walk forward" --env unitree-go1. Its files are '
        "fetched at the first use. See one: telic robots show spot"
    )


@view
def show_robot(robot: RobotLine) -> None:
    """Print what is known of one robot."""
    print_facts(robot._asdict())


@view
def show_robot_page(page: RobotPage) -> None:
    """Print what is known of one robot, and where its picture is."""
    facts = {key: value for key, value in page.facts.items() if value not in (None, (), {}, [])}
    licences = {"licence_files": page.licence_files} if page.licence_files else {}
    print_facts({**facts, "licence": page.licence, **licences, "simulated": page.simulated})
    console.print(f"\nPicture: {page.picture}", soft_wrap=True)


@view
def show_robot_sheet(drawn: RobotSheet) -> None:
    """Print where the sheet is."""
    console.print(f"{len(drawn.robots)} robots: {drawn.picture}", soft_wrap=True)


@view
def show_robot_file(text: RobotText) -> None:
    """Print the file as it is."""
    console.print(text.toml, markup=False, highlight=False, soft_wrap=True, end="")


@view
def show_env(page: EnvPage) -> None:
    """Print the page of an environment."""
    from telic.quantities.reference import environment_page

    console.print(environment_page(page.env), markup=False, soft_wrap=True)


@view
def show_quantities(found: QuantityList) -> None:
    """Print a line per quantity."""
    rows = [(x.name, x.unit, x.formula) for x in found.quantities]
    print_rows(["quantity", "unit", "formula"], rows)


@view
def show_machine(report: MachineReport) -> None:
    """Print a line per check, and how to mend what is missing."""
    for check in report.checks:
        what = f"{_MARKS[check.state]} [bold]{check.name}[/]: {check.message}"
        console.print(what, soft_wrap=True)
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
    report = benchmark.report
    rows: list[tuple[str | int, ...]] = []
    for pair in dict.fromkeys(example.pair for example in report.examples):
        own = [example for example in report.examples if example.pair == pair]
        wrong = [example.name for example in own if not example.agrees]
        rows.append((pair, own[0].env, len(own) - len(wrong), len(own), ", ".join(wrong)))
    print_rows(["pair", "robot", "right", "of", "wrong about"], rows)
    for example in (example for example in report.examples if not example.agrees):
        truth = "right" if example.is_right else "wrong"
        console.print(
            f"\n[yellow]{escape(example.pair)}[/]: {escape(example.name)} ({example.kind}) is "
            f"{truth}, yet scores {number(example.score, 2)}\n  [dim]{escape(example.why)}[/]",
            soft_wrap=True,
        )
    for name, why in report.refused.items():
        console.print(f"\n[blue]{escape(name)}[/] was refused: {escape(why)}", soft_wrap=True)
    console.print(f"\n[bold]{_rate(report.agreement)}[/] of the scores agree with the truth")
    console.print(f"right ones recognised: {_rate(report.recognised)}")
    console.print(f"wrong ones rejected: {_rate(report.rejected)}")
    console.print(f"bad habits that would pass: {len(report.habit_passes)}")
    console.print(f"scores that differ the second time: {len(report.not_repeated)}")
    console.print(f"all of it  {benchmark.output}")


@view
def show_benchmark(benchmark: Benchmark) -> None:
    """Print a line per case, then rates by difficulty, category and robot."""
    path, tally = benchmark
    rows = [
        (
            result.case.id,
            result.case.difficulty,
            result.outcome.replace("_", " "),
            result.score,
            result.low,
            result.iterations,
            result.env_steps,
            duration(result.seconds),
            result.reason or "",
        )
        for result in tally.results
    ]
    columns = ["case", "difficulty", "outcome", "score", "proves", "tries", "steps", "time", "why"]
    console.print()
    print_rows(columns, rows)
    _print_groups("difficulty", tally.by_difficulty)
    _print_groups("category", tally.by_category)
    _print_groups("robot", tally.by_env)
    console.print(f"\n[bold]{_rate(tally.overall)}[/] pass")
    if tally.median_seconds_to_pass is not None:
        console.print(
            f"a pass takes {duration(tally.median_seconds_to_pass)} and "
            f"{number(tally.median_steps_to_pass)} steps (median)"
        )
    cost = "an unknown amount" if tally.usd is None else f"${tally.usd:.2f}"
    console.print(f"all of it took {duration(tally.seconds)} and {cost} for models")
    if tally.waiting:
        console.print(f"not finished, the same command goes on: {', '.join(tally.waiting)}")
    console.print(f"page  {path / 'index.html'}")


def _print_groups(title: str, groups: tuple[CaseGroup, ...]) -> None:
    rows = [
        (
            group.name,
            f"{group.rate.passed} of {group.rate.total}",
            f"{group.rate.low:.0%} to {group.rate.high:.0%}",
            group.mean_score,
        )
        for group in groups
    ]
    console.print()
    print_rows([title, "passed", "95 % interval", "mean score"], rows)


def _rate(rate: Rate) -> str:
    if rate.share is None:
        return "0 of 0"
    return (
        f"{rate.passed} of {rate.total} ({rate.share:.0%}; {rate.low:.0%} to {rate.high:.0%} with "
        "95 % confidence)"
    )


@view
def show_site(site: SavedSite) -> None:
    """Print where the pages are, and what had no room."""
    episodes = f"{site.episodes}" + (f", {site.left_out} left out" if site.left_out else "")
    size = f"{site.files} files, {site.bytes / 1e6:.1f} MB"
    print_facts({"page": site.page, "size": size, "episodes": episodes})
