"""Validate a candidate: run the checks, freeze what they were run against, move it on."""

from __future__ import annotations

from typing import Any

from telic.storage.files import write_json
from telic.studies import lifecycle
from telic.studies.documents.base import SYSTEM, DocumentPart
from telic.studies.documents.candidate import CandidateStatus, CheckResult, Validation
from telic.studies.errors import GateRefused, InvalidDocument
from telic.studies.names import utc_now
from telic.studies.rules.case import CandidateCase
from telic.studies.rules.checks import check_case, unreadable
from telic.studies.study import Study

_AUTHORING = (CandidateStatus.DRAFT, CandidateStatus.VALIDATED)


class ValidationOutcome(DocumentPart):
    """What validating came to."""

    candidate: str
    status: CandidateStatus
    checks: tuple[CheckResult, ...]

    @property
    def ok(self) -> bool:
        """Every check passed."""
        return all(check.passed for check in self.checks)


def check_candidate(
    study: Study, name: str, may_be: tuple[CandidateStatus, ...] = _AUTHORING
) -> tuple[CheckResult, ...]:
    """Run V01 to V16 and change nothing; a launch passes `may_be=LAUNCHING`."""
    study.candidate_state(name)
    try:
        study.candidate(name)
    except InvalidDocument as error:
        return unreadable(error.message)
    return check_case(CandidateCase(study, name, may_be))


def validate_candidate(study: Study, name: str) -> ValidationOutcome:
    """Check a draft and, when all is well, freeze it against the present contract."""
    with study.locked():
        demote_if_changed(study, name)
        if not study.is_contract_agreed:
            raise GateRefused(
                "E_CONTRACT",
                "contract.yaml is not the version that was agreed on.",
                hint="Undo the edit, or agree on it with: telic study contract amend --reason TEXT",
            )
        checks, status = check_candidate(study, name), study.candidate_state(name).status
        outcome = ValidationOutcome(candidate=name, status=status, checks=checks)
        if outcome.ok and status == CandidateStatus.DRAFT:
            _freeze(study, name, checks)
            outcome = outcome.model_copy(update={"status": CandidateStatus.VALIDATED})
    return outcome


def demote_if_changed(study: Study, name: str) -> tuple[str, ...]:
    """Make a validated candidate a draft again when what it was checked against has changed."""
    if study.candidate_state(name).status != CandidateStatus.VALIDATED:
        return ()
    changed = changed_hashes(study, name)
    if changed:
        reason = f"{', '.join(changed)} changed since it was validated"
        facts = {"changed": list(changed)}
        lifecycle.transition(study, name, CandidateStatus.DRAFT, SYSTEM, reason, facts)
    return changed


def changed_hashes(study: Study, name: str) -> tuple[str, ...]:
    """Return the names of the hashes that are no longer those of the validation."""
    held = study.candidate_state(name)
    try:
        now = present_hashes(study, name)
    except InvalidDocument:
        return ("content_hash",)
    return tuple(key for key, value in now.items() if getattr(held, key) != value)


def present_hashes(study: Study, name: str) -> dict[str, Any]:
    """Return what a candidate is and is measured against, as hashes of what is on disk."""
    return {
        "content_hash": study.candidate(name).compute_hash(),
        "contract_hash": study.contract_hash,
        "protocol_hash": study.protocol_hash,
        "adapter_hash": study.adapter_hash,
    }


def _freeze(study: Study, name: str, checks: tuple[CheckResult, ...]) -> None:
    record, hashes = study.candidate(name), present_hashes(study, name)
    validation = Validation(at=utc_now(), checks=checks, contract_hash=hashes["contract_hash"])
    frozen = {**record.as_data(), **hashes, "validation": validation.as_data()}
    write_json(study.folder.candidate_file(name), frozen)
    facts = {
        **hashes,
        "checks": [{"id": check.id, "passed": check.passed} for check in checks],
        "phase": record.plan.phases[0],
    }
    to = CandidateStatus.VALIDATED
    lifecycle.transition(study, name, to, SYSTEM, "all checks passed", facts)
