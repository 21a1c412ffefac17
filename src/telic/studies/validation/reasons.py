"""V11 and V12: there is a reason that could turn out wrong, and the evidence its kind needs."""

from __future__ import annotations

from telic.studies.conditions import GAIN, read_condition
from telic.studies.documents.runs import Evidence
from telic.studies.evidence.curriculum import Curriculum, curriculum_problems
from telic.studies.evidence.probe_summary import ProbeSummary, range_problems
from telic.studies.validation.scope import is_range
from telic.studies.validation.subject import Finding, Subject


def can_be_wrong(subject: Subject) -> Finding:
    """V11: the hypothesis says what should happen, why, and what would refute it."""
    hypothesis, problems = subject.candidate.hypothesis, list[str]()
    problems += [
        f"hypothesis.{name} is empty"
        for name in ("statement", "mechanism", "falsifier")
        if not getattr(hypothesis, name).strip()
    ]
    problems += _condition_problems(subject, "hypothesis.falsifier", hypothesis.falsifier)
    if hypothesis.expected is None and subject.candidate.kind == "baseline":
        return Finding(tuple(problems))
    if hypothesis.expected is None:
        problems.append("hypothesis.expected is missing: name a metric and a direction")
    elif hypothesis.expected.metric not in (known := _known_metrics(subject)):
        problems.append(
            f"hypothesis.expected.metric {hypothesis.expected.metric} is not in the metric spec "
            f"({', '.join(known)})"
        )
    return Finding(tuple(problems))


def _condition_problems(subject: Subject, where: str, text: str) -> list[str]:
    """Refuse a condition about a number that no run is measured by: it would never be checked."""
    condition, spec = read_condition(text), subject.metric_spec
    known = [GAIN, spec.primary.key, *(each.key for each in spec.guardrails)]
    if condition is None or condition.what in known:
        return []
    return [f"{where} asks for {condition.what}, which is none of {', '.join(known)}"]


def _known_metrics(subject: Subject) -> list[str]:
    spec = subject.metric_spec
    parts = (*spec.components, *spec.guardrails, *spec.diagnostics)
    return list(dict.fromkeys([spec.primary.key, *(each.key for each in parts)]))


def has_its_evidence(subject: Subject) -> Finding:
    """V12: reward, randomisation and curriculum work cites what it must rest on."""
    kind = subject.candidate.kind
    if kind == "reward_engineering":
        return Finding(_reflection_problems(subject))
    if kind == "reward_tuning" and subject.candidate.reflection_ref is None:
        return Finding(value="advice: cite a reward reflection")
    if kind == "reward_tuning":
        return Finding(_reflection_problems(subject))
    if kind == "dr_tuning":
        return Finding(_probe_problems(subject))
    if kind in ("curriculum", "environment_generation"):
        return Finding(_curriculum_problems(subject))
    return Finding()


def _reflection_problems(subject: Subject) -> tuple[str, ...]:
    ref = subject.candidate.reflection_ref
    if ref is None:
        if subject.contract.excepted("reflection_required", subject.now):
            return ()
        return ("reflection_ref is missing; only an exception in the contract may replace it",)
    return _kind_problems(subject.evidence.get(ref), ref, "reflection")


def _kind_problems(found: Evidence | None, ref: str, kind: str) -> tuple[str, ...]:
    if found is None:
        return (f"there is no evidence {ref}",)
    return () if found.kind == kind else (f"{ref} is evidence of {found.kind}, not of {kind}",)


def _probe_problems(subject: Subject) -> tuple[str, ...]:
    ref = subject.candidate.dr_probe_ref
    if ref is None:
        if subject.contract.excepted("dr_probe_required", subject.now):
            return ()
        return ("dr_probe_ref is missing; only an exception in the contract may replace it",)
    found = subject.evidence.get(ref)
    if found is None or found.kind != "dr_probe":
        return _kind_problems(found, ref, "dr_probe")
    ranges = {
        path: (float(each.to[0]), float(each.to[1]))
        for path, each in subject.candidate.change.overrides.items()
        if is_range(each.to)
    }
    return tuple(range_problems(ranges, ProbeSummary.parse(found.payload, ref)))


def _curriculum_problems(subject: Subject) -> tuple[str, ...]:
    agreed, given = subject.contract.evaluation.protocol_hash, subject.candidate.curriculum
    problems = curriculum_problems(given, agreed)
    if given is None or problems:
        return tuple(problems)
    condition = Curriculum.model_validate(given).rollback.condition
    return tuple(_condition_problems(subject, "curriculum.rollback.condition", condition))
