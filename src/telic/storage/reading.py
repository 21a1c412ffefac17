"""Read untrusted or damaged files without blocking, within limits and with clear errors.

Named pipes, devices and folders are refused before they are opened, so that no read blocks. Files
that exceed the limit of their kind are refused before they are loaded. JSON is parsed to values
that all of telic can represent, without numbers beyond 64 bits, surrogates, or nesting that
overflows the interpreter's stack. NaN and infinities become None, as when writing.
"""

from __future__ import annotations

import contextlib
import errno
import fnmatch
import hashlib
import json
import math
import os
import re
import stat
import sys
from io import BufferedReader
from pathlib import Path
from typing import Any
from zipfile import ZipFile, ZipInfo

from telic.core.text import is_dict, is_row, is_text
from telic.errors import BadFile, MissingFile, Refused, UsageError

MEBIBYTE = 1 << 20
MAX_BYTES = 256 * MEBIBYTE
"""maximum size of files written by telic"""
MAX_TEXT_BYTES = 16 * MEBIBYTE
"""maximum size of files written by people: rewards, models, settings"""
_MAX_FILES = 100_000
"""maximum number of files scanned in a folder"""
_MAX_DEPTH = 64
_MAX_BITS, _MAX_DIGITS = 64, 20
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_HALVES = re.compile(rb"\\u(?:[dD][89a-fA-F]|0000)")
"""escapes that may be surrogates, which are rare in practice"""


def check_file(path: Path, limit: int = MAX_BYTES) -> int:
    """Return the size of a regular file. Raises BadFile if the file is too large or not regular."""
    try:
        found = os.stat(path)
    except OSError as error:
        raise _unreadable(path, error) from None
    except ValueError:  # a NUL in the name
        raise BadFile(f'"{path}" is not a valid file name.') from None
    if not stat.S_ISREG(found.st_mode):
        kind = _KINDS.get(stat.S_IFMT(found.st_mode), "something else")
        raise BadFile(f"{path} is {kind}, not a file.")
    if found.st_size > limit:
        raise BadFile(
            f"{path} has {found.st_size / 1e6:,.0f} MB, more than {limit / 1e6:,.0f} MB.",
            hint="Check that the path is correct.",
        )
    return found.st_size


def read_bytes(path: Path, limit: int = MAX_BYTES) -> bytes:
    """Return the content of a regular file. Raises BadFile with the reason if it cannot be read."""
    with open_file(path, limit, flags=0) as file:
        content = file.read(limit + 1)
    if len(content) > limit:  # it has grown since
        raise BadFile(f"{path} is larger than the maximum of {limit / 1e6:,.0f} MB.")
    return content


def open_file(
    path: Path, limit: int = sys.maxsize, *, flags: int = os.O_NOFOLLOW
) -> BufferedReader:
    """Open a regular file that is not a link. Raises BadFile for anything else."""
    check_file(path, limit)
    try:
        # It may have been replaced by a pipe: opening must not block.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | flags)
    except OSError as error:
        raise _unreadable(path, error) from None
    return open(handle, "rb")


def bounded_entries(
    archive: ZipFile, most: int = 1000, most_bytes: int = 1024 * MEBIBYTE
) -> list[ZipInfo]:
    """Return the entries of an archive. Raises ValueError if they are too large when unpacked."""
    entries = archive.infolist()
    size = sum(entry.file_size for entry in entries)
    if len(entries) > most or size > most_bytes:
        raise ValueError(f"the archive is too large: {len(entries)} entries and {size:,} bytes")
    return entries


def log_end(path: Path, most_bytes: int = 1 << 14) -> str:
    """Return the last bytes of a log."""
    with open_file(path) as log:
        log.seek(max(0, os.fstat(log.fileno()).st_size - most_bytes))
        return log.read(most_bytes).decode(errors="replace")


def read_text(path: Path, limit: int = MAX_TEXT_BYTES, errors: str = "strict") -> str:
    """Return the text of a regular file. Raises BadFile with the reason if it cannot be read."""
    try:
        text = read_bytes(path, limit).decode(errors=errors)
    except UnicodeDecodeError as error:
        raise BadFile(f"{path} is not UTF-8 text: invalid byte at {error.start}.") from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def given_text(path: Path | str, what: str, limit: int = MAX_TEXT_BYTES) -> str:
    """Return the text of a user-provided file. Raises UsageError if it cannot be read."""
    try:
        return read_text(Path(path), limit)
    except BadFile as error:
        raise UsageError(f"{what}: {error.message}", hint=error.hint) from None


def parse_json(content: bytes | str, where: str) -> Any:
    """Parse JSON to plain values. Raises BadFile with the position of the error."""
    content = content.encode(errors="surrogatepass") if isinstance(content, str) else content
    try:
        value = json.loads(content, parse_constant=_no_number, parse_int=_whole, parse_float=_real)
    except RecursionError:
        raise BadFile(f"{where} is not valid JSON: it is nested too deeply.") from None
    except ValueError as error:
        raise BadFile(f"{where} is not valid JSON: {error}.") from None
    if _HALVES.search(content) or content.count(b"[") + content.count(b"{") >= _MAX_DEPTH:
        _check_plain(value, where)
    return value


def _whole(text: str) -> int:
    if len(text) > _MAX_DIGITS or int(text).bit_length() > _MAX_BITS:
        raise ValueError("the document contains an integer of more than 64 bits")
    return int(text)


def _real(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError("the document contains a number that is too large")
    return value


def parse_toml(text: str, where: str) -> dict[str, Any]:
    """Parse TOML to plain values. Raises BadFile with the position of the error."""
    import tomllib

    try:
        value = tomllib.loads(text)
    except RecursionError:
        raise BadFile(f"{where} is not valid TOML: it is nested too deeply.") from None
    except ValueError as error:
        raise BadFile(f"{where} is not valid TOML: {error}.") from None
    _check_plain(value, where)
    return value


def is_plain(value: Any) -> bool:
    """Return whether a value can be represented in all file formats of telic."""
    return not _complaint(value)


def _check_plain(value: Any, where: str) -> None:
    if complaint := _complaint(value):
        raise BadFile(f"{where} contains {complaint}.")


def _complaint(value: Any) -> str:
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > _MAX_DEPTH:
            return f"values nested more than {_MAX_DEPTH} deep"
        below: list[Any] = []
        for each in level:
            if is_dict(each):
                below += [*each, *each.values()]
            elif is_row(each):
                below += each
            elif isinstance(each, int) and each.bit_length() > _MAX_BITS:
                return "a number of more than 64 bits"
            elif isinstance(each, float) and math.isinf(each):
                return "a number that is too large"
            elif isinstance(each, str) and not is_text(each):
                return "invalid characters (NUL or unpaired surrogates)"
        level = below
    return ""


def _no_number(name: str) -> None:
    """Parse NaN and infinities as None."""


def _unreadable(path: Path, error: OSError) -> BadFile:
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return MissingFile(f"File not found: {path}.")
    if error.errno == errno.ENAMETOOLONG:
        return MissingFile(f"File not found: {str(path)[:60]}… (the name is too long).")
    return BadFile(f"{path} cannot be read: {error.strerror}.")


def files_below(folder: Path, pattern: str = "*", most: int | None = None) -> list[Path]:
    """Return the sorted files in a folder and its subfolders that match a pattern.

    Links and deeply nested folders are not followed. Raises BadFile if there are too many files, as
    in "/".
    """
    seen, found = 0, list[Path]()
    most = _MAX_FILES if most is None else most
    waiting = [(str(folder), 0)]  # no recursion: folders may be nested thousands deep
    while waiting:
        place, depth = waiting.pop()
        with contextlib.suppress(OSError), os.scandir(place) as entries:  # removed, or not readable
            for entry in entries:
                seen += 1
                if entry.is_dir(follow_symlinks=False) and depth < _MAX_DEPTH:
                    waiting.append((entry.path, depth + 1))
                elif fnmatch.fnmatch(entry.name, pattern) and entry.is_file():
                    found.append(Path(entry.path))
        if seen > most:
            raise BadFile(
                f"{folder} contains more than {most:,} files, too many to search.",
                hint="Pass the folder that contains the files.",
            )
    return sorted(found)


def without_links(folder: Path) -> Path:
    """Return a folder. Raises Refused if it is or contains a link, which could lead elsewhere."""
    for place, folders, files in os.walk(folder):
        for path in (place, *(os.path.join(place, name) for name in (*folders, *files))):
            if os.path.islink(path):
                raise Refused(
                    f"{folder.name} contains the link {path}. telic does not create links.",
                    hint="Remove it, or replace it with a copy of its target.",
                )
    return folder


def file_hash(path: Path) -> str:
    """Return the SHA-256 of a file, read in chunks."""
    with open_file(path, flags=0) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
