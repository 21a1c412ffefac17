"""What is done with candidates: make one, revise it, withdraw it."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from telic.storage.files import plain
from telic.studies import git_read, lifecycle
from telic.studies.candidate_files import (
    FILES,
    PATCH_NAME,
    Attachments,
    candidate_ids,
    current_candidate,
    files_of,
    keep_revision,
    known,
    read_candidate,
    show_revision,
)
from telic.studies.clock import utc_now
from telic.studies.documents.base import SYSTEM, Actor
from telic.studies.documents.candidate import Candidate, CandidateStatus
from telic.studies.drafting import AUTHORED, check_authored, filled
from telic.studies.errors import GateRefused, InvalidDocument, StudyError
from telic.studies.folder import StudyFolder
from telic.studies.ledger import Ledger
from telic.studies.names import candidate_id, next_number
from telic.studies.state import CandidateState

_REVISABLE = (CandidateStatus.DRAFT, CandidateStatus.VALIDATED, CandidateStatus.DEBUG)


def new_candidate(
    ledger: Ledger,
    title: str,
    draft: Mapping[str, Any],
    actor: Actor,
    attachments: Attachments | None = None,
) -> Candidate:
    """Make a draft from what an author wrote; raises InvalidDocument when it cannot be one."""
    folder = ledger.folder
    check_authored(draft)
    contents = (attachments or Attachments()).contents()
    head = git_read.head_commit(folder.root) if git_read.is_repository(folder.root) else None
    with ledger.locked():
        state = ledger.state()
        values = filled(_attached(draft, contents), folder.read_contract(), state, head, actor.name)
        name = candidate_id(next_number([*state.candidates, *candidate_ids(folder)]), title)
        made = _document(folder, name, 1, values, actor)
        keep_revision(folder, made, contents)
        facts = {"title": title, "kind": made.kind, "parents": list(made.parents)}
        lifecycle.create(folder, name, actor, {**facts, **_hashes(made)})
        show_revision(ledger, name)
    return read_candidate(folder, name)


def revise_candidate(
    ledger: Ledger,
    candidate: str,
    changes: Mapping[str, Any],
    actor: Actor,
    *,
    base_revision: int | None = None,
    attachments: Attachments | None = None,
) -> Candidate:
    """Write a new revision with some parts replaced; the earlier revisions stay.

    Of change, hypothesis, plan and isolation only the keys that are given are replaced; a patch
    is dropped by `patch: null`, brought files by `files: []`.

    A candidate that was validated becomes a draft again, one in debug uses up an attempt. Raises
    StudyError E_REVISION when somebody else revised it since `base_revision`.
    """
    folder = ledger.folder
    check_authored(changes)
    contents = (attachments or Attachments()).contents()
    with ledger.locked():
        before, held = current_candidate(ledger, candidate), known(ledger, candidate)
        _require_revisable(candidate, held, actor, base_revision)
        kept = {k: v for k, v in before.as_data().items() if k in AUTHORED}
        contents = _files_kept(before, folder.candidate(candidate), changes) | contents
        values = _attached({**kept, **_merged(kept, changes)}, contents)
        revised = _document(folder, candidate, held.revision + 1, values, actor)
        keep_revision(folder, revised, contents)
        facts = {"base_revision": held.revision, **_hashes(revised)}
        _record_revision(ledger, candidate, held, actor, facts)
        show_revision(ledger, candidate)
    return read_candidate(folder, candidate)


def withdraw(ledger: Ledger, candidate: str, actor: Actor, reason: str) -> None:
    """Give up an idea that was never tried."""
    known(ledger, candidate)
    lifecycle.transition(ledger.folder, candidate, CandidateStatus.REJECTED, actor, reason)


def _require_revisable(
    candidate: str, held: CandidateState, actor: Actor, base_revision: int | None
) -> None:
    if held.status not in _REVISABLE:
        raise GateRefused(
            "E_TRANSITION",
            f"{candidate} is {held.status} and is not changed any more.",
            hint="Make a child candidate that names it as a parent.",
        )
    if actor.kind not in ("human", "agent", "engine"):
        raise GateRefused("E_ACTOR", f"{actor.label} does not write candidates.")
    if base_revision is not None and base_revision != held.revision:
        raise StudyError(
            "E_REVISION",
            f"{candidate} is at revision {held.revision}; this change was made for revision "
            f"{base_revision}.",
            hint="Read it again and make the change to what it is now.",
        )


def _record_revision(
    ledger: Ledger, candidate: str, held: CandidateState, actor: Actor, facts: dict[str, Any]
) -> None:
    if held.status == CandidateStatus.DEBUG:
        reason = "mended after it failed"
        lifecycle.transition(
            ledger.folder, candidate, CandidateStatus.DRAFT, actor, reason, data=facts
        )
        return
    if held.status == CandidateStatus.VALIDATED:
        lifecycle.transition(
            ledger.folder,
            candidate,
            CandidateStatus.DRAFT,
            SYSTEM,
            "it is being revised",
            data={"changed": ["content_hash"]},
        )
    ledger.append("candidate.revised", candidate, facts, actor)


def _document(
    folder: StudyFolder, name: str, revision: int, values: Mapping[str, Any], actor: Actor
) -> Candidate:
    system = {
        "schema": "telic.candidate/1",
        "id": name,
        "revision": revision,
        "base_revision": revision - 1 if revision > 1 else None,
        "task_id": folder.task_id,
        "study_id": folder.study_id,
        "created_at": utc_now(),
        "created_by": actor.as_data(),
    }
    made = Candidate.parse({**values, **system}, "The draft")
    return made.model_copy(update={"content_hash": made.compute_hash()})


def _attached(draft: Mapping[str, Any], contents: Mapping[str, bytes]) -> dict[str, Any]:
    """Describe the files that come along in `change`, with their hashes."""
    if "change" not in draft and not contents:
        return dict(draft)
    change = dict(plain(draft.get("change") or {}))
    if PATCH_NAME in contents:
        change["patch"] = PATCH_NAME
        change["patch_sha256"] = sha256(contents[PATCH_NAME]).hexdigest()
    else:
        change.pop("patch_sha256", None)
    change["files"] = [
        {"path": name.removeprefix(f"{FILES}/"), "sha256": sha256(content).hexdigest()}
        for name, content in contents.items()
        if name.startswith(f"{FILES}/")
    ]
    if change.get("patch") and PATCH_NAME not in contents:
        raise InvalidDocument("E_DRAFT", "The draft names a patch, but none came with it.")
    return {**draft, "change": change}


def _files_kept(before: Candidate, folder: Path, changes: Mapping[str, Any]) -> dict[str, bytes]:
    """Return the files of the revision before that the new one does not drop."""
    change = changes.get("change") or {}
    drops_patch = "patch" in change and change["patch"] is None
    return {
        name: content
        for name, content in files_of(before, folder).items()
        if not (drops_patch if name == PATCH_NAME else "files" in change)
    }


def _merged(kept: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    out = dict(changes)
    for part in ("change", "hypothesis", "plan", "isolation"):
        if isinstance(out.get(part), Mapping):
            out[part] = {**(kept.get(part) or {}), **out[part]}
    return out


def _hashes(made: Candidate) -> dict[str, Any]:
    return {"revision": made.revision, "content_hash": made.content_hash}
