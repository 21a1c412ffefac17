"""Budgets: a launch reserves its estimate, its end settles what it used."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from telic.studies.documents.base import DocumentPart
from telic.studies.documents.contract import RESOURCES, Amounts, Phase, StudyBudget

if TYPE_CHECKING:
    from telic.studies.state import RunState, StudyState


class BudgetState(DocumentPart):
    """What was used, is reserved for live runs, and is left; left is None where unlimited."""

    spent: Amounts = Amounts()
    reserved: Amounts = Amounts()
    left: Amounts = Amounts()
    warnings: tuple[str, ...] = ()
    """resources of which more than the soft share is used"""


def add(*amounts: Amounts) -> Amounts:
    """Add amounts; what is None everywhere stays None."""
    totals: dict[str, float | None] = {}
    for name in RESOURCES:
        values = [value for each in amounts if (value := getattr(each, name)) is not None]
        totals[name] = sum(values) if values else None
    return Amounts.model_construct(None, **totals)


def left_of(limits: Amounts, *used: Amounts) -> Amounts:
    """Return what is left of every limited resource; never below 0, None where unlimited."""
    gone = add(*used)
    left: dict[str, float | None] = {}
    for name in RESOURCES:
        limit = getattr(limits, name)
        left[name] = None if limit is None else max(0.0, limit - (getattr(gone, name) or 0.0))
    return Amounts.model_construct(None, **left)


def shortfalls(
    state: StudyState, wanted: Amounts, candidate: str | None = None, phase: Phase | None = None
) -> list[str]:
    """Return which budgets a reservation would exceed, one sentence each; empty when it fits."""
    limits = state.budget_limits
    left = {"the study": state.budget.left}
    if candidate is not None:
        used = state.spent_by_candidate.get(candidate, Amounts())
        left[candidate] = left_of(limits.per_candidate, used)
    if phase is not None and phase in limits.per_phase:
        used = state.spent_by_phase.get(phase, Amounts())
        left[f"phase {phase}"] = left_of(limits.per_phase[phase], used)
    return [
        f"{name}: {need:g} is wanted and {rest:g} is left for {whose}."
        for whose, amounts in left.items()
        for name, need, rest in exceeding(wanted, amounts)
    ]


def exceeding(wanted: Amounts, left: Amounts, slack: float = 0.0) -> list[tuple[str, float, float]]:
    """Return the resources of which more is wanted than is left: name, need and rest."""
    amounts = [(name, getattr(wanted, name), getattr(left, name)) for name in RESOURCES]
    return [
        (name, need, rest)
        for name, need, rest in amounts
        if need is not None and rest is not None and need > rest + slack
    ]


def left_by_others(state: StudyState, candidate: str) -> Amounts:
    """Return the budget left by other candidates: a candidate's estimate includes its own runs."""
    own = state.spent_by_candidate.get(candidate, Amounts())
    used = add(state.budget.spent, state.budget.reserved)
    by_others = {
        name: max(0.0, (getattr(used, name) or 0.0) - (getattr(own, name) or 0.0))
        for name in RESOURCES
    }
    return left_of(state.budget_limits, Amounts.model_validate(by_others))


def exhausted(state: StudyState) -> list[str]:
    """Return the limited resources of which nothing is left."""
    return [name for name in RESOURCES if getattr(state.budget.left, name) == 0]


@dataclass
class Account:
    """Reservations and spending while a ledger is replayed."""

    limits: StudyBudget = field(default_factory=StudyBudget)
    spent: Amounts = field(default_factory=Amounts)
    by_candidate: dict[str, Amounts] = field(default_factory=dict[str, Amounts])
    by_phase: dict[str, Amounts] = field(default_factory=dict[str, Amounts])
    held: dict[str, RunState] = field(default_factory=dict[str, "RunState"])
    """runs for which amounts are reserved"""

    def settle(self, run: str, actual: Amounts) -> None:
        """Charge what a run used instead of its reservation; settling again changes nothing.

        What is not known of the actual amounts is charged as reserved.
        """
        if held := self.held.pop(run, None):
            known = actual.model_dump(exclude_none=True)
            amounts = held.reservation.model_copy(update=known)
            self.spent = add(self.spent, amounts)
            _charge(self.by_candidate, held.candidate, amounts)
            _charge(self.by_phase, held.phase, amounts)

    def pay_call(self, usd: float | None, tokens: float | None) -> None:
        """Charge a model call; one of unknown price costs what the contract says."""
        price = self.limits.unknown_call_usd if usd is None else usd
        self.spent = add(self.spent, Amounts(llm_usd=price, llm_tokens=tokens, llm_calls=1))

    def summary(self) -> BudgetState:
        """Return what is spent, reserved and left."""
        reserved = add(*(run.reservation for run in self.held.values()))
        used = add(self.spent, reserved)
        warnings = [
            name
            for name in RESOURCES
            if (limit := getattr(self.limits, name)) is not None
            and (gone := getattr(used, name)) is not None
            and gone >= limit * self.limits.soft_pct / 100
        ]
        return BudgetState.model_construct(
            spent=self.spent,
            reserved=reserved,
            left=left_of(self.limits, used),
            warnings=tuple(warnings),
        )

    def totals(self) -> tuple[dict[str, Amounts], dict[str, Amounts]]:
        """Return what candidates, and phases, have spent and reserved."""
        by_candidate, by_phase = dict(self.by_candidate), dict(self.by_phase)
        for run in self.held.values():
            _charge(by_candidate, run.candidate, run.reservation)
            _charge(by_phase, run.phase, run.reservation)
        return by_candidate, by_phase


def _charge(totals: dict[str, Amounts], name: str, amounts: Amounts) -> None:
    totals[name] = add(totals[name], amounts) if name in totals else amounts
