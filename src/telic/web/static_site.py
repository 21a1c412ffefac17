"""The pages of a thing as files that open from disk: the built pages with the answers of the API.

The application itself is asked, without a network, and its answers are written beside the built
pages as one script: a browser loads plain scripts from disk, and nothing else.
"""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from fastapi import FastAPI

from telic.core.config import Record
from telic.errors import UsageError
from telic.llm.keys import redact
from telic.storage.files import write_text
from telic.storage.workspace import Thing
from telic.verbs.lines import thing_id
from telic.web.app import STATIC, make_app
from telic.web.curves import read_lines
from telic.web.files import files_of
from telic.web.gate import API
from telic.web.place import WebPlace
from telic.web.streams import events_log, is_event

_DATA, _FILES, _LIST = "data.js", "files", "site.json"
_EPISODES, _POSE_BYTES = 20, 24 << 20
"""limits on recorded episodes: those of the best policy first, then the newest"""
_COPIED_BYTES = 200 << 20
_POINTS = 600
_PAGE = """<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <meta name="color-scheme" content="light dark" />
    <title>telic</title>
    <link rel="icon" href="data:," />
    <link rel="stylesheet" href="site.css" />
  </head>
  <body>
    <div id="root"></div>
    <noscript>This page is a program in JavaScript.</noscript>
    <script src="data.js"></script>
    <script src="site.js"></script>
  </body>
</html>
"""


class SavedSite(Record):
    """Files of a saved site."""

    page: str
    files: int
    bytes: int
    episodes: int
    """recorded episodes that can be played"""
    left_out: int
    """recorded episodes beyond the limit"""


def write_site(thing: Thing, runs_dir: Path, root: Path, folder: Path) -> SavedSite:
    """Write the pages of a thing into a folder of their own.

    Raises UsageError when the folder holds something else, or the pages were not built.
    """
    if not (STATIC / "site" / "site.js").exists():
        raise UsageError(
            "The pages of the dashboard are not part of this installation.",
            hint="Build them once with: make web (needs Node 20 or newer).",
        )
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set[str]()
    if (folder.exists() and not folder.is_dir()) or (names and _LIST not in names):
        raise UsageError(
            f"{folder} is not empty and holds no earlier site.", hint="Choose a new folder."
        )
    with ThreadPoolExecutor(1) as thread:
        saved = _Saved(WebPlace(runs_dir, root), thing, thread)
        saved.gather()
    (folder / _FILES).mkdir(parents=True, exist_ok=True)
    write_text(folder / _LIST, json.dumps({"thing": thing_id(thing)}))
    for name in ("site.js", "site.css"):
        shutil.copyfile(STATIC / "site" / name, folder / name)
    for name, source in saved.copies.items():
        shutil.copyfile(source, folder / _FILES / name)
    write_text(folder / _DATA, saved.script())
    write_text(folder / "index.html", _PAGE)
    files = [path for path in folder.rglob("*") if path.is_file()]
    return SavedSite(
        page=str(folder / "index.html"),
        files=len(files),
        bytes=sum(path.stat().st_size for path in files),
        episodes=saved.episodes,
        left_out=saved.left_out,
    )


class _Saved:
    """Answers of the API about one thing."""

    def __init__(self, place: WebPlace, thing: Thing, thread: ThreadPoolExecutor) -> None:
        self._place, self._thing, self._thread = place, thing, thread
        self._app: FastAPI = make_app(place)
        self._home = f"{API}/things/{quote(thing_id(thing), safe='')}"
        self._answers: dict[str, Any] = {}
        self._bytes: dict[str, str] = {}
        self.copies: dict[str, Path] = {}
        """files to copy, by their new name"""
        self.episodes = self.left_out = 0

    def gather(self) -> None:
        """Ask for everything that the pages show."""
        detail = self._keep(self._home)
        if detail is None:
            raise UsageError(f"{self._thing.name} cannot be read.")
        session: dict[str, Any] = detail["session"] or {"iterations": (), "summary": None}
        for each in session["iterations"]:
            self._keep(f"{self._home}/iterations/{each['number']}")
            self._gather_curves(f"?iteration={each['number']}")
        match self._thing.kind:
            case "run":
                self._gather_curves("")
                self._keep(f"{self._home}/tracking")
            case "study":
                self._keep(f"{self._home}/runs")
                found: Any = self._keep(f"{self._home}/candidates") or {"candidates": []}
                for candidate in found["candidates"]:
                    name = quote(str(candidate["id"]), safe="")
                    self._keep(f"{self._home}/gates?candidate={name}")
            case _:
                pass
        self._gather_files(session["summary"] or {})

    def script(self) -> str:
        """Return all answers as a script, without keys of model providers."""
        events, position = list[Any](), 0
        while lines := read_lines(events_log(self._thing), position):
            events += [json.loads(line.text) for line in lines if is_event(line.text)]
            position = lines[-1].end
        site = {
            "thing": thing_id(self._thing),
            "made": datetime.now(UTC).isoformat(timespec="seconds"),
            "answers": self._answers,
            "bytes": self._bytes,
            "events": events,
        }
        return f"window.TELIC_SITE={redact(json.dumps(site, separators=(',', ':')))};\n"

    def _gather_curves(self, query: str) -> None:
        address = f"{self._home}/series{query}{'&' if query else '?'}"
        known = self._ask(f"{address}points=3")
        if known is not None:
            names = "".join(f"&name={quote(name, safe='')}" for name in known["names"])
            curves = self._ask(f"{address}points={_POINTS}{names}") if names else None
            self._answers[f"{self._home}/series{query}"] = curves or known

    def _gather_files(self, summary: dict[str, Any]) -> None:
        """Take episodes along as far as there is room, and copy the other files."""
        files: list[Any] = self._ask(f"{self._home}/files")
        paths = {key: found.path for key, found in files_of(self._thing).items()}
        best = summary.get("best_iteration"), summary.get("best_member")

        def order(file: dict[str, Any]) -> tuple[bool, bool, int, int]:
            is_best = (file["iteration"], file["member"]) == best
            newest = -(file["step"] or 0), -(file["iteration"] or 0)
            return not is_best, not file["is_judged"] and file["label"] != "median", *newest

        recorded = [file for file in files if file["kind"] == "recording"]
        kept, room = dict[str, Any](), _POSE_BYTES
        for file in sorted(recorded, key=order)[:_EPISODES]:
            size = self._gather_episode(file, room)
            room -= size
            kept |= {file["key"]: file} if size else {}
        self.episodes, self.left_out = len(kept), len(recorded) - len(kept)
        room = _COPIED_BYTES
        for file in reversed(files):
            if file["kind"] != "recording" and file["bytes"] <= room:
                room -= file["bytes"]
                name = f"{file['key']}{Path(file['name']).suffix}"
                self.copies[name] = self._place.inside(paths[file["key"]])
                kept[file["key"]] = {**file, "url": f"{_FILES}/{name}"}
        shown = [kept[file["key"]] for file in files if file["key"] in kept]
        self._answers[f"{self._home}/files"] = shown

    def _gather_episode(self, file: dict[str, Any], room: int) -> int:
        """Keep an episode if there is room; return its bytes, 0 if it is left out."""
        address, number = f"{self._home}/playback/{file['key']}", file["iteration"]
        query = "" if number is None else f"?iteration={number}"
        facts = self._ask(address)
        poses = {f"{address}/poses": self._ask_bytes(f"{address}/poses")}
        if facts is not None and facts["has_reference"]:
            reference = f"{address}/poses?of=reference"
            poses[reference] = self._ask_bytes(reference)
        size = sum(len(content or b"") for content in poses.values())
        if facts is None or not all(poses.values()) or size > room:
            return 0
        scene = f"{self._home}/scene"
        if f"{scene}{query}" not in self._answers:
            shapes = self._keep(f"{scene}{query}")
            if shapes["number_bytes"]:
                poses[f"{scene}/numbers{query}"] = self._ask_bytes(f"{scene}/numbers{query}")
        self._answers[address] = facts
        for where, content in poses.items():
            self._bytes[where] = base64.b64encode(content or b"").decode()
        return size

    def _keep(self, address: str) -> Any:
        found = self._ask(address)
        if found is not None:
            self._answers[address] = found
        return found

    def _ask(self, address: str) -> Any:
        body = self._ask_bytes(address)
        return None if body is None else json.loads(body)

    def _ask_bytes(self, address: str) -> bytes | None:
        """Ask the application; None where there is no answer (yet)."""
        # In a thread of its own: the caller may have a running event loop.
        status, body = self._thread.submit(asyncio.run, self._request(address)).result()
        return body if status == 200 else None

    async def _request(self, address: str) -> tuple[int, bytes]:
        parts = urlsplit(address)
        scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": parts.path,
            "raw_path": parts.path.encode(),
            "query_string": parts.query.encode(),
            "headers": [(b"host", b"127.0.0.1")],
            "server": ("127.0.0.1", 80),
            "client": ("127.0.0.1", 1),
            "root_path": "",
        }
        status, body = 0, list[bytes]()

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            nonlocal status
            status = message.get("status", status)
            body.append(message.get("body", b""))

        await self._app(scope, receive, send)
        return status, b"".join(body)
