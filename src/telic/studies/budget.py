"""Budgets: a launch reserves its estimate, its end settles the actual amounts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from telic.studies.documents.base import DocumentPart
from telic.studies.documents.contract import RESOURCES, Amounts, Phase, StudyBudget

if TYPE_CHECKING:
    from telic.studies.state import StudyState

_SLACK = 1e-9
_NOTHING = Amounts()


class BudgetState(DocumentPart):
    """Amounts spent, reserved for live runs, and left; left is None where unlimited."""

    spent: Amounts = Amounts()
    reserved: Amounts = Amounts()
    left: Amounts = Amounts()


def budget_state(limits: StudyBudget, spent: Amounts, reserved: Amounts) -> BudgetState:
    """Return the state of a budget."""
    left = left_of(limits, total(spent, reserved))
    return BudgetState(spent=spent, reserved=reserved, left=left)


def total(*amounts: Amounts) -> Amounts:
    """Add amounts; a resource that is None everywhere stays None."""
    totals: dict[str, float] = {}
    for each in amounts:
        for name in RESOURCES:
            if (value := getattr(each, name)) is not None:
                totals[name] = totals.get(name, 0) + value
    return Amounts(**totals)


def left_of(limits: Amounts, used: Amounts, own: Amounts = _NOTHING) -> Amounts:
    """Return what is left of every limited resource, at least 0, if `own` were not used."""
    return Amounts(
        **{
            name: max(0.0, limit - max(0.0, (getattr(used, name) or 0) - (getattr(own, name) or 0)))
            for name in RESOURCES
            if (limit := getattr(limits, name)) is not None
        }
    )


def exceeding(wanted: Amounts, left: Amounts) -> list[tuple[str, float, float]]:
    """Return the resources of which more is wanted than is left: name, need and rest."""
    amounts = [(name, getattr(wanted, name), getattr(left, name)) for name in RESOURCES]
    return [x for x in amounts if x[1] is not None and x[2] is not None and x[1] > x[2] + _SLACK]


def shortfalls(state: StudyState, wanted: Amounts, candidate: str, phase: Phase) -> list[str]:
    """Return which budgets a reservation would exceed, one sentence each; empty when it fits."""
    limits = state.budget_limits
    own = left_of(limits.per_candidate, state.used(candidate=candidate))
    left = {"the study": state.budget.left, candidate: own}
    return [
        f"{name}: {need:g} is wanted and {rest:g} is left for {whose}."
        for whose, amounts in left.items()
        for name, need, rest in exceeding(wanted, amounts)
    ]
