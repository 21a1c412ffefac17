"""The last line of every ledger, signed and kept outside of its folder, where no edit reaches it.

A chain of hashes shows that a line was changed, not that all of it was written anew, cut short or
added to. So whoever writes a line through telic notes it here first: what the ledger ends with is
the line that is noted, or it was not written here.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from telic.core.config import Record
from telic.errors import TelicError
from telic.storage.files import read_record, write_json
from telic.storage.keys import config_folder
from telic.studies.canonical import canonical, existing_key, signing_key
from telic.studies.chain import LedgerHead
from telic.studies.folder import StudyFolder


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
