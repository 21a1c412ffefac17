"""What there is, as lines of one table: read once, and again when its files have changed.

A folder of runs may hold thousands. A look at it asks every folder for its stamp (when something
was put into it, how long its log is) and reads only those whose stamp is another one. Each line is
kept as the JSON that leaves the server, so that a page of a list is put together without work.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from telic.core.config import Record
from telic.errors import TelicError
from telic.storage.files import read_facts
from telic.storage.layout import DAMAGED, RunFolder, SessionFolder, changed_at
from telic.storage.locks import lock_holder
from telic.storage.workspace import TRASH, Kind, Thing, has_begun, kind_of

STUDY_MARK = "~"
"""between the names of task and study in an id: no name holds it"""
_FRESH_S = 0.25
"""how old an answer may be: requests that come together share one look"""
_LISTED: tuple[Kind, ...] = ("session", "run", "search")
_GROWING = ("events.jsonl", "labels.jsonl", "vetoes.jsonl", "lock")
"""files that change without their folder's stamp"""
_SETTLED = frozenset({"completed", "failed"})
"""states of runs that only come to another one by a new file"""


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


class ThingIndex:
    """Everything in a folder of runs and in the studies of a repository."""

    def __init__(self, runs_dir: Path, root: Path) -> None:
        self._runs_dir = runs_dir
        self._root = root
        self._known: dict[str, IndexedThing] = {}
        self._looked_at = float("-inf")
        self._turn = threading.Lock()

    def entries(self) -> list[IndexedThing]:
        """Return everything that there is now."""
        with self._turn:
            if time.monotonic() - self._looked_at > _FRESH_S:
                self._look()
            return list(self._known.values())

    def find(self, name: str) -> Thing | None:
        """Return the thing of exactly this id."""
        entry = self.entry(name)
        return None if entry is None else entry.thing

    def entry(self, name: str) -> IndexedThing | None:
        """Return what is known of the thing of exactly this id."""
        known = {entry.line.id: entry for entry in self.entries()}
        if name not in known:  # it may have begun since
            self._looked_at = float("-inf")
            known = {entry.line.id: entry for entry in self.entries()}
        return known.get(name)

    def names(self) -> list[str]:
        """Return all ids."""
        return [entry.line.id for entry in self.entries()]

    def _look(self) -> None:
        found: dict[str, IndexedThing] = {}
        for name, path in _folders(self._runs_dir):
            entry = self._known.get(name)
            stamp = _stamp(path, entry)
            if entry is None or entry.stamp != stamp:
                entry = _read(path, stamp)
            if entry is not None:
                found[name] = entry
        for path in self._root.glob(".telic/tasks/*/studies/*"):
            thing = Thing("study", path)
            name = thing_id(thing)
            stamp = (changed_at(path / "ledger.jsonl"), changed_at(path))
            entry = self._known.get(name)
            if entry is None or entry.stamp != stamp:
                entry = _read_as(thing, stamp) if kind_of(path) == "study" else None
            if entry is not None:
                found[name] = entry
        self._known = found
        self._looked_at = time.monotonic()


def read_deleted(runs_dir: Path) -> list[ThingLine]:
    """Return what lies in the trash, the latest first."""
    entries = [_read(path, ()) for _, path in _folders(runs_dir / TRASH)]
    lines = [entry.line for entry in entries if entry is not None]
    return sorted(lines, key=lambda line: line.updated, reverse=True)


def _folders(runs_dir: Path) -> Iterable[tuple[str, Path]]:
    """Yield the folders that may be things; links lead elsewhere and are none."""
    try:
        with os.scandir(runs_dir) as entries:
            for entry in entries:
                if entry.name[0] != "." and entry.is_dir(follow_symlinks=False):
                    yield entry.name, Path(entry.path)
    except FileNotFoundError:
        return


def _stamp(path: Path, entry: IndexedThing | None) -> tuple[Any, ...]:
    """Return what changes when a line has to be read again."""
    own = _changed(path)
    is_settled = entry is not None and entry.line.kind == "run" and entry.line.state in _SETTLED
    if is_settled:
        return (own,)
    grown = tuple(_changed(path / name) for name in _GROWING)
    return (own, *grown, lock_holder(path / "lock"))


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
    if line.kind == "run" and line.state in _SETTLED:
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
