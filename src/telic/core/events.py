"""Events that are reported to listeners as they occur.

A listener is a function that is called with each event and matches on its type. On disk
(`events.jsonl` of a run, session or search), each event is a line of JSON with its name under
`event`. `decode_event` validates every field, because the line may come from a sandboxed process or
an earlier version.

Records of higher layers that are reported, such as verdicts, are events themselves: they derive
from `Event`, and `EVENTS` maps their names to modules. This module defines all other events.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from importlib import import_module
from typing import Any, ClassVar

from telic.core.config import Record


class Event(Record):
    """Base class for records that are passed to listeners."""

    NAME: ClassVar[str] = ""
    """name on disk"""
    OMITTED: ClassVar[frozenset[str]] = frozenset()
    """fields that are too large for an event and must have defaults"""


Listener = Callable[[Event], None]


def ignore(event: Event) -> None:
    """Discard the event."""


EVENTS: dict[str, str] = {
    "log": "telic.core.events:LogMessage",
    "video.progress": "telic.core.events:VideoProgress",
    "train.start": "telic.core.events:TrainStart",
    "train.progress": "telic.core.events:TrainProgress",
    "train.finding": "telic.training.results:Finding",
    "train.end": "telic.training.results:RunSummary",
    "eval.done": "telic.training.results:EvalDone",
    "probe.done": "telic.rewards.probe:ProbeReport",
    "session.start": "telic.core.events:SessionStart",
    "session.asked": "telic.authors.author:MeasurableIntent",
    "session.tried": "telic.judges.validation:JudgeValidation",
    "session.forecast": "telic.session.budget:Forecast",
    "session.iteration": "telic.core.events:SessionIterationStart",
    "session.selected": "telic.core.events:SessionSelected",
    "session.checkpoint": "telic.session.records:Checkpoint",
    "session.judged": "telic.authors.candidate:SessionIteration",
    "session.spent": "telic.session.budget:Spending",
    "session.paused": "telic.core.events:SessionPaused",
    "session.resumed": "telic.core.events:SessionResumed",
    "session.waiting": "telic.core.events:SessionWaiting",
    "session.admitted": "telic.core.events:SessionAdmitted",
    "session.notes": "telic.session.control:DeliveredNotes",
    "search.start": "telic.core.events:SearchStart",
    "search.forecast": "telic.core.events:SearchForecast",
    "search.iteration": "telic.core.events:SearchIterationEnd",
    "search.run": "telic.search.records:SearchRunSummary",
    "bench.case": "telic.core.events:BenchCase",
    "bench.result": "telic.bench.results:CaseResult",
    "model.sent": "telic.llm.records:ModelSent",
    "model.retry": "telic.llm.records:ModelRetry",
    "model.reply": "telic.llm.records:ModelReply",
    "model.rejected": "telic.llm.records:ModelRejected",
    "model.failed": "telic.llm.records:ModelFailed",
}
"""module and class of each event, by its name on disk"""


def encode_event(event: Event) -> dict[str, Any]:
    """Return an event as plain data, including its name."""
    if isinstance(event, BenchEvent):
        return {**encode_event(event.inner), "case": event.case}
    return {"event": event.NAME, **event.model_dump(mode="json", exclude=set(event.OMITTED))}


def log_line(event: Event) -> dict[str, Any]:
    """Return an event as a log row with its name, its Unix time in seconds and its fields."""
    row = encode_event(event)
    return {"event": row.pop("event"), "time": round(time.time(), 3), **row}


def decode_event(row: Mapping[str, Any], allowed: Collection[str] | None = None) -> Event:
    """Create the event from plain data. Every field is validated, and unknown fields are ignored.

    Raises:
        ValueError: the event is unknown, or a field is missing or of the wrong type.
    """
    name = row.get("event")
    if not isinstance(name, str) or name not in (EVENTS if allowed is None else allowed):
        raise ValueError(f"unknown event {name!r}")
    module, _, kind = EVENTS[name].partition(":")
    found: type[Event] = getattr(import_module(module), kind)
    known = {field: row[field] for field in found.model_fields if field in row}
    return found.model_validate(known)  # pydantic's error is a ValueError


def read_events(rows: Iterable[Mapping[str, Any]]) -> Iterator[Event]:
    """Yield the events in the rows of a log, skipping rows that cannot be decoded."""
    for row in rows:
        try:
            yield decode_event(row)
        except ValueError:
            continue


class LogMessage(Event):
    """Message to the user."""

    NAME = "log"

    message: str


class VideoProgress(Event):
    """Progress of rendering a video. It is not stored on disk."""

    NAME = "video.progress"

    path: str
    frame: int
    frames: int


class TrainStart(Event):
    """Training starts or resumes."""

    NAME = "train.start"

    run: str
    members: tuple[str, ...]
    """names of the policies that are trained together"""
    step: int
    """environment steps per member that were completed before"""
    total_steps: int
    """environment steps per member at the end"""
    device: str
    resumed: bool


class TrainProgress(Event):
    """Training progress. It is emitted at most twice per second and not stored on disk."""

    NAME = "train.progress"

    step: int
    """environment steps per member so far"""
    total_steps: int
    seconds: float = 0.0
    """time spent training so far"""
    steps_per_second: float | None
    """sum over all members, since training started or resumed"""
    seconds_left: float | None
    returns: dict[str, float | None]
    """mean return of a member's latest episodes, or None before the first episode ends"""


TRAINING_EVENTS = (
    "log",
    "probe.done",
    "train.start",
    "train.progress",
    "train.finding",
    "eval.done",
    "train.end",
)
"""events that a sandboxed training process is allowed to send"""


class SessionStart(Event):
    """A session starts or resumes."""

    NAME = "session.start"

    session: str
    path: str
    intent: str
    env: str
    resumed: bool


class SessionIterationStart(Event):
    """Training with a new reward is about to start."""

    NAME = "session.iteration"

    number: int
    change: str
    """description of the difference from the parent reward"""


class SessionSelected(Event):
    """The screening of several variants ended, and one was selected for full training."""

    NAME = "session.selected"

    number: int
    kept: int
    """index of the variant to train in full, from 0"""
    scores: tuple[float | None, ...]
    """mean score of each variant, or None for variants that could not be judged"""


class SessionPaused(Event):
    """The session was paused on request."""

    NAME = "session.paused"

    message: str


class SessionResumed(Event):
    """A paused session continues."""

    NAME = "session.resumed"


class SessionWaiting(Event):
    """The session is waiting for approval or for CPU cores."""

    NAME = "session.waiting"

    reason: str
    """approval or cores"""
    message: str


class SessionAdmitted(Event):
    """A waiting session was assigned its CPU cores."""

    NAME = "session.admitted"

    waited_s: float


class SearchStart(Event):
    """A search starts or resumes."""

    NAME = "search.start"

    search: str
    env: str
    label: str
    """display name of the method"""
    runs: int
    left: int
    """number of unfinished runs"""


class SearchForecast(Event):
    """Expected number of model calls of a search."""

    NAME = "search.forecast"

    calls: int
    """total over all runs if no answer needs a repair"""


class SearchIterationEnd(Event):
    """An iteration of a search run ended."""

    NAME = "search.iteration"

    run: int
    number: int
    episodes: int
    """number of episodes that were played"""
    budget: int
    """maximum number of episodes"""
    selected: float
    """mean return of the candidate added to the history"""
    incumbent: float
    """best mean return so far"""
    winner: str | None
    note: str | None


class BenchCase(Event):
    """A benchmark case starts."""

    NAME = "bench.case"

    case: str
    env: str
    intent: str


class BenchEvent(Event):
    """Event of a case's session. In JSON, the id of the case is added to the event's fields."""

    case: str
    inner: Event
