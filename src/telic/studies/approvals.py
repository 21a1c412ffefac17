"""Approvals: bound to the hash of what was approved, signed, and void as soon as it changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from telic.core.config import Record
from telic.storage.files import read_json, read_record, write_json
from telic.studies.candidates import files_of
from telic.studies.canonical import (
    SigningKey,
    content_hash,
    existing_key,
    file_hash,
    signing_key,
)
from telic.studies.chain import LedgerEvent
from telic.studies.documents.base import SYSTEM, Sha, read_yaml
from telic.studies.documents.candidate import Candidate
from telic.studies.documents.contract import (
    Approval,
    ApprovalKey,
    ApprovalStatus,
    Contract,
    Phase,
    PreApproved,
)
from telic.studies.errors import BrokenIntegrity, GateRefused, StudyError
from telic.studies.human import Consent
from telic.studies.ledger import NewEvent
from telic.studies.state import StudyState

if TYPE_CHECKING:
    from telic.studies.study import Study

ALWAYS_REQUIRED: tuple[ApprovalKey, ...] = (
    "task_definition",
    "metric_and_guardrails",
    "tuning_scope",
    "budget",
    "hardware",
    "baseline_command",
    "evaluation_protocol",
)
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


# ---------------------------------------------------------------------------- what people say


def grant(
    study: Study,
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
    key_of_user = signing_key(study.root)

    def make(state: StudyState) -> NewEvent:
        if study.refresh().contract_hash != state.contract_hash:
            raise GateRefused(
                "E_NOT_AGREED",
                "contract.yaml is not the version in the ledger.",
                hint="Record the change first: telic study contract amend --reason TEXT",
            )
        _require_subject(study, key)
        facts = _facts(study, key, candidate, consent)
        if seen_hash is not None and facts["subject_hash"] != seen_hash:
            raise GateRefused("E_CHANGED", f"{key} changed while you were asked.")
        signed = {**facts, "note": note, "sig": key_of_user.sign(_signed(study, facts))}
        return NewEvent("approval.granted", candidate or key, signed, consent.actor)

    return study.ledger.append_from(make)


def reject(
    study: Study,
    key: ApprovalKey,
    consent: Consent,
    *,
    candidate: str | None = None,
    note: str = "",
) -> LedgerEvent:
    """Record a person's no to a subject as it is now."""
    facts = {**_facts(study.refresh(), key, candidate, consent), "note": note}
    return study.append("approval.rejected", candidate or key, facts, consent.actor)


def void_changed(study: Study) -> list[LedgerEvent]:
    """Record every approval that no longer matches its subject as void; returns the events."""
    with study.locked():
        events: list[LedgerEvent] = []
        for held in study.state.approvals.values():
            if held.status != "approved":
                continue
            now = study.standing(held.key, held.candidate)
            if now.status == "void":
                facts = {
                    "key": held.key,
                    "candidate": held.candidate,
                    "why": now.why,
                    "subject_hash": held.subject_hash,
                    "now": now.subject_hash,
                }
                name = held.candidate or held.key
                events.append(study.append("approval.voided", name, facts, SYSTEM))
        return events


def export_approvals(study: Study, path: Path) -> list[str]:
    """Write the approvals that hold now to a file, for use elsewhere; returns their names."""
    held = {
        name: approval
        for name, approval in study.state.approvals.items()
        if study.standing(approval.key, approval.candidate).status == "approved"
    }
    write_json(path, {"study": study.name, "approvals": [each.as_data() for each in held.values()]})
    return list(held)


def import_approvals(
    study: Study, path: Path, key_path: Path, consent: Consent
) -> list[LedgerEvent]:
    """Take over approvals from a file, each proven by the key that signed it there.

    Both the key and a person at this terminal are needed. An approval whose subject reads
    differently here is refused, and then none is taken over.
    """
    if not key_path.is_file():
        raise BrokenIntegrity("E_KEY", f"There is no key {key_path}.")
    key = signing_key(study.root, key_path)
    study.refresh()
    approvals = [Approval.model_validate(each) for each in read_json(path)["approvals"]]
    for approval in approvals:
        if not is_signed(study, approval, key):
            raise BrokenIntegrity(
                "E_SIGNATURE",
                f"{path}: the signature of {approval.key} was not made with that key.",
            )
        if approval.subject_hash != study.standing(approval.key, approval.candidate).subject_hash:
            raise GateRefused("E_CHANGED", f"{path}: {approval.key} was given to another text.")
    by_file = Consent(by=consent.by, method="file_import", at=consent.at)
    return [
        grant(
            study,
            approval.key,
            by_file,
            candidate=approval.candidate,
            note=f"given by {approval.by} at {approval.at}",
            seen_hash=approval.subject_hash,
        )
        for approval in approvals
    ]


def _facts(
    study: Study, key: ApprovalKey, candidate: str | None, consent: Consent
) -> dict[str, Any]:
    return {
        "key": key,
        "candidate": candidate,
        "subject_hash": _hash_now(study, key, candidate),
        "by": consent.actor.label,
        "at": consent.at,
        "method": consent.method,
    }


def _require_subject(study: Study, key: ApprovalKey) -> None:
    """Refuse a yes to a file that is not there."""
    path = _file_behind(study, key)
    if path is not None and not path.is_file():
        raise GateRefused(
            "E_NOTHING_TO_APPROVE",
            f"{key} stands for {path.name}, which does not exist yet.",
            hint=f"Write {path.name}, then: telic study contract amend --reason TEXT",
        )


# ---------------------------------------------------------------------------- what holds now


def standing(study: Study, key: ApprovalKey, candidate: str | None = None) -> Standing:
    """Return whether one approval holds now; what the ledger says is checked against the files."""
    now = _hash_now(study, key, candidate)
    held = study.state.approvals.get(f"{key}:{candidate}" if candidate else key)
    status, why = _judge(study, held, now)
    return Standing(
        key=key, candidate=candidate, status=status, why=why, subject_hash=now, approval=held
    )


def experiment_standing(study: Study, name: str, phase: Phase) -> Standing:
    """Return whether a candidate may run in a phase: approved itself, or by a class of its kind."""
    own = study.standing("experiment", name)
    automation = study.contract.automation
    if own.status in ("approved", "rejected") or automation.launch != "pre_approved":
        return own
    candidate = study.candidate(name)
    rule = next((r for r in automation.pre_approved if _covers(r, candidate, phase)), None)
    if rule is None:
        return own.model_copy(update={"why": f"{own.why}, and no pre-approved class covers it"})
    autonomy = study.standing("autonomy")
    if autonomy.status != "approved":
        why = f"its class is pre-approved, but autonomy is {autonomy.status}"
        return own.model_copy(update={"why": why})
    return own.model_copy(update={"status": "approved", "why": f"pre-approved class {rule.kind}"})


def is_signed(study: Study, held: Approval, key: SigningKey | None) -> bool:
    """Say whether a key made the signature of an approval."""
    if key is None or held.sig is None:
        return False
    return key.has_signed(_signed(study, held.as_data()), held.sig)


def _judge(study: Study, held: Approval | None, now: Sha) -> tuple[ApprovalStatus, str]:
    if held is None:
        return "pending", "nobody has been asked"
    if held.status != "approved":
        return held.status, held.note or f"it was {held.status}"
    if held.subject_hash != now:
        return "void", "what was approved has changed since"
    if not is_signed(study, held, existing_key(study.root)):
        return "void", "its signature was not made with this user's key"
    return "approved", ""


def _covers(rule: PreApproved, candidate: Candidate, phase: Phase) -> bool:
    if rule.kind != candidate.kind or phase not in rule.phases:
        return False
    estimate = candidate.plan.est.gpu_h
    return rule.max_gpu_h is None or (estimate is not None and estimate <= rule.max_gpu_h)


def _signed(study: Study, facts: dict[str, Any]) -> dict[str, Any]:
    return {"study": study.name, **{name: facts[name] for name in _SIGNED}}


# ---------------------------------------------------------------------------- what is approved


def required_approvals(contract: Contract) -> tuple[ApprovalKey, ...]:
    """Return the approvals that this contract needs before anything starts."""
    keys = list(ALWAYS_REQUIRED)
    if contract.network is not None and contract.network.destinations:
        keys.append("network")
    if contract.generated_code is not None and contract.generated_code.allowed:
        keys.append("generated_code")
    automation = contract.automation
    if automation.autoloop or automation.launch != "ask" or automation.decide != "ask":
        keys.append("autonomy")
    return tuple(keys)


def shown(study: Study, key: ApprovalKey, candidate: str | None = None) -> Any:
    """Return what a person should read before saying yes, as plain values."""
    if key in PER_CANDIDATE:
        record = _candidate(study, key, candidate)
        brought = files_of(record, study.folder.candidate(record.id))
        lines = {name: text.decode(errors="replace").splitlines() for name, text in brought.items()}
        return {**record.as_data(), **lines}
    subject, path = _subject(study, key), _file_behind(study, key)
    return (
        subject if path is None or not path.is_file() else {**subject, path.name: read_yaml(path)}
    )


def _hash_now(study: Study, key: ApprovalKey, candidate: str | None) -> Sha:
    if key not in PER_CANDIDATE:
        return content_hash(_subject(study, key))
    record = _candidate(study, key, candidate)
    return content_hash({"candidate": record.id, "content_hash": record.compute_hash()})


def _candidate(study: Study, key: str, candidate: str | None) -> Candidate:
    if candidate is None:
        raise StudyError("E_APPROVAL", f"{key} is approved per candidate.", hint="Name one.")
    return read_record(study.folder.candidate_file(candidate), Candidate)


def _file_behind(study: Study, key: ApprovalKey) -> Path | None:
    """Return the file whose hash a subject names."""
    folder = study.folder
    files = {"metric_and_guardrails": folder.metric_spec, "evaluation_protocol": folder.protocol}
    return files.get(key)


def _subject(study: Study, key: ApprovalKey) -> Any:
    """Return what a person approves under a key, as plain values; its hash binds the approval."""
    make = _SUBJECTS.get(key)
    if make is None:
        raise StudyError("E_APPROVAL", f"{key} is approved for a candidate, not for the contract.")
    return make(study)


def _section(study: Study, *names: str) -> dict[str, Any]:
    written = study.contract.written_data()
    return {name: written.get(name) for name in names}


def _task(study: Study) -> Any:
    card = study.folder.task_card
    return {**_section(study, "task"), "card": file_hash(card) if card.is_file() else None}


def _adapter(study: Study) -> dict[str, Any]:
    path = study.folder.adapter
    return read_yaml(path) if path.is_file() else {}


def _baseline(study: Study) -> Any:
    command = _adapter(study).get("commands", {}).get(study.contract.baseline.command)
    return {**_section(study, "baseline"), "command": command}


_SUBJECTS: dict[ApprovalKey, Callable[[Study], Any]] = {
    "task_definition": _task,
    "metric_and_guardrails": lambda study: {
        **_section(study, "metrics"),
        "file": study.metric_spec_hash,
    },
    "tuning_scope": lambda study: _section(study, "scope", "exceptions"),
    "budget": lambda study: _section(study, "budget", "stop_rules"),
    # How a run is started is part of where it runs: a custom launcher is a command line, too.
    "hardware": lambda study: {
        **_section(study, "hardware"),
        "launcher": _adapter(study).get("launcher"),
    },
    "baseline_command": _baseline,
    "evaluation_protocol": lambda study: {
        **_section(study, "evaluation", "seeds"),
        "protocol_hash": study.protocol_hash,
    },
    "network": lambda study: _section(study, "network"),
    "generated_code": lambda study: _section(study, "generated_code"),
    "autonomy": lambda study: _section(study, "automation"),
}
