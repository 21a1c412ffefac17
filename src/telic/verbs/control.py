"""Stop, pause, resume, watch, annotate, approve and branch work from any terminal."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from telic import session as sessions
from telic.authors.request import read_criteria
from telic.core.events import Listener, read_events
from telic.core.request import RunsRequest, WatchedRequest, argument, inner, option
from telic.core.text import is_dict, read_count
from telic.core.verb import VerbResult, verb
from telic.errors import TelicError, UsageError
from telic.judges.criteria import Criterion
from telic.session.control import add_note, check_note
from telic.session.control import approve_criteria as agree
from telic.session.records import exit_code, is_running, require_unfinished, session_state
from telic.storage.layout import SessionFolder, WorkFolder
from telic.storage.reading import MAX_BYTES, open_file, parse_json
from telic.storage.workspace import WORK, Artifact, Workspace
from telic.verbs.artifacts import ArtifactRequest
from telic.verbs.lines import state_of

if TYPE_CHECKING:
    from telic.search.runner import Search
    from telic.session.loop import Session
    from telic.training.run import Run

STEER = """
telic pause                            keep all progress and stop spending
telic note "less bouncing please"      feedback for the next reward revision
telic resume                           continue where it stopped
telic branch --iteration 2 --note "slower"
Requests are files in the session's folder, so they work from any terminal.
"""


WorkState = VerbResult[dict[str, str]]
"""state of a session, run or search after a request, by its kind"""


def work_state(kind: str, name: str, state: str) -> WorkState:
    """Return the state of work and, if the work is waiting, the command that resumes it."""
    is_waiting = state in ("stopped", "interrupted", "pausing", "paused")
    hint = f"Resume with: telic resume {name}" if is_waiting else ""
    return VerbResult({kind: name, "status": state}, hint=hint)


def _becomes(is_so: Callable[[], bool], seconds: float) -> bool:
    """Poll a condition until it is true or the timeout expires and return its final value."""
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


class _WorkRequest(ArtifactRequest):
    """Request about a session, run or search."""

    artifact: str = argument(
        "An id or its prefix, a path, or 'latest' (running work first).",
        default="latest",
        metavar="ARTIFACT",
    )

    root: Path | str = inner("Repository folder, for studies.", default=Path())

    def work(self) -> tuple[Artifact, WorkFolder]:
        """Return the artifact and its folder."""
        artifact = self.find(*WORK, prefer_live=True)
        return artifact, WorkFolder(artifact.path)


class _WorkStopRequest(_WorkRequest):
    """Work to stop."""

    wait: float = option("Seconds to wait for the work to stop, or 0.", default=60.0)


@verb(_WorkStopRequest, examples=STEER)
def stop(request: _WorkStopRequest) -> WorkState:
    """Stop a running session, run or search. Its state is saved, so it can be resumed."""
    artifact, folder = request.work()
    if not artifact.is_running:
        raise UsageError(f"{artifact.name} is not running. Its state is {state_of(artifact)}.")
    folder.stop.touch()
    if not request.wait:
        return work_state(artifact.kind, artifact.name, "stopping")
    if not _becomes(lambda: not artifact.is_running, request.wait):
        raise TelicError(
            f"{artifact.name} did not stop within {request.wait:g} s.",
            hint="It will stop after the current step. Try again later, or check its events.jsonl.",
        )
    return work_state(artifact.kind, artifact.name, state_of(artifact))


class WorkResumeRequest(_WorkRequest, WatchedRequest):
    """Work to resume."""

    max_hours: float | None = option("New total time limit of a session, in hours.", default=None)
    max_steps: int | None = option(
        "New total limit of environment steps of a session.", default=None, read=read_count
    )
    max_usd: float | None = option("New limit on model costs of a session, in USD.", default=None)
    max_calls: int | None = option("New limit on model calls of a session.", default=None)

    def limits(self) -> dict[str, float | int]:
        """Return the limits that are set."""
        names = ("max_hours", "max_steps", "max_usd", "max_calls")
        limits = {name: getattr(self, name) for name in names}
        return {name: value for name, value in limits.items() if value is not None}


def _exit_code(result: Any) -> int:
    if hasattr(result, "passed"):
        return exit_code(result.summary.outcome, out_of_budget=result.summary.out_of_budget)
    status = getattr(result, "status", None) or getattr(
        getattr(result, "summary", None), "outcome", None
    )
    return int(status not in (None, "completed"))


@verb(WorkResumeRequest, examples=STEER, exit_code=_exit_code)
def resume(request: WorkResumeRequest) -> Run | Session | Search | WorkState:
    """Resume a paused, stopped or interrupted session, run or search."""
    from telic.verbs import _resume

    return _resume.resume(request.work()[0], request)


class _WatchRequest(_WorkRequest, WatchedRequest):
    """Work to watch."""


@verb(_WatchRequest)
def watch(request: _WatchRequest) -> WorkState:
    """Print past and new events until the work ends. Ctrl-C only stops watching."""
    artifact, folder = request.work()
    position = 0
    while True:
        is_over = not artifact.is_running  # checked first: earlier writes are then printed
        position = emit_from(folder.events, position, request.on_event)
        if is_over or request.should_stop():
            return work_state(artifact.kind, artifact.name, state_of(artifact))
        time.sleep(0.2)


def emit_from(path: Path, position: int, listener: Listener) -> int:
    """Emit the events after a position in a log and return the end position of the log."""
    if not path.exists():
        return position
    with open_file(path, MAX_BYTES) as log:
        log.seek(position)
        for line in log:
            if not line.endswith(b"\n"):
                break
            position += len(line)
            row = parse_json(line, f"{path}, byte {position},")
            for event in read_events([row] if is_dict(row) else []):
                listener(event)
    return position


class AuthoredRequest(RunsRequest):
    """Text that is recorded with its author."""

    author: str | None = inner("Author. Default: the user.", default=None)
    by: Literal["person", "agent"] = inner("Type of author: person or agent.", default="person")


class SessionRequest(RunsRequest):
    """A session."""

    session: str = argument(
        "An id or its prefix, a path, or 'latest'.", default="latest", metavar="SESSION"
    )

    @property
    def folder(self) -> SessionFolder:
        """The folder of the session."""
        return Workspace(self.runs_dir).session(self.session)


class _SessionPauseRequest(SessionRequest):
    """A session to pause."""

    wait: float = option("Seconds to wait for the pause.", default=30.0)


@verb(_SessionPauseRequest, examples=STEER)
def pause(request: _SessionPauseRequest) -> WorkState:
    """Pause a session at its next safe point. Training is saved, and no budget is used."""
    folder = request.folder
    if not is_running(folder):
        raise UsageError(f"{folder.name} is not running. Its state is {session_state(folder)}.")
    folder.pause.touch()
    _becomes(lambda: session_state(folder) != "pausing" and folder.pause.exists(), request.wait)
    return work_state("session", folder.name, session_state(folder))


class _SessionNoteRequest(AuthoredRequest):
    """Feedback for a session."""

    text: str = argument("Feedback for the next reward revision.")
    session: str = option("Session to annotate.", default="latest")


@verb(_SessionNoteRequest, examples=STEER)
def note(request: _SessionNoteRequest) -> dict[str, Any]:
    """Add feedback for the next revision of the reward."""
    folder = Workspace(request.runs_dir).session(request.session)
    require_unfinished(folder)
    check_note(folder, request.text)
    taken = add_note(folder, request.text, request.author)
    return {"session": folder.name, **taken.model_dump(mode="json")}


class _CriteriaRequest(SessionRequest, AuthoredRequest):
    """Criteria to approve."""

    criteria: tuple[Criterion, ...] | None = option(
        "Edited copy of the session's criteria.json.", default=None, read=read_criteria
    )


@verb(_CriteriaRequest, examples=STEER)
def approve(request: _CriteriaRequest) -> dict[str, Any]:
    """Approve the criteria of a session that was started with --approve."""
    folder = request.folder
    agreed = agree(folder, request.criteria, request.author)
    return {"session": folder.name, **agreed.model_dump(mode="json")}


class _BranchRequest(SessionRequest):
    """Iteration to continue from."""

    iteration: int = option("Judged iteration to continue from.", minimum=0)
    note: str | None = option("Feedback for the first revision.", default=None)
    iterations: int | None = option(
        "Maximum number of iterations. Default: unchanged.", default=None, minimum=1
    )


@verb(_BranchRequest, examples=STEER)
def branch(request: _BranchRequest) -> dict[str, str]:
    """Start a new session from an iteration of another session."""
    origin = request.folder
    changes: dict[str, Any] = {}
    if request.iterations is not None:
        changes["iterations"] = request.iterations
    if request.note is not None:
        check_note(origin, request.note)
    session = sessions.branch.branch_session(
        origin, request.iteration, note=request.note, **changes
    )
    return {
        "session": session.name,
        "path": str(session.path),
        "origin": origin.name,
        "start": f"telic resume {session.name}",
    }
