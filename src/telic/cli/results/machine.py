"""Environments, quantities, checks, benchmarks and plugins on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape

from telic.cli.output import console, table, view
from telic.core.text import duration, number

if TYPE_CHECKING:
    from telic.bench.intents import Benchmark
    from telic.bench.results import CaseGroup, Rate
    from telic.verbs.bench import JudgeBenchmark
    from telic.verbs.machine import (
        EnvList,
        EnvPage,
        MachineReport,
        PluginFiles,
        PluginProblems,
        QuantityList,
    )

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
