"""Write, check and decide about candidates: ideas that can be wrong, one bounded change each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pydantic import ConfigDict, Field

from telic.core.config import Record
from telic.core.request import argument, option
from telic.core.verb import Wrapped
from telic.studies.candidates import FILES, PATCH_NAME, Attachments
from telic.studies.documents.base import StudyActor
from telic.studies.documents.candidate import Candidate, CandidateStatus, Change, Hypothesis, Plan
from telic.studies.documents.contract import CandidateKind
from telic.studies.rules.change import SimilarCandidate
from telic.studies.rules.checks import ValidationOutcome
from telic.studies.state import CandidateState
from telic.studies.study import Study
from telic.verbs.study import CANDIDATE, StudyRequest, study_verb

_KEY = "x-request-key"


class CandidateDraft(Record):
    """A candidate as an author writes it; what is left open is filled in from the contract."""

    model_config = ConfigDict(json_schema_extra={"additionalProperties": False})

    title: str | None = Field(default=None, description="A few words; they become part of the id.")
    kind: CandidateKind | None = None
    hypothesis: Hypothesis | None = Field(
        default=None, description="What will happen, why, and what would show that it is wrong."
    )
    change: Change | None = Field(
        default=None, description="Parameters by path, each {from, to}; patches go to `patch`."
    )
    patch: str | None = Field(default=None, description="Unified diff against the base commit.")
    files: dict[str, str] = Field(default={}, description="New content by path in the repository.")
    parents: tuple[str, ...] | None = None
    evidence_refs: tuple[str, ...] | None = Field(default=None, description="What motivated it.")
    reflection_ref: str | None = None
    dr_probe_ref: str | None = None
    replicate_of: str | None = None
    plan: Plan | None = Field(default=None, description="Phases, seeds, steps and the estimate.")
    curriculum: dict[str, Any] | None = None

    def authored(self) -> dict[str, Any]:
        """Return the parts of the candidate that were given."""
        given = self.model_dump(mode="json", exclude_unset=True)
        return {k: v for k, v in given.items() if k not in ("title", "patch", "files")}

    def attachments(self) -> Attachments:
        """Return the files that come along."""
        texts = {f"{FILES}/{path}": text for path, text in self.files.items()}
        if self.patch is not None:
            texts[PATCH_NAME] = self.patch
        return _Texts(texts=texts)


@dataclass(frozen=True)
class _Texts(Attachments):
    """Files whose content came in the request."""

    texts: Mapping[str, str] = field(default_factory=dict[str, str])

    def contents(self) -> dict[str, bytes]:
        return {name: text.encode() for name, text in self.texts.items()}


class DraftedCandidate(Record):
    """A candidate that was written; get_candidate shows all of it."""

    id: str
    revision: int
    status: CandidateStatus
    content_hash: str | None


def drafted(candidate: Candidate) -> DraftedCandidate:
    """Return what an author has to know of what they wrote."""
    return DraftedCandidate(
        id=candidate.id,
        revision=candidate.revision,
        status=candidate.status,
        content_hash=candidate.content_hash,
    )


# ---------------------------------------------------------------------------- writing


class DraftRequest(StudyRequest):
    """A new idea."""

    draft: CandidateDraft = argument("The candidate; what is left out comes from the contract.")
    key: str | None = option(
        "A name of your own for this request: sent again, it does nothing twice.", default=None
    )


@study_verb(DraftRequest)
def draft_candidate(request: DraftRequest) -> DraftedCandidate:
    """Write a new draft: one bounded change that can be shown wrong. kind baseline needs no more.

    Next: validate_candidate.
    """
    study = request.open()
    return drafted(make_candidate(study, request.draft, request.who, request.key))


class ReviseRequest(StudyRequest):
    """A candidate to change."""

    candidate: str = argument(CANDIDATE)
    draft: CandidateDraft = argument("What changes.")
    base_revision: int | None = option(
        "The revision you changed; refused if it is not the last.", default=None
    )
    key: str | None = option(
        "A name of your own for this request: sent again, it does nothing twice.", default=None
    )


@study_verb(ReviseRequest)
def revise_candidate(request: ReviseRequest) -> DraftedCandidate:
    """Write a new revision of a draft, or mend a candidate in debug; earlier revisions stay."""
    return drafted(
        mend_candidate(
            request.open(),
            request.candidate,
            request.draft,
            request.who,
            request.key,
            request.base_revision,
        )
    )


def make_candidate(
    study: Study,
    draft: CandidateDraft,
    actor: StudyActor,
    key: str | None,
    origin: dict[str, Any] | None = None,
) -> Candidate:
    """Return the candidate that a request made, or make it."""
    from telic.studies.candidates import new_candidate

    with study.locked():
        for name in study.state.candidates if key is not None else ():
            if _key_of(study, name, 1) == key:
                return study.candidate(name)
        title = draft.title or draft.kind or "candidate"
        values = {**draft.authored(), **_marked(key)}
        if origin is not None:
            values["origin"] = origin
        return new_candidate(study, title, values, actor, draft.attachments())


def mend_candidate(
    study: Study,
    candidate: str,
    draft: CandidateDraft,
    actor: StudyActor,
    key: str | None,
    base_revision: int | None = None,
) -> Candidate:
    """Return the revision that a request wrote, or write it."""
    from telic.studies import candidates

    with study.locked():
        current = study.candidate(candidate)
        if key is not None and _key_of(study, candidate, current.revision) == key:
            return current
        return candidates.revise_candidate(
            study,
            candidate,
            {**draft.authored(), **_marked(key)},
            actor,
            base_revision=base_revision,
            attachments=draft.attachments(),
        )


def _marked(key: str | None) -> dict[str, Any]:
    return {} if key is None else {_KEY: key}


def _key_of(study: Study, candidate: str, revision: int) -> str | None:
    """Return the key of the request that wrote a revision."""
    from telic.storage.files import read_table

    path = study.folder.candidate_file(candidate, revision)
    return read_table(path).get(_KEY) if path.is_file() else None


class WithdrawRequest(StudyRequest):
    """An idea to give up."""

    candidate: str = argument(CANDIDATE)
    because: str = option("Why.", default="")


class WithdrawnCandidate(NamedTuple):
    """An idea that was given up."""

    candidate: Candidate

    def as_data(self) -> dict[str, str]:
        """Return the name, and what it is now."""
        return {"candidate": self.candidate.id, "status": "rejected"}


@study_verb(WithdrawRequest)
def withdraw(request: WithdrawRequest) -> WithdrawnCandidate:
    """Give up an idea that was never tried."""
    from telic.studies.candidates import withdraw as give_up

    study = request.open()
    give_up(study, request.candidate, request.who, request.because)
    return WithdrawnCandidate(study.candidate(request.candidate))


@study_verb(WithdrawRequest)
def withdraw_candidate(request: WithdrawRequest) -> DraftedCandidate:
    """Give up an idea that was never tried."""
    return drafted(withdraw.do(request).candidate)


# ---------------------------------------------------------------------------- looking


class CandidateRequest(StudyRequest):
    """One candidate."""

    candidate: str = argument(CANDIDATE)


@study_verb(CandidateRequest)
def get_candidate(request: CandidateRequest) -> Candidate:
    """Show one candidate: its hypothesis, change, plan, and how its checks went."""
    return request.open().candidate(request.candidate)


class ShowRequest(StudyRequest):
    """One candidate, or all."""

    candidate: str | None = argument("Candidate; all of them if left out.", default=None)


@dataclass(frozen=True)
class CandidateTable(Wrapped):
    """All candidates by name."""

    candidates: dict[str, CandidateState]


@study_verb(ShowRequest)
def show(request: ShowRequest) -> Candidate | CandidateTable:
    """Show one candidate, or a table of all."""
    study = request.open()
    if request.candidate is None:
        return CandidateTable(study.state.candidates)
    return study.candidate(request.candidate)


class CandidateLine(Record):
    """A candidate in a list."""

    id: str
    candidate: CandidateState


class CandidateList(Record):
    """Candidates of a study, the oldest first."""

    candidates: tuple[CandidateLine, ...]
    left_out: int


class ListRequest(StudyRequest):
    """Which candidates to list."""

    status: str | None = option("Only those with this status.", default=None)
    limit: int = option("At most so many, the newest.", default=100, minimum=1, maximum=1000)


@study_verb(ListRequest)
def list_candidates(request: ListRequest) -> CandidateList:
    """List candidates with their status, phase, kind and parents."""
    lines = [
        CandidateLine(id=name, candidate=candidate)
        for name, candidate in request.open().state.candidates.items()
        if request.status in (None, candidate.status)
    ]
    left_out = max(0, len(lines) - request.limit)
    return CandidateList(candidates=tuple(lines[-request.limit :]), left_out=left_out)


class SimilarCandidates(Wrapped, Record):
    """Earlier candidates, the most alike first."""

    similar: tuple[SimilarCandidate, ...]


@study_verb(CandidateRequest)
def similar(request: CandidateRequest) -> SimilarCandidates:
    """Show earlier candidates that resemble this one, and what became of them."""
    from telic.studies.rules.change import similar_candidates

    return SimilarCandidates(similar=tuple(similar_candidates(request.open(), request.candidate)))


class ValidatedCandidate(Record):
    """How the checks V01 to V16 went."""

    ok: bool
    outcome: ValidationOutcome

    def as_data(self) -> dict[str, Any]:
        """Return the outcome, with whether all passed."""
        return {**self.outcome.as_data(), "ok": self.ok}


@study_verb(CandidateRequest, exit_code=lambda found: 0 if found.ok else 4)
def validate(request: CandidateRequest) -> ValidatedCandidate:
    """Run the checks V01 to V16 and freeze the candidate when all pass. Exit code 4 if not."""
    from telic.studies.rules.checks import validate_candidate

    outcome = validate_candidate(request.open(), request.candidate)
    return ValidatedCandidate(ok=outcome.ok, outcome=outcome)
