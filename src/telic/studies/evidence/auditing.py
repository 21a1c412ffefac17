"""Audit a candidate's result: gather the facts, judge them, write the audit down."""

from __future__ import annotations

from telic.storage.files import read_record
from telic.studies.documents.base import Actor, Part
from telic.studies.documents.files import write_once
from telic.studies.documents.runs import Evidence
from telic.studies.evidence.audit import audit_claim
from telic.studies.evidence.claims import Audit
from telic.studies.evidence.gathering import gather_claim
from telic.studies.evidence.store import add_evidence
from telic.studies.study import Study


class AuditResult(Part):
    """An audit and the evidence that a decision cites."""

    audit: Audit
    evidence: Evidence


def audit_result(study: Study, candidate: str, actor: Actor) -> AuditResult:
    """Audit the claim of a candidate against the incumbent; a baseline has none.

    The same facts give the same audit, which is then not written again.
    """
    facts = gather_claim(study, candidate)
    path = study.folder.audit_file(facts.id)
    if path.is_file():
        audit = read_record(path, Audit)
    else:
        audit = audit_claim(facts)
        write_once(path, audit.as_data())
    stats = audit.stats
    evidence = add_evidence(
        study,
        "audit",
        {
            "audit": audit.id,
            "verdict": audit.verdict,
            "incumbent": audit.incumbent,
            "runs": {name: list(arm.runs) for name, arm in audit.arms.items()},
            "delta": stats.delta,
            "ci": stats.ci,
            "poi": stats.poi,
            "audit_hash": audit.compute_hash(),
        },
        actor,
        candidate=candidate,
        protocol_hash=audit.protocol_hash,
        producer="telic.audit_result",
        summary=f"{audit.verdict}: {audit.reasons[0]}" if audit.reasons else audit.verdict,
    )
    return AuditResult(audit=audit, evidence=evidence)
