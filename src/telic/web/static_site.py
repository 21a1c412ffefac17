"""A thing's pages as files that open from disk: the same pages, with what the server would answer.

Nothing is described a second time: the application itself is asked, without a network, and its
answers are written beside the built pages as one script. A browser loads plain scripts from disk,
so the pages are built for it as one script, too.
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

from telic.core.config import Record
from telic.errors import TelicError, UsageError
from telic.llm.keys import redact
from telic.storage.files import write_text
from telic.storage.workspace import Thing
from telic.verbs.lines import thing_id
from telic.web.app import INVALID, STATIC, make_app
from telic.web.artefacts import find_file
from telic.web.gate import API, Grant
from telic.web.place import WebPlace

_DATA, _FILES = "data.js", "files"
_LIST = "site.json"
_EPISODES, _POSE_BYTES = 20, 24 << 20
"""of recorded episodes that come along: those of the policy that is handed out, then the newest"""
_VIDEO_BYTES = 200 << 20
_POINTS = 600
_COPIED = ("video", "picture", "report", "code", "policy")
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
    """What was written."""

    page: str
    files: int
    bytes: int
    episodes: int
    """recorded episodes that can be played"""
    left_out: int
    """recorded episodes that would have been too much"""


def write_site(thing: Thing, runs_dir: Path, root: Path, folder: Path) -> SavedSite:
    """Write the pages of a thing into a folder of their own, and return what was written.

    Raises UsageError where the folder holds something else, or the pages were not built.
    """
    built = STATIC / "site" / "site.js"
    if not built.exists():
        raise UsageError(
            "The pages of the dashboard are not part of this installation.",
            hint="Build them once with: make web (needs Node 20 or newer).",
        )
    if folder.exists() and (not folder.is_dir() or _is_others(folder)):
        raise UsageError(
            f"{folder} is not empty and holds no earlier site.", hint="Choose a new folder."
        )
    answers = _Answers(WebPlace(runs_dir, root), thing)
    answers.gather()
    (folder / _FILES).mkdir(parents=True, exist_ok=True)
    write_text(folder / _LIST, json.dumps({"thing": answers.name}))
    for name in ("site.js", "site.css"):
        shutil.copyfile(STATIC / "site" / name, folder / name)
    for name, source in answers.copies.items():
        shutil.copyfile(source, folder / _FILES / name)
    write_text(folder / _DATA, answers.script())
    write_text(folder / "index.html", _PAGE)
    files = [path for path in folder.rglob("*") if path.is_file()]
    return SavedSite(
        page=str(folder / "index.html"),
        files=len(files),
        bytes=sum(path.stat().st_size for path in files),
        episodes=answers.episodes,
        left_out=answers.left_out,
    )


def _is_others(folder: Path) -> bool:
    names = {path.name for path in folder.iterdir()}
    return bool(names) and _LIST not in names


class _NotThere(TelicError):
    """The application has no such answer."""


class _Answers:
    """What the application says of one thing to whoever may only read it."""

    def __init__(self, place: WebPlace, thing: Thing) -> None:
        self._app = make_app(place)
        self._thread = ThreadPoolExecutor(1)
        self._place, self._thing = place, thing
        self.name = thing_id(thing)
        self._home = f"{API}/things/{quote(self.name, safe='')}"
        self._answers: dict[str, Any] = {}
        self._bytes: dict[str, str] = {}
        self._events: list[Any] = []
        self.copies: dict[str, Path] = {}
        """files that come along, by the name that they get"""
        self.episodes = self.left_out = 0

    def gather(self) -> None:
        """Ask for everything that the pages show."""
        detail = self._keep(self._home)
        self._keep(f"{API}/about")
        self._gather_events()
        session: dict[str, Any] = detail["session"] or {"iterations": (), "summary": None}
        for each in session["iterations"]:
            self._keep(f"{self._home}/iterations/{each['number']}")
            self._gather_curves(f"?iteration={each['number']}")
        if self._thing.kind == "run":
            self._gather_curves("")
            self._try_to_keep(f"{self._home}/tracking")
        if self._thing.kind == "search":
            self._try_to_keep(f"{self._home}/map")
        if self._thing.kind == "study":
            self._gather_study()
        if self._thing.kind in ("session", "run"):
            self._gather_files(session["summary"] or {})
        else:
            self._answers[f"{self._home}/files"] = []

    def script(self) -> str:
        """Return all of it as a script, without keys of model providers."""
        made = datetime.now(UTC).isoformat(timespec="seconds")
        site = {"thing": self.name, "made": made, "answers": self._answers}
        site |= {"bytes": self._bytes, "events": self._events}
        text = redact(json.dumps(site, separators=(",", ":")))
        return f"window.TELIC_SITE={text};\n"

    def _gather_events(self) -> None:
        after, is_all = 0, False
        while not is_all:
            page = self._ask(f"{self._home}/events?after={after}&limit=1000")
            self._events += [row["data"] for row in page["events"]]
            is_all = page["is_all"] or page["next"] == after
            after = page["next"]

    def _gather_curves(self, query: str) -> None:
        joint = "&" if query else "?"
        known = self._try(f"{self._home}/series{query}{joint}name=episodic_return&points=3")
        names: list[str] = [] if known is None else known["names"]
        asked = "".join(f"&name={quote(name, safe='')}" for name in names)
        if asked:
            address = f"{self._home}/series{query}{joint}points={_POINTS}{asked}"
            self._answers[f"{self._home}/series{query}"] = self._ask(address)

    def _gather_study(self) -> None:
        self._try_to_keep(f"{self._home}/runs")
        found: Any = self._try_to_keep(f"{self._home}/candidates") or {"candidates": []}
        for candidate in found["candidates"]:
            name = quote(str(candidate["id"]), safe="")
            self._try_to_keep(f"{self._home}/gates?candidate={name}")

    def _gather_files(self, summary: dict[str, Any]) -> None:
        files = self._ask(f"{self._home}/files")
        kept = {file["key"]: file for file in self._playable(files, summary)}
        room = _VIDEO_BYTES
        for file in reversed(files):
            if file["kind"] in _COPIED and file["bytes"] <= room:
                room -= file["bytes"]
                name = f"{file['key']}{Path(file['name']).suffix}"
                self.copies[name] = find_file(self._place, self._thing, file["key"]).path
                kept[file["key"]] = {**file, "url": f"{_FILES}/{name}"}
        shown = [kept[file["key"]] for file in files if file["key"] in kept]
        self._answers[f"{self._home}/files"] = shown

    def _playable(self, files: list[Any], summary: dict[str, Any]) -> list[Any]:
        """Take episodes along, as many as there is room for; return their files."""
        best = summary.get("best_iteration"), summary.get("best_member")

        def order(file: dict[str, Any]) -> tuple[bool, bool, int, int]:
            is_best = (file["iteration"], file["member"]) == best
            newest = -(file["step"] or 0), -(file["iteration"] or 0)
            return not is_best, not file["is_judged"] and file["label"] != "median", *newest

        recorded = [file for file in files if file["kind"] == "recording"]
        taken, room = list[Any](), _POSE_BYTES
        for file in sorted(recorded, key=order)[:_EPISODES]:
            size = self._gather_episode(file, room)
            room -= size
            taken += [file] if size else []
        self.episodes, self.left_out = len(taken), len(recorded) - len(taken)
        return taken

    def _gather_episode(self, file: dict[str, Any], room: int) -> int:
        """Take an episode along if there is room; return its bytes, 0 if it stays."""
        address = f"{self._home}/playback/{file['key']}"
        number = file["iteration"]
        query = "" if number is None else f"?iteration={number}"
        try:
            facts, poses = self._ask(address), self._ask_bytes(f"{address}/poses")
            of_reference = f"{address}/poses?of=reference"
            reference = self._ask_bytes(of_reference) if facts["has_reference"] else b""
            scene = self._answers.get(f"{self._home}/scene{query}")
            if scene is None:
                scene = self._ask(f"{self._home}/scene{query}")
        except _NotThere:  # it has no model to draw, or is damaged
            return 0
        size = len(poses) + len(reference)
        if not poses or size > room:
            return 0
        self._answers[address] = facts
        self._bytes[f"{address}/poses"] = _text(poses)
        if reference:
            self._bytes[of_reference] = _text(reference)
        if f"{self._home}/scene{query}" not in self._answers:
            self._answers[f"{self._home}/scene{query}"] = scene
            if scene["number_bytes"]:
                numbers = f"{self._home}/scene/numbers{query}"
                self._bytes[numbers] = _text(self._ask_bytes(numbers))
        return size

    # ---- asking

    def _keep(self, address: str) -> Any:
        self._answers[address] = self._ask(address)
        return self._answers[address]

    def _try_to_keep(self, address: str) -> Any:
        found = self._try(address)
        if found is not None:
            self._answers[address] = found
        return found

    def _try(self, address: str) -> Any:
        """Return an answer; None where there is none yet."""
        try:
            return self._ask(address)
        except _NotThere as error:
            if error.message.startswith(INVALID):  # a question that nobody may ask: our own fault
                raise
            return None

    def _ask(self, address: str) -> Any:
        return json.loads(self._ask_bytes(address))

    def _ask_bytes(self, address: str) -> bytes:
        """Ask the application as a share link would; raises TelicError with what it says."""
        # In a thread of its own: whoever saves a page may have a loop running.
        status, body = self._thread.submit(asyncio.run, self._request(address)).result()
        if status != 200:
            told: dict[str, Any] = json.loads(body)
            raise _NotThere(str(told["message"]), hint=told.get("hint"))
        return body

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
            "grant": Grant(self.name),
        }
        status, parts_of_body = 0, list[bytes]()

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            else:
                parts_of_body.append(message.get("body", b""))

        await self._app(scope, receive, send)
        return status, b"".join(parts_of_body)


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()
