"""Checks V01 to V16: may this candidate be tried at all."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from pathlib import Path

from telic.studies import git_read
from telic.studies.budget import exceeding
from telic.studies.canonical import file_hash
from telic.studies.documents.candidate import CheckResult, Evidence
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
from telic.studies.evidence.curriculum import Curriculum, curriculum_problems
from telic.studies.evidence.probes import ProbeSummary, range_problems
from telic.studies.patch import first_match
from telic.studies.registry import STATE_FOLDER
from telic.studies.rules.case import CandidateCase, RuleFinding, run_rules
from telic.studies.rules.novelty import is_more_than_a_seed, is_new
from telic.studies.rules.objections import GAIN, read_condition
from telic.studies.rules.scope import (
    files_in_scope,
    is_range,
    is_small,
    kind_in_scope,
    params_in_range,
    steps_are_small,
)
from telic.studies.study import Study

WRITES_CODE = ("reward_engineering", "code", "algorithm", "environment_generation")


def check_case(case: CandidateCase) -> tuple[CheckResult, ...]:
    """Run V01 to V16."""
    return run_rules(CHECKS, case, shut=False)


def unreadable(why: str) -> tuple[CheckResult, ...]:
    """Return the results for a candidate that cannot be read: V01 says why, the rest is unknown."""
    rest = [CheckResult(id=code, passed=False, why="not looked at") for code in CHECKS]
    return (CheckResult(id="V01", passed=False, why=why), *rest[1:])


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
        problems.append("isolation.mode is in_place: a change of files needs worktree or copy")
    return RuleFinding(tuple(problems))


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
    """V02: names agree with the folder, and everything it refers to exists."""
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
    return RuleFinding(tuple(problems))


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
    return RuleFinding(tuple(problems), value=str(status))


# ---------------------------------------------------------------------------- V09 and V10


def patch_applies(case: CandidateCase) -> RuleFinding:
    """V09: the patch applies cleanly to its base, and brought files are the ones described."""
    study, base, problems = case.study, case.candidate.base_commit, list[str]()
    if study.is_git and base is not None and not git_read.has_commit(study.root, base):
        problems.append(f"this clone has no commit {base[:12]}")
    elif (patch := case.patch_file) is not None:
        problems += _patch_problems(case, patch)
    for file in case.candidate.change.files:
        path = case.folder / "files" / file.path
        if not path.is_file():
            problems.append(f"files/{file.path} is missing")
        elif file_hash(path) != file.sha256:
            problems.append(f"files/{file.path} is not the file that was described")
    return RuleFinding(tuple(problems))


def _patch_problems(case: CandidateCase, patch: Path) -> list[str]:
    root = case.study.root
    if case.patch is None:
        return [f"{patch.name} is missing or is not text beside candidate.json"]
    if file_hash(patch) != case.candidate.change.patch_sha256:
        return [f"{patch.name} is not the patch that was described"]
    base = case.candidate.base_commit if case.study.is_git else None
    if why := git_read.why_patch_fails(root, patch, base):
        return [f"{patch.name} does not apply: {why.splitlines()[0]}"]
    hidden = set(git_read.patched_paths(root, patch)) - set(case.patch.files)
    return [f"git would also write {path}, which the patch does not show" for path in hidden]


def measure_untouched(case: CandidateCase) -> RuleFinding:
    """V10: evaluator, metric and protocol are what was agreed on, and the change avoids them."""
    study = case.study
    protected = {
        "the evaluator": tuple(study.protocol.evaluator_files),
        "an evaluator file of the adapter": study.adapter.files.evaluator.globs,
        "the studies' own records": (f"{STATE_FOLDER}/**",),
    }
    if study.metric_spec.extractor.kind == "python_file":
        protected["the metric extractor"] = (study.metric_spec.extractor.path,)
    problems = [
        f"{path} is {what}"
        for path in case.touched
        for what, patterns in protected.items()
        if first_match(path, patterns)
    ]
    if not study.is_metric_spec_agreed:
        problems.append("the metric spec is not the one the contract names")
    if not study.is_protocol_agreed:
        problems.append("the evaluation protocol is not the one the contract names")
    for path in changed_evaluators(study, study.root):
        there = (study.root / path).is_file()
        said = "is not the one of the protocol" if there else "is missing"
        problems.append(f"the evaluator {path} {said}")
    return RuleFinding(tuple(problems))


def changed_evaluators(study: Study, tree: Path) -> list[str]:
    """Return the evaluator files of the protocol that are missing in a tree or differ there."""
    return [
        path
        for path, agreed in study.protocol.evaluator_files.items()
        if not (tree / path).is_file() or file_hash(tree / path) != agreed
    ]


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
    elif expected is not None and expected.metric not in (known := _known_metrics(case.study)):
        listed = ", ".join(known)
        problems.append(
            f"hypothesis.expected.metric {expected.metric} is not in the metric spec ({listed})"
        )
    return RuleFinding(tuple(problems))


def _condition_problems(case: CandidateCase, where: str, text: str) -> list[str]:
    """Refuse a condition about a number that no run is measured by: it would never be checked."""
    condition, spec = read_condition(text), case.study.metric_spec
    known = [GAIN, spec.primary.key, *(rail.key for rail in spec.guardrails)]
    if condition is None or condition.what in known:
        return []
    return [f"{where} asks for {condition.what}, which is none of {', '.join(known)}"]


def _known_metrics(study: Study) -> list[str]:
    spec = study.metric_spec
    parts = (*spec.components, *spec.guardrails, *spec.diagnostics)
    return list(dict.fromkeys([spec.primary.key, *(part.key for part in parts)]))


def has_its_evidence(case: CandidateCase) -> RuleFinding:
    """V12: reward, randomisation and curriculum work cites what it must rest on."""
    kind = case.candidate.kind
    if kind == "reward_tuning" and case.candidate.reflection_ref is None:
        return RuleFinding(value="advice: cite a reward reflection")
    if kind in ("reward_engineering", "reward_tuning"):
        return RuleFinding(_reflection_problems(case))
    if kind == "dr_tuning":
        return RuleFinding(_probe_problems(case))
    if kind in ("curriculum", "environment_generation"):
        return RuleFinding(_curriculum_problems(case))
    return RuleFinding()


def _reflection_problems(case: CandidateCase) -> tuple[str, ...]:
    ref = case.candidate.reflection_ref
    if ref is None:
        return _unless_excepted(case, "reflection_required", "reflection_ref")
    return _kind_problems(case.evidence.get(ref), ref, "reflection")


def _probe_problems(case: CandidateCase) -> tuple[str, ...]:
    ref = case.candidate.dr_probe_ref
    if ref is None:
        return _unless_excepted(case, "dr_probe_required", "dr_probe_ref")
    sheet = case.evidence.get(ref)
    if sheet is None or sheet.kind != "dr_probe":
        return _kind_problems(sheet, ref, "dr_probe")
    ranges = {
        path: (float(override.to[0]), float(override.to[1]))
        for path, override in case.candidate.change.overrides.items()
        if is_range(override.to)
    }
    return tuple(range_problems(ranges, ProbeSummary.parse(sheet.payload, ref)))


def _unless_excepted(case: CandidateCase, rule: str, field: str) -> tuple[str, ...]:
    if case.study.contract.excepted(rule, case.now):
        return ()
    return (f"{field} is missing; only an exception in the contract may replace it",)


def _kind_problems(sheet: Evidence | None, ref: str, kind: str) -> tuple[str, ...]:
    if sheet is None:
        return (f"there is no evidence {ref}",)
    return () if sheet.kind == kind else (f"{ref} is evidence of {sheet.kind}, not of {kind}",)


def _curriculum_problems(case: CandidateCase) -> tuple[str, ...]:
    agreed, plan = case.study.contract.evaluation.protocol_hash, case.candidate.curriculum
    problems = curriculum_problems(plan, agreed)
    if plan is None or problems:
        return tuple(problems)
    condition = Curriculum.model_validate(plan).rollback.condition
    return tuple(_condition_problems(case, "curriculum.rollback.condition", condition))


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
    return RuleFinding(tuple(problems))


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
    limits = (
        ("are left", case.left),
        ("is the most for one candidate", budget.per_candidate),
    )
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
    return RuleFinding(tuple(problems), value=estimate.as_data())


def _with_launches(case: CandidateCase) -> Amounts:
    plan = case.candidate.plan
    launches = sum(map(len, plan.seeds.values()))
    return plan.est if plan.est.launches else plan.est.model_copy(update={"launches": launches})


CHECKS: dict[str, Callable[[CandidateCase], RuleFinding]] = {
    "V01": is_whole,
    "V02": is_itself,
    "V03": may_move,
    "V04": kind_in_scope,
    "V05": params_in_range,
    "V06": steps_are_small,
    "V07": files_in_scope,
    "V08": is_small,
    "V09": patch_applies,
    "V10": measure_untouched,
    "V11": can_be_wrong,
    "V12": has_its_evidence,
    "V13": seeds_are_fresh,
    "V14": fits_budget,
    "V15": is_new,
    "V16": is_more_than_a_seed,
}
