"""Pages of the table of everything: filtered, sorted, and gone on with from where a page ended.

A cursor holds the place in the order, not a number of rows: what begins or ends meanwhile moves no
row from one page to the next.
"""

from __future__ import annotations

import base64
import json
import operator
import re
from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple

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
_WORDS = ("updated", "id", "title", "env", "state", "kind", "score", "best_return")
_COUNTS = ("iterations", "members", "steps", "seconds", "labels", "disputed")
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
    """Some lines of the table, and how to get the next."""

    things: tuple[ThingLine, ...]
    total: int
    """lines that the filters leave, on all pages"""
    next: str | None
    """cursor of the next page; None: this is the last"""
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
    cursor: Annotated[str, Field(max_length=2000)] | None = Field(
        default=None, description="`next` of the page before"
    )


class _Place(NamedTuple):
    """Where in an order a line stands; what has no value stands last, whichever the direction."""

    is_known: bool
    value: Any
    id: str


def list_things(place: WebPlace, query: ThingQuery) -> bytes:
    """Return a page as JSON; see ThingPage."""
    table = place.index.table()
    ordered = table.ordered(
        (query.sort, query.descending),
        lambda entry: _place(entry.line, query),
        reverse=query.descending,
    )
    ordered = _filtered(ordered, query)
    start = 0 if query.cursor is None else _after(ordered, query)
    page = ordered[start : start + query.limit]
    has_more = start + query.limit < len(ordered)
    following = _cursor(page[-1].line, query) if page and has_more else None
    facts = {"total": len(ordered), "next": following, **table.counts}
    things = b",".join(entry.json for entry in page)
    return b'{"things":[' + things + b"]," + json.dumps(facts).encode()[1:]


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
    known = (*_WORDS, *_COUNTS, "seeds", "group", "origin", "is_running")
    if match is None or match[1] not in known:
        raise UsageError(
            f'"{text[:60]}" is no condition.',
            hint=f"Write a column, one of = != < <= > >= ~, and a value. Columns: "
            f"{', '.join(known)}.",
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


def _place(line: ThingLine, query: ThingQuery) -> _Place:
    value = getattr(line, query.sort)
    is_known = value is not None
    empty = "" if query.sort in _WORDS[1:6] else 0
    return _Place(is_known == query.descending, value if is_known else empty, line.id)


def _cursor(line: ThingLine, query: ThingQuery) -> str:
    place = [query.sort, query.descending, *_place(line, query)]
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode()


def _after(ordered: list[IndexedThing], query: ThingQuery) -> int:
    """Return the number of the first line behind a cursor."""
    try:
        words = json.loads(base64.b64decode((query.cursor or "").encode(), b"-_", validate=True))
        sort, descending, is_known, value, name = words
        last = _Place(bool(is_known), value, str(name))
        if (sort, descending) != (query.sort, query.descending):
            raise ValueError("of another order")
        places = [_place(entry.line, query) for entry in ordered]
        passed = [where >= last if query.descending else where <= last for where in places]
    except (ValueError, TypeError, RecursionError):
        raise UsageError(
            "This cursor does not belong to this list.", hint="Ask again without one."
        ) from None
    return sum(passed)


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
