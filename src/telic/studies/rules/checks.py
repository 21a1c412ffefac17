"""Validate a candidate: run checks V01 to V16, freeze what they were run against, move it on."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

from telic.studies import lifecycle
from telic.studies.budget import exceeding
from telic.studies.canonical import content_hash
from telic.studies.documents.base import SYSTEM, DocumentPart
from telic.studies.documents.candidate import CandidateStatus, CheckResult
from telic.studies.documents.contract import (
    BASELINE_PHASES,
    LEAST_SEEDS,
    PHASES,
    RESOURCES,
    ROLES,
    Amounts,
    Phase,
    SeedRole,
)
from telic.studies.errors import GateRefused, InvalidDocument
from telic.studies.evidence.curriculum import Curriculum, curriculum_problems
from telic.studies.evidence.probes import ProbeSummary, range_problems
from telic.studies.rules import change
from telic.studies.rules.change import CandidateCase, RuleFinding, broken_invariants, run_rules
from telic.studies.rules.results import GAIN, read_condition
from telic.studies.study import Study

_AUTHORING = (CandidateStatus.DRAFT, CandidateStatus.VALIDATED)
WRITES_CODE = ("reward_engineering", "code", "algorithm", "environment_generation")


class ValidationOutcome(DocumentPart):
    """What validating came to."""

    candidate: str
    status: CandidateStatus
    checks: tuple[CheckResult, ...]

    @property
    def ok(self) -> bool:
        """Every check passed."""
        return all(check.passed for check in self.checks)


def check_candidate(
    study: Study, name: str, may_be: tuple[CandidateStatus, ...] = _AUTHORING
) -> tuple[CheckResult, ...]:
    """Run V01 to V16 and change nothing; a launch passes `may_be=LAUNCHING`."""
    study.candidate_state(name)
    try:
        study.candidate(name)
    except InvalidDocument as error:
        rest = [CheckResult(id=code, passed=False, why="not looked at") for code in CHECKS]
        return (CheckResult(id="V01", passed=False, why=error.message), *rest[1:])
    return run_rules(CHECKS, CandidateCase(study, name, may_be), shut=False)


def validate_candidate(study: Study, name: str) -> ValidationOutcome:
    """Check a draft and, when all is well, freeze it against the present contract."""
    with study.locked():
        demote_if_changed(study, name)
        if not study.is_contract_agreed:
            raise GateRefused(
                "E_CONTRACT",
                "contract.yaml is not the version that was agreed on.",
                hint="Undo the edit, or agree on it with: telic study contract --amend TEXT",
            )
        checks, status = check_candidate(study, name), study.candidate_state(name).status
        outcome = ValidationOutcome(candidate=name, status=status, checks=checks)
        if outcome.ok and status == CandidateStatus.DRAFT:
            _freeze(study, name, checks)
            outcome = outcome.model_copy(update={"status": CandidateStatus.VALIDATED})
        elif not outcome.ok and status == CandidateStatus.VALIDATED:
            failed = [check.id for check in checks if not check.passed]
            reason = f"{', '.join(failed)} no longer hold"
            lifecycle.transition(
                study, name, CandidateStatus.DRAFT, SYSTEM, reason, {"changed": failed}
            )
            outcome = outcome.model_copy(update={"status": CandidateStatus.DRAFT})
    return outcome


def demote_if_changed(study: Study, name: str) -> tuple[str, ...]:
    """Make a validated candidate a draft again when what it was checked against has changed."""
    if study.candidate_state(name).status != CandidateStatus.VALIDATED:
        return ()
    if changed := changed_since(study, name):
        reason = f"{', '.join(changed)} changed since it was validated"
        facts = {"changed": list(changed)}
        lifecycle.transition(study, name, CandidateStatus.DRAFT, SYSTEM, reason, facts)
    return changed


def changed_since(study: Study, name: str) -> tuple[str, ...]:
    """Return what is not what it was when a candidate was validated."""
    held = study.candidate_state(name)
    try:
        now = _present_hashes(study, name)
    except InvalidDocument:
        return ("content_hash",)
    return tuple(key for key, value in now.items() if getattr(held, key) != value)


def _present_hashes(study: Study, name: str) -> dict[str, Any]:
    """Return what a candidate is and is measured against, as hashes of what is on disk."""
    return {
        "content_hash": study.candidate(name).compute_hash(),
        "contract_hash": study.contract_hash,
        "protocol_hash": study.protocol_hash,
        "adapter_hash": study.adapter_hash,
    }


def _freeze(study: Study, name: str, checks: tuple[CheckResult, ...]) -> None:
    facts = {
        **_present_hashes(study, name),
        "record_hash": content_hash(study.candidate(name).file_data()),
        "checks": [{"id": check.id, "passed": check.passed} for check in checks],
        "phase": _phase_to_go_on_with(study, name),
    }
    to = CandidateStatus.VALIDATED
    lifecycle.transition(study, name, to, SYSTEM, "all checks passed", facts)


def _phase_to_go_on_with(study: Study, name: str) -> Phase:
    """Return the phase that it was in: an amendment does not send it back to its beginning."""
    held, phases = study.candidate_state(name), study.candidate(name).plan.phases
    ran = [run.phase for run in study.state.runs_of(name).values() if run.revision == held.revision]
    return held.phase if ran and held.phase in phases else phases[0]


# ---------------------------------------------------------------------------- V01 to V03


def is_whole(case: CandidateCase) -> RuleFinding:
    """V01: what the kind of candidate must say is said."""
    candidate, problems = case.candidate, list[str]()
    if candidate.kind != "baseline" and not candidate.evidence_refs:
        problems.append("evidence_refs is empty: name the evidence that motivated it")
    if not candidate.invariants:
        problems.append("invariants is empty: name at least one thing that must not change")
    if case.study.is_git and candidate.base_commit is None:
        problems.append("base_commit is missing, and the repository is under git")
    problems += _plan_problems(case)
    changes_files = bool(case.touched) or candidate.change.patch is not None
    is_in_place = candidate.isolation.mode == "in_place"
    waived = case.study.contract.excepted("worktree_required", case.now) is not None
    if (changes_files or candidate.kind in WRITES_CODE) and is_in_place and not waived:
        problems.append("isolation.mode is in_place: a change of files needs a worktree")
    return RuleFinding(problems)


def _plan_problems(case: CandidateCase) -> list[str]:
    plan, problems = case.candidate.plan, list[str]()
    order = [PHASES.index(phase) for phase in plan.phases]
    if not order or order != sorted(set(order)):
        problems.append(f"plan.phases must be some of {', '.join(PHASES)}, each once, in order")
    elif "smoke" not in plan.phases:
        problems.append("plan.phases must begin with smoke")
    if case.candidate.kind == "baseline" and plan.phases != BASELINE_PHASES:
        problems.append(f"a baseline runs {' and then '.join(BASELINE_PHASES)}, nothing else")
    problems += [f"plan.seeds has none for {p}" for p in plan.phases if not plan.seeds.get(p)]
    problems += [
        f"plan.seeds.{p} is for no planned phase" for p in plan.seeds if p not in plan.phases
    ]
    return problems


def is_itself(case: CandidateCase) -> RuleFinding:
    """V02: names agree with the folder, everything it refers to exists, its invariants hold."""
    candidate, folder, problems = case.candidate, case.study.folder, list[str]()
    said = (candidate.id, candidate.task_id, candidate.study_id)
    lies = (case.name, folder.task_id, folder.study_id)
    problems += [
        f"it calls itself {a}, but lies in {b}" for a, b in zip(said, lies, strict=True) if a != b
    ]
    if candidate.revision != case.held.revision:
        now = case.held.revision
        problems.append(f"it is revision {candidate.revision}; the ledger has {now}")
    named = [*candidate.parents, *([candidate.replicate_of] if candidate.replicate_of else [])]
    problems += [f"there is no candidate {name}" for name in named if name not in case.others]
    refs = [*candidate.evidence_refs, candidate.reflection_ref, candidate.dr_probe_ref]
    missing = [ref for ref in refs if ref and ref not in case.evidence]
    problems += [f"there is no intact evidence {ref}" for ref in missing]
    if _is_own_ancestor(case):
        problems.append("it is its own ancestor")
    problems += broken_invariants(case.study, candidate, case.study.root)
    return RuleFinding(problems)


def _is_own_ancestor(case: CandidateCase) -> bool:
    waiting, seen = list(case.candidate.parents), set[str]()
    while waiting:
        name = waiting.pop()
        if name == case.name:
            return True
        if name not in seen and name in case.others:
            waiting += case.others[name].candidate.parents
        seen.add(name)
    return False


def may_move(case: CandidateCase) -> RuleFinding:
    """V03: the lifecycle allows it from where the candidate is."""
    problems, status = list[str](), case.held.status
    if status not in case.may_be:
        problems.append(f"it is {status}; this needs {' or '.join(sorted(case.may_be))}")
    if case.study.state.study_status != "open":
        problems.append("the study is not open")
    return RuleFinding(problems, value=str(status))


# ---------------------------------------------------------------------------- V11 and V12


def can_be_wrong(case: CandidateCase) -> RuleFinding:
    """V11: the hypothesis says what should happen, why, and what would refute it."""
    hypothesis, problems = case.candidate.hypothesis, list[str]()
    problems += [
        f"hypothesis.{name} is empty"
        for name in ("statement", "mechanism", "falsifier")
        if not getattr(hypothesis, name).strip()
    ]
    problems += _condition_problems(case, "hypothesis.falsifier", hypothesis.falsifier)
    expected = hypothesis.expected
    if expected is None and case.candidate.kind != "baseline":
        problems.append("hypothesis.expected is missing: name a metric and a direction")
    spec = case.study.metric_spec
    parts = (spec.primary, *spec.components, *spec.guardrails, *spec.diagnostics)
    metrics = dict.fromkeys(part.key for part in parts)
    if expected is not None and expected.metric not in metrics:
        said = f"hypothesis.expected.metric {expected.metric} is not in the metric spec"
        problems.append(f"{said} ({', '.join(metrics)})")
    return RuleFinding(problems)


def _condition_problems(case: CandidateCase, where: str, text: str) -> list[str]:
    """Refuse a condition about a number that no run is measured by: it would never be checked."""
    condition, spec = read_condition(text), case.study.metric_spec
    numbers = [GAIN, spec.primary.key, *(rail.key for rail in spec.guardrails)]
    if condition is None or condition.what in numbers:
        return []
    return [f"{where} asks for {condition.what}, which is none of {', '.join(numbers)}"]


def has_its_evidence(case: CandidateCase) -> RuleFinding:
    """V12: reward, randomisation and curriculum work cites what it must rest on."""
    kind, reflection = case.candidate.kind, case.candidate.reflection_ref
    if kind == "reward_tuning" and reflection is None:
        return RuleFinding(value="advice: cite a reward reflection")
    if kind in ("reward_engineering", "reward_tuning"):
        return RuleFinding(_citation_problems(case, "reflection", reflection))
    if kind == "dr_tuning":
        return RuleFinding(_probe_problems(case))
    if kind in ("curriculum", "environment_generation"):
        return RuleFinding(_curriculum_problems(case))
    return RuleFinding()


def _citation_problems(case: CandidateCase, kind: str, ref: str | None) -> list[str]:
    if ref is None:
        excepted = case.study.contract.excepted(f"{kind}_required", case.now)
        said = f"{kind}_ref is missing; only an exception in the contract may replace it"
        return [] if excepted else [said]
    sheet = case.evidence.get(ref)
    if sheet is None:
        return [f"there is no evidence {ref}"]
    return [] if sheet.kind == kind else [f"{ref} is evidence of {sheet.kind}, not of {kind}"]


def _probe_problems(case: CandidateCase) -> list[str]:
    ref = case.candidate.dr_probe_ref
    problems = _citation_problems(case, "dr_probe", ref)
    if problems or ref is None:
        return problems
    ranges = {
        path: (float(override.to[0]), float(override.to[1]))
        for path, override in case.candidate.change.overrides.items()
        if change.is_range(override.to)
    }
    return range_problems(ranges, ProbeSummary.parse(case.evidence[ref].payload, ref))


def _curriculum_problems(case: CandidateCase) -> list[str]:
    agreed, plan = case.study.contract.evaluation.protocol_hash, case.candidate.curriculum
    problems = curriculum_problems(plan, agreed)
    if plan is None or problems:
        return problems
    condition = Curriculum.model_validate(plan).rollback.condition
    return _condition_problems(case, "curriculum.rollback.condition", condition)


# ---------------------------------------------------------------------------- V13 and V14


def seeds_are_fresh(case: CandidateCase) -> RuleFinding:
    """V13: every seed belongs to the pool of its phase and was not seen in another role."""
    study, problems = case.study, list[str]()
    if not study.adapter.seeds.controllable:
        problems.append("the adapter says that seeds cannot be set, so no claim can rest on them")
    roles: tuple[SeedRole, ...] = ("selection", "promotion", "validation")
    pools = {role: study.contract.seeds.pool(role) for role in roles}
    problems += [
        f"the {one} and {two} pools share seeds"
        for one, two in combinations(roles, 2)
        if pools[one] & pools[two]
    ]
    for phase, seeds in case.candidate.plan.seeds.items():
        role = ROLES[phase]
        if outside := [seed for seed in seeds if seed not in pools[role]]:
            problems.append(f"{phase} seeds {_listed(outside)} are not in the {role} pool")
        if len(set(seeds)) != len(seeds):
            problems.append(f"{phase} names a seed twice")
        if len(seeds) < LEAST_SEEDS.get(phase, 1):
            problems.append(f"{phase} needs at least {LEAST_SEEDS[phase]} seeds")
        if used := _used(case, phase, seeds):
            problems.append(f"{phase} seeds {_listed(used)} were already used for this candidate")
    return RuleFinding(problems)


def _used(case: CandidateCase, phase: Phase, seeds: tuple[int, ...]) -> list[int]:
    """Return seeds seen in another role, or in this one by an earlier revision.

    Choosing may look at a seed again; a claim may not.
    """
    now, is_claim = case.candidate.revision, ROLES[phase] != "selection"
    seen = {
        used.seed
        for used in case.used_seeds
        if ROLES[used.phase] != ROLES[phase] or (is_claim and used.revision != now)
    }
    return [seed for seed in seeds if seed in seen]


def _listed(seeds: list[int]) -> str:
    return ", ".join(map(str, seeds))


def fits_budget(case: CandidateCase) -> RuleFinding:
    """V14: what it is thought to cost is known, and no budget is too small for it."""
    estimate, budget = case.candidate.plan.est, case.study.contract.budget
    limits = (("are left", case.left), ("is the most for one candidate", budget.per_candidate))
    problems = [
        f"it needs {needed:g} {name}, and {limit:g} {words}"
        for words, left in limits
        for name, needed, limit in exceeding(_with_launches(case), left, slack=1e-9)
    ]
    limited = {name for name in RESOURCES if getattr(budget, name) is not None} - {"launches"}
    estimable = limited & {"wall_clock_h", "gpu_h", "env_steps"}
    problems += [
        f"plan.est.{name} is missing, and the budget limits it"
        for name in sorted(estimable)
        if getattr(estimate, name) is None
    ]
    return RuleFinding(problems, value=estimate.as_data())


def _with_launches(case: CandidateCase) -> Amounts:
    plan = case.candidate.plan
    launches = sum(map(len, plan.seeds.values()))
    return plan.est if plan.est.launches else plan.est.model_copy(update={"launches": launches})


CHECKS: dict[str, Callable[[CandidateCase], RuleFinding]] = {
    "V01": is_whole,
    "V02": is_itself,
    "V03": may_move,
    "V04": change.kind_in_scope,
    "V05": change.params_in_range,
    "V06": change.steps_are_small,
    "V07": change.files_in_scope,
    "V08": change.is_small,
    "V09": change.patch_applies,
    "V10": change.measure_untouched,
    "V11": can_be_wrong,
    "V12": has_its_evidence,
    "V13": seeds_are_fresh,
    "V14": fits_budget,
    "V15": change.is_new,
    "V16": change.is_more_than_a_seed,
}
