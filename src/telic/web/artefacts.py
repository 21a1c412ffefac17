"""Files of a thing that a page shows: videos, pictures, recordings, code, reports.

A file has an opaque key. Whoever asks for one gets it if a list of the thing's files, made anew
from the layout, holds the key; an address never becomes a path.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from fastapi.responses import FileResponse

from telic.core.config import Record
from telic.errors import UnknownName
from telic.storage.layout import MemberFolder, RunFolder, SessionFolder
from telic.storage.workspace import Thing
from telic.verbs.lines import thing_id
from telic.web.gate import API, REPORT_POLICY
from telic.web.place import WebPlace

FileKind = Literal["video", "picture", "recording", "report", "code", "policy"]
_MEDIA = {
    ".mp4": "video/mp4",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".npz": "application/octet-stream",
    ".onnx": "application/octet-stream",
    ".pt": "application/octet-stream",
    ".html": "text/html; charset=utf-8",
    ".md": "text/plain; charset=utf-8",
    ".py": "text/plain; charset=utf-8",
    ".json": "application/json",
    ".toml": "text/plain; charset=utf-8",
}
_KINDS: dict[str, FileKind] = {
    ".mp4": "video",
    ".png": "picture",
    ".svg": "picture",
    ".npz": "recording",
    ".onnx": "policy",
    ".pt": "policy",
    ".html": "report",
    ".md": "report",
    ".py": "code",
}
_CLIP = re.compile(r"(?:clip|eval)_([0-9]{1,18})_(.+)\.npz")
"""what a tracker played: when, and which clip"""
_MOST = 5000


class ThingFile(Record):
    """A file of a thing."""

    key: str
    kind: FileKind
    name: str
    url: str
    bytes: int
    iteration: int | None = None
    """of a session"""
    member: str | None = None
    step: int | None = None
    """environment steps trained when it was recorded"""
    label: str | None = None
    """p10, median, p90; of a judged episode its number from 1"""
    is_judged: bool = False
    """whether it is one of the fresh episodes of a judgement"""


class FoundFile(Record):
    """A file, and where it is."""

    file: ThingFile
    path: Path


def files_of(place: WebPlace, thing: Thing) -> dict[str, FoundFile]:
    """Return the files of a thing that may be served, by key."""
    found: dict[str, FoundFile] = {}
    for path, facts in _listed(thing):
        if len(found) >= _MOST:
            break
        try:
            size = path.lstat().st_size
        except OSError:  # gone since
            continue
        if path.is_symlink() or path.suffix not in _KINDS:
            continue
        relative = str(path.relative_to(thing.path))
        key = hashlib.sha256(relative.encode()).hexdigest()[:20]
        url = f"{API}/things/{thing_id(thing)}/files/{key}"
        file = ThingFile(
            key=key, kind=_KINDS[path.suffix], name=relative, url=url, bytes=size, **facts
        )
        found[key] = FoundFile(file=file, path=path)
    return found


def find_file(place: WebPlace, thing: Thing, key: str) -> FoundFile:
    """Return the file of a key; raises UnknownName, or Refused where it leads out."""
    found = files_of(place, thing).get(key)
    if found is None:
        raise UnknownName("file", key[:60], [])
    place.inside(found.path)
    return found


def _listed(thing: Thing) -> Iterator[tuple[Path, dict[str, Any]]]:
    if thing.kind == "run":
        yield from _run_files(RunFolder(thing.path), {})
    elif thing.kind == "session":
        yield from _session_files(SessionFolder(thing.path))
    for pattern in ("report.html", "report.md", "*.html", "report/*", "export/*", "judge_fn.py"):
        yield from ((path, {}) for path in sorted(thing.path.glob(pattern)))


def _session_files(folder: SessionFolder) -> Iterator[tuple[Path, dict[str, Any]]]:
    for number in folder.iterations():
        files = folder.iteration(number)
        yield files.reward, {"iteration": number}
        if files.run.path.is_dir():
            yield from _run_files(files.run, {"iteration": number})
        for path in sorted(files.judged_dir.glob("*/episode_*.npz")):
            place = path.stem.removeprefix("episode_")
            label = str(int(place) + 1) if place.isdecimal() else place
            facts = {"iteration": number, "member": path.parent.name, "label": label}
            yield path, {**facts, "is_judged": True}


def _run_files(run: RunFolder, facts: dict[str, Any]) -> Iterator[tuple[Path, dict[str, Any]]]:
    for member in run.members():
        yield from _member_files(member, {**facts, "member": member.name})


def _member_files(
    member: MemberFolder, facts: dict[str, Any]
) -> Iterator[tuple[Path, dict[str, Any]]]:
    yield member.reward_code, facts
    for each in (*member.videos(), *member.trajectories(), *member.checkpoints()):
        yield each.path, {**facts, "step": each.step, "label": each.label}
    for path in sorted((member.path / "evaluations").glob("*")):  # of trackers: films and pages
        match = _CLIP.fullmatch(path.name)
        yield path, facts if match is None else {**facts, "step": int(match[1]), "label": match[2]}


def routes(place: WebPlace) -> APIRouter:
    """Return the routes of files."""
    router = APIRouter(tags=["files"])

    @router.get("/things/{thing}/files")
    def list_files(
        thing: str,
        kind: Annotated[list[FileKind] | None, Query()] = None,
        iteration: Annotated[int | None, Query(ge=0, le=10**9)] = None,
    ) -> list[ThingFile]:
        """List the files of a thing that can be shown."""
        found = files_of(place, place.thing(thing)).values()
        return [
            each.file
            for each in found
            if (not kind or each.file.kind in kind) and iteration in (None, each.file.iteration)
        ]

    @router.get(
        "/things/{thing}/files/{key}",
        response_class=FileResponse,
        responses={206: {"description": "A part of the file, as Range asks for."}},
    )
    def read_file(thing: str, key: str) -> FileResponse:
        """Return a file; parts of it where the request has a Range."""
        found = find_file(place, place.thing(thing), key)
        return served(found)

    return router


def served(found: FoundFile) -> FileResponse:
    """Return a file as an answer; a page that a run made may run, but reach nothing."""
    headers = {"cache-control": "private, no-cache", "content-disposition": "inline"}
    if found.path.suffix in (".html", ".svg"):
        headers["content-security-policy"] = REPORT_POLICY
    return FileResponse(found.path, media_type=_MEDIA[found.path.suffix], headers=headers)
