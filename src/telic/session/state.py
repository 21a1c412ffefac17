"""What a session is doing, or how it ended."""

from __future__ import annotations

from contextlib import suppress
from typing import Literal

from telic.core.config import Record
from telic.errors import UsageError
from telic.storage.files import read_json
from telic.storage.layout import SessionFolder, WorkFolder
from telic.storage.locks import lock_holder

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
