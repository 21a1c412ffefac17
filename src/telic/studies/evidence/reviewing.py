"""Enter what a reviewer made of a candidate; without it a high hacking risk blocks its claim."""

from __future__ import annotations

from telic.studies.candidates import read_candidate
from telic.studies.documents.base import Actor
from telic.studies.documents.runs import Evidence
from telic.studies.errors import GateRefused, StudyError
from telic.studies.evidence.store import add_evidence
from telic.studies.study import Study


def review_candidate(
    study: Study, candidate: str, actor: Actor, finding: str, *, is_exploit: bool
) -> Evidence:
    """Enter a review of a candidate as it is now; nobody reviews their own.

    It settles a high hacking risk, and gate G22 asks for one before generated code is run.

    Raises GateRefused E_OWN_REVIEW for the author, StudyError E_REASON without a finding.
    """
    held = study.candidate_state(candidate)
    if not finding.strip():
        raise StudyError("E_REASON", "A review says what was found.", hint="Add --says TEXT.")
    if actor.label == held.author:
        raise GateRefused(
            "E_OWN_REVIEW",
            f"{actor.label} wrote {candidate} and cannot review it.",
            hint="Ask a person or another agent.",
        )
    # The hash keeps a review from standing for a candidate that was changed since.
    facts = {
        "finding": finding,
        "exploit": is_exploit,
        "passed": not is_exploit,
        "content_hash": read_candidate(study.folder, candidate).compute_hash(),
    }
    return add_evidence(
        study,
        "review",
        facts,
        actor,
        candidate=candidate,
        producer=actor.label,
        summary="exploit" if is_exploit else "no exploit",
    )
