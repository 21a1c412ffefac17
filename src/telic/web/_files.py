"""Displayable files of an artifact: videos, pictures, recordings, code and reports.

Files are addressed by opaque keys from a list of the folder's known files. URLs are never used as
paths.
"""

from __future__ import annotations

import hashlib
import io
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from fastapi import APIRouter, Query, Response
from fastapi.responses import FileResponse

from telic.core.config import Record
from telic.errors import Refused, UnknownName
from telic.storage.keys import is_own_list
from telic.storage.layout import RunFolder, SessionFolder, file_name
from telic.storage.workspace import Artifact
from telic.training.export.bundle import check_bundle
from telic.verbs.lines import artifact_id
from telic.web._gate import API, REPORT_POLICY
from telic.web._place import WebPlace

FileKind = Literal["video", "picture", "recording", "report", "code", "policy"]
_BYTES, _TEXT = "application/octet-stream", "text/plain; charset=utf-8"
_KINDS: dict[str, tuple[FileKind, str]] = {
    ".mp4": ("video", "video/mp4"),
    ".png": ("picture", "image/png"),
    ".svg": ("picture", "image/svg+xml"),
    ".npz": ("recording", _BYTES),
    ".onnx": ("policy", _BYTES),
    ".pt": ("policy", _BYTES),
    ".html": ("report", "text/html; charset=utf-8"),
    ".md": ("report", _TEXT),
    ".py": ("code", _TEXT),
}
"""kind and media type by suffix"""
_CLIP = re.compile(r"(?:clip|eval)_([0-9]{1,18})_(.+)\.npz")
"""episode of a tracker: step and clip"""
_MAX_FILES = 5000


class ArtifactFile(Record):
    """A file of an artifact."""

    key: str
    kind: FileKind
    name: str
    url: str
    bytes: int
    iteration: int | None = None
    """iteration number in a session"""
    member: str | None = None
    step: int | None = None
    """environment steps trained before the recording"""
    label: str | None = None
    """p10, median or p90, or the number of a judged episode, from 1"""
    is_judged: bool = False
    """whether the file is one of the fresh episodes of a judgment"""


class FoundFile(NamedTuple):
    """A file and its path."""

    file: ArtifactFile
    path: Path


def files_of(artifact: Artifact) -> dict[str, FoundFile]:
    """Return the files of an artifact that can be served, by key."""
    found: dict[str, FoundFile] = {}
    for path, facts in _listed(artifact):
        if len(found) >= _MAX_FILES:
            break
        if path.suffix not in _KINDS or path.is_symlink() or not path.is_file():
            continue
        name = str(path.relative_to(artifact.path))
        key = file_key(name)
        file = ArtifactFile(
            key=key,
            kind=_KINDS[path.suffix][0],
            name=name,
            url=f"{API}/artifacts/{artifact_id(artifact)}/files/{key}",
            bytes=path.stat().st_size,
            **facts,
        )
        found[key] = FoundFile(file, path)
    return found


def file_key(name: str) -> str:
    """Return the key of a file, derived from its name relative to its folder."""
    return hashlib.sha256(name.encode()).hexdigest()[:20]


def find_file(place: WebPlace, artifact: Artifact, key: str) -> FoundFile:
    """Return the file with this key. Raises UnknownName, or Refused for an external link."""
    found = files_of(artifact).get(key)
    if found is None:
        raise UnknownName("file", key[:60], [])
    return FoundFile(found.file, place.inside(found.path))


def _listed(artifact: Artifact) -> Iterator[tuple[Path, dict[str, Any]]]:
    if artifact.kind == "run":
        yield from _run_files(RunFolder(artifact.path), {})
    elif artifact.kind == "session":
        folder = SessionFolder(artifact.path)
        yield folder.untrained, {"step": 0, "label": "untrained network"}
        for number in folder.iterations():
            files, facts = folder.iteration(number), {"iteration": number}
            yield files.reward, facts
            if files.run.path.is_dir():
                yield from _run_files(files.run, facts)
            for path in sorted(files.judged_dir.glob("*/episode_*.npz")):
                index = path.stem.removeprefix("episode_")
                label = str(int(index) + 1) if index.isdecimal() else index
                yield path, facts | {"member": path.parent.name, "label": label, "is_judged": True}
    for pattern in ("report.html", "report.md", "*.html", "report/*", "export/*", "judge_fn.py"):
        yield from ((path, {}) for path in sorted(artifact.path.glob(pattern)))


def _run_files(run: RunFolder, facts: dict[str, Any]) -> Iterator[tuple[Path, dict[str, Any]]]:
    for member in run.members():
        own = {**facts, "member": member.name}
        yield member.reward_code, own
        for each in (*member.videos(), *member.trajectories(), *member.checkpoints()):
            yield each.path, {**own, "step": each.step, "label": each.label}
        for path in sorted((member.path / "evaluations").glob("*")):  # evaluations of trackers
            match = _CLIP.fullmatch(path.name)
            yield path, own | ({"step": int(match[1]), "label": match[2]} if match else {})


def routes(place: WebPlace) -> APIRouter:
    """Return the routes for files."""
    router = APIRouter(tags=["files"])

    @router.get("/artifacts/{artifact}/files")
    def list_files(
        artifact: str,
        kind: Annotated[list[FileKind] | None, Query()] = None,
        iteration: Annotated[int | None, Query(ge=0, le=10**9)] = None,
    ) -> list[ArtifactFile]:
        """List the files of an artifact that can be displayed."""
        return [
            found.file
            for found in files_of(place.artifact(artifact)).values()
            if (not kind or found.file.kind in kind) and iteration in (None, found.file.iteration)
        ]

    @router.get("/artifacts/{artifact}/bundle", response_class=Response)
    def read_bundle(artifact: str) -> Response:
        """Return the exported policy with all its files as a ZIP archive."""
        home = place.artifact(artifact, "session", "run").path
        files = [path for path in sorted((home / "export").rglob("*")) if path.is_file()]
        if not files:
            raise UnknownName("export", artifact[:200], [])
        fault = check_bundle(home / "export")[2]
        if fault is not None or not is_own_list(home / "export" / "bundle.json"):
            why = fault or "not an export of this user"
            raise Refused(f"{home.name}/export cannot be downloaded: {why}.")
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in files:
                archive.write(place.inside(path), str(path.relative_to(home / "export")))
        headers = {"content-disposition": f'attachment; filename="{file_name(home.name)}.zip"'}
        return Response(packed.getvalue(), media_type="application/zip", headers=headers)

    @router.get(
        "/artifacts/{artifact}/files/{key}",
        response_class=FileResponse,
        responses={206: {"description": "Part of the file, for a Range request."}},
    )
    def read_file(artifact: str, key: str) -> FileResponse:
        """Return a file, or part of it for a Range request."""
        path = find_file(place, place.artifact(artifact), key).path
        headers = {"cache-control": "private, no-cache", "content-disposition": "inline"}
        if path.suffix in (".html", ".svg"):  # pages made by runs may render, but not connect
            headers["content-security-policy"] = REPORT_POLICY
        return FileResponse(path, media_type=_KINDS[path.suffix][1], headers=headers)

    return router
