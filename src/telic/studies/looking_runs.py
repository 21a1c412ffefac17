"""Which runs wait for somebody: vanished, not measured, not watched, not reflected on."""

from __future__ import annotations

from datetime import timedelta

from telic.studies.clock import moment, utc_now
from telic.studies.documents.runs import RunStatus
from telic.studies.evidence.store import read_evidence
from telic.studies.launch.processes import (
    is_alive,
    is_given_up,
    is_here,
    read_exit,
    read_pid_record,
)
from telic.studies.launch.recovery import GRACE_S
from telic.studies.ledger import Ledger
from telic.studies.state import StudyState

WATCH_EVERY = timedelta(minutes=10)
_REWARD_WORK = ("reward_tuning", "reward_engineering")


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


def finished_runs(state: StudyState) -> list[str]:
    """Return the runs that ended well."""
    return [name for name, run in state.runs.items() if run.status == RunStatus.FINISHED]


def runs_without(state: StudyState, kind: str, runs: list[str]) -> tuple[str, ...]:
    """Return the runs about which there is no evidence of a kind."""
    covered = {each.run for each in state.evidence.values() if each.kind == kind}
    return tuple(run for run in runs if run not in covered)


def unwatched_runs(ledger: Ledger, state: StudyState) -> tuple[str, ...]:
    """Return live runs that nobody looked at for a while."""
    now, last = moment(utc_now()), dict[str, str]()
    for name, each in state.evidence.items():
        if each.kind == "monitor" and each.run in state.active_runs:
            last[each.run] = read_evidence(ledger.folder, name).created_at
    seen = {run: last.get(run) or state.runs[run].intent_at for run in state.active_runs}
    return tuple(run for run, at in seen.items() if now - moment(at) > WATCH_EVERY)


def unreflected_runs(ledger: Ledger, state: StudyState) -> tuple[str, ...]:
    """Return finished runs of reward work on whose terms nobody has reflected."""
    if not ledger.folder.read_metric_spec().components:
        return ()
    runs = [
        name
        for name in finished_runs(state)
        if state.candidates[state.runs[name].candidate].kind in _REWARD_WORK
        and state.runs[name].phase != "smoke"
    ]
    return runs_without(state, "reflection", runs)
