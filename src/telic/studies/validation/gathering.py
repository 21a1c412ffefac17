"""Read everything that the checks look at."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from telic.studies import git_read
from telic.studies.budget import add, left_of
from telic.studies.candidate_files import read_candidate
from telic.studies.clock import utc_now
from telic.studies.documents.candidate import Candidate, CandidateStatus
from telic.studies.documents.contract import RESOURCES, Amounts
from telic.studies.documents.ledger import LedgerEvent
from telic.studies.documents.runs import Evidence, RunStatus
from telic.studies.evidence.store import altered, read_evidence
from telic.studies.folder import StudyFolder
from telic.studies.ledger import Ledger
from telic.studies.patch import Patch, read_patch
from telic.studies.queue import run_revisions
from telic.studies.state import StudyState
from telic.studies.subjects import current_protocol_hash, metric_spec_hash
from telic.studies.validation.subject import Subject, Tried, UsedSeed


def gather(ledger: Ledger, candidate: Candidate, may_be: Iterable[CandidateStatus]) -> Subject:
    """Return a candidate with everything around it.

    `may_be` are the statuses from which the request makes sense.
    """
    folder, state = ledger.folder, ledger.state()
    name = candidate.id
    held = state.candidates[name]
    contract = folder.read_contract()
    return Subject(
        candidate=candidate,
        candidate_id=name,
        study=(folder.task_id, folder.study_id),
        status=held.status,
        may_be=frozenset(may_be),
        is_open=state.study_status == "open",
        revision=held.revision,
        root=folder.root,
        is_git=git_read.is_repository(folder.root),
        folder=folder.candidate(name),
        patch=_patch(folder.candidate(name), candidate),
        contract=contract,
        adapter=folder.read_adapter(),
        metric_spec=folder.read_metric_spec(),
        protocol=folder.read_protocol(),
        spec_hash=metric_spec_hash(folder),
        protocol_hash=current_protocol_hash(folder),
        evidence=_evidence(folder, state, candidate),
        others=_others(folder, state, name),
        used_seeds=_used_seeds(state, name, ledger.events()),
        left=left_for(state, name),
        now=utc_now(),
    )


def left_for(state: StudyState, candidate: str) -> Amounts:
    """Return the budget that others left: what a candidate used itself is part of its estimate."""
    own = state.spent_by_candidate.get(candidate, Amounts())
    used = add(state.budget.spent, state.budget.reserved)
    by_others = {
        name: max(0.0, (getattr(used, name) or 0.0) - (getattr(own, name) or 0.0))
        for name in RESOURCES
    }
    return left_of(state.budget_limits, Amounts.model_validate(by_others))


def _patch(folder: Path, candidate: Candidate) -> Patch | None:
    name = candidate.change.patch
    if name is None or not (folder / name).is_file():
        return None
    try:
        return read_patch((folder / name).read_text())
    except UnicodeDecodeError:
        return None


def _evidence(folder: StudyFolder, state: StudyState, candidate: Candidate) -> dict[str, Evidence]:
    refs = (*candidate.evidence_refs, candidate.reflection_ref, candidate.dr_probe_ref)
    named = dict.fromkeys(each for each in refs if each is not None)
    unusable = altered(folder, state, named)
    return {each: read_evidence(folder, each) for each in named if each not in unusable}


def _others(folder: StudyFolder, state: StudyState, name: str) -> tuple[Tried, ...]:
    return tuple(
        Tried(read_candidate(folder, other), held.status, bool(state.runs_of(other)))
        for other, held in state.candidates.items()
        if other != name
    )


def _used_seeds(
    state: StudyState, name: str, events: Iterable[LedgerEvent]
) -> tuple[UsedSeed, ...]:
    revisions = run_revisions(events)
    return tuple(
        UsedSeed(run.phase, run.seed, revisions.get(run_name, 1))
        for run_name, run in state.runs_of(name).items()
        if run.status == RunStatus.FINISHED
    )
