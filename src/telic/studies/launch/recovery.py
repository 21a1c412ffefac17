"""After a crash, or simply later: what became of runs that the ledger believes alive.

intent, nobody claimed the launch      give it up, release what it held
claimed, the process lives             adopt it
claimed, gone, exit.json is there      settle what it took
claimed, gone, no exit.json            lost: settle up to the last heartbeat
a scheduler has it                     ask the scheduler, when asking is allowed
state.json is older than the ledger    make it again
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from telic.core.config import Record
from telic.storage.files import read_json
from telic.studies.candidates import read_candidate
from telic.studies.documents.base import RUNNER, SYSTEM
from telic.studies.documents.candidate import CandidateStatus
from telic.studies.documents.runs import RunStatus
from telic.studies.launch import settling
from telic.studies.launch.choose import ON_THIS_MACHINE, launcher_of
from telic.studies.launch.isolation import remove_tree
from telic.studies.launch.order import JobReport
from telic.studies.launch.processes import (
    end_leftovers,
    give_up,
    is_alive,
    is_given_up,
    is_here,
    read_exit,
    read_pid_record,
)
from telic.studies.names import moment, utc_now
from telic.studies.state import RunState, committed_head
from telic.studies.study import Study

_DECIDED = (CandidateStatus.REJECTED, CandidateStatus.REVERTED)
GRACE_S = 120.0
"""how long a scheduler may take to list a job that it accepted"""

Outcome = Literal["aborted", "adopted", "alive", "ended", "lost", "unknown"]


class Recovered(Record):
    """What was found out about one run."""

    run: str
    outcome: Outcome
    why: str = ""


def reconcile(study: Study, *, processes: bool = False) -> list[Recovered]:
    """Bring the ledger in line with what runs and what ended; safe to call at any time.

    Args:
        study: that is looked at.
        processes: whether programs may be started: to ask schedulers, and to remove worktrees.
    """
    with study.locked():
        if committed_head(study.folder) != study.ledger.head:
            study.ledger.rebuild()
        found = [_reconcile_run(study, name, processes) for name in study.state.active_runs]
        settling.move_candidates(study)
    if processes:
        _prune(study)
    return found


def _prune(study: Study) -> None:
    """Remove worktrees of candidates that were decided on; one that holds results stays."""
    state = study.state
    live = {state.runs[name].candidate for name in state.active_runs}
    for name, standing in state.candidates.items():
        if standing.status in _DECIDED and name not in live:
            remove_tree(study.folder, read_candidate(study.folder, name))


def _reconcile_run(study: Study, name: str, ask: bool) -> Recovered:
    folder, run = study.folder.run(name), study.state.runs[name]
    record = read_pid_record(folder)
    if record is None:
        return _unclaimed(study, name, run, folder, ask)
    if is_given_up(record):
        return _abort(study, name, run, "the launch was given up")
    ended = read_exit(folder)
    if ended is None and is_here(record):
        if is_alive(record):
            return _adopt(study, name, run, record)
        # It may have written its last word between the two looks.
        ended = read_exit(folder)
        if ended is None:
            left = end_leftovers(record)
            return _lose(study, name, run, record, f"its supervisor is gone, {left} left behind")
    if ended is None:
        return _elsewhere(study, name, run, record, ask)
    _enter_start(study, name, run, record)
    return Recovered(run=name, outcome="ended", why=settling.settle(study, name, ended))


def _unclaimed(study: Study, name: str, run: RunState, folder: Path, ask: bool) -> Recovered:
    if _kind(folder) not in ON_THIS_MACHINE:
        report = _ask(folder, str(run.nonce)) if ask else None
        if report is None:
            return Recovered(run=name, outcome="unknown", why="its scheduler was not asked")
        if report.state in ("waiting", "running"):
            return _adopt(study, name, run, {"job": report.detail})
        if report.state == "ended" and report.code is not None:
            _enter_start(study, name, run, {"job": report.detail})
            why = settling.settle(study, name, {"code": report.code, "ended_by": None})
            return Recovered(run=name, outcome="ended", why=why)
        age = (moment(utc_now()) - moment(run.intent_at)).total_seconds()
        if report.state == "unknown" and age < GRACE_S:
            return Recovered(run=name, outcome="unknown", why=f"{report.detail}, {age:.0f} s old")
    if give_up(folder, "nobody claimed it"):
        if run.status == RunStatus.RUNNING:
            return _lose(study, name, run, {}, "its scheduler does not know it any more")
        return _abort(study, name, run, "it was announced and never started")
    return _reconcile_run(study, name, ask)  # it was claimed this very moment


def _elsewhere(
    study: Study, name: str, run: RunState, record: dict[str, Any], ask: bool
) -> Recovered:
    """Judge a run on another machine by its scheduler."""
    folder = study.folder.run(name)
    if not ask or _kind(folder) in ON_THIS_MACHINE:
        return Recovered(run=name, outcome="unknown", why=f"it runs on {record.get('host')}")
    report = _ask(folder, str(run.nonce))
    if report.state in ("waiting", "running"):
        return _adopt(study, name, run, record)
    if (ended := read_exit(folder)) is not None:
        _enter_start(study, name, run, record)
        return Recovered(run=name, outcome="ended", why=settling.settle(study, name, ended))
    return _lose(study, name, run, record, report.detail)


def _adopt(study: Study, name: str, run: RunState, identity: dict[str, Any]) -> Recovered:
    if run.status == RunStatus.RUNNING:
        return Recovered(run=name, outcome="alive")
    _enter_start(study, name, run, identity)
    study.append("run.adopted", name, {"run": name, "identity": identity}, SYSTEM)
    return Recovered(run=name, outcome="adopted", why="it was started and not yet entered")


def _abort(study: Study, name: str, run: RunState, why: str) -> Recovered:
    facts = {"run": name, "nonce": run.nonce, "reason": why}
    study.append("launch.aborted", run.candidate, facts, RUNNER)
    settling.close_run_file(study, name)
    return Recovered(run=name, outcome="aborted", why=why)


def _lose(study: Study, name: str, run: RunState, record: dict[str, Any], why: str) -> Recovered:
    _enter_start(study, name, run, record)
    settling.settle_lost(study, name, why)
    return Recovered(run=name, outcome="lost", why=why)


def _enter_start(study: Study, name: str, run: RunState, identity: dict[str, Any]) -> None:
    if run.status == RunStatus.STARTING:
        settling.record_start(study, name, str(run.nonce), identity)


def _kind(folder: Path) -> Any:
    return read_json(folder / "run.json")["launcher"]


def _ask(folder: Path, nonce: str) -> JobReport:
    """Ask the scheduler with the options that the run was started with."""
    options = read_json(folder / "cmd.json").get("launcher_options", {})
    return launcher_of(_kind(folder), options).report(nonce, folder)
