"""Validate a candidate: run the checks, freeze what they were run against, move it on."""

from __future__ import annotations

from typing import Any

from telic.storage.files import write_json
from telic.studies import lifecycle
from telic.studies.candidate_files import current_candidate, known
from telic.studies.clock import utc_now
from telic.studies.documents.base import SYSTEM, Part
from telic.studies.documents.candidate import Candidate, CandidateStatus, CheckResult, Validation
from telic.studies.errors import GateRefused, InvalidDocument
from telic.studies.folder import StudyFolder
from telic.studies.ledger import Ledger
from telic.studies.state import CandidateState
from telic.studies.subjects import adapter_hash, contract_hash, current_protocol_hash
from telic.studies.validation.checks import run_checks, unreadable
from telic.studies.validation.gathering import gather

_AUTHORING = (CandidateStatus.DRAFT, CandidateStatus.VALIDATED)
LAUNCHING = (CandidateStatus.VALIDATED, CandidateStatus.LAUNCHED, CandidateStatus.ACCEPTED)
"""statuses in which a run of a candidate may start"""


class ValidationOutcome(Part):
    """What validating came to."""

    candidate: str
    status: CandidateStatus
    checks: tuple[CheckResult, ...]

    @property
    def ok(self) -> bool:
        """Every check passed."""
        return all(each.passed for each in self.checks)


def check_candidate(
    ledger: Ledger, candidate: str, may_be: tuple[CandidateStatus, ...] = _AUTHORING
) -> tuple[CheckResult, ...]:
    """Run V01 to V16 and change nothing; a launch passes `may_be=LAUNCHING`."""
    known(ledger, candidate)
    try:
        found = current_candidate(ledger, candidate)
    except InvalidDocument as error:
        return unreadable(error.message)
    return run_checks(gather(ledger, found, may_be))


def validate_candidate(ledger: Ledger, candidate: str) -> ValidationOutcome:
    """Check a draft and, when all is well, freeze it against the present contract."""
    with ledger.locked():
        demote_if_changed(ledger, candidate)
        _require_agreed_contract(ledger)
        checks = check_candidate(ledger, candidate)
        outcome = ValidationOutcome(
            candidate=candidate, status=known(ledger, candidate).status, checks=checks
        )
        if outcome.ok and outcome.status == CandidateStatus.DRAFT:
            _freeze(ledger, candidate, checks)
            outcome = outcome.model_copy(update={"status": CandidateStatus.VALIDATED})
    return outcome


def demote_if_changed(ledger: Ledger, candidate: str) -> tuple[str, ...]:
    """Make a validated candidate a draft again when what it was checked against has changed."""
    held = known(ledger, candidate)
    if held.status != CandidateStatus.VALIDATED:
        return ()
    changed = changed_hashes(ledger.folder, candidate, held)
    if changed:
        reason = f"{', '.join(changed)} changed since it was validated"
        lifecycle.transition(
            ledger.folder,
            candidate,
            CandidateStatus.DRAFT,
            SYSTEM,
            reason,
            data={"changed": list(changed)},
        )
    return changed


def changed_hashes(folder: StudyFolder, candidate: str, held: CandidateState) -> tuple[str, ...]:
    """Return the names of the hashes that are no longer those of the validation."""
    try:
        now = present_hashes(folder, current_candidate(Ledger(folder), candidate))
    except InvalidDocument:
        return ("content_hash",)
    return tuple(name for name, value in now.items() if getattr(held, name) != value)


def present_hashes(folder: StudyFolder, candidate: Candidate) -> dict[str, Any]:
    """Return what a candidate is and is measured against, as hashes of what is on disk."""
    return {
        "content_hash": candidate.compute_hash(),
        "contract_hash": contract_hash(folder.read_contract()),
        "protocol_hash": current_protocol_hash(folder),
        "adapter_hash": adapter_hash(folder),
    }


def _require_agreed_contract(ledger: Ledger) -> None:
    agreed = ledger.state().contract_hash
    if contract_hash(ledger.folder.read_contract()) != agreed:
        raise GateRefused(
            "E_CONTRACT",
            "contract.yaml is not the version that was agreed on.",
            hint="Undo the edit, or agree on it with: telic study contract amend --reason TEXT",
        )


def _freeze(ledger: Ledger, name: str, checks: tuple[CheckResult, ...]) -> None:
    folder = ledger.folder
    found = current_candidate(ledger, name)
    hashes = present_hashes(folder, found)
    validation = Validation(at=utc_now(), checks=checks, contract_hash=hashes["contract_hash"])
    write_json(
        folder.candidate_file(name),
        {**found.as_data(), **hashes, "validation": validation.as_data()},
    )
    lifecycle.transition(
        folder,
        name,
        CandidateStatus.VALIDATED,
        SYSTEM,
        "all checks passed",
        data={
            **hashes,
            "checks": [{"id": each.id, "passed": each.passed} for each in checks],
            "phase": found.plan.phases[0],
        },
    )
