"""Share links: whoever has one reads one thing, until the link is withdrawn.

A link is signed with the user's key and listed beside the runs; the list holds no secret, so who
can read it can make no link. What is not on the list shows nothing, whatever its signature.
"""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from fastapi import APIRouter
from pydantic import Field

from telic.core.config import Record
from telic.errors import TelicError, UnknownName
from telic.storage.files import read_record, write_json
from telic.storage.keys import user_key
from telic.storage.locks import taking_turns
from telic.web.gate import SHARE
from telic.web.place import WebPlace

_FILE = ".shares.json"
_LETTERS = 64
_MOST = 1000


class ShareLine(Record):
    """A link that holds."""

    id: str
    thing: str
    made: str
    """UTC, ISO 8601"""
    note: str = ""


class ShareList(Record):
    """The links of a folder of runs."""

    schema_version: Literal[1] = 1
    shares: tuple[ShareLine, ...] = ()


class ShareLink(Record):
    """A link to hand out."""

    share: ShareLine
    path: str
    """of the address, behind the server's own"""


class ShareRequest(Record):
    """What to share."""

    note: str = Field(default="", max_length=200, description="for whom, or why")


class ShareLinks:
    """The links of a folder of runs."""

    def __init__(self, place: WebPlace) -> None:
        self._place = place

    @property
    def _file(self) -> Path:
        return self._place.runs_dir / _FILE

    def lines(self) -> tuple[ShareLine, ...]:
        """Return the links that hold."""
        if not self._file.exists():
            return ()
        return read_record(self._file, ShareList).shares

    def make(self, thing: str, note: str) -> ShareLink:
        """Make a link to a thing."""
        made = datetime.now(UTC).isoformat(timespec="seconds")
        line = ShareLine(id=secrets.token_hex(8), thing=thing, made=made, note=note)
        with taking_turns(self._file.with_suffix(".lock")):
            kept = (*self.lines(), line)[-_MOST:]
            write_json(self._file, ShareList(shares=kept))
        return ShareLink(share=line, path=f"{SHARE}{line.id}.{self._signature(line)}")

    def withdraw(self, name: str) -> ShareLine:
        """Let a link show nothing any more."""
        with taking_turns(self._file.with_suffix(".lock")):
            known = {line.id: line for line in self.lines()}
            if name not in known:
                raise UnknownName("share", name[:60], list(known))
            left = tuple(line for line in known.values() if line.id != name)
            write_json(self._file, ShareList(shares=left))
        return known[name]

    def thing(self, token: str) -> str | None:
        """Return the thing that a link shows; None: nothing."""
        name, _, signature = token.partition(".")
        if not name or len(token) > 200 or not token.isascii():
            return None
        try:
            line = next((each for each in self.lines() if each.id == name), None)
        except TelicError:  # a damaged list shows nothing
            return None
        if line is None or not secrets.compare_digest(self._signature(line), signature):
            return None
        return line.thing

    def _signature(self, line: ShareLine) -> str:
        key = user_key(self._place.runs_dir)
        content = f"share {line.id} {line.thing} {self._place.runs_dir.resolve()}".encode()
        return key.sign(content).rpartition(":")[2][:_LETTERS]


def routes(place: WebPlace) -> APIRouter:
    """Return the routes of share links."""
    router, shares = APIRouter(tags=["shares"]), ShareLinks(place)

    @router.get("/shares")
    def list_shares() -> tuple[ShareLine, ...]:
        """List the share links that hold."""
        return shares.lines()

    @router.post("/things/{thing}/share")
    def share_thing(thing: str, asked: ShareRequest) -> ShareLink:
        """Make a link with which anybody who reaches this server reads this one thing."""
        place.thing(thing)
        return shares.make(thing, asked.note)

    @router.post("/shares/{share}/withdraw")
    def withdraw_share(share: str) -> ShareLine:
        """Withdraw a share link."""
        return shares.withdraw(share)

    return router
