"""Signed approvals by people. An approval is valid while the approved content is unchanged.

An approval is bound to the hash of its subject and signed with the user's key. It becomes void
when the subject changes.
"""

from __future__ import annotations

import difflib
import os
import secrets
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO, cast

from telic.core.config import Record
from telic.storage.journal import JournalEntry
from telic.storage.keys import SigningKey, signer_of, user_name
from telic.studies import _git_read as git_read
from telic.studies.candidates import files_of
from telic.studies.canonical import canonical, content_hash, signing_key, utc_now
from telic.studies.contract import approval_subject
from telic.studies.documents.base import SYSTEM, ActorKind, Sha, StudyActor, yaml_text
from telic.studies.documents.candidate import Candidate, CandidateStatus
from telic.studies.documents.contract import (
    Approval,
    ApprovalKey,
    ApprovalMethod,
    ApprovalStatus,
    StudyPhase,
)
from telic.studies.errors import GateRefused, StudyError

if TYPE_CHECKING:
    from telic.studies.study import Study

_PER_CANDIDATE: frozenset[ApprovalKey] = frozenset({"experiment", "physical_actuation"})
_SIGNED = ("key", "candidate", "subject_hash", "by", "at", "method")
_LETTERS = "abcdefghjkmnpqrstuvwxyz"


@dataclass(frozen=True)
class Consent:
    """A person's consent to one subject, given through a channel that only people can use."""

    by: str
    method: ApprovalMethod
    at: str

    @property
    def actor(self) -> StudyActor:
        """The person as a ledger actor."""
        return StudyActor(kind="human", name=self.by)


def ask_on_terminal(
    question: str, *, read: TextIO | None = None, write: TextIO | None = None
) -> Consent:
    """Ask the person at the terminal to type the short code that is displayed.

    Raises GateRefused E_NO_HUMAN unless input and output are terminals, and E_NOT_CONFIRMED if the
    code is wrong.
    """
    listening, speaking = read or sys.stdin, write or sys.stderr
    if listening is None or speaking is None or not (listening.isatty() and speaking.isatty()):
        raise GateRefused(
            "E_NO_HUMAN",
            "This requires a person at a terminal.",
            hint="Run the same command yourself in a terminal.",
        )
    code = "".join(secrets.choice(_LETTERS) for _ in range(4))
    speaking.write(f"{question}\nType {code} to agree, or anything else to refuse: ")
    speaking.flush()
    if listening.readline().strip() != code:
        raise GateRefused("E_NOT_CONFIRMED", "The code was not entered. Nothing was approved.")
    return Consent(by=user_name(), method="tty", at=utc_now())


def current_actor() -> StudyActor:
    """Return the actor from TELIC_ACTOR (kind:name), or a person at a terminal, or an agent.

    Without a terminal, the caller never counts as a person.
    """
    session = os.environ.get("TELIC_SESSION") or None
    label = os.environ.get("TELIC_ACTOR")
    at_terminal = all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))
    if not label:
        kind = "human" if at_terminal else "agent"
        return StudyActor(kind=kind, name=user_name(), session=session)
    kind, _, name = label.partition(":")
    if kind not in ("human", "agent", "engine") or not name:
        raise StudyError(
            "E_ACTOR",
            f'TELIC_ACTOR="{label}" is not a valid actor.',
            hint="Use agent:NAME, engine:NAME or human:NAME.",
        )
    kind = "agent" if kind == "human" and not at_terminal else cast("ActorKind", kind)
    return StudyActor(kind=kind, name=name, session=session)


# ---------------------------------------------------------------------------- entries


def grant(
    study: Study,
    key: ApprovalKey,
    consent: Consent,
    *,
    candidate: str | None = None,
    note: str = "",
    seen_hash: Sha | None = None,
) -> JournalEntry:
    """Record a person's approval of the current subject.

    `seen_hash` is the hash of the displayed subject. Raises E_CHANGED if the subject has changed.
    """
    user_key = signing_key(study.root)
    with study.locked():
        if not study.is_contract_agreed:
            raise GateRefused(
                "E_NOT_AGREED",
                "contract.yaml differs from the version in the ledger.",
                hint="Record the change first: telic study contract --amend TEXT",
            )
        covered = {} if key in _PER_CANDIDATE else approval_subject(study, key)
        for name in ("metric_spec.yaml", "eval_protocol.yaml"):
            if name in covered and covered[name] is None:
                raise GateRefused(
                    "E_NOTHING_TO_APPROVE",
                    f"{key} covers the file {name}, but this file does not exist yet.",
                    hint=f"Write {name}, then: telic study contract --amend TEXT",
                )
        facts = _facts(study, key, candidate, consent)
        if seen_hash is not None and facts["subject_hash"] != seen_hash:
            raise GateRefused("E_CHANGED", f"{key} changed after its text was displayed.")
        signed = {**facts, "note": note, "sig": user_key.sign(_signed_text(study, facts))}
        signed["text"] = _approved_text(study, key, candidate)
        return study.append("approval.granted", candidate or key, signed, consent.actor)


def void_changed(study: Study) -> list[JournalEntry]:
    """Void all approvals whose subjects have changed and return the ledger entries."""
    entries: list[JournalEntry] = []
    with study.locked():
        for held in [x for x in study.state.approvals.values() if x.status == "approved"]:
            now = study.approval(held.key, held.candidate)
            if now.status == "void":
                facts = held.model_dump(include={"key", "candidate", "subject_hash"})
                facts |= {"why": now.why, "now": now.subject_hash}
                subject = held.candidate or held.key
                entries.append(study.append("approval.voided", subject, facts, SYSTEM))
    return entries


def _facts(
    study: Study, key: ApprovalKey, candidate: str | None, consent: Consent
) -> dict[str, Any]:
    return {
        "key": key,
        "candidate": candidate,
        "subject_hash": study.approval(key, candidate).subject_hash,
        "by": consent.actor.label,
        "at": consent.at,
        "method": consent.method,
    }


# ---------------------------------------------------------------------------- validity


class ApprovalState(Record):
    """Current status of an approval, with the reason if it is not valid."""

    key: ApprovalKey
    candidate: str | None = None
    status: ApprovalStatus
    why: str = ""
    subject_hash: Sha
    approval: Approval | None = None

    @property
    def name(self) -> str:
        """`key` or `key:candidate`."""
        return f"{self.key}:{self.candidate}" if self.candidate else self.key


def approval_state(study: Study, key: ApprovalKey, candidate: str | None = None) -> ApprovalState:
    """Compare the ledger with the files and return the current status of an approval."""
    if key in _PER_CANDIDATE:
        record = _candidate(study, key, candidate)
        subject: Any = {"candidate": record.id, "content_hash": record.compute_hash()}
    else:
        subject = approval_subject(study, key)
    now = content_hash(subject)
    held = study.state.approvals.get(f"{key}:{candidate}" if candidate else key)
    if held is None:
        status, why = "pending", "not requested yet"
    elif held.status != "approved":
        status, why = held.status, held.note or f"it was {held.status}"
    elif held.subject_hash != now:
        status, why = "void", "the approved content has changed"
    elif not is_signed(study, held, study.key):
        status, why = "void", "its signature was not made with this user's key"
    else:
        status, why = "approved", ""
    return ApprovalState(
        key=key, candidate=candidate, status=status, why=why, subject_hash=now, approval=held
    )


def experiment_approval(study: Study, name: str, phase: StudyPhase) -> ApprovalState:
    """Return whether a candidate is approved for a phase, individually or as part of a class."""
    own, candidate = study.approval("experiment", name), study.candidate(name)
    contract, change = study.contract, candidate.change
    if own.status in ("approved", "rejected"):
        return own
    if study.candidate_state(name).status == CandidateStatus.ACCEPTED:
        return own.model_copy(update={"status": "approved", "why": "it was accepted"})
    overrides = {path: each.to for path, each in change.overrides.items()}
    if (
        candidate.kind == "baseline"
        and not (change.patch or change.files)
        and overrides == contract.baseline.overrides
        and study.approval("baseline_command").status == "approved"
    ):
        return own.model_copy(update={"status": "approved", "why": "the contract's baseline"})
    if contract.automation.launch != "pre_approved":
        return own
    cost = candidate.plan.est.gpu_h
    is_covered = any(
        rule.kind == candidate.kind
        and phase in rule.phases
        and (rule.max_gpu_h is None or (cost is not None and cost <= rule.max_gpu_h))
        for rule in contract.automation.pre_approved
    )
    if not is_covered:
        return own.model_copy(update={"why": f"{own.why}, and no pre-approved class covers it"})
    autonomy = study.approval("autonomy")
    if autonomy.status != "approved":
        why = f"its class is pre-approved, but autonomy is {autonomy.status}"
        return own.model_copy(update={"why": why})
    why = f"pre-approved class {candidate.kind}"
    return own.model_copy(update={"status": "approved", "why": why})


def is_signed(study: Study, held: Approval, key: SigningKey | None) -> bool:
    """Return whether an approval was signed with the given key."""
    if key is None:
        return False
    return signer_of(_signed_text(study, held.as_data()), held.sig) == key.public


def approval_diff(study: Study, key: ApprovalKey, candidate: str | None = None) -> str:
    """Return the diff to review before approving: all changes since the last approval."""
    now = _approved_text(study, key, candidate)
    subject = candidate or key
    granted = study.events_of("approval.granted", about=(subject,))
    before = [str(entry.data["text"]) for entry in granted if entry.data.get("text")]
    if not before or before[-1] == now:
        return now
    lines = difflib.unified_diff(
        before[-1].splitlines(), now.splitlines(), "approved", "now", lineterm=""
    )
    return "\n".join(lines)


def _approved_text(study: Study, key: ApprovalKey, candidate: str | None) -> str:
    if key in _PER_CANDIDATE:
        record = _candidate(study, key, candidate)
        return f"{yaml_text(record.as_data())}\n{change_diff(study, record.id)}"
    return yaml_text(approval_subject(study, key))


def change_diff(study: Study, candidate: str) -> str:
    """Return a candidate's changes: parameters, and files as a diff against its base."""
    record = study.candidate(candidate)
    overrides = record.change.overrides.items()
    found = [f"{path}: {each.from_value!r} -> {each.to!r}" for path, each in overrides]
    for name, content in files_of(record, study.candidate_folder(candidate)).items():
        text, path = content.decode(errors="replace"), name.removeprefix("files/")
        if name == record.change.patch:
            found += [f"│ {line}" for line in text.splitlines()]  # it may be followed by any text
            continue
        place = f"{record.base_commit}:{path}"
        old = git_read.ask(study.root, "cat-file", "-p", place).out if study.is_git else ""
        names = {"fromfile": f"a/{path}", "tofile": f"b/{path}", "lineterm": ""}
        found += difflib.unified_diff(old.splitlines(), text.splitlines(), **names)
    return "\n".join(found) or "nothing"


def _signed_text(study: Study, facts: dict[str, Any]) -> bytes:
    return canonical({"study": study.name, **{name: facts[name] for name in _SIGNED}})


def _candidate(study: Study, key: str, candidate: str | None) -> Candidate:
    if candidate is None:
        raise StudyError("E_APPROVAL", f"{key} is approved per candidate.", hint="Specify one.")
    return study.candidate(candidate)
