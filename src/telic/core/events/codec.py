"""The closed union of all events, and how an event becomes a line of JSON and back.

What crosses a process boundary, and what lies in an events.jsonl, is one JSON object a line with
the event's name under "event". Reading checks every field: the line may come from a confined
process, which is not trusted, or from an earlier version.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, Union, cast, get_args

from telic.core.events.base import Facts
from telic.core.events.models import ModelFailed, ModelRejected, ModelReply, ModelRetry, ModelSent
from telic.core.events.search import (
    BenchCase,
    BenchEvent,
    BenchResult,
    SearchForecast,
    SearchIterationEnd,
    SearchRunEnd,
    SearchStart,
)
from telic.core.events.session import (
    SessionAdmitted,
    SessionAsked,
    SessionCheckpoint,
    SessionForecast,
    SessionIterationStart,
    SessionJudged,
    SessionNotes,
    SessionPaused,
    SessionResumed,
    SessionSelected,
    SessionSpent,
    SessionStart,
    SessionTried,
    SessionWaiting,
)
from telic.core.events.training import (
    EvalDone,
    LogMessage,
    ProbeDone,
    TrainEnd,
    TrainFinding,
    TrainProgress,
    TrainStart,
    VideoProgress,
)

if TYPE_CHECKING:
    from pydantic import TypeAdapter

TrainingEvent = Union[  # noqa: UP007 - a union of many reads better as a list
    LogMessage, ProbeDone, TrainStart, TrainProgress, TrainFinding, EvalDone, TrainEnd
]
"""what the confined process of a training may say"""
SessionEvent = Union[  # noqa: UP007
    SessionStart,
    SessionAsked,
    SessionTried,
    SessionForecast,
    SessionIterationStart,
    SessionSelected,
    SessionCheckpoint,
    SessionJudged,
    SessionSpent,
    SessionPaused,
    SessionResumed,
    SessionWaiting,
    SessionAdmitted,
    SessionNotes,
]
SearchEvent = Union[SearchStart, SearchForecast, SearchIterationEnd, SearchRunEnd]  # noqa: UP007
BenchmarkEvent = Union[BenchCase, BenchEvent, BenchResult]  # noqa: UP007
ModelEvent = Union[ModelSent, ModelRetry, ModelReply, ModelRejected, ModelFailed]  # noqa: UP007
Event = Union[  # noqa: UP007
    TrainingEvent, VideoProgress, SessionEvent, SearchEvent, BenchmarkEvent, ModelEvent
]
Kind = TypeVar("Kind")

EVENTS: tuple[type[Event], ...] = get_args(Event)


def encode(event: Event) -> Facts:
    """Return an event as plain data: its name, when it was written down, its fields."""
    if isinstance(event, BenchEvent):
        return {**encode(event.told), "case": event.case}
    head: Facts = {"event": event.NAME}
    if event.time is not None:
        head["time"] = event.time
    return head | {
        field.name: _plain(getattr(event, field.name))
        for field in fields(event)
        if field.name != "time"
    }


def decode(row: Mapping[str, Any], expected: object = Event) -> Event:
    """Return the event in plain data, every field of it checked; fields unknown to us are left out.

    Args:
        row: a line as `json.loads` gives it.
        expected: the union of events that it may be.

    Raises:
        ValueError: it is none of them, or a field is missing or of the wrong kind.
    """
    name = row.get("event")
    for kind in get_args(expected):
        if name and name == kind.NAME:
            return _reader(kind).validate_python(row)  # pydantic's error is a ValueError
    raise ValueError(f"there is no event named {name!r}")


def from_facts(kind: type[Kind], facts: Mapping[str, Any], /, **more: Any) -> Kind:
    """Return an event of a kind made from the fields of a record, every one of them checked."""
    return _reader(kind).validate_python({**facts, **more})


def read_events(rows: Iterable[Mapping[str, Any]]) -> Iterator[Event]:
    """Yield the events in the rows of a log; what another version wrote otherwise is left out."""
    for row in rows:
        try:
            yield decode(row)
        except ValueError:
            continue


@cache
def _reader(kind: type[Kind]) -> TypeAdapter[Kind]:
    from pydantic import TypeAdapter  # here, so that whoever only emits need not load it

    return TypeAdapter(kind)


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in cast(Facts, value).items()}
    if isinstance(value, tuple):
        return [_plain(part) for part in cast(tuple[Any, ...], value)]
    return value
