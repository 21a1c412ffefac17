"""What library code reports while it works: a closed union of frozen records.

Terminals, logs and dashboards listen, and match on the type. The reference page of all events is
made from the classes of this package. They are loaded when one of them is asked for: most commands
of the command line hear nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, dataclass_transform

if TYPE_CHECKING:
    from telic.core.events.codec import EVENTS as EVENTS
    from telic.core.events.codec import Event as Event
    from telic.core.events.codec import decode as decode
    from telic.core.events.codec import encode as encode
    from telic.core.events.codec import from_facts as from_facts
    from telic.core.events.codec import read_events as read_events
    from telic.core.events.models import ModelEvent as ModelEvent
    from telic.core.events.models import ModelFailed as ModelFailed
    from telic.core.events.models import ModelRejected as ModelRejected
    from telic.core.events.models import ModelReply as ModelReply
    from telic.core.events.models import ModelRetry as ModelRetry
    from telic.core.events.models import ModelSent as ModelSent
    from telic.core.events.models import SentImage as SentImage
    from telic.core.events.models import TokenCount as TokenCount
    from telic.core.events.search import BenchCase as BenchCase
    from telic.core.events.search import BenchEvent as BenchEvent
    from telic.core.events.search import BenchmarkEvent as BenchmarkEvent
    from telic.core.events.search import BenchResult as BenchResult
    from telic.core.events.search import FreshReturn as FreshReturn
    from telic.core.events.search import SearchEvent as SearchEvent
    from telic.core.events.search import SearchForecast as SearchForecast
    from telic.core.events.search import SearchIterationEnd as SearchIterationEnd
    from telic.core.events.search import SearchRunEnd as SearchRunEnd
    from telic.core.events.search import SearchStart as SearchStart
    from telic.core.events.session import BudgetLeft as BudgetLeft
    from telic.core.events.session import PersonNote as PersonNote
    from telic.core.events.session import SessionAdmitted as SessionAdmitted
    from telic.core.events.session import SessionAsked as SessionAsked
    from telic.core.events.session import SessionCheckpoint as SessionCheckpoint
    from telic.core.events.session import SessionEvent as SessionEvent
    from telic.core.events.session import SessionForecast as SessionForecast
    from telic.core.events.session import SessionIterationStart as SessionIterationStart
    from telic.core.events.session import SessionJudged as SessionJudged
    from telic.core.events.session import SessionNotes as SessionNotes
    from telic.core.events.session import SessionPaused as SessionPaused
    from telic.core.events.session import SessionResumed as SessionResumed
    from telic.core.events.session import SessionSelected as SessionSelected
    from telic.core.events.session import SessionSpent as SessionSpent
    from telic.core.events.session import SessionStart as SessionStart
    from telic.core.events.session import SessionTried as SessionTried
    from telic.core.events.session import SessionWaiting as SessionWaiting
    from telic.core.events.training import EvalDone as EvalDone
    from telic.core.events.training import LogMessage as LogMessage
    from telic.core.events.training import MemberEvaluation as MemberEvaluation
    from telic.core.events.training import ProbeDone as ProbeDone
    from telic.core.events.training import ProbeFinding as ProbeFinding
    from telic.core.events.training import TrainEnd as TrainEnd
    from telic.core.events.training import TrainFinding as TrainFinding
    from telic.core.events.training import TrainingEvent as TrainingEvent
    from telic.core.events.training import TrainProgress as TrainProgress
    from telic.core.events.training import TrainStart as TrainStart
    from telic.core.events.training import VideoProgress as VideoProgress

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
    """seconds since 1970 when it was written down; trainings and sessions do that"""
