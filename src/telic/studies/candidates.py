"""Candidates: draft, revise and withdraw them; every revision is kept in revisions/<n>/."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from telic.errors import BadFile, UnknownName
from telic.storage.files import plain, read_json, write_bytes, write_json
from telic.storage.reading import read_bytes
from telic.studies import git_read, lifecycle
from telic.studies.canonical import candidate_id, content_hash, next_number, utc_now
from telic.studies.documents.base import SYSTEM, StudyActor
from telic.studies.documents.candidate import Candidate, CandidateStatus
from telic.studies.documents.contract import (
    BASELINE_PHASES,
    LEAST_SEEDS,
    ROLES,
    Contract,
    Phase,
)
from telic.studies.errors import GateRefused, InvalidDocument, StudyError
from telic.studies.folder import StudyFolder
from telic.studies.state import CandidateState

if TYPE_CHECKING:
    from telic.studies.study import Study

PATCH_NAME = "patch.diff"
FILES = "files"
AUTHORED = (
    "kind",
    "parents",
    "hypothesis",
    "change",
    "base_commit",
    "evidence_refs",
    "reflection_ref",
    "dr_probe_ref",
    "replicate_of",
    "invariants",
    "plan",
    "isolation",
    "origin",
    "curriculum",
)
"""what an author may write; everything else is kept by the system"""
_INVARIANTS = ({"check": "metric_untouched"}, {"check": "eval_untouched"})
_REVISABLE = (CandidateStatus.DRAFT, CandidateStatus.VALIDATED, CandidateStatus.DEBUG)


def new_candidate(
    study: Study,
    title: str,
    draft: Mapping[str, Any],
    actor: StudyActor,
    attached: Mapping[str, bytes] | None = None,
) -> Candidate:
    """Create a draft from what an author wrote; raises InvalidDocument when it is not valid.

    `attached` are files by their name in the folder of the revision: the patch is PATCH_NAME, the
    new content of a file of the repository is FILES/path.
    """
    folder, contents = study.folder, attached or {}
    check_authored(draft)
    head = git_read.head_commit(folder.root) if study.is_git else None
    with study.locked():
        values = _filled(_attached(draft, contents), study, head, actor.name)
        there = [each.name for each in folder.candidates.glob("c-*")]
        name = candidate_id(next_number([*study.state.candidates, *there]), title)
        record = _write(folder, name, 1, values, actor, contents)
        facts = {"title": title, "kind": record.kind, "parents": list(record.parents)}
        lifecycle.create(study, name, actor, {**facts, **_hashes(record)})
    return study.candidate(name)


def revise_candidate(
    study: Study,
    candidate: str,
    changes: Mapping[str, Any],
    actor: StudyActor,
    *,
    base_revision: int | None = None,
    attached: Mapping[str, bytes] | None = None,
) -> Candidate:
    """Write a new revision with some parts replaced; the earlier revisions stay.

    Of change, hypothesis, plan and isolation only the keys that are given are replaced; a patch
    is dropped by `patch: null`, attached files by `files: []`.

    A validated candidate becomes a draft again, one in debug uses up an attempt. Raises StudyError
    E_REVISION when it was revised since `base_revision`.
    """
    check_authored(changes)
    with study.locked():
        before, held = study.candidate(candidate), study.candidate_state(candidate)
        _require_revisable(candidate, held, actor, base_revision)
        kept = {k: v for k, v in before.as_data().items() if k in AUTHORED}
        kept_files = _files_kept(before, study.candidate_folder(candidate), changes)
        contents = {**kept_files, **(attached or {})}
        values = _attached({**kept, **_merged(kept, changes)}, contents)
        revised = _write(study.folder, candidate, held.revision + 1, values, actor, contents)
        facts = {"base_revision": held.revision, **_hashes(revised)}
        if held.status == CandidateStatus.DEBUG:
            reason = "mended after it failed"
            lifecycle.transition(study, candidate, CandidateStatus.DRAFT, actor, reason, facts)
        else:
            if held.status == CandidateStatus.VALIDATED:
                to, changed = CandidateStatus.DRAFT, {"changed": ["content_hash"]}
                lifecycle.transition(study, candidate, to, SYSTEM, "it is being revised", changed)
            study.append("candidate.revised", candidate, facts, actor)
    return study.candidate(candidate)


def withdraw(study: Study, candidate: str, actor: StudyActor, reason: str) -> None:
    """Give up an idea that was never tried; one that is being tried goes to debug.

    Raises GateRefused E_RUN_LIVE while a run of it is under way.
    """
    with study.locked():
        status = study.candidate_state(candidate).status
        if status in (CandidateStatus.DRAFT, CandidateStatus.VALIDATED):
            lifecycle.transition(study, candidate, CandidateStatus.REJECTED, actor, reason)
            return
        if status != CandidateStatus.LAUNCHED:
            raise GateRefused(
                "E_TRANSITION",
                f"{candidate} is {status}: what was tried is decided on, not withdrawn.",
                hint=f"telic study decide {candidate} reject --because TEXT",
            )
        runs = study.state.runs_of(candidate).items()
        if live := [name for name, run in runs if run.is_live]:
            raise GateRefused(
                "E_RUN_LIVE",
                f"{', '.join(live)} of {candidate} still runs.",
                hint=f"Wait for it, or stop it: telic study run --stop {live[0]}",
            )
        if not reason:
            raise GateRefused("E_REASON", "A reason is needed.", hint="Add --because TEXT.")
        why = f"{actor.label} withdrew it while it was tried: {reason}"
        lifecycle.transition(study, candidate, CandidateStatus.DEBUG, SYSTEM, why)


def _require_revisable(
    candidate: str, held: CandidateState, actor: StudyActor, base_revision: int | None
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


def _write(
    folder: StudyFolder,
    name: str,
    revision: int,
    values: Mapping[str, Any],
    actor: StudyActor,
    contents: Mapping[str, bytes],
) -> Candidate:
    """Write a revision's folder; one that exists already was never entered in the ledger."""
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
    record = Candidate.parse({**values, **system}, "The draft")
    record = record.model_copy(update={"content_hash": record.compute_hash()})
    path = folder.candidate_file(name, revision)
    for file, content in contents.items():
        write_bytes(_inside(path.parent, file), content)
    write_json(path, record.file_data())
    return record


def _attached(draft: Mapping[str, Any], contents: Mapping[str, bytes]) -> dict[str, Any]:
    """Describe the attached files in `change`, with their hashes."""
    if "change" not in draft and not contents:
        return dict(draft)
    change: dict[str, Any] = {**plain(draft.get("change") or {})}
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
    change: Mapping[str, Any] = changes.get("change") or {}
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


def _hashes(record: Candidate) -> dict[str, Any]:
    return {
        "revision": record.revision,
        "content_hash": record.content_hash,
        "record_hash": content_hash(record.file_data()),
    }


# ---------------------------------------------------------------------------- drafts


def check_authored(draft: Mapping[str, Any]) -> None:
    """Refuse keys that only the system may write; raises InvalidDocument E_DRAFT."""
    foreign = [key for key in draft if key not in AUTHORED and not key.startswith("x-")]
    if foreign:
        raise InvalidDocument(
            "E_DRAFT",
            f"A draft cannot set {', '.join(sorted(foreign))}.",
            hint=f"It may set {', '.join(AUTHORED)}.",
        )


def _filled(
    draft: Mapping[str, Any], study: Study, head_commit: str | None, engine: str
) -> dict[str, Any]:
    """Return the draft with defaults for what it leaves out."""
    out, contract = dict(draft), study.contract
    is_baseline = out.get("kind") == "baseline"
    if is_baseline:
        _fill_baseline(out, contract)
    elif "parents" not in out:
        out["parents"] = [study.incumbent.candidate] if study.incumbent else []
    out.setdefault("invariants", list(_INVARIANTS))
    out.setdefault("origin", {"engine": engine})
    if head_commit is not None:
        out.setdefault("base_commit", head_commit)
    change: Mapping[str, Any] = out.get("change") or {}
    brings_files = bool(change.get("patch") or change.get("files"))
    out.setdefault("isolation", {"mode": "worktree" if brings_files else "in_place"})
    out["plan"] = _filled_plan(dict(out.get("plan") or {}), contract, is_baseline)
    return out


def _fill_baseline(out: dict[str, Any], contract: Contract) -> None:
    out.setdefault("parents", [])
    overrides = {path: {"from": to, "to": to} for path, to in contract.baseline.overrides.items()}
    out.setdefault("change", {"overrides": overrides})
    out.setdefault(
        "hypothesis",
        {
            "statement": "The repository as it is gives a level to measure others against.",
            "mechanism": "Nothing changes; several seeds show what luck alone does.",
            "falsifier": "A run does not finish, or the metric cannot be read from it.",
        },
    )


def _filled_plan(plan: dict[str, Any], contract: Contract, is_baseline: bool) -> dict[str, Any]:
    if is_baseline:
        plan.setdefault("phases", list(BASELINE_PHASES))
    phases: list[Phase] = list(plan.setdefault("phases", ["smoke", "short_trial", "promotion"]))
    seeds = dict(plan.get("seeds") or {})
    if is_baseline and contract.baseline.seeds:
        seeds.setdefault("incumbent_validation", list(contract.baseline.seeds))
    pools = {phase: contract.seeds.pool(role) for phase, role in ROLES.items()}
    for phase in phases:
        # Every candidate takes the first seeds of a pool, so that arms can be compared in pairs.
        seeds.setdefault(phase, sorted(pools.get(phase, ()))[: LEAST_SEEDS.get(phase, 1)])
    agreed: dict[str, Any] = contract.baseline.est.model_dump(exclude_none=True)
    own: dict[str, Any] = plan.get("est") or {}
    est = {**agreed, **own}
    if plan.get("steps") is None and contract.baseline.steps is not None:
        plan["steps"] = contract.baseline.steps
    if plan.get("steps"):
        steps = plan["steps"]
        runs = sum(contract.phase_share(phase, steps) * len(seeds[phase]) for phase in phases)
        est.setdefault("env_steps", round(steps * runs))
    return {**plan, "seeds": seeds, "est": est}


# ---------------------------------------------------------------------------- files


def read_candidate(folder: StudyFolder, candidate: str, revision: int) -> Candidate:
    """Return a revision as it is on disk; raises UnknownName, or InvalidDocument E_SCHEMA."""
    path = folder.candidate_file(candidate, revision)
    if not path.is_file():
        there = sorted(each.name for each in folder.candidates.glob("*"))
        raise UnknownName("candidate", candidate, there, see="telic study status candidates")
    return Candidate.parse(read_json(path), str(path))


def files_of(record: Candidate, folder: Path) -> dict[str, bytes]:
    """Return the content of the files attached to a candidate, from its revision's folder."""
    names = [f"{FILES}/{each.path}" for each in record.change.files]
    names += [record.change.patch] if record.change.patch else []
    return {name: _read(_inside(folder, name)) for name in names}


def _inside(folder: Path, name: str) -> Path:
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()):
        raise InvalidDocument("E_DRAFT", f"{name} leaves the candidate's folder.")
    return path


def _read(path: Path) -> bytes:
    try:
        return read_bytes(path)
    except BadFile as error:
        raise InvalidDocument("E_DRAFT", error.message, hint=error.hint) from None
