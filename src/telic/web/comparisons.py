"""Several runs or sessions side by side: what each measured, and one sentence of statistics.

Sessions are compared by the scores of their judged episodes, runs by what each training seed
reached: those are the numbers that are independent of each other. Curves have intervals over seeds,
and of all settings those are told that differ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np
from fastapi import APIRouter, Query
from pydantic import Field

from telic.authors.candidate import SessionIteration
from telic.core.config import Record, dotted
from telic.core.stats import (
    bootstrap,
    holm,
    mann_whitney,
    probability_of_improvement,
    student_point,
)
from telic.core.text import is_dict, is_row, number
from telic.errors import TelicError, UsageError
from telic.storage.facts import MemberResultFacts
from telic.storage.files import read_facts, read_record, read_table
from telic.storage.layout import RunFolder, SessionFolder
from telic.storage.workspace import Thing
from telic.verbs.lines import thing_id
from telic.web.place import WebPlace
from telic.web.series import MetricFiles, StepValues, metric_columns

_MOST = 6
_LEAST = 2
_ALPHA = 0.05
_POINTS = 200
_MOST_BANDS = 12
_MOST_ROWS = 400
_Name = Annotated[str, Field(max_length=200)]


class ComparedThing(Record):
    """One of what is compared."""

    thing: str
    title: str
    mean: float | None
    low: float | None
    high: float | None
    """95 % bootstrap interval of the mean"""
    count: int
    """values that this rests on"""
    better_than_first: float | None
    """share of pairs in which it is the larger; None: it is the first, or nothing is known"""
    p: float | None
    """of the rank test against the first, corrected for the number of comparisons"""


class Comparison(Record):
    """Things side by side."""

    measure: str
    rows: tuple[ComparedThing, ...]
    sentence: str


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


class _Measured(NamedTuple):
    thing: str
    title: str
    values: tuple[float, ...]


def compare_things(place: WebPlace, names: Sequence[str]) -> Comparison:
    """Return things side by side, each against the first."""
    things = [place.thing(name, "session", "run") for name in dict.fromkeys(names)]
    if len(things) < _LEAST:
        raise UsageError("One thing alone cannot be compared.", hint="Choose at least two.")
    kinds = {thing.kind for thing in things}
    if len(kinds) > 1:
        raise UsageError(
            "Sessions are judged, runs only have a return: they have no measure in common.",
            hint="Compare sessions with sessions, or runs with runs.",
        )
    is_judged = kinds == {"session"}
    read = _scores if is_judged else _returns
    measured = [_Measured(thing_id(thing), _title(place, thing), read(thing)) for thing in things]
    measure = "score of judged episodes" if is_judged else "best return of a seed"
    rows = _rows(measured)
    return Comparison(measure=measure, rows=rows, sentence=_sentence(measure, rows, measured))


def _title(place: WebPlace, thing: Thing) -> str:
    entry = place.index.entry(thing_id(thing))
    return entry.line.title if entry else thing.name


def _scores(thing: Thing) -> tuple[float, ...]:
    """Return the scores of the episodes of the best policy of the best iteration."""
    folder = SessionFolder(thing.path)
    files = [folder.iteration(number).judgment for number in folder.iterations()]
    judged = [read_record(file, SessionIteration) for file in files if file.exists()]
    members = [each.best_member for each in judged]
    known = [each for each in members if each is not None and each.judgement.score is not None]
    if not known:
        return ()
    best = max(known, key=lambda each: each.judgement.score or 0.0)
    verdicts = best.judgement.verdicts
    return tuple(verdict.score for verdict in verdicts if verdict.score is not None)


def _returns(thing: Thing) -> tuple[float, ...]:
    found: list[float] = []
    for member in RunFolder(thing.path).members():
        if not member.summary.exists():
            continue
        facts: MemberResultFacts = read_facts(member.summary, MemberResultFacts)
        best = facts.get("best") or None
        value = best.get("mean_return") if best else None
        found += [] if value is None else [value]
    return tuple(found)


def _rows(measured: list[_Measured]) -> tuple[ComparedThing, ...]:
    first = np.asarray(measured[0].values)
    columns = [np.asarray(each.values) for each in measured]
    tests = [mann_whitney(column, first) for column in columns[1:]]
    chances = [None, *holm(tests)]
    return tuple(
        ComparedThing(
            thing=each.thing,
            title=each.title,
            mean=float(column.mean()) if len(column) else None,
            low=interval.low if interval else None,
            high=interval.high if interval else None,
            count=len(column),
            better_than_first=probability_of_improvement(column, first)
            if place and len(column) and len(first)
            else None,
            p=chances[place],
        )
        for place, (each, column) in enumerate(zip(measured, columns, strict=True))
        for interval in (bootstrap(each.values) if len(column) > 1 else None,)
    )


def _sentence(measure: str, rows: tuple[ComparedThing, ...], measured: list[_Measured]) -> str:
    """Say in one sentence what can be said, and no more."""
    lacking = [f'"{row.title}"' for row in rows if row.mean is None]
    if lacking:
        return f"Nothing can be said yet: {' and '.join(lacking)} was not measured."
    order = sorted(range(len(rows)), key=lambda place: rows[place].mean or 0.0, reverse=True)
    best, second = rows[order[0]], rows[order[1]]
    gap = f"{number(best.mean, 3)} against {number(second.mean, 3)}, {measure}"
    if min(row.count for row in rows) < _LEAST:
        return f"{_named(best)} is ahead ({gap}), but one value says nothing about chance."
    ahead = np.asarray(measured[order[0]].values)
    tests = holm([mann_whitney(ahead, np.asarray(measured[p].values)) for p in order[1:]])
    chance = tests[0]
    if chance is None:
        return f"They do the same ({gap})."
    if chance < _ALPHA:
        return f"{_named(best)} is better than {_named(second)} ({gap}; p {number(chance, 2)})."
    return f"The difference may be chance ({gap}; p {number(chance, 2)})."


def _named(row: ComparedThing) -> str:
    return f'"{row.title}" ({row.thing.rpartition("_")[2]})'


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
        student_point(int(count) - 1) * float(each) / math.sqrt(count) if count > 1 else None
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


def _settings(place: WebPlace, names: Sequence[str]) -> tuple[SettingRow, ...]:
    asked = [dotted(_request(place.run(name))) for name in names]
    rows: list[SettingRow] = []
    for name in sorted({key for each in asked for key in each}):
        values = [each.get(name) for each in asked]
        if any(value != values[0] for value in values):
            rows.append(SettingRow(name=name, values=tuple(map(_short, values))))
    return tuple(rows[:_MOST_ROWS])


def _request(run: RunFolder) -> dict[str, Any]:
    try:
        found = read_table(run.config)
    except TelicError:
        return {}
    members = found.pop("members", None)
    first = members[0] if is_row(members) and members and is_dict(members[0]) else {}
    return {**found, "settings": first.get("settings", {})}


def _short(value: Any) -> Any:
    """Return a setting as it is shown: texts of files and long lists are cut."""
    if is_row(value):
        return [_short(item) for item in value[:20]]
    return f"{value[:200]}…" if isinstance(value, str) and len(value) > 200 else value


def routes(place: WebPlace) -> APIRouter:
    """Return the routes of what is side by side."""
    router, files = APIRouter(), MetricFiles()

    @router.get("/compare", tags=["things"])
    def compare(
        thing: Annotated[list[str], Query(min_length=_LEAST, max_length=_MOST)],
    ) -> Comparison:
        """Compare two to six runs or sessions: values, intervals, and what can be said."""
        return compare_things(place, thing)

    @router.get("/bands", tags=["series"])
    def read_bands(
        thing: Annotated[list[_Name], Query(min_length=1, max_length=_MOST_BANDS)],
        name: _Name = "episodic_return",
    ) -> BandSet:
        """Return curves of runs and sessions over their seeds, and the settings that differ."""
        names = list(dict.fromkeys(thing))
        compared = tuple(_compared(place, files, each, name) for each in names)
        return BandSet(name=name, things=compared, settings=_settings(place, names))

    return router
