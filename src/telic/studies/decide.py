"""Decide about a candidate, citing evidence; only this moves the incumbent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from telic.studies import lifecycle
from telic.studies.canonical import next_number
from telic.studies.documents.base import SYSTEM, DocumentPart, StudyActor
from telic.studies.documents.candidate import (
    CandidateStatus,
    Evidence,
    RunStatus,
    Verdict,
)
from telic.studies.errors import BrokenIntegrity, GateRefused, StudyError
from telic.studies.evidence.claims import Audit
from telic.studies.evidence.store import add_evidence
from telic.studies.rules.results import judge_conditions, standing_exploit
from telic.studies.state import Incumbent, RunState, StudyState
from telic.studies.study import Study

_TO: dict[Verdict, CandidateStatus] = {
    "accept": CandidateStatus.ACCEPTED,
    "reject": CandidateStatus.REJECTED,
    "inconclusive": CandidateStatus.INCONCLUSIVE,
    "debug": CandidateStatus.DEBUG,
    "revert": CandidateStatus.REVERTED,
}


NOBODY = "nobody"
"""whom a study trusts after its only incumbent was taken back"""


class DecisionOutcome(DocumentPart):
    """What became of a decision: recorded, or proposed to a person."""

    candidate: str
    verdict: Verdict | Literal["withdraw", "more-seeds"]
    recorded: bool
    decision: str | None = None
    why: str = ""
    incumbent: str | None = None
    """whom the study trusts now"""


class Grounds(DocumentPart):
    """What a decision rests on."""

    evidence: tuple[str, ...]
    audit: Audit | None = None
    cause: str | None = None
    """one of REJECT_CAUSES: why to reject without an audit"""

    def facts(self) -> dict[str, Any]:
        """Return what the ledger keeps of it."""
        audit = self.audit
        return {
            "evidence": list(self.evidence),
            "audit": None if audit is None else audit.id,
            "audit_verdict": None if audit is None else audit.verdict,
            "cause": self.cause,
        }


def decide(
    study: Study,
    candidate: str,
    verdict: Verdict,
    actor: StudyActor,
    rationale: str,
    *,
    evidence: Sequence[str] = (),
    audit: str | None = None,
    cause: str | None = None,
) -> DecisionOutcome:
    """Record a decision, or a proposal where it is a person's.

    People accept unless the contract says otherwise; only people keep an incumbent whose gain did
    not show again. Without evidence the newest audit of the candidate is cited. Raises GateRefused
    E_TRANSITION when the lifecycle does not allow it, BrokenIntegrity when what is cited was
    altered.
    """
    if verdict == "revert":
        raise StudyError("E_VERDICT", f'"{verdict}" is not decided here.', hint="See: revert.")
    _require_words(rationale)
    study.require_intact()
    with study.locked():
        grounds = cite(study, candidate, evidence, audit, cause)
        facts = grounds.facts()
        ruling = _Ruling(study, candidate, verdict, actor, rationale, facts)
        if verdict == "keep":
            return ruling.keep()
        _require_sound(study, candidate, verdict, actor, cause)
        if verdict == "accept" and grounds.audit is not None:
            facts |= _trusted(study, candidate, grounds.audit)
        decides_alone = study.state.automation.decide == "auto"
        is_left_to_people = verdict == "accept" and actor.kind != "human" and not decides_alone
        return ruling.propose() if is_left_to_people else ruling.record()


def revert(
    study: Study,
    candidate: str,
    actor: StudyActor,
    rationale: str,
    *,
    to: str | None = None,
    evidence: Sequence[str] = (),
    cause: str | None = None,
) -> DecisionOutcome:
    """Take back an accepted candidate; the one before it, or `to`, is trusted again.

    With `to` nobody there is no incumbent after that, and a baseline has to be measured anew.
    """
    _require_words(rationale)
    study.require_intact()
    with study.locked():
        facts = cite(study, candidate, evidence, None, cause).facts()
        follower = study.incumbent
        if to == NOBODY:
            follower = None
        elif follower is None or follower.candidate == candidate:
            follower = previous_incumbent(study.state, candidate, to)
        if to == NOBODY:
            facts["trusts_nobody"] = True
        elif follower is not None:
            facts["incumbent"] = follower.as_data()
        facts["phase"] = study.candidate_state(candidate).phase
        return _Ruling(study, candidate, "revert", actor, rationale, facts).record()


def previous_incumbent(
    state: StudyState, candidate: str, to: str | None = None
) -> Incumbent | None:
    """Return whom the study trusted before under this protocol and may trust again."""
    trusted = [
        each.incumbent
        for each in state.decisions.values()
        if each.incumbent is not None
        and each.incumbent.candidate != candidate
        and each.incumbent.protocol_hash in (None, state.protocol_hash)
        and state.candidates[each.incumbent.candidate].status == CandidateStatus.ACCEPTED
    ]
    if to is not None:
        trusted = [each for each in trusted if each.candidate == to]
        if not trusted:
            raise StudyError(
                "E_NO_INCUMBENT", f"{to} was never trusted under this protocol, or is not now."
            )
    return trusted[-1] if trusted else None


# ---------------------------------------------------------------------------- what it rests on


def cite(
    study: Study, candidate: str, evidence: Sequence[str], audit: str | None, cause: str | None
) -> Grounds:
    """Collect what a decision rests on and check that it is what the ledger recorded.

    Without names the newest audit, or else the newest evidence, is cited. An audit from before the
    candidate's last run counts for nothing.
    """
    audits = standing_audits(study, candidate)
    if audit is not None:
        audits = [name for name in audits if study.sheet(name).payload.get("id") == audit]
        if not audits:
            raise StudyError(
                "E_NO_AUDIT", f"There is no audit {audit} of {candidate} as it stands now."
            )
    names = list(dict.fromkeys([*evidence, *audits[-1:]])) or _newest(study, candidate)
    if not names and any(run.status == RunStatus.FINISHED for run in _runs(study, candidate)):
        raise GateRefused(
            "E_NO_EVIDENCE",
            f"A decision about {candidate} needs evidence, and there is none.",
            hint="Measure its runs first: telic study audit RUN",
        )
    names = names or [_ending(study, candidate).id]
    if wrong := study.altered(names):
        raise BrokenIntegrity(
            "E_EVIDENCE", f"{', '.join(wrong)} is missing or is not what was recorded."
        )
    cited = Audit.parse(study.sheet(audits[-1]).payload, audits[-1]) if audits else None
    return Grounds(evidence=tuple(names), audit=cited, cause=cause)


def standing_audits(study: Study, candidate: str) -> list[str]:
    """Return the evidence of audits made since the candidate got its status, the oldest first."""
    since, entries = study.candidate_state(candidate).since_seq, study.state.evidence
    names = study.evidence_names("audit", candidate=candidate)
    return [name for name in names if entries[name].seq > since]


def _runs(study: Study, candidate: str) -> list[RunState]:
    return list(study.state.runs_of(candidate).values())


def _ending(study: Study, candidate: str) -> Evidence:
    """Enter how things stand with a candidate that nothing else is known about.

    What fails before anything can be measured still has to be decided on.
    """
    held = study.candidate_state(candidate)
    runs = study.state.runs_of(candidate).items()
    facts = {
        "status": held.status,
        "reason": held.reason,
        "revision": held.revision,
        "runs": {name: {"status": run.status, "why": run.why} for name, run in runs},
    }
    return add_evidence(
        study,
        "ending",
        facts,
        SYSTEM,
        candidate=candidate,
        producer="telic.decide",
        summary=held.reason or str(held.status),
    )


def _newest(study: Study, candidate: str) -> list[str]:
    """Return the newest evidence about a candidate, or what it was made from if it never ran."""
    own = [name for name, x in study.state.evidence.items() if x.candidate == candidate]
    return own[-1:] or list(study.candidate(candidate).evidence_refs)


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
    return {
        "incumbent": incumbent.as_data(),
        "noise_floor": audit.stats.sigma_0 if is_baseline else None,
    }


def _require_sound(
    study: Study, candidate: str, verdict: Verdict, actor: StudyActor, cause: str | None
) -> None:
    """Refuse to accept an exploit without a person, and to cite a falsifier that is not met."""
    exploit = standing_exploit(study, candidate) if verdict == "accept" else None
    if exploit is not None and actor.kind != "human":
        raise GateRefused("E_EXPLOIT", f"{candidate} is not accepted: {exploit}.")
    said = [each for each in judge_conditions(study, candidate) if each.cause == cause]
    if verdict == "reject" and any(not each.is_met for each in said):
        raise GateRefused("E_CAUSE", f"{candidate} is not rejected for that: {said[0].why}.")


def _require_words(rationale: str) -> None:
    if not rationale.strip():
        raise StudyError("E_REASON", "A decision needs a reason.", hint="Add --because TEXT.")


# ---------------------------------------------------------------------------- recording


@dataclass(frozen=True)
class _Ruling:
    """A verdict on a candidate: who gives it, why, and what it rests on."""

    study: Study
    candidate: str
    verdict: Verdict
    actor: StudyActor
    why: str
    facts: dict[str, Any]

    def propose(self) -> DecisionOutcome:
        proposal = {**self.facts, "verdict": self.verdict, "reason": self.why}
        self.study.append("decision.proposed", self.candidate, proposal, self.actor)
        said = f"To {self.verdict} is left to people: a person runs the same command in a terminal."
        return DecisionOutcome(
            candidate=self.candidate, verdict=self.verdict, recorded=False, why=said
        )

    def record(self) -> DecisionOutcome:
        study, candidate, to = self.study, self.candidate, _TO[self.verdict]
        # Whoever notices it: that an audit says invalid is the system's finding.
        mover = SYSTEM if self.verdict == "debug" else self.actor
        before = study.incumbent.candidate if study.incumbent else None
        entered = self._entered()
        lifecycle.transition(study, candidate, to, mover, self.why, entered)
        trusted: dict[str, Any] = self.facts.get("incumbent") or {}
        after = trusted.get("candidate", before)
        if self.facts.get("trusts_nobody") and before == candidate:
            after = None
        if after != before:
            moved = {**trusted, "from": before, "to": after}
            study.append("incumbent.changed", after, moved, self.actor)
        return self._outcome(entered["decision"], after)

    def keep(self) -> DecisionOutcome:
        """Record that a person keeps trusting the incumbent; its status stays what it is."""
        held, name = self.study.incumbent, self.candidate
        if held is None or held.candidate != name:
            raise GateRefused("E_NO_INCUMBENT", f"{name} is not the incumbent: nothing to keep.")
        if self.actor.kind != "human":
            return self.propose()
        entered = {**self._entered(), "reason": self.why}
        self.study.append("decision.recorded", name, entered, self.actor)
        return self._outcome(entered["decision"], name)

    def _entered(self) -> dict[str, Any]:
        used = (str(entry.data.get("decision")) for entry in self.study.events)
        return {**self.facts, "decision": f"d-{next_number(used):04d}", "verdict": self.verdict}

    def _outcome(self, decision: str, incumbent: str | None) -> DecisionOutcome:
        return DecisionOutcome(
            candidate=self.candidate,
            verdict=self.verdict,
            recorded=True,
            decision=decision,
            incumbent=incumbent,
        )
