"""The table of everything: filtered, sorted, and cut to a length."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable
from typing import Annotated, Any, Literal, get_args

from fastapi import APIRouter, Query, Response
from pydantic import Field

from telic.core.config import Record
from telic.core.text import is_row
from telic.errors import UsageError
from telic.storage.workspace import Kind
from telic.verbs.lines import ThingLine
from telic.web.index import IndexedThing, read_deleted
from telic.web.place import WebPlace

MOST = 5000
_LONGEST = 200
Sorting = Literal[
    "updated",
    "id",
    "title",
    "env",
    "state",
    "kind",
    "score",
    "best_return",
    "iterations",
    "members",
    "steps",
    "seconds",
    "labels",
    "disputed",
]
_COLUMNS = (*get_args(Sorting), "seeds", "group", "origin", "is_running")
"""that conditions may name"""
_FILTER = re.compile(r"\s*([a-z_]+)\s*(<=|>=|!=|=|<|>|~)\s*(.*?)\s*", re.DOTALL)
_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_NUMBERS = (int, float)
_KIND, _STATE, _ENV = map(operator.attrgetter, ("line.kind", "line.state", "line.env"))
_Word = Annotated[str, Field(max_length=_LONGEST)]


class ThingPage(Record):
    """The first lines of the table."""

    things: tuple[ThingLine, ...]
    total: int
    """lines that the filters leave"""
    kinds: dict[str, int]
    """how many there are of each kind, before filters"""
    states: dict[str, int]
    envs: dict[str, int]


class ThingQuery(Record):
    """Which lines are wanted."""

    kind: tuple[Kind, ...] = Field(default=(), description="only these kinds")
    state: tuple[_Word, ...] = Field(default=(), description="only these states")
    env: tuple[_Word, ...] = Field(default=(), description="only these environments")
    text: _Word = Field(default="", description="words that id, title or environment hold")
    where: tuple[_Word, ...] = Field(
        default=(),
        max_length=20,
        description="conditions that all hold: score>=0.8, env=Ant-v5, title~backflip",
    )
    sort: Sorting = Field(default="updated", description="column to sort by")
    descending: bool = Field(default=True, description="the largest first")
    limit: int = Field(default=100, ge=1, le=MOST, description="lines of a page")


def list_things(place: WebPlace, query: ThingQuery) -> bytes:
    """Return a page as JSON; see ThingPage."""
    table = place.index.table()
    ordered = table.ordered(
        (query.sort, query.descending),
        lambda entry: _sort_key(entry.line, query),
        reverse=query.descending,
    )
    ordered = _filtered(ordered, query)
    facts = {"total": len(ordered), **table.counts}
    things = b",".join(entry.json for entry in ordered[: query.limit])
    return b'{"things":[' + things + b"]," + json.dumps(facts).encode()[1:]


def _sort_key(line: ThingLine, query: ThingQuery) -> tuple[bool, Any, str]:
    """Return where a line stands; one without a value comes last, whichever the direction."""
    value = getattr(line, query.sort)
    if value is None:
        return not query.descending, "" if query.sort == "env" else 0, line.id
    return query.descending, value, line.id


def _filtered(ordered: list[IndexedThing], query: ThingQuery) -> list[IndexedThing]:
    """Return what all filters leave, one filter after the other: most leave little."""
    for kept, value in ((query.kind, _KIND), (query.state, _STATE), (query.env, _ENV)):
        if kept:
            ordered = [entry for entry in ordered if value(entry) in kept]
    for word in query.text.lower().split():
        ordered = [entry for entry in ordered if word in entry.words]
    for hold in [_condition(text) for text in query.where]:
        ordered = [entry for entry in ordered if hold(entry.line)]
    return ordered


def _condition(text: str) -> Callable[[ThingLine], bool]:
    """Return a test of lines from words such as score>=0.8."""
    match = _FILTER.fullmatch(text)
    if match is None or match[1] not in _COLUMNS:
        raise UsageError(
            f'"{text[:60]}" is not a condition.',
            hint=f"Write a column, one of = != < <= > >= ~, and a value. Columns: "
            f"{', '.join(_COLUMNS)}.",
        )
    name, sign, wanted = match[1], match[2], match[3].strip("\"'")
    value = operator.attrgetter(name)
    number = _number(wanted)
    if sign == "~":
        sought = wanted.lower()
        return lambda line: sought in _shown(value(line)).lower()
    if sign in ("=", "!="):
        is_wanted = sign == "="
        return lambda line: _equals(value(line), wanted, number) == is_wanted
    compare = _ORDERS[sign]
    if number is None:
        return lambda line: compare(_shown(value(line)), wanted)

    def holds(line: ThingLine) -> bool:
        found = value(line)
        return isinstance(found, _NUMBERS) and compare(found, number)

    return holds


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _equals(value: Any, wanted: str, number: float | None) -> bool:
    if isinstance(value, bool):
        return wanted.lower() in (("true", "yes", "1") if value else ("false", "no", "0"))
    if isinstance(value, _NUMBERS):
        return number == value
    return _shown(value) == wanted


def _shown(value: Any) -> str:
    if value is None:
        return ""
    return ",".join(map(str, value)) if is_row(value) else str(value)


def routes(place: WebPlace) -> APIRouter:
    """Return the routes of lists."""
    router = APIRouter(tags=["things"])

    @router.get("/things", response_model=ThingPage)
    def list_all(query: Annotated[ThingQuery, Query()]) -> Response:
        """List sessions, runs, searches and studies."""
        return Response(list_things(place, query), media_type="application/json")

    @router.get("/trash")
    def list_deleted() -> list[ThingLine]:
        """List what was deleted and can be restored."""
        return read_deleted(place.runs_dir)

    return router
