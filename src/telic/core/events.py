"""Events: records that are reported at the moment they are made.

A listener is any function of one event and matches on its type. On disk (`events.jsonl` of a run, a
session or a search) an event is one line of JSON with its name under `event`; `decode` checks every
field, because a line may come from a confined process or from an earlier version.

A record of a higher layer that is worth reporting, such as a verdict, is an event itself (it
derives from `Event`, and `EVENTS` says where it is defined); this module holds the events that are
nothing but messages.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from importlib import import_module
from typing import Any, ClassVar

from telic.core.config import Record


class Event(Record):
    """A record that listeners receive."""

    NAME: ClassVar[str] = ""
    """its name on disk"""
    OMITTED: ClassVar[frozenset[str]] = frozenset()
    """fields that are too large for an event; they have defaults"""


Listener = Callable[[Event], None]


def ignore(event: Event) -> None:
    """Listen to nothing."""


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
    "session.tried": "telic.judges.validation:Trial",
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
"""where each event is defined, by its name on disk"""


def encode_event(event: Event) -> dict[str, Any]:
    """Return an event as plain data, with its name."""
    if isinstance(event, BenchEvent):
        return {**encode_event(event.inner), "case": event.case}
    return {"event": event.NAME, **event.model_dump(mode="json", exclude=set(event.OMITTED))}


def log_line(event: Event) -> dict[str, Any]:
    """Return an event as a line of a log: its name, the time in seconds since 1970, its fields."""
    row = encode_event(event)
    return {"event": row.pop("event"), "time": round(time.time(), 3), **row}


def decode_event(row: Mapping[str, Any], allowed: Collection[str] | None = None) -> Event:
    """Return the event in plain data, every field of it checked; unknown fields are left out.

    Raises:
        ValueError: it is no such event, or a field is missing or of the wrong type.
    """
    name = row.get("event")
    if not isinstance(name, str) or name not in (EVENTS if allowed is None else allowed):
        raise ValueError(f"unknown event {name!r}")
    module, _, kind = EVENTS[name].partition(":")
    found: type[Event] = getattr(import_module(module), kind)
    known = {field: row[field] for field in found.model_fields if field in row}
    return found.model_validate(known)  # pydantic's error is a ValueError


def read_events(rows: Iterable[Mapping[str, Any]]) -> Iterator[Event]:
    """Yield the events in the rows of a log; lines that cannot be read are skipped."""
    for row in rows:
        try:
            yield decode_event(row)
        except ValueError:
            continue


class LogMessage(Event):
    """A message for a person."""

    NAME = "log"

    message: str


class VideoProgress(Event):
    """A video is being rendered; not kept on disk."""

    NAME = "video.progress"

    path: str
    frame: int
    frames: int


class TrainStart(Event):
    """Training starts or resumes."""

    NAME = "train.start"

    run: str
    members: tuple[str, ...]
    """policies that are trained together"""
    step: int
    """environment steps per member that are done already"""
    total_steps: int
    """environment steps per member when done"""
    device: str
    resumed: bool


class TrainProgress(Event):
    """Training progress; at most twice a second, and not kept on disk."""

    NAME = "train.progress"

    step: int
    """environment steps per member so far"""
    total_steps: int
    seconds: float = 0.0
    """spent training so far"""
    steps_per_second: float | None
    """of all members together, since training started or resumed"""
    seconds_left: float | None
    returns: dict[str, float | None]
    """mean return of a member's last episodes; None: none has ended yet"""


TRAINING_EVENTS = (
    "log",
    "probe.done",
    "train.start",
    "train.progress",
    "train.finding",
    "eval.done",
    "train.end",
)
"""events that the confined process of a training may send"""


class SessionStart(Event):
    """A session starts or resumes."""

    NAME = "session.start"

    session: str
    path: str
    intent: str
    env: str
    resumed: bool


class SessionIterationStart(Event):
    """A reward is about to be trained."""

    NAME = "session.iteration"

    number: int
    change: str
    """difference from its parent, in words"""


class SessionSelected(Event):
    """Screening runs of several variants ended; one is trained in full."""

    NAME = "session.selected"

    number: int
    kept: int
    """variant that is trained in full, from 0"""
    scores: tuple[float | None, ...]
    """mean score of every variant; None: could not be judged"""


class SessionPaused(Event):
    """The session was paused on request."""

    NAME = "session.paused"

    message: str


class SessionResumed(Event):
    """A paused session continues."""

    NAME = "session.resumed"


class SessionWaiting(Event):
    """The session waits for approval or for CPU cores."""

    NAME = "session.waiting"

    reason: str
    """approval or cores"""
    message: str


class SessionAdmitted(Event):
    """A session that waited for CPU cores got them."""

    NAME = "session.admitted"

    waited_s: float


class SearchStart(Event):
    """A search starts or resumes."""

    NAME = "search.start"

    search: str
    env: str
    label: str
    """name of the method in tables"""
    runs: int
    left: int
    """runs that are not done yet"""


class SearchForecast(Event):
    """Model calls that a search is going to make."""

    NAME = "search.forecast"

    calls: int
    """of all runs, if no answer needs repair"""


class SearchIterationEnd(Event):
    """An iteration of a search run ended."""

    NAME = "search.iteration"

    run: int
    number: int
    episodes: int
    """played so far"""
    budget: int
    """episodes that may be played"""
    selected: float
    """mean return of the candidate that enters the history"""
    incumbent: float
    """mean return of the best so far"""
    winner: str | None
    note: str | None


class BenchCase(Event):
    """A benchmark starts a case."""

    NAME = "bench.case"

    case: str
    env: str
    intent: str


class BenchEvent(Event):
    """An event of the session of a case; as JSON, that event with the case's id."""

    case: str
    inner: Event
