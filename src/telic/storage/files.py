"""Write files so that a process may die at any line: by rename or by whole lines.

Disk space is asked for before work starts, and a full disk is explained when it happens.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import json
import math
import os
import shutil
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

from telic.core.text import is_dict, is_mapping, is_row
from telic.errors import BadFile, ResourceError, UsageError
from telic.storage.reading import check_file, files_below, parse_json, read_bytes

if TYPE_CHECKING:
    from pydantic import BaseModel, TypeAdapter, ValidationError  # heavier than all of this module

Record = TypeVar("Record", bound="BaseModel")

TEMPORARY_MARK = ".unfinished-"
_DISK_FULL = {errno.ENOSPC, errno.EDQUOT}
_NO_PLACE = {
    *(errno.EACCES, errno.EPERM, errno.EROFS),
    *(errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP),
}
_SHOWN = 200
_HELD = {type(None), str, bool, int}
"""types that JSON holds as they are"""
_FREE_HINT = (
    "Free space (in old runs, videos/ and checkpoints/ take the most) or choose another disk with "
    "--runs-dir, then run the same command again: it resumes from what was saved."
)


def plain(value: Any) -> Any:
    """Return `value` as what JSON can hold; a number that is not finite becomes None."""
    if type(value) in (list, tuple):  # rows of numbers are long, and looked at as a whole
        row = cast("list[Any]", value)
        kinds: set[type[Any]] = set(map(type, row))
        if kinds <= _HELD or (kinds == {float} and all(map(math.isfinite, row))):
            return list(row)
        return [plain(item) for item in row]
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if hasattr(value, "model_dump"):  # a record
        return plain(value.model_dump(mode="json"))
    if is_mapping(value):
        return {str(key): plain(item) for key, item in value.items()}
    if is_row(value) or isinstance(value, set | frozenset):
        return [plain(item) for item in cast("Iterable[Any]", value)]
    if isinstance(value, os.PathLike):
        return os.fspath(cast("os.PathLike[str]", value))
    if hasattr(value, "tolist"):  # numpy and torch, scalars and arrays alike
        return plain(value.tolist())
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


# ---------------------------------------------------------------------------- whole files


@contextlib.contextmanager
def replacing(path: Path) -> Generator[Path]:
    """Yield a temporary path; when the block ends well it replaces `path`, else it is removed.

    The suffix is kept, for writers that look at it. Raises ResourceError when the disk is full.
    """
    temporary = path.with_name(f"{TEMPORARY_MARK}{os.getpid()}-{path.name}")
    try:
        with disk_errors(path):
            make_folder(path.parent)
            yield temporary
            _sync(temporary)
            os.replace(temporary, path)
            # Without this a power cut may bring the old name back.
            _sync(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file in one stroke: readers see the old content or the new, never a part."""
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def write_text(path: Path, content: str) -> None:
    """Write a UTF-8 text file in one stroke."""
    write_bytes(path, content.encode())


def write_json(path: Path, value: Any) -> None:
    """Write a record or plain data as indented JSON in one stroke."""
    write_text(path, json_text(value))


def json_text(value: Any) -> str:
    """Return a record or plain data as the indented JSON that `write_json` writes."""
    return json.dumps(plain(value), indent=2, allow_nan=False) + "\n"


def read_json(path: Path) -> Any:
    """Return the content of a JSON file; raises BadFile that names the file and the place."""
    return parse_json(read_bytes(path), str(path))


def read_record(path: Path, record: type[Record]) -> Record:
    """Return the record in a JSON file; raises BadFile that names the file and the field."""
    return as_record(read_json(path), record, str(path))


def as_record(value: Any, record: type[Record], where: str) -> Record:
    """Return plain values of one of our files as a record; raises BadFile that names the field."""
    from pydantic import ValidationError

    try:
        return record.model_validate(value)
    except ValidationError as error:
        raise _not_a(where, record, error) from None


def read_fields(path: Path, **kinds: Any) -> dict[str, Any]:
    """Return a JSON file of which the named fields are checked.

    A field whose type admits None may be missing and is None then. What else the file holds is
    kept. Raises BadFile that names the file and the field.
    """
    return checked_fields(read_json(path), str(path), **kinds)


def checked_fields(value: Any, where: str, **kinds: Any) -> dict[str, Any]:
    """Return names and values of which the named ones are checked, as `read_fields` does."""
    from pydantic import ValidationError

    if not is_dict(value):
        raise BadFile(f"{where} holds no names and values.")
    for name, kind in kinds.items():
        try:
            _checker(kind).validate_python(value.get(name), strict=True)
        except ValidationError as error:
            place = ".".join(map(str, (name, *error.errors()[0]["loc"])))
            raise BadFile(f"{where} is damaged: at {place}, {error.errors()[0]['msg']}.") from None
    return {**dict.fromkeys(kinds), **value}


@functools.cache
def _checker(kind: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def read_table(path: Path) -> dict[str, Any]:
    """Return the names and values in a JSON file; raises BadFile when it holds something else."""
    return checked_fields(read_json(path), str(path))


def _not_a(where: str, kind: type[object], error: ValidationError) -> BadFile:
    first = error.errors()[0]
    place = ".".join(map(str, first["loc"])) or "the top"
    return BadFile(f"{where} is not a {kind.__name__}: at {place}, {first['msg']}.")


def once(path: Path, record: type[Record], make: Callable[[], Record]) -> Record:
    """Return the record of a step that was finished before, or take the step and record it."""
    if not path.exists():
        make_folder(path.parent)
        write_json(path, make())
    return read_record(path, record)


def remove_unfinished(folder: Path) -> list[Path]:
    """Remove what killed writers left under `folder` and return it; hold the run's lock."""
    left = files_below(folder, f"{TEMPORARY_MARK}*", most=sys.maxsize)
    for path in left:
        path.unlink(missing_ok=True)
    return left


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# ---------------------------------------------------------------------------- lines


class JsonLines:
    """Append-only log of one JSON object a line.

    A line is written by one system call and ends with a newline; a last line without one was torn
    by a crash. Opening for writing cuts it off, and so does a write that a full disk broke.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with disk_errors(path):
            make_folder(path.parent)
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
            self._handle = os.open(path, flags, 0o644)
            _cut_torn_line(self._handle)

    def append(self, row: Mapping[str, Any]) -> None:
        """Append one line; it survives the death of this process (not a power cut: see `sync`)."""
        line = json.dumps(plain(row), separators=(",", ":"), allow_nan=False).encode() + b"\n"
        with disk_errors(self.path):
            written = 0
            try:
                while written < len(line):
                    written += os.write(self._handle, line[written:])
            except OSError:
                # A half line in the middle would spoil the log once the disk has room again.
                _cut_torn_line(self._handle)
                raise

    def sync(self) -> None:
        """Make everything appended so far survive a power cut."""
        with disk_errors(self.path):
            os.fsync(self._handle)

    def close(self) -> None:
        """Close the file; closing twice is fine."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def read_json_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a JSON-lines file; a torn last line is dropped, a missing file is empty."""
    if not path.exists():
        return
    check_file(path)
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                return
            try:
                row = parse_json(line, f"{path}, line {number},")
                if not is_dict(row):
                    raise BadFile(f"{path}, line {number}, is not an object with names and values.")
            except BadFile as error:
                raise BadFile(
                    f"{error.message} The file was damaged from outside.",
                    hint="Delete that line; the others are intact.",
                ) from None
            yield row


def _cut_torn_line(handle: int) -> None:
    """Shorten an open file to its last newline."""
    end = os.lseek(handle, 0, os.SEEK_END)
    keep = end
    while keep > 0:
        start = max(0, keep - 65536)
        newline = os.pread(handle, keep - start, start).rfind(b"\n")
        if newline >= 0:
            keep = start + newline + 1
            break
        keep = start
    if keep < end:
        os.ftruncate(handle, keep)


# ---------------------------------------------------------------------------- disk space


def _free_bytes(path: Path) -> int:
    """Return the free space of the disk that holds `path`, which need not exist yet."""
    path = path.absolute()
    while not path.exists():
        path = path.parent
    return shutil.disk_usage(path).free


def require_free(path: Path, needed_bytes: int, purpose: str) -> None:
    """Raise ResourceError unless the disk of `path` has room for `needed_bytes`."""
    free = _free_bytes(path)
    if free < needed_bytes:
        raise ResourceError(
            f"{purpose} needs about {_megabytes(needed_bytes)} on the disk of {path}, "
            f"which has {_megabytes(free)} free.",
            hint=_FREE_HINT,
        )


@contextlib.contextmanager
def disk_errors(path: Path) -> Generator[None]:
    """Explain a full disk (ResourceError) and a place that takes nothing (UsageError)."""
    try:
        yield
    except OSError as error:
        if error.errno in _DISK_FULL:
            raise disk_full(path) from error
        if error.errno in _NO_PLACE:
            raise _no_place(path, error) from error
        raise


def make_folder(path: Path) -> None:
    """Make a folder and those above it; raises UsageError where there can be none."""
    with disk_errors(path):
        try:
            path.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, FileNotFoundError) as error:  # a file has its name; /proc
            raise _no_place(path, error) from error


def _no_place(path: Path, error: OSError) -> UsageError:
    shown = str(path) if len(str(path)) < _SHOWN else f"{str(path)[:_SHOWN]}…"
    return UsageError(
        f"{shown} cannot be written: {error.strerror}.",
        hint="Choose a folder you may write to with --runs-dir.",
    )


def disk_full(path: Path) -> ResourceError:
    """Return the error for a file that a full disk did not take."""
    return ResourceError(
        f"The disk is full: {path} could not be written ({_megabytes(_free_bytes(path))} free). "
        "What was saved before is intact.",
        hint=_FREE_HINT,
    )


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.0f} MB"
