"""Approve parts of a contract or a candidate, and keep and prove the record of a study."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from telic.core.config import Record
from telic.core.verb import Question, argument, option
from telic.errors import UsageError
from telic.studies.chain import Check, LedgerEvent
from telic.studies.documents.contract import ApprovalKey
from telic.verbs.study import PersonRequest, StudyRequest, study_verb

# ---------------------------------------------------------------------------- approvals


class ApproveRequest(PersonRequest):
    """What a person is to approve."""

    keys: Sequence[ApprovalKey] = argument(
        "What to approve; everything missing if left out.", default=(), many=True, what="approval"
    )
    candidate: str | None = option(
        "For experiment and physical_actuation: the candidate.", default=None
    )
    note: str = option("A word for the record.", default="")
    refuse: bool = option("Say no instead of yes.", "--reject", default=False)

    def subjects(self) -> dict[ApprovalKey, str]:
        """Return the hash of everything that is to be approved, by its key."""
        study = self.open()
        keys = self.keys or [approval.key for approval in study.missing_approvals]
        return {key: study.standing(key, self.candidate).subject_hash for key in keys}


class Approvals(Record):
    """What was said about the parts of a study."""

    study: str
    keys: tuple[str, ...]
    said: str = "approved"

    def as_data(self) -> dict[str, Any]:
        """Return the keys."""
        return {"study": self.study, "keys": list(self.keys)}


def _approve_question(request: ApproveRequest) -> Question | None:
    from telic.studies.approvals import shown
    from telic.studies.documents.base import yaml_text

    study, seen = request.open(), request.subjects()
    if not seen:
        return None
    texts = [f"── {key}\n{yaml_text(shown(study, key, request.candidate))}" for key in seen]
    word = "Reject" if request.refuse else "Approve"
    candidate = ("--candidate", request.candidate) if request.candidate else ()
    refuse = ("--reject",) if request.refuse else ()
    return Question(
        "\n".join([*texts, f"{word} {', '.join(seen)} of {study.name}?"]),
        request.terminal_command("approve", *seen, *candidate, *refuse),
        {str(key): subject for key, subject in seen.items()},
    )


@study_verb(ApproveRequest, question=_approve_question)
def approve(request: ApproveRequest) -> Approvals:
    """Approve parts of the contract, or a candidate: a person types a code in a terminal."""
    from telic.studies.approvals import grant, reject

    study = request.open()
    # What the person saw, not what is there by now: a yes to an older text is refused.
    seen = cast("dict[ApprovalKey, str]", dict(request.seen or {}))
    for key, subject in seen.items():
        how = {"candidate": request.candidate, "note": request.note}
        if request.refuse:
            reject(study, key, request.person, **how)
        else:
            grant(study, key, request.person, **how, seen_hash=subject)
    said = "rejected" if request.refuse else "approved"
    return Approvals(study=study.name, keys=tuple(seen), said=said)


class ImportApprovalsRequest(PersonRequest):
    """Approvals that were given on another machine."""

    file: Path = argument("Approvals given on another machine.")
    key_file: Path | None = option("The key that signed them there.", "--key", default=None)


def _import_question(request: ImportApprovalsRequest) -> Question:
    if request.key_file is None:
        raise UsageError("--import needs the key that signed the file.", hint="Add --key PATH.")
    return Question(
        f"Take over the approvals in {request.file} for {request.open().name}?",
        request.terminal_command("approve", "--import", str(request.file)),
    )


@study_verb(ImportApprovalsRequest, question=_import_question)
def import_approvals(request: ImportApprovalsRequest) -> Approvals:
    """Take over approvals that were given on another machine."""
    from telic.studies.approvals import import_approvals as take_over

    assert request.key_file is not None
    study = request.open()
    events = take_over(study, request.file, request.key_file, request.person)
    return Approvals(study=study.name, keys=tuple(str(event.data["key"]) for event in events))


class ExportApprovalsRequest(StudyRequest):
    """Where the approvals go."""

    file: Path = argument("File to write.")


@study_verb(ExportApprovalsRequest)
def export_approvals(request: ExportApprovalsRequest) -> Approvals:
    """Write the approvals that hold to a file."""
    from telic.studies.approvals import export_approvals as write

    study = request.open()
    keys = write(study, request.file)
    return Approvals(study=study.name, keys=tuple(keys), said="written")


# ---------------------------------------------------------------------------- the ledger


class VerifyRequest(StudyRequest):
    """A ledger to verify."""

    collect: bool = option(
        "Put files aside that a crash left uncommitted a week ago.", "--collect", default=False
    )


class LedgerProof(NamedTuple):
    """How the chain of a ledger came out."""

    check: Check
    git_notes: int | None = None
    collected: tuple[str, ...] = ()

    def as_data(self) -> dict[str, Any]:
        """Return the check, with what was looked at beside it where it holds."""
        found = self.check.model_dump(mode="json")
        if self.check.ok:
            found |= {"git_notes": self.git_notes, "collected": list(self.collected)}
        return found


@study_verb(VerifyRequest, exit_code=lambda proof: 0 if proof.check.ok else 5)
def verify(request: VerifyRequest) -> LedgerProof:
    """Recompute the chain of the ledger; says which line is bad. Exit code 5 when one is."""
    from telic.studies.administration import collect_orphans
    from telic.studies.ledger import require_noted

    study = request.open()
    found = study.ledger.verify()
    if not found.ok:
        return LedgerProof(found)
    study.require_intact()
    noted = require_noted(study.ledger)
    return LedgerProof(found, noted, tuple(collect_orphans(study) if request.collect else ()))


@study_verb(StudyRequest)
def ledger_verify(request: StudyRequest) -> Check:
    """Recompute the chain of the study, byte by byte; names the first bad line."""
    return request.open().ledger.verify()


class AnchorRequest(StudyRequest):
    """A ledger to anchor."""

    git_note: bool = option(
        "Also write the head into a note of the commit.", "--git-note", default=False
    )


class Anchor(NamedTuple):
    """The head of a study, signed."""

    event: LedgerEvent
    commit: str | None

    def as_data(self) -> dict[str, Any]:
        """Return what was signed, and the commit it was noted at."""
        return {**self.event.data, "commit": self.commit}


@study_verb(AnchorRequest)
def anchor(request: AnchorRequest) -> Anchor:
    """Sign the head of the ledger now; with a git note a copy of it leaves with the repository."""
    from telic.studies.ledger import note_head

    study = request.open()
    event = study.ledger.anchor()
    return Anchor(event, note_head(study.ledger) if request.git_note else None)
