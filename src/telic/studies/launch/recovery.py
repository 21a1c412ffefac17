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
from telic.errors import UnknownName
from telic.storage.files import read_json
from telic.studies.candidates import read_candidate
from telic.studies.documents.base import RUNNER, SYSTEM
from telic.studies.documents.candidate import CandidateStatus
from telic.studies.documents.runs import KilledBy, RunStatus
from telic.studies.errors import StudyError
from telic.studies.launch import records
from telic.studies.launch.isolation import remove_tree
from telic.studies.launch.launchers import ON_THIS_MACHINE, launcher_of
from telic.studies.launch.order import JobReport, Launcher
from telic.studies.launch.processes import (
    ask_to_stop,
    end_leftovers,
    give_up,
    is_alive,
    is_given_up,
    is_here,
    read_exit,
    read_pid_record,
)
from telic.studies.names import moment, utc_now
from telic.studies.state import committed_head
from telic.studies.study import Study

_DECIDED = (CandidateStatus.REJECTED, CandidateStatus.REVERTED)
GRACE_S = 120.0
"""how long a scheduler may take to list a job that it accepted"""

Outcome = Literal["aborted", "adopted", "alive", "ended", "lost", "unknown"]


class RecoveredRun(Record):
    """What was found out about one run."""

    run: str
    outcome: Outcome
    why: str = ""


def reconcile(study: Study, *, processes: bool = False) -> list[RecoveredRun]:
    """Bring the ledger in line with what runs and what ended; safe to call at any time.

    Args:
        study: that is looked at.
        processes: whether programs may be started: to ask schedulers, and to remove worktrees.
    """
    with study.locked():
        if committed_head(study.folder) != study.ledger.head:
            study.ledger.rebuild()
        active = study.state.active_runs
        found = [_Case(study, name, may_ask=processes).judge() for name in active]
        records.move_candidates(study)
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


def stop_run(study: Study, run: str, by: KilledBy, why: str) -> None:
    """Ask a live run to end; its supervisor gives it time to save, then ends it for certain.

    Who wanted it and why is kept. What it took is settled by the next `reconcile`. Raises
    StudyError E_NOT_LIVE.
    """
    state = study.state.runs.get(run)
    if state is None:
        raise UnknownName("run", run, list(study.state.active_runs), see="telic study state")
    if not state.is_live:
        raise StudyError("E_NOT_LIVE", f"{run} is {state.status} already.")
    folder = study.folder.run(run)
    ask_to_stop(folder, by, why)
    if _kind(folder) not in ON_THIS_MACHINE:
        _launcher(folder).stop(str(state.nonce), folder)


def _kind(folder: Path) -> Any:
    return read_json(folder / "run.json")["launcher"]


def _launcher(folder: Path) -> Launcher:
    """Return the launcher with the options that the run was started with."""
    options = read_json(folder / "cmd.json").get("launcher_options", {})
    return launcher_of(_kind(folder), options)


def _ask(folder: Path, nonce: str) -> JobReport:
    return _launcher(folder).report(nonce, folder)


class _Case:
    """One run that the ledger believes alive."""

    def __init__(self, study: Study, name: str, *, may_ask: bool) -> None:
        self.study = study
        self.name = name
        self.state = study.state.runs[name]
        self.folder = study.folder.run(name)
        self.may_ask = may_ask
        """whether its scheduler may be asked, which starts a program"""

    def judge(self) -> RecoveredRun:
        """Find out what became of it and enter that."""
        record = read_pid_record(self.folder)
        if record is None:
            return self._unclaimed()
        if is_given_up(record):
            return self._abort("the launch was given up")
        ended = read_exit(self.folder)
        if ended is None and is_here(record):
            if is_alive(record):
                return self._adopt(record)
            # It may have written its last word between the two looks.
            ended = read_exit(self.folder)
            if ended is None:
                left = end_leftovers(record)
                return self._lose(record, f"its supervisor is gone, {left} left behind")
        return self._elsewhere(record) if ended is None else self._end(record, ended)

    def _unclaimed(self) -> RecoveredRun:
        if _kind(self.folder) not in ON_THIS_MACHINE:
            if not self.may_ask:
                return self._found("unknown", "its scheduler was not asked")
            report = _ask(self.folder, str(self.state.nonce))
            if report.state in ("waiting", "running"):
                return self._adopt({"job": report.detail})
            if report.state == "ended" and report.code is not None:
                ended = {"code": report.code, "ended_by": None}
                return self._end({"job": report.detail}, ended)
            age = (moment(utc_now()) - moment(self.state.intent_at)).total_seconds()
            if report.state == "unknown" and age < GRACE_S:
                return self._found("unknown", f"{report.detail}, {age:.0f} s old")
        if give_up(self.folder, "nobody claimed it"):
            if self.state.status == RunStatus.RUNNING:
                return self._lose({}, "its scheduler does not know it any more")
            return self._abort("it was announced and never started")
        return self.judge()  # it was claimed this very moment

    def _elsewhere(self, record: dict[str, Any]) -> RecoveredRun:
        """Judge a run on another machine by its scheduler."""
        if not self.may_ask or _kind(self.folder) in ON_THIS_MACHINE:
            return self._found("unknown", f"it runs on {record.get('host')}")
        report = _ask(self.folder, str(self.state.nonce))
        if report.state in ("waiting", "running"):
            return self._adopt(record)
        ended = read_exit(self.folder)
        return self._lose(record, report.detail) if ended is None else self._end(record, ended)

    def _found(self, outcome: Outcome, why: str = "") -> RecoveredRun:
        return RecoveredRun(run=self.name, outcome=outcome, why=why)

    def _adopt(self, identity: dict[str, Any]) -> RecoveredRun:
        if self.state.status == RunStatus.RUNNING:
            return self._found("alive")
        self._enter_start(identity)
        facts = {"run": self.name, "identity": identity}
        self.study.append("run.adopted", self.name, facts, SYSTEM)
        return self._found("adopted", "it was started and not yet entered")

    def _end(self, identity: dict[str, Any], ended: dict[str, Any]) -> RecoveredRun:
        self._enter_start(identity)
        return self._found("ended", records.settle(self.study, self.name, ended))

    def _lose(self, identity: dict[str, Any], why: str) -> RecoveredRun:
        self._enter_start(identity)
        records.settle_lost(self.study, self.name, why)
        return self._found("lost", why)

    def _abort(self, why: str) -> RecoveredRun:
        facts = {"run": self.name, "nonce": self.state.nonce, "reason": why}
        self.study.append("launch.aborted", self.state.candidate, facts, RUNNER)
        records.close_run_file(self.study, self.name)
        return self._found("aborted", why)

    def _enter_start(self, identity: dict[str, Any]) -> None:
        if self.state.status == RunStatus.STARTING:
            records.record_start(self.study, self.name, str(self.state.nonce), identity)
