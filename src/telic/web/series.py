"""Curves for charts: a metric file is parsed once and then only where it has grown.

A chart asks for so many points of a range of steps. Where the range holds more, those are chosen
that keep the shape and the spikes; where it does not, every point is exact.
"""

from __future__ import annotations

import json
import math
import os
import threading
from array import array
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from fastapi import APIRouter, Query
from pydantic import Field

from telic.core.config import Record
from telic.core.text import is_dict
from telic.errors import UsageError
from telic.storage.facts import RunRequestFacts
from telic.storage.files import read_facts
from telic.storage.layout import MemberFolder, RunFolder, SessionFolder
from telic.storage.scalars import downsample
from telic.storage.workspace import Thing
from telic.web.place import WebPlace

if TYPE_CHECKING:
    import numpy as np

_KEPT = 64
"""files whose rows stay in memory"""
_MOST_POINTS = 20_000
_MOST_SERIES = 400
_TAIL = 1 << 14
_PIECE = 1 << 18

Rows = Literal["train", "eval"]


class MetricCurve(Record):
    """One curve."""

    member: str
    name: str
    steps: tuple[float, ...]
    values: tuple[float, ...]
    points: int
    """that the range holds; more than are given: they were thinned out"""


class SeriesSet(Record):
    """Curves, and which others there are."""

    series: tuple[MetricCurve, ...]
    names: tuple[str, ...]
    """of all curves of this kind"""
    members: tuple[str, ...]
    last_step: float | None
    """of the newest row; ask again with `start` from there for what comes then"""


class SeriesQuery(Record):
    """Which curves are wanted."""

    name: tuple[Annotated[str, Field(max_length=200)], ...] = Field(
        default=("episodic_return",), max_length=200, description="metrics; see `names`"
    )
    member: tuple[Annotated[str, Field(max_length=200)], ...] = Field(
        default=(), max_length=200, description="members; all if left out"
    )
    rows: Rows = Field(default="train", description="rows of training or of evaluations")
    iteration: int | None = Field(default=None, ge=0, le=10**9, description="of a session")
    start: float | None = Field(default=None, description="first step")
    end: float | None = Field(default=None, description="last step")
    points: int = Field(default=1000, ge=3, le=_MOST_POINTS, description="points of a curve")


class Pulse(Record):
    """How far a training is, read from its newest metrics."""

    iteration: int | None
    step: int
    """environment steps per member so far"""
    total_steps: int | None
    seconds: float | None
    seconds_left: float | None
    steps_per_second: float | None
    returns: dict[str, float | None]


class MetricColumns:
    """The numbers of one kind of row of a metric file, by name; NaN where a row lacks one."""

    def __init__(self) -> None:
        self.rows = 0
        self._columns: dict[str, array[float]] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of all columns."""
        return tuple(self._columns)

    def add(self, row: dict[str, Any]) -> None:
        """Add a row; the terms of an evaluation's reward are columns of their own."""
        terms = row.get("reward_terms")
        more = {f"reward_term_{name}": value for name, value in terms.items()} if terms else {}
        for name, value in {**row, **more}.items():
            if not _is_number(value):
                continue
            column = self._columns.setdefault(name, array("d"))
            if len(column) < self.rows:
                column.extend([math.nan] * (self.rows - len(column)))
            column.append(value)
        self.rows += 1

    def column(self, name: str) -> np.ndarray:
        """Return a column as long as there are rows."""
        import numpy as np

        values = np.full(self.rows, np.nan)
        if name in self._columns:
            known = np.frombuffer(self._columns[name])
            values[: len(known)] = known
        return values

    def curve(self, name: str, low: float = -math.inf, high: float = math.inf) -> StepValues:
        """Return the known values of a column between two steps."""
        import numpy as np

        steps, values = self.column("global_step"), self.column(name)
        kept = np.isfinite(values) & (steps >= low) & (steps <= high)
        return StepValues(steps[kept], values[kept])


class StepValues(NamedTuple):
    """Values by step."""

    steps: np.ndarray
    values: np.ndarray


class _Parsed(NamedTuple):
    """What a metric file holds, up to a place in it."""

    inode: int
    place: int
    columns: dict[Rows, MetricColumns]


class MetricFiles:
    """Metric files that were parsed, the latest used of them."""

    def __init__(self) -> None:
        self._parsed: OrderedDict[Path, _Parsed] = OrderedDict()
        self._turn = threading.Lock()

    def columns(self, path: Path, kind: Rows) -> MetricColumns:
        """Return the numbers of a file; what is no row of numbers is left out."""
        with self._turn:
            try:
                stat = os.stat(path)
            except OSError:
                return MetricColumns()
            known = self._parsed.get(path)
            if known is None or known.inode != stat.st_ino or known.place > stat.st_size:
                known = _Parsed(stat.st_ino, 0, {"train": MetricColumns(), "eval": MetricColumns()})
            place = known.place
            while lines := read_lines(path, place) if place < stat.st_size else []:
                place = lines[-1].end
                for line in lines:
                    if (row := _row(line.text)) is not None:
                        known.columns["eval" if row.get("type") == "eval" else "train"].add(row)
            self._parsed[path] = known._replace(place=place)
            self._parsed.move_to_end(path)
            while len(self._parsed) > _KEPT:
                self._parsed.popitem(last=False)
            return known.columns[kind]


class LogLine(NamedTuple):
    """A line of a log, and where it ends."""

    text: bytes
    end: int


def read_lines(path: Path, start: int, most_bytes: int = _PIECE) -> list[LogLine]:
    """Return whole lines from a place on; a place inside of a line goes on with the next one."""
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


def _row(text: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not is_dict(row) or not _is_number(row.get("global_step")):
        return None
    if not is_dict(row.get("reward_terms", {})):
        return None
    return row


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and abs(value) < 1e300


def _shown(
    member: str, name: str, columns: MetricColumns, query: SeriesQuery
) -> MetricCurve | None:
    low = -math.inf if query.start is None else query.start
    high = math.inf if query.end is None else query.end
    curve = columns.curve(name, low, high)
    if not len(curve.steps):
        return None
    steps, values = downsample(curve.steps, curve.values, query.points)
    return MetricCurve(
        member=member,
        name=name,
        steps=tuple(steps),
        values=tuple(values),
        points=len(curve.steps),
    )


def read_series(
    place: WebPlace, files: MetricFiles, run: RunFolder, query: SeriesQuery
) -> SeriesSet:
    """Return curves of a run."""
    known = {member.name: member for member in run.members()}
    wanted = [place.member(run, name) for name in query.member] or list(known.values())
    if len(wanted) * len(query.name) > _MOST_SERIES:
        raise UsageError(f"More than {_MOST_SERIES} curves at once are not drawn.")
    series, names, last = list[MetricCurve](), dict[str, None](), list[float]()
    for member in wanted:
        columns = metric_columns(place, files, member, query.rows)
        names |= dict.fromkeys(columns.names)
        last += columns.column("global_step")[-1:].tolist()
        curves = (_shown(member.name, name, columns, query) for name in query.name)
        series += [curve for curve in curves if curve is not None]
    return SeriesSet(
        series=tuple(series),
        names=tuple(names),
        members=tuple(known),
        last_step=max(last, default=None),
    )


def metric_columns(
    place: WebPlace, files: MetricFiles, member: MemberFolder, kind: Rows
) -> MetricColumns:
    """Return the numbers of a member, of training or of evaluations."""
    if not member.scalars.exists():
        return MetricColumns()
    return files.columns(place.inside(member.scalars), kind)


def pulse_of(thing: Thing) -> Pulse | None:
    """Return how far the present training of a run or a session is; None: there is none."""
    run, number = RunFolder(thing.path), None
    if thing.kind == "session":
        folder = SessionFolder(thing.path)
        number = max(folder.iterations(), default=None)
        if number is None:
            return None
        run = folder.iteration(number).run
    if thing.kind not in ("run", "session") or not run.config.exists():
        return None
    rows = {member.name: _last_row(member.scalars) for member in run.members()}
    known = [row for row in rows.values() if row]
    if not known:
        return None
    step = int(max(row["global_step"] for row in known))
    total = read_facts(run.config, RunRequestFacts)["steps"]
    seconds = max((row.get("elapsed_time") or 0.0 for row in known), default=None)
    rate = step / seconds if seconds else None
    return Pulse(
        iteration=number,
        step=step,
        total_steps=total,
        seconds=seconds,
        seconds_left=max(0.0, (total - step) / rate) if rate else None,
        steps_per_second=rate * len(known) if rate else None,
        returns={name: row.get("episodic_return") for name, row in rows.items()},
    )


def _last_row(path: Path) -> dict[str, Any]:
    try:
        size = path.stat().st_size
    except OSError:
        return {}
    rows = (_row(line.text) for line in reversed(read_lines(path, max(0, size - _TAIL))))
    known = (row for row in rows if row and row.get("type") != "eval")
    return next(known, dict[str, Any]())


def routes(place: WebPlace) -> APIRouter:
    """Return the routes of curves."""
    router, files = APIRouter(tags=["series"]), MetricFiles()

    @router.get("/things/{thing}/series")
    def series(thing: str, query: Annotated[SeriesQuery, Query()]) -> SeriesSet:
        """Return curves of a run, or of an iteration of a session (the last if none is said)."""
        return read_series(place, files, place.run(thing, query.iteration), query)

    return router
