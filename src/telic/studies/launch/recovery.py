"""Reconcile the ledger with the processes: the outcome of runs that it believes alive.

announced, no supervisor claimed it    give it up, release its reservation
claimed, the supervisor lives          adopt it
claimed, gone, exit.json is there      settle its cost
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
from telic.studies.evidence.integrity import why_unsealed
from telic.studies.evidence.measurement import missing_outputs
from telic.studies.launch.isolation import remove_tree
from telic.studies.launch.process import RunProcess
from telic.studies.state import RunState
from telic.studies.study import Study

_HOUR_S = 3600.0
_STOPPERS = ("user", "stop_rule", "monitor", "budget", "preempted")
_CLAIM_S = 120.0
"""longest time from the announcement of a launch to its claim"""
_TIMED_OUT = 124
"""exit code of timeout(1)"""
_NEVER_STARTED = "it was announced and never started"

Outcome = Literal["aborted", "adopted", "alive", "ended", "lost", "unknown"]


class RecoveredRun(Record):
    """The outcome of one run."""

    run: str
    outcome: Outcome
    why: str = ""


def reconcile(study: Study, *, processes: bool = False) -> list[RecoveredRun]:
    """Bring the ledger in line with the processes; safe to call at any time.

    With `processes` git may be started, to remove worktrees of candidates that were decided on.
    """
    with study.locked():
        found = [_reconcile_run(study, name) for name in study.state.active_runs]
        move_candidates(study)
    if processes:
        state = study.state
        live = {state.runs[name].candidate for name in state.active_runs}
        for name, standing in state.candidates.items():
            is_decided = standing.status in (CandidateStatus.REJECTED, CandidateStatus.REVERTED)
            if is_decided and name not in live:
                remove_tree(study.folder, study.candidate(name))
    return found


def is_over(study: Study, run: str) -> bool:
    """Return whether a run that the ledger believes alive has ended."""
    found = RunProcess(study.folder.run(run)).state
    if found == "unclaimed":
        age = moment(utc_now()) - moment(study.state.runs[run].intent_at)
        return age.total_seconds() > _CLAIM_S
    return found in ("ended", "given_up", "gone")


def stop_run(study: Study, run: str, by: KilledBy, why: str) -> None:
    """Ask a live run to end; its supervisor gives it time to save, then kills it.

    The next `reconcile` settles its cost. Raises StudyError E_NOT_LIVE.
    """
    state = study.state.runs.get(run)
    if state is None:
        raise UnknownName("run", run, list(study.state.active_runs), see="telic study status")
    if not state.is_live:
        raise StudyError("E_NOT_LIVE", f"{run} is {state.status} already.")
    RunProcess(study.folder.run(run)).ask_to_stop(by, why)


def _reconcile_run(study: Study, name: str) -> RecoveredRun:
    """Find the outcome of one run that the ledger believes alive, and enter it."""
    run, process = study.state.runs[name], RunProcess(study.folder.run(name))
    is_entered = run.status == RunStatus.RUNNING
    state, claim = process.state, process.claim or {}
    if state == "unclaimed":
        if not process.give_up(_NEVER_STARTED):
            return _reconcile_run(study, name)  # it was claimed in this moment
        state = "gone" if is_entered else "given_up"
    if state == "elsewhere":
        return RecoveredRun(run=name, outcome="unknown", why=f"it runs on {claim.get('host')}")
    if state == "given_up":
        why = str((process.claim or {}).get("given_up"))
        facts = {"run": name, "nonce": run.nonce, "reason": why}
        study.append("launch.aborted", run.candidate, facts, RUNNER)
        return RecoveredRun(run=name, outcome="aborted", why=why)
    if not is_entered:
        record_start(study, name, str(run.nonce), claim)
    if state == "alive":
        if is_entered:
            return RecoveredRun(run=name, outcome="alive")
        study.append("run.adopted", name, {"run": name, "identity": claim}, SYSTEM)
        why = "it was started and not yet entered"
        return RecoveredRun(run=name, outcome="adopted", why=why)
    if state == "ended":
        return RecoveredRun(
            run=name, outcome="ended", why=_settle(study, name, process.exit_record or {})
        )
    # Without an exit record it is charged up to its last heartbeat.
    beat = process.heartbeat or {}
    why = f"its supervisor is gone, {process.end_leftovers()} left behind"
    facts = {"run": name, "why": why if claim else "pid.json is gone", "last_seen": beat.get("at")}
    actual = _amounts(run, beat.get("wall_s", 0.0), None)
    facts["actual"] = actual.model_dump(exclude_none=True)
    study.append("run.lost", name, facts, RUNNER)
    return RecoveredRun(run=name, outcome="lost", why=facts["why"])


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
    """Record the end of a run from its exit record; return the outcome in words."""
    run, folder = study.state.runs[name], study.folder.run(name)
    # By the ledger: files in the folder of a run may be the training's own.
    intents = study.events_of("launch.intent", about=(run.candidate,))
    is_remote = any(x.data["run"] == name and x.data["launcher"] != "local" for x in intents)
    key, why = existing_key(study.root), "the key that signed it is gone"
    if key is not None:
        why = why_unsealed(ended, folder, key.derive(f"telic run {run.nonce}"))
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
    facts |= {key: ended.get(key) for key in ("artefacts", "code_hash")}
    study.append(f"run.{kind}", name, facts, RUNNER)
    return f"{kind}: {facts['why']}" if facts.get("why") else kind


def _ending(
    ended: dict[str, Any], folder: Path, outputs: RepositoryOutputs, *, is_remote: bool
) -> tuple[str, dict[str, Any]]:
    """Return the kind of end: an exit code alone never proves success."""
    asked, code = RunProcess(folder).stop_request or {}, ended.get("code")
    evaluations = ended.get("evaluations") or ()
    codes = {code, *(each["code"] for each in evaluations)}
    if ended.get("ended_by") == "timeout" or (is_remote and _TIMED_OUT in codes):
        return "killed", {"by": "budget", "why": "its time was over"}
    if ended.get("ended_by") == "signal" or (is_remote and os.EX_TEMPFAIL in codes):
        # Without a request of ours, the owner of the machine took it back.
        by = asked.get("by", "preempted")
        why = asked.get("why", "it was stopped from outside, or its machine was lost")
        return "killed", {"by": by if by in _STOPPERS else "user", "why": why}
    if why := ended.get("error"):
        return "failed", {"why": why}
    if number := ended.get("signal"):
        return "failed", {"why": f"it died of {number}"}
    if code != outputs.completion.exit_code:
        return "failed", {"why": f"it ended with code {code}"}
    for each in evaluations:
        if each["code"] != 0:
            how = each["error"] or f"ended with code {each['code']}"
            return "failed", {"why": f"its evaluation {each['name']}: {how}"}
    if missing := missing_outputs(folder, outputs):
        return "failed", {"why": f"silent failure: it left no {', no '.join(missing)}"}
    return "finished", {}


def _amounts(run: RunState, wall_s: float | None, cpu_s: float | None) -> Amounts:
    hours = None if wall_s is None else wall_s / _HOUR_S
    # GPUs are charged while allocated, busy or not.
    gpu_hours = hours if run.gpu is not None else (0.0 if hours is not None else None)
    return Amounts(
        wall_clock_h=hours,
        gpu_h=gpu_hours,
        cpu_core_h=None if cpu_s is None else cpu_s / _HOUR_S,
        launches=1,
    )


# ---------------------------------------------------------------------------- candidates


class DueMove(NamedTuple):
    """The next status of a launched candidate whose runs are over."""

    to: CandidateStatus
    why: str
    facts: dict[str, Any]


def move_candidates(study: Study) -> None:
    """Move candidates whose runs of this phase are all over: to completed or to debug."""
    for name in study.state.candidates:
        if move := due_move(study, name):
            lifecycle.transition(study, name, move.to, RUNNER, move.why, move.facts)


def due_move(study: Study, name: str) -> DueMove | None:
    """Return the next status of a candidate because its runs are over; None while it stays."""
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
