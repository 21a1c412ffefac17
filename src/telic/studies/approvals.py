"""Approvals: bound to the hash of what was approved, signed, and void as soon as it changes."""

from __future__ import annotations

from typing import Any

from telic.core.config import Record
from telic.storage.files import read_record
from telic.studies.candidate_files import files_of
from telic.studies.canonical import content_hash
from telic.studies.documents.base import SYSTEM, Sha
from telic.studies.documents.candidate import Candidate
from telic.studies.documents.contract import (
    Approval,
    ApprovalKey,
    ApprovalStatus,
    Contract,
    Phase,
    PreApproved,
)
from telic.studies.documents.ledger import LedgerEvent
from telic.studies.errors import GateRefused, StudyError
from telic.studies.folder import StudyFolder
from telic.studies.human import Consent
from telic.studies.keys import SigningKey, existing_key, signing_key
from telic.studies.ledger import Ledger, NewEvent
from telic.studies.state import StudyState
from telic.studies.subjects import contract_hash, readable, required_approvals, subject_hash

PER_CANDIDATE: frozenset[ApprovalKey] = frozenset({"experiment", "physical_actuation"})
_SIGNED = ("key", "candidate", "subject_hash", "by", "at", "method")


class Standing(Record):
    """Whether an approval holds now, and why not."""

    key: ApprovalKey
    candidate: str | None = None
    status: ApprovalStatus
    why: str = ""
    subject_hash: Sha
    approval: Approval | None = None

    @property
    def name(self) -> str:
        """key, or key:candidate."""
        return f"{self.key}:{self.candidate}" if self.candidate else self.key


def grant(
    folder: StudyFolder,
    key: ApprovalKey,
    consent: Consent,
    *,
    candidate: str | None = None,
    note: str = "",
    seen_hash: Sha | None = None,
) -> LedgerEvent:
    """Record a person's yes to a subject as it is now.

    `seen_hash` is the hash of what the person was shown: when the subject changed since, it is
    refused with E_CHANGED, for nobody agreed to the new text.
    """
    key_of_user = signing_key(folder.root)

    def make(state: StudyState) -> NewEvent:
        contract = folder.read_contract()
        if contract_hash(contract) != state.contract_hash:
            raise GateRefused(
                "E_NOT_AGREED",
                "contract.yaml is not the version in the ledger.",
                hint="Record the change first: telic study contract amend --reason TEXT",
            )
        _require_subject(folder, key)
        now = _hash_now(folder, contract, key, candidate)
        if seen_hash is not None and now != seen_hash:
            raise GateRefused("E_CHANGED", f"{key} changed while you were asked.")
        facts: dict[str, Any] = {
            "key": key,
            "candidate": candidate,
            "subject_hash": now,
            "by": consent.actor.label,
            "at": consent.at,
            "method": consent.method,
        }
        signed = {**facts, "note": note, "sig": key_of_user.sign(_signed(folder, facts))}
        return NewEvent("approval.granted", candidate or key, signed, consent.actor)

    return Ledger(folder).append_from(make)


def reject(
    folder: StudyFolder,
    key: ApprovalKey,
    consent: Consent,
    *,
    candidate: str | None = None,
    note: str = "",
) -> LedgerEvent:
    """Record a person's no to a subject as it is now."""
    now = _hash_now(folder, folder.read_contract(), key, candidate)
    facts = {
        "key": key,
        "candidate": candidate,
        "subject_hash": now,
        "by": consent.actor.label,
        "at": consent.at,
        "method": consent.method,
        "note": note,
    }
    return Ledger(folder).append("approval.rejected", candidate or key, facts, consent.actor)


def standings(folder: StudyFolder, state: StudyState) -> list[Standing]:
    """Return how every approval of the contract stands now, required ones first."""
    contract = folder.read_contract()
    keys: list[ApprovalKey] = []
    keys.extend(required_approvals(contract))
    keys.extend(each.key for each in state.approvals.values() if not each.candidate)
    return [standing(folder, state, key, contract=contract) for key in dict.fromkeys(keys)]


def standing(
    folder: StudyFolder,
    state: StudyState,
    key: ApprovalKey,
    candidate: str | None = None,
    *,
    contract: Contract | None = None,
) -> Standing:
    """Return whether one approval holds now; what the ledger says is checked against the files."""
    now = _hash_now(folder, contract or folder.read_contract(), key, candidate)
    held = state.approvals.get(f"{key}:{candidate}" if candidate else key)
    status, why = _judge(folder, held, now)
    return Standing(
        key=key, candidate=candidate, status=status, why=why, subject_hash=now, approval=held
    )


def missing(folder: StudyFolder, state: StudyState) -> list[Standing]:
    """Return the required approvals that do not hold now."""
    required = required_approvals(folder.read_contract())
    return [x for x in standings(folder, state) if x.key in required and x.status != "approved"]


def void_changed(folder: StudyFolder) -> list[LedgerEvent]:
    """Record every approval that no longer matches its subject as void; returns the events."""
    ledger = Ledger(folder)
    with ledger.locked():
        state = ledger.state()
        found: list[LedgerEvent] = []
        for held in state.approvals.values():
            if held.status != "approved":
                continue
            now = standing(folder, state, held.key, held.candidate)
            if now.status == "void":
                facts = {
                    "key": held.key,
                    "candidate": held.candidate,
                    "why": now.why,
                    "subject_hash": held.subject_hash,
                    "now": now.subject_hash,
                }
                subject_name = held.candidate or held.key
                found.append(ledger.append("approval.voided", subject_name, facts, SYSTEM))
        return found


def experiment_standing(
    folder: StudyFolder, state: StudyState, candidate: Candidate, phase: Phase
) -> Standing:
    """Return whether a candidate may run in a phase: approved itself, or by a class of its kind."""
    own = standing(folder, state, "experiment", candidate.id)
    if own.status in ("approved", "rejected"):
        return own
    contract = folder.read_contract()
    if contract.automation.launch != "pre_approved":
        return own
    rule = next((r for r in contract.automation.pre_approved if _covers(r, candidate, phase)), None)
    if rule is None:
        return own.model_copy(update={"why": f"{own.why}, and no pre-approved class covers it"})
    autonomy = standing(folder, state, "autonomy", contract=contract)
    if autonomy.status != "approved":
        why = f"its class is pre-approved, but autonomy is {autonomy.status}"
        return own.model_copy(update={"why": why})
    return own.model_copy(update={"status": "approved", "why": f"pre-approved class {rule.kind}"})


def shown(folder: StudyFolder, key: ApprovalKey, candidate: str | None = None) -> Any:
    """Return what a person should read before saying yes, as plain values."""
    if key in PER_CANDIDATE:
        found = _candidate(folder, key, candidate)
        brought = files_of(found, folder.candidate(found.id))
        lines = {name: text.decode(errors="replace").splitlines() for name, text in brought.items()}
        return {**found.as_data(), **lines}
    return readable(folder, folder.read_contract(), key)


def _covers(rule: PreApproved, candidate: Candidate, phase: Phase) -> bool:
    if rule.kind != candidate.kind or phase not in rule.phases:
        return False
    estimate = candidate.plan.est.gpu_h
    return rule.max_gpu_h is None or (estimate is not None and estimate <= rule.max_gpu_h)


def _judge(folder: StudyFolder, held: Approval | None, now: Sha) -> tuple[ApprovalStatus, str]:
    if held is None:
        return "pending", "nobody has been asked"
    if held.status != "approved":
        return held.status, held.note or f"it was {held.status}"
    if held.subject_hash != now:
        return "void", "what was approved has changed since"
    if not is_signed(folder, held, existing_key(folder.root)):
        return "void", "its signature was not made with this user's key"
    return "approved", ""


def is_signed(folder: StudyFolder, held: Approval, key: SigningKey | None) -> bool:
    """Say whether a key made the signature of an approval."""
    if key is None or held.sig is None:
        return False
    return key.has_signed(_signed(folder, held.as_data()), held.sig)


def _signed(folder: StudyFolder, facts: dict[str, Any]) -> dict[str, Any]:
    return {"study": folder.name, **{name: facts[name] for name in _SIGNED}}


def _hash_now(
    folder: StudyFolder, contract: Contract, key: ApprovalKey, candidate: str | None
) -> Sha:
    if key not in PER_CANDIDATE:
        return subject_hash(folder, contract, key)
    found = _candidate(folder, key, candidate)
    return content_hash({"candidate": found.id, "content_hash": found.compute_hash()})


def _require_subject(folder: StudyFolder, key: ApprovalKey) -> None:
    """Refuse a yes to a file that is not there."""
    files = {"metric_and_guardrails": folder.metric_spec, "evaluation_protocol": folder.protocol}
    if key in files and not files[key].is_file():
        raise GateRefused(
            "E_NOTHING_TO_APPROVE",
            f"{key} stands for {files[key].name}, which does not exist yet.",
            hint=f"Write {files[key].name}, then: telic study contract amend --reason TEXT",
        )


def _candidate(folder: StudyFolder, key: str, candidate: str | None) -> Candidate:
    if candidate is None:
        raise StudyError("E_APPROVAL", f"{key} is approved per candidate.", hint="Name one.")
    return read_record(folder.candidate_file(candidate), Candidate)
