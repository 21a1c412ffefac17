"""Who agreed to what: proof that it was a person, and approvals that hold while nothing changes.

An approval is bound to the hash of what was approved and signed by the user's key; it is void as
soon as its subject changes. No agent can give a person's consent for them by accident.
"""

from __future__ import annotations

import getpass
import os
import secrets
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from telic.core.config import Record
from telic.storage.journal import JournalEntry
from telic.storage.keys import SigningKey
from telic.studies.candidates import files_of
from telic.studies.canonical import canonical, content_hash, signing_key, utc_now
from telic.studies.contract import approval_subject
from telic.studies.documents.base import SYSTEM, ActorKind, Sha, StudyActor, read_yaml
from telic.studies.documents.candidate import Candidate
from telic.studies.documents.contract import (
    Approval,
    ApprovalKey,
    ApprovalMethod,
    ApprovalStatus,
    Phase,
    PreApproved,
)
from telic.studies.errors import GateRefused, StudyError
from telic.studies.ledger import NewEntry
from telic.studies.state import StudyState

if TYPE_CHECKING:
    from telic.studies.study import Study

PER_CANDIDATE: frozenset[ApprovalKey] = frozenset({"experiment", "physical_actuation"})
_SIGNED = ("key", "candidate", "subject_hash", "by", "at", "method")
_LETTERS = "abcdefghjkmnpqrstuvwxyz"
_CODE_LENGTH = 4
_KINDS: tuple[ActorKind, ...] = ("human", "agent", "system", "runner", "engine")


@dataclass(frozen=True)
class Consent:
    """A person said yes to one thing, through a channel that only people have."""

    by: str
    method: ApprovalMethod
    at: str

    @property
    def actor(self) -> StudyActor:
        """The person, as the ledger names them."""
        return StudyActor(kind="human", name=self.by)


def ask_on_terminal(
    question: str, *, read: TextIO | None = None, write: TextIO | None = None
) -> Consent:
    """Show a short code and have the person at the terminal type it.

    Raises GateRefused E_NO_HUMAN without a terminal on both ends, E_NOT_CONFIRMED when what is
    typed is not the code.
    """
    listening, speaking = read or sys.stdin, write or sys.stderr
    if listening is None or speaking is None or not (listening.isatty() and speaking.isatty()):
        raise GateRefused(
            "E_NO_HUMAN",
            "This needs a person, and there is no terminal to ask one.",
            hint="Run the same command yourself in a terminal.",
        )
    code = "".join(secrets.choice(_LETTERS) for _ in range(_CODE_LENGTH))
    speaking.write(f"{question}\nType {code} to agree, anything else to refuse: ")
    speaking.flush()
    if listening.readline().strip() != code:
        raise GateRefused("E_NOT_CONFIRMED", "The code was not typed; nothing was agreed to.")
    return Consent(by=user_name(), method="tty", at=utc_now())


def current_actor() -> StudyActor:
    """Return who runs this command: TELIC_ACTOR (kind:name), a person at a terminal, or an agent.

    Without a terminal nobody counts as a person, whatever the variable says.
    """
    session = os.environ.get("TELIC_SESSION") or None
    label = os.environ.get("TELIC_ACTOR")
    at_terminal = all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))
    if label:
        kind, _, name = label.partition(":")
        if kind not in _KINDS or kind in ("system", "runner") or not name:
            raise StudyError(
                "E_ACTOR",
                f'TELIC_ACTOR="{label}" does not name an actor.',
                hint="Write agent:NAME, engine:NAME or human:NAME.",
            )
        kind = "agent" if kind == "human" and not at_terminal else kind
        return StudyActor(kind=kind, name=name, session=session)
    return StudyActor(kind="human" if at_terminal else "agent", name=user_name(), session=session)


def user_name() -> str:
    """Return the name of the person whose account this is."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"


# ---------------------------------------------------------------------------- approvals


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
    study: Study,
    key: ApprovalKey,
    consent: Consent,
    *,
    candidate: str | None = None,
    note: str = "",
    seen_hash: Sha | None = None,
) -> JournalEntry:
    """Record a person's yes to a subject as it is now.

    `seen_hash` is the hash of what the person was shown: when the subject changed since, it is
    refused with E_CHANGED, for nobody agreed to the new text.
    """
    key_of_user = signing_key(study.root)

    def make(state: StudyState) -> NewEntry:
        if study.refresh().contract_hash != state.contract_hash:
            raise GateRefused(
                "E_NOT_AGREED",
                "contract.yaml is not the version in the ledger.",
                hint="Record the change first: telic study contract --amend TEXT",
            )
        path = _file_behind(study, key)
        if path is not None and not path.is_file():
            raise GateRefused(
                "E_NOTHING_TO_APPROVE",
                f"{key} stands for {path.name}, which does not exist yet.",
                hint=f"Write {path.name}, then: telic study contract --amend TEXT",
            )
        facts = _facts(study, key, candidate, consent)
        if seen_hash is not None and facts["subject_hash"] != seen_hash:
            raise GateRefused("E_CHANGED", f"{key} changed while you were asked.")
        signed = {**facts, "note": note, "sig": key_of_user.sign(canonical(_signed(study, facts)))}
        return NewEntry("approval.granted", candidate or key, signed, consent.actor)

    return study.ledger.append_from(make)


def reject(
    study: Study,
    key: ApprovalKey,
    consent: Consent,
    *,
    candidate: str | None = None,
    note: str = "",
) -> JournalEntry:
    """Record a person's no to a subject as it is now."""
    facts = {**_facts(study.refresh(), key, candidate, consent), "note": note}
    return study.append("approval.rejected", candidate or key, facts, consent.actor)


def void_changed(study: Study) -> list[JournalEntry]:
    """Record every approval that no longer matches its subject as void; returns the events."""
    with study.locked():
        events: list[JournalEntry] = []
        approved = [each for each in study.state.approvals.values() if each.status == "approved"]
        for approval in approved:
            now = study.standing(approval.key, approval.candidate)
            if now.status == "void":
                facts = {
                    "key": approval.key,
                    "candidate": approval.candidate,
                    "why": now.why,
                    "subject_hash": approval.subject_hash,
                    "now": now.subject_hash,
                }
                name = approval.candidate or approval.key
                events.append(study.append("approval.voided", name, facts, SYSTEM))
        return events


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
    automation, candidate = study.contract.automation, study.candidate(name)
    if own.status in ("approved", "rejected"):
        return own
    if _is_agreed_baseline(study, candidate):
        return own.model_copy(update={"status": "approved", "why": "the baseline of the contract"})
    if automation.launch != "pre_approved":
        return own
    rule = next((r for r in automation.pre_approved if _covers(r, candidate, phase)), None)
    if rule is None:
        return own.model_copy(update={"why": f"{own.why}, and no pre-approved class covers it"})
    autonomy = study.standing("autonomy")
    if autonomy.status != "approved":
        why = f"its class is pre-approved, but autonomy is {autonomy.status}"
        return own.model_copy(update={"why": why})
    return own.model_copy(update={"status": "approved", "why": f"pre-approved class {rule.kind}"})


def _is_agreed_baseline(study: Study, candidate: Candidate) -> bool:
    """Tell whether a candidate is the very baseline that a person approved with the contract."""
    change = candidate.change
    if candidate.kind != "baseline" or change.patch or change.files or change.params:
        return False
    overrides = {name: each.to for name, each in change.overrides.items()}
    if overrides != study.contract.baseline.overrides:
        return False
    return study.standing("baseline_command").status == "approved"


def is_signed(study: Study, held: Approval, key: SigningKey | None) -> bool:
    """Say whether a key made the signature of an approval."""
    if key is None or held.sig is None:
        return False
    return key.has_signed(canonical(_signed(study, held.as_data())), held.sig)


def _judge(study: Study, held: Approval | None, now: Sha) -> tuple[ApprovalStatus, str]:
    if held is None:
        return "pending", "nobody has been asked"
    if held.status != "approved":
        return held.status, held.note or f"it was {held.status}"
    if held.subject_hash != now:
        return "void", "what was approved has changed since"
    if not is_signed(study, held, study.key):
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


def shown(study: Study, key: ApprovalKey, candidate: str | None = None) -> Any:
    """Return what a person should read before saying yes, as plain values."""
    if key in PER_CANDIDATE:
        record = _candidate(study, key, candidate)
        brought = files_of(record, study.candidate_folder(record.id))
        lines = {name: text.decode(errors="replace").splitlines() for name, text in brought.items()}
        return {**record.as_data(), **lines}
    subject, path = approval_subject(study, key), _file_behind(study, key)
    if path is None or not path.is_file():
        return subject
    return {**subject, path.name: read_yaml(path)}


def _hash_now(study: Study, key: ApprovalKey, candidate: str | None) -> Sha:
    if key not in PER_CANDIDATE:
        return content_hash(approval_subject(study, key))
    record = _candidate(study, key, candidate)
    return content_hash({"candidate": record.id, "content_hash": record.compute_hash()})


def _candidate(study: Study, key: str, candidate: str | None) -> Candidate:
    if candidate is None:
        raise StudyError("E_APPROVAL", f"{key} is approved per candidate.", hint="Name one.")
    return study.candidate(candidate)


def _file_behind(study: Study, key: ApprovalKey) -> Path | None:
    """Return the file whose hash a subject names."""
    folder = study.folder
    files = {"metric_and_guardrails": folder.metric_spec, "evaluation_protocol": folder.protocol}
    return files.get(key)
