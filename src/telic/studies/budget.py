"""Budgets: a launch reserves its estimate, its end settles what it took. They never grow alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from telic.studies.documents.contract import RESOURCES, Amounts, Phase, StudyBudget

if TYPE_CHECKING:
    from telic.studies.state import BudgetState, StudyState


def add(*amounts: Amounts) -> Amounts:
    """Add amounts; what is None everywhere stays None."""
    return Amounts.model_validate({name: _sum(name, amounts) for name in RESOURCES})


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
    return Amounts.model_validate(
        {
            name: getattr(reserved, name)
            if getattr(actual, name) is None
            else getattr(actual, name)
            for name in RESOURCES
        }
    )


def shortfalls(
    state: StudyState, wanted: Amounts, candidate: str | None = None, phase: Phase | None = None
) -> list[str]:
    """Say which budgets a reservation would exceed, one sentence each; empty when it fits."""
    limits = state.budget_limits
    found = _sentences("the study", wanted, state.budget.left)
    if candidate is not None:
        used = state.spent_by_candidate.get(candidate, Amounts())
        found += _sentences(candidate, wanted, left_of(limits.per_candidate, used))
    if phase is not None and phase in limits.per_phase:
        used = state.spent_by_phase.get(phase, Amounts())
        found += _sentences(f"phase {phase}", wanted, left_of(limits.per_phase[phase], used))
    return found


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


@dataclass
class Account:
    """Reservations and spending while a ledger is replayed; what is charged is only added to."""

    limits: StudyBudget = field(default_factory=StudyBudget)
    _held: dict[str, tuple[str, Phase, Amounts]] = field(default_factory=dict)
    _spent: Amounts = field(default_factory=Amounts)
    _spent_by_candidate: dict[str, Amounts] = field(default_factory=dict)
    _spent_by_phase: dict[str, Amounts] = field(default_factory=dict)

    def limit(self, limits: StudyBudget) -> None:
        """Take on the limits of an agreed contract."""
        self.limits = limits

    def reserve(self, run: str, candidate: str, phase: Phase, amounts: Amounts) -> None:
        """Hold amounts for a run."""
        self._held[run] = (candidate, phase, amounts)

    def release(self, run: str) -> None:
        """Give back what was held for a run that never started."""
        self._held.pop(run, None)

    def settle(self, run: str, actual: Amounts) -> None:
        """Charge what a run took instead of what was held; a second settling changes nothing."""
        if held := self._held.pop(run, None):
            candidate, phase, reserved = held
            charge = settled(reserved, actual)
            self._spent = add(self._spent, charge)
            _add_to(self._spent_by_candidate, candidate, charge)
            _add_to(self._spent_by_phase, phase, charge)

    def pay_call(self, usd: float | None, tokens: float | None) -> None:
        """Charge a model call; one of unknown price costs what the contract says."""
        price = self.limits.unknown_call_usd if usd is None else usd
        self._spent = add(self._spent, Amounts(llm_usd=price, llm_tokens=tokens, llm_calls=1))

    def summary(self) -> BudgetState:
        """Return what is spent, reserved and left."""
        from telic.studies.state import BudgetState

        reserved = add(*(amounts for _, _, amounts in self._held.values()))
        return BudgetState(
            spent=self._spent,
            reserved=reserved,
            left=left_of(self.limits, self._spent, reserved),
            warnings=tuple(_past_soft_share(self.limits, add(self._spent, reserved))),
        )

    def by_candidate(self) -> dict[str, Amounts]:
        """Return what each candidate has spent and holds."""
        found = dict(self._spent_by_candidate)
        for candidate, _, amounts in self._held.values():
            _add_to(found, candidate, amounts)
        return found

    def by_phase(self) -> dict[str, Amounts]:
        """Return what each phase has spent and holds."""
        found = dict(self._spent_by_phase)
        for _, phase, amounts in self._held.values():
            _add_to(found, phase, amounts)
        return found


def _add_to(totals: dict[str, Amounts], name: str, amounts: Amounts) -> None:
    totals[name] = add(totals.get(name, Amounts()), amounts)


def _sum(name: str, amounts: Iterable[Amounts]) -> float | None:
    known = [value for each in amounts if (value := getattr(each, name)) is not None]
    return sum(known) if known else None


def _sentences(whose: str, wanted: Amounts, left: Amounts) -> list[str]:
    return [
        f"{name}: {need:g} is wanted and {rest:g} is left for {whose}."
        for name, need, rest in exceeding(wanted, left)
    ]


def _past_soft_share(limits: StudyBudget, used: Amounts) -> list[str]:
    found: list[str] = []
    for name in RESOURCES:
        limit, gone = getattr(limits, name), getattr(used, name)
        if limit is not None and gone is not None and gone >= limit * limits.soft_pct / 100:
            found.append(name)
    return found
