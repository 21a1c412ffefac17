"""What people agree to and what a study trusts: approvals, the ledger, decisions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from telic.core.config import Record
from telic.core.verb import Question, argument, option
from telic.errors import UsageError
from telic.studies.chain import Check
from telic.studies.deciding import Decided
from telic.studies.documents.contract import ApprovalKey
from telic.studies.documents.ledger import LedgerEvent
from telic.studies.documents.runs import Verdict
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
        from telic.studies.approvals import missing, standing

        study = self.open()
        folder, state = study.folder, study.state
        keys = self.keys or [found.key for found in missing(folder, state)]
        return {key: standing(folder, state, key, self.candidate).subject_hash for key in keys}


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
    from telic.studies.yaml_files import yaml_text

    folder, seen = request.open().folder, request.subjects()
    if not seen:
        return None
    texts = [f"── {key}\n{yaml_text(shown(folder, key, request.candidate))}" for key in seen]
    word = "Reject" if request.refuse else "Approve"
    candidate = ("--candidate", request.candidate) if request.candidate else ()
    refuse = ("--reject",) if request.refuse else ()
    return Question(
        "\n".join([*texts, f"{word} {', '.join(seen)} of {folder.name}?"]),
        request.terminal_command("approve", *seen, *candidate, *refuse),
        dict(seen),
    )


@study_verb(ApproveRequest, question=_approve_question)
def approve(request: ApproveRequest) -> Approvals:
    """Approve parts of the contract, or a candidate: a person types a code in a terminal."""
    from telic.studies.approvals import grant, reject

    folder = request.open().folder
    # What the person saw, not what is there by now: a yes to an older text is refused.
    seen = cast("dict[ApprovalKey, str]", dict(request.seen or {}))
    for key, subject in seen.items():
        how = {"candidate": request.candidate, "note": request.note}
        if request.refuse:
            reject(folder, key, request.person, **how)
        else:
            grant(folder, key, request.person, **how, seen_hash=subject)
    said = "rejected" if request.refuse else "approved"
    return Approvals(study=folder.name, keys=tuple(seen), said=said)


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
    from telic.studies.file_approvals import import_approvals as take_over

    assert request.key_file is not None
    folder = request.open().folder
    events = take_over(folder, request.file, request.key_file, request.person)
    return Approvals(study=folder.name, keys=tuple(str(event.data["key"]) for event in events))


class ExportApprovalsRequest(StudyRequest):
    """Where the approvals go."""

    file: Path = argument("File to write.")


@study_verb(ExportApprovalsRequest)
def export_approvals(request: ExportApprovalsRequest) -> Approvals:
    """Write the approvals that hold to a file."""
    from telic.studies.file_approvals import export_approvals as write

    folder = request.open().folder
    keys = write(folder, request.file)
    return Approvals(study=folder.name, keys=tuple(keys), said="written")


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
    from telic.studies.git_notes import require_noted
    from telic.studies.orphans import collect_orphans

    ledger = request.open().ledger
    found = ledger.verify()
    if not found.ok:
        return LedgerProof(found)
    ledger.require_intact()
    noted = require_noted(ledger)
    return LedgerProof(found, noted, tuple(collect_orphans(ledger) if request.collect else ()))


@study_verb(StudyRequest)
def ledger_verify(request: StudyRequest) -> Check:
    """Recompute the chain of the ledger, byte by byte; names the first bad line."""
    return request.open().ledger.verify()


class AnchorRequest(StudyRequest):
    """A ledger to anchor."""

    git_note: bool = option(
        "Also write the head into a note of the commit.", "--git-note", default=False
    )


class Anchor(NamedTuple):
    """The head of a ledger, signed."""

    event: LedgerEvent
    commit: str | None

    def as_data(self) -> dict[str, Any]:
        """Return what was signed, and the commit it was noted at."""
        return {**self.event.data, "commit": self.commit}


@study_verb(AnchorRequest)
def anchor(request: AnchorRequest) -> Anchor:
    """Sign the head of the ledger now; with a git note a copy of it leaves with the repository."""
    from telic.studies.git_notes import note_head

    ledger = request.open().ledger
    event = ledger.anchor()
    return Anchor(event, note_head(ledger) if request.git_note else None)


_NAME = "Candidate, e.g. c-0003-more-tracking."


class DecideRequest(PersonRequest):
    """What becomes of a candidate."""

    candidate: str = argument(_NAME)
    verdict: Verdict = argument("accept, reject, inconclusive, debug or keep.")
    because: str = option("Why; kept with the decision.", "--because", default="")
    audit: str | None = option("The audit; the newest if left out.", default=None)
    cause: str | None = option(
        "Reject without an audit: guardrail_breach, falsifier_met, rollback, exploit or "
        "phase_rule.",
        default=None,
    )
    evidence: Sequence[str] = option("What it rests on.", "--evidence", default=(), many=True)


def _decide_question(request: DecideRequest) -> Question | None:
    # An agent's accept is a proposal, which needs nobody; a person proves to be one.
    if request.verdict not in ("accept", "keep") or request.who.kind != "human":
        return None
    name = request.open().name
    return Question(
        f"{request.verdict.capitalize()} {request.candidate} as the incumbent of {name}? "
        f"Because: {request.because}",
        request.terminal_command("decide", request.candidate, request.verdict),
    )


@study_verb(DecideRequest, question=_decide_question)
def decide(request: DecideRequest) -> Decided:
    """Record a decision that cites evidence; to accept or keep, a person types a code."""
    from telic.studies.deciding import decide as record

    return record(
        request.open().ledger,
        request.candidate,
        request.verdict,
        request.consent.actor if request.consent else request.who,
        request.because,
        evidence=request.evidence,
        audit=request.audit,
        cause=request.cause,
    )


@study_verb(DecideRequest)
def propose_decision(request: DecideRequest) -> Decided:
    """Record a decision that cites evidence; an accept stays a proposal until a person agrees.

    To have a person accept, keep or revert, call request_decision.
    """
    about = [x for x in request.open().events if x.subject == request.candidate]
    if about and about[-1].type == "decision.proposed":
        last = about[-1].data
        if (last.get("verdict"), last.get("reason")) == (request.verdict, request.because):
            return Decided(
                candidate=request.candidate,
                verdict=request.verdict,
                recorded=False,
                why="It is proposed already.",
            )
    return decide.do(request)


class RevertRequest(PersonRequest):
    """A candidate to take back."""

    candidate: str = argument(_NAME)
    because: str = option("Why; kept with the decision.", "--because", default="")
    to: str | None = option("Whom to trust again; the one before.", default=None)
    evidence: Sequence[str] = option("What it rests on.", "--evidence", default=(), many=True)


def _revert_question(request: RevertRequest) -> Question | None:
    if request.who.kind != "human":
        return None
    return Question(
        f"Revert {request.candidate} in {request.open().name}? Because: {request.because}",
        request.terminal_command("revert", request.candidate, "--because", request.because),
    )


@study_verb(RevertRequest, question=_revert_question)
def revert(request: RevertRequest) -> Decided:
    """Take an accepted candidate back; a person has to say so in a terminal."""
    from telic.studies.deciding import revert as take_back

    actor = request.consent.actor if request.consent else request.who
    return take_back(
        request.open().ledger,
        request.candidate,
        actor,
        request.because,
        to=request.to,
        evidence=request.evidence,
    )


class PersonDecisionRequest(PersonRequest):
    """A decision that only people make."""

    candidate: str = argument(_NAME)
    verdict: Literal["accept", "keep", "revert"] = argument("What the person is asked to agree to.")
    because: str = option("Why; kept in the ledger.")
    audit: str | None = option("The newest if left out.", default=None)
    to: str | None = option("With revert: whom to trust again.", default=None)


def _person_question(request: PersonDecisionRequest) -> Question:
    words = ["decide", request.candidate, request.verdict]
    if request.verdict == "revert":
        words = ["revert", request.candidate]
    words += ["--because", request.because]
    words += ["--audit", request.audit] if request.audit else []
    words += ["--to", request.to] if request.to else []
    what = f"{request.verdict.capitalize()} {request.candidate} in {request.open().name}?"
    return Question(f"{what} Because: {request.because}", request.terminal_command(*words))


@study_verb(PersonDecisionRequest, question=_person_question)
def request_decision(request: PersonDecisionRequest) -> Decided:
    """Ask the person to accept a candidate as the incumbent, to keep it, or to take it back."""
    shared = {name: getattr(request, name) for name in _SHARED}
    if request.verdict == "revert":
        return revert.do(RevertRequest(request.candidate, to=request.to, **shared))
    return decide.do(
        DecideRequest(request.candidate, request.verdict, audit=request.audit, **shared)
    )


_SHARED = ("because", "root", "actor", "task", "study", "consent", "seen")
