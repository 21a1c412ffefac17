"""Export the pages of an artifact and the API responses that they need to files on disk.

The responses are generated in this process and saved as one script next to the built pages, because
browsers load only plain scripts from disk.
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
from telic.errors import UsageError
from telic.llm.keys import redact
from telic.storage.files import require_output, write_text
from telic.storage.keys import is_own_folder
from telic.storage.workspace import Artifact
from telic.verbs.lines import artifact_id
from telic.web._files import files_of
from telic.web._gate import API
from telic.web._place import WebPlace
from telic.web.app import STATIC, make_app

_PAGE = Path(__file__).with_name("site.html")
_FILES, _LIST, _SCRIPTED = "files", "site.json", (".html", ".svg")
_EPISODES, _POSE_BYTES = 20, 24 << 20
"""limits on recorded episodes, where those of the best policy come first, then the newest"""
_COPIED_BYTES = 200 << 20
_POINTS = 600


class SavedSite(Record):
    """An exported site."""

    page: str
    files: int
    bytes: int
    episodes: int
    """number of recorded episodes that can be played"""
    left_out: int
    """number of recorded episodes that the limit excluded"""


def write_site(artifact: Artifact, runs_dir: Path, root: Path, folder: Path) -> SavedSite:
    """Write the pages of an artifact to a dedicated folder.

    Raises UsageError if the folder contains other files, or if the pages were not built.
    """
    if not (STATIC / "site" / "site.js").exists():
        raise UsageError(
            "This installation does not include the pages of the dashboard.",
            hint="Build them once with: make web (needs Node 20 or newer).",
        )
    require_output(folder, _LIST)
    with ThreadPoolExecutor(1) as thread:
        saved = _Saved(WebPlace(runs_dir, root), artifact, thread)
        saved.gather()
    (folder / _FILES).mkdir(parents=True, exist_ok=True)
    write_text(folder / _LIST, json.dumps({"artifact": artifact_id(artifact)}))
    for name in ("site.js", "site.css"):
        shutil.copyfile(STATIC / "site" / name, folder / name)
    for name, source in saved.copies.items():
        shutil.copyfile(source, folder / _FILES / name)
    site = {
        "artifact": artifact_id(artifact),
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "answers": saved.answers,
        "bytes": saved.bytes,
    }
    text = redact(json.dumps(site, separators=(",", ":")))  # removes keys of model providers
    write_text(folder / "data.js", f"window.TELIC_SITE={text};\n")
    shutil.copyfile(_PAGE, folder / "index.html")
    files = [path for path in folder.rglob("*") if path.is_file()]
    return SavedSite(
        page=str(folder / "index.html"),
        files=len(files),
        bytes=sum(path.stat().st_size for path in files),
        episodes=saved.episodes,
        left_out=saved.left_out,
    )


class _Saved:
    """Collector of the API responses and files of one artifact."""

    def __init__(self, place: WebPlace, artifact: Artifact, thread: ThreadPoolExecutor) -> None:
        self._place, self._artifact, self._thread = place, artifact, thread
        self._app = make_app(place)
        self._home = f"{API}/artifacts/{quote(artifact_id(artifact), safe='')}"
        self._room = _COPIED_BYTES
        self.answers: dict[str, Any] = {}
        self.bytes: dict[str, str] = {}
        self.copies: dict[str, Path] = {}
        """files to copy, by their new names"""
        self.episodes = self.left_out = 0

    def gather(self) -> None:
        """Collect the API responses that the pages require."""
        home, detail = self._home, self._keep(self._home)
        if detail is None:
            raise UsageError(f"{self._artifact.name} cannot be read.")
        session: dict[str, Any] = detail["session"] or {"iterations": (), "summary": None}
        numbers = [each["number"] for each in session["iterations"]]
        kept = ["events", *(f"iterations/{number}" for number in numbers)]
        match self._artifact.kind:
            case "run":
                kept.append("tracking")
            case "study":
                state: dict[str, Any] = (detail["study"] or {}).get("state") or {}
                names = [quote(name, safe="") for name in state.get("candidates", ())]
                kept += [f"gates?candidate={name}" for name in names]
            case _:
                pass
        for name in kept:
            self._keep(f"{home}/{name}")
        for query in [f"?iteration={number}" for number in numbers] or [""]:
            self._gather_curves(query)
        self._gather_files(session["summary"] or {})
        self._gather_gallery()

    def _gather_curves(self, query: str) -> None:
        address = f"{self._home}/series{query}{'&' if query else '?'}"
        known = self._ask(f"{address}points=3")
        if known is not None:
            names = "".join(f"&name={quote(name, safe='')}" for name in known["names"])
            curves = self._ask(f"{address}points={_POINTS}{names}") if names else None
            self.answers[f"{self._home}/series{query}"] = curves or known

    def _gather_files(self, summary: dict[str, Any]) -> None:
        """Copy episodes up to the size limit and copy all other files."""
        files: list[Any] = self._ask(f"{self._home}/files")
        paths = {key: found.path for key, found in files_of(self._artifact).items()}
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
        # Outside of the dashboard, scripts in pages of other users would have the site's rights.
        is_own = is_own_folder(self._artifact.path)
        for file in reversed(files):
            path = paths[file["key"]]
            is_left_out = file["kind"] == "recording" or (path.suffix in _SCRIPTED and not is_own)
            if not is_left_out and (url := self._copy(path, file["key"])):
                kept[file["key"]] = {**file, "url": url}
        shown = [kept[file["key"]] for file in files if file["key"] in kept]
        self.answers[f"{self._home}/files"] = shown

    def _gather_gallery(self) -> None:
        """Keep the artifact's gallery card. Other work in the runs folder is not published."""
        cards, files = self._ask(f"{API}/gallery") or [], files_of(self._artifact)
        self.answers[f"{API}/gallery"] = [
            {**card, "video": url}
            for card in cards
            if card["line"]["id"] == artifact_id(self._artifact)
            if (path := files.get(key := card["video"].rpartition("/")[2]))
            if (url := self._copy(path.path, key))
        ]

    def _copy(self, path: Path, key: str) -> str | None:
        """Copy a file and return the copy's URL, or None if the file exceeds the size limit."""
        source = self._place.inside(path)
        name, self._room = f"{key}{path.suffix}", self._room - source.stat().st_size
        if self._room < 0:
            return None
        self.copies[name] = source
        return f"{_FILES}/{name}"

    def _gather_episode(self, file: dict[str, Any], room: int) -> int:
        """Add an episode up to the size limit, and return its size in bytes (0 if omitted)."""
        address, number = f"{self._home}/playback/{file['key']}", file["iteration"]
        query = "" if number is None else f"?iteration={number}"
        facts, poses = self._ask(address), {f"{address}/poses": self._bytes(f"{address}/poses")}
        if facts is not None and facts["has_reference"]:
            reference = f"{address}/poses?of=reference"
            poses[reference] = self._bytes(reference)
        size = sum(len(content or b"") for content in poses.values())
        if facts is None or not all(poses.values()) or size > room:
            return 0
        scene = f"{self._home}/scene"
        if f"{scene}{query}" not in self.answers and self._keep(f"{scene}{query}")["number_bytes"]:
            poses[f"{scene}/numbers{query}"] = self._bytes(f"{scene}/numbers{query}")
        self.answers[address] = facts
        for where, content in poses.items():
            self.bytes[where] = base64.b64encode(content or b"").decode()
        return size

    def _keep(self, address: str) -> Any:
        found = self._ask(address)
        if found is not None:
            self.answers[address] = found
        return found

    def _ask(self, address: str) -> Any:
        body = self._bytes(address)
        return None if body is None else json.loads(body)

    def _bytes(self, address: str) -> bytes | None:
        """Return the application's response, or None for an error."""
        # In a separate thread: the caller may have a running event loop.
        status, body = self._thread.submit(asyncio.run, self._request(address)).result()
        return body if status == 200 else None

    async def _request(self, address: str) -> tuple[int, bytes]:
        parts = urlsplit(address)
        scope: dict[str, Any] = {
            **{"type": "http", "method": "GET", "scheme": "http", "root_path": ""},
            **{"http_version": "1.1", "server": ("127.0.0.1", 80), "client": ("127.0.0.1", 1)},
            "path": parts.path,
            "query_string": parts.query.encode(),
            "headers": [(b"host", b"127.0.0.1")],
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
