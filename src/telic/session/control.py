"""Steer a running session from outside, through files in its folder.

    stop            somebody wants it to end, saved
    pause           somebody wants it to wait; the session goes on when the file is gone
    notes.jsonl     what people say about it; each note is answered by exactly one iteration
    criteria.json   what it would aim for, where a person shall agree before anything is spent
    approval.json   the same criteria, or a person's edit of them: `telic approve`

Another terminal, the dashboard and a coding agent all write the same files, and a session that is
killed and started again finds them as they were.
"""

from __future__ import annotations

import getpass
import os
import secrets
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import AliasChoices, Field

from telic.authors.request import SessionConfig
from telic.core.config import Record
from telic.core.events import Event, Listener, SessionPaused, SessionResumed, SessionWaiting
from telic.errors import TelicError, UsageError
from telic.judges.criteria import Criterion
from telic.llm.client import StopCheck
from telic.session.evidence import SessionJournal
from telic.session.records import Reason, Waiting
from telic.storage.files import JsonLines, as_record, read_json_lines, read_record, write_json
from telic.storage.layout import SessionFolder
from telic.storage.locks import RunLock, taking_turns
from telic.storage.resources import Admission, ResourceNeed

if TYPE_CHECKING:
    from telic.authors.author import Author, Brief
    from telic.session.budget import SessionAccount

_POLL_S = 0.2


class SessionStopped(TelicError):
    """Somebody asked the session to end; everything finished is on disk."""


class SessionControl:
    """What people ask of a session, seen from inside it.

    Args:
        folder: the session's files.
        tell: hears session.paused, session.resumed, session.waiting and session.notes.
        should_stop: one more way to be asked to end, e.g. Ctrl-C.
        account: what may be spent; its clock stands still while the session waits.
        admission: the door to the machine's processors.
    """

    def __init__(
        self,
        folder: SessionFolder,
        tell: Listener,
        should_stop: StopCheck,
        account: SessionAccount,
        admission: Admission | None = None,
    ) -> None:
        self.folder = folder
        self.account = account
        self._admission = admission or Admission()
        self._tell = tell
        self._should_stop = should_stop
        folder.waiting.unlink(missing_ok=True)  # left by a process that was killed

    def wants_stop(self) -> bool:
        """Say whether somebody asked the session to end."""
        return self._should_stop() or self.folder.stop.exists()

    def wants_break(self) -> bool:
        """Say whether work shall save and return: to end, to wait, or because time is up."""
        self.account.tick()
        return self.wants_stop() or self.folder.pause.exists() or self.account.is_out_of_time()

    def safe_point(self) -> None:
        """Come between two steps: wait while paused; raises SessionStopped."""
        self.check()
        if self.folder.pause.exists():
            message = f"paused; go on with: telic resume {self.folder.name}"
            self._tell(SessionPaused(message=message))
            with self._waiting("pause", message):
                self._wait_until(lambda: not self.folder.pause.exists())
            self._tell(SessionResumed())

    def check(self) -> None:
        """Raise SessionStopped if somebody asked the session to end."""
        if self.wants_stop():
            raise SessionStopped("The session was stopped.")

    @contextmanager
    def admitted(self, need: ResourceNeed) -> Generator[bool]:
        """Hold processors for the block; yields False when training shall not start after all."""

        def tell(event: Event) -> None:
            if isinstance(event, SessionWaiting):
                self._show("cores", event.message)
            self._tell(event)

        door = self._admission.admit(
            need, self.folder.name, tell=tell, should_stop=self.wants_break
        )
        with ExitStack() as stack:
            try:
                with self.account.standing_still():
                    is_admitted = stack.enter_context(door)
            finally:
                self.folder.waiting.unlink(missing_ok=True)
            yield is_admitted

    def approved(self, criteria: tuple[Criterion, ...]) -> tuple[Criterion, ...]:
        """Return the criteria a person agreed to, waiting for the answer; raises SessionStopped."""
        propose(self.folder, criteria)
        if approved(self.folder) is None:
            message = f"waiting for: telic approve {self.folder.name}"
            self._tell(SessionWaiting(reason="approval", message=message))
            with self._waiting("approval", message):
                self._wait_until(self.folder.approval.exists)
        return approved(self.folder) or criteria

    def notes(self, number: int) -> tuple[Note, ...]:
        """Return the notes that the revision of this iteration answers."""
        notes = notes_for(self.folder, number)
        if notes:
            self._tell(DeliveredNotes(delivered_at=now(), number=number, notes=notes))
        return notes

    @contextmanager
    def _waiting(self, reason: Reason, message: str) -> Generator[None]:
        """Let the clock stand still, and others see what is waited for."""
        self._show(reason, message)
        try:
            with self.account.standing_still():
                yield
        finally:
            self.folder.waiting.unlink(missing_ok=True)

    def _show(self, reason: Reason, message: str) -> None:
        write_json(self.folder.waiting, Waiting(reason=reason, message=message))

    def _wait_until(self, ready: StopCheck) -> None:
        while not ready():
            self.check()
            time.sleep(_POLL_S)


@dataclass(frozen=True, slots=True)
class SessionWork:
    """One session under way: what every step of it works with."""

    brief: Brief
    author: Author
    control: SessionControl
    records: SessionJournal

    @property
    def config(self) -> SessionConfig:
        """The request."""
        return self.brief.config

    @property
    def folder(self) -> SessionFolder:
        """The session's files."""
        return self.brief.folder

    @property
    def tell(self) -> Listener:
        """Who hears what happens."""
        return self.brief.tell


def change_request(folder: SessionFolder, **changes: Any) -> SessionConfig:
    """Change what a session that is not running was asked for, e.g. give it a larger budget."""
    with RunLock(folder.lock, folder.name):
        config = read_record(folder.config, SessionConfig).replace(**changes)
        write_json(folder.config, config)
    return config


class Note(Record):
    """Something a person wants of the next revision."""

    schema_version: Literal[1] = 1
    id: str
    time: str
    """UTC, ISO 8601"""
    author: str
    text: str


class DeliveredNotes(Event):
    """The notes that one iteration answers."""

    NAME = "session.notes"

    schema_version: Literal[1] = 1
    delivered_at: str = Field(default="", validation_alias=AliasChoices("delivered_at", "time"))
    """UTC, ISO 8601"""
    number: int | None = None
    notes: tuple[Note, ...]


def add_note(folder: SessionFolder, text: str, author: str | None = None) -> Note:
    """Append a note; it reaches the next revision."""
    if not text.strip():
        raise UsageError("The note is empty.", hint='For example: telic note "less bouncing"')
    note = Note(id=secrets.token_hex(4), time=now(), author=author or somebody(), text=text.strip())
    append_line(folder.notes, note)
    return note


def append_line(path: Path, record: Record) -> None:
    """Append a record to a file that several processes write to."""
    # Opening cuts off a torn last line, which must not be the one another process is writing.
    with taking_turns(path.with_suffix(".lock")), JsonLines(path) as lines:
        lines.append(record.model_dump(mode="json"))
        lines.sync()


def require_heeded(folder: SessionFolder, text: str) -> None:
    """Refuse a note that the session's author can make nothing of, while the person is still here.

    Raises:
        NotUnderstood: says what the composer heeds; a model reads any note.
    """
    config = read_record(folder.config, SessionConfig)
    if config.model is not None or not text.strip():
        return
    from telic.composer.notes import read_wish
    from telic.envs import make

    env = make(config.env, num_envs=1)
    env.close()
    read_wish(text, config.intent, env.spec)


def read_notes(folder: SessionFolder) -> list[Note]:
    """Return every note, in the order they were made."""
    return [as_record(row, Note, str(folder.notes)) for row in read_json_lines(folder.notes)]


def delivered(folder: SessionFolder) -> dict[str, int]:
    """Return which iteration answers a note, by the note's id; a waiting note is not in it."""
    return {
        note.id: number
        for number in folder.iterations()
        if folder.iteration(number).notes.exists()
        for note in read_record(folder.iteration(number).notes, DeliveredNotes).notes
    }


def notes_for(folder: SessionFolder, number: int) -> tuple[Note, ...]:
    """Return the notes that iteration `number` answers; the first call decides which those are.

    They are written to the iteration's own file in one stroke: from then on they are its notes,
    however often the revision is interrupted and asked for again.
    """
    path = folder.iteration(number).notes
    if not path.exists():
        taken = delivered(folder)
        waiting = tuple(each for each in read_notes(folder) if each.id not in taken)
        write_json(path, DeliveredNotes(delivered_at=now(), number=number, notes=waiting))
    return read_record(path, DeliveredNotes).notes


def now() -> str:
    """Return the present time as UTC text."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def somebody() -> str:
    """Return who is at the keyboard."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return f"user {os.getuid()}"


class CriteriaProposal(Record):
    """The criteria a person is asked about."""

    schema_version: Literal[1] = 1
    time: str
    criteria: tuple[Criterion, ...]


class CriteriaApproval(Record):
    """The criteria a person agreed to."""

    schema_version: Literal[1] = 1
    time: str
    author: str
    criteria: tuple[Criterion, ...]
    edited: bool


def propose(folder: SessionFolder, criteria: tuple[Criterion, ...]) -> None:
    """Write the criteria down for a person to read; asking again changes nothing."""
    if not folder.criteria.exists():
        write_json(folder.criteria, CriteriaProposal(time=now(), criteria=criteria))


def approve(
    folder: SessionFolder, criteria: tuple[Criterion, ...] | None = None, author: str | None = None
) -> CriteriaApproval:
    """Agree to the proposed criteria, or to others, and let the session go on."""
    if folder.approval.exists():
        earlier = read_record(folder.approval, CriteriaApproval)
        raise UsageError(
            f"{folder.name} was approved already, by {earlier.author} at {earlier.time}."
        )
    if not folder.criteria.exists():
        raise UsageError(
            f"{folder.name} has nothing to approve.",
            hint="Only a session started with --approve asks, once its criteria are written.",
        )
    proposed = read_record(folder.criteria, CriteriaProposal).criteria
    edited = criteria is not None and criteria != proposed
    if read_record(folder.config, SessionConfig).model is None:
        _require_known(criteria or (), proposed)
    agreed = CriteriaApproval(
        time=now(), author=author or somebody(), criteria=criteria or proposed, edited=edited
    )
    write_json(folder.approval, agreed)
    return agreed


def _require_known(criteria: tuple[Criterion, ...], proposed: tuple[Criterion, ...]) -> None:
    """Refuse criteria that the composer has no code for, while the person is still here."""
    judged = {criterion.title for criterion in proposed}
    for criterion in criteria:
        if criterion.title in judged:
            continue
        raise UsageError(
            f'The composer cannot judge "{criterion.title}".',
            hint="It takes other numbers and weights for its own criteria and leaves out those "
            "that are missing; for others use --model.",
        )


def approved(folder: SessionFolder) -> tuple[Criterion, ...] | None:
    """Return the criteria that were agreed to, or None while nobody has answered."""
    if not folder.approval.exists():
        return None
    return read_record(folder.approval, CriteriaApproval).criteria
