"""The files of a repository, read once: nothing is run, written, or followed out of the root."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Literal, cast

from telic.errors import UsageError
from telic.studies.scan.vocabulary import VOCABULARY

Place = Literal["source", "example", "test", "docs", "vendored", "template", "generated"]

PLACE_WEIGHT: dict[Place, float] = {"source": 1.0, "example": 0.8}
"""how much a claim about the sources counts when it rests on a file of this place; elsewhere 0.1"""

_PLACES = VOCABULARY.word_lists("places")
_SKIPPED = VOCABULARY.words("skipped_folders")
_TEXT = VOCABULARY.words("text_endings") | {""}
_TEST_FILE = re.compile(r"(^test_.*|.*_test|conftest)\.py$")
_TEST_TOOLS = re.compile(
    r"^\s*(import|from) (pytest|unittest|absl\.testing)\b|\bdef test_\w+\(", re.M
)
_LARGEST_FILE = 1_500_000
_MOST_FILES = 40_000


class RepositoryTree:
    """A repository as a list of readable text files, by path relative to the root."""

    def __init__(self, root: Path) -> None:
        if not root.is_dir():
            raise UsageError(f"{root} is not a folder.", hint="Give the root of a repository.")
        self.root = root.resolve()
        self.paths: tuple[str, ...] = tuple(sorted(self._walk()))
        self._texts: dict[str, str] = {}
        self._lines: dict[str, list[str]] = {}
        self._places: dict[str, Place] = {}

    def _walk(self) -> Iterator[str]:
        count = 0
        for folder, folders, names in os.walk(self.root, followlinks=False):
            folders[:] = sorted(
                name
                for name in folders
                if name not in _SKIPPED and not os.path.islink(os.path.join(folder, name))
            )
            for name in names:
                full = os.path.join(folder, name)
                if os.path.splitext(name)[1].lower() not in _TEXT or not self._is_inside(full):
                    continue
                count += 1
                if count > _MOST_FILES:
                    return
                yield os.path.relpath(full, self.root).replace(os.sep, "/")

    def _is_inside(self, full: str) -> bool:
        """Whether this is a plain file of a sensible size that lies in the root once resolved."""
        if os.path.islink(full):
            target = os.path.realpath(full)
            if os.path.commonpath([target, self.root]) != str(self.root):
                return False
        return os.path.isfile(full) and os.path.getsize(full) <= _LARGEST_FILE

    @cached_property
    def python(self) -> tuple[str, ...]:
        """Python files."""
        return tuple(self.with_suffix(".py"))

    @cached_property
    def folders(self) -> frozenset[str]:
        """Every folder that holds a readable file, directly or below."""
        return frozenset(str(up) for path in self.paths for up in PurePosixPath(path).parents)

    def with_suffix(self, *suffixes: str) -> list[str]:
        """Return the files with one of these endings."""
        return [path for path in self.paths if path.endswith(suffixes)]

    def has(self, path: str) -> bool:
        """Whether a file or folder of this relative path exists."""
        return path in self._files or path in self.folders

    @cached_property
    def _files(self) -> frozenset[str]:
        return frozenset(self.paths)

    def text(self, path: str) -> str:
        """Return the text of a file; bytes that are not UTF-8 are replaced."""
        if path not in self._texts:
            self._texts[path] = (self.root / path).read_text("utf-8", errors="replace")
        return self._texts[path]

    def line(self, path: str, number: int) -> str:
        """Return one line of a file, stripped; empty when it has no such line."""
        if path not in self._lines:
            self._lines[path] = self.text(path).splitlines()
        lines = self._lines[path]
        return lines[number - 1].strip() if 0 < number <= len(lines) else ""

    def line_of(self, path: str, position: int) -> int:
        """Return the number of the line that holds a position of a file's text."""
        return self.text(path).count("\n", 0, position) + 1

    def place(self, path: str) -> Place:
        """Say which kind of folder a file lies in."""
        if path not in self._places:
            self._places[path] = self._place(path)
        return self._places[path]

    def _place(self, path: str) -> Place:
        *folders, name = path.lower().split("/")
        if _TEST_FILE.match(name) and (
            not name.startswith("test_") or _TEST_TOOLS.search(self.text(path))
        ):
            return "test"
        words = {word for folder in folders for word in (folder, *folder.split("_"))}
        places = (place for place, names in _PLACES.items() if not words.isdisjoint(names))
        return cast("Place", next(places, "source"))

    def weight(self, path: str) -> float:
        """Say how much a claim about the sources counts when it rests on this file."""
        return PLACE_WEIGHT.get(self.place(path), 0.1)

    def is_own(self, path: str) -> bool:
        """Whether a file is the repository's own work: source or example."""
        return self.weight(path) >= 0.5
