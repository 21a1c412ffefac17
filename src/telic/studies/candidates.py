"""Create, revise and withdraw candidates, and change their status.

Every revision is kept in revisions/<n>/.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from telic.errors import BadFile, UnknownName
from telic.storage.files import plain, read_json, write_bytes, write_json
from telic.storage.journal import JournalEntry
from telic.storage.reading import read_bytes
from telic.studies import _git_read as git_read
from telic.studies.canonical import candidate_id, content_hash, next_number, utc_now
from telic.studies.documents.base import SYSTEM, StudyActor
from telic.studies.documents.candidate import Candidate, CandidateStatus
from telic.studies.documents.contract import BASELINE_PHASES, MIN_SEEDS, ROLES, Contract
from telic.studies.errors import GateRefused, InvalidDocument, StudyError
from telic.studies.folder import StudyFolder

if TYPE_CHECKING:
    from telic.studies.study import Study

PATCH_NAME = "patch.diff"
FILES = "files"
_AUTHORED = (
    *("kind", "parents", "hypothesis", "change", "base_commit", "evidence_refs", "reflection_ref"),
    *("dr_probe_ref", "replicate_of", "plan", "isolation", "origin", "curriculum"),
)
"""fields that authors may set. All others are managed by telic."""
_BASELINE = {
    "statement": "The unchanged repository provides a reference level.",
    "mechanism": "Nothing changes, and several seeds show the variation due to chance.",
    "falsifier": "A run does not finish, or its metric cannot be read.",
}


def new_candidate(
    study: Study,
    title: str,
    draft: Mapping[str, Any],
    actor: StudyActor,
    attached: Mapping[str, bytes] | None = None,
) -> Candidate:
    """Create a candidate from an author's draft, or raise InvalidDocument.

    `attached` maps names in the revision folder to contents: PATCH_NAME contains the patch, and
    FILES/path contains the new version of a repository file.
    """
    folder, contents = study.folder, attached or {}
    _check_authored(draft)
    with study.locked():
        if actor.kind not in ("agent", "human", "engine"):
            raise refused("The draft", "(new)", S.DRAFT, f"{actor.kind} may not do this")
        if study.state.study_status != "open":
            why = f"the study is {study.state.study_status}"
            raise refused("The draft", "(new)", S.DRAFT, why)
        values = _with_defaults(_attach(draft, contents), study, actor.name)
        there = [each.name for each in folder.candidates.glob("c-*")]
        name = candidate_id(next_number([*study.state.candidates, *there]), title)
        record = _write(folder, name, 1, values, actor, contents)
        facts = {"title": title, "kind": record.kind, "parents": list(record.parents)}
        facts |= {**_hashes(record), "to": S.DRAFT}
        study.append("candidate.created", name, facts, actor)
    return study.candidate(name)


def revise_candidate(
    study: Study,
    candidate: str,
    changes: Mapping[str, Any],
    actor: StudyActor,
    *,
    attached: Mapping[str, bytes] | None = None,
) -> Candidate:
    """Write a new revision with some parts replaced. Earlier revisions are kept.

    In change, hypothesis, plan and isolation, only the given keys are replaced. `patch: null`
    removes the patch, and `files: []` removes the attached files.

    A validated candidate becomes a draft again. A revision in debug uses up a repair attempt.
    """
    _check_authored(changes)
    with study.locked():
        before, held = study.candidate(candidate), study.candidate_state(candidate)
        is_debug, is_valid = (held.status == x for x in (S.DEBUG, S.VALIDATED))
        most = study.state.automation.max_debug_attempts
        if held.status != CandidateStatus.DRAFT and not is_debug and not is_valid:
            raise GateRefused(
                "E_TRANSITION",
                f"{candidate} is {held.status} and can no longer be changed.",
                hint="Create a child candidate that lists it as a parent.",
            )
        if is_debug and held.debug_attempts >= most:
            why = f"the contract allows at most {most} repair attempts"
            raise refused(candidate, held.status, CandidateStatus.DRAFT, why)
        kept = {key: value for key, value in before.as_data().items() if key in _AUTHORED}
        change: Mapping[str, Any] = changes.get("change") or {}
        dropped = {PATCH_NAME: "patch" in change and change["patch"] is None}
        contents = {
            name: content
            for name, content in files_of(before, study.candidate_folder(candidate)).items()
            if not dropped.get(name, "files" in change)
        }
        contents |= attached or {}
        values = {**kept, **changes}
        for part in ("change", "hypothesis", "plan", "isolation"):
            if isinstance(changes.get(part), Mapping):
                values[part] = {**(kept.get(part) or {}), **changes[part]}
        values = _attach(values, contents)
        revised = _write(study.folder, candidate, held.revision + 1, values, actor, contents)
        facts = {"base_revision": held.revision, **_hashes(revised)}
        if is_debug:
            to, reason = CandidateStatus.DRAFT, "repaired after it failed"
            transition(study, candidate, to, actor, reason, facts)
        else:
            if is_valid:
                to, changed = CandidateStatus.DRAFT, {"changed": ["content_hash"]}
                transition(study, candidate, to, SYSTEM, "it is being revised", changed)
            study.append("candidate.revised", candidate, facts, actor)
    return study.candidate(candidate)


def withdraw(study: Study, candidate: str, actor: StudyActor, reason: str) -> None:
    """Withdraw a candidate that was never run. A launched candidate moves to debug instead.

    Raises GateRefused E_RUN_LIVE if a run of the candidate is live.
    """
    with study.locked():
        held = study.candidate_state(candidate)
        if held.status not in (S.DRAFT, S.VALIDATED, S.LAUNCHED):
            raise GateRefused(
                "E_TRANSITION",
                f"{candidate} is {held.status} and has runs, so it cannot be withdrawn.",
                hint=f"telic study decide {candidate} reject --because TEXT",
            )
        if not reason:
            raise GateRefused("E_REASON", "A reason is required.", hint="Add --because TEXT.")
        if held.status != CandidateStatus.LAUNCHED:
            if actor.kind == "agent" and actor.label != held.author:
                why = f"it belongs to {held.author}"
                raise refused(candidate, held.status, CandidateStatus.REJECTED, why)
            transition(study, candidate, CandidateStatus.REJECTED, actor, reason)
            return
        runs = study.state.runs_of(candidate).items()
        if live := [name for name, run in runs if run.is_live]:
            raise GateRefused(
                "E_RUN_LIVE",
                f"{', '.join(live)} of {candidate} is still running.",
                hint=f"Wait until it ends, or stop it: telic study run --stop {live[0]}",
            )
        why = f"{actor.label} withdrew it after its launch: {reason}"
        transition(study, candidate, CandidateStatus.DEBUG, SYSTEM, why)


# ---------------------------------------------------------------------------- drafts


def _check_authored(draft: Mapping[str, Any]) -> None:
    """Raise InvalidDocument E_DRAFT for keys that only telic may set."""
    foreign = [key for key in draft if key not in _AUTHORED and not key.startswith("x-")]
    if foreign:
        raise InvalidDocument(
            "E_DRAFT",
            f"A draft must not set {', '.join(sorted(foreign))}.",
            hint=f"Allowed fields: {', '.join(_AUTHORED)}.",
        )


def _attach(draft: Mapping[str, Any], contents: Mapping[str, bytes]) -> dict[str, Any]:
    """Return the draft with the attached files and their hashes added to `change`."""
    if "change" not in draft and not contents:
        return dict(draft)
    change: dict[str, Any] = {**plain(draft.get("change") or {})}
    hashes = {name: sha256(content).hexdigest() for name, content in contents.items()}
    change.pop("patch_sha256", None)
    if PATCH_NAME in hashes:
        change |= {"patch": PATCH_NAME, "patch_sha256": hashes.pop(PATCH_NAME)}
    elif change.get("patch"):
        raise InvalidDocument("E_DRAFT", "The draft refers to a patch, but none was attached.")
    change["files"] = [
        {"path": name.removeprefix(f"{FILES}/"), "sha256": digest}
        for name, digest in hashes.items()
        if name.startswith(f"{FILES}/")
    ]
    return {**draft, "change": change}


def _with_defaults(draft: dict[str, Any], study: Study, engine: str) -> dict[str, Any]:
    """Return the draft with defaults for missing values."""
    out: dict[str, Any] = dict(draft)
    contract = study.contract
    is_baseline = out.get("kind") == "baseline"
    if is_baseline:
        same = {path: {"from": to, "to": to} for path, to in contract.baseline.overrides.items()}
        out = {"parents": [], "change": {"overrides": same}, "hypothesis": dict(_BASELINE), **out}
    elif "parents" not in out:
        out["parents"] = [study.incumbent.candidate] if study.incumbent else []
    out.setdefault("origin", {"engine": engine})
    if study.is_git:
        commit = contract.baseline.commit or git_read.head_commit(study.root)
        out.setdefault("base_commit", commit)
    change: Mapping[str, Any] = out.get("change") or {}
    adds_files = bool(change.get("patch") or change.get("files"))
    out.setdefault("isolation", {"mode": "worktree" if adds_files else "in_place"})
    out["plan"] = _plan(dict(out.get("plan") or {}), contract, is_baseline)
    return out


def _plan(plan: dict[str, Any], contract: Contract, is_baseline: bool) -> dict[str, Any]:
    phases = BASELINE_PHASES if is_baseline else ("smoke", "short_trial", "promotion")
    plan.setdefault("phases", list(phases))
    seeds = dict(plan.get("seeds") or {})
    if is_baseline and contract.baseline.seeds:
        seeds.setdefault("incumbent_validation", list(contract.baseline.seeds))
    pools = {phase: contract.seeds.pool(role) for phase, role in ROLES.items()}
    for phase in plan["phases"]:
        # All candidates use the first seeds of a pool, so that arms can be paired.
        least = 2 if is_baseline and phase == "smoke" else MIN_SEEDS.get(phase, 1)
        seeds.setdefault(phase, sorted(pools.get(phase, ()))[:least])
    est = {**contract.baseline.est.model_dump(exclude_none=True), **(plan.get("est") or {})}
    if plan.get("steps") is None and contract.baseline.steps is not None:
        plan["steps"] = contract.baseline.steps
    if steps := plan.get("steps"):
        shares = [contract.phase_share(each, steps) * len(seeds[each]) for each in plan["phases"]]
        est.setdefault("env_steps", round(steps * sum(shares)))
    return {**plan, "seeds": seeds, "est": est}


# ---------------------------------------------------------------------------- files


def _write(
    folder: StudyFolder,
    name: str,
    revision: int,
    values: Mapping[str, Any],
    actor: StudyActor,
    contents: Mapping[str, bytes],
) -> Candidate:
    """Write the folder of a revision, replacing an existing folder that is not in the ledger."""
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


def _hashes(record: Candidate) -> dict[str, Any]:
    return {
        "revision": record.revision,
        "content_hash": record.content_hash,
        "record_hash": content_hash(record.file_data()),
    }


def read_candidate(folder: StudyFolder, candidate: str, revision: int) -> Candidate:
    """Read a revision from disk. Raises UnknownName or InvalidDocument E_SCHEMA."""
    path = folder.candidate_file(candidate, revision)
    if not path.is_file():
        there = sorted(each.name for each in folder.candidates.glob("*"))
        raise UnknownName("candidate", candidate, there, see="telic study status candidates")
    return Candidate.parse(read_json(path), str(path))


def files_of(record: Candidate, folder: Path) -> dict[str, bytes]:
    """Return the attached files of a candidate from its revision folder."""
    names = [f"{FILES}/{each.path}" for each in record.change.files]
    names += [record.change.patch] if record.change.patch else []
    try:
        return {name: read_bytes(_inside(folder, name)) for name in names}
    except BadFile as error:
        raise InvalidDocument("E_DRAFT", error.message, hint=error.hint) from None


def _inside(folder: Path, name: str) -> Path:
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()):
        raise InvalidDocument("E_DRAFT", f"{name} is outside the candidate's folder.")
    return path


# ---------------------------------------------------------------------------- lifecycle

S = CandidateStatus
TRANSITIONS: dict[tuple[CandidateStatus, CandidateStatus], tuple[str, str]] = {
    (S.DRAFT, S.VALIDATED): ("system", "candidate.validated"),
    (S.VALIDATED, S.DRAFT): ("system", "candidate.demoted"),
    (S.DRAFT, S.REJECTED): ("agent human", "candidate.withdrawn"),
    (S.VALIDATED, S.REJECTED): ("agent human", "candidate.withdrawn"),
    (S.VALIDATED, S.LAUNCHED): ("runner", "launch.started"),
    (S.LAUNCHED, S.COMPLETED): ("runner", "candidate.completed"),
    (S.LAUNCHED, S.DEBUG): ("runner system", "candidate.debug"),
    (S.COMPLETED, S.VALIDATED): ("system", "candidate.advanced"),
    (S.COMPLETED, S.ACCEPTED): ("agent human system", "decision.recorded"),
    (S.COMPLETED, S.REJECTED): ("agent human system", "decision.recorded"),
    (S.COMPLETED, S.INCONCLUSIVE): ("agent human system", "decision.recorded"),
    (S.COMPLETED, S.DEBUG): ("system", "candidate.debug"),
    (S.INCONCLUSIVE, S.VALIDATED): ("agent human", "candidate.advanced"),
    (S.DEBUG, S.DRAFT): ("agent engine", "candidate.revised"),
    (S.DEBUG, S.REJECTED): ("agent human system", "decision.recorded"),
    (S.ACCEPTED, S.REVERTED): ("human system", "decision.recorded"),
}
"""(from, to) status -> (allowed actor kinds, ledger entry kind)"""


def transition(
    study: Study,
    candidate_id: str,
    to: CandidateStatus | str,
    actor: StudyActor,
    reason: str = "",
    data: dict[str, Any] | None = None,
) -> JournalEntry:
    """Change a candidate's status. `data` is the reason stored in the ledger entry.

    If an error is raised (see `require_step`), nothing is changed.
    """
    to = CandidateStatus(to)
    with study.locked():
        kind = require_step(study, candidate_id, to, actor)
        before = study.state.candidates[candidate_id].status
        facts = {**(data or {}), "from": before, "to": to, "reason": reason}
        return study.append(kind, candidate_id, facts, actor)


def require_step(study: Study, candidate_id: str, to: CandidateStatus, actor: StudyActor) -> str:
    """Return the entry kind of a transition, or raise GateRefused E_TRANSITION."""
    held = study.state.candidates.get(candidate_id)
    if held is None:
        raise StudyError("E_NO_CANDIDATE", f"{study.name} has no candidate {candidate_id}.")
    if (held.status, to) not in TRANSITIONS:
        raise refused(candidate_id, held.status, to, "the study's rules contain no such transition")
    actors, kind = TRANSITIONS[held.status, to]
    if actor.kind not in actors.split():
        why = f"{actor.kind} may not do this; allowed: {' or '.join(actors.split())}"
        raise refused(candidate_id, held.status, to, why)
    return kind


def refused(candidate_id: str, before: str, to: str, why: str) -> GateRefused:
    """Return the error for a forbidden transition."""
    return GateRefused("E_TRANSITION", f"{candidate_id} cannot go from {before} to {to}: {why}.")
