"""Find a session by what people type, and say what it is doing."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Literal, TypeVar

from telic.core.config import Record
from telic.errors import UnknownName, UsageError
from telic.storage.files import read_json
from telic.storage.layout import (
    LATEST,
    RunFolder,
    SessionFolder,
    WorkFolder,
    is_run,
    list_runs,
    list_sessions,
)
from telic.storage.locks import lock_holder

_PREFIX = "session_"

Work = TypeVar("Work", bound=WorkFolder)

Reason = Literal["pause", "approval", "cores"]
State = Literal[
    "running",
    "pausing",
    "paused",
    "waiting for approval",
    "waiting for cores",
    "passed",
    "not_passed",
    "stopped",
    "interrupted",
]
_WAITS: dict[Reason, State] = {
    "pause": "paused",
    "approval": "waiting for approval",
    "cores": "waiting for cores",
}


class Waiting(Record):
    """What a running session waits for."""

    schema_version: Literal[1] = 1
    reason: Reason
    message: str


def find_session(runs_dir: Path, name: str = LATEST) -> SessionFolder:
    """Return the session meant by a path, an id, or the start of one, "session_" left out or not.

    Raises UnknownName with the closest ids, or UsageError when a start fits several sessions.
    """
    # A name wins over a path: a folder of the same name beside the user must not shadow it.
    for path in (runs_dir / name, Path(name).expanduser()):
        if is_session(path):
            return SessionFolder(path)
    return _choose("session", runs_dir, name, list_sessions(runs_dir))


def find_work(runs_dir: Path, name: str = LATEST) -> SessionFolder | RunFolder:
    """Return the session or the run that is meant; "latest" prefers what is running."""
    for path in (runs_dir / name, Path(name).expanduser()):
        if is_session(path):
            return SessionFolder(path)
        if is_run(path):
            return RunFolder(path)
    known: list[SessionFolder | RunFolder] = [*list_sessions(runs_dir), *list_runs(runs_dir)]
    known.sort(key=lambda each: (is_running(each), _last_active(each)), reverse=True)
    return _choose("session or run", runs_dir, name, known)


def is_session(path: Path) -> bool:
    """Say whether a folder holds a session."""
    return (path / "session.json").is_file()


def state_of(folder: SessionFolder) -> State:
    """Return what a session is doing now, or how it ended."""
    if lock_holder(folder.lock) is not None:
        with suppress(FileNotFoundError):  # it may go on at any moment
            return _WAITS[Waiting.model_validate_json(folder.waiting.read_bytes()).reason]
        return "pausing" if folder.pause.exists() else "running"
    if folder.summary.exists():
        return read_json(folder.summary)["outcome"]
    return "interrupted"


def is_running(folder: WorkFolder) -> bool:
    """Say whether a process works in the folder, or waits in it."""
    return lock_holder(folder.lock) is not None


def require_unfinished(folder: SessionFolder) -> None:
    """Raise UsageError if the session came to its end, so that nothing can be asked of it."""
    state = state_of(folder)
    if state in ("passed", "not_passed"):
        raise UsageError(
            f"{folder.name} came to its end: {state.replace('_', ' ')}.",
            hint=f"Start from one of its iterations with: telic branch {folder.name} --iteration N",
        )


def _choose(kind: str, runs_dir: Path, name: str, known: list[Work]) -> Work:
    """Return the first for "latest", else the only one whose id starts with `name`."""
    if not known:
        raise UsageError(
            f'There is no {kind} "{name}": {runs_dir} holds none yet.',
            hint='Start one with: telic run "run forward fast" --env HalfCheetah-v5',
        )
    if name == LATEST:
        return known[0]
    matches = [each for each in known if name and _starts(each.name, name)]
    if not matches:
        raise UnknownName(kind, name, [each.name for each in known], see="telic sessions")
    if len(matches) > 1:
        names = ", ".join(each.name for each in matches[:5])
        raise UsageError(
            f'"{name}" is the start of {len(matches)} ids: {names}.', hint="Add a few letters."
        )
    return matches[0]


def _starts(full: str, given: str) -> bool:
    return full.startswith(given) or full.removeprefix(_PREFIX).startswith(given)


def _last_active(folder: SessionFolder | RunFolder) -> float:
    file = folder.events if folder.events.exists() else folder.config
    return file.stat().st_mtime
