"""The file of a ledger: whole lines, a torn end, and the note of its last line kept outside."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any, NamedTuple

from telic.core.config import Record
from telic.errors import MissingFile, TelicError
from telic.storage.files import disk_errors, disk_full, read_record, write_bytes, write_json
from telic.storage.keys import config_folder
from telic.storage.reading import check_file, read_bytes
from telic.studies.canonical import canonical, existing_key, signing_key
from telic.studies.chain import LedgerHead, decode
from telic.studies.folder import StudyFolder

LARGEST_LINE = 64 * 1024


class Torn(NamedTuple):
    """A last line that was not written to its end."""

    seq: int
    start: int


def whole_lines(path: Path, start: int) -> list[bytes]:
    """Return the lines from a place on; a last one without its newline is not there yet."""
    try:
        check_file(path)
        with path.open("rb") as file:
            file.seek(start)
            return [line + b"\n" for line in file.read().split(b"\n")[:-1]]
    except (MissingFile, FileNotFoundError):
        return []


def commit(path: Path, line: bytes) -> None:
    """Append a line by one system call and make it survive a power cut."""
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            start = os.fstat(handle).st_size
            if os.write(handle, line) < len(line):
                os.ftruncate(handle, start)
                raise disk_full(path)
            os.fsync(handle)
        finally:
            os.close(handle)


def move_aside(path: Path, torn: Torn) -> dict[str, int | str]:
    """Keep a torn last line in a file of its own, and shorten the ledger to what is whole."""
    content = read_bytes(path)[torn.start :]
    aside = path.with_name(f"ledger.torn-{torn.seq}")
    write_bytes(aside, content)
    os.truncate(path, torn.start)
    return {"torn_seq": torn.seq, "bytes": len(content), "kept_in": aside.name}


def torn_tail(path: Path) -> Torn | None:
    """Return the last line of a ledger when a crash tore it: no newline, or not JSON."""
    try:
        with path.open("rb") as file:
            start = max(0, file.seek(0, os.SEEK_END) - 3 * LARGEST_LINE)
            file.seek(start)
            tail = file.read()
    except FileNotFoundError:
        return None
    if not tail:
        return None
    ends = tail.endswith(b"\n")
    last = tail.rfind(b"\n", 0, len(tail) - 1 if ends else None) + 1
    if ends and _read(tail[last:]) is not None:
        return None
    before = _read(tail[tail.rfind(b"\n", 0, max(0, last - 1)) + 1 : last])
    seq: Any = before.get("seq") if before else 0
    return Torn((seq if isinstance(seq, int) else 0) + 1, start + last)


def _read(line: bytes) -> dict[str, Any] | None:
    try:
        return decode(line)
    except (ValueError, RecursionError):
        return None


# ---------------------------------------------------------------------------- the noted end
# A chain of hashes shows that a line was changed, not that all of it was written anew, cut short or
# added to. So whoever writes a line through telic notes it first, signed and outside of the study's
# folder, where no edit reaches it: what the ledger ends with is the line that is noted, or it was
# not written here.


class NotedHead(Record):
    """heads/<study>.json in the user's folder."""

    ledger: str
    """path of the ledger"""
    head: LedgerHead
    """the last line that is known to be written"""
    coming: LedgerHead | None = None
    """the line that was about to be written; a crash leaves it written or not"""
    sig: str

    def signed(self) -> bytes:
        """Return what the signature covers."""
        return canonical({"ledger": self.ledger, "head": self.head, "coming": self.coming})


def noted_head(folder: StudyFolder) -> NotedHead | None:
    """Return what is noted of a ledger; None when nothing is, or not by this user's key."""
    path, key = _file(folder), existing_key(folder.root)
    if key is None or not path.is_file():
        return None
    try:
        noted = read_record(path, NotedHead)
    except TelicError:  # whoever breaks the note gains nothing: the ledger counts as unknown
        return None
    return noted if key.has_signed(noted.signed(), noted.sig) else None


def note_coming(folder: StudyFolder, head: LedgerHead, coming: LedgerHead | None) -> None:
    """Note the line that a ledger ends with, and the one that is about to follow."""
    key, path = signing_key(folder.root), _file(folder)
    unsigned = NotedHead(ledger=str(folder.ledger), head=head, coming=coming, sig="")
    write_json(path, unsigned.model_copy(update={"sig": key.sign(unsigned.signed())}))


def why_foreign(noted: NotedHead | None, hashes: dict[int, str], head: LedgerHead) -> str | None:
    """Return why a ledger is not the one that was written here; None when it is, or is unknown.

    Args:
        noted: what is noted of it.
        hashes: of its lines, by number; those of the noted lines are enough.
        head: its last line.
    """
    if noted is None or head in (noted.head, noted.coming):
        return None
    if head.seq < noted.head.seq:
        return f"line {noted.head.seq} was written here, and the ledger ends with line {head.seq}"
    known = {noted.head.hash, noted.coming.hash if noted.coming else None}
    if hashes.get(noted.head.seq) not in known:
        return f"line {noted.head.seq} is not the one that was written here"
    return f"line {noted.head.seq + 1} and what follows were not written here"


def _file(folder: StudyFolder) -> Path:
    name = hashlib.sha256(str(folder.ledger.absolute()).encode()).hexdigest()[:24]
    return config_folder() / "heads" / f"{name}.json"
