"""Pages of the table of everything: filtered, sorted, and gone on with from where a page ended.

A cursor holds the place in the order, not a number of rows: what begins or ends meanwhile moves no
row from one page to the next.
"""

from __future__ import annotations

import base64
import json
import operator
import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, NamedTuple

from fastapi import APIRouter, Query, Response
from pydantic import Field

from telic.core.config import Record
from telic.core.text import is_row
from telic.errors import UsageError
from telic.storage.workspace import Kind
from telic.web.index import IndexedThing, read_deleted
from telic.web.place import WebPlace
from telic.web.thing_lines import ThingLine

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
    holds = [_condition(text) for text in query.where]
    if query.kind or query.state or query.env or query.text or holds:
        words = query.text.lower().split()
        ordered = [entry for entry in ordered if _fits(entry, query, words)]
        ordered = [entry for entry in ordered if all(hold(entry.line) for hold in holds)]
    start = 0 if query.cursor is None else _after(ordered, query)
    page = ordered[start : start + query.limit]
    has_more = start + query.limit < len(ordered)
    following = _cursor(page[-1].line, query) if page and has_more else None
    facts = {"total": len(ordered), "next": following, **table.counts}
    things = b",".join(entry.json for entry in page)
    return b'{"things":[' + things + b"]," + json.dumps(facts).encode()[1:]


def _fits(entry: IndexedThing, query: ThingQuery, words: Sequence[str]) -> bool:
    line = entry.line
    if query.kind and line.kind not in query.kind:
        return False
    if query.state and line.state not in query.state:
        return False
    if query.env and line.env not in query.env:
        return False
    return all(word in entry.words for word in words)


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
    if sign == "~":
        return lambda line: wanted.lower() in _shown(getattr(line, name)).lower()
    if sign in ("=", "!="):
        return lambda line: _equals(getattr(line, name), wanted) == (sign == "=")
    compare = _ORDERS[sign]
    try:
        number = float(wanted)
    except ValueError:
        return lambda line: compare(_shown(getattr(line, name)), wanted)

    def holds(line: ThingLine) -> bool:
        value = getattr(line, name)
        return isinstance(value, int | float) and compare(value, number)

    return holds


def _equals(value: Any, wanted: str) -> bool:
    if isinstance(value, bool):
        return wanted.lower() in (("true", "yes", "1") if value else ("false", "no", "0"))
    if isinstance(value, int | float):
        try:
            return float(wanted) == value
        except ValueError:
            return False
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
