"""Whether the lines of a ledger are what was written, and where they stop being so."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from telic.core.config import Record
from telic.studies.canonical import NO_HASH, spelled
from telic.studies.documents.ledger import LedgerEvent, LedgerHead
from telic.studies.keys import SigningKey

_LARGEST_EXACT = 2**53 - 1
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
    anchors_proven: int = 0
    anchors_of_other_keys: int = 0


class BadLine(Exception):
    """A line is not what was written; the message says why."""


def decode(line: bytes) -> dict[str, Any]:
    """Read one line; numbers too large for a whole number of JSON are doubles."""
    found = json.loads(line, parse_int=_whole)
    if not isinstance(found, dict):
        raise ValueError("not an object")
    return found


def check_line(line: bytes, before: LedgerHead) -> LedgerEvent:
    """Return the event of a line that follows `before`; raises BadLine."""
    try:
        event = LedgerEvent.model_validate(decode(line))
    except ValueError:
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
    proven = others = 0
    lines = content.split(b"\n")
    for line in lines[:-1]:
        try:
            event = check_line(line + b"\n", head)
            if spelled(decode(line)) != line:
                raise BadLine("it is not spelled canonically")
            if event.type == "ledger.anchor":
                is_ours = _check_anchor(event, head, key)
                proven, others = proven + is_ours, others + (not is_ours)
        except BadLine as bad:
            return _bad(head, head.seq + 1, str(bad))
        if committed is not None and event.seq == committed.seq and event.hash != committed.hash:
            return _bad(head, event.seq, "state.json knows another line of that number")
        head = event.head
    if committed is not None and committed.seq > head.seq:
        return _bad(head, head.seq + 1, f"state.json has seen line {committed.seq} already")
    if lines[-1]:
        return _bad(head, head.seq + 1, "it was not written to its end").model_copy(
            update={"torn": True}
        )
    return Check(
        ok=True, events=head.seq, head=head, anchors_proven=proven, anchors_of_other_keys=others
    )


def anchored(study: str, head: LedgerHead) -> dict[str, Any]:
    """Return what an anchor signs."""
    return {"study": study, "seq": head.seq, "hash": head.hash}


def _check_anchor(event: LedgerEvent, before: LedgerHead, key: SigningKey | None) -> bool:
    """Return True when our key proves the anchor, False when another key made it."""
    named = event.data.get("head")
    if not isinstance(named, dict) or named.get("hash") != before.hash:
        raise BadLine("the anchor does not name the line before it")
    signature = event.data.get("sig")
    if signature is None or key is None or not str(signature).startswith(f"{key.id}:"):
        return False
    if not key.has_signed(anchored(event.study, before), str(signature)):
        raise BadLine("the anchor's signature is wrong")
    return True


def _bad(head: LedgerHead, seq: int, why: str) -> Check:
    return Check(ok=False, events=head.seq, head=head, bad_seq=seq, why=why)


def _whole(text: str) -> int | float:
    value = int(text)
    return value if abs(value) <= _LARGEST_EXACT else float(text)
