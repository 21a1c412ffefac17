"""telic search: find the few numbers of a small policy, with a language model or without."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from telic.cli.options import RUNS, AsJson, Debug, RunsDir, pairs
from telic.cli.output import command, console, duration, number, print_json, table
from telic.cli.progress import interruptible
from telic.errors import UsageError

if TYPE_CHECKING:
    from telic.search.api import Search

_EXAMPLES = """
[bold]Examples[/]

telic search --env CartPole-v1 --method cma --runs 10        no language model used

telic search --env CartPole-v1 --method r2po --model host    answer yourself: telic orders list

telic search --env Pong-v0 --method r2po --switch evidence=three_traces --model ollama:qwen3

telic search compare latest runs/search_2026...              tables and tests

Run the same command again to go on with an interrupted search.
"""
Names = Annotated[
    list[str], typer.Argument(help="Searches: ids, starts of ids, paths, or 'latest'.")
]
Name = Annotated[str, typer.Argument(help="Search: its id, the start of one, or 'latest'.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(
        help="Search for the numbers of a small policy.",
        invoke_without_command=True,
        epilog=_EXAMPLES,
        rich_markup_mode="rich",
    )
    group.callback(epilog=_EXAMPLES)(command(search))
    group.command("envs")(command(envs))
    group.command("methods")(command(methods))
    group.command("show")(command(show))
    group.command("compare")(command(compare))
    group.command("page")(command(page))
    group.command("salience")(command(salience))
    group.command("labels")(command(labels))
    group.command("edits")(command(edits))
    app.add_typer(group, name="search")


def search(
    context: typer.Context,
    env: Annotated[str | None, typer.Option(help="Task: see telic search envs.")] = None,
    method: Annotated[str, typer.Option(help="See telic search methods.")] = "r2po",
    switch: Annotated[
        list[str] | None, typer.Option(help="Change one choice of the method: name=value.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="provider:model, or host (work orders). None: no language model."),
    ] = None,
    runs: Annotated[int, typer.Option(min=1, help="Independent repetitions.")] = 1,
    episodes: Annotated[int, typer.Option(min=1, help="Episodes of the budget, per run.")] = 4000,
    fresh_episodes: Annotated[
        int, typer.Option(min=1, help="New episodes on which the best policy is measured.")
    ] = 200,
    policy: Annotated[
        str | None,
        typer.Option(help="linear, linear-without-bias, table, projected-mlp or random-features."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Root of all random numbers.")] = 0,
    faithful: Annotated[
        bool, typer.Option(help="Repeat the published accounting and its quirks.")
    ] = False,
    stop_when_solved: Annotated[
        bool,
        typer.Option(
            help="End a run when its best policy has proven good. Off, so that methods compare: "
            "compare refuses a search that may end early beside one that may not."
        ),
    ] = False,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; one per CPU.")] = None,
    max_calls: Annotated[int | None, typer.Option(help="Model calls at most.")] = None,
    budget_usd: Annotated[float | None, typer.Option(help="Dollars for the model at most.")] = None,
    fresh: Annotated[bool, typer.Option(help="Start anew instead of going on.")] = False,
    runs_dir: RunsDir = RUNS,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Search for the numbers of a small policy."""
    if context.invoked_subcommand is not None:
        return
    if env is None:
        raise UsageError("Which task?", hint="Name one with --env; see: telic search envs")
    from telic.cli.views import SearchView
    from telic.search.api import search as run_search

    with interruptible() as stop, SearchView(quiet=as_json) as view:
        found = run_search(
            env,
            method=method,
            runs_dir=runs_dir,
            jobs=jobs,
            fresh=fresh,
            on_event=view,
            should_stop=stop,
            switches=pairs(switch or [], "--switch"),
            model=model,
            runs=runs,
            episodes=episodes,
            fresh_episodes=fresh_episodes,
            policy=policy,
            seed=seed,
            faithful=faithful,
            stop_when_solved=stop_when_solved,
            max_calls=max_calls,
            max_usd=budget_usd,
        )
    if as_json:
        print_json({"path": str(found.path), **found.summary.model_dump(mode="json")})
    else:
        _tell(found)
    if found.summary.outcome != "completed":
        raise typer.Exit(1)


def envs(as_json: AsJson = False, debug: Debug = False) -> None:
    """List the tasks of policy search."""
    from telic.search.environments.catalogue import TASKS, find_task

    tasks = [find_task(name) for name in TASKS]
    if as_json:
        print_json([each.model_dump(mode="json") for each in tasks])
        return
    rows = [
        (
            t.id,
            f"{t.states} states" if t.is_table else f"{len(t.observations)} numbers",
            ", ".join(t.actions),
            number(t.target),
            t.time_limit,
        )
        for t in tasks
    ]
    console.print(table("tasks", ["env", "sees", "actions", "target", "steps at most"], rows))


def methods(
    faithful: Annotated[bool, typer.Option(help="As the published runs had them.")] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """List the methods, as the switches they stand for."""
    from telic.search.methods import Switches, method_names, switches_of

    found = {name: switches_of(name, is_faithful=faithful).model_dump() for name in method_names()}
    if as_json:
        print_json(found)
        return
    plain = Switches().model_dump()
    rows = [
        (name, ", ".join(f"{k}={_short(v)}" for k, v in values.items() if v != plain[k]))
        for name, values in found.items()
    ]
    console.print(table("methods", ["method", "switches that differ from the defaults"], rows))


def show(
    name: Name = "latest", runs_dir: RunsDir = RUNS, as_json: AsJson = False, debug: Debug = False
) -> None:
    """Show what a search came to."""
    from telic.search.results import load

    result = load(runs_dir, name)
    if as_json:
        print_json(result.summary.model_dump(mode="json"))
    else:
        console.print(_runs_table(result.summary.model_dump(mode="json")))


def compare(
    names: Names,
    metric: Annotated[
        str,
        typer.Option(
            help="fresh, final, mean, mean_all, mean_selected, best_seen or incumbent_area."
        ),
    ] = "fresh",
    out: Annotated[
        Path | None, typer.Option(help="Folder for table.md, .csv, .tex, .png and curves.svg.")
    ] = None,
    anyway: Annotated[
        bool, typer.Option(help="Compare although the terms differ; the table says so.")
    ] = False,
    runs_dir: RunsDir = RUNS,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Compare searches: means with intervals, curves, tests; refuses unequal terms."""
    from telic.search.analysis.compare import compare_searches, write_comparison
    from telic.search.results import load

    comparison = compare_searches(
        [load(runs_dir, name) for name in names], metric, despite_differences=anyway
    )
    if out is not None:
        write_comparison(comparison, out)
    if as_json:
        print_json(comparison.report.model_dump(mode="json"))
        return
    for each in comparison.tables:
        console.print(table(each.title, each.columns, each.rows))
        console.print()
    if out is not None:
        console.print(f"written to {out}")


def page(
    name: Name = "latest",
    out: Annotated[Path | None, typer.Option(help="HTML file to write.")] = None,
    runs_dir: RunsDir = RUNS,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Write the map of tried policies: score, explanation and animation of each, as one file."""
    from telic.search.page import write_page
    from telic.search.results import load

    path = write_page(load(runs_dir, name), out)
    if as_json:
        print_json({"page": str(path)})
    else:
        console.print(f"page    {path}")


def salience(
    names: Names, runs_dir: RunsDir = RUNS, as_json: AsJson = False, debug: Debug = False
) -> None:
    """Ask whether revisions chase the worst episode: regressions against improvements."""
    from telic.search.analysis.revisions import salience_report
    from telic.search.results import load

    reports = [salience_report(load(runs_dir, name)) for name in names]
    if as_json:
        print_json([each.model_dump(mode="json") for each in reports])
        return
    for each in reports:
        console.print(table(each.title, ["group", "cases", "worst < median", "share"], each.rows()))
        console.print(each.conclusion)


def labels(
    model: Annotated[str, typer.Option(help="provider:model, or host (work orders).")],
    name: Name = "latest",
    cases: Annotated[int, typer.Option(min=1, help="Policies; two questions about each.")] = 20,
    budget_usd: Annotated[float | None, typer.Option(help="Dollars for the model at most.")] = None,
    runs_dir: RunsDir = RUNS,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Ask a model whether the word "worst" makes it chase an episode: the label is moved."""
    from telic.cli.views import SearchView
    from telic.llm import Budget
    from telic.search.analysis.labels import label_report
    from telic.search.answers import connect_model
    from telic.search.results import load

    result = load(runs_dir, name)
    with interruptible() as stop, SearchView(quiet=as_json) as view:
        models = connect_model(
            model,
            result.folder.path,
            budget=Budget(usd=budget_usd),
            on_event=view,
            should_stop=stop,
        )
        report = label_report(result, models, cases)
    if as_json:
        print_json(report.model_dump(mode="json"))
        return
    console.print(table(report.title, ["called the worst", "pairs", "regressed"], report.rows()))
    console.print(report.conclusion)


def edits(
    names: Names, runs_dir: RunsDir = RUNS, as_json: AsJson = False, debug: Debug = False
) -> None:
    """Sort revisions by how much they changed and what came of it."""
    from telic.search.analysis.revisions import edit_report
    from telic.search.results import load

    reports = [edit_report(load(runs_dir, name)) for name in names]
    if as_json:
        print_json([each.model_dump(mode="json") for each in reports])
        return
    for each in reports:
        console.print(table(each.title, ["outcome", "pattern", "cases", "share"], each.rows()))


def _short(value: Any) -> str:
    return "+".join(value) if isinstance(value, tuple | list) else str(value)


def _tell(found: Search) -> None:
    summary = found.summary
    if not summary.runs:
        console.print("[bold]stopped[/]; the same command goes on")
        return
    console.print(_runs_table(summary.model_dump(mode="json")))
    best = found.best
    console.print(f"\nbest    {list(best.best)}")
    console.print(f"folder  {found.path}")
    console.print(f"map     telic search page {found.path.name}")
    if summary.outcome == "stopped":
        console.print("[bold]stopped[/]; the same command goes on")


def _runs_table(summary: dict[str, Any]) -> Any:
    columns = [
        "run",
        "fresh",
        "95 % interval",
        "all",
        "selected",
        "best seen",
        "incumbent",
        "episodes",
        "calls",
        "to good",
    ]
    rows = []
    for run in summary["runs"]:
        fresh = run["fresh"]
        low, high = fresh["low"], fresh["high"]
        spread = "–" if low is None else f"[{number(low)}, {number(high)}]"
        rows.append(
            (
                str(run["run"]),
                fresh["mean"],
                spread,
                run["mean_all"],
                run["mean_selected"],
                run["best_seen"],
                run["incumbent_area"],
                run["episodes"],
                run["calls"],
                run["episodes_to_good"],
            )
        )
    title = f"{summary['env']}: {summary['label']}, {duration(summary['seconds'])}"
    return table(title, columns, rows)
