"""Paid replies on disk: what was answered once is never paid for again.

<folder>/
    <key>.json               a reply, written by rename the moment it arrived
    <key>.refused-<n>.json   a reply that never became a valid answer; paid, not used again
    <key>.lost-<n>.json      a call that was sent and given up; what it cost is unknown

The files are the account as well: their charges add up to what the session has spent.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from telic.core.config import Record
from telic.llm.budget import Charge
from telic.llm.exits import save_json
from telic.llm.records import RawReply, Request
from telic.storage.files import read_record

_REFUSED, _LOST = ".refused-", ".lost-"


class StoredReply(Record):
    """A reply as it is kept, with what it cost and whom it was for."""

    schema_version: int = 1
    key: str
    role: str
    model: str
    prompt_hash: str | None
    raw: RawReply
    charge: Charge
    """what the budget counted"""
    latency_s: float
    attempts: int


class LostCall(Record):
    """A call that was sent and never came back; the most it may have cost was counted."""

    schema_version: int = 1
    key: str
    role: str
    model: str
    charge: Charge


class Replies:
    """The replies of one session or of one recording."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, key: str) -> StoredReply | None:
        """Return the reply to the request with this key, or None when there is none."""
        path = self._path(key)
        return read_record(path, StoredReply) if path.exists() else None

    def keep(self, reply: StoredReply) -> StoredReply:
        """Write a reply and return it as it was written, without keys."""
        path = self._path(reply.key)
        save_json(path, reply)
        return read_record(path, StoredReply)

    def set_aside(self, key: str) -> None:
        """Stop using a reply that never became a valid answer; it stays in the account."""
        path = self._path(key)
        if path.exists():
            path.rename(self._numbered(key, _REFUSED))

    def lose(self, request: Request[Any], model: str, charge: Charge) -> None:
        """Note a call that was sent and given up."""
        key = request.key(model)
        lost = LostCall(key=key, role=request.role, model=model, charge=charge)
        save_json(self._numbered(key, _LOST), lost)

    def kept(self) -> list[StoredReply]:
        """Return every usable reply, by key."""
        return [read_record(each, StoredReply) for each in self._files() if _is_usable(each)]

    def charges(self, model: str | None = None) -> list[Charge]:
        """Return what every call to a model, or to any, has cost so far, usable or not."""
        calls = [
            read_record(each, LostCall if _LOST in each.name else StoredReply)
            for each in self._files()
        ]
        return [each.charge for each in calls if model in (None, each.model)]

    def _files(self) -> list[Path]:
        # A killed writer may have left an unfinished file; its name starts with a dot.
        return sorted(each for each in self.folder.glob("*.json") if each.name[0] != ".")

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.json"

    def _numbered(self, key: str, mark: str) -> Path:
        number = 1
        while (path := self.folder / f"{key}{mark}{number}.json").exists():
            number += 1
        return path


def _is_usable(path: Path) -> bool:
    return _REFUSED not in path.name and _LOST not in path.name
