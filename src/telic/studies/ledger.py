"""The ledger of a study: a signed journal, and the state that follows from it.

The append is the commit point: write files first, append, and everything else follows. A process
that is killed before the append changed nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from telic.storage.files import write_json
from telic.storage.journal import (
    Journal,
    JournalBroken,
    JournalBusy,
    JournalCheck,
    JournalEntry,
    JournalHead,
)
from telic.studies.canonical import existing_key, signing_key
from telic.studies.documents.base import StudyActor
from telic.studies.errors import BrokenIntegrity, LockTimeout, StudyError
from telic.studies.folder import StudyFolder
from telic.studies.state import ENTRY_KINDS, LedgerReplay, StudyState

_RETRIES = 5
_EARLIER_FORMAT = b'{"actor":'


@dataclass(frozen=True)
class NewEntry:
    """An entry that is not in the ledger yet."""

    kind: str
    subject: str | None
    data: dict[str, Any]
    actor: StudyActor


class Ledger:
    """The ledger of one study; read and append inside `locked` to exclude other writers."""

    def __init__(self, folder: StudyFolder) -> None:
        self.folder, self.path = folder, folder.ledger
        self.written = 0
        """entries that were committed through this object"""
        self._has_key = False
        self._journal = Journal(self.path, folder.name, is_guarded=True)
        self._replay = LedgerReplay(folder.name, self._journal.start)
        self._replayed = 0

    # ------------------------------------------------------------------ reading

    def entries(self) -> list[JournalEntry]:
        """Return all entries; raises BrokenIntegrity E_LEDGER_BROKEN at the first bad line."""
        with self._translated():
            return self._signed().entries()

    @property
    def head(self) -> JournalHead:
        """The last entry; number 0 when there is none."""
        return self.state().ledger_head

    def state(self) -> StudyState:
        """Return what the ledger comes to; raises as `entries` does."""
        entries = self.entries()
        seen = entries[self._replayed - 1].head if 0 < self._replayed <= len(entries) else None
        if self._replayed and seen != self._replay.head:  # the file was replaced
            self._replay = LedgerReplay(self.folder.name, self._journal.start)
            self._replayed = 0
        for entry in entries[self._replayed :]:
            self._replay.apply(entry)
        self._replayed = len(entries)
        return self._replay.state()

    def verify(self) -> JournalCheck:
        """Check every byte: chain, signatures, and the last line noted outside the repository."""
        check = self._signed().verify()
        if not check.ok:
            self._refuse_earlier()
        return check

    def require_intact(self) -> None:
        """Raise BrokenIntegrity E_LEDGER_BROKEN unless the ledger verifies."""
        check = self.verify()
        if not check.ok:
            raise _broken(f"Line {check.bad_seq} of {self.path} is bad: {check.why}.")

    # ------------------------------------------------------------------ writing

    @contextmanager
    def locked(self) -> Generator[None]:
        """Hold the study's lock; may be nested. Never hold it while something trains."""
        with self._translated(), self._journal.locked():
            yield

    def append(
        self,
        kind: str,
        subject: str | None,
        data: dict[str, Any],
        actor: StudyActor,
        *,
        expected: JournalHead | None = None,
    ) -> JournalEntry:
        """Commit one entry and write state.json.

        Raises StudyError E_EVENT for an unknown kind, LockTimeout when the head is no longer
        `expected`, BrokenIntegrity when the ledger is damaged or was not written here.
        """
        if kind not in ENTRY_KINDS:
            raise StudyError("E_EVENT", f'There is no entry of kind "{kind}".')
        with self.locked(), self._translated():
            signing_key(self.folder.root)
            by = actor.model_dump(mode="json", exclude_none=True)
            entry = self._signed().append(kind, data, subject=subject, actor=by, expected=expected)
            self.written += 1
            self.save_state()
        return entry

    def append_from(self, make: Callable[[StudyState], NewEntry]) -> JournalEntry:
        """Commit what `make` returns for the present state, without holding the lock meanwhile.

        When others wrote meanwhile it is called again, five times; then LockTimeout.
        """
        for attempt in range(_RETRIES + 1):
            state = self.state()
            new = make(state)
            try:
                return self.append(
                    new.kind, new.subject, new.data, new.actor, expected=state.ledger_head
                )
            except LockTimeout:
                if attempt == _RETRIES:
                    raise
        raise AssertionError("unreachable")

    def adopt(self) -> None:
        """Accept a ledger that was continued elsewhere, from its present end on."""
        with self.locked():
            check = self.verify()
            if not check.ok and not check.foreign:
                raise _broken(f"Line {check.bad_seq} of {self.path} is bad: {check.why}.")
            self._signed().adopt()

    def save_state(self, next_action: dict[str, Any] | None = None) -> None:
        """Write state.json, a summary for agents and people; nothing in telic rests on it."""
        write_json(self.folder.state, {**self.state().summary(), "next_action": next_action})

    # ------------------------------------------------------------------ inside

    def _signed(self) -> Journal:
        """Return the journal, opened with the user's key as soon as there is one."""
        if not self._has_key and (key := existing_key(self.folder.root)) is not None:
            self._journal = Journal(self.path, self.folder.name, key, is_guarded=True)
            self._has_key = True
        return self._journal

    @contextmanager
    def _translated(self) -> Generator[None]:
        """Raise errors of the journal as those of a study, with their codes and exit codes."""
        try:
            yield
        except JournalBusy as error:
            raise LockTimeout("E_LOCK", error.message, hint=error.hint) from None
        except JournalBroken as error:
            self._refuse_earlier()
            raise _broken(error.message) from None

    def _refuse_earlier(self) -> None:
        """Raise StudyError E_EARLIER_VERSION for a ledger in the format of earlier versions."""
        with self.path.open("rb") as file:
            if file.read(len(_EARLIER_FORMAT)) != _EARLIER_FORMAT:
                return
        raise StudyError(
            "E_EARLIER_VERSION",
            f"{self.folder.name} was written by an earlier version of telic and can only be "
            "continued with that version.",
            hint=f"Its last report is {self.folder.report}. Start a new study to go on.",
        )


def _broken(message: str) -> BrokenIntegrity:
    return BrokenIntegrity(
        "E_LEDGER_BROKEN",
        message,
        hint="Launches and decisions are blocked. Restore the file from version control.",
    )
