"""A repository as it is read: the words we know, and its files.

Files are read once; nothing is run, written, or followed out of the root.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator
from functools import cached_property
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import Any, Literal, cast

from telic.errors import UsageError


class Vocabulary:
    """Look-ups in the data file of known names."""

    def __init__(self) -> None:
        self._groups: dict[str, frozenset[str]] = {}

    @cached_property
    def _data(self) -> dict[str, Any]:
        text = resources.files("telic.studies.scan").joinpath("vocabulary.toml").read_text("utf-8")
        return tomllib.loads(text)

    def package(self, origin: str, group: str) -> str | None:
        """Return the known package that a dotted import belongs to, in one group."""
        packages = self._groups.setdefault(group, frozenset(self._data[group]["packages"]))
        while origin:
            if origin in packages:
                return origin
            origin = origin.rpartition(".")[0]
        return None

    def words(self, name: str) -> frozenset[str]:
        """Return one list of words."""
        return frozenset(self._data["words"][name].split())

    def word_lists(self, group: str) -> dict[str, tuple[str, ...]]:
        """Return a group's lists of words, both in the order they are written."""
        return {name: tuple(text.split()) for name, text in self._data[group].items()}

    def pattern(self, name: str) -> re.Pattern[str]:
        """Return a pattern of names that speak for something."""
        return _compiled(self._data["patterns"][name])

    def patterns(self, group: str) -> dict[str, re.Pattern[str]]:
        """Return a group of patterns, in the order they are written."""
        return {name: _compiled(text) for name, text in self._data["patterns"][group].items()}

    def learner_sinks(self, origin: str) -> tuple[str, list[str]] | None:
        """Return a learning library and the sinks its trainers write by themselves."""
        for name, about in self._data["learners"].items():
            if origin == name or origin.startswith(f"{name}."):
                return name, about["sinks"]
        return None

    def table(self, group: str) -> dict[str, Any]:
        """Return one group of the data."""
        return self._data[group]

    def is_download(self, name: str) -> bool:
        """Whether a call of this name fetches something over the network."""
        downloads = self._data["downloads"]
        head, last = name.partition(".")[0], name.rpartition(".")[2]
        if last in downloads["calls"] or name in downloads["roots"]:
            return True
        return last in downloads["by_package"].get(head, "").split()

    @cached_property
    def fetching(self) -> frozenset[str]:
        """Last names of calls that may fetch something."""
        downloads = self._data["downloads"]
        inside = (word for words in downloads["by_package"].values() for word in words.split())
        roots = (name.rpartition(".")[2] for name in downloads["roots"])
        return frozenset([*downloads["calls"], *inside, *roots])

    def is_upload(self, name: str) -> bool:
        """Whether a call of this name sends something over the network."""
        return name.rpartition(".")[2] in self._data["downloads"]["uploads"]


def _compiled(text: str) -> re.Pattern[str]:
    return re.compile("".join(line.strip() for line in text.splitlines()))


VOCABULARY = Vocabulary()


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

    def line_with(self, path: str, text: str) -> int:
        """Return the number of the first line that holds a text; 1 when none does."""
        return self.line_of(path, max(self.text(path).find(text), 0))

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
