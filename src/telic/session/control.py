"""Control a running session from other processes, through files in its folder.

    stop            request to save and end the session
    pause           request to wait until the file is removed
    notes.jsonl     feedback from people, where each note is answered by exactly one iteration
    criteria.json   the proposed criteria if a person must approve them before training
    approval.json   the criteria approved by `telic approve`, possibly edited

Terminals, the dashboard and coding agents all write the same files. The files persist across
restarts, so a resumed session sees the same requests.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import AliasChoices, Field, field_validator

from telic.authors.request import SessionConfig
from telic.core.config import Record
from telic.core.events import Event, Listener, SessionPaused, SessionResumed, SessionWaiting
from telic.errors import TelicError, UsageError
from telic.judges.criteria import Criterion
from telic.llm.client import StopCheck
from telic.session.evidence import SessionJournal
from telic.session.records import Reason, SessionWait
from telic.storage.files import JsonLines, as_record, read_json_lines, read_record, write_json
from telic.storage.keys import user_name
from telic.storage.layout import SessionFolder
from telic.storage.locks import RunLock, taking_turns
from telic.storage.resources import Admission, ResourceNeed

if TYPE_CHECKING:
    from telic.authors.author import Author, Brief
    from telic.session.budget import SessionAccount

_POLL_S = 0.2


class SessionStopped(TelicError):
    """Raised when a stop was requested. All finished steps are saved to disk."""


class SessionControl:
    """User requests to a running session, as seen from the session."""

    def __init__(
        self,
        folder: SessionFolder,
        emit: Listener,
        should_stop: StopCheck,
        account: SessionAccount,
        admission: Admission | None = None,
    ) -> None:
        self.folder, self.account = folder, account
        self._admission = admission or Admission()
        self._emit, self._should_stop = emit, should_stop
        folder.waiting.unlink(missing_ok=True)  # left behind by a killed process

    def wants_stop(self) -> bool:
        """Return whether a stop was requested."""
        return self._should_stop() or self.folder.stop.exists()

    def wants_break(self) -> bool:
        """Return whether work must be saved and interrupted for a stop, a pause or a time limit."""
        self.account.tick()
        return self.wants_stop() or self.folder.pause.exists() or self.account.is_out_of_time()

    def check(self) -> None:
        """Raise SessionStopped if a stop was requested."""
        if self.wants_stop():
            raise SessionStopped("The session was stopped.")

    def safe_point(self) -> None:
        """Block while the session is paused. Raises SessionStopped if a stop was requested."""
        self.check()
        if self.folder.pause.exists():
            message = f"paused; resume with: telic resume {self.folder.path}"
            self._emit(SessionPaused(message=message))
            self._wait("pause", message, lambda: not self.folder.pause.exists())
            self._emit(SessionResumed())

    @contextmanager
    def admitted(self, need: ResourceNeed) -> Generator[bool]:
        """Reserve CPU cores for the block. Yields False if training must not start."""

        def emit(event: Event) -> None:
            if isinstance(event, SessionWaiting):
                self._show("cores", event.message)
            self._emit(event)

        cores = self._admission.admit(
            need, self.folder.name, emit=emit, should_stop=self.wants_break
        )
        with ExitStack() as stack:
            try:
                with self.account.paused():
                    is_admitted = stack.enter_context(cores)
            finally:
                self.folder.waiting.unlink(missing_ok=True)
            yield is_admitted

    def approved(
        self, criteria: tuple[Criterion, ...], records: SessionJournal
    ) -> tuple[Criterion, ...]:
        """Propose criteria, and return the approved criteria. Raises SessionStopped after a stop.

        The journal records the proposal and then the approval. The file is a readable copy.
        """
        folder = self.folder
        proposal = CriteriaProposal(time=time_stamp(), criteria=criteria)
        records.step(folder.criteria, CriteriaProposal, lambda: proposal)
        while (agreed := records.known(folder.approval, CriteriaApproval)) is None:
            message = f"waiting for: telic approve {folder.path}"
            self._emit(SessionWaiting(reason="approval", message=message))
            self._wait("approval", message, lambda: records.has(folder.approval))
        return agreed.criteria

    def notes(self, number: int) -> tuple[Note, ...]:
        """Return the notes that iteration `number` addresses, as determined by the first call.

        The notes are written to a file of the iteration immediately, so that a resumed revision
        answers the same notes.
        """
        path = self.folder.iteration(number).notes
        if not path.exists():
            taken = {
                note.id
                for each in self.folder.iterations()
                if self.folder.iteration(each).notes.exists()
                for note in read_record(self.folder.iteration(each).notes, DeliveredNotes).notes
            }
            waiting = tuple(each for each in Note.read(self.folder.notes) if each.id not in taken)
            write_json(
                path, DeliveredNotes(delivered_at=time_stamp(), number=number, notes=waiting)
            )
        notes = read_record(path, DeliveredNotes).notes
        if notes:
            self._emit(DeliveredNotes(delivered_at=time_stamp(), number=number, notes=notes))
        return notes

    def _wait(self, reason: Reason, message: str, ready: StopCheck) -> None:
        """Wait with the session clock paused. `waiting.json` contains the reason."""
        self._show(reason, message)
        try:
            with self.account.paused():
                while not ready():
                    self.check()
                    time.sleep(_POLL_S)
        finally:
            self.folder.waiting.unlink(missing_ok=True)

    def _show(self, reason: Reason, message: str) -> None:
        write_json(self.folder.waiting, SessionWait(reason=reason, message=message))


@dataclass(frozen=True, slots=True)
class SessionWork:
    """Shared context of all steps of a running session."""

    brief: Brief
    author: Author
    control: SessionControl
    records: SessionJournal

    @property
    def config(self) -> SessionConfig:
        """Request of the session."""
        return self.brief.config

    @property
    def folder(self) -> SessionFolder:
        """Files of the session."""
        return self.brief.folder

    @property
    def emit(self) -> Listener:
        """Event listener of the session."""
        return self.brief.emit


def change_request(folder: SessionFolder, **changes: Any) -> SessionConfig:
    """Change the request of a session that is not running, e.g. to increase its budget."""
    with RunLock(folder.lock, folder.name):
        config = read_record(folder.config, SessionConfig).replace(**changes)
        write_json(folder.config, config)
    return config


def time_stamp() -> str:
    """Return the current UTC time as text."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class Remark(Record):
    """Message from a person or an agent with a timestamp, stored as one line of a file."""

    schema_version: Literal[1] = 1
    id: str = Field(default_factory=lambda: secrets.token_hex(4))
    time: str = Field(default_factory=time_stamp)
    """time in UTC (ISO 8601)"""
    author: str = Field(default="", validate_default=True)
    """author, by default the current user"""

    @field_validator("author", mode="before")
    @classmethod
    def _named(cls, given: object) -> object:
        return given or user_name()

    @classmethod
    def read(cls, path: Path) -> list[Self]:
        """Return all remarks in a file in chronological order."""
        return [as_record(row, cls, str(path)) for row in read_json_lines(path)]

    def append(self, path: Path) -> None:
        """Append the remark to a file."""
        # Opening truncates a torn last line, which must not be one that another process is writing.
        with taking_turns(path.with_suffix(".lock")), JsonLines(path) as lines:
            lines.append(self.model_dump(mode="json"))
            lines.sync()


class Note(Remark):
    """Feedback for the next revision of the reward."""

    text: str


class DeliveredNotes(Event):
    """Notes that one iteration addresses."""

    NAME = "session.notes"

    schema_version: Literal[1] = 1
    delivered_at: str = Field(default="", validation_alias=AliasChoices("delivered_at", "time"))
    """time in UTC (ISO 8601)"""
    number: int | None = None
    notes: tuple[Note, ...]


def add_note(folder: SessionFolder, text: str, author: str | None = None) -> Note:
    """Append a note for the next revision of the reward."""
    if not text.strip():
        raise UsageError("The note is empty.", hint='For example: telic note "less bouncing"')
    note = Note(text=text.strip(), author=author or "")
    note.append(folder.notes)
    return note


def check_note(folder: SessionFolder, text: str) -> None:
    """Raise an error if the author of the session cannot interpret a note.

    Raises:
        NotUnderstood: the composer does not understand the note. A language model accepts any note.
    """
    config = read_record(folder.config, SessionConfig)
    if config.model is not None or not text.strip():
        return
    from telic.composer.notes import read_request
    from telic.envs.factory import make

    env = make(config.env, num_envs=1)
    env.close()
    read_request(text, config.intent, env.spec)


class CriteriaProposal(Record):
    """Criteria proposed for approval."""

    schema_version: Literal[1] = 1
    time: str
    criteria: tuple[Criterion, ...]


class CriteriaApproval(CriteriaProposal):
    """Approved criteria."""

    author: str
    edited: bool


def approve_criteria(
    folder: SessionFolder, criteria: tuple[Criterion, ...] | None = None, author: str | None = None
) -> CriteriaApproval:
    """Approve the proposed criteria, or replacements, and let the session continue."""
    if folder.approval.exists():
        earlier = read_record(folder.approval, CriteriaApproval)
        raise UsageError(
            f"{folder.name} was already approved by {earlier.author} at {earlier.time}."
        )
    config = read_record(folder.config, SessionConfig)
    records = SessionJournal(folder, config.intent, config.env, config.terms)
    proposal = records.known(folder.criteria, CriteriaProposal) if records.is_begun else None
    if proposal is None:
        raise UsageError(
            f"{folder.name} has nothing to approve.",
            hint="Approval is only required with --approve, after the criteria are written.",
        )
    if read_record(folder.criteria, CriteriaProposal) != proposal:
        raise UsageError(
            f"{folder.criteria} was changed after the session proposed these criteria.",
            hint="Edit a copy, and approve it with --criteria.",
        )
    proposed = proposal.criteria
    is_edited = criteria is not None and criteria != proposed
    if criteria and is_edited and config.model is None:
        # Recompute the criteria implied by an edited goal; a contradiction is rejected here.
        from telic.session.motion import composed

        criteria = composed(config, criteria).criteria
    agreed = CriteriaApproval(
        time=time_stamp(),
        author=author or user_name(),
        criteria=criteria or proposed,
        edited=is_edited,
    )
    records.write(folder.approval, agreed)
    return agreed
