"""G07 to G12: it is the candidate that was checked, in its turn, with its seeds, in its scope."""

from __future__ import annotations

from collections.abc import Iterable

from telic.studies.canonical import file_hash
from telic.studies.documents.candidate import CandidateStatus, Invariant
from telic.studies.documents.runs import RunStatus
from telic.studies.evidence.reading import is_unreviewed
from telic.studies.launch.situation import Situation
from telic.studies.subjects import (
    adapter_hash,
    contract_hash,
    current_protocol_hash,
    metric_spec_hash,
)
from telic.studies.validation.spending import ROLES
from telic.studies.validation.subject import Finding

_CONTROL_PHASES = ("promotion", "incumbent_validation")
_SCOPE_CHECKS = ("V04", "V05", "V06", "V07", "V08")


def is_as_checked(s: Situation) -> Finding:
    """G07: validated, and nothing it was validated against has changed since."""
    status = s.standing.status
    if status == CandidateStatus.ACCEPTED:
        # A control arm: it is measured again beside a challenger, and stays accepted.
        if s.request.phase not in _CONTROL_PHASES:
            return Finding((f"an accepted candidate does not run in {s.request.phase}",))
    elif status not in (CandidateStatus.VALIDATED, CandidateStatus.LAUNCHED):
        return Finding((f"it is {status}, not validated",))
    problems = [
        f"{what} has changed since it was validated"
        for what, then, now in (
            ("the candidate", s.standing.content_hash, s.candidate.compute_hash()),
            ("the contract", s.standing.contract_hash, contract_hash(s.contract)),
            ("the evaluation protocol", s.standing.protocol_hash, current_protocol_hash(s.folder)),
            ("the adapter", s.standing.adapter_hash, adapter_hash(s.folder)),
        )
        if then != now
    ]
    expected = s.request.expect
    if expected is not None and not s.candidate.compute_hash().startswith(expected):
        problems.append(f"its content hash does not start with {expected}")
    return Finding(tuple(problems), value=s.candidate.compute_hash()[:12])


def checks_pass(s: Situation) -> Finding:
    """G08: V01 to V16, run again, pass."""
    return Finding(_failed(s, {each.id for each in s.checks}))


def invariants_hold(s: Situation) -> Finding:
    """G09: what the candidate promises to leave alone is as it was."""
    return Finding(tuple(why for each in s.candidate.invariants for why in _broken(each, s)))


def is_its_turn(s: Situation) -> Finding:
    """G10: smoke before short trial before promotion."""
    phase, planned = s.request.phase, s.candidate.plan.phases
    if phase not in planned and s.standing.status != CandidateStatus.ACCEPTED:
        return Finding((f"{phase} is not in its plan",))
    if s.standing.status != CandidateStatus.ACCEPTED and s.standing.phase != phase:
        return Finding((f"it is in phase {s.standing.phase}, not {phase}",))
    if phase == "promotion" and is_unreviewed(s.folder, s.state, s.request.candidate):
        return Finding(("its reward may be gamed, and nobody else has reviewed it",))
    earlier = planned[: planned.index(phase)] if phase in planned else ()
    missing = [
        each
        for each in earlier
        if not any(
            run.status == RunStatus.FINISHED
            for run in s.state.runs_of(s.request.candidate, each).values()
        )
    ]
    return Finding(tuple(f"no run of {each} has finished" for each in missing), value=phase)


def seed_is_fresh(s: Situation) -> Finding:
    """G11: the seed is planned, from the right pool, and not yet used up in this role."""
    phase, seed, problems = s.request.phase, s.request.seed, list[str]()
    if not s.adapter.seeds.controllable:
        problems.append("the repository does not let seeds be set")
    if seed not in s.contract.seeds.pool(ROLES[phase]):
        problems.append(f"{seed} is not in the {ROLES[phase]} pool")
    is_control = s.standing.status == CandidateStatus.ACCEPTED
    if not is_control and seed not in s.planned_seeds:
        problems.append(f"{seed} is not planned for {phase}")
    for name, run in s.state.runs_of(s.request.candidate).items():
        if run.seed == seed and run.status == RunStatus.FINISHED:
            if run.phase == phase and not is_control:
                problems.append(f"{name} has finished with this seed")
            elif ROLES[run.phase] != ROLES[phase]:
                problems.append(f"{name} used this seed in another role")
    problems += _retry_problems(s)
    return Finding(tuple(problems), value=seed)


def stays_in_scope(s: Situation) -> Finding:
    """G12: parameters and files are those that the contract lets it change."""
    return Finding(_failed(s, set(_SCOPE_CHECKS)))


def _failed(s: Situation, wanted: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"{c.id}: {c.why}" for c in s.checks if c.id in wanted and not c.passed)


def _retry_problems(s: Situation) -> list[str]:
    """A run that failed or was stopped for a reason is not simply tried again with its seed."""
    if s.request.retry_of is None:
        return []
    run = s.state.runs.get(s.request.retry_of)
    if run is None or (run.candidate, run.phase, run.seed) != (
        s.request.candidate,
        s.request.phase,
        s.request.seed,
    ):
        return [f"{s.request.retry_of} is not a run of this candidate, phase and seed"]
    if run.status == RunStatus.LOST or run.killed_by == "preempted":
        return []
    return [f"{s.request.retry_of} is {run.status}; only lost and preempted runs are retried"]


def _broken(invariant: Invariant, s: Situation) -> list[str]:
    match invariant.check:
        case "file_unchanged":
            path, agreed = str(invariant.args.get("path")), invariant.args.get("sha256")
            file = s.tree / path
            same = file.is_file() and file_hash(file) == agreed
            return [] if same else [f"{path} is not what the candidate says it is"]
        case "metric_untouched":
            same = metric_spec_hash(s.folder) == s.contract.metrics.spec_hash
            return [] if same else ["the metric spec is not the agreed one"]
        case "eval_untouched":
            same = current_protocol_hash(s.folder) == s.contract.evaluation.protocol_hash
            return [] if same else ["the evaluation protocol is not the agreed one"]
        case "param_in_range":
            return _out_of_range(invariant, s)


def _out_of_range(invariant: Invariant, s: Situation) -> list[str]:
    name = str(invariant.args.get("param") or invariant.args.get("path"))
    override = s.candidate.change.overrides.get(name)
    if override is None:
        return []
    low, high = invariant.args.get("min"), invariant.args.get("max")
    value = override.to
    if (low is not None and value < low) or (high is not None and value > high):
        return [f"{name}={value} leaves {low} to {high}"]
    return []
