"""Transfer of a job's files: inputs are copied there, results are copied back consistently.

A parcel is one zip file of the files that changed since the previous one. A running job may write
during packing, so packing is repeated until no file changes meanwhile: a parcel is a consistent
snapshot, which is all that a resume after a crash needs. Names are relative to the job's working
folder; names that lead out of it are refused.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from telic.errors import BadFile
from telic.storage.files import TEMPORARY_MARK, write_bytes
from telic.storage.keys import BEGUN, sign_folder

_TRIES = 5
_REMOVED = ".removed.json"
_STEADY_DATE = (1980, 1, 1, 0, 0, 0)

Marks = Mapping[str, tuple[int, int]]
"""modification time and size of each file, by name relative to the working folder"""


class Parcel(NamedTuple):
    """A set of packed files."""

    content: bytes
    names: tuple[str, ...]
    """names of packed files, and of files removed since"""
    marks: Marks
    """state of all files present, for the next parcel"""


def marks_of(cwd: Path, parts: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Return the marks of files, or of folders' contents, in a working folder."""
    marks: dict[str, tuple[int, int]] = {}
    for part in parts:
        start = cwd / part
        paths = [start] if start.is_file() else sorted(start.rglob("*"))
        for path in paths:
            if path.name.startswith(TEMPORARY_MARK) or path.name == "lock" or path.is_symlink():
                continue
            try:
                facts = path.stat()
            except FileNotFoundError:  # replaced in the meantime
                continue
            if path.is_file():
                marks[path.relative_to(cwd).as_posix()] = (facts.st_mtime_ns, facts.st_size)
    return marks


def pack(cwd: Path, parts: Iterable[str], known: Marks | None = None) -> Parcel | None:
    """Pack the files that differ from `known`; return None if they never stopped changing."""
    parts, known = list(parts), known or {}
    for _ in range(_TRIES):
        marks = marks_of(cwd, parts)
        names = [name for name, mark in marks.items() if known.get(name) != mark]
        removed = [name for name in known if name not in marks]
        content = _zip(cwd, names, removed)
        if content is not None and marks_of(cwd, parts) == marks:
            return Parcel(content, (*names, *removed), marks)
    return None


def _zip(cwd: Path, names: list[str], removed: list[str]) -> bytes | None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name in names:
            try:
                content = (cwd / name).read_bytes()
            except FileNotFoundError:
                return None
            archive.writestr(zipfile.ZipInfo(name, _STEADY_DATE), content, zipfile.ZIP_DEFLATED)
        archive.writestr(zipfile.ZipInfo(_REMOVED, _STEADY_DATE), json.dumps(removed))
    return out.getvalue()


class Unpacked(NamedTuple):
    """Names of files that a parcel changed in a folder."""

    written: tuple[str, ...]
    removed: tuple[str, ...]


def unpack(content: bytes, cwd: Path) -> Unpacked:
    """Extract a parcel into a folder, and delete the files it lists as removed.

    Raises BadFile for a name that leads out of the folder: data from another machine is untrusted.
    """
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        written = tuple(name for name in archive.namelist() if name != _REMOVED)
        removed = tuple(str(name) for name in json.loads(archive.read(_REMOVED)))
        for name in (*written, *removed):
            _check(name, cwd)
        for name in written:
            write_bytes(cwd / name, archive.read(name))
            if PurePosixPath(name).name == BEGUN:  # work created by this user's job elsewhere
                sign_folder((cwd / name).parent)
    for name in removed:
        (cwd / name).unlink(missing_ok=True)
    return Unpacked(written, removed)


def _check(name: str, cwd: Path) -> None:
    parts = PurePosixPath(name)
    is_inside = (cwd / name).resolve().is_relative_to(cwd.resolve())
    if parts.is_absolute() or ".." in parts.parts or "\\" in name or not is_inside:
        raise BadFile(f'A job returned a file named "{name[:100]}", which is outside its folder.')
