"""Tools by which an agent writes candidates; the same request again makes nothing twice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from telic.core.config import Record
from telic.mcp.adding import RECORDS, Server, add_tool
from telic.mcp.workplace import (
    Because,
    Call,
    CandidateName,
    RequestKey,
    Study,
    Task,
    caller,
    study_of,
)
from telic.storage.files import read_json
from telic.studies import candidates
from telic.studies.candidates import (
    FILES,
    PATCH_NAME,
    Attachments,
    revision_folder,
)
from telic.studies.documents.base import Actor
from telic.studies.documents.candidate import Candidate, CandidateStatus, Change, Hypothesis, Plan
from telic.studies.documents.contract import CandidateKind
from telic.studies.study import Study as OpenStudy

_KEY = "x-request-key"


class Draft(Record):
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


class Drafted(Record):
    """A candidate that was written; get_candidate shows all of it."""

    id: str
    revision: int
    status: CandidateStatus
    content_hash: str | None


@dataclass(frozen=True)
class _Texts(Attachments):
    """Files whose content came in the request."""

    texts: Mapping[str, str] = field(default_factory=dict[str, str])

    def contents(self) -> dict[str, bytes]:
        return {name: text.encode() for name, text in self.texts.items()}


def register(server: Server) -> None:
    """Add the tools."""
    for tool in (draft_candidate, revise_candidate, withdraw_candidate):
        add_tool(server, tool, RECORDS)


def draft_candidate(
    call: Call, draft: Draft, key: RequestKey = None, task: Task = None, study: Study = None
) -> Drafted:
    """Write a new draft: one bounded change that can be shown wrong. kind baseline needs no more.

    Next: validate_candidate.
    """
    return _drafted(make_candidate(study_of(call, task, study), draft, caller(call), key))


def revise_candidate(
    call: Call,
    candidate: CandidateName,
    draft: Draft,
    base_revision: Annotated[
        int | None, Field(description="The revision you changed; refused if it is not the last.")
    ] = None,
    key: RequestKey = None,
    task: Task = None,
    study: Study = None,
) -> Drafted:
    """Write a new revision of a draft, or mend a candidate in debug; earlier revisions stay."""
    opened = study_of(call, task, study)
    return _drafted(mend_candidate(opened, candidate, draft, caller(call), key, base_revision))


def withdraw_candidate(
    call: Call, candidate: CandidateName, because: Because, task: Task = None, study: Study = None
) -> Drafted:
    """Give up an idea that was never tried."""
    opened = study_of(call, task, study)
    candidates.withdraw(opened, candidate, caller(call), because)
    return _drafted(opened.candidate(candidate))


def make_candidate(
    opened: OpenStudy,
    draft: Draft,
    actor: Actor,
    key: str | None,
    origin: dict[str, Any] | None = None,
) -> Candidate:
    """Return the candidate that a request made, or make it."""
    with opened.locked():
        for name in opened.state.candidates if key is not None else ():
            if _key_of(opened, name, 1) == key:
                return opened.candidate(name)
        title = draft.title or draft.kind or "candidate"
        values = {**draft.authored(), **_marked(key)}
        if origin is not None:
            values["origin"] = origin
        return candidates.new_candidate(opened, title, values, actor, draft.attachments())


def mend_candidate(
    opened: OpenStudy,
    candidate: str,
    draft: Draft,
    actor: Actor,
    key: str | None,
    base_revision: int | None = None,
) -> Candidate:
    """Return the revision that a request wrote, or write it."""
    with opened.locked():
        held = opened.candidate(candidate)
        if key is not None and _key_of(opened, candidate, held.revision) == key:
            return held
        return candidates.revise_candidate(
            opened,
            candidate,
            {**draft.authored(), **_marked(key)},
            actor,
            base_revision=base_revision,
            attachments=draft.attachments(),
        )


def _drafted(made: Candidate) -> Drafted:
    return Drafted(
        id=made.id, revision=made.revision, status=made.status, content_hash=made.content_hash
    )


def _marked(key: str | None) -> dict[str, Any]:
    return {} if key is None else {_KEY: key}


def _key_of(opened: OpenStudy, candidate: str, revision: int) -> str | None:
    """Return the key of the request that wrote a revision."""
    path = revision_folder(opened.folder, candidate, revision) / "candidate.json"
    return read_json(path).get(_KEY) if path.is_file() else None
