"""A line of the ledger, and the types it may have."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from telic.studies.canonical import content_hash
from telic.studies.documents.base import Actor, Part, Sha

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


class LedgerHead(Part):
    """The last line of a ledger: its number and its hash."""

    seq: int = Field(ge=0)
    hash: Sha


class LedgerEvent(Part):
    """One line: `hash` covers everything else, `prev` is the hash of the line before."""

    seq: int = Field(ge=1)
    at: str
    type: str
    actor: Actor
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
