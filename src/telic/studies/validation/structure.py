"""V01 to V03: the record is whole, is what it says it is, and may move."""

from __future__ import annotations

from telic.studies.documents.contract import PHASES
from telic.studies.validation.subject import Finding, Subject

_WRITES_CODE = ("reward_engineering", "code", "algorithm", "environment_generation")
_BASELINE_PHASES = ("smoke", "incumbent_validation")


def is_whole(subject: Subject) -> Finding:
    """V01: what the kind of candidate must say is said."""
    candidate, problems = subject.candidate, list[str]()
    if candidate.kind != "baseline" and not candidate.evidence_refs:
        problems.append("evidence_refs is empty: name the evidence that motivated it")
    if not candidate.invariants:
        problems.append("invariants is empty: name at least one thing that must not change")
    if subject.is_git and candidate.base_commit is None:
        problems.append("base_commit is missing, and the repository is under git")
    problems += _plan_problems(subject)
    changes_files = bool(subject.touched) or candidate.change.patch is not None
    if (changes_files or candidate.kind in _WRITES_CODE) and candidate.isolation.mode == "in_place":
        excepted = subject.contract.excepted("worktree_required", subject.now)
        if excepted is None:
            problems.append("isolation.mode is in_place: a change of files needs worktree or copy")
    return Finding(tuple(problems))


def _plan_problems(subject: Subject) -> list[str]:
    plan, problems = subject.candidate.plan, list[str]()
    order = [PHASES.index(phase) for phase in plan.phases]
    if not order or order != sorted(set(order)):
        problems.append(f"plan.phases must be some of {', '.join(PHASES)}, each once, in order")
    elif "smoke" not in plan.phases:
        problems.append("plan.phases must begin with smoke")
    if subject.candidate.kind == "baseline" and plan.phases != _BASELINE_PHASES:
        problems.append(f"a baseline runs {' and then '.join(_BASELINE_PHASES)}, nothing else")
    problems += [f"plan.seeds has none for {p}" for p in plan.phases if not plan.seeds.get(p)]
    problems += [
        f"plan.seeds.{p} is for no planned phase" for p in plan.seeds if p not in plan.phases
    ]
    return problems


def is_itself(subject: Subject) -> Finding:
    """V02: names agree with the folder, and everything it refers to exists."""
    candidate, problems = subject.candidate, list[str]()
    said = (candidate.id, candidate.task_id, candidate.study_id)
    found = (subject.candidate_id, *subject.study)
    problems += [
        f"it calls itself {a}, but lies in {b}" for a, b in zip(said, found, strict=True) if a != b
    ]
    if candidate.revision != subject.revision:
        problems.append(f"it is revision {candidate.revision}; the ledger has {subject.revision}")
    known = {each.candidate.id for each in subject.others}
    named = [*candidate.parents, *([candidate.replicate_of] if candidate.replicate_of else [])]
    problems += [f"there is no candidate {each}" for each in named if each not in known]
    refs = [*candidate.evidence_refs, candidate.reflection_ref, candidate.dr_probe_ref]
    problems += [
        f"there is no intact evidence {each}"
        for each in refs
        if each and each not in subject.evidence
    ]
    if _is_own_ancestor(subject):
        problems.append("it is its own ancestor")
    return Finding(tuple(problems))


def _is_own_ancestor(subject: Subject) -> bool:
    parents = {each.candidate.id: each.candidate.parents for each in subject.others}
    waiting, seen = list(subject.candidate.parents), set[str]()
    while waiting:
        each = waiting.pop()
        if each == subject.candidate_id:
            return True
        if each not in seen:
            seen.add(each)
            waiting += parents.get(each, ())
    return False


def may_move(subject: Subject) -> Finding:
    """V03: the lifecycle allows it from where the candidate is."""
    problems = list[str]()
    if subject.status not in subject.may_be:
        wanted = " or ".join(sorted(subject.may_be))
        problems.append(f"it is {subject.status}; this needs {wanted}")
    if not subject.is_open:
        problems.append("the study is not open")
    return Finding(tuple(problems), value=str(subject.status))
