"""What a session took: seconds by part, steps, and what models were paid."""

from __future__ import annotations

from typing import NamedTuple

from telic.authors.candidate import SessionIteration
from telic.core.events import (
    Event,
    ModelFailed,
    ModelReply,
    ModelSent,
    SessionSpent,
    read_events,
)
from telic.session.budget import paid
from telic.session.records import SessionSummary
from telic.storage.files import read_json_lines
from telic.storage.layout import SessionFolder


class ModelUse(NamedTuple):
    """What was asked of language models; None is unknown."""

    names: tuple[str, ...] = ()
    calls: int = 0
    """calls that were paid for, those without a valid answer included"""
    failed: int = 0
    """questions that never got a valid answer; their tokens are not in the sum, their price is"""
    seconds: float = 0.0
    tokens: int | None = 0
    usd: float | None = 0.0


class Costs(NamedTuple):
    """Seconds of wall clock by part, and environment steps."""

    total_s: float
    training_s: float
    judging_s: float
    model: ModelUse
    steps: int | None
    """environment steps of all policies together"""
    after: tuple[SessionSpent, ...] = ()
    """the sums so far, iteration by iteration"""

    @property
    def other_s(self) -> float | None:
        """Return what the parts leave over; None when the clock saw less than the parts took.

        An iteration that was interrupted is counted whole, the clock may have lost a little.
        """
        rest = self.total_s - self.training_s - self.judging_s - self.model.seconds
        return rest if rest >= 0.0 else None


def read_costs(
    folder: SessionFolder, history: list[SessionIteration], summary: SessionSummary
) -> Costs:
    """Read what a session took from its records and events."""
    events = list(read_events(read_json_lines(folder.events)))
    return Costs(
        total_s=summary.seconds,
        training_s=sum(iteration.training_s for iteration in history),
        judging_s=sum(iteration.judging_s for iteration in history),
        model=_model_use(folder, events),
        steps=summary.steps or None,
        after=_after_each(events),
    )


def _after_each(events: list[Event]) -> tuple[SessionSpent, ...]:
    sums: dict[int, SessionSpent] = {}
    for event in events:
        # A session that goes on tells of its finished iterations again: the first time counts.
        if isinstance(event, SessionSpent) and event.number is not None:
            sums.setdefault(event.number, event)
    return tuple(sums[number] for number in sorted(sums))


def _model_use(folder: SessionFolder, events: list[Event]) -> ModelUse:
    usd, calls = paid(folder)
    use = ModelUse(usd=usd, calls=calls)
    names: dict[str, None] = {}
    for event in events:
        match event:
            case ModelSent():
                names[event.model] = None
            case ModelFailed():
                use = use._replace(failed=use.failed + 1)
            case ModelReply(cached=False):
                use = _with_reply(use, event)
            case _:
                pass
    return use._replace(names=tuple(names))


def _with_reply(use: ModelUse, reply: ModelReply) -> ModelUse:
    tokens = use.tokens
    for part in (reply.tokens.input, reply.tokens.output):
        tokens = None if tokens is None or part is None else tokens + part
    return use._replace(seconds=use.seconds + reply.latency_s, tokens=tokens)
