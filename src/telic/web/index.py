"""What there is, as lines of one table: read once, and again when its files have changed.

A folder of runs may hold thousands. A look at it asks every folder for its stamp (when something
was put into it, how long its log is) and reads only those whose stamp is another one. Each line is
kept as the JSON that leaves the server, so that a page of a list is put together without work.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from telic.storage.locks import lock_holder
from telic.storage.workspace import TRASH, Kind, Thing, has_begun, kind_of
from telic.verbs.lines import ThingLine, read_line, thing_id

_FRESH_S = 0.25
"""how old a list may be: requests that come together share one look"""
_PAUSES = 10
"""times that a look took, before the next one"""
_LISTED: tuple[Kind, ...] = ("session", "run", "search")
_GROWING = ("events.jsonl", "labels.jsonl", "vetoes.jsonl", "lock")
"""files that change without their folder's stamp"""


class IndexedThing(NamedTuple):
    """A thing, its line, and the stamp that the line was read at."""

    thing: Thing
    line: ThingLine
    json: bytes
    words: str
    """that a search looks through"""
    stamp: tuple[Any, ...]


class ThingTable:
    """Everything as one look found it; orders and counts are worked out once."""

    def __init__(self, known: dict[str, IndexedThing]) -> None:
        self.known = known
        self.entries = list(known.values())
        self._orders: dict[Any, list[IndexedThing]] = {}

    def ordered(
        self, name: Any, key: Callable[[IndexedThing], Any], *, reverse: bool
    ) -> list[IndexedThing]:
        """Return everything in an order, which has a name."""
        if name not in self._orders:
            self._orders[name] = sorted(self.entries, key=key, reverse=reverse)
        return self._orders[name]

    @cached_property
    def counts(self) -> dict[str, dict[str, int]]:
        """How many there are by kind, state and environment."""
        lines = [entry.line for entry in self.entries]
        return {
            "kinds": Counter(line.kind for line in lines),
            "states": Counter(line.state for line in lines),
            "envs": Counter(line.env for line in lines if line.env),
        }


class ThingIndex:
    """Everything in a folder of runs and in the studies of a repository."""

    def __init__(self, runs_dir: Path, root: Path) -> None:
        self._runs_dir = runs_dir
        self._root = root
        self._table = ThingTable({})
        self._stale_at = float("-inf")
        self._turn = threading.Lock()

    def table(self) -> ThingTable:
        """Return everything that there is now; looks are rare enough to cost little."""
        with self._turn:
            if time.monotonic() > self._stale_at:
                start = time.monotonic()
                self._table = ThingTable(self._look())
                taken = time.monotonic() - start
                self._stale_at = start + taken + max(_FRESH_S, _PAUSES * taken)
            return self._table

    def forget(self) -> None:
        """Look again at the next question: something was changed from here."""
        self._stale_at = float("-inf")

    def find(self, name: str) -> Thing | None:
        """Return the thing of exactly this id."""
        entry = self.entry(name)
        return None if entry is None else entry.thing

    def entry(self, name: str) -> IndexedThing | None:
        """Return what is known of the thing of exactly this id, as it is now."""
        known = self._table.known.get(name)
        path = known.thing.path if known else self._folder(name)
        if path is None:
            return self.table().known.get(name)
        stamp = _study_stamp(path) if known and known.line.kind == "study" else _stamp(path, known)
        if known is not None and known.stamp == stamp:
            return known
        kind = kind_of(path)
        return _read(path, stamp) if kind != "study" else _read_as(Thing("study", path), stamp)

    def names(self) -> list[str]:
        """Return all ids."""
        return list(self.table().known)

    def _folder(self, name: str) -> Path | None:
        """Return the folder of a thing that was not listed yet."""
        return next((Path(path) for each, path in _folders(self._runs_dir) if each == name), None)

    def _look(self) -> dict[str, IndexedThing]:
        before = self._table.known
        found: dict[str, IndexedThing] = {}
        for name, path in _folders(self._runs_dir):
            entry = before.get(name)
            stamp = _stamp(path, entry)
            if entry is None or entry.stamp != stamp:
                entry = _read(Path(path), stamp)
            if entry is not None:
                found[name] = entry
        for path in self._root.glob(".telic/tasks/*/studies/*"):
            thing = Thing("study", path)
            name, stamp = thing_id(thing), _study_stamp(path)
            entry = before.get(name)
            if entry is None or entry.stamp != stamp:
                entry = _read_as(thing, stamp) if kind_of(path) == "study" else None
            if entry is not None:
                found[name] = entry
        return found


def read_deleted(runs_dir: Path) -> list[ThingLine]:
    """Return what lies in the trash, the latest first."""
    entries = [_read(Path(path), ()) for _, path in _folders(runs_dir / TRASH)]
    lines = [entry.line for entry in entries if entry is not None]
    return sorted(lines, key=lambda line: line.updated, reverse=True)


def _folders(runs_dir: Path) -> Iterator[tuple[str, str]]:
    """Yield name and path of the folders that may be things; links lead elsewhere and are none.

    As words: to make thousands of paths takes longer than to look at them.
    """
    try:
        with os.scandir(runs_dir) as entries:
            for entry in entries:
                if entry.name[0] != "." and entry.is_dir(follow_symlinks=False):
                    yield entry.name, entry.path
    except FileNotFoundError:
        return


def _is_settled(line: ThingLine) -> bool:
    """Say whether only a new file, as its folder's stamp shows, changes a line.

    Whoever goes on with a run writes its status first.
    """
    return line.kind == "run" and line.state != "running" and not line.is_running


def _stamp(path: Path | str, entry: IndexedThing | None) -> tuple[Any, ...]:
    """Return what changes when a line has to be read again."""
    if entry is not None and _is_settled(entry.line):
        return (_changed(path),)
    grown = (_changed(f"{path}/{name}") for name in _GROWING)
    return (_changed(path), *grown, lock_holder(Path(path) / "lock"))


def _study_stamp(path: Path) -> tuple[Any, ...]:
    return (_changed(path / "ledger.jsonl"), _changed(path))


def _changed(path: Path | str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _read(path: Path, stamp: tuple[Any, ...]) -> IndexedThing | None:
    """Return what a folder holds; None: nothing of ours."""
    kind = kind_of(path)
    if kind not in _LISTED or (kind == "session" and not has_begun(path)):
        return None
    return _read_as(Thing(kind, path), stamp)


def _read_as(thing: Thing, stamp: tuple[Any, ...]) -> IndexedThing:
    line = read_line(thing)
    return indexed(thing, line, stamp[:1] if _is_settled(line) else stamp)


def indexed(thing: Thing, line: ThingLine, stamp: tuple[Any, ...]) -> IndexedThing:
    """Return a line with what lists need of it."""
    words = f"{line.id} {line.title} {line.env or ''} {line.state}".lower()
    return IndexedThing(thing, line, line.model_dump_json().encode(), words, stamp)
