"""What somebody asks to be launched, and the shares that the phases take of a plan."""

from __future__ import annotations

from typing import NamedTuple

from telic.studies.documents.candidate import Plan
from telic.studies.documents.contract import RESOURCES, Amounts, Phase
from telic.studies.errors import StudyError

TOKEN = "RUN_CANDIDATE"
PHASE_SHARE: dict[Phase, float] = {
    "smoke": 0.02,
    "short_trial": 0.25,
    "promotion": 1.0,
    "incumbent_validation": 1.0,
}
"""how much of a full training one run of a phase is"""
SMOKE_TIMEOUT_S = 300.0


class LaunchRequest(NamedTuple):
    """One run to be: a candidate, a phase, a seed, and whether it is meant."""

    candidate: str
    phase: Phase
    seed: int
    execute: bool = False
    confirm: str | None = None
    expect: str | None = None
    """first digits of the content hash that the caller has seen"""
    gpu: int | None = None
    retry_of: str | None = None


def check_words(execute: bool, confirm: str | None) -> None:
    """Refuse half a confirmation; raises StudyError E_CONFIRM, which is a mistake of usage."""
    if confirm is not None and confirm != TOKEN:
        raise StudyError(
            "E_CONFIRM", f'"{confirm}" does not confirm a launch.', hint=f"The word is {TOKEN}."
        )
    if execute != (confirm is not None):
        given, missing = ("--execute", "--confirm") if execute else ("--confirm", "--execute")
        raise StudyError(
            "E_CONFIRM",
            f"{given} came without {missing}; nothing was started.",
            hint=f"To launch: --execute --confirm {TOKEN}. To look only: neither.",
        )


def steps_of(plan: Plan, phase: Phase) -> int | None:
    """Return how many steps one run of a phase trains."""
    return None if plan.steps is None else max(1, round(plan.steps * PHASE_SHARE[phase]))


def reservation_of(plan: Plan, phase: Phase) -> Amounts:
    """Return what one run is thought to cost: its share of the estimate for the whole plan."""
    total = sum(PHASE_SHARE[each] * (len(plan.seeds.get(each, ())) or 1) for each in plan.phases)
    share = PHASE_SHARE[phase] / total if total else 1.0
    amounts: dict[str, float | None] = {}
    for name in RESOURCES:
        whole = getattr(plan.est, name)
        amounts[name] = None if whole is None else whole * min(1.0, share)
    steps = steps_of(plan, phase)
    if steps is not None:
        amounts["env_steps"] = steps
    return Amounts.model_validate({**amounts, "launches": 1})
