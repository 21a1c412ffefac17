"""The life of a candidate: which steps exist, who may take them, and what must hold before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from telic.storage.journal import JournalEntry
from telic.studies.documents.base import StudyActor
from telic.studies.documents.candidate import CandidateStatus, RunStatus
from telic.studies.documents.contract import PHASES
from telic.studies.errors import GateRefused, StudyError
from telic.studies.state import CandidateState, StudyState

if TYPE_CHECKING:
    from telic.studies.study import Study

S = CandidateStatus
_MAKERS = frozenset({"agent", "human", "engine"})
REJECT_CAUSES = ("guardrail_breach", "falsifier_met", "rollback", "exploit", "phase_rule")
"""grounds to reject on without an audit"""


@dataclass(frozen=True)
class LifecycleStep:
    """What a precondition may look at: the state of things and what the caller brings."""

    state: StudyState
    candidate_id: str
    candidate: CandidateState
    actor: StudyActor
    reason: str
    data: dict[str, Any]

    @property
    def decides_alone(self) -> bool:
        """The contract lets agents and the system accept."""
        return self.state.automation.decide == "auto"


@dataclass(frozen=True)
class Rule:
    """One allowed step: who, under which condition, and the event that records it."""

    actors: frozenset[str]
    event: str
    refuse: Callable[[LifecycleStep], str | None] = lambda step: None
    """returns why not, or None"""


# ---------------------------------------------------------------------------- preconditions


def _validated(step: LifecycleStep) -> str | None:
    checks = step.data.get("checks")
    if not checks or not all(each["passed"] for each in checks):
        return "its checks have not all passed"
    if step.data.get("contract_hash") != step.state.contract_hash:
        return "it was checked against another contract"
    return None if step.data.get("content_hash") else "the checked content has no hash"


def _demoted(step: LifecycleStep) -> str | None:
    return None if step.data.get("changed") else "nothing it was checked against has changed"


def _withdrawn(step: LifecycleStep) -> str | None:
    if not step.reason:
        return "a reason is needed"
    if step.actor.kind == "agent" and step.actor.label != step.candidate.author:
        return f"it belongs to {step.candidate.author}"
    return None


def _launched(step: LifecycleStep) -> str | None:
    run = step.state.runs.get(step.data.get("run", ""))
    if run is None or run.candidate != step.candidate_id or run.status != RunStatus.STARTING:
        return "no launch of it was announced in the ledger"
    return None if run.nonce == step.data.get("nonce") else "the launch was announced by another"


def _completed(step: LifecycleStep) -> str | None:
    runs = step.state.runs_of(step.candidate_id, step.candidate.phase)
    if live := [name for name, run in runs.items() if run.is_live]:
        return f"{', '.join(live)} still runs"
    if not any(run.status == RunStatus.FINISHED for run in runs.values()):
        return "no run of this phase has finished"
    return None


def _with_reason(step: LifecycleStep) -> str | None:
    return None if step.reason else "a reason is needed"


def _advanced(step: LifecycleStep) -> str | None:
    phase = step.data.get("phase")
    if phase not in PHASES:
        return "the phase it goes on with is not named"
    now = step.candidate.phase
    if now is not None and PHASES.index(phase) < PHASES.index(now):
        return f"{phase} comes before {now}"
    if phase == now and not step.data.get("seeds"):
        return f"it is in phase {now} already and no more seeds are named"
    return None


def _accepted(step: LifecycleStep) -> str | None:
    if step.actor.kind != "human" and not step.decides_alone:
        return "the contract leaves accepting to people (automation.decide: ask)"
    if not step.data.get("audit"):
        return "no audit is cited"
    verdict, is_baseline = step.data.get("audit_verdict"), step.candidate.kind == "baseline"
    # A baseline that is measured beside an incumbent has to beat it like anybody else.
    enough = ("valid_improvement", *(("baseline_established",) if is_baseline else ()))
    if verdict not in enough:
        return f"the audit says {verdict}, not {enough[-1]}"
    if step.candidate.phase not in ("promotion", "incumbent_validation"):
        return f"phase {step.candidate.phase} is no ground to accept on"
    return None


def _rejected(step: LifecycleStep) -> str | None:
    data = step.data
    if data.get("audit_verdict") == "no_improvement" or data.get("cause") in REJECT_CAUSES:
        return None
    return f"neither an audit nor a cause ({', '.join(REJECT_CAUSES)}) speaks against it"


def _invalid(step: LifecycleStep) -> str | None:
    if step.data.get("audit_verdict") == "invalid":
        return None
    return "only an audit that says invalid sends a completed candidate back"


def _more_seeds(step: LifecycleStep) -> str | None:
    if not step.data.get("seeds"):
        return "no new seeds are named"
    if step.data.get("content_hash") != step.candidate.content_hash:
        return "it has changed since it was measured"
    return None


def _revised(step: LifecycleStep) -> str | None:
    most = step.state.automation.max_debug_attempts
    if step.candidate.debug_attempts >= most:
        return f"{most} attempts to mend it are all the contract allows"
    if step.data.get("revision", 0) <= step.candidate.revision:
        return "a new revision is needed"
    return None


def _given_up(step: LifecycleStep) -> str | None:
    most = step.state.automation.max_debug_attempts
    if step.data.get("cause") in REJECT_CAUSES:
        return None
    if step.actor.kind != "human" and step.candidate.debug_attempts < most:
        return f"only {step.candidate.debug_attempts} of {most} attempts to mend it were made"
    return None


def _reverted(step: LifecycleStep) -> str | None:
    if step.actor.kind == "system" and step.data.get("cause") != "incumbent_validation":
        return "without a failed validation of the incumbent only a person may revert"
    if step.data.get("incumbent") or step.data.get("trusts_nobody"):
        return None
    return "the incumbent that takes over is not named"


def _rule(
    actors: str, event: str, refuse: Callable[[LifecycleStep], str | None] = Rule.refuse
) -> Rule:
    return Rule(frozenset(actors.split()), event, refuse)


TRANSITIONS: dict[tuple[CandidateStatus, CandidateStatus], Rule] = {
    (S.DRAFT, S.VALIDATED): _rule("system", "candidate.validated", _validated),
    (S.VALIDATED, S.DRAFT): _rule("system", "candidate.demoted", _demoted),
    (S.DRAFT, S.REJECTED): _rule("agent human", "candidate.withdrawn", _withdrawn),
    (S.VALIDATED, S.REJECTED): _rule("agent human", "candidate.withdrawn", _withdrawn),
    (S.VALIDATED, S.LAUNCHED): _rule("runner", "launch.started", _launched),
    (S.LAUNCHED, S.COMPLETED): _rule("runner", "candidate.completed", _completed),
    (S.LAUNCHED, S.DEBUG): _rule("runner system", "candidate.debug", _with_reason),
    (S.COMPLETED, S.VALIDATED): _rule("system", "candidate.advanced", _advanced),
    (S.COMPLETED, S.ACCEPTED): _rule("human agent system", "decision.recorded", _accepted),
    (S.COMPLETED, S.REJECTED): _rule("agent human system", "decision.recorded", _rejected),
    (S.COMPLETED, S.INCONCLUSIVE): _rule("agent human system", "decision.recorded", _with_reason),
    (S.COMPLETED, S.DEBUG): _rule("system", "candidate.debug", _invalid),
    (S.INCONCLUSIVE, S.VALIDATED): _rule("agent human", "candidate.advanced", _more_seeds),
    (S.DEBUG, S.DRAFT): _rule("agent engine", "candidate.revised", _revised),
    (S.DEBUG, S.REJECTED): _rule("agent human system", "decision.recorded", _given_up),
    (S.ACCEPTED, S.REVERTED): _rule("human system", "decision.recorded", _reverted),
}


def create(
    study: Study, candidate_id: str, actor: StudyActor, data: dict[str, Any]
) -> JournalEntry:
    """Enter a new candidate as a draft; an id is never used twice."""
    with study.locked():
        state = study.state
        if actor.kind not in _MAKERS:
            raise _refused(candidate_id, "(new)", S.DRAFT, f"{actor.kind} may not do that")
        if candidate_id in state.candidates:
            raise _refused(candidate_id, "(new)", S.DRAFT, "the id was used before")
        if state.study_status != "open":
            raise _refused(candidate_id, "(new)", S.DRAFT, f"the study is {state.study_status}")
        return study.append("candidate.created", candidate_id, {**data, "to": S.DRAFT}, actor)


def transition(
    study: Study,
    candidate_id: str,
    to: CandidateStatus | str,
    actor: StudyActor,
    reason: str = "",
    data: dict[str, Any] | None = None,
) -> JournalEntry:
    """Move a candidate; raises GateRefused E_TRANSITION and changes no file when it may not.

    `data` is what the step rests on and is kept in the event. Looked at, by step:
    validated: checks, content_hash, contract_hash; demoted: changed; launched: run, nonce;
    advanced: phase or seeds; accepted: audit, audit_verdict; rejected: audit_verdict or cause;
    debug after an audit: audit_verdict; revised: revision; reverted: incumbent.
    """
    to, brought = CandidateStatus(to), dict(data or {})
    with study.locked():
        rule = require(study, candidate_id, to, actor, reason, brought)
        before = study.state.candidates[candidate_id].status
        facts = {**brought, "from": before, "to": to, "reason": reason}
        return study.append(rule.event, candidate_id, facts, actor)


def require(
    study: Study,
    candidate_id: str,
    to: CandidateStatus,
    actor: StudyActor,
    reason: str,
    data: dict[str, Any],
) -> Rule:
    """Return the rule by which a candidate may move; raises GateRefused E_TRANSITION."""
    held = study.state.candidates.get(candidate_id)
    if held is None:
        raise StudyError("E_NO_CANDIDATE", f"{study.name} has no candidate {candidate_id}.")
    rule = TRANSITIONS.get((held.status, to))
    if rule is None:
        raise _refused(candidate_id, held.status, to, "there is no such step")
    if actor.kind not in rule.actors:
        who = f"{actor.kind} may not do that; {' or '.join(sorted(rule.actors))} may"
        raise _refused(candidate_id, held.status, to, who)
    if why := rule.refuse(LifecycleStep(study.state, candidate_id, held, actor, reason, data)):
        raise _refused(candidate_id, held.status, to, why)
    return rule


def _refused(candidate_id: str, before: str, to: str, why: str) -> GateRefused:
    return GateRefused("E_TRANSITION", f"{candidate_id} cannot go from {before} to {to}: {why}.")
