"""Several things side by side: curves with intervals over seeds, and settings that differ."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import Field

from telic.core.config import Record
from telic.core.stats import student_above
from telic.core.text import is_dict, is_row
from telic.errors import TelicError
from telic.storage.files import read_table
from telic.storage.layout import RunFolder
from telic.web.place import WebPlace
from telic.web.series import MetricFiles, StepValues, metric_columns

_POINTS = 200
_MOST_THINGS = 12
_MOST_ROWS = 400
_Name = Annotated[str, Field(max_length=200)]


class SeedBand(Record):
    """The mean of a curve over seeds, with the 95 % interval of that mean."""

    steps: tuple[float, ...]
    mean: tuple[float, ...]
    low: tuple[float | None, ...]
    """None where fewer than two seeds are"""
    high: tuple[float | None, ...]
    seeds: tuple[int, ...]
    """how many there are at each step"""


class BandedThing(Record):
    """One of the things."""

    id: str
    title: str
    env: str | None
    state: str
    members: tuple[str, ...]
    band: SeedBand | None


class SettingRow(Record):
    """A setting in which they differ."""

    name: str
    values: tuple[Any, ...]
    """of each thing; None: it has no such setting"""


class BandSet(Record):
    """Things side by side."""

    name: str
    """the metric"""
    things: tuple[BandedThing, ...]
    settings: tuple[SettingRow, ...]


def bands_of(place: WebPlace, files: MetricFiles, names: Sequence[str], metric: str) -> Any:
    """Put things side by side; raises UsageError where one has trained nothing."""
    compared = tuple(_compared(place, files, name, metric) for name in names)
    return BandSet(
        name=metric,
        things=compared,
        settings=_settings(place, names),
    )


def _compared(place: WebPlace, files: MetricFiles, name: str, metric: str) -> BandedThing:
    run = place.run(name)
    entry = place.index.entry(name)
    assert entry is not None
    curves = list[StepValues]()
    members = run.members()
    for member in members:
        curve = metric_columns(place, files, member, "train").curve(metric)
        curves += [curve] if len(curve.steps) else []
    return BandedThing(
        id=name,
        title=entry.line.title,
        env=entry.line.env,
        state=entry.line.state,
        members=tuple(member.name for member in members),
        band=_band(curves) if curves else None,
    )


def _band(curves: list[StepValues]) -> SeedBand:
    import numpy as np

    every = np.unique(np.concatenate([curve.steps for curve in curves]))
    chosen = np.unique(np.linspace(0, len(every) - 1, min(_POINTS, len(every))).round().astype(int))
    steps = every[chosen]
    values = np.full((len(curves), len(steps)), np.nan)
    for row, curve in enumerate(curves):
        x, y = curve
        inside = (steps >= x[0]) & (steps <= x[-1])
        values[row, inside] = np.interp(steps[inside], x, y)
    counts = (~np.isnan(values)).sum(0)
    kept = counts > 0
    steps, values, counts = steps[kept], values[:, kept], counts[kept]
    mean = np.nanmean(values, 0)
    spread = np.sqrt(np.nansum((values - mean) ** 2, 0) / np.maximum(counts - 1, 1))
    half = [
        _t95(int(count) - 1) * float(each) / math.sqrt(count) if count > 1 else None
        for count, each in zip(counts, spread, strict=True)
    ]
    pairs = list(zip(mean.tolist(), half, strict=True))
    return SeedBand(
        steps=tuple(steps.tolist()),
        mean=tuple(mean.tolist()),
        low=tuple(None if each is None else value - each for value, each in pairs),
        high=tuple(None if each is None else value + each for value, each in pairs),
        seeds=tuple(int(count) for count in counts),
    )


def _t95(freedom: int) -> float:
    """Return the 97.5 % point of Student's distribution."""
    low, high = 0.0, 100.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if student_above(middle, freedom) > 0.025 else (low, middle)
    return (low + high) / 2


def _settings(place: WebPlace, names: Sequence[str]) -> tuple[SettingRow, ...]:
    asked = [_flat(_request(place.run(name))) for name in names]
    rows: list[SettingRow] = []
    for name in sorted({key for each in asked for key in each}):
        values = [each.get(name) for each in asked]
        if any(value != values[0] for value in values):
            rows.append(SettingRow(name=name, values=tuple(values)))
    return tuple(rows[:_MOST_ROWS])


def _request(run: RunFolder) -> dict[str, Any]:
    try:
        found = read_table(run.config)
    except TelicError:
        return {}
    members = found.pop("members", None)
    first = members[0] if is_row(members) and members and is_dict(members[0]) else {}
    return {**found, "settings": first.get("settings", {})}


def _flat(value: Any, name: str = "") -> dict[str, Any]:
    """Return settings by dotted name; texts of files are too long to compare here."""
    if is_dict(value):
        parts = [_flat(item, f"{name}.{key}" if name else str(key)) for key, item in value.items()]
        return {key: item for part in parts for key, item in part.items()}
    if is_row(value):
        parts = [_flat(item, f"{name}.{place}") for place, item in enumerate(value[:20])]
        is_plain = all(not is_dict(item) and not is_row(item) for item in value)
        flat = {key: item for part in parts for key, item in part.items()}
        return {name: list(value[:20])} if is_plain else flat
    return {name: f"{value[:200]}…" if isinstance(value, str) and len(value) > 200 else value}


def routes(place: WebPlace) -> APIRouter:
    """Return the route of bands."""
    router, files = APIRouter(tags=["series"]), MetricFiles()

    @router.get("/bands", response_model=BandSet)
    def read_bands(
        thing: Annotated[list[_Name], Query(min_length=1, max_length=_MOST_THINGS)],
        name: _Name = "episodic_return",
    ) -> Any:
        """Return curves of runs and sessions over their seeds, and the settings that differ."""
        return bands_of(place, files, list(dict.fromkeys(thing)), name)

    return router
