"""telic runs: what there is, and going on with one."""

from __future__ import annotations

import shlex
import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from telic.cli.options import RUNS, AsJson, Debug, RunsDir
from telic.cli.output import command, console, duration, print_json, show, table
from telic.errors import UsageError

if TYPE_CHECKING:
    from telic.storage.layout import RunFolder


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("runs")(command(runs))


def runs(
    limit: Annotated[int, typer.Option(help="Show this many, newest first.")] = 20,
    runs_dir: RunsDir = RUNS,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """List runs with their state and best result."""
    from telic.storage.layout import list_runs
    from telic.training.run import describe

    found = [describe(each) for each in list_runs(runs_dir)[:limit]]
    if as_json:
        print_json(found)
        return
    if not found:
        console.print(f"No runs in {runs_dir}. Make one with: telic train HalfCheetah-v5")
        return
    rows = [
        (
            each["run"],
            each["env"],
            each["status"],
            each["members"],
            each["total_timesteps"],
            each["best_return"],
            duration(time.time() - each["updated"]) + " ago",
        )
        for each in found
    ]
    columns = ["run", "environment", "state", "members", "steps", "best return", "active"]
    console.print(table(None, columns, rows))


def resume_run(folder: RunFolder, videos: str, as_json: bool) -> None:
    """Go on with an interrupted run, exactly where it was saved."""
    from telic.cli.progress import interruptible
    from telic.cli.views import TrainingView
    from telic.storage.files import read_record
    from telic.training.job import TrainJob
    from telic.training.run import execute, is_resumable, status_of
    from telic.training.videos import render_run

    if status_of(folder) == "completed":
        raise UsageError(f"{folder.name} is complete; there is nothing to go on with.")
    if not is_resumable(folder):
        raise UsageError(
            f"{folder.name} was trained by Stable-Baselines3 and cannot be resumed.",
            hint="Run its command again: telic show --command prints it.",
        )
    job = read_record(folder.config, TrainJob)
    with interruptible() as stopping, TrainingView(quiet=as_json) as view:
        done = execute(
            job,
            folder.path.parent,
            name=folder.name,
            on_event=view,
            should_stop=stopping,
            command=shlex.join(["telic", *sys.argv[1:]]),
        )
        if done.status == "completed" and videos != "none":
            done = done._replace(videos=tuple(render_run(done.path, which=videos, on_event=view)))
    if as_json:
        print_json(done.as_data())
    else:
        show(done)
    if done.status != "completed":
        raise typer.Exit(1)
