"""Budgets: a launch reserves its estimate, its end settles what it took. They never grow alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from telic.studies.documents.base import DocumentPart
from telic.studies.documents.contract import RESOURCES, Amounts, Phase, StudyBudget

if TYPE_CHECKING:
    from telic.studies.state import StudyState


class BudgetState(DocumentPart):
    """What was used, is held for live runs, and is left; left is None where nothing limits it."""

    spent: Amounts = Amounts()
    reserved: Amounts = Amounts()
    left: Amounts = Amounts()
    warnings: tuple[str, ...] = ()
    """resources of which more than the soft share is gone"""


def add(*amounts: Amounts) -> Amounts:
    """Add amounts; what is None everywhere stays None."""
    totals: dict[str, float | None] = {}
    for name in RESOURCES:
        values = [value for each in amounts if (value := getattr(each, name)) is not None]
        totals[name] = sum(values) if values else None
    return Amounts.model_validate(totals)


def left_of(limits: Amounts, *used: Amounts) -> Amounts:
    """Return what is left of every limited resource; never below 0, None where nothing limits."""
    gone = add(*used)
    left: dict[str, float | None] = {}
    for name in RESOURCES:
        limit = getattr(limits, name)
        left[name] = None if limit is None else max(0.0, limit - (getattr(gone, name) or 0.0))
    return Amounts.model_validate(left)


def settled(reserved: Amounts, actual: Amounts) -> Amounts:
    """Return what a run is charged: what it took, or all that was held where that is unknown."""
    return reserved.model_copy(update=actual.model_dump(exclude_none=True))


def shortfalls(
    state: StudyState, wanted: Amounts, candidate: str | None = None, phase: Phase | None = None
) -> list[str]:
    """Say which budgets a reservation would exceed, one sentence each; empty when it fits."""
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
    """Return the budget that others left: what a candidate used itself is part of its estimate."""
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


class HeldAmounts(NamedTuple):
    """What is reserved for a run."""

    candidate: str
    phase: Phase
    amounts: Amounts


@dataclass
class Account:
    """Reservations and spending while a ledger is replayed; what is charged is only added to."""

    limits: StudyBudget = field(default_factory=StudyBudget)
    charged_to: dict[str, Amounts] = field(default_factory=dict[str, Amounts])
    """by candidate"""
    charged_in: dict[str, Amounts] = field(default_factory=dict[str, Amounts])
    """by phase"""
    spent: Amounts = field(default_factory=Amounts)
    held: dict[str, HeldAmounts] = field(default_factory=dict[str, HeldAmounts])

    def reserve(self, run: str, candidate: str, phase: Phase, amounts: Amounts) -> None:
        """Hold amounts for a run."""
        self.held[run] = HeldAmounts(candidate, phase, amounts)

    def release(self, run: str) -> None:
        """Give back what was held for a run that never started."""
        self.held.pop(run, None)

    def settle(self, run: str, actual: Amounts) -> None:
        """Charge what a run took instead of what was held; a second settling changes nothing."""
        if reserved := self.held.pop(run, None):
            amounts = settled(reserved.amounts, actual)
            self.spent = add(self.spent, amounts)
            _charge(self.charged_to, reserved.candidate, amounts)
            _charge(self.charged_in, reserved.phase, amounts)

    def pay_call(self, usd: float | None, tokens: float | None) -> None:
        """Charge a model call; one of unknown price costs what the contract says."""
        price = self.limits.unknown_call_usd if usd is None else usd
        self.spent = add(self.spent, Amounts(llm_usd=price, llm_tokens=tokens, llm_calls=1))

    def summary(self) -> BudgetState:
        """Return what is spent, reserved and left."""
        reserved = add(*(charge.amounts for charge in self.held.values()))
        used = add(self.spent, reserved)
        return BudgetState(
            spent=self.spent,
            reserved=reserved,
            left=left_of(self.limits, self.spent, reserved),
            warnings=tuple(
                name for name in RESOURCES if _is_past_soft_share(name, self.limits, used)
            ),
        )

    def by_candidate(self) -> dict[str, Amounts]:
        """Return what each candidate has spent and holds."""
        totals = dict(self.charged_to)
        for charge in self.held.values():
            _charge(totals, charge.candidate, charge.amounts)
        return totals

    def by_phase(self) -> dict[str, Amounts]:
        """Return what each phase has spent and holds."""
        totals = dict(self.charged_in)
        for charge in self.held.values():
            _charge(totals, charge.phase, charge.amounts)
        return totals


def _charge(totals: dict[str, Amounts], name: str, amounts: Amounts) -> None:
    totals[name] = add(totals[name], amounts) if name in totals else amounts


def _is_past_soft_share(name: str, limits: StudyBudget, used: Amounts) -> bool:
    limit, gone = getattr(limits, name), getattr(used, name)
    return limit is not None and gone is not None and gone >= limit * limits.soft_pct / 100
