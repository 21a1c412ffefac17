"""Record decisions on candidates with cited evidence. Only decisions change the incumbent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from telic.studies.candidates import refused, require_step, transition
from telic.studies.canonical import next_number
from telic.studies.documents.base import SYSTEM, DocumentPart, StudyActor
from telic.studies.documents.candidate import CandidateStatus, RunStatus, StudyVerdict
from telic.studies.errors import BrokenIntegrity, GateRefused, StudyError
from telic.studies.evidence.audit import Audit
from telic.studies.rules.results import unresolved_exploit
from telic.studies.state import Incumbent
from telic.studies.study import Study

NO_INCUMBENT = "nobody"  # language: quoted
"""value of --to for a revert without a successor, after which a new baseline is measured"""
_TO: dict[StudyVerdict, CandidateStatus] = {
    "accept": CandidateStatus.ACCEPTED,
    "reject": CandidateStatus.REJECTED,
    "inconclusive": CandidateStatus.INCONCLUSIVE,
    "debug": CandidateStatus.DEBUG,
    "revert": CandidateStatus.REVERTED,
}
_CAUSES = ("guardrail_breach", "falsifier_met", "rollback", "exploit", "phase_rule")
"""causes that justify a rejection without an audit"""


class DecisionOutcome(DocumentPart):
    """Result of a decision, which is either recorded or proposed to a person."""

    candidate: str
    verdict: StudyVerdict | Literal["withdraw", "more-seeds"]
    recorded: bool
    decision: str | None = None
    why: str = ""
    incumbent: str | None = None
    """the incumbent after the decision"""


def decide_candidate(
    study: Study,
    candidate: str,
    verdict: StudyVerdict,
    actor: StudyActor,
    why: str,
    *,
    evidence: Sequence[str] = (),
    audit: str | None = None,
    cause: str | None = None,
    to: str | None = None,
) -> DecisionOutcome:
    """Record a decision, or a proposal if the decision requires a person.

    Only people accept candidates, unless the contract permits otherwise, and only people keep an
    incumbent whose gain was not confirmed. A revert restores the previous incumbent, or the
    candidate `to`. If `to` is NO_INCUMBENT, a new baseline must be measured. Raises GateRefused
    E_TRANSITION if the lifecycle or the cited evidence does not allow it, BrokenIntegrity if cited
    evidence was altered.
    """
    if not why.strip():
        raise StudyError("E_REASON", "A decision requires a reason.", hint="Add --because TEXT.")
    study.ledger.require_intact()
    # A debug verdict follows from an invalid audit, so the system is its actor.
    mover = SYSTEM if verdict == "debug" else actor
    with study.locked():
        if verdict != "keep":
            require_step(study, candidate, _TO[verdict], mover)
        elif study.incumbent is None or study.incumbent.candidate != candidate:
            raise GateRefused("E_NO_INCUMBENT", f"{candidate} is not the incumbent.")
        names, cited = _cite(study, candidate, evidence, audit)
        if problem := _why_unfounded(study, candidate, verdict, actor, cited, cause):
            raise refused(candidate, study.candidate_state(candidate).status, _TO[verdict], problem)
        facts: dict[str, Any] = {
            "evidence": names,
            "audit": cited and cited.id,
            "audit_verdict": cited and cited.verdict,
            "cause": cause,
            "verdict": verdict,
        }
        if verdict == "revert":
            facts |= _successor(study, candidate, to)
        elif verdict == "accept" and cited is not None:
            facts |= _trusted(study, candidate, cited)
        is_auto = study.state.automation.decide == "auto"
        if actor.kind != "human" and verdict in ("accept", "keep") and not is_auto:
            study.append("decision.proposed", candidate, {**facts, "reason": why}, actor)
            note = f"Only a person may {verdict}: run the same command in a terminal."
            return DecisionOutcome(candidate=candidate, verdict=verdict, recorded=False, why=note)
        used = (str(entry.data.get("decision")) for entry in study.events)
        decision = f"d-{next_number(used):04d}"
        facts["decision"] = decision
        if verdict == "keep":  # status unchanged
            study.append("decision.recorded", candidate, {**facts, "reason": why}, actor)
        else:
            transition(study, candidate, _TO[verdict], mover, why, facts)
        trusted = study.incumbent.candidate if study.incumbent else None
    return DecisionOutcome(
        candidate=candidate, verdict=verdict, recorded=True, decision=decision, incumbent=trusted
    )


def _why_unfounded(
    study: Study,
    candidate: str,
    verdict: StudyVerdict,
    actor: StudyActor,
    audit: Audit | None,
    cause: str | None,
) -> str | None:
    """Return the reason why a verdict is not justified, or None if it is justified."""
    held, audited = study.candidate_state(candidate), audit.verdict if audit else None
    match verdict:
        case "accept":
            exploit = unresolved_exploit(study, candidate)
            if exploit is not None and actor.kind != "human":
                raise GateRefused("E_EXPLOIT", f"{candidate} cannot be accepted: {exploit}.")
            # A baseline measured against an incumbent must also beat it.
            enough = ["valid_improvement"]
            enough += ["baseline_established"] if held.kind == "baseline" else []
            if audited is None:
                return "no audit is cited"
            if audited not in enough:
                return f"the audit found {audited}, not {enough[-1]}"
            is_claim = held.phase in ("promotion", "incumbent_validation")
            return None if is_claim else f"a gain cannot be proven in phase {held.phase}"
        case "reject":
            most = study.state.automation.max_debug_attempts
            if cause in _CAUSES or audited == "no_improvement":
                return None
            if held.status == CandidateStatus.COMPLETED:
                return f"it requires an audit or one of the causes {', '.join(_CAUSES)}"
            if actor.kind != "human" and held.debug_attempts < most:
                return f"only {held.debug_attempts} of {most} repair attempts were made"
            return None
        case "debug" if audited != "invalid":
            return "a completed candidate can only be returned after an invalid audit"
        case _:
            return None


def current_audits(study: Study, candidate: str) -> list[str]:
    """Return the audits since the candidate's last status change, oldest first."""
    since, entries = study.candidate_state(candidate).since_seq, study.state.evidence
    names = study.evidence_names("audit", candidate=candidate)
    return [name for name in names if entries[name].seq > since]


def _cite(
    study: Study, candidate: str, evidence: Sequence[str], audit: str | None
) -> tuple[list[str], Audit | None]:
    """Return the evidence and the audit that a decision cites, after verifying their integrity.

    By default, the newest audit is cited, or else the newest evidence. Audits before the
    candidate's last run are ignored.
    """
    audits = current_audits(study, candidate)
    if audit is not None:
        audits = [name for name in audits if study.sheet(name).payload.get("id") == audit]
        if not audits:
            raise StudyError("E_NO_AUDIT", f"{candidate} has no current audit {audit}.")
    own = [name for name, each in study.state.evidence.items() if each.candidate == candidate]
    names = list(dict.fromkeys([*evidence, *audits[-1:]])) or own[-1:]
    names = names or list(study.candidate(candidate).evidence_refs)
    runs = study.state.runs_of(candidate).values()
    if not names and any(run.status == RunStatus.FINISHED for run in runs):
        raise GateRefused(
            "E_NO_EVIDENCE",
            f"A decision about {candidate} requires evidence, but there is none.",
            hint="Measure its runs first: telic study audit RUN",
        )
    if wrong := study.altered(names):
        raise BrokenIntegrity("E_EVIDENCE", f"{', '.join(wrong)} is missing or was modified.")
    cited = Audit.parse(study.sheet(audits[-1]).payload, audits[-1]) if audits else None
    return names, cited


def _trusted(study: Study, candidate: str, audit: Audit) -> dict[str, Any]:
    """Return the incumbent after an accepted audit, including the noise floor of a baseline."""
    if audit.protocol_hash != study.state.protocol_hash:
        raise GateRefused(
            "E_PROTOCOL",
            f"The audit {audit.id} was made under a protocol that is no longer current.",
        )
    arm = audit.arms["x"]
    incumbent = Incumbent(
        candidate=candidate, protocol_hash=audit.protocol_hash, iqm=arm.iqm, ci=arm.ci, n=arm.n
    )
    is_baseline = audit.verdict == "baseline_established"
    return {
        "incumbent": incumbent.as_data(),
        "noise_floor": audit.stats.sigma_0 if is_baseline else None,
    }


def _successor(study: Study, candidate: str, to: str | None) -> dict[str, Any]:
    """Return the incumbent after a revert."""
    facts: dict[str, Any] = {"phase": study.candidate_state(candidate).phase}
    if to == NO_INCUMBENT:
        return {**facts, "trusts_nobody": True}
    follower = study.incumbent
    if follower is None or follower.candidate == candidate:
        follower = study.state.previous_incumbent(candidate, to)
        if follower is None and to is not None:
            raise StudyError("E_NO_INCUMBENT", f"{to} was never an incumbent under this protocol.")
    if follower is None:
        why = "the next incumbent is not specified"
        raise refused(candidate, "accepted", CandidateStatus.REVERTED, why)
    return {**facts, "incumbent": follower.as_data()}
