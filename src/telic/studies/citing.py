"""What a decision rests on: evidence and an audit, checked against what the ledger recorded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from telic.storage.files import read_record
from telic.studies.candidate_files import current_candidate, known
from telic.studies.documents.base import Part
from telic.studies.errors import BrokenIntegrity, GateRefused, StudyError
from telic.studies.evidence.claims import Audit
from telic.studies.evidence.store import altered, read_evidence
from telic.studies.ledger import Ledger
from telic.studies.state import StudyState


class Cited(Part):
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


def cite(
    ledger: Ledger, candidate: str, evidence: Sequence[str], audit: str | None, cause: str | None
) -> Cited:
    """Collect what a decision rests on and check that it is what the ledger recorded.

    Without names the newest audit, or else the newest evidence, is cited. An audit from before the
    candidate's last run counts for nothing.
    """
    folder, state = ledger.folder, ledger.state()
    audits = audits_since(state, candidate, known(ledger, candidate).since_seq)
    if audit is not None:
        audits = [n for n in audits if read_evidence(folder, n).payload.get("audit") == audit]
        if not audits:
            raise StudyError(
                "E_NO_AUDIT", f"There is no audit {audit} of {candidate} as it stands now."
            )
    names = list(dict.fromkeys([*evidence, *audits[-1:]])) or _newest(ledger, state, candidate)
    if not names:
        raise GateRefused(
            "E_NO_EVIDENCE",
            f"A decision about {candidate} needs evidence, and there is none.",
            hint="Measure its runs first: telic study analyze RUN",
        )
    if wrong := altered(folder, state, names):
        raise BrokenIntegrity(
            "E_EVIDENCE", f"{', '.join(wrong)} is missing or is not what was recorded."
        )
    return Cited(evidence=tuple(names), audit=_audit(ledger, audits), cause=cause)


def audits_since(state: StudyState, candidate: str, seq: int) -> list[str]:
    """Return the evidence of audits that were made after an event, the oldest first."""
    found = sorted(
        (each.seq, name)
        for name, each in state.evidence.items()
        if each.kind == "audit" and each.candidate == candidate and each.seq > seq
    )
    return [name for _, name in found]


def _newest(ledger: Ledger, state: StudyState, candidate: str) -> list[str]:
    """Return the newest evidence about a candidate, or what it was made from if it never ran."""
    own = [(each.seq, n) for n, each in state.evidence.items() if each.candidate == candidate]
    return [max(own)[1]] if own else list(current_candidate(ledger, candidate).evidence_refs)


def _audit(ledger: Ledger, names: Sequence[str]) -> Audit | None:
    if not names:
        return None
    payload = read_evidence(ledger.folder, names[-1]).payload
    found = read_record(ledger.folder.audit_file(str(payload["audit"])), Audit)
    if found.compute_hash() != payload["audit_hash"]:
        raise BrokenIntegrity("E_EVIDENCE", f"The audit {found.id} is not what was recorded.")
    return found
