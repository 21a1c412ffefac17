"""The life of a candidate: the steps that exist, the actors who may take them, their entries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from telic.storage.journal import JournalEntry
from telic.studies.documents.base import StudyActor
from telic.studies.documents.candidate import CandidateStatus
from telic.studies.errors import GateRefused, StudyError

if TYPE_CHECKING:
    from telic.studies.study import Study

S = CandidateStatus
TRANSITIONS: dict[tuple[CandidateStatus, CandidateStatus], tuple[str, str]] = {
    (S.DRAFT, S.VALIDATED): ("system", "candidate.validated"),
    (S.VALIDATED, S.DRAFT): ("system", "candidate.demoted"),
    (S.DRAFT, S.REJECTED): ("agent human", "candidate.withdrawn"),
    (S.VALIDATED, S.REJECTED): ("agent human", "candidate.withdrawn"),
    (S.VALIDATED, S.LAUNCHED): ("runner", "launch.started"),
    (S.LAUNCHED, S.COMPLETED): ("runner", "candidate.completed"),
    (S.LAUNCHED, S.DEBUG): ("runner system", "candidate.debug"),
    (S.COMPLETED, S.VALIDATED): ("system", "candidate.advanced"),
    (S.COMPLETED, S.ACCEPTED): ("agent human system", "decision.recorded"),
    (S.COMPLETED, S.REJECTED): ("agent human system", "decision.recorded"),
    (S.COMPLETED, S.INCONCLUSIVE): ("agent human system", "decision.recorded"),
    (S.COMPLETED, S.DEBUG): ("system", "candidate.debug"),
    (S.INCONCLUSIVE, S.VALIDATED): ("agent human", "candidate.advanced"),
    (S.DEBUG, S.DRAFT): ("agent engine", "candidate.revised"),
    (S.DEBUG, S.REJECTED): ("agent human system", "decision.recorded"),
    (S.ACCEPTED, S.REVERTED): ("human system", "decision.recorded"),
}
"""from and to a status: the kinds of actors who may, and the entry that records it"""


def create(
    study: Study, candidate_id: str, actor: StudyActor, data: dict[str, Any]
) -> JournalEntry:
    """Enter a new candidate as a draft; an id is never used twice."""
    with study.locked():
        why = None
        if actor.kind not in ("agent", "human", "engine"):
            why = f"{actor.kind} may not do that"
        elif candidate_id in study.state.candidates:
            why = "the id was used before"
        elif study.state.study_status != "open":
            why = f"the study is {study.state.study_status}"
        if why is not None:
            raise refused(candidate_id, "(new)", S.DRAFT, why)
        return study.append("candidate.created", candidate_id, {**data, "to": S.DRAFT}, actor)


def transition(
    study: Study,
    candidate_id: str,
    to: CandidateStatus | str,
    actor: StudyActor,
    reason: str = "",
    data: dict[str, Any] | None = None,
) -> JournalEntry:
    """Move a candidate; `data` is the ground of the step and is kept in the entry.

    Raises as `require_step` does, and then changes nothing.
    """
    to = CandidateStatus(to)
    with study.locked():
        kind = require_step(study, candidate_id, to, actor)
        before = study.state.candidates[candidate_id].status
        facts = {**(data or {}), "from": before, "to": to, "reason": reason}
        return study.append(kind, candidate_id, facts, actor)


def require_step(study: Study, candidate_id: str, to: CandidateStatus, actor: StudyActor) -> str:
    """Return the kind of entry that records a step; raises GateRefused E_TRANSITION."""
    held = study.state.candidates.get(candidate_id)
    if held is None:
        raise StudyError("E_NO_CANDIDATE", f"{study.name} has no candidate {candidate_id}.")
    if (held.status, to) not in TRANSITIONS:
        raise refused(candidate_id, held.status, to, "there is no such step")
    actors, kind = TRANSITIONS[held.status, to]
    if actor.kind not in actors.split():
        why = f"{actor.kind} may not do that; {' or '.join(actors.split())} may"
        raise refused(candidate_id, held.status, to, why)
    return kind


def refused(candidate_id: str, before: str, to: str, why: str) -> GateRefused:
    """Return the error of a step that may not be taken."""
    return GateRefused("E_TRANSITION", f"{candidate_id} cannot go from {before} to {to}: {why}.")
