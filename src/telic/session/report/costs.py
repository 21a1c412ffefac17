"""What a session took: seconds by part, steps, and what models were paid."""

from __future__ import annotations

from typing import Any, NamedTuple

from telic.session.folder import SessionFolder
from telic.session.records import Iteration, SessionSummary
from telic.storage.files import read_json_lines


class ModelUse(NamedTuple):
    """What was asked of language models; None is unknown."""

    names: tuple[str, ...] = ()
    calls: int = 0
    failed: int = 0
    """questions that never got a valid answer; what they cost is not in the sums"""
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

    @property
    def other_s(self) -> float | None:
        """Return what the parts leave over; None when the clock saw less than the parts took.

        An iteration that was interrupted is counted whole, the clock may have lost a little.
        """
        rest = self.total_s - self.training_s - self.judging_s - self.model.seconds
        return rest if rest >= 0.0 else None


def read_costs(folder: SessionFolder, history: list[Iteration], summary: SessionSummary) -> Costs:
    """Read what a session took from its records and events."""
    return Costs(
        total_s=summary.seconds,
        training_s=sum(each.training_s for each in history),
        judging_s=sum(each.judging_s for each in history),
        model=_model_use(folder),
        steps=summary.steps or None,
    )


def _model_use(folder: SessionFolder) -> ModelUse:
    use = ModelUse()
    names: dict[str, None] = {}
    for event in read_json_lines(folder.events):
        match event["event"]:
            case "model.sent":
                names[event["model"]] = None
                use = use._replace(calls=use.calls + 1)
            case "model.failed":
                use = use._replace(failed=use.failed + 1)
            case "model.reply" if not event["cached"]:
                use = _with_reply(use, event)
            case _:
                pass
    return use._replace(names=tuple(names))


def _with_reply(use: ModelUse, event: dict[str, Any]) -> ModelUse:
    tokens, usd = event["tokens"], event["price_usd"]
    known = tokens["input"] is not None and tokens["output"] is not None
    return use._replace(
        seconds=use.seconds + event["latency_s"],
        tokens=use.tokens + tokens["input"] + tokens["output"]
        if known and use.tokens is not None
        else None,
        usd=use.usd + usd if usd is not None and use.usd is not None else None,
    )
