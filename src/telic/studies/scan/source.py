"""A repository as it is read: the words we know, its files, and what each Python file says.

Files are read once; nothing is run, written, or followed out of the root.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import Any, Literal, NamedTuple, TypeGuard, cast

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
        return name.rpartition(".")[2] in downloads["calls"] or name in downloads["roots"]


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


class Unknown:
    """Stands for a value that the text alone does not give."""

    def __repr__(self) -> str:
        return "?"


UNKNOWN = Unknown()


class Guard(NamedTuple):
    """A condition under which code runs: the names it reads and what they are compared with."""

    names: tuple[str, ...]
    constants: tuple[Any, ...]
    holds: bool
    """False: the code runs when the condition does not hold"""


class CallSite(NamedTuple):
    """A call, with its name written out through the imports."""

    path: str
    name: str
    line: int
    scope: str
    args: tuple[Any, ...]
    keywords: dict[str, Any]
    guards: tuple[Guard, ...]

    @property
    def last(self) -> str:
        """The last part of the name."""
        return self.name.rpartition(".")[2]


class Assignment(NamedTuple):
    """A name given a value."""

    path: str
    target: str
    line: int
    scope: str
    value: Any
    """a literal, the name of what is called or read in angle brackets, or UNKNOWN"""
    computed: bool
    """whether arithmetic or a call makes the value, not a plain hand-over or unpacking"""
    annotation: str | None
    keywords: dict[str, Any]
    """what the call that makes the value is given"""
    condition: tuple[Guard, ...] = ()
    """what the value says when it is a condition"""


class Function(NamedTuple):
    """A function or method."""

    path: str
    name: str
    scope: str
    line: int
    arguments: tuple[str, ...]
    defaults: dict[str, Any]
    decorators: tuple[str, ...]

    @property
    def full_name(self) -> str:
        """The name with the scopes around it."""
        return f"{self.scope}.{self.name}".lstrip(".")


class Class(NamedTuple):
    """A class with the names of its bases."""

    path: str
    name: str
    scope: str
    line: int
    bases: tuple[str, ...]
    decorators: tuple[str, ...]

    @property
    def full_name(self) -> str:
        """The name with the scopes around it."""
        return f"{self.scope}.{self.name}".lstrip(".")


class Handler(NamedTuple):
    """An `except` block: what it catches, and whether the error goes no further."""

    path: str
    caught: str
    line: int
    swallows: bool
    tried: tuple[str, ...]
    """last names of the calls in the `try` body"""


@dataclass(slots=True)
class ModuleFacts:
    """Everything the scan keeps of one file."""

    path: str
    imports: dict[str, str] = field(default_factory=dict[str, str])
    """local name to dotted origin; relative ones are resolved"""
    import_lines: dict[str, int] = field(default_factory=dict[str, int])
    optional_imports: set[str] = field(default_factory=set[str])
    """imported in a `try` that forgives the package's absence"""
    calls: list[CallSite] = field(default_factory=list[CallSite])
    functions: list[Function] = field(default_factory=list[Function])
    classes: list[Class] = field(default_factory=list[Class])
    assignments: list[Assignment] = field(default_factory=list[Assignment])
    handlers: list[Handler] = field(default_factory=list[Handler])
    main_guard: int | None = None
    broken: str | None = None
    """why the file could not be parsed"""


def is_symbol(value: Any) -> TypeGuard[str]:
    """Whether a value is the name of what is called or read, not a plain one."""
    return isinstance(value, str) and value.startswith("<")


def as_list(value: Any) -> list[Any]:
    """Return a list as it is, anything else as a list of one."""
    return cast("list[Any]", value) if isinstance(value, list) else [value]


def is_table(value: Any) -> TypeGuard[dict[str, Any]]:
    """Whether a value is a dictionary that the text spells out."""
    return isinstance(value, dict)
