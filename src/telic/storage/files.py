"""Write files safely: replace them atomically, or append whole lines to logs.

Free disk space is checked before work starts, and a full disk raises a clear error.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import json
import math
import os
import secrets
import shutil
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self, TypeVar, cast

from telic.core.text import is_dict, is_mapping, is_row
from telic.errors import BadFile, ResourceError, UsageError
from telic.storage.reading import (
    MAX_BYTES,
    files_below,
    open_file,
    parse_json,
    read_bytes,
    without_links,
)

if TYPE_CHECKING:
    from pydantic import BaseModel, TypeAdapter  # slower to import

Record = TypeVar("Record", bound="BaseModel")

TEMPORARY_MARK = ".unfinished-"
_DISK_FULL = {errno.ENOSPC, errno.EDQUOT}
_NO_PLACE = {
    *(errno.EACCES, errno.EPERM, errno.EROFS),
    *(errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP),
}
_SHOWN = 200
_HELD = {type(None), str, bool, int}
"""types that JSON can represent directly"""
_FREE_HINT = (
    "Free disk space (videos/ and checkpoints/ of old runs use the most), or choose another disk "
    "with --runs-dir. Then run the same command again to resume from the last save."
)


def plain(value: Any) -> Any:
    """Convert `value` to JSON types. Non-finite numbers become None."""
    if type(value) in (list, tuple):  # fast path for long rows of numbers
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
    if hasattr(value, "tolist"):  # numpy and torch scalars and arrays
        return plain(value.tolist())
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


# ---------------------------------------------------------------------------- whole files


@contextlib.contextmanager
def replacing(path: Path) -> Generator[Path]:
    """Yield a temporary path, which replaces `path` if the block succeeds and is else removed.

    Both paths have the same suffix, as some writers require. A full disk raises ResourceError.
    """
    # The name is random, so that no link can wait there.
    temporary = path.with_name(f"{TEMPORARY_MARK}{secrets.token_hex(4)}-{path.name}")
    try:
        with disk_errors(path):
            make_folder(path.parent)
            yield temporary
            _sync(temporary)
            os.replace(temporary, path)
            # Without this, a power failure may undo the rename.
            _sync(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically, so that readers see either the old or the new content."""
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def write_text(path: Path, content: str) -> None:
    """Write a UTF-8 text file atomically."""
    write_bytes(path, content.encode())


def open_append(path: Path) -> IO[bytes]:
    """Open a file to append to it, creating it if needed. Raises OSError for a link or a pipe."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, 0o644), "ab")


def write_json(path: Path, value: Any) -> None:
    """Write a record or plain data atomically as indented JSON."""
    write_text(path, json_text(value))


def json_text(value: Any) -> str:
    """Return a record or plain data as indented JSON in the format of `write_json`."""
    return json.dumps(plain(value), indent=2, allow_nan=False) + "\n"


def read_json(path: Path) -> Any:
    """Return the content of a JSON file. Raises BadFile with the file and the position."""
    return parse_json(read_bytes(path), str(path))


def read_record(path: Path, record: type[Record]) -> Record:
    """Read a record from a JSON file. Raises BadFile with the file and the field."""
    return as_record(read_json(path), record, str(path))


def as_record(value: Any, record: type[Record], where: str) -> Record:
    """Convert plain values from a file to a record. Raises BadFile with the field."""
    from pydantic import ValidationError

    try:
        return record.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the top"
        raise BadFile(f"{where} is not a {record.__name__}: at {place}, {first['msg']}.") from None


def read_fields(path: Path, **kinds: Any) -> dict[str, Any]:
    """Read a JSON file and validate the named fields.

    Missing fields become None if their types permit it. Unnamed fields are returned unchanged.
    Raises BadFile with the file and the field.
    """
    return checked_fields(read_json(path), str(path), **kinds)


def checked_fields(value: Any, where: str, **kinds: Any) -> dict[str, Any]:
    """Validate the named fields of a mapping, as `read_fields` does."""
    from pydantic import ValidationError

    if not is_dict(value):
        raise BadFile(f"{where} is not an object with named fields.")
    for name, kind in kinds.items():
        try:
            _checker(kind).validate_python(value.get(name), strict=True)
        except ValidationError as error:
            place = ".".join(map(str, (name, *error.errors()[0]["loc"])))
            raise BadFile(f"{where} is corrupt: at {place}, {error.errors()[0]['msg']}.") from None
    return {**dict.fromkeys(kinds), **value}


@functools.cache
def _checker(kind: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def once(path: Path, record: type[Record], make: Callable[[], Record]) -> Record:
    """Return the record of a completed step, or run the step and record its result."""
    if not path.exists():
        make_folder(path.parent)
        write_json(path, make())
    return read_record(path, record)


def remove_unfinished(folder: Path) -> list[Path]:
    """Remove temporary files of killed writers, and return them. Requires the run's lock."""
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
    """Append-only log with one JSON object per line.

    Each line is written by one system call and ends with a newline. A last line without a newline
    was truncated by a crash or a full disk, and is removed when the log is opened for writing.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with disk_errors(path):
            make_folder(path.parent)
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
            self._handle = os.open(path, flags, 0o644)
            _cut_torn_line(self._handle)

    def append(self, row: Mapping[str, Any]) -> None:
        """Append one line, which survives a process crash. See `sync` for power failures."""
        line = json.dumps(plain(row), separators=(",", ":"), allow_nan=False).encode() + b"\n"
        with disk_errors(self.path):
            written = 0
            try:
                while written < len(line):
                    written += os.write(self._handle, line[written:])
            except OSError:
                # A partial line in the middle would corrupt the log once the disk has space again.
                _cut_torn_line(self._handle)
                raise

    def sync(self) -> None:
        """Flush all appended lines to disk so that they survive a power failure."""
        with disk_errors(self.path):
            os.fsync(self._handle)

    def close(self) -> None:
        """Close the file. Repeated calls are allowed."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_json_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a JSON-lines file, if it exists, without a truncated last line."""
    if not path.exists():
        return
    with open_file(path, MAX_BYTES, flags=0) as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                return
            try:
                row = parse_json(line, f"{path}, line {number},")
                if not is_dict(row):
                    raise BadFile(f"{path}, line {number}, is not a JSON object.")
            except BadFile as error:
                raise BadFile(
                    f"{error.message} The file was modified by another program.",
                    hint="Delete that line. The other lines are intact.",
                ) from None
            yield row


def _cut_torn_line(handle: int) -> None:
    """Truncate an open file after its last newline."""
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
    """Return the free bytes on the disk of `path`, even if `path` does not exist yet."""
    path = path.absolute()
    while not path.exists():
        path = path.parent
    return shutil.disk_usage(path).free


def require_free(path: Path, needed_bytes: int, purpose: str) -> None:
    """Raise ResourceError if fewer than `needed_bytes` are free on the disk of `path`."""
    free = _free_bytes(path)
    if free < needed_bytes:
        raise ResourceError(
            f"{purpose} needs about {_megabytes(needed_bytes)} on the disk of {path}, but only "
            f"{_megabytes(free)} are free.",
            hint=_FREE_HINT,
        )


@contextlib.contextmanager
def disk_errors(path: Path) -> Generator[None]:
    """Convert errors to ResourceError if the disk is full, or UsageError if it is read-only."""
    try:
        yield
    except OSError as error:
        if error.errno in _DISK_FULL:
            raise disk_full(path) from error
        if error.errno in _NO_PLACE:
            raise _no_place(path, error) from error
        raise


def make_folder(path: Path) -> None:
    """Create a folder and its parents. Raises UsageError if that is impossible."""
    with disk_errors(path):
        try:
            path.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, FileNotFoundError) as error:  # a file has the same name; /proc
            raise _no_place(path, error) from error


def require_output(folder: Path, mark: str) -> None:
    """Raise UsageError unless a folder is new, empty or has `mark`, a file of earlier outputs.

    Raises Refused for links, through which the output would replace or delete other files.
    """
    names = {each.name for each in folder.iterdir()} if folder.is_dir() else {folder.name}
    others = {name for name in names if not name.startswith(TEMPORARY_MARK)}
    if folder.exists() and others and mark not in others:
        raise UsageError(
            f"{folder} is neither empty nor a previous export.", hint="Choose a new folder."
        )
    without_links(folder)


def _no_place(path: Path, error: OSError) -> UsageError:
    shown = str(path) if len(str(path)) < _SHOWN else f"{str(path)[:_SHOWN]}…"
    return UsageError(
        f"{shown} cannot be written: {error.strerror}.",
        hint="Choose a writable folder with --runs-dir.",
    )


def disk_full(path: Path) -> ResourceError:
    """Return the error for a write that failed because the disk is full."""
    return ResourceError(
        f"The disk is full: {path} could not be written ({_megabytes(_free_bytes(path))} free). "
        "Previously saved data is intact.",
        hint=_FREE_HINT,
    )


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.0f} MB"
