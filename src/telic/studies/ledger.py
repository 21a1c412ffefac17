"""The ledger: one line an event, each bound to the one before; everything else follows from it.

The append is the commit point: write artefacts first, append, and let the projections follow. A
process killed before the append changed nothing; after it, the projections are made again.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from telic.errors import TelicError
from telic.storage.reading import read_bytes
from telic.studies.canonical import canonical, existing_key, moment, signing_key, utc_now
from telic.studies.chain import (
    EVENT_TYPES,
    BadLine,
    ChainCheck,
    Check,
    CheckedPart,
    LedgerBytes,
    LedgerEvent,
    LedgerHead,
    anchored,
    check_line,
    hash_at,
    line_hash,
)
from telic.studies.documents.base import SYSTEM, Sha, StudyActor
from telic.studies.errors import BrokenIntegrity, LockTimeout, StudyError
from telic.studies.folder import StudyFolder
from telic.studies.index import SMALLEST, LedgerIndex, parse_line, read_index, write_index
from telic.studies.ledger_file import (
    LARGEST_LINE,
    NotedHead,
    commit,
    move_aside,
    note_coming,
    noted_head,
    torn_tail,
    whole_lines,
    why_foreign,
)
from telic.studies.lock import PATIENCE_S, study_lock
from telic.studies.projector import Projection, Projector
from telic.studies.state import StudyState
from telic.studies.state_file import committed_head, save

ANCHOR_EVERY = 50
_RETRIES = 5
_SMALL = 100_000
"""bytes up to which nobody looks for an index"""
_JUMP = timedelta(seconds=5)
_TICK_NS = 100_000_000
"""of a file system's clock, at most: two changes within one look like none"""


@dataclass(frozen=True)
class NewEvent:
    """An event that has no place in the chain yet."""

    type: str
    subject: str | None
    data: dict[str, Any]
    actor: StudyActor


class Ledger:
    """The ledger of one study; what looks and then appends does both inside `locked`."""

    def __init__(self, folder: StudyFolder, patience_s: float = PATIENCE_S) -> None:
        self.folder = folder
        self.path = folder.ledger
        self._patience_s = patience_s
        self.written = 0
        """lines that were committed through this object"""
        self._forget()

    # ------------------------------------------------------------------ reading

    def events(self) -> list[LedgerEvent]:
        """Return all whole lines; raises BrokenIntegrity E_LEDGER_BROKEN at the first bad one."""
        self._read_on()
        if self._index is None:
            return list(self._newest)
        lines = whole_lines(self.path, 0)[: self._index.part.head.seq]
        return [*map(parse_line, lines), *self._newest]

    def events_of(self, *types: str, about: Iterable[str] | None = None) -> list[LedgerEvent]:
        """Return the lines of some types, about some subjects or about anything, in order."""
        self._read_on()
        subjects = None if about is None else frozenset(about)
        known = [] if self._index is None else self._index.events(self.path, types, subjects)
        fresh = (each for each in self._newest if each.type in types)
        return [*known, *(x for x in fresh if subjects is None or x.subject in subjects)]

    @property
    def head(self) -> LedgerHead:
        """The last line; seq 0 and 64 zeros when there is none."""
        self._read_on()
        return self._projector.head

    def state(self) -> StudyState:
        """Return what the ledger comes to; raises BrokenIntegrity at the first bad line."""
        self._read_on()
        return self._projector.state()

    def projection(self) -> Projection:
        """Return all that the ledger comes to at one moment; raises as `state` does."""
        self._read_on()
        return self._projector.projection()

    def _read_on(self) -> None:
        """Take in the lines that are new since last time."""
        if self._size() < self._read_to:
            self._forget()
        self._begin_with_index()
        for line in whole_lines(self.path, self._read_to):
            event = _checked(line, self._projector.head)
            self._projector.apply(event)
            self._newest.append(event)
            self._places.append(self._read_to)
            self._read_to += len(line)
        if len(self._newest) >= SMALLEST:
            self._renew_index()

    def _begin_with_index(self) -> None:
        """Know what was made of the ledger's beginning, where that is still what it was."""
        if self._read_to or self._size() < _SMALL:
            return
        index = read_index(self.folder, self._file())
        if index is not None:
            self._index, self._checked = index, index.part
            self._projector, self._read_to = index.projector(), index.part.size

    def _file(self) -> LedgerBytes:
        """Return what the file holds; read again only when it was written to since."""
        if not self.path.exists():
            return LedgerBytes(b"")
        facts = self.path.stat()
        # The last is the time of a change of any kind, which nobody can set back.
        looks = (facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)
        is_settled = time.time_ns() - facts.st_ctime_ns > _TICK_NS
        if self._bytes is None or self._looks != looks or not is_settled:
            self._looks, self._bytes = looks, LedgerBytes(read_bytes(self.path))
        return self._bytes

    def _size(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0

    def _renew_index(self) -> None:
        """Keep what was read for whoever comes next, if every byte of it holds."""
        file = self._file()
        if len(file.content) != self._read_to:  # others write meanwhile
            file = LedgerBytes(file.content[: self._read_to])
        walk = ChainCheck(existing_key(self.folder.root), self._checked)
        if not walk.check(file, None).ok:
            return
        self._checked = walk.checked(file)
        self._index = write_index(
            self.folder, self._checked, self._projector, self._index, self._newest, self._places
        )
        self._newest, self._places = [], []

    def verify(self) -> Check:
        """Recompute the whole chain, byte by byte; names the first bad line. Changes nothing."""
        return self._check(None)

    def check(self) -> Check:
        """Say whether the chain holds; bytes that were verified before are known by their hash.

        As `verify`, which looks at every line whatever was known before.
        """
        self._begin_with_index()
        return self._check(self._checked)

    def _check(self, known: CheckedPart | None) -> Check:
        file = self._file()
        key, noted = existing_key(self.folder.root), noted_head(self.folder)
        walk = ChainCheck(key, known)
        check = walk.check(file, committed_head(self.folder))
        if not check.ok:
            return check
        self._checked = walk.checked(file)
        hashes = {} if noted is None else _hashes(file.content, noted, check.head)
        if why := why_foreign(noted, hashes, check.head):
            bad = noted.head.seq if noted else 0
            found = {"ok": False, "bad_seq": bad, "why": why, "foreign": True}
            return check.model_copy(update=found)
        return check

    def require_intact(self) -> None:
        """Raise BrokenIntegrity E_LEDGER_BROKEN unless the chain verifies."""
        check = self.verify()
        if not check.ok:
            raise _broken(check.bad_seq or 0, check.why)

    # ------------------------------------------------------------------ writing

    @contextlib.contextmanager
    def locked(self) -> Generator[None]:
        """Hold the study's lock; may be nested. Appends inside see no other writer."""
        with study_lock(self.folder.lock, self._patience_s) as broken_lock:
            self._recover()
            if broken_lock is not None:
                self._write(NewEvent("note.added", None, {"text": broken_lock}, SYSTEM))
            yield

    def append(
        self,
        type: str,
        subject: str | None,
        data: dict[str, Any],
        actor: StudyActor,
        *,
        expect_head: Sha | None = None,
    ) -> LedgerEvent:
        """Commit one event, then rewrite the projections.

        Raises StudyError E_EVENT for an unknown type or a line over 64 KiB, LockTimeout E_HEAD when
        the head is no longer `expect_head`, BrokenIntegrity when the end of the chain is damaged.
        """
        if type not in EVENT_TYPES:
            raise StudyError("E_EVENT", f'There is no event of type "{type}".')
        with self.locked():
            head, before = self.head, self.state()
            is_saved = committed_head(self.folder) == head
            if expect_head is not None and head.hash != expect_head:
                raise LockTimeout(
                    "E_HEAD", "The ledger has grown since it was read.", hint="Read it again."
                )
            self._require_ours(type)
            event = self._write(NewEvent(type, subject, data, actor))
            if event.type == "decision.recorded" or event.seq % ANCHOR_EVERY == 0:
                self._write_anchor(event.head)
            save(self.folder, self.state(), before if is_saved else None)
        return event

    def append_from(self, make: Callable[[StudyState], NewEvent]) -> LedgerEvent:
        """Commit what `make` comes to from the present state, without a lock while it thinks.

        When others wrote meanwhile it is asked again, five times; then LockTimeout E_HEAD.
        """
        for attempt in range(_RETRIES + 1):
            state = self.state()
            new = make(state)
            try:
                return self.append(
                    new.type, new.subject, new.data, new.actor, expect_head=state.ledger_head.hash
                )
            except LockTimeout as error:
                if error.code != "E_HEAD" or attempt == _RETRIES:
                    raise
        raise AssertionError("unreachable")

    def adopt(self) -> None:
        """Take a ledger that was written elsewhere for ours, from its present end on."""
        with self.locked():
            check = self.verify()
            if not check.ok and not check.foreign:
                raise _broken(check.bad_seq or 0, check.why)
            note_coming(self.folder, self.head, None)

    def anchor(self) -> LedgerEvent:
        """Sign the head now, with a key outside the repository."""
        with self.locked():
            self.require_intact()
            event = self._write_anchor(self.head)
            save(self.folder, self.state())
        return event

    def rebuild(self) -> StudyState:
        """Make the projections again from the ledger alone."""
        with self.locked():
            self._forget()
            state = self.state()
            save(self.folder, state)
        return state

    # ------------------------------------------------------------------ inside

    def _write(self, new: NewEvent) -> LedgerEvent:
        head, last, data = self.head, self._projector.updated_at, new.data
        if last is not None and moment(utc_now()) < moment(last) - _JUMP:
            # The clock went backwards; order comes from seq, so that is noted and nothing else.
            data = {**data, "clock_behind": last}
        fields = {
            "seq": head.seq + 1,
            "at": utc_now(),
            "type": new.type,
            "actor": new.actor.model_dump(mode="json", exclude_none=True),
            "study": self.folder.name,
            "subject": new.subject,
            "data": data,
            "prev": head.hash,
        }
        line = canonical({**fields, "hash": line_hash(fields)}) + b"\n"
        if len(line) > LARGEST_LINE:
            raise StudyError(
                "E_EVENT",
                f"The {new.type} event is {len(line):,} bytes long; {LARGEST_LINE:,} is the most.",
                hint="Put the payload into an evidence file and name its hash.",
            )
        now = LedgerHead(seq=head.seq + 1, hash=line_hash(fields))
        note_coming(self.folder, head, now)
        commit(self.path, line)
        # Noted as written, too: else nobody could tell a last line that was cut off from a crash.
        note_coming(self.folder, now, None)
        self.written += 1
        return _checked(line, head)

    def _require_ours(self, type: str) -> None:
        """Raise BrokenIntegrity rather than add a line to a ledger that was not written here."""
        noted, head = noted_head(self.folder), self.head
        if head.seq == 0 and type == "study.created":
            return  # begun anew: nothing is added to
        hashes = {} if noted is None else self._known_hashes(noted.head.seq)
        if why := why_foreign(noted, hashes, head):
            raise _broken(head.seq, why)

    def _known_hashes(self, seq: int) -> dict[int, str]:
        before = self.head.seq - len(self._newest)
        if before < seq <= self.head.seq:
            return {seq: self._newest[seq - before - 1].hash}
        found = hash_at(read_bytes(self.path), self.head.seq, seq) if 0 < seq <= before else None
        return {} if found is None else {seq: found}

    def _recover(self) -> None:
        """Move a last line that a crash tore aside, and say so in the ledger."""
        torn = torn_tail(self.path)
        if torn is None:
            return
        seen = committed_head(self.folder)
        if seen is not None and torn.seq <= seen.seq:
            raise _broken(torn.seq, "it was whole once and is damaged now")
        facts = move_aside(self.path, torn)
        self._write(NewEvent("ledger.recovered", None, facts, SYSTEM))

    def _write_anchor(self, head: LedgerHead) -> LedgerEvent:
        """Sign the head with a key outside the repository; say why when that is not possible.

        The event before is committed already, so this may not fail.
        """
        facts: dict[str, Any] = {"head": head.as_data(), "sig": None}
        try:
            signed = canonical(anchored(self.folder.name, head))
            facts["sig"] = signing_key(self.folder.root).sign(signed)
        except TelicError as error:
            facts["why"] = str(error)
        return self._write(NewEvent("ledger.anchor", None, facts, SYSTEM))

    def _forget(self) -> None:
        self._projector = Projector(self.folder.name)
        self._index: LedgerIndex | None = None
        self._newest: list[LedgerEvent] = []
        """lines that came since the index"""
        self._places: list[int] = []
        self._read_to = 0
        self._checked: CheckedPart | None = None
        self._bytes: LedgerBytes | None = None
        self._looks: tuple[int, ...] = ()


def _hashes(content: bytes, noted: NotedHead, head: LedgerHead) -> dict[int, str]:
    """Return the hash of the line whose number is noted."""
    found = hash_at(content, head.seq, noted.head.seq)
    return {} if found is None or noted.head.seq == 0 else {noted.head.seq: found}


def _checked(line: bytes, before: LedgerHead) -> LedgerEvent:
    try:
        return check_line(line, before)
    except BadLine as bad:
        raise _broken(before.seq + 1, str(bad)) from None


def _broken(seq: int, why: str) -> BrokenIntegrity:
    return BrokenIntegrity(
        "E_LEDGER_BROKEN",
        f"The ledger is not what was written: line {seq} is bad, {why}.",
        hint="Launches and decisions are blocked. Restore the file from version control.",
    )
