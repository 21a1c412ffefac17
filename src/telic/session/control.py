"""Steer a running session from outside, through files in its folder.

    stop     somebody wants it to end, saved
    pause    somebody wants it to wait; the session goes on when the file is gone

Another terminal, the dashboard and a coding agent all write the same files, and a session that is
killed and started again finds them as they were.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from telic.core.events import (
    Event,
    Listener,
    PersonNote,
    SessionNotes,
    SessionPaused,
    SessionResumed,
    SessionWaiting,
    from_facts,
)
from telic.envs.spec import EnvSpec
from telic.errors import TelicError
from telic.judges.criteria import Criterion
from telic.session.admission import Admission
from telic.session.approval import approved, propose
from telic.session.find import Reason, Waiting
from telic.session.needs import Need, need_of
from telic.session.notes import Note, notes_for
from telic.session.records import SessionConfig
from telic.session.spending import Account
from telic.storage.files import read_json, read_record, write_json
from telic.storage.layout import RunFolder, SessionFolder
from telic.storage.locks import RunLock
from telic.training.job import TrainJob
from telic.training.run import Run, execute, status_of

StopCheck = Callable[[], bool]

_POLL_S = 0.2
_GRACE_S = 1.0
"""seconds for the trainer to end by itself; a slow update of a large robot takes longer"""


class Stopped(TelicError):
    """Somebody asked the session to end; everything finished is on disk."""


class _Abandoned(Exception):
    """The worker is not waited for; no error of the training, which only was interrupted."""


class Steering:
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
        account: Account,
        admission: Admission | None = None,
    ) -> None:
        self.folder = folder
        self.account = account
        self._admission = admission or Admission()
        self._tell = tell
        self._should_stop = should_stop
        self._asked_at: float | None = None
        folder.waiting.unlink(missing_ok=True)  # left by a process that was killed

    def wants_stop(self) -> bool:
        """Say whether somebody asked the session to end."""
        return self._should_stop() or self.folder.stop.exists()

    def wants_break(self) -> bool:
        """Say whether work shall save and return: to end, to wait, or because time is up."""
        self.account.tick()
        return self.wants_stop() or self.folder.pause.exists() or self.account.is_out_of_time()

    def safe_point(self) -> None:
        """Come between two steps: wait while paused; raises Stopped."""
        self.check()
        if self.folder.pause.exists():
            message = f"paused; go on with: telic resume {self.folder.name}"
            self._tell(SessionPaused(message=message))
            with self._waiting("pause", message):
                self._wait_until(lambda: not self.folder.pause.exists())
            self._tell(SessionResumed())

    def check(self) -> None:
        """Raise Stopped if somebody asked the session to end."""
        if self.wants_stop():
            raise Stopped("The session was stopped.")

    def train(
        self, job: TrainJob, spec: EnvSpec, folder: Path, name: str, on_event: Listener
    ) -> Run:
        """Return the finished run of a job, done with processors of its own, through all pauses.

        The job is shortened to the steps that may still be taken. A run that is complete already
        is returned as it is. Raises Stopped or AllowanceUsedUp where it was ended for good.
        """
        files = RunFolder(folder / name)
        steps = self.account.fit(job.steps, len(job.members), files)
        job = job.model_copy(update={"steps": steps})
        while (run := _finished(job, files)) is None:
            self.safe_point()
            self.account.check()
            with self._admitted(need_of(job, spec)) as got:
                if got:
                    self._execute(job, folder, name, on_event)
            if files.stop.exists():
                raise Stopped("The training was stopped.")
        return run

    def _execute(self, job: TrainJob, folder: Path, name: str, on_event: Listener) -> None:
        try:
            execute(job, folder, name=name, on_event=on_event, should_stop=self._break)
        except _Abandoned:
            raise Stopped("The session was stopped during an update.") from None

    def _break(self) -> bool:
        """Say whether training shall return; gives it up when an end is asked for and takes long.

        The worker is then killed, and a rerun goes on from its last save.
        """
        if self.wants_stop():
            self._asked_at = self._asked_at or time.monotonic()
            if time.monotonic() - self._asked_at > _GRACE_S:
                raise _Abandoned
        return self.wants_break()

    @contextmanager
    def _admitted(self, need: Need) -> Iterator[bool]:
        """Hold processors for the block; yields False when training shall not start after all."""

        def tell(event: Event) -> None:
            if isinstance(event, SessionWaiting):
                self._show("cores", event.message)
            self._tell(event)

        door = self._admission.admit(
            need, self.folder.name, tell=tell, should_stop=self.wants_break
        )
        with ExitStack() as held:
            try:
                with self.account.standing_still():
                    got = held.enter_context(door)
            finally:
                self.folder.waiting.unlink(missing_ok=True)
            yield got

    def approved(self, criteria: tuple[Criterion, ...]) -> tuple[Criterion, ...]:
        """Return the criteria a person agreed to, waiting for the answer; raises Stopped."""
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
            said = tuple(from_facts(PersonNote, note.model_dump()) for note in notes)
            self._tell(SessionNotes(number=number, notes=said))
        return notes

    @contextmanager
    def _waiting(self, reason: Reason, message: str) -> Iterator[None]:
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


def change_request(folder: SessionFolder, **changes: Any) -> SessionConfig:
    """Change what a session that is not running was asked for, e.g. give it a larger budget."""
    with RunLock(folder.lock, folder.name):
        config = read_record(folder.config, SessionConfig).replace(**changes)
        write_json(folder.config, config)
    return config


def _finished(job: TrainJob, files: RunFolder) -> Run | None:
    """Return the run of exactly this job if it is complete."""
    if not files.config.exists() or read_json(files.manifest)["key"] != job.key:
        return None
    done = status_of(files) == "completed"
    return Run(files.path, read_json(files.summary)) if done else None
