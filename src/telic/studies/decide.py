"""Decide about a candidate, citing evidence; only this moves the incumbent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from telic.studies import lifecycle
from telic.studies.canonical import next_number
from telic.studies.documents.base import SYSTEM, DocumentPart, StudyActor
from telic.studies.documents.candidate import CandidateStatus, RunStatus, Verdict
from telic.studies.errors import BrokenIntegrity, GateRefused, StudyError
from telic.studies.evidence.audit import Audit
from telic.studies.evidence.store import add_evidence
from telic.studies.rules.results import judge_conditions, standing_exploit
from telic.studies.state import Incumbent
from telic.studies.study import Study

NOBODY = "nobody"
"""whom a study trusts after its only incumbent was reverted"""
_TO: dict[Verdict, CandidateStatus] = {
    "accept": CandidateStatus.ACCEPTED,
    "reject": CandidateStatus.REJECTED,
    "inconclusive": CandidateStatus.INCONCLUSIVE,
    "debug": CandidateStatus.DEBUG,
    "revert": CandidateStatus.REVERTED,
}


class DecisionOutcome(DocumentPart):
    """What became of a decision: recorded, or proposed to a person."""

    candidate: str
    verdict: Verdict | Literal["withdraw", "more-seeds"]
    recorded: bool
    decision: str | None = None
    why: str = ""
    incumbent: str | None = None
    """whom the study trusts now"""


def decide(
    study: Study,
    candidate: str,
    verdict: Verdict,
    actor: StudyActor,
    why: str,
    *,
    evidence: Sequence[str] = (),
    audit: str | None = None,
    cause: str | None = None,
    to: str | None = None,
) -> DecisionOutcome:
    """Record a decision, or a proposal where it is left to people.

    People accept unless the contract says otherwise; only people keep an incumbent whose gain did
    not show again. After a revert the incumbent before, or `to`, is trusted again; with `to` NOBODY
    there is none, and a baseline has to be measured. Raises GateRefused E_TRANSITION when the
    lifecycle does not allow it, BrokenIntegrity when cited evidence was altered.
    """
    if not why.strip():
        raise StudyError("E_REASON", "A decision needs a reason.", hint="Add --because TEXT.")
    study.ledger.require_intact()
    with study.locked():
        names, cited = _cite(study, candidate, evidence, audit)
        facts: dict[str, Any] = {
            "evidence": names,
            "audit": cited and cited.id,
            "audit_verdict": cited and cited.verdict,
            "cause": cause,
            "verdict": verdict,
        }
        is_left_to_people = actor.kind != "human" and (
            verdict == "keep" or (verdict == "accept" and study.state.automation.decide != "auto")
        )
        if verdict == "keep":
            if study.incumbent is None or study.incumbent.candidate != candidate:
                raise GateRefused("E_NO_INCUMBENT", f"{candidate} is not the incumbent.")
        elif verdict == "revert":
            facts |= _successor(study, candidate, to)
        else:
            _require_sound(study, candidate, verdict, actor, cause)
            facts |= _trusted(study, candidate, cited) if verdict == "accept" and cited else {}
        if is_left_to_people:
            study.append("decision.proposed", candidate, {**facts, "reason": why}, actor)
            said = f"To {verdict} is left to people: a person runs the same command in a terminal."
            return DecisionOutcome(candidate=candidate, verdict=verdict, recorded=False, why=said)
        return _record(study, candidate, verdict, actor, why, facts)


def _record(
    study: Study,
    candidate: str,
    verdict: Verdict,
    actor: StudyActor,
    why: str,
    facts: dict[str, Any],
) -> DecisionOutcome:
    used = (str(entry.data.get("decision")) for entry in study.events)
    decision = f"d-{next_number(used):04d}"
    before = after = study.incumbent.candidate if study.incumbent else None
    if verdict == "keep":  # its status stays what it is
        kept = {**facts, "decision": decision, "reason": why}
        study.append("decision.recorded", candidate, kept, actor)
    else:
        # whoever notices it: that an audit says invalid is the system's finding
        mover, entered = SYSTEM if verdict == "debug" else actor, {**facts, "decision": decision}
        lifecycle.transition(study, candidate, _TO[verdict], mover, why, entered)
        trusted: dict[str, Any] = facts.get("incumbent") or {}
        after = trusted.get("candidate", before)
        if facts.get("trusts_nobody") and before == candidate:
            after = None
        if after != before:
            moved = {**trusted, "from": before, "to": after}
            study.append("incumbent.changed", after, moved, actor)
    return DecisionOutcome(
        candidate=candidate, verdict=verdict, recorded=True, decision=decision, incumbent=after
    )


def standing_audits(study: Study, candidate: str) -> list[str]:
    """Return the evidence of audits made since the candidate got its status, the oldest first."""
    since, entries = study.candidate_state(candidate).since_seq, study.state.evidence
    names = study.evidence_names("audit", candidate=candidate)
    return [name for name in names if entries[name].seq > since]


def _cite(
    study: Study, candidate: str, evidence: Sequence[str], audit: str | None
) -> tuple[list[str], Audit | None]:
    """Return the evidence a decision cites and its audit; checks that none of it was altered.

    Without names it is the newest audit, else the newest evidence. An audit from before the
    candidate's last run does not count.
    """
    audits = standing_audits(study, candidate)
    if audit is not None:
        audits = [name for name in audits if study.sheet(name).payload.get("id") == audit]
        if not audits:
            raise StudyError(
                "E_NO_AUDIT", f"There is no audit {audit} of {candidate} as it stands now."
            )
    own = [name for name, each in study.state.evidence.items() if each.candidate == candidate]
    names = list(dict.fromkeys([*evidence, *audits[-1:]])) or own[-1:]
    names = names or list(study.candidate(candidate).evidence_refs)
    if not names:
        names = [_ending(study, candidate)]
    if wrong := study.altered(names):
        raise BrokenIntegrity(
            "E_EVIDENCE", f"{', '.join(wrong)} is missing or is not what was recorded."
        )
    cited = Audit.parse(study.sheet(audits[-1]).payload, audits[-1]) if audits else None
    return names, cited


def _ending(study: Study, candidate: str) -> str:
    """Enter how a candidate ended of which nothing was measured; returns the evidence."""
    held, runs = study.candidate_state(candidate), study.state.runs_of(candidate)
    if any(run.status == RunStatus.FINISHED for run in runs.values()):
        raise GateRefused(
            "E_NO_EVIDENCE",
            f"A decision about {candidate} needs evidence, and there is none.",
            hint="Measure its runs first: telic study audit RUN",
        )
    facts = {
        "status": held.status,
        "reason": held.reason,
        "revision": held.revision,
        "runs": {name: {"status": run.status, "why": run.why} for name, run in runs.items()},
    }
    summary = held.reason or str(held.status)
    return add_evidence(
        study,
        "ending",
        facts,
        SYSTEM,
        candidate=candidate,
        producer="telic.decide",
        summary=summary,
    ).id


def _trusted(study: Study, candidate: str, audit: Audit) -> dict[str, Any]:
    """Return the incumbent that an accepted audit makes, and the noise that a baseline shows."""
    if audit.protocol_hash != study.state.protocol_hash:
        raise GateRefused(
            "E_PROTOCOL", f"{audit.id} was made under another protocol than the study has now."
        )
    arm = audit.arms["x"]
    incumbent = Incumbent(
        candidate=candidate, protocol_hash=audit.protocol_hash, iqm=arm.iqm, ci=arm.ci, n=arm.n
    )
    is_baseline = audit.verdict == "baseline_established"
    noise = audit.stats.sigma_0 if is_baseline else None
    return {"incumbent": incumbent.as_data(), "noise_floor": noise}


def _successor(study: Study, candidate: str, to: str | None) -> dict[str, Any]:
    """Return whom the study trusts after a revert."""
    facts: dict[str, Any] = {"phase": study.candidate_state(candidate).phase}
    if to == NOBODY:
        return {**facts, "trusts_nobody": True}
    follower = study.incumbent
    if follower is None or follower.candidate == candidate:
        follower = study.state.previous_incumbent(candidate, to)
        if to is not None and follower is None:
            raise StudyError(
                "E_NO_INCUMBENT", f"{to} was never trusted under this protocol, or is not now."
            )
    return {**facts, "incumbent": follower.as_data()} if follower else facts


def _require_sound(
    study: Study, candidate: str, verdict: Verdict, actor: StudyActor, cause: str | None
) -> None:
    """Refuse to accept an exploit without a person, and to cite a condition that is not met."""
    exploit = standing_exploit(study, candidate) if verdict == "accept" else None
    if exploit is not None and actor.kind != "human":
        raise GateRefused("E_EXPLOIT", f"{candidate} is not accepted: {exploit}.")
    said = [each for each in judge_conditions(study, candidate) if each.cause == cause]
    if verdict == "reject" and any(not each.is_met for each in said):
        raise GateRefused("E_CAUSE", f"{candidate} is not rejected for that: {said[0].why}.")
