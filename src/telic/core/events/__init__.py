"""What library code reports while it works: a closed union of frozen records.

Terminals, logs and dashboards listen, and match on the type. The reference page of all events is
made from the classes of this package. They are loaded when one of them is asked for: most commands
of the command line hear nothing.
"""

# ruff: noqa: F401 - what is imported here for the type checker is what others import from here

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, dataclass_transform

if TYPE_CHECKING:
    from telic.core.events.codec import EVENTS, Event, decode, encode, from_facts, read_events
    from telic.core.events.models import (
        ModelEvent,
        ModelFailed,
        ModelRejected,
        ModelReply,
        ModelRetry,
        ModelSent,
        SentImage,
        TokenCount,
    )
    from telic.core.events.search import (
        BenchCase,
        BenchEvent,
        BenchmarkEvent,
        BenchResult,
        FreshReturn,
        SearchEvent,
        SearchForecast,
        SearchIterationEnd,
        SearchRunEnd,
        SearchStart,
    )
    from telic.core.events.session import (
        BudgetLeft,
        PersonNote,
        SessionAdmitted,
        SessionAsked,
        SessionCheckpoint,
        SessionEvent,
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
        MemberEvaluation,
        ProbeDone,
        ProbeFinding,
        TrainEnd,
        TrainFinding,
        TrainingEvent,
        TrainProgress,
        TrainStart,
        VideoProgress,
    )

_MODULES = ("codec", "training", "session", "search", "models")


def __getattr__(name: str) -> Any:
    for module in _MODULES:
        value = getattr(import_module(f"telic.core.events.{module}"), name, None)
        if value is not None:
            return value
    raise AttributeError(f"telic.core.events has no {name!r}")


Listener = Callable[["Event"], None]

Kind = TypeVar("Kind")
Named = TypeVar("Named", bound="Emitted")
Facts = dict[str, Any]
"""a record of a higher layer as plain data; the field that holds it says which"""


def ignore(event: Event) -> None:
    """Listen to nothing."""


@dataclass_transform(frozen_default=True, kw_only_default=True)
def record(kind: type[Kind]) -> type[Kind]:
    """Make a class a frozen record; this one goes into events."""
    return dataclass(frozen=True, kw_only=True)(kind)


@dataclass_transform(frozen_default=True, kw_only_default=True)
def event(name: str) -> Callable[[type[Named]], type[Named]]:
    """Make a class an event, which is called `name` on disk."""

    def make(kind: type[Named]) -> type[Named]:
        kind.NAME = name
        return record(kind)

    return make


@record
class Emitted:
    """What every event has."""

    NAME: ClassVar[str] = ""
    """its "event" on disk"""

    time: float | None = None
    """seconds since 1970 when it was written down; only events of a training have it"""
