"""Look at a study and say what to do next; reads files and the process table, starts nothing."""

from __future__ import annotations

from telic.studies.approvals import experiment_standing, missing
from telic.studies.candidate_files import current_candidate
from telic.studies.documents.candidate import CandidateStatus
from telic.studies.evidence.reading import is_unreviewed
from telic.studies.findings import record_findings
from telic.studies.folder import StudyFolder
from telic.studies.incumbent_check import is_checked
from telic.studies.ledger import Ledger
from telic.studies.looking_claims import (
    disproved,
    doubted_incumbent,
    exploits,
    judged_claims,
    unaudited_claims,
)
from telic.studies.looking_runs import (
    crashed_runs,
    finished_runs,
    runs_without,
    unreflected_runs,
    unwatched_runs,
)
from telic.studies.next import NextAction, next_action
from telic.studies.outlook import Outlook
from telic.studies.projections import save_next
from telic.studies.queue import ReadyJob
from telic.studies.queueing import completed, look, queue_of, queue_step
from telic.studies.soundness import agreement_problems, ledger_problems, standing_stops
from telic.studies.sourced import source_of, what_follows
from telic.studies.state import StudyState
from telic.studies.validation.validating import check_candidate

_OVER = (
    CandidateStatus.ACCEPTED,
    CandidateStatus.REJECTED,
    CandidateStatus.REVERTED,
    CandidateStatus.INCONCLUSIVE,
)


def next_step(ledger: Ledger) -> NextAction:
    """Return the next safe action and why; never does it."""
    if not ledger_problems(ledger) and (source := source_of(ledger)) is not None:
        return what_follows(ledger, source)
    return next_action(look_around(ledger))


def note_next(ledger: Ledger) -> NextAction:
    """Return the next safe action, and leave it in state.json for whoever reads only that.

    Stop rules that fired and conditions that spoke since the last time are written down, too.
    """
    found = next_step(ledger)
    is_made_here = found.action not in ("repair", "agree") and source_of(ledger) is None
    if is_made_here and record_findings(ledger):
        found = next_step(ledger)
    if found.action != "repair":
        with ledger.locked():
            save_next(ledger.folder, ledger.state(), found.as_data())
    return found


def look_around(ledger: Ledger) -> Outlook:
    """Return everything that the choice of the next action rests on."""
    broken = ledger_problems(ledger)
    if broken:
        return Outlook(integrity=broken)
    state = ledger.state()
    if state.study_status == "closed":
        return Outlook(is_closed=True)
    if state.contract_version is None:
        return Outlook(is_agreed=False)
    if unwritten := _unwritten(ledger.folder):
        return Outlook(unwritten=unwritten)
    integrity = agreement_problems(ledger, state)
    stops = standing_stops(ledger, state)
    if integrity or stops:
        return Outlook(
            integrity=integrity, stops=stops, unreviewed=_unreviewed(ledger.folder, state)
        )
    looked = {name: look(ledger, name) for name in completed(state)}
    drafts = _drafts(ledger, state)
    exploited = exploits(ledger, state)
    barred = {each.candidate for each in exploited}
    ready = tuple(x for x in queue_step(ledger).ready if x.job.candidate not in barred)
    in_debug = _with_status(state, CandidateStatus.DEBUG)
    return Outlook(
        crashed=crashed_runs(ledger, state),
        unmeasured=runs_without(state, "metrics", finished_runs(state)),
        unwatched=unwatched_runs(ledger, state),
        unreviewed=_unreviewed(ledger.folder, state),
        unaudited=unaudited_claims(ledger, state, looked),
        judged=judged_claims(ledger, state, looked),
        passing=tuple(each for each in looked.values() if each.to is not None),
        stuck=tuple(each for each in looked.values() if each.verdict == "hold"),
        doubted=doubted_incumbent(ledger, state),
        exploits=exploited,
        disproved=disproved(ledger, state),
        unchecked=_unchecked(ledger, state),
        unreflected=unreflected_runs(ledger, state),
        unplanned=_unplanned(ledger, state),
        ready=ready,
        launch_blocks=_launch_blocks(ledger, state, ready),
        drafts=tuple(name for name, why in drafts.items() if why is None),
        faulty=tuple((name, why) for name, why in drafts.items() if why is not None),
        broken=tuple(name for name in in_debug if _may_be_mended(state, name)),
        given_up=tuple(name for name in in_debug if not _may_be_mended(state, name)),
        live=state.active_runs,
        has_baseline=state.incumbent is not None,
        open_candidates=tuple(
            name for name, each in state.candidates.items() if each.status not in _OVER
        ),
    )


def _unwritten(folder: StudyFolder) -> str | None:
    needed = (folder.adapter, folder.metric_spec, folder.protocol)
    return next((each.name for each in needed if not each.is_file()), None)


# ---------------------------------------------------------------------------- candidates


def _unreviewed(folder: StudyFolder, state: StudyState) -> tuple[str, ...]:
    return tuple(
        name
        for name, each in state.candidates.items()
        if each.status not in _OVER and is_unreviewed(folder, state, name)
    )


def _with_status(state: StudyState, status: CandidateStatus) -> tuple[str, ...]:
    return tuple(name for name, each in state.candidates.items() if each.status == status)


def _drafts(ledger: Ledger, state: StudyState) -> dict[str, str | None]:
    """Return every draft with the first check that it fails; None when it passes all."""
    return {
        name: next(
            (f"{each.id}: {each.why}" for each in check_candidate(ledger, name) if not each.passed),
            None,
        )
        for name in _with_status(state, CandidateStatus.DRAFT)
    }


def _may_be_mended(state: StudyState, candidate: str) -> bool:
    return state.candidates[candidate].debug_attempts < state.automation.max_debug_attempts


def _unplanned(ledger: Ledger, state: StudyState) -> tuple[str, ...]:
    queued = {
        (job.candidate, job.phase) for job in queue_of(ledger).jobs if job.status != "cancelled"
    }
    return tuple(
        name
        for name in _with_status(state, CandidateStatus.VALIDATED)
        if (name, state.candidates[name].phase) not in queued
    )


def _unchecked(ledger: Ledger, state: StudyState) -> str | None:
    return None if is_checked(ledger) or state.incumbent is None else state.incumbent.candidate


def _launch_blocks(
    ledger: Ledger, state: StudyState, ready: tuple[ReadyJob, ...]
) -> tuple[str, ...]:
    if not ready:
        return ()
    job = ready[0].job
    found = [f"approval {each.key} is {each.status}" for each in missing(ledger.folder, state)]
    candidate = current_candidate(ledger, job.candidate)
    own = experiment_standing(ledger.folder, state, candidate, job.phase)
    if own.status != "approved":
        found.append(f"approval {own.name} is {own.status}: {own.why}")
    return tuple(found)
