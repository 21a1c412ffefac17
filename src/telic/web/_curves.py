"""Metric curves for charts, training progress, and comparisons.

Curves with too many points are downsampled so that their shape and extremes are preserved.
"""

from __future__ import annotations

import json
import math
import os
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from fastapi import APIRouter, Query
from pydantic import Field

from telic.core.config import Record
from telic.core.text import is_dict
from telic.errors import BadFile, UsageError
from telic.storage.files import read_fields
from telic.storage.layout import RunFolder, SessionFolder
from telic.storage.reading import open_file
from telic.storage.scalars import downsample
from telic.storage.workspace import Artifact
from telic.training.folder import status_of
from telic.verbs.compare import Comparison, compare_artifacts
from telic.web._place import NotTrained, WebPlace, current_run

_MAX_POINTS = 20_000
_MAX_SERIES = 400
_TAIL = 1 << 14
_PIECE, _MAX_LINE = 1 << 18, 1 << 23
_MAX_VALUE = 1e300
_Name = Annotated[str, Field(max_length=200)]


class MetricCurve(Record):
    """One curve."""

    member: str
    name: str
    steps: tuple[float, ...]
    values: tuple[float, ...]
    points: int
    """number of points in the range before downsampling"""


class SeriesSet(Record):
    """The requested metric curves, and the names of all other curves."""

    series: tuple[MetricCurve, ...]
    names: tuple[str, ...]
    members: tuple[str, ...]
    is_screening: bool = False
    """whether they belong to a screening run, in which variants of a reward are compared"""


class SeriesQuery(Record):
    """Requested curves and range."""

    name: tuple[_Name, ...] = Field(
        default=("episodic_return",), max_length=200, description="metric names in `names`"
    )
    member: tuple[_Name, ...] = Field(default=(), max_length=200, description="default: all")
    iteration: int | None = Field(default=None, ge=0, le=10**9, description="of a session")
    start: float | None = Field(default=None, description="first step")
    end: float | None = Field(default=None, description="last step")
    over: Literal["global_step", "elapsed_time"] = Field(
        default="global_step", description="horizontal axis: training steps or seconds"
    )
    points: int = Field(default=1000, ge=3, le=_MAX_POINTS, description="maximum per curve")


class TrainingStatus(Record):
    """Training progress derived from the latest metrics."""

    step: int
    """environment steps that each member has trained"""
    total_steps: int
    seconds: float | None
    seconds_left: float | None
    steps_per_second: float | None
    is_screening: bool = False
    """whether it is a screening run that compares variants of a reward"""


# ---------------------------------------------------------------------------- metric files


class LogLine(NamedTuple):
    """A line of a log, with the position at which the line ends."""

    text: bytes
    end: int


def read_lines(path: Path, start: int, most_bytes: int = _PIECE) -> list[LogLine]:
    """Return the complete lines of a log after a position, skipping a partial first line."""
    try:
        file = open_file(path)
    except BadFile:
        return []
    with file:
        handle = file.fileno()
        start = start if 0 <= start <= os.fstat(handle).st_size else 0
        content = os.pread(handle, most_bytes, start)
        while b"\n" not in content and most_bytes <= len(content) < _MAX_LINE:
            most_bytes *= 2  # a line longer than the buffer, e.g. a long prompt
            content = os.pread(handle, most_bytes, start)
        if start and content and os.pread(handle, 1, start - 1) != b"\n":
            skipped = content.find(b"\n") + 1
            start, content = start + skipped, content[skipped:]
    lines, end = list[LogLine](), start
    for line in content.splitlines(keepends=True):
        if not line.endswith(b"\n"):
            break
        end += len(line)
        lines.append(LogLine(line.rstrip(b"\r\n"), end))
    return lines


def _training_row(text: bytes) -> dict[str, Any] | None:
    """Return the numbers of a training row, or None for evaluations and damaged lines."""
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
        if not isinstance(value, bool) and abs(value) < _MAX_VALUE
    }
    return numbers if "global_step" in numbers else None


@lru_cache(maxsize=64)
def _columns(path: Path, changed: int, size: int) -> dict[str, np.ndarray]:
    """Return the columns of a metric file by name. Missing values are NaN.

    The file's modification time and size are part of the cache key.
    """
    rows, position = list[dict[str, Any]](), 0
    while position < size and (lines := read_lines(path, position)):
        position = lines[-1].end
        rows += filter(None, (_training_row(line.text) for line in lines))
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: np.array([row.get(name, math.nan) for row in rows]) for name in names}


def training_status(artifact: Artifact) -> TrainingStatus | None:
    """Return the progress of the current training, or None if nothing is being trained."""
    run: RunFolder | None = RunFolder(artifact.path) if artifact.kind == "run" else None
    is_screening = False
    if artifact.kind == "session":
        folder = SessionFolder(artifact.path)
        run = current_run(folder.iteration(max(folder.iterations(), default=0)))
        is_screening = run is not None and run.name == "trial"
    if run is None or not run.config.exists() or status_of(run) != "running":
        return None
    last = list[dict[str, Any]]()
    for member in run.members():
        size = member.scalars.stat().st_size if member.scalars.exists() else 0
        lines = reversed(read_lines(member.scalars, max(0, size - _TAIL)))
        rows = (_training_row(line.text) for line in lines)
        last += [row] if (row := next(filter(None, rows), None)) else []
    total = read_fields(run.config, steps=int)["steps"]
    step = int(max((row["global_step"] for row in last), default=0))
    seconds = max((row.get("elapsed_time", 0.0) for row in last), default=0.0)
    rate = step / seconds if seconds else None
    return TrainingStatus(
        step=step,
        total_steps=total,
        seconds=seconds or None,
        seconds_left=max(0.0, (total - step) / rate) if rate else None,
        steps_per_second=rate * len(last) if rate else None,
        is_screening=is_screening,
    )


def routes(place: WebPlace) -> APIRouter:
    """Return the routes for curves."""
    router = APIRouter(tags=["curves"])

    @router.get("/artifacts/{artifact}/series")
    def read_series(artifact: str, query: Annotated[SeriesQuery, Query()]) -> SeriesSet:
        """Return curves of a run or of a session's iteration, by default the last iteration."""
        try:
            run = place.run(artifact, query.iteration)
        except NotTrained:
            return SeriesSet(series=(), names=(), members=())
        every = run.members()
        wanted = [place.member(run, name) for name in query.member] or every
        if len(wanted) * len(query.name) > _MAX_SERIES:
            raise UsageError(f"At most {_MAX_SERIES} curves can be requested at once.")
        series, names = list[MetricCurve](), dict[str, None]()
        low = -math.inf if query.start is None else query.start
        high = math.inf if query.end is None else query.end
        for member in wanted:
            if not member.scalars.exists():
                continue
            path = place.inside(member.scalars)
            columns = _columns(path, path.stat().st_mtime_ns, path.stat().st_size)
            names |= dict.fromkeys(columns)
            every_step = columns.get(query.over, np.empty(0))
            for name in [name for name in query.name if name in columns]:
                values = columns[name]
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
        is_screening = run.name == "trial"
        return SeriesSet(
            series=tuple(series), names=tuple(names), members=members, is_screening=is_screening
        )

    @router.get("/compare", tags=["compare"])
    def compare(artifact: Annotated[list[str], Query(min_length=2, max_length=6)]) -> Comparison:
        """Compare two to six sessions or runs over their training seeds."""
        return compare_artifacts([place.artifact(x, "session", "run") for x in artifact])

    return router
