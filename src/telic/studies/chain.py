"""The lines of a ledger: what they say, and whether they are what was written."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, cast

from pydantic import Field

from telic.core.config import Record
from telic.storage.keys import SigningKey
from telic.studies.canonical import (
    LARGEST_EXACT,
    NO_HASH,
    canonical,
    content_hash,
    spelled,
)
from telic.studies.documents.base import DocumentPart, Sha, StudyActor

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


class LedgerBytes:
    """What the file of a ledger holds; a beginning of it is hashed once, however often asked."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self._digests: dict[int, Sha] = {}
        self._hashed, self._size = hashlib.sha256(), 0

    def digest(self, size: int) -> Sha:
        """Return the hash of the first bytes."""
        if size not in self._digests:
            if size < self._size:
                self._hashed, self._size = hashlib.sha256(), 0
            self._hashed.update(memoryview(self.content)[self._size : size])
            self._digests[size], self._size = self._hashed.hexdigest(), size
        return self._digests[size]


class CheckedPart(Record):
    """The first bytes of a ledger, every one of which was checked; known again by their hash."""

    size: int = 0
    digest: Sha = hashlib.sha256(b"").hexdigest()
    head: LedgerHead = LedgerHead(seq=0, hash=NO_HASH)
    signs: bool = False
    """people's decisions are signed from here on"""
    anchors_proven: int = 0
    anchors_of_other_keys: int = 0

    def begins(self, file: LedgerBytes) -> bool:
        """Say whether a ledger begins with these very bytes."""
        return self.size <= len(file.content) and file.digest(self.size) == self.digest


class BadLine(Exception):
    """A line is not what was written; the message says why."""


_LARGE = re.compile(rb"[0-9]{16}")


def decode(line: bytes) -> dict[str, Any]:
    """Read one line; numbers too large for a whole number of JSON are doubles."""
    fields = json.loads(line, parse_int=_whole) if _LARGE.search(line) else json.loads(line)
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


class ChainCheck:
    """A look at every byte of a ledger, or of what was added to a part that was checked before."""

    def __init__(self, key: SigningKey | None, known: CheckedPart | None = None) -> None:
        self._key, self._known = key, known or CheckedPart()

    def check(self, file: LedgerBytes, committed: LedgerHead | None) -> Check:
        """Check a ledger; `committed` is the head that the projections have seen."""
        start = self._known if self._known.begins(file) else CheckedPart()
        content = file.content
        self._head, self._signs = start.head, start.signs
        self._proven, self._others = start.anchors_proven, start.anchors_of_other_keys
        lines = content[start.size :].split(b"\n")
        for line in lines[:-1]:
            try:
                self._follow(line)
            except BadLine as bad:
                return self._bad(self._head.seq + 1, str(bad))
        seq = self._head.seq
        if committed is not None and committed.seq > seq:
            return self._bad(seq + 1, f"state.json has seen line {committed.seq} already")
        if committed is not None and hash_at(content, seq, committed.seq) != committed.hash:
            return self._bad(committed.seq, "state.json knows another line of that number")
        if lines[-1]:
            return self._bad(seq + 1, "it was not written to its end", torn=True)
        return Check(
            ok=True,
            events=seq,
            head=self._head,
            anchors_proven=self._proven,
            anchors_of_other_keys=self._others,
        )

    def checked(self, file: LedgerBytes) -> CheckedPart:
        """Return what a check that found nothing has looked at."""
        return CheckedPart(
            size=len(file.content),
            digest=file.digest(len(file.content)),
            head=self._head,
            signs=self._signs,
            anchors_proven=self._proven,
            anchors_of_other_keys=self._others,
        )

    def _follow(self, line: bytes) -> None:
        event = check_line(line + b"\n", self._head)
        if spelled(decode(line)) != line:
            raise BadLine("it is not spelled canonically")
        if event.type == "ledger.anchor":
            is_ours = _check_anchor(event, self._head, self._key)
            self._proven, self._others = self._proven + is_ours, self._others + (not is_ours)
        self._signs = self._signs or bool(event.data.get(SIGNS))
        _check_decision(event, self._key, is_signed=self._signs)
        self._head = event.head

    def _bad(self, seq: int, why: str, *, torn: bool = False) -> Check:
        head = self._head
        return Check(ok=False, events=head.seq, head=head, bad_seq=seq, why=why, torn=torn)


def hash_at(content: bytes, last: int, seq: int) -> str | None:
    """Return the hash of a line of a ledger whose last whole line has the number `last`."""
    if not 0 < seq <= last:
        return NO_HASH if seq == 0 else None
    end = content.rfind(b"\n") + 1
    for _ in range(last - seq):
        end = content.rfind(b"\n", 0, end - 1) + 1
    start = content.rfind(b"\n", 0, end - 1) + 1
    return str(decode(content[start:end])["hash"])


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


def _whole(text: str) -> int | float:
    value = int(text)
    return value if abs(value) <= LARGEST_EXACT else float(text)
