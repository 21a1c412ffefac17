"""Several runs or sessions side by side: what each measured, and one sentence of statistics.

Sessions are compared by the scores of their judged episodes, runs by what each training seed
reached: those are the numbers that are independent of each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

import numpy as np
from fastapi import APIRouter, Query

from telic.authors.candidate import SessionIteration
from telic.core.config import Record
from telic.core.stats import bootstrap, holm, mann_whitney, probability_of_improvement
from telic.core.text import number
from telic.errors import UsageError
from telic.storage.facts import MemberResultFacts
from telic.storage.files import read_facts, read_record
from telic.storage.layout import RunFolder, SessionFolder
from telic.storage.workspace import Thing
from telic.web.place import WebPlace
from telic.web.thing_lines import thing_id

_MOST = 6
_LEAST = 2
_ALPHA = 0.05


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


def routes(place: WebPlace) -> APIRouter:
    """Return the route of comparisons."""
    router = APIRouter(tags=["things"])

    @router.get("/compare")
    def compare(
        thing: Annotated[list[str], Query(min_length=_LEAST, max_length=_MOST)],
    ) -> Comparison:
        """Compare two to six runs or sessions: values, intervals, and what can be said."""
        return compare_things(place, thing)

    return router
