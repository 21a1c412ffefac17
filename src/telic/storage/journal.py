"""Journal of a loop: append-only JSONL with a hash chain and signatures, replayed on resume.

Sessions, searches, tracking runs and studies record their steps in journals. Appending a line
commits a step: a step without a line has no effect, and a line is found when the work is resumed.
The format of a line is

    {"entry":{"seq":…,"at":…,"kind":…,"subject":…,"actor":…,"data":{…},"prev":…},"hash":"…","sig":…}

`hash` is the SHA-256 of the bytes of `entry`. `prev` is the hash of the previous line (of the
journal's name for the first line). `sig` is the user's signature of `hash`, which covers all
previous lines. Editing, inserting, removing or reordering lines breaks the chain, and a new chain
would lack the signatures. In a guarded journal, every line must be signed and the last line is
copied to the user's folder, so that truncation, rewriting and replacement by an earlier copy are
detected.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from filelock import FileLock, Timeout
from pydantic import BaseModel, ValidationError

from telic.core.config import Record
from telic.errors import BadFile, TelicError
from telic.storage.files import as_record, disk_errors, open_append, plain, read_record, write_json
from telic.storage.keys import SigningKey, config_folder, signer_of
from telic.storage.reading import check_file

TIMEOUT_S = 30.0
"""timeout in seconds when waiting for another writer"""
_RETRIES, _RETRY_S = 4, 0.02
_HEAD = b'{"entry":'
_HASH = b',"hash":"'
_Kind = TypeVar("_Kind", bound=BaseModel)


class JournalBroken(TelicError):
    """Raised if a line of a journal differs from the line that was written."""


class JournalBusy(TelicError):
    """Raised if another process is writing to the journal or has written since it was read."""


class JournalHead(Record):
    """Number and hash of the last line in a journal."""

    seq: int
    hash: str


class JournalEntry(Record):
    """One line of a journal."""

    seq: int
    at: str
    """UTC, e.g. 2026-08-01T09:00:00.123Z"""
    kind: str
    subject: str | None = None
    """subject of the entry, e.g. a step, a candidate or a run"""
    actor: dict[str, Any] | None = None
    """person or program that caused the entry"""
    data: dict[str, Any]
    prev: str
    hash: str
    sig: str | None = None

    @property
    def head(self) -> JournalHead:
        """Head of a journal that ends with this entry."""
        return JournalHead(seq=self.seq, hash=self.hash)

    @property
    def has_wrong_signature(self) -> bool:
        """Return whether the signature is invalid. Old signature formats are not checked."""
        is_checked = (self.sig or "").startswith("ed25519:")
        return is_checked and signer_of(self.hash.encode(), self.sig) is None


class JournalCheck(Record):
    """Result of verifying all lines of a journal."""

    ok: bool
    head: JournalHead
    signer: str | None = None
    """public key that signed the last line, or None if unsigned"""
    bad_seq: int | None = None
    why: str = ""
    torn: bool = False
    """true if only the last line is truncated (the next append removes it)"""
    foreign: bool = False
    """true if the chain is valid but its last line was not written on this machine"""
    unsigned: int = 0
    """number of lines that are unsigned or signed with another key"""


class _NotedHead(Record):
    """Copy of the last line of a guarded journal, stored in the user's folder."""

    head: JournalHead
    coming: JournalHead | None = None
    """line to be written (may be missing in the journal after a crash)"""
    sig: str | None = None

    def signed(self) -> bytes:
        return self.model_dump_json(exclude={"sig"}).encode()


class _BadLine(NamedTuple):
    seq: int
    why: str
    torn: bool = False


class Journal:
    """Append-only journal to which several processes can write in turn."""

    def __init__(
        self,
        path: Path,
        name: str,
        key: SigningKey | None = None,
        *,
        guard: Literal["path", "copies"] | None = None,
    ) -> None:
        """Open a journal. The first append creates the file.

        Args:
            path: the JSONL file.
            name: name of the work. A journal copied from other work fails verification.
            key: key that signs every line, or None if the user has no usable key.
            guard: copy the last line to the user's folder, to detect changes of the journal at
                this "path", or earlier states of any of its "copies".
        """
        self.path, self.name = path, name
        self.start = JournalHead(seq=0, hash=hashlib.sha256(name.encode()).hexdigest())
        """head of an empty journal"""
        self._key, self._guard = key, guard
        # One lock per path, so that two journals of one thread may be nested.
        self._lock = FileLock(path.with_name(f"{path.name}.lock"), is_singleton=True)
        self._mutex = threading.RLock()  # a session judges and trains in different threads
        self._forget()

    # ------------------------------------------------------------------------------ reading

    def entries(self) -> list[JournalEntry]:
        """Return all entries, oldest first. Raises JournalBroken at the first invalid line."""
        with self._mutex:
            bad = self._read_on()
            if bad is not None and not bad.torn:
                raise self._broken(bad)
            return list(self._entries)

    @property
    def head(self) -> JournalHead:
        """Number and hash of the last line. The number is 0 if the journal is empty."""
        self.entries()
        return self._end

    @property
    def _end(self) -> JournalHead:
        return self._entries[-1].head if self._entries else self.start

    def find(self, kind: str, subject: str | None = None) -> JournalEntry | None:
        """Return the latest entry with this kind and subject."""
        self.entries()
        return self._latest.get((kind, subject))

    def recorded(self, kind: str, record: type[_Kind], subject: str | None = None) -> _Kind | None:
        """Return the latest record with this kind and subject, or None."""
        entry = self.find(kind, subject)
        if entry is None:
            return None
        return as_record(entry.data, record, f"{self.path}, line {entry.seq}")

    def verify(self) -> JournalCheck:
        """Read the whole file again, and check the chain, the signatures and the recorded head."""
        check = self._verify_once()
        for _ in range(_RETRIES):
            if check.ok or not (check.foreign or check.torn):
                break
            # Another process may be appending: it updates the journal and the note separately.
            time.sleep(_RETRY_S)
            check = self._verify_once()
        return check

    def _verify_once(self) -> JournalCheck:
        with self._mutex:
            self._forget()
            bad = self._read_on()
        signers = [signer_of(entry.hash.encode(), entry.sig) for entry in self._entries]
        if bad is None and (wrong := [x for x in self._entries if x.has_wrong_signature]):
            bad = _BadLine(wrong[0].seq, "its signature is invalid")
        check = JournalCheck(
            ok=bad is None,
            head=self._end,
            signer=signers[-1] if signers else None,
            unsigned=sum(signer != self._public for signer in signers),
        )
        if bad is not None:
            update = {"bad_seq": bad.seq, "why": bad.why, "torn": bad.torn}
            return check.model_copy(update=update)
        if why := self._why_foreign():
            update = {"ok": False, "bad_seq": check.head.seq, "why": why, "foreign": True}
            return check.model_copy(update=update)
        return check

    # ------------------------------------------------------------------------------ writing

    @contextmanager
    def locked(self) -> Generator[None]:
        """Hold the reentrant lock for writing. Raises JournalBusy after `TIMEOUT_S`."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with self._lock.acquire(timeout=TIMEOUT_S), self._mutex:
                yield
        except Timeout:
            raise JournalBusy(
                f"Another process is writing to {self.path}.", hint="Try again when it is finished."
            ) from None

    def append(
        self,
        kind: str,
        data: BaseModel | Mapping[str, Any],
        *,
        subject: str | None = None,
        actor: Mapping[str, Any] | None = None,
        expected: JournalHead | None = None,
    ) -> JournalEntry:
        """Commit one entry.

        Raises:
            JournalBroken: the journal does not verify.
            JournalBusy: the head differs from `expected`.
        """
        with self.locked():
            self._drop_torn_line()
            head = self.head
            if expected is not None and head != expected:
                raise JournalBusy(f"{self.path} has changed since it was read.", hint="Try again.")
            if why := self._why_foreign():
                raise self._broken(_BadLine(head.seq, why))
            fields = {
                "seq": head.seq + 1,
                "at": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
                "kind": kind,
                "subject": subject,
                "actor": actor,
                "data": data,
                "prev": head.hash,
            }
            body = json.dumps(
                plain(fields), separators=(",", ":"), ensure_ascii=False, allow_nan=False
            ).encode()
            coming = JournalHead(seq=head.seq + 1, hash=hashlib.sha256(body).hexdigest())
            signature = None if self._key is None else self._key.sign(coming.hash.encode())
            self._note(head, coming)
            self._write(_line(body, coming.hash, signature))
            self._note(coming, None)
            entry = self.entries()[-1]
        return entry

    def once(
        self, kind: str, record: type[_Kind], make: Callable[[], _Kind], subject: str | None = None
    ) -> _Kind:
        """Return the record of a completed step, or run the step and record its result."""
        if (known := self.recorded(kind, record, subject)) is not None:
            return known
        return as_record(self.append(kind, make(), subject=subject).data, record, str(self.path))

    def adopt(self) -> None:
        """Accept the current content of a journal that was written on another machine."""
        with self.locked():
            self._note(self.head, None)

    # ------------------------------------------------------------------------------ the file

    def _forget(self) -> None:
        self._entries: list[JournalEntry] = []
        self._latest: dict[tuple[str, str | None], JournalEntry] = {}
        self._size = 0

    def _read_on(self) -> _BadLine | None:
        """Parse the lines added since the last read and return the first invalid line."""
        size = check_file(self.path) if self.path.exists() else 0
        if size < self._size:
            self._forget()
        if size == self._size:
            return None
        with self.path.open("rb") as file:
            file.seek(self._size)
            lines = file.read().split(b"\n")
        before = self._end
        for left, line in zip(range(len(lines) - 1, 0, -1), lines[:-1], strict=True):
            entry = _parse(line, before)
            if isinstance(entry, str):
                return _BadLine(before.seq + 1, entry)
            if self._guard is not None and not entry.sig:
                return _BadLine(entry.seq, "its signature is missing or invalid")
            if left == 1 and entry.has_wrong_signature:  # the last one covers all before it
                return _BadLine(entry.seq, "its signature is invalid")
            self._entries.append(entry)
            self._latest[entry.kind, entry.subject] = entry
            self._size += len(line) + 1
            before = entry.head
        return _BadLine(before.seq + 1, "it is incomplete", torn=True) if lines[-1] else None

    def _drop_torn_line(self) -> None:
        """Remove a last line that was truncated by a crash and thus never committed."""
        bad = self._read_on()
        if bad is not None and bad.torn:
            noted = self._noted()
            if isinstance(noted, _NotedHead) and noted.head.seq >= bad.seq:
                raise self._broken(_BadLine(bad.seq, "it was complete before and is corrupted now"))
            os.truncate(self.path, self._size)

    def _write(self, line: bytes) -> None:
        with disk_errors(self.path), open_append(self.path) as file:
            start = os.fstat(file.fileno()).st_size
            if os.write(file.fileno(), line) < len(line):
                os.ftruncate(file.fileno(), start)
                raise OSError(errno.ENOSPC, "it was only partially written")
            os.fsync(file.fileno())

    def _broken(self, bad: _BadLine) -> JournalBroken:
        return JournalBroken(
            f"Line {bad.seq} of {self.path} was modified: {bad.why}.",
            hint="Restore the file from a backup. All following lines are untrusted.",
        )

    # ------------------------------------------------------------------------------ signatures

    @property
    def _public(self) -> str | None:
        return None if self._key is None else self._key.public

    def _noted_files(self, first: str) -> list[Path]:
        """Return the paths of the head's copies, named after the first line's hash and the path."""
        # A link to its folder leads to the same journal. Earlier versions did not follow links.
        paths = [self.path.resolve(), self.path.absolute()] if self._guard == "path" else []
        texts = dict.fromkeys((*map(str, paths), first))
        names = [hashlib.sha256(each.encode()).hexdigest()[:24] for each in texts]
        return [config_folder() / "heads" / f"{name}.json" for name in names]

    def _note(self, head: JournalHead, coming: JournalHead | None) -> None:
        if self._guard is None or self._key is None:
            return
        noted = _NotedHead(head=head, coming=coming)
        signed = noted.model_copy(update={"sig": self._key.sign(noted.signed())})
        first = self._entries[0].hash if self._entries else (coming or head).hash
        for path in self._noted_files(first):
            write_json(path, signed)

    def _noted(self) -> _NotedHead | str | None:
        """Return the noted last line, None if nothing was noted, or why the note is invalid."""
        first = self._entries[0].hash if self._entries else ""
        found = [path for path in self._noted_files(first) if path.is_file()]
        if self._guard is None or self._key is None or not found:
            return None
        with suppress(BadFile):
            noted = read_record(found[0], _NotedHead)
            if signer_of(noted.signed(), noted.sig) == self._public:
                return noted
        return "the record of its last line is not signed with your key"

    def _why_foreign(self) -> str | None:
        """Return why this journal was not written on this machine, or None if it may have been."""
        noted = None if self._guard is None else self._noted()
        if isinstance(noted, str):
            return noted
        head = self._end
        ours = f"ed25519:{self._public}:"
        others = sum(not (entry.sig or "").startswith(ours) for entry in self._entries)
        if noted is None and self._guard and self._key and others:
            return f"{others} of {len(self._entries)} lines are not signed with your key"
        if noted is None and self._guard == "path" and self._key and self._entries:
            return "the record of its last line is missing, so lines may have been removed"
        if noted is None or head in (noted.head, noted.coming):
            return None
        if head.seq < noted.head.seq:
            return f"{noted.head.seq} lines were written, but only {head.seq} are left"
        last = noted.head.seq
        if last and self._entries[last - 1].hash != noted.head.hash:
            return f"line {last} differs from the one written here"
        return f"the lines from {last + 1} on were not written here"


def _line(body: bytes, digest: str, signature: str | None) -> bytes:
    tail = f'{digest}","sig":{json.dumps(signature)}}}\n'
    return _HEAD + body + _HASH + tail.encode()


def _parse(line: bytes, before: JournalHead) -> JournalEntry | str:
    """Parse the line after `before` and return the entry or the reason why it is invalid."""
    front, _, rest = line.rpartition(_HASH)
    body, digest = front.removeprefix(_HEAD), rest[:64].decode(errors="replace")
    try:
        signature = json.loads(rest[64:].removeprefix(b'","sig":').removesuffix(b"}"))
        entry = JournalEntry.model_validate({**json.loads(body), "hash": digest, "sig": signature})
    except (ValueError, TypeError, RecursionError, ValidationError):
        return "it cannot be parsed"
    if hashlib.sha256(body).hexdigest() != digest:
        return "its hash does not match its content"
    if _line(body, digest, entry.sig) != line + b"\n":
        return "it is not in the journal's format"
    if entry.seq != before.seq + 1:
        return f"its number is {entry.seq}"
    if entry.prev != before.hash:
        return "it does not continue the previous line"
    return entry
