"""Decide about a candidate, citing evidence; only this moves the incumbent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from telic.studies import lifecycle
from telic.studies.candidate_files import known
from telic.studies.citing import cite
from telic.studies.clock import utc_now
from telic.studies.disproving import judge_conditions
from telic.studies.documents.base import SYSTEM, Actor, Part
from telic.studies.documents.candidate import CandidateStatus
from telic.studies.documents.runs import Decision, Verdict
from telic.studies.errors import GateRefused, StudyError
from telic.studies.evidence.claims import Audit
from telic.studies.exploits import standing_exploit
from telic.studies.immutable import write_once
from telic.studies.ledger import Ledger
from telic.studies.lifecycle import Step
from telic.studies.names import decision_id, next_number
from telic.studies.state import Incumbent, StudyState

_TO: dict[Verdict, CandidateStatus] = {
    "accept": CandidateStatus.ACCEPTED,
    "reject": CandidateStatus.REJECTED,
    "inconclusive": CandidateStatus.INCONCLUSIVE,
    "debug": CandidateStatus.DEBUG,
    "revert": CandidateStatus.REVERTED,
}


class Decided(Part):
    """What became of a decision: recorded, or proposed to a person."""

    candidate: str
    verdict: Verdict
    recorded: bool
    decision: str | None = None
    why: str = ""
    incumbent: str | None = None
    """whom the study trusts now"""


def decide(
    ledger: Ledger,
    candidate: str,
    verdict: Verdict,
    actor: Actor,
    rationale: str,
    *,
    evidence: Sequence[str] = (),
    audit: str | None = None,
    cause: str | None = None,
) -> Decided:
    """Record a decision, or a proposal where it is a person's.

    People accept unless the contract says otherwise; only people keep an incumbent whose gain did
    not show again. Without evidence the newest audit of the candidate is cited. Raises GateRefused
    E_TRANSITION when the lifecycle does not allow it, BrokenIntegrity when what is cited was
    altered.
    """
    if verdict == "revert":
        raise StudyError("E_VERDICT", f'"{verdict}" is not decided here.', hint="See: revert.")
    _require_words(rationale)
    ledger.require_intact()
    with ledger.locked():
        known(ledger, candidate)
        cited = cite(ledger, candidate, evidence, audit, cause)
        state = ledger.state()
        facts = cited.facts()
        if verdict == "keep":
            return _keep(ledger, candidate, actor, rationale, facts)
        _require_sound(ledger, candidate, verdict, actor, cause)
        if verdict == "accept" and cited.audit is not None:
            facts |= _trusted(state, candidate, cited.audit)
        if verdict == "accept" and actor.kind != "human" and state.automation.decide != "auto":
            return _propose(ledger, candidate, verdict, actor, rationale, facts)
        return _record(ledger, candidate, verdict, actor, rationale, facts)


def revert(
    ledger: Ledger,
    candidate: str,
    actor: Actor,
    rationale: str,
    *,
    to: str | None = None,
    evidence: Sequence[str] = (),
    cause: str | None = None,
) -> Decided:
    """Take back an accepted candidate; the one before it, or `to`, is trusted again."""
    _require_words(rationale)
    ledger.require_intact()
    with ledger.locked():
        held, state = known(ledger, candidate), ledger.state()
        facts = cite(ledger, candidate, evidence, None, cause).facts()
        follower = state.incumbent
        if follower is None or follower.candidate == candidate:
            follower = previous_incumbent(state, candidate, to)
        if follower is not None:
            facts["incumbent"] = follower.as_data()
        facts["phase"] = held.phase
        return _record(ledger, candidate, "revert", actor, rationale, facts)


def previous_incumbent(
    state: StudyState, candidate: str, to: str | None = None
) -> Incumbent | None:
    """Return whom the study trusted before under this protocol and may trust again."""
    found = [
        each.incumbent
        for each in state.decisions.values()
        if each.incumbent is not None
        and each.incumbent.candidate != candidate
        and each.incumbent.protocol_hash in (None, state.protocol_hash)
        and state.candidates[each.incumbent.candidate].status == CandidateStatus.ACCEPTED
    ]
    if to is not None:
        found = [each for each in found if each.candidate == to]
        if not found:
            raise StudyError(
                "E_NO_INCUMBENT", f"{to} was never trusted under this protocol, or is not now."
            )
    return found[-1] if found else None


def _trusted(state: StudyState, candidate: str, audit: Audit) -> dict[str, Any]:
    """Return the incumbent that an accepted audit makes, and the noise that a baseline shows."""
    if audit.protocol_hash != state.protocol_hash:
        raise GateRefused(
            "E_PROTOCOL", f"{audit.id} was made under another protocol than the study has now."
        )
    arm = audit.arms["x"]
    made = Incumbent(
        candidate=candidate, protocol_hash=audit.protocol_hash, iqm=arm.iqm, ci=arm.ci, n=arm.n
    )
    is_baseline = audit.verdict == "baseline_established"
    return {
        "incumbent": made.as_data(),
        "noise_floor": audit.stats.sigma_0 if is_baseline else None,
    }


def _propose(
    ledger: Ledger, candidate: str, verdict: Verdict, actor: Actor, why: str, facts: dict[str, Any]
) -> Decided:
    ledger.append(
        "decision.proposed", candidate, {**facts, "verdict": verdict, "reason": why}, actor
    )
    said = f"To {verdict} is left to people: a person runs the same command in a terminal."
    return Decided(candidate=candidate, verdict=verdict, recorded=False, why=said)


def _record(
    ledger: Ledger, candidate: str, verdict: Verdict, actor: Actor, why: str, facts: dict[str, Any]
) -> Decided:
    """Check first, then write the file, then commit: a refusal leaves every file as it was."""
    state = ledger.state()
    held, to = state.candidates[candidate], _TO[verdict]
    # Whoever notices it: that an audit says invalid is the system's finding.
    mover = SYSTEM if verdict == "debug" else actor
    if refusal := lifecycle.why_not(Step(state, candidate, held, mover, why, facts), to):
        raise GateRefused(
            "E_TRANSITION", f"{candidate} cannot go from {held.status} to {to}: {refusal}."
        )
    made = _write(ledger, candidate, verdict, actor, why, facts)
    lifecycle.transition(ledger.folder, candidate, to, mover, why, _entered(made, facts))
    before, after = made.incumbent_before, made.incumbent_after
    if after != before:
        moved = {**facts["incumbent"], "from": before, "to": after}
        ledger.append("incumbent.changed", after, moved, actor)
    return Decided(
        candidate=candidate, verdict=verdict, recorded=True, decision=made.id, incumbent=after
    )


def _keep(ledger: Ledger, candidate: str, actor: Actor, why: str, facts: dict[str, Any]) -> Decided:
    """Record that a person goes on trusting the incumbent; its status stays what it is."""
    held = ledger.state().incumbent
    if held is None or held.candidate != candidate:
        raise GateRefused("E_NO_INCUMBENT", f"{candidate} is not the incumbent: nothing to keep.")
    if actor.kind != "human":
        return _propose(ledger, candidate, "keep", actor, why, facts)
    made = _write(ledger, candidate, "keep", actor, why, facts)
    ledger.append("decision.recorded", candidate, {**_entered(made, facts), "reason": why}, actor)
    return Decided(
        candidate=candidate, verdict="keep", recorded=True, decision=made.id, incumbent=candidate
    )


def _write(
    ledger: Ledger, candidate: str, verdict: Verdict, actor: Actor, why: str, facts: dict[str, Any]
) -> Decision:
    """Write the decision's file; the event that follows makes it count."""
    folder, state = ledger.folder, ledger.state()
    there = [each.stem for each in folder.decisions.glob("d-*.json")]
    name = decision_id(next_number([*state.decisions, *there]))
    before = state.incumbent.candidate if state.incumbent else None
    made = Decision(
        id=name,
        created_at=utc_now(),
        created_by=actor,
        candidate=candidate,
        verdict=verdict,
        evidence=tuple(facts["evidence"]),
        audit=facts["audit"],
        actor=actor,
        rationale=why,
        incumbent_before=before,
        incumbent_after=facts["incumbent"]["candidate"] if facts.get("incumbent") else before,
        at=utc_now(),
    )
    made = made.model_copy(update={"content_hash": made.compute_hash()})
    write_once(folder.decision_file(name), made.as_data())
    return made


def _entered(made: Decision, facts: dict[str, Any]) -> dict[str, Any]:
    """Return what the ledger keeps of a decision."""
    about = {"decision": made.id, "verdict": made.verdict, "decision_hash": made.content_hash}
    return {**facts, **about}


def _require_sound(
    ledger: Ledger, candidate: str, verdict: Verdict, actor: Actor, cause: str | None
) -> None:
    """Refuse to accept an exploit without a person, and to cite a falsifier that is not met."""
    exploit = standing_exploit(ledger, candidate) if verdict == "accept" else None
    if exploit is not None and actor.kind != "human":
        raise GateRefused("E_EXPLOIT", f"{candidate} is not accepted: {exploit}.")
    said = [each for each in judge_conditions(ledger, candidate) if each.cause == cause]
    if verdict == "reject" and any(not each.is_met for each in said):
        raise GateRefused("E_CAUSE", f"{candidate} is not rejected for that: {said[0].why}.")


def _require_words(rationale: str) -> None:
    if not rationale.strip():
        raise StudyError("E_REASON", "A decision needs a reason.", hint="Add --because TEXT.")
