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

from telic.core.config import Record
from telic.errors import TelicError
from telic.storage.files import read_facts
from telic.storage.layout import DAMAGED, RunFolder, SessionFolder
from telic.storage.locks import lock_holder
from telic.storage.workspace import TRASH, Kind, Thing, has_begun, kind_of

STUDY_MARK = "~"
"""between the names of task and study in an id: no name holds it"""
_FRESH_S = 0.25
"""how old a list may be: requests that come together share one look"""
_PAUSES = 10
"""times that a look took, before the next one"""
_LISTED: tuple[Kind, ...] = ("session", "run", "search")
_GROWING = ("events.jsonl", "labels.jsonl", "vetoes.jsonl", "lock")
"""files that change without their folder's stamp"""


def thing_id(thing: Thing) -> str:
    """Return the id that the API knows a thing by."""
    return thing.name.replace("/", STUDY_MARK)


class ThingLine(Record):
    """One line of the table of everything."""

    id: str
    kind: Kind
    title: str
    """the intent, the method, or the task: what people know it by"""
    env: str | None
    state: str
    is_running: bool
    score: float | None = None
    """of a judge, from 0 to 1"""
    best_return: float | None = None
    iterations: int | None = None
    members: int | None = None
    steps: int | None = None
    """environment steps that were trained"""
    seconds: float | None = None
    """of training"""
    seeds: tuple[int, ...] = ()
    group: str | None = None
    """the same for runs that differ in their seeds only"""
    origin: str | None = None
    """the session that it branched from"""
    labels: int = 0
    disputed: int = 0
    error: str | None = None
    updated: float
    """seconds since 1970"""


class IndexedThing(NamedTuple):
    """A thing, its line, and the stamp that the line was read at."""

    thing: Thing
    line: ThingLine
    json: bytes
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
        return next((path for each, path in _folders(self._runs_dir) if each == name), None)

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
    entries = [_read(path, ()) for _, path in _folders(runs_dir / TRASH)]
    lines = [entry.line for entry in entries if entry is not None]
    return sorted(lines, key=lambda line: line.updated, reverse=True)


def _folders(runs_dir: Path) -> Iterator[tuple[str, Path]]:
    """Yield the folders that may be things; links lead elsewhere and are none."""
    try:
        with os.scandir(runs_dir) as entries:
            for entry in entries:
                if entry.name[0] != "." and entry.is_dir(follow_symlinks=False):
                    yield entry.name, Path(entry.path)
    except FileNotFoundError:
        return


def _is_settled(line: ThingLine) -> bool:
    """Say whether only a new file, as its folder's stamp shows, changes a line.

    Whoever goes on with a run writes its status first.
    """
    return line.kind == "run" and line.state != "running" and not line.is_running


def _stamp(path: Path, entry: IndexedThing | None) -> tuple[Any, ...]:
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
    try:
        line = _LINES[thing.kind](thing)
    except TelicError as error:  # a damaged one must not hide the others
        name = thing_id(thing)
        line = ThingLine(
            id=name,
            kind=thing.kind,
            title=name,
            env=None,
            state=DAMAGED,
            is_running=False,
            error=error.message,
            updated=thing.last_active,
        )
    if _is_settled(line):
        stamp = stamp[:1]
    return IndexedThing(thing, line, line.model_dump_json().encode(), stamp)


def _session(thing: Thing) -> ThingLine:
    from telic.verbs.session import session_facts

    facts = session_facts(SessionFolder(thing.path))
    return ThingLine(
        id=thing.name,
        kind="session",
        title=facts.intent,
        env=facts.env,
        state=facts.state,
        is_running=thing.is_running,
        score=facts.score,
        iterations=facts.iterations,
        origin=facts.origin["session"] if facts.origin else None,
        labels=facts.labels,
        disputed=facts.disputed,
        updated=thing.last_active,
    )


def _run(thing: Thing) -> ThingLine:
    from telic.training.folder import describe

    facts = describe(RunFolder(thing.path))
    names = [member.name for member in RunFolder(thing.path).members()]
    seeds = [name.rpartition("_seed_") for name in names]
    configs = sorted({config for config, _, _ in seeds})
    return ThingLine(
        id=thing.name,
        kind="run",
        title=", ".join(configs) or thing.name,
        env=facts["env"],
        state=facts["status"],
        is_running=thing.is_running,
        best_return=facts["best_return"],
        members=facts["members"],
        steps=facts["total_timesteps"],
        seconds=facts["training_time_s"],
        seeds=tuple(sorted({int(seed) for _, _, seed in seeds})),
        group=f"{facts['env']} {' '.join(configs)}",
        error=facts["error"],
        updated=thing.last_active,
    )


def _search(thing: Thing) -> ThingLine:
    from telic.storage.facts import SearchRequestFacts
    from telic.verbs.control import state_of

    request = read_facts(thing.path / "search.json", SearchRequestFacts)
    return ThingLine(
        id=thing.name,
        kind="search",
        title=request["method"],
        env=request["env"],
        state=state_of(thing),
        is_running=thing.is_running,
        group=f"{request['env']} {request['method']}",
        updated=thing.last_active,
    )


def _study(thing: Thing) -> ThingLine:
    return ThingLine(
        id=thing_id(thing),
        kind="study",
        title=thing.name,
        env=None,
        state="study",
        is_running=False,
        updated=thing.last_active,
    )


_LINES: dict[Kind, Callable[[Thing], ThingLine]] = {
    "session": _session,
    "run": _run,
    "search": _search,
    "study": _study,
}
