"""telic stop, pause, resume, note, approve, branch: steer what is running."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from telic.cli.options import RUNS, AsJson, Debug, RunsDir, count
from telic.cli.output import command, console, print_json
from telic.errors import TelicError, UsageError

if TYPE_CHECKING:
    from telic.storage.layout import SessionFolder, WorkFolder

SessionName = Annotated[
    str, typer.Argument(metavar="SESSION", help="Its id, the start of one, a path, or 'latest'.")
]
WorkName = Annotated[
    str,
    typer.Argument(
        metavar="SESSION|RUN", help="Its id, the start of one, a path, or 'latest' (running first)."
    ),
]
Wait = Annotated[float, typer.Option(help="Seconds to wait until it has happened.")]

_STEER = """
[bold]Examples[/]

telic pause                            wait; nothing is lost or spent

telic note "less bouncing please"      heeded by the next revision

telic resume                           go on

telic branch --iteration 2 --note "slower"

Wishes are files in the session's folder, so any terminal will do.
"""


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("stop", epilog=_STEER)(command(stop))
    app.command("pause", epilog=_STEER)(command(pause))
    app.command("resume", epilog=_STEER)(command(resume))
    app.command("note", epilog=_STEER)(command(note))
    app.command("approve", epilog=_STEER)(command(approve))
    app.command("branch", epilog=_STEER)(command(branch))


def stop(
    work: WorkName = "latest",
    wait: Wait = 60.0,
    runs_dir: RunsDir = RUNS,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Ask a running session or run to save and end; it can go on later."""
    from telic.session.find import find_work, is_running

    folder = find_work(runs_dir, work)
    if not is_running(folder):
        raise UsageError(f"{folder.name} is not running; it is {_state(folder)}.")
    folder.stop.touch()
    if not _becomes(lambda: not is_running(folder), wait):
        raise TelicError(
            f"{folder.name} has not ended after {wait:g} s.",
            hint="It ends after its present step; ask again, or see its events.jsonl.",
        )
    _answer(folder, as_json)


def pause(
    session: SessionName = "latest",
    wait: Wait = 30.0,
    runs_dir: RunsDir = RUNS,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Let a session wait at its next safe point: training is saved, nothing more is spent."""
    from telic.session.find import find_session, is_running, state_of

    folder = find_session(runs_dir, session)
    if not is_running(folder):
        raise UsageError(f"{folder.name} is not running; it is {state_of(folder)}.")
    folder.pause.touch()
    _becomes(lambda: state_of(folder) != "pausing" and folder.pause.exists(), wait)
    _answer(folder, as_json)


def resume(
    work: WorkName = "latest",
    videos: Annotated[str, typer.Option(help="Of a run: best, last, all or none.")] = "best",
    budget_hours: Annotated[
        float | None, typer.Option(help="Of a session: hours of work at most, in all.")
    ] = None,
    budget_steps: Annotated[
        str | None, typer.Option(help="Of a session: environment steps at most, in all.")
    ] = None,
    budget_usd: Annotated[
        float | None, typer.Option(help="Of a session: dollars at most, in all.")
    ] = None,
    max_calls: Annotated[
        int | None, typer.Option(help="Of a session: model calls at most, in all.")
    ] = None,
    runs_dir: RunsDir = RUNS,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Go on with a paused, stopped or interrupted session or run, exactly where it was."""
    from telic.cli.runs import resume_run
    from telic.session.find import find_work, is_running, require_unfinished
    from telic.storage.layout import SessionFolder

    given = {
        "max_hours": budget_hours,
        "max_steps": count(budget_steps, "--budget-steps") if budget_steps else None,
        "max_usd": budget_usd,
        "max_calls": max_calls,
    }
    changes = {name: value for name, value in given.items() if value is not None}
    folder = find_work(runs_dir, work)
    if not isinstance(folder, SessionFolder):
        resume_run(folder, videos, as_json)
        return
    require_unfinished(folder)
    if not is_running(folder):
        folder.pause.unlink(missing_ok=True)
        _carry_on(folder, as_json, changes)
        return
    if not folder.pause.exists():
        raise UsageError(f"{folder.name} is running; there is nothing to resume.")
    if changes:
        raise UsageError(
            "The limits of a session cannot be changed while it runs.",
            hint=f"First: telic stop {folder.name}",
        )
    folder.pause.unlink(missing_ok=True)
    _answer(folder, as_json)


def note(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[SESSION] TEXT", help='The latest session if left out: telic note "slower"'
        ),
    ],
    author: Annotated[str | None, typer.Option(help="Who says so; you if left out.")] = None,
    runs_dir: RunsDir = RUNS,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Say something that the next revision of a session heeds."""
    from telic.session.find import find_session, require_unfinished
    from telic.session.notes import add_note

    if len(words) > 2:
        raise UsageError(
            "Put the note in quotes.", hint='For example: telic note "less bouncing please"'
        )
    *session, text = words
    folder = find_session(runs_dir, *session)
    require_unfinished(folder)
    said = add_note(folder, text, author)
    if as_json:
        print_json({"session": folder.name, **said.model_dump()})
    else:
        console.print(f"noted for the next revision of {folder.name}")


def approve(
    session: SessionName = "latest",
    criteria: Annotated[
        Path | None, typer.Option(help="Your edit of the session's criteria.json.")
    ] = None,
    author: Annotated[str | None, typer.Option(help="Who agrees; you if left out.")] = None,
    runs_dir: RunsDir = RUNS,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Agree to the criteria of a session that was started with --approve."""
    from telic.session.approval import approve as agree
    from telic.session.approval import parse_criteria
    from telic.session.find import find_session
    from telic.storage.files import read_json

    folder = find_session(runs_dir, session)
    edited = parse_criteria(read_json(criteria)) if criteria else None
    agreed = agree(folder, edited, author)
    if as_json:
        print_json({"session": folder.name, **agreed.model_dump(mode="json")})
        return
    console.print(f"{folder.name} goes on with:")
    for each in agreed.criteria:
        console.print(f"  • {each.title}", markup=False)


def branch(
    iteration: Annotated[int, typer.Option(min=0, help="Judged iteration to start from.")],
    session: SessionName = "latest",
    note: Annotated[str | None, typer.Option(help="What the first revision shall heed.")] = None,
    iterations: Annotated[
        int | None, typer.Option(min=1, help="Rewards to try at most; as before if left out.")
    ] = None,
    runs_dir: RunsDir = RUNS,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Make a new session that goes on from an iteration of another one."""
    from telic.session.branching import branch as make_branch
    from telic.session.find import find_session

    origin = find_session(runs_dir, session)
    changes: dict[str, Any] = {} if iterations is None else {"iterations": iterations}
    made = make_branch(origin, iteration, note=note, **changes)
    if as_json:
        print_json({"session": made.name, "path": str(made.path), "origin": origin.name})
    else:
        console.print(f"{made.name} starts from iteration {iteration} of {origin.name}")
        console.print(f"start it with: telic resume {made.name}")


def _carry_on(folder: SessionFolder, as_json: bool, changes: dict[str, Any]) -> None:
    """Go on with a session in this process."""
    from telic.cli.progress import interruptible
    from telic.cli.run import finish
    from telic.cli.views import SessionView
    from telic.session.api import carry_on
    from telic.session.control import change_request

    if changes:
        change_request(folder, **changes)
    with interruptible() as stopping, SessionView(quiet=as_json) as view:
        session = carry_on(folder, on_event=view, should_stop=stopping)
    finish(session, as_json)


def _becomes(ready: Callable[[], bool], seconds: float) -> bool:
    """Wait until something is so; returns whether it became so."""
    deadline = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _answer(folder: WorkFolder, as_json: bool) -> None:
    """Say what became of it."""
    from telic.storage.layout import SessionFolder

    kind = "session" if isinstance(folder, SessionFolder) else "run"
    state = _state(folder)
    if as_json:
        print_json({kind: folder.name, "status": state})
        return
    console.print(f"{folder.name} is {state}.")
    if state in ("stopped", "interrupted", "pausing", "paused"):
        console.print(f"go on with: telic resume {folder.name}")


def _state(folder: WorkFolder) -> str:
    from telic.session.find import state_of
    from telic.storage.layout import RunFolder, SessionFolder
    from telic.training.run import status_of

    if isinstance(folder, SessionFolder):
        return state_of(folder)
    return status_of(RunFolder(folder.path))
