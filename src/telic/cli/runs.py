"""telic runs, resume, stop: what there is, going on, and ending."""

from __future__ import annotations

import shlex
import sys
import time
from typing import Annotated, Any

import typer

from telic.cli.options import RUNS, AsJson, Debug, RunName, RunsDir
from telic.cli.output import command, console, duration, print_json, table
from telic.errors import TelicError, UsageError


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("runs")(command(runs))
    app.command("resume")(command(resume))
    app.command("stop")(command(stop))


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
            each["run"], each["env"], each["status"], each["members"], each["total_timesteps"],
            each["best_return"], duration(time.time() - each["updated"]) + " ago",
        )
        for each in found
    ]  # fmt: skip
    columns = ["run", "environment", "state", "members", "steps", "best return", "active"]
    console.print(table(None, columns, rows))


def resume(
    run: RunName = "latest",
    videos: Annotated[str, typer.Option(help="best, last, all or none.")] = "best",
    runs_dir: RunsDir = RUNS,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Go on with an interrupted run, exactly where it was saved."""
    from telic.cli.progress import TrainingView
    from telic.cli.train import finish, interruptible
    from telic.storage.files import read_record
    from telic.storage.layout import find_run
    from telic.training.job import TrainJob
    from telic.training.run import execute, is_resumable, status_of

    folder = find_run(runs_dir, run)
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
            job, folder.path.parent, name=folder.name, on_event=view, should_stop=stopping,
            command=shlex.join(["telic", *sys.argv[1:]]),
        )  # fmt: skip
        finish(done, videos, view, as_json)


def stop(
    run: RunName = "latest",
    wait: Annotated[float, typer.Option(help="Seconds to wait for it to end.")] = 60.0,
    runs_dir: RunsDir = RUNS,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Ask a running run to save and end."""
    from telic.storage.layout import find_run
    from telic.storage.locks import lock_holder
    from telic.training.run import is_resumable, status_of, wait_until_stopped

    folder = find_run(runs_dir, run)
    if lock_holder(folder.lock) is None:
        raise UsageError(f"{folder.name} is not running; it is {status_of(folder)}.")
    folder.stop.touch()
    if not wait_until_stopped(folder, wait):
        raise TelicError(
            f"{folder.name} has not ended after {wait:g} s.",
            hint="It ends after its present update; ask again, or see its worker.log.",
        )
    result: dict[str, Any] = {"run": folder.name, "status": status_of(folder)}
    if as_json:
        print_json(result)
    else:
        console.print(f"{folder.name} is {result['status']}.")
        if is_resumable(folder):
            console.print(f"go on with: telic resume {folder.name}")
