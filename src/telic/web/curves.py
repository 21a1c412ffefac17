"""Curves for charts, the progress of a training, and things compared by their results.

A metric file is parsed once and then only where it has grown. A range of steps that holds more
points than asked for is thinned out so that its shape and its spikes stay.
"""

from __future__ import annotations

import json
import math
import os
import threading
from array import array
from collections import OrderedDict
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from fastapi import APIRouter, Query
from pydantic import Field

from telic.authors.candidate import SessionIteration
from telic.core.config import Record
from telic.core.stats import bootstrap, holm, mann_whitney, probability_of_improvement
from telic.core.text import is_dict
from telic.errors import UsageError
from telic.storage.facts import MemberResultFacts, RunRequestFacts
from telic.storage.files import read_facts, read_record
from telic.storage.layout import RunFolder, SessionFolder
from telic.storage.scalars import downsample
from telic.storage.workspace import Thing
from telic.verbs.lines import read_line
from telic.web.place import WebPlace

_KEPT_FILES = 64
_MOST_POINTS = 20_000
_MOST_SERIES = 400
_TAIL = 1 << 14
_PIECE = 1 << 18
_LARGEST = 1e300
_Name = Annotated[str, Field(max_length=200)]


class MetricCurve(Record):
    """One curve."""

    member: str
    name: str
    steps: tuple[float, ...]
    values: tuple[float, ...]
    points: int
    """in the range; more than `steps` has if they were thinned out"""


class SeriesSet(Record):
    """Curves, and the names of all others."""

    series: tuple[MetricCurve, ...]
    names: tuple[str, ...]
    members: tuple[str, ...]


class SeriesQuery(Record):
    """Curves to return."""

    name: tuple[_Name, ...] = Field(
        default=("episodic_return",), max_length=200, description="metrics; see `names`"
    )
    member: tuple[_Name, ...] = Field(default=(), max_length=200, description="default: all")
    iteration: int | None = Field(default=None, ge=0, le=10**9, description="of a session")
    start: float | None = Field(default=None, description="first step")
    end: float | None = Field(default=None, description="last step")
    points: int = Field(default=1000, ge=3, le=_MOST_POINTS, description="points of a curve")


class TrainingPulse(Record):
    """Progress of a training, from its newest metrics."""

    step: int
    """environment steps per member so far"""
    total_steps: int
    seconds: float | None
    seconds_left: float | None
    steps_per_second: float | None


class ComparedThing(Record):
    """A thing among those that are compared."""

    thing: str
    title: str
    mean: float | None
    low: float | None
    high: float | None
    """95 % bootstrap interval of the mean"""
    count: int
    """number of values"""
    better_than_first: float | None
    """probability of improvement over the first; None: it is the first, or not measured"""
    p: float | None
    """of the rank test against the first, with Holm's correction"""


class Comparison(Record):
    """Things side by side."""

    measure: str
    rows: tuple[ComparedThing, ...]


# ---------------------------------------------------------------------------- metric files


class LogLine(NamedTuple):
    """A line of a log and the position of its end."""

    text: bytes
    end: int


def read_lines(path: Path, start: int, most_bytes: int = _PIECE) -> list[LogLine]:
    """Return whole lines from a position on; inside a line, from the next line on."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        size = os.fstat(handle).st_size
        start = start if 0 <= start <= size else 0
        content = os.pread(handle, most_bytes, start)
        while content and b"\n" not in content and len(content) >= most_bytes:
            most_bytes *= 2  # a line longer than a piece: a long prompt
            content = os.pread(handle, most_bytes, start)
        if start and content and os.pread(handle, 1, start - 1) != b"\n":
            skipped = content.find(b"\n") + 1
            start, content = start + skipped, content[skipped:]
    finally:
        os.close(handle)
    lines, end = list[LogLine](), start
    for line in content.splitlines(keepends=True):
        if not line.endswith(b"\n"):
            break
        end += len(line)
        lines.append(LogLine(line.rstrip(b"\r\n"), end))
    return lines


def _training_row(text: bytes) -> dict[str, Any] | None:
    """Return the numbers of a row of training; None for evaluations and damaged lines."""
    try:
        row = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not is_dict(row) or row.get("type") == "eval":
        return None
    numbers = {
        name: value
        for name, value in row.items()
        if isinstance(value, int | float)
        if not isinstance(value, bool) and abs(value) < _LARGEST
    }
    return numbers if "global_step" in numbers else None


class _Columns:
    """The numbers of a metric file by name, read up to a position; NaN where a row has none."""

    def __init__(self, inode: int) -> None:
        self.inode, self.position, self.rows = inode, 0, 0
        self.columns: dict[str, array[float]] = {}

    def read_on(self, path: Path) -> None:
        while lines := read_lines(path, self.position):
            if lines[-1].end <= self.position:
                return
            self.position = lines[-1].end
            for row in filter(None, (_training_row(line.text) for line in lines)):
                for name, value in row.items():
                    column = self.columns.setdefault(name, array("d"))
                    column.extend([math.nan] * (self.rows - len(column)))
                    column.append(value)
                self.rows += 1

    def column(self, name: str) -> np.ndarray:
        values = np.full(self.rows, np.nan)
        if name in self.columns:
            known = np.frombuffer(self.columns[name])
            values[: len(known)] = known
        return values


class _MetricFiles:
    """The most recently used metric files."""

    def __init__(self) -> None:
        self._files: OrderedDict[Path, _Columns] = OrderedDict()
        self._turn = threading.Lock()

    def read(self, path: Path) -> _Columns:
        with self._turn:
            found = path.stat()
            known = self._files.pop(path, None)
            if known is None or known.inode != found.st_ino or known.position > found.st_size:
                known = _Columns(found.st_ino)
            if known.position < found.st_size:
                known.read_on(path)
            self._files[path] = known
            if len(self._files) > _KEPT_FILES:
                self._files.popitem(last=False)
            return known


def pulse_of(thing: Thing) -> TrainingPulse | None:
    """Return the progress of the current training of a run or session; None without one."""
    if thing.kind not in ("run", "session"):
        return None
    run = RunFolder(thing.path)
    if thing.kind == "session":
        folder = SessionFolder(thing.path)
        run = folder.iteration(max(folder.iterations(), default=0)).run
    if not run.config.exists():
        return None
    last = list[dict[str, Any]]()
    for member in run.members():
        size = member.scalars.stat().st_size if member.scalars.exists() else 0
        lines = reversed(read_lines(member.scalars, max(0, size - _TAIL)))
        rows = (_training_row(line.text) for line in lines)
        last += [row] if (row := next(filter(None, rows), None)) else []
    if not last:
        return None
    step = int(max(row["global_step"] for row in last))
    total = read_facts(run.config, RunRequestFacts)["steps"]
    seconds = max(row.get("elapsed_time", 0.0) for row in last)
    rate = step / seconds if seconds else None
    return TrainingPulse(
        step=step,
        total_steps=total,
        seconds=seconds,
        seconds_left=max(0.0, (total - step) / rate) if rate else None,
        steps_per_second=rate * len(last) if rate else None,
    )


# ---------------------------------------------------------------------------- comparison


def _scores(thing: Thing) -> tuple[float, ...]:
    """Return the scores of the judged episodes of a session's best policy."""
    folder = SessionFolder(thing.path)
    files = [folder.iteration(number).judgment for number in folder.iterations()]
    judged = [read_record(file, SessionIteration).best_member for file in files if file.exists()]
    known = [each.judgement for each in judged if each is not None]
    best = max(known, key=lambda each: -1.0 if each.score is None else each.score, default=None)
    verdicts = best.verdicts if best else ()
    return tuple(verdict.score for verdict in verdicts if verdict.score is not None)


def _returns(thing: Thing) -> tuple[float, ...]:
    """Return the best return of every training seed of a run."""
    files = [member.summary for member in RunFolder(thing.path).members()]
    facts = [read_facts(file, MemberResultFacts) for file in files if file.exists()]
    best = [(each.get("best") or {}).get("mean_return") for each in facts]
    return tuple(value for value in best if value is not None)


def _compare(things: list[Thing]) -> Comparison:
    kinds = {thing.kind for thing in things}
    if len(things) < 2 or len(kinds) > 1:
        raise UsageError(
            "Sessions are compared by score, runs by return: choose two or more of one kind."
        )
    is_judged = kinds == {"session"}
    values = [np.asarray((_scores if is_judged else _returns)(thing)) for thing in things]
    first = values[0]
    p_values = [None, *holm([mann_whitney(each, first) for each in values[1:]])]
    rows: list[ComparedThing] = []
    for place, (thing, own) in enumerate(zip(things, values, strict=True)):
        line, interval = read_line(thing), bootstrap(own.tolist())
        is_other = place > 0 and len(own) > 0 and len(first) > 0
        rows.append(
            ComparedThing(
                thing=line.id,
                title=line.title,
                mean=float(own.mean()) if len(own) else None,
                low=interval.low if interval else None,
                high=interval.high if interval else None,
                count=len(own),
                better_than_first=probability_of_improvement(own, first) if is_other else None,
                p=p_values[place],
            )
        )
    measure = "score of judged episodes" if is_judged else "best return of a seed"
    return Comparison(measure=measure, rows=tuple(rows))


def routes(place: WebPlace) -> APIRouter:
    """Return the routes of curves."""
    router, files = APIRouter(tags=["curves"]), _MetricFiles()

    @router.get("/things/{thing}/series")
    def read_series(thing: str, query: Annotated[SeriesQuery, Query()]) -> SeriesSet:
        """Return curves of a run, or of an iteration of a session (default: the last)."""
        run = place.run(thing, query.iteration)
        every = run.members()
        wanted = [place.member(run, name) for name in query.member] or every
        if len(wanted) * len(query.name) > _MOST_SERIES:
            raise UsageError(f"At most {_MOST_SERIES} curves can be requested at once.")
        series, names = list[MetricCurve](), dict[str, None]()
        low = -math.inf if query.start is None else query.start
        high = math.inf if query.end is None else query.end
        for member in wanted:
            if not member.scalars.exists():
                continue
            columns = files.read(place.inside(member.scalars))
            names |= dict.fromkeys(columns.columns)
            every_step = columns.column("global_step")
            for name in query.name:
                values = columns.column(name)
                kept = np.isfinite(values) & (every_step >= low) & (every_step <= high)
                if not kept.any():
                    continue
                steps, shown = downsample(every_step[kept], values[kept], query.points)
                series.append(
                    MetricCurve(
                        member=member.name,
                        name=name,
                        steps=tuple(steps),
                        values=tuple(shown),
                        points=int(kept.sum()),
                    )
                )
        members = tuple(member.name for member in every)
        return SeriesSet(series=tuple(series), names=tuple(names), members=members)

    @router.get("/compare")
    def compare(thing: Annotated[list[_Name], Query(min_length=2, max_length=6)]) -> Comparison:
        """Compare two to six runs or sessions: means, intervals, rank tests against the first."""
        return _compare([place.thing(name, "session", "run") for name in dict.fromkeys(thing)])

    return router
