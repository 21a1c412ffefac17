"""Read a unified diff: which files it touches, how many lines it changes; match paths to patterns.

A diff is read by hunk lengths, so that a removed line that looks like a file header is not taken
for one, and both names of a rename count as touched.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

_HUNK = re.compile(r"^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_NAMES = ("rename from ", "rename to ", "copy from ", "copy to ")
_MODES = ("new file mode ", "new mode ", "old mode ", "deleted file mode ")
_PLAIN_MODES = ("100644", "100755")


class Patch(NamedTuple):
    """What a diff does, and what in it cannot be accepted."""

    files: tuple[str, ...]
    removed: tuple[str, ...]
    """lines it takes away"""
    added: tuple[str, ...]
    """lines it brings"""
    problems: tuple[str, ...]

    @property
    def changed_lines(self) -> int:
        """How many lines there are to read."""
        return len(self.removed) + len(self.added)


def read_patch(text: str) -> Patch:
    """Return what the diff touches; links, sub-modules, binary parts and odd names are problems."""
    files: dict[str, None] = {}
    problems: list[str] = []
    removed, added = list[str](), list[str]()
    lines = iter(text.splitlines())
    for line in lines:
        if hunk := _HUNK.match(line):
            old, new = (int(n or 1) for n in hunk.groups())
            _read_hunk(lines, old, new, removed, added)
        elif line.startswith(("--- ", "+++ ")):
            name = line[4:].split("\t")[0]
            if name != "/dev/null":
                files[_without_prefix(name)] = None
        elif line.startswith(_NAMES):
            files[line.split(" ", 2)[2]] = None
        elif line.startswith("diff --git "):
            for name in _header_names(line):
                files[name] = None
        elif line.startswith(_MODES) and line.split()[-1] not in _PLAIN_MODES:
            problems.append(f"mode {line.split()[-1]} is neither a plain nor an executable file")
        elif line.startswith(("GIT binary patch", "Binary files ")):
            problems.append("it holds a binary part, which nobody can review")
    problems += [f"path {name} leaves the repository or is quoted" for name in files if _odd(name)]
    if not files:
        problems.append("it touches no file")
    return Patch(tuple(files), tuple(removed), tuple(added), tuple(dict.fromkeys(problems)))


def _read_hunk(
    lines: Iterator[str], old: int, new: int, removed: list[str], added: list[str]
) -> None:
    """Read on until a hunk has its `old` and `new` lines."""
    while old > 0 or new > 0:
        line = next(lines, None)
        if line is None:
            return
        mark = line[:1]
        if mark == "-":
            removed.append(line[1:])
        elif mark == "+":
            added.append(line[1:])
        # a line that starts with a backslash only remarks on the end of the file
        old -= mark not in ("+", "\\")
        new -= mark not in ("-", "\\")


def _header_names(line: str) -> list[str]:
    """Return both names of a `diff --git` line where they can be told apart, which is when equal.

    A rename says its two names again on lines of their own.
    """
    rest = line.removeprefix("diff --git ")
    middle = len(rest) // 2
    old, new = rest[:middle], rest[middle + 1 :]
    same = rest[middle : middle + 1] == " " and _without_prefix(old) == _without_prefix(new)
    return [_without_prefix(old)] if same else []


def _without_prefix(name: str) -> str:
    """Drop the first part of the path, whatever it is called, as `git apply -p1` does."""
    return name.partition("/")[2] or f"/{name}"


def _odd(name: str) -> bool:
    return name.startswith(("/", '"')) or ".." in name.split("/") or "\0" in name


def first_match(path: str, patterns: Iterable[str]) -> str | None:
    """Return the first pattern that matches the path, or None.

    `**` stands for any number of folders, none included; `*` and `?` stay within one name. A
    pattern whose last part is a plain folder name matches everything in that folder.
    """
    return next((pattern for pattern in patterns if _compiled(pattern).fullmatch(path)), None)


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    parts = pattern.strip("/").split("/")
    out = ""
    for index, part in enumerate(parts):
        is_last = index == len(parts) - 1
        if part == "**":
            out += ".*" if is_last else "(?:[^/]+/)*"
        else:
            out += _one_name(part) + ("" if is_last else "/")
    if not set(parts[-1]) & {"*", "?"}:
        out += "(?:/.*)?"
    return re.compile(out, re.DOTALL)


def _one_name(part: str) -> str:
    wild = {"*": "[^/]*", "?": "[^/]"}
    return "".join(wild.get(letter, re.escape(letter)) for letter in part)
