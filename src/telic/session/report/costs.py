"""What a session took: seconds by part, steps, and what models were paid."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from telic.authors.candidate import SessionIteration
from telic.core.events import Event, ModelFailed, ModelReply, ModelSent, SessionSpent, read_events
from telic.core.text import duration, money
from telic.report import document as doc
from telic.report.charts import Shares
from telic.session.budget import paid
from telic.session.records import SessionSummary
from telic.session.report import words
from telic.storage.files import read_json_lines
from telic.storage.layout import SessionFolder

if TYPE_CHECKING:
    from telic.session.report.facts import SessionReportFacts


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


def what_it_took(facts: SessionReportFacts) -> words.Blocks:
    """Return where the time went, and what was spent after each iteration."""
    costs, config = facts.costs, facts.config
    if costs is None:
        return []
    times = {
        "training": costs.training_s,
        "judging": costs.judging_s,
        "waiting for models": costs.model.seconds,
        "everything else": costs.other_s or 0.0,
    }
    whole = sum(times.values()) or 1.0
    pieces = tuple((name, seconds / whole) for name, seconds in times.items())
    swatches = {name: doc.Swatch(index) for index, name in enumerate(times)}
    rows: list[tuple[doc.Words, str]] = [
        ((swatches[name], name) if name in swatches else name, value)
        for name, value in _cost_rows(costs)
    ]
    blocks: list[doc.Block] = [
        Shares("Where the time went", pieces, has_legend=False),
        doc.FactSheet(rows, heads=("what", "how much")),
    ]
    most_s = None if config.max_hours is None else 3600 * config.max_hours
    spent = [
        (
            str(sums.number),
            words.out_of(duration, sums.seconds, most_s),
            words.out_of("{:,}".format, sums.steps, config.max_steps),
            words.out_of("{:,}".format, sums.calls, config.max_calls),
            words.out_of(money, sums.usd, config.max_usd),
        )
        for sums in costs.after
    ]
    heads = ("after iteration", "time", "steps", "model calls", "price")
    return [*blocks, *([doc.Table(heads, spent)] if spent else [])]


def _cost_rows(costs: Costs) -> list[tuple[str, str]]:
    use = costs.model
    rows = [
        ("wall clock", duration(costs.total_s)),
        ("training", duration(costs.training_s)),
        ("judging", duration(costs.judging_s)),
        ("waiting for models", duration(use.seconds) if use.calls else "none was asked"),
        ("everything else", duration(costs.other_s, "unknown")),
        ("environment steps", words.steps(costs.steps)),
    ]
    if use.calls:
        rows += [
            ("model", ", ".join(use.names)),
            ("model calls", f"{use.calls:,}"),
            ("tokens", "unknown" if use.tokens is None else f"{use.tokens:,}"),
            ("price", money(use.usd)),
        ]
    if use.failed:
        rows.append(("questions without an answer", f"{use.failed:,}, not in the tokens"))
    return rows
