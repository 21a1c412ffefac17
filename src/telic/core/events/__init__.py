"""What library code reports while it works: a closed union of frozen records.

Terminals, logs and dashboards listen, and match on the type. The reference page of all events is
made from the classes here. They are loaded when one of them is asked for: most commands of the
command line hear nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from telic.core.events.base import Facts, Listener, ignore

if TYPE_CHECKING:
    from telic.core.events.codec import (
        EVENTS,
        BenchmarkEvent,
        Event,
        ModelEvent,
        SearchEvent,
        SessionEvent,
        TrainingEvent,
        decode,
        encode,
        from_facts,
        read_events,
    )
    from telic.core.events.models import (
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
        BenchResult,
        FreshReturn,
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


__all__ = [
    "EVENTS",
    "BenchCase",
    "BenchEvent",
    "BenchResult",
    "BenchmarkEvent",
    "BudgetLeft",
    "EvalDone",
    "Event",
    "Facts",
    "FreshReturn",
    "Listener",
    "LogMessage",
    "MemberEvaluation",
    "ModelEvent",
    "ModelFailed",
    "ModelRejected",
    "ModelReply",
    "ModelRetry",
    "ModelSent",
    "PersonNote",
    "ProbeDone",
    "ProbeFinding",
    "SearchEvent",
    "SearchForecast",
    "SearchIterationEnd",
    "SearchRunEnd",
    "SearchStart",
    "SentImage",
    "SessionAdmitted",
    "SessionAsked",
    "SessionCheckpoint",
    "SessionEvent",
    "SessionForecast",
    "SessionIterationStart",
    "SessionJudged",
    "SessionNotes",
    "SessionPaused",
    "SessionResumed",
    "SessionSelected",
    "SessionSpent",
    "SessionStart",
    "SessionTried",
    "SessionWaiting",
    "TokenCount",
    "TrainEnd",
    "TrainFinding",
    "TrainProgress",
    "TrainStart",
    "TrainingEvent",
    "VideoProgress",
    "decode",
    "encode",
    "from_facts",
    "ignore",
    "read_events",
]
