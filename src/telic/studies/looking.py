"""Look at a study and say what to do next; reads files and the process table, starts nothing."""

from __future__ import annotations

from datetime import timedelta

from telic.errors import TelicError
from telic.studies.approvals import experiment_standing, missing
from telic.studies.budget import shortfalls
from telic.studies.candidate_files import current_candidate
from telic.studies.citing import audits_since
from telic.studies.clock import moment, utc_now
from telic.studies.evidence.claims import Audit
from telic.studies.evidence.reading import audits_of, is_unreviewed
from telic.studies.evidence.store import read_evidence
from telic.studies.folder import StudyFolder
from telic.studies.incumbent_check import check_incumbent, is_checked
from telic.studies.launch.processes import (
    is_alive,
    is_given_up,
    is_here,
    read_exit,
    read_pid_record,
)
from telic.studies.launch.recovery import GRACE_S
from telic.studies.ledger import Ledger
from telic.studies.next import NextAction, next_action
from telic.studies.outlook import Judged, Outlook
from telic.studies.projections import save_next
from telic.studies.queue import ReadyJob
from telic.studies.queueing import Advanced, completed, fresh_seeds, look, queue_of, queue_step
from telic.studies.records import Amounts, CandidateStatus, RunStatus
from telic.studies.soundness import agreement_problems, ledger_problems, standing_stops
from telic.studies.state import StudyState
from telic.studies.validation.validating import check_candidate

WATCH_EVERY = timedelta(minutes=10)
MOST_SEEDS = 10
"""runs of an arm after which an open question stays open"""
_REWARD_WORK = ("reward_tuning", "reward_engineering")
_OVER = (
    CandidateStatus.ACCEPTED, CandidateStatus.REJECTED, CandidateStatus.REVERTED,
    CandidateStatus.INCONCLUSIVE,
)  # fmt: skip


def next_step(ledger: Ledger) -> NextAction:
    """Return the next safe action and why; never does it."""
    return next_action(look_around(ledger))


def note_next(ledger: Ledger) -> NextAction:
    """Return the next safe action, and leave it in state.json for whoever reads only that."""
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
    ready, in_debug = queue_step(ledger).ready, _with_status(state, CandidateStatus.DEBUG)
    return Outlook(
        crashed=crashed_runs(ledger, state),
        unmeasured=_without(state, "metrics", _finished(state)),
        unwatched=_unwatched(ledger, state),
        unreviewed=_unreviewed(ledger.folder, state),
        unaudited=_unaudited(ledger, state, looked),
        judged=_judged(ledger, state, looked),
        passing=tuple(each for each in looked.values() if each.to is not None),
        stuck=tuple(each for each in looked.values() if each.verdict == "hold"),
        refuted=_refuted(ledger, state),
        unchecked=_unchecked(ledger, state),
        unreflected=_unreflected(ledger, state),
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


# ---------------------------------------------------------------------------- runs


def crashed_runs(ledger: Ledger, state: StudyState) -> tuple[str, ...]:
    """Return runs that the ledger believes alive and that are not."""
    return tuple(name for name in state.active_runs if _is_over(ledger, state, name))


def _is_over(ledger: Ledger, state: StudyState, run: str) -> bool:
    folder = ledger.folder.run(run)
    record = read_pid_record(folder)
    if read_exit(folder) is not None or (record is not None and is_given_up(record)):
        return True
    if record is None:
        age = moment(utc_now()) - moment(state.runs[run].intent_at)
        return age.total_seconds() > GRACE_S
    return is_here(record) and not is_alive(record)


def _finished(state: StudyState) -> list[str]:
    return [name for name, run in state.runs.items() if run.status == RunStatus.FINISHED]


def _without(state: StudyState, kind: str, runs: list[str]) -> tuple[str, ...]:
    """Return the runs about which there is no evidence of a kind."""
    covered = {each.run for each in state.evidence.values() if each.kind == kind}
    return tuple(run for run in runs if run not in covered)


def _unwatched(ledger: Ledger, state: StudyState) -> tuple[str, ...]:
    now, last = moment(utc_now()), dict[str, str]()
    for name, each in state.evidence.items():
        if each.kind == "monitor" and each.run in state.active_runs:
            last[each.run] = read_evidence(ledger.folder, name).created_at
    seen = {run: last.get(run) or state.runs[run].intent_at for run in state.active_runs}
    return tuple(run for run, at in seen.items() if now - moment(at) > WATCH_EVERY)


def _unreflected(ledger: Ledger, state: StudyState) -> tuple[str, ...]:
    if not ledger.folder.read_metric_spec().components:
        return ()
    runs = [
        name
        for name in _finished(state)
        if state.candidates[state.runs[name].candidate].kind in _REWARD_WORK
        and state.runs[name].phase != "smoke"
    ]
    return _without(state, "reflection", runs)


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


def _claims(state: StudyState, looked: dict[str, Advanced]) -> list[str]:
    """Return completed candidates that have no phase left: an audit decides about them."""
    last = ("promotion", "incumbent_validation")
    return [n for n, each in looked.items() if each.verdict == "wait" and each.phase in last]


def _unaudited(ledger: Ledger, state: StudyState, looked: dict[str, Advanced]) -> tuple[str, ...]:
    """Return claims without audit whose control arm, where one is queued, has come to its end."""
    open_arms = {
        job.seed
        for job in queue_of(ledger).jobs
        if state.incumbent is not None
        and (job.candidate, job.phase) == (state.incumbent.candidate, "promotion")
        and job.status not in ("done", "failed", "cancelled")
    }
    return tuple(
        name
        for name in _claims(state, looked)
        if not audits_since(state, name, state.candidates[name].since_seq)
        and not open_arms & {run.seed for run in state.runs_of(name, "promotion").values()}
    )


def _judged(ledger: Ledger, state: StudyState, looked: dict[str, Advanced]) -> tuple[Judged, ...]:
    found = list[Judged]()
    for name in _claims(state, looked):
        names = audits_since(state, name, state.candidates[name].since_seq)
        if names:
            audit = audits_of(ledger.folder, state, name)[-1]
            asks = state.automation.decide != "auto"
            more = _can_have_seeds(ledger, state, name, audit)
            found.append(Judged(name, audit.id, audit.verdict, asks, more))
    return tuple(found)


def _can_have_seeds(ledger: Ledger, state: StudyState, name: str, audit: Audit) -> bool:
    arm, phase = audit.arms["x"], state.candidates[name].phase
    if phase is None or arm.n >= MOST_SEEDS:
        return False
    try:
        seeds = fresh_seeds(state, ledger.folder.read_contract(), phase, [name], MOST_SEEDS - arm.n)
    except TelicError:
        return False
    return not shortfalls(state, Amounts(launches=len(seeds)), name, phase)


def _unplanned(ledger: Ledger, state: StudyState) -> tuple[str, ...]:
    queued = {
        (job.candidate, job.phase) for job in queue_of(ledger).jobs if job.status != "cancelled"
    }
    return tuple(
        name
        for name in _with_status(state, CandidateStatus.VALIDATED)
        if (name, state.candidates[name].phase) not in queued
    )


def _refuted(ledger: Ledger, state: StudyState) -> tuple[str, str] | None:
    said = check_incumbent(ledger)
    if said is None or said.verdict != "hold" or state.incumbent is None:
        return None
    return state.incumbent.candidate, said.why


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
