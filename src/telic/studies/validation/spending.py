"""V13 and V14: seeds come from their pool, and the estimate fits what is left."""

from __future__ import annotations

from typing import Literal

from telic.studies.documents.contract import RESOURCES, Amounts, Phase
from telic.studies.validation.subject import Finding, Subject

Role = Literal["selection", "promotion", "validation"]
ROLES: dict[Phase, Role] = {
    "smoke": "selection",
    "short_trial": "selection",
    "promotion": "promotion",
    "incumbent_validation": "validation",
}
LEAST_SEEDS: dict[Phase, int] = {"promotion": 5, "incumbent_validation": 5}


def seeds_are_fresh(subject: Subject) -> Finding:
    """V13: every seed belongs to the pool of its phase and was not seen in another role."""
    plan, problems = subject.candidate.plan, list[str]()
    if not subject.adapter.seeds.controllable:
        problems.append("the adapter says that seeds cannot be set, so no claim can rest on them")
    problems += _pools_overlap(subject)
    for phase, seeds in plan.seeds.items():
        role = ROLES[phase]
        pool = subject.contract.seeds.pool(role)
        if outside := [seed for seed in seeds if seed not in pool]:
            problems.append(f"{phase} seeds {_listed(outside)} are not in the {role} pool")
        if len(set(seeds)) != len(seeds):
            problems.append(f"{phase} names a seed twice")
        if len(seeds) < LEAST_SEEDS.get(phase, 1):
            problems.append(f"{phase} needs at least {LEAST_SEEDS[phase]} seeds")
        if used := _used(subject, phase, seeds):
            problems.append(f"{phase} seeds {_listed(used)} were already used for this candidate")
    return Finding(tuple(problems))


def _pools_overlap(subject: Subject) -> list[str]:
    pools = subject.contract.seeds
    roles: tuple[Role, ...] = ("selection", "promotion", "validation")
    return [
        f"the {a} and {b} pools share seeds"
        for i, a in enumerate(roles)
        for b in roles[i + 1 :]
        if pools.pool(a) & pools.pool(b)
    ]


def _used(subject: Subject, phase: Phase, seeds: tuple[int, ...]) -> list[int]:
    """Return seeds seen in another role, or in this one by an earlier revision.

    Choosing may look at a seed again; a claim may not.
    """
    now, is_claim = subject.candidate.revision, ROLES[phase] != "selection"
    seen = {
        each.seed
        for each in subject.used_seeds
        if ROLES[each.phase] != ROLES[phase] or (is_claim and each.revision != now)
    }
    return [seed for seed in seeds if seed in seen]


def _listed(seeds: list[int]) -> str:
    return ", ".join(map(str, seeds))


def fits_budget(subject: Subject) -> Finding:
    """V14: what it is thought to cost is known, and no budget is too small for it."""
    estimate, budget = subject.candidate.plan.est, subject.contract.budget
    problems = [
        f"it needs {needed:g} {name}, and {limit:g} {words}"
        for words, limits in (
            ("are left", subject.left),
            ("is the most for one candidate", budget.per_candidate),
        )
        for name, needed, limit in _over(_with_launches(subject), limits)
    ]
    limited = {name for name in RESOURCES if getattr(budget, name) is not None} - {"launches"}
    estimable = limited & {"wall_clock_h", "gpu_h", "env_steps"}
    problems += [
        f"plan.est.{name} is missing, and the budget limits it"
        for name in sorted(estimable)
        if getattr(estimate, name) is None
    ]
    return Finding(tuple(problems), value=estimate.as_data())


def _with_launches(subject: Subject) -> Amounts:
    plan = subject.candidate.plan
    launches = sum(map(len, plan.seeds.values()))
    return plan.est if plan.est.launches else plan.est.model_copy(update={"launches": launches})


def _over(needed: Amounts, limits: Amounts) -> list[tuple[str, float, float]]:
    pairs = [(name, getattr(needed, name), getattr(limits, name)) for name in RESOURCES]
    return [(n, a, b) for n, a, b in pairs if a is not None and b is not None and a > b + 1e-9]
