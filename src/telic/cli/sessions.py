"""telic sessions: what there is, what it is doing, and how well it did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from telic.cli.options import RUNS, AsJson, Debug, RunsDir
from telic.cli.output import command, console, number, print_json, table

if TYPE_CHECKING:
    from telic.storage.layout import SessionFolder


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("sessions")(command(sessions))


def sessions(
    limit: Annotated[int, typer.Option(help="Show this many, newest first.")] = 20,
    runs_dir: RunsDir = RUNS,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """List sessions: what was asked, what they are doing, how well they did."""
    from telic.storage.layout import list_sessions

    found = [_describe(each) for each in list_sessions(runs_dir)[:limit]]
    if as_json:
        print_json(found)
        return
    if not found:
        console.print(f'No sessions in {runs_dir}. Start one with: telic run "run forward fast"')
        return
    columns = ["session", "intent", "environment", "state", "iterations", "score"]
    rows = [
        (
            each["session"],
            each["intent"],
            each["env"],
            each["state"],
            each["iterations"],
            number(each["score"], 2),
        )
        for each in found
    ]
    console.print(table(None, columns, rows))


def _describe(folder: SessionFolder) -> dict[str, Any]:
    from telic.session.branching import origin_of
    from telic.session.find import state_of
    from telic.storage.files import read_json

    request = read_json(folder.config)
    judged = [
        read_json(folder.iteration(each).judgment)
        for each in folder.iterations()
        if folder.iteration(each).judgment.exists()
    ]
    scores = [each["score"] for each in judged if each["score"] is not None]
    origin = origin_of(folder)
    return {
        "session": folder.name,
        "path": str(folder.path),
        "intent": request["intent"],
        "env": request["env"],
        "state": state_of(folder),
        "iterations": len(judged),
        "score": max(scores, default=None),
        "origin": origin.model_dump() if origin else None,
    }
