"""Read a file that anybody may have named or damaged: bounded, explained, never waited for.

A named pipe, a device or a folder is refused before it is opened, so that nothing hangs; a file
that is larger than its kind ever is, is refused before it fills the memory. JSON is read as plain
values that every part of telic can hold: no number beyond 64 bits, no half characters, no nesting
that would end the interpreter; what is not a number becomes None, as it does where we write.
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
from pathlib import Path
from typing import Any

from telic.core.text import is_dict, is_row, is_text
from telic.errors import BadFile, MissingFile, Refused, UsageError

MEBIBYTE = 1 << 20
LARGEST = 256 * MEBIBYTE
"""of a file that we write"""
LARGEST_TEXT = 16 * MEBIBYTE
"""of a file that people write: rewards, models, settings"""
_MOST_FILES = 100_000
"""that a folder is looked through for"""
_DEEPEST = 64
_WIDEST_BITS, _MOST_DIGITS = 64, 20
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_HALVES = re.compile(rb"\\u(?:[dD][89a-fA-F]|0000)")
"""escapes that may be halves of characters; nearly no file has one"""


def check_file(path: Path, limit: int = LARGEST) -> int:
    """Return the size of an ordinary file; raises BadFile for all else and a larger one."""
    try:
        found = os.stat(path)
    except OSError as error:
        raise _unreadable(path, error) from None
    except ValueError:  # a NUL in the name
        raise BadFile(f'"{path}" cannot be the name of a file.') from None
    if not stat.S_ISREG(found.st_mode):
        kind = _KINDS.get(stat.S_IFMT(found.st_mode), "something else")
        raise BadFile(f"{path} is {kind}; a file was expected.")
    if found.st_size > limit:
        raise BadFile(
            f"{path} has {found.st_size / 1e6:,.0f} MB; at most {limit / 1e6:,.0f} MB are read.",
            hint="It is probably not the file you meant.",
        )
    return found.st_size


def read_bytes(path: Path, limit: int = LARGEST) -> bytes:
    """Return the content of an ordinary file; raises BadFile that says why there is none."""
    check_file(path, limit)
    try:
        # It may have become a pipe since: opening must not wait either way.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            content = file.read(limit + 1)
    except OSError as error:
        raise _unreadable(path, error) from None
    if len(content) > limit:  # it grew
        raise BadFile(f"{path} is larger than {limit / 1e6:,.0f} MB, which is the most we read.")
    return content


def read_text(path: Path, limit: int = LARGEST_TEXT, errors: str = "strict") -> str:
    """Return the text of an ordinary file; raises BadFile that says why there is none."""
    try:
        text = read_bytes(path, limit).decode(errors=errors)
    except UnicodeDecodeError as error:
        raise BadFile(f"{path} is not UTF-8 text: byte {error.start} fits nowhere.") from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def given_text(path: Path | str, what: str, limit: int = LARGEST_TEXT) -> str:
    """Return the text of a file that the user named; raises UsageError when it cannot be read."""
    try:
        return read_text(Path(path), limit)
    except BadFile as error:
        raise UsageError(f"{what}: {error.message}", hint=error.hint) from None


def parse_json(content: bytes | str, where: str) -> Any:
    """Return the plain values in some JSON; raises BadFile that names the place of the fault."""
    content = content.encode(errors="surrogatepass") if isinstance(content, str) else content
    try:
        value = json.loads(content, parse_constant=_no_number, parse_int=_whole, parse_float=_real)
    except RecursionError:
        raise BadFile(f"{where} is not valid JSON: it is nested too deeply.") from None
    except ValueError as error:
        raise BadFile(f"{where} is not valid JSON: {error}.") from None
    if _HALVES.search(content) or content.count(b"[") + content.count(b"{") >= _DEEPEST:
        _check_plain(value, where)
    return value


def _whole(text: str) -> int:
    if len(text) > _MOST_DIGITS or int(text).bit_length() > _WIDEST_BITS:
        raise ValueError("it holds a number of more than 64 bits")
    return int(text)


def _real(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError("it holds a number beyond all that can be computed with")
    return value


def parse_toml(text: str, where: str) -> dict[str, Any]:
    """Return the plain values in some TOML; raises BadFile that names the place of the fault."""
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
    """Say whether every part of telic can hold a value."""
    return not _complaint(value)


def _check_plain(value: Any, where: str) -> None:
    if complaint := _complaint(value):
        raise BadFile(f"{where} holds {complaint}.")


def _complaint(value: Any) -> str:
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > _DEEPEST:
            return f"values nested more than {_DEEPEST} deep"
        below: list[Any] = []
        for each in level:
            if is_dict(each):
                below += [*each, *each.values()]
            elif is_row(each):
                below += each
            elif isinstance(each, int) and each.bit_length() > _WIDEST_BITS:
                return "a number of more than 64 bits"
            elif isinstance(each, float) and math.isinf(each):
                return "a number beyond all that can be computed with"
            elif isinstance(each, str) and not is_text(each):
                return "invalid characters (NUL or unpaired surrogates)"
        level = below
    return ""


def _no_number(name: str) -> None:
    """Read NaN and infinities as what they are written as: unknown."""


def _unreadable(path: Path, error: OSError) -> BadFile:
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return MissingFile(f"File not found: {path}.")
    if error.errno == errno.ENAMETOOLONG:
        return MissingFile(f"File not found: {str(path)[:60]}… (the name is too long).")
    return BadFile(f"{path} cannot be read: {error.strerror}.")


def files_below(folder: Path, pattern: str = "*", most: int | None = None) -> list[Path]:
    """Return the files of some name in a folder and below, in order.

    Links are not followed, nor folders that are nested deeper than any that we make. Raises
    BadFile for a folder that holds more than any folder that we read: "/" by mistake.
    """
    seen, found = 0, list[Path]()
    most = _MOST_FILES if most is None else most
    waiting = [(str(folder), 0)]  # no recursion: who made the folders may have nested thousands
    while waiting:
        place, depth = waiting.pop()
        with contextlib.suppress(OSError), os.scandir(place) as entries:  # gone, or not ours
            for entry in entries:
                seen += 1
                if entry.is_dir(follow_symlinks=False) and depth < _DEEPEST:
                    waiting.append((entry.path, depth + 1))
                elif fnmatch.fnmatch(entry.name, pattern) and entry.is_file():
                    found.append(Path(entry.path))
        if seen > most:
            raise BadFile(
                f"{folder} holds more than {most:,} files; so many are not looked through.",
                hint="Name the folder that the files themselves are in.",
            )
    return sorted(found)


def without_links(folder: Path) -> Path:
    """Return a folder; raise Refused for a link in it, or as it, which would lead elsewhere."""
    for place, folders, files in os.walk(folder):
        for path in (place, *(os.path.join(place, name) for name in (*folders, *files))):
            if os.path.islink(path):
                raise Refused(
                    f"{folder.name} holds a link, {path}, and telic makes none.",
                    hint="Remove it, or copy what it leads to.",
                )
    return folder


def file_hash(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, however large it is."""
    check_file(path, limit=sys.maxsize)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
