"""The lines of a ledger: what they say, their file, and whether they are what was written."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any, NamedTuple, cast

from pydantic import Field

from telic.core.config import Record
from telic.errors import MissingFile, TelicError
from telic.storage.files import disk_errors, disk_full, read_record, write_bytes, write_json
from telic.storage.keys import SigningKey, config_folder
from telic.storage.reading import check_file, read_bytes
from telic.studies.canonical import (
    LARGEST_EXACT,
    NO_HASH,
    canonical,
    content_hash,
    existing_key,
    signing_key,
    spelled,
)
from telic.studies.documents.base import DocumentPart, Sha, StudyActor
from telic.studies.folder import StudyFolder

_GROUPS = {
    "study": "created status imported",
    "contract": "amended",
    "approval": "granted rejected voided",
    "candidate": "created revised validated demoted advanced completed debug withdrawn",
    "gate": "evaluated",
    "launch": "refused intent started aborted",
    "run": "heartbeat_gap finished failed killed lost adopted retried",
    "evidence": "added",
    "monitor": "alert",
    "decision": "proposed recorded",
    "incumbent": "changed",
    "queue": "planned step reordered",
    "work_order": "issued submitted rejected accepted",
    "ledger": "anchor recovered",
    "event": "corrected",
    "stop": "fired",
    "note": "added",
}
EVENT_TYPES = frozenset(
    f"{group}.{name}" for group, names in _GROUPS.items() for name in names.split()
)


SIGNS = "signs_decisions"
"""in the line that begins a study: what people decide in it is signed"""


class LedgerHead(DocumentPart):
    """The last line of a ledger: its number and its hash."""

    seq: int = Field(ge=0)
    hash: Sha


class LedgerEvent(DocumentPart):
    """One line: `hash` covers everything else, `prev` is the hash of the line before."""

    seq: int = Field(ge=1)
    at: str
    type: str
    actor: StudyActor
    study: str
    """task/study"""
    subject: str | None
    """what it is about: a candidate, a run, an approval key, or nothing"""
    data: dict[str, Any]
    prev: Sha
    hash: Sha

    @property
    def head(self) -> LedgerHead:
        """What a ledger that ends here is known by."""
        return LedgerHead(seq=self.seq, hash=self.hash)


def line_hash(fields: dict[str, Any]) -> Sha:
    """Return the hash of a line's fields; `hash` itself is left out."""
    return content_hash({key: value for key, value in fields.items() if key != "hash"})


_AFTER_HASH = b',"prev":"'
_HASH_LENGTH = len(',"hash":""') + 64


class Check(Record):
    """What a look at the whole chain found."""

    ok: bool
    events: int
    head: LedgerHead
    bad_seq: int | None = None
    why: str = ""
    torn: bool = False
    """the last line was not written to its end; the next append moves it aside"""
    foreign: bool = False
    """the chain holds, but it does not end with what was written here"""
    anchors_proven: int = 0
    anchors_of_other_keys: int = 0


class BadLine(Exception):
    """A line is not what was written; the message says why."""


def decode(line: bytes) -> dict[str, Any]:
    """Read one line; numbers too large for a whole number of JSON are doubles."""
    fields = json.loads(line, parse_int=_whole)
    if not isinstance(fields, dict):
        raise ValueError("not an object")
    return cast("dict[str, Any]", fields)


def check_line(line: bytes, before: LedgerHead) -> LedgerEvent:
    """Return the event of a line that follows `before`; raises BadLine."""
    try:
        event = LedgerEvent.model_validate(decode(line))
    except (ValueError, RecursionError):
        raise BadLine("it cannot be read") from None
    if hashlib.sha256(_without_hash(line)).hexdigest() != event.hash:
        raise BadLine("its hash does not match its content")
    if event.seq != before.seq + 1:
        raise BadLine(f"its number is {event.seq}")
    if event.prev != before.hash:
        raise BadLine("it does not follow from the line before")
    return event


def _without_hash(line: bytes) -> bytes:
    """Cut the hash out of a canonical line: what is left is what was hashed, byte for byte.

    Keys are sorted, so the hash stands right before `prev`, and a quote inside a text is escaped,
    so nothing else looks like it.
    """
    front, mark, rest = line.rpartition(_AFTER_HASH)
    if not mark or not front[-_HASH_LENGTH:].startswith(b',"hash":"'):
        raise BadLine("it is not spelled as it was written")
    return front[:-_HASH_LENGTH] + mark + rest.removesuffix(b"\n")


def check_chain(content: bytes, key: SigningKey | None, committed: LedgerHead | None) -> Check:
    """Check every byte of a ledger; `committed` is the head that the projections have seen."""
    head = LedgerHead(seq=0, hash=NO_HASH)
    proven, others, signs = 0, 0, False
    lines = content.split(b"\n")
    for line in lines[:-1]:
        try:
            event = check_line(line + b"\n", head)
            if spelled(decode(line)) != line:
                raise BadLine("it is not spelled canonically")
            if event.type == "ledger.anchor":
                is_ours = _check_anchor(event, head, key)
                proven, others = proven + is_ours, others + (not is_ours)
            signs = signs or bool(event.data.get(SIGNS))
            _check_decision(event, key, is_signed=signs)
        except BadLine as bad:
            return _bad(head, head.seq + 1, str(bad))
        if committed is not None and event.seq == committed.seq and event.hash != committed.hash:
            return _bad(head, event.seq, "state.json knows another line of that number")
        head = event.head
    if committed is not None and committed.seq > head.seq:
        return _bad(head, head.seq + 1, f"state.json has seen line {committed.seq} already")
    if lines[-1]:
        return _bad(head, head.seq + 1, "it was not written to its end", torn=True)
    return Check(
        ok=True, events=head.seq, head=head, anchors_proven=proven, anchors_of_other_keys=others
    )


def anchored(study: str, head: LedgerHead) -> dict[str, Any]:
    """Return what an anchor signs."""
    return {"study": study, "seq": head.seq, "hash": head.hash}


def _check_anchor(event: LedgerEvent, before: LedgerHead, key: SigningKey | None) -> bool:
    """Return True when our key proves the anchor, False when another key made it."""
    head: Any = event.data.get("head")
    if not isinstance(head, dict) or cast("dict[str, Any]", head).get("hash") != before.hash:
        raise BadLine("the anchor does not name the line before it")
    signature = event.data.get("sig")
    if signature is None or key is None or not str(signature).startswith(f"{key.id}:"):
        return False
    if not key.has_signed(canonical(anchored(event.study, before)), str(signature)):
        raise BadLine("the anchor's signature is wrong")
    return True


def decision_signed(study: str, data: dict[str, Any], by: str) -> dict[str, Any]:
    """Return what a person signs with a decision."""
    named = ("decision", "decision_hash", "verdict", "audit", "cause", "incumbent", "trusts_nobody")
    return {"study": study, "by": by, **{name: data.get(name) for name in named}}


def _check_decision(event: LedgerEvent, key: SigningKey | None, *, is_signed: bool) -> None:
    """Refuse a person's decision that no key has signed, or that our key did not."""
    if event.type != "decision.recorded" or event.actor.kind != "human":
        return
    signature = event.data.get("sig")
    if signature is None:
        if is_signed:
            raise BadLine("a person's decision is not signed")
        return
    said = canonical(decision_signed(event.study, event.data, event.actor.label))
    is_ours = key is not None and str(signature).startswith(f"{key.id}:")
    if key is not None and is_ours and not key.has_signed(said, str(signature)):
        raise BadLine("the signature of a person's decision is wrong")


def _bad(head: LedgerHead, seq: int, why: str, *, torn: bool = False) -> Check:
    return Check(ok=False, events=head.seq, head=head, bad_seq=seq, why=why, torn=torn)


def _whole(text: str) -> int | float:
    value = int(text)
    return value if abs(value) <= LARGEST_EXACT else float(text)


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
