"""telic show: a run in one readable page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from telic.cli.options import RUNS, AsJson, Debug, MemberName, RunName, RunsDir
from telic.cli.output import (
    command,
    console,
    duration,
    number,
    print_facts,
    print_json,
    sparkline,
    table,
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("show")(command(show))


def show(
    run: RunName = "latest",
    member: MemberName = None,
    command_line: Annotated[
        bool, typer.Option("--command", help="Print only the command that made this run.")
    ] = False,
    runs_dir: RunsDir = RUNS,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Show what a run trained, how well, what looks wrong, and where its files are."""
    from telic.storage.files import read_json
    from telic.storage.layout import find_run
    from telic.training.run import describe

    folder = find_run(runs_dir, run)
    if command_line:
        typer.echo(read_json(folder.manifest).get("command") or "")
        return
    facts = describe(folder)
    members = [_member(each) for each in folder.members() if member in (None, each.name)]
    if as_json:
        print_json(
            {**facts, "members": [{k: v for k, v in m.items() if k != "curve"} for m in members]}
        )
        return
    print_facts(
        {
            "run": folder.path,
            "environment": facts["env"],
            "state": facts["status"],
            "steps": f"{facts['total_timesteps']:,}" if facts["total_timesteps"] else None,
            "time": duration(facts["training_time_s"]),
            "error": facts["error"],
        }
    )
    for each in members:
        _print_member(each, single=len(members) == 1 or member is not None)
    if len(members) > 1 and member is None:
        _print_comparison(members)


def _member(folder: Any) -> dict[str, Any]:
    from telic.storage.files import read_json
    from telic.storage.scalars import read_columns, read_rows

    columns = read_columns(folder.scalars, ["episodic_return"], kind="train")
    return {
        "member": folder.name,
        "path": str(folder.path),
        "summary": read_json(folder.summary) if folder.summary.exists() else None,
        "reward": read_json(folder.reward_spec) if folder.reward_spec.exists() else None,
        "evaluations": read_rows(folder.scalars, "eval"),
        "curve": columns["episodic_return"],
        "videos": [str(each.path) for each in folder.videos()],
        "checkpoints": [str(each.path) for each in folder.checkpoints()],
    }


def _print_member(member: dict[str, Any], single: bool) -> None:
    console.print(f"\n[bold]{escape(member['member'])}[/]  {sparkline(member['curve'])}")
    if not single:
        return
    rows = [
        (
            each["global_step"],
            each["mean_return"],
            _interval(each["interval"]),
            each["p10_return"],
            each["median_return"],
            each["p90_return"],
            each["episode_length"],
        )
        for each in member["evaluations"]
    ]
    columns = ["steps", "return", "95 % interval", "p10", "median", "p90", "length"]
    console.print(table(None, columns, rows))
    reward = member["reward"]
    if reward and reward.get("latex"):
        console.print(f"\nreward: {escape(reward['latex'])}")
    for term in (reward or {}).get("terms", []):
        console.print(f"  {escape(term['name'])}: {escape(term.get('description') or '')}")
    for finding in (member["summary"] or {}).get("findings", []):
        console.print(f"[yellow]![/] {escape(finding['message'])}")
    print_facts({"files": member["path"], "videos": ", ".join(member["videos"]) or None})


def _print_comparison(members: list[dict[str, Any]]) -> None:
    rows = []
    for each in members:
        best = (each["summary"] or {}).get("best") or {}
        rows.append(
            (
                each["member"],
                best.get("mean_return"),
                _interval(best.get("interval")),
                best.get("env_return"),
                best.get("episode_length"),
                best.get("global_step"),
            )
        )
    console.print()
    columns = ["member", "return", "95 % interval", "task return", "length", "at step"]
    console.print(table(None, columns, rows))


def _interval(interval: list[float] | None) -> str:
    return f"{number(interval[0])} … {number(interval[1])}" if interval else "–"


def best_facts(path: Path) -> dict[str, Any]:
    """Return what to say about the best member of a run."""
    from telic.storage.files import read_json
    from telic.storage.layout import RunFolder
    from telic.training.run import best_member

    run = RunFolder(path)
    folder = best_member(run)
    if folder is None or not folder.summary.exists():
        return {}
    best = read_json(folder.summary)["best"]
    if best is None:
        return {"best": folder.name}
    spread = _interval(best["interval"])
    return {
        "best": folder.name if len(run.members()) > 1 else None,
        "return": f"{number(best['mean_return'])} (95 % interval {spread}, {best['episodes']} "
        f"fresh episodes, at {best['global_step']:,} steps)",
        "episode length": number(best["episode_length"]),
    }
