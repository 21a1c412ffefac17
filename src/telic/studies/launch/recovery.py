"""Reconcile the ledger with the processes: what became of runs that it believes alive.

announced, no supervisor claimed it    give it up, release its reservation
claimed, the supervisor lives          adopt it
claimed, gone, exit.json is there      settle what it took
claimed, gone, no exit.json            lost: settle up to the last heartbeat
claimed on another machine             leave it to that machine
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal, NamedTuple

from telic.core.config import Record
from telic.errors import UnknownName
from telic.jobs.spec import JobRecord
from telic.storage.files import read_record
from telic.studies import lifecycle
from telic.studies.canonical import existing_key, moment, utc_now
from telic.studies.documents.adapter import RepositoryOutputs
from telic.studies.documents.base import RUNNER, SYSTEM
from telic.studies.documents.candidate import CandidateStatus, KilledBy, RunStatus
from telic.studies.documents.contract import Amounts
from telic.studies.errors import StudyError
from telic.studies.evidence.integrity import seal_key, why_unsealed
from telic.studies.evidence.measurement import missing_outputs
from telic.studies.launch.isolation import remove_tree
from telic.studies.launch.process import RunProcess
from telic.studies.state import RunState
from telic.studies.study import Study

_DECIDED = (CandidateStatus.REJECTED, CandidateStatus.REVERTED)
_HOUR_S = 3600.0
_STOPPERS = ("user", "stop_rule", "monitor", "budget", "preempted")
_CLAIM_S = 120.0
"""how long a launch may take from its announcement to its claim"""
_TIMED_OUT = 124
"""exit code of timeout(1)"""

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
        processes: whether git may be started, to remove worktrees.
    """
    with study.locked():
        active = study.state.active_runs
        found = [_Case(study, name).judge() for name in active]
        move_candidates(study)
    if processes:
        _prune(study)
    return found


def is_over(study: Study, run: str) -> bool:
    """Return whether a run that the ledger believes alive is not."""
    found = RunProcess(study.folder.run(run)).state
    if found == "unclaimed":
        age = moment(utc_now()) - moment(study.state.runs[run].intent_at)
        return age.total_seconds() > _CLAIM_S
    return found in ("ended", "given_up", "gone")


def _prune(study: Study) -> None:
    """Remove worktrees of candidates that were decided on; one that holds results stays."""
    state = study.state
    live = {state.runs[name].candidate for name in state.active_runs}
    for name, standing in state.candidates.items():
        if standing.status in _DECIDED and name not in live:
            remove_tree(study.folder, study.candidate(name))


def stop_run(study: Study, run: str, by: KilledBy, why: str) -> None:
    """Ask a live run to end; its supervisor gives it time to save, then ends it for certain.

    Who wanted it and why is kept. What it took is settled by the next `reconcile`. Raises
    StudyError E_NOT_LIVE.
    """
    state = study.state.runs.get(run)
    if state is None:
        raise UnknownName("run", run, list(study.state.active_runs), see="telic study status")
    if not state.is_live:
        raise StudyError("E_NOT_LIVE", f"{run} is {state.status} already.")
    RunProcess(study.folder.run(run)).ask_to_stop(by, why)


class _Case:
    """One run that the ledger believes alive."""

    def __init__(self, study: Study, name: str) -> None:
        self.study, self.name = study, name
        self.state = study.state.runs[name]
        self.process = RunProcess(study.folder.run(name))

    def judge(self) -> RecoveredRun:
        """Find out what became of it and enter that."""
        found = self.process.state
        claim = self.process.claim or {}
        match found:
            case "unclaimed":
                if not self.process.give_up("it was announced and never started"):
                    return self.judge()  # it was claimed this very moment
                if self.state.status == RunStatus.RUNNING:
                    return self._lose({}, "pid.json is gone")
                return self._abort("it was announced and never started")
            case "given_up":
                return self._abort("the launch was given up")
            case "elsewhere":
                return self._found("unknown", f"it runs on {claim.get('host')}")
            case "alive":
                return self._adopt(claim)
            case "ended":
                return self._end(claim, self.process.exit_record or {})
            case "gone":
                left = self.process.end_leftovers()
                return self._lose(claim, f"its supervisor is gone, {left} left behind")

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
        return self._found("ended", _settle(self.study, self.name, ended))

    def _lose(self, identity: dict[str, Any], why: str) -> RecoveredRun:
        """Record a run that left no exit record; it is charged up to its last sign of life."""
        self._enter_start(identity)
        beat = self.process.heartbeat or {}
        actual = _amounts(self.state, beat.get("wall_s", 0.0), None)
        facts = {"run": self.name, "why": why, "last_seen": beat.get("at")}
        facts["actual"] = actual.model_dump(exclude_none=True)
        self.study.append("run.lost", self.name, facts, RUNNER)
        return self._found("lost", why)

    def _abort(self, why: str) -> RecoveredRun:
        facts = {"run": self.name, "nonce": self.state.nonce, "reason": why}
        self.study.append("launch.aborted", self.state.candidate, facts, RUNNER)
        return self._found("aborted", why)

    def _enter_start(self, identity: dict[str, Any]) -> None:
        if self.state.status == RunStatus.STARTING:
            record_start(self.study, self.name, str(self.state.nonce), identity)


def record_start(study: Study, run: str, nonce: str, identity: dict[str, Any]) -> None:
    """Enter a started run; the first of a phase moves its candidate from validated to launched."""
    candidate = study.state.runs[run].candidate
    facts = {"run": run, "nonce": nonce, "candidate": candidate, "identity": identity}
    if study.state.candidates[candidate].status == CandidateStatus.VALIDATED:
        lifecycle.transition(
            study, candidate, CandidateStatus.LAUNCHED, RUNNER, f"{run} started", facts
        )
    else:
        study.append("launch.started", candidate, facts, RUNNER)


def _settle(study: Study, name: str, ended: dict[str, Any]) -> str:
    """Record the end of a run from its exit record; return what it came to in words."""
    run, folder = study.state.runs[name], study.folder.run(name)
    # By the ledger: what lies in the folder of a run may be the training's own.
    intents = study.events_of("launch.intent", about=(run.candidate,))
    is_remote = any(x.data["run"] == name and x.data["launcher"] != "local" for x in intents)
    key, why = existing_key(study.root), "the key that its seal was made from is gone"
    if key is not None:
        why = why_unsealed(ended, folder, seal_key(key, str(run.nonce)))
    kind, facts = _ending(ended, folder, study.adapter.outputs, is_remote=is_remote)
    if run.is_sealed and why is not None:
        kind, facts = "failed", dict[str, Any](why=f"its end is not proven: {why}")
    wall_s, cpu_s = ended.get("wall_s"), ended.get("cpu_s")
    if is_remote:  # the time in a queue is not charged, and the cores of its machine are unknown
        jobs = [read_record(path, JobRecord) for path in folder.glob("jobs/*/job.json")]
        wall_s, cpu_s = min(wall_s or 0.0, sum(job.seconds for job in jobs)), None
    actual = _amounts(run, wall_s, cpu_s)
    exit_facts = {key: ended.get(key) for key in ("code", "signal", "ended_by", "error")}
    facts |= {"run": name, "actual": actual.model_dump(exclude_none=True), "exit": exit_facts}
    facts["artefacts"] = ended.get("artefacts")
    study.append(f"run.{kind}", name, facts, RUNNER)
    return f"{kind}: {facts['why']}" if facts.get("why") else kind


class DueMove(NamedTuple):
    """Where a launched candidate goes, now that its runs are over."""

    to: CandidateStatus
    why: str
    facts: dict[str, Any]


def move_candidates(study: Study) -> None:
    """Send candidates on whose runs of this phase are all over: to completed or to debug."""
    for name in study.state.candidates:
        if move := due_move(study, name):
            lifecycle.transition(study, name, move.to, RUNNER, move.why, move.facts)


def due_move(study: Study, name: str) -> DueMove | None:
    """Return where a candidate goes because its runs are over; None while it stays."""
    standing = study.candidate_state(name)
    phase = standing.phase
    if standing.status != CandidateStatus.LAUNCHED or phase is None:
        return None
    jobs = [job for job in study.jobs if (job.candidate, job.phase) == (name, phase)]
    if broken := [f"seed {job.seed}: {job.reason}" for job in jobs if job.status == "failed"]:
        return DueMove(CandidateStatus.DEBUG, "; ".join(broken), {})
    if any(job.status in ("running", "ready", "waiting") for job in jobs):
        return None
    if jobs and all(job.status == "done" for job in jobs):
        why = f"{len(jobs)} of {len(jobs)} runs of {phase} finished"
        facts = {"phase": phase, "seeds": sorted(job.seed for job in jobs)}
        return DueMove(CandidateStatus.COMPLETED, why, facts)
    reasons = [job.reason for job in jobs if job.status == "cancelled"]
    why = ": ".join([f"nothing of {phase} can be launched any more", *reasons[:1]])
    return DueMove(CandidateStatus.DEBUG, why, {})


def _ending(
    ended: dict[str, Any], folder: Path, outputs: RepositoryOutputs, *, is_remote: bool
) -> tuple[str, dict[str, Any]]:
    """Return what kind of end it was: an exit code alone never proves success."""
    asked = RunProcess(folder).stop_request or {}
    codes = {ended.get("code"), *(each["code"] for each in ended.get("evaluations") or ())}
    if ended.get("ended_by") == "timeout" or (is_remote and _TIMED_OUT in codes):
        return "killed", {"by": "budget", "why": "its time was over"}
    if ended.get("ended_by") == "signal" or (is_remote and os.EX_TEMPFAIL in codes):
        # Without a request of ours, the owner of the machine took it back.
        by = asked.get("by", "preempted")
        why = asked.get("why", "it was stopped from outside, or its machine was lost")
        return "killed", {"by": by if by in _STOPPERS else "user", "why": why}
    if ended.get("error"):
        return "failed", {"why": ended["error"]}
    if ended.get("signal"):
        return "failed", {"why": f"it died of {ended['signal']}"}
    completion = outputs.completion
    if ended.get("code") != completion.exit_code:
        return "failed", {"why": f"it ended with code {ended.get('code')}"}
    for done in ended.get("evaluations") or ():
        if done["code"] != 0:
            how = done["error"] or f"ended with code {done['code']}"
            return "failed", {"why": f"its evaluation {done['name']}: {how}"}
    if missing := missing_outputs(folder, outputs):
        return "failed", {"why": f"silent failure: it left no {', no '.join(missing)}"}
    return "finished", {}


def _amounts(run: RunState, wall_s: float | None, cpu_s: float | None) -> Amounts:
    hours = None if wall_s is None else wall_s / _HOUR_S
    # What was allocated counts, not how busy it was.
    gpu_hours = hours if run.gpu is not None else (0.0 if hours is not None else None)
    return Amounts(
        wall_clock_h=hours,
        gpu_h=gpu_hours,
        cpu_core_h=None if cpu_s is None else cpu_s / _HOUR_S,
        launches=1,
    )
