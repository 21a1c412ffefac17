"""Ledger of a study: a signed journal and the state derived from it.

Appending a line commits a change: files are written before it, and state is derived only from
committed lines. If a process is killed before the append, nothing changes.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

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
from telic.studies.state import StudyState, apply

_EARLIER_FORMAT = b'{"actor":'


class Ledger:
    """Ledger of one study. Use `locked` to exclude other writers."""

    def __init__(self, folder: StudyFolder) -> None:
        self.folder, self.path = folder, folder.ledger
        self.written = 0
        """number of entries committed through this object"""
        self._has_key = False
        self._journal = Journal(self.path, folder.name, guard="path")
        self._state = StudyState(folder.name, self._journal.start)
        self._snapshot = self._state.snapshot()

    # ------------------------------------------------------------------ reading

    def entries(self) -> list[JournalEntry]:
        """Return all entries. Raises BrokenIntegrity E_LEDGER_BROKEN at the first bad line."""
        with self._translated():
            return self._signed().entries()

    @property
    def head(self) -> JournalHead:
        """Number and hash of the last entry. The number is 0 if the ledger is empty."""
        return self.state().ledger_head

    def state(self) -> StudyState:
        """Return the study's state after all entries. Raises the same errors as `entries`."""
        entries, seq = self.entries(), self._state.ledger_head.seq
        if seq and (seq > len(entries) or entries[seq - 1].head != self._state.ledger_head):
            seq = 0  # the file was replaced
            self._state = StudyState(self.folder.name, self._journal.start)
        for entry in entries[seq:]:
            apply(self._state, entry)
        if self._snapshot.ledger_head != self._state.ledger_head:
            self._snapshot = self._state.snapshot()
        return self._snapshot

    def verify(self) -> JournalCheck:
        """Verify the hash chain, the signatures, and the stored copy of the last line."""
        check = self._signed().verify()
        if not check.ok:
            self._refuse_earlier()
        return check

    def require_intact(self) -> None:
        """Raise BrokenIntegrity E_LEDGER_BROKEN unless the ledger verifies."""
        check = self.verify()
        if not check.ok:
            raise _broken(f"Line {check.bad_seq} of {self.path} is invalid: {check.why}.")

    # ------------------------------------------------------------------ writing

    @contextmanager
    def locked(self) -> Generator[None]:
        """Hold the study's reentrant lock. Never hold it during training."""
        with self._translated(), self._journal.locked():
            yield

    def append(
        self, kind: str, subject: str | None, data: dict[str, Any], actor: StudyActor
    ) -> JournalEntry:
        """Commit one entry.

        Raises LockTimeout, or BrokenIntegrity if the ledger is damaged or extended by another
        process.
        """
        with self.locked(), self._translated():
            signing_key(self.folder.root)
            by = actor.model_dump(mode="json", exclude_none=True)
            entry = self._signed().append(kind, data, subject=subject, actor=by)
            self.written += 1
        return entry

    def adopt(self) -> None:
        """Accept the current end of a ledger that was extended on another machine."""
        with self.locked():
            check = self.verify()
            if not check.ok and not check.foreign:
                raise _broken(f"Line {check.bad_seq} of {self.path} is invalid: {check.why}.")
            self._signed().adopt()

    # ------------------------------------------------------------------ internal

    def _signed(self) -> Journal:
        """Return the journal, opened with the user's key once it exists."""
        if not self._has_key and (key := existing_key(self.folder.root)) is not None:
            self._journal = Journal(self.path, self.folder.name, key, guard="path")
            self._has_key = True
        return self._journal

    @contextmanager
    def _translated(self) -> Generator[None]:
        """Convert journal errors to study errors with their codes and exit codes."""
        try:
            yield
        except JournalBusy as error:
            raise LockTimeout("E_LOCK", error.message, hint=error.hint) from None
        except JournalBroken as error:
            self._refuse_earlier()
            raise _broken(error.message) from None

    def _refuse_earlier(self) -> None:
        """Raise StudyError E_EARLIER_VERSION for a ledger in an earlier format."""
        if not self.path.is_file():
            raise BrokenIntegrity(
                "E_LEDGER_GONE",
                f"{self.folder.name} was created here, but its ledger {self.path} is missing.",
                hint="Restore it from version control, or create a study with another name.",
            )
        with self.path.open("rb") as file:
            if file.read(len(_EARLIER_FORMAT)) != _EARLIER_FORMAT:
                return
        raise StudyError(
            "E_EARLIER_VERSION",
            f"{self.folder.name} was written by an earlier version of telic and can only be "
            "continued with that version.",
            hint=f"Its last report is {self.folder.report}. Start a new study to continue.",
        )


def _broken(message: str) -> BrokenIntegrity:
    return BrokenIntegrity(
        "E_LEDGER_BROKEN",
        message,
        hint="Launches and decisions are blocked. Restore the file from version control.",
    )
