"""Propose and decide on candidates. Each is one bounded change; only people can accept one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, Field

from telic.core.config import Record
from telic.core.request import argument, option
from telic.core.text import texts
from telic.core.verb import Question, verb
from telic.storage.files import as_record
from telic.storage.reading import read_text
from telic.studies.approvals import change_diff
from telic.studies.candidates import FILES, PATCH_NAME, new_candidate, revise_candidate, withdraw
from telic.studies.decide import DecisionOutcome
from telic.studies.decide import decide_candidate as record_decision
from telic.studies.documents.base import read_yaml
from telic.studies.documents.candidate import Candidate, Change, Hypothesis
from telic.studies.documents.contract import CandidateKind
from telic.studies.errors import StudyError
from telic.studies.queue import more_seeds
from telic.studies.rules.checks import ValidationOutcome, outcome_of, validate_candidate
from telic.studies.study import Study
from telic.verbs.study import CANDIDATE, PersonRequest, StudyRequest

# ---------------------------------------------------------------------------- proposals


class CandidateDraft(Record):
    """Candidate as written by an author. Missing fields are filled in from the contract."""

    model_config = ConfigDict(json_schema_extra={"additionalProperties": False})

    title: str | None = Field(default=None, description="Short title, used in the id.")
    kind: CandidateKind | None = None
    hypothesis: Hypothesis | None = Field(
        default=None, description="Prediction with a reason and a falsifying condition."
    )
    change: Change | None = Field(
        default=None, description="Changed parameters by path, each as {from, to}."
    )
    patch: str | None = Field(default=None, description="Unified diff against the base commit.")
    files: dict[str, str] = Field(default={}, description="New files by path in the repository.")
    parents: tuple[str, ...] | None = None
    evidence_refs: tuple[str, ...] | None = Field(default=None, description="Motivating evidence.")
    reflection_ref: str | None = None
    dr_probe_ref: str | None = None
    replicate_of: str | None = None
    plan: dict[str, Any] | None = Field(
        default=None, description="Phases, seeds per phase, steps, and estimated cost (`est`)."
    )
    curriculum: dict[str, Any] | None = None

    def authored(self) -> dict[str, Any]:
        """Return the candidate's fields that the request sets."""
        return self.model_dump(mode="json", exclude_unset=True, exclude={"title", "patch", "files"})

    def contents(self) -> dict[str, bytes]:
        """Return the attached files by their name in the candidate's folder."""
        contents = {f"{FILES}/{path}": text.encode() for path, text in self.files.items()}
        return contents if self.patch is None else {**contents, PATCH_NAME: self.patch.encode()}


def read_draft(words: Any, flag: str) -> CandidateDraft:
    """Return the draft in a YAML or JSON file named on the command line."""
    values: Any = read_yaml(Path(str(words)))
    return as_record(values, CandidateDraft, str(words))


class ProposeRequest(StudyRequest):
    """Request to write a candidate."""

    draft: CandidateDraft = argument(
        "YAML file of the candidate. Missing fields are taken from the contract.",
        read=read_draft,
        metavar="DRAFT",
    )
    revise: str | None = option("Candidate to revise. Earlier revisions are kept.", default=None)
    patch: Path | None = option("Unified diff against the base commit.", default=None)
    files: Sequence[str] = option(
        "New file, as path/in/repository=FILE. Repeatable.", "--file", default=(), many=True
    )

    def complete(self) -> CandidateDraft:
        """Return the draft with the patch and files that the options specify."""
        given = {path: read_text(Path(file)) for path, file in texts(self.files, "--file").items()}
        patch = {} if self.patch is None else {"patch": read_text(self.patch)}
        more = {**patch, **({"files": {**self.draft.files, **given}} if given else {})}
        return self.draft.model_copy(update=more)


_EXAMPLES = """
telic study propose idea.yaml
telic study propose idea.yaml --patch change.diff
telic study propose better.yaml --revise c-0003-more-tracking
"""


@verb(ProposeRequest, examples=_EXAMPLES, exit_code=lambda found: 0 if found.ok else 4)
def propose(request: ProposeRequest) -> ValidationOutcome:
    """Write a candidate and run the checks V01 to V16. Exits with code 4 if a check fails.

    A draft has a title, kind, hypothesis, change, evidence_refs and plan. A candidate can be
    revised until it passes all checks.
    """
    study = request.open()
    name = _write(study, request).id
    try:
        return validate_candidate(study, name)
    except StudyError as error:  # without a contract the draft is kept and checked later
        return outcome_of(study, name, (), str(error))


def _write(study: Study, request: ProposeRequest) -> Candidate:
    """Write the requested candidate or revision."""
    draft, revised = request.complete(), request.revise
    values, contents = draft.authored(), draft.contents()
    if revised is None:
        title = draft.title or draft.kind or "candidate"
        return new_candidate(study, title, values, request.by, contents)
    return revise_candidate(study, revised, values, request.by, attached=contents)


# ---------------------------------------------------------------------------- decisions

_BY_PEOPLE = ("accept", "keep", "revert")


class DecideRequest(PersonRequest):
    """Request to decide on a candidate."""

    candidate: str = argument(CANDIDATE)
    verdict: Literal[
        "accept", "reject", "inconclusive", "debug", "keep", "revert", "withdraw", "more-seeds"
    ] = argument(
        "accept, reject, inconclusive, debug, keep, revert (if accepted), withdraw (if untested) "
        "or more-seeds."
    )
    because: str = option("Reason to record.", "--because", default="")
    audit: str | None = option("Audit. Default: the latest.", default=None)
    cause: str | None = option(
        "Cause of a rejection without an audit: guardrail_breach, falsifier_met, rollback, "
        "exploit or phase_rule.",
        default=None,
    )
    to: str | None = option("Incumbent to restore when reverting.", default=None)
    evidence: Sequence[str] = option("Evidence to cite.", "--evidence", default=(), many=True)


def _decide_question(request: DecideRequest) -> Question | None:
    # An agent's accept is only a proposal and needs no code; a person must confirm with one.
    is_personal = request.asks or request.by.kind == "human"
    if request.verdict not in _BY_PEOPLE or not is_personal:
        return None
    words = ["decide", request.candidate, request.verdict, "--because", request.because]
    words += ["--audit", request.audit] if request.audit else []
    words += ["--to", request.to] if request.to else []
    study = request.open()
    what = f"{request.verdict.capitalize()} {request.candidate} in {study.name}?"
    diff = change_diff(study, request.candidate)
    text = f"It changes:\n{diff}\n{what} Because: {request.because!r}"
    return Question(text, request.terminal_command(*words))


@verb(DecideRequest, question=_decide_question)
def decide(request: DecideRequest) -> DecisionOutcome:
    """Record a decision with evidence. A person must confirm `accept`, `keep` and `revert`.

    If an agent decides `accept`, `keep` or `revert`, the decision is only a proposal.
    """
    study, name, because = request.open(), request.candidate, request.because
    is_unproven = request.verdict in _BY_PEOPLE and request.by.kind == "human"
    is_person = request.consent is not None or is_unproven
    actor = request.person.actor if is_person else request.by
    match request.verdict:
        case "withdraw":
            withdraw(study, name, request.by, because)
        case "more-seeds":
            more_seeds(study, name, request.by, because)
        case verdict:
            return record_decision(
                study,
                name,
                verdict,
                actor,
                because,
                evidence=request.evidence,
                audit=request.audit,
                cause=request.cause,
                to=request.to,
            )
    trusted = None if study.incumbent is None else study.incumbent.candidate
    return DecisionOutcome(
        candidate=name, verdict=request.verdict, recorded=True, incumbent=trusted, why=because
    )
