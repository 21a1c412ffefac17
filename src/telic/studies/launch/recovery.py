"""Reconcile the ledger with the processes of the runs that it lists as live.

announced, no supervisor claimed it give it up, release its reservation claimed, the supervisor
lives adopt it claimed, gone, exit.json is there settle its cost claimed, gone, no exit.json lost:
settle up to the last heartbeat claimed on another machine leave it to that machine
"""

from __future__ import annotations

import shutil
from typing import Any, NamedTuple

from telic.studies.candidates import transition
from telic.studies.canonical import existing_key, moment, utc_now
from telic.studies.documents.base import RUNNER, StudyActor
from telic.studies.documents.candidate import CandidateStatus, KilledBy, RunStatus
from telic.studies.errors import StudyError
from telic.studies.evidence.measurement import missing_outputs
from telic.studies.evidence.store import why_unsealed
from telic.studies.folder import artifacts_hash
from telic.studies.launch._isolation import evaluator_checkout, remove_tree
from telic.studies.launch.process import RunProcess
from telic.studies.state import RunState
from telic.studies.study import Study

_HOUR_S = 3600.0
_STOPPERS = ("user", "stop_rule", "monitor", "budget", "preempted")
_CLAIM_S = 120.0
"""timeout in seconds from a launch's announcement to its claim"""


def reconcile(study: Study, *, processes: bool = False) -> dict[str, str]:
    """Reconcile the ledger with the processes and return the outcome of each run.

    Repeated calls have no effect. If `processes` is true, git may be started to remove the
    worktrees of decided candidates.
    """
    with study.locked():
        found = {name: _reconcile_run(study, name) for name in study.state.active_runs}
        for name in found.keys() - {*study.state.active_runs}:
            shutil.rmtree(evaluator_checkout(study.folder, name), ignore_errors=True)
        for name in study.state.candidates:
            if move := due_move(study, name):
                transition(study, name, *move)
    if processes:
        state = study.state
        live = {state.runs[name].candidate for name in state.active_runs}
        for name, held in state.candidates.items():
            is_decided = held.status in (CandidateStatus.REJECTED, CandidateStatus.REVERTED)
            if is_decided and name not in live:
                remove_tree(study.folder, study.candidate(name))
    return found


def is_over(study: Study, run: str) -> bool:
    """Return whether a run that the ledger lists as live has ended."""
    found = RunProcess(study.folder.run(run)).state
    if found == "unclaimed":
        age = moment(utc_now()) - moment(study.state.runs[run].intent_at)
        return age.total_seconds() > _CLAIM_S
    return found in ("ended", "given_up", "gone")


def stop_run(study: Study, run: str, by: KilledBy, why: str) -> None:
    """Ask a live run to save and stop. After a grace period, its supervisor kills it.

    The next `reconcile` records the cost. Raises StudyError E_NOT_LIVE if the run has ended.
    """
    state = study.run_state(run)
    if not state.is_live:
        raise StudyError("E_NOT_LIVE", f"{run} is already {state.status}.")
    RunProcess(study.folder.run(run)).ask_to_stop(by, why)


def _reconcile_run(study: Study, name: str) -> str:
    """Record the outcome of one run that the ledger lists as live."""
    run, process = study.state.runs[name], RunProcess(study.folder.run(name))
    is_entered = run.status == RunStatus.RUNNING
    state, claim = process.state, process.claim or {}
    if state == "unclaimed":
        if not process.give_up("it was announced but not started"):
            return _reconcile_run(study, name)  # it was claimed concurrently
        state = "gone" if is_entered else "given_up"
    if state == "elsewhere":
        return "unknown"
    if state == "given_up":
        why = str((process.claim or {}).get("given_up"))
        facts = {"run": name, "nonce": run.nonce, "reason": why}
        study.append("launch.aborted", run.candidate, facts, RUNNER)
        return "aborted"
    if not is_entered:
        record_start(study, name, str(run.nonce), claim)
    if state == "alive":
        return "alive" if is_entered else "adopted"
    if state == "ended":
        _settle(study, name, process.exit_record or {})
        return "ended"
    # Without an exit record it is charged up to its last heartbeat.
    beat = process.heartbeat or {}
    why = f"its supervisor is gone, {process.end_leftovers()} processes were left behind"
    facts = {"run": name, "why": why if claim else "pid.json is lost", "last_seen": beat.get("at")}
    facts["actual"] = _amounts(run, beat.get("wall_s", 0.0), None)
    study.append("run.lost", name, facts, RUNNER)
    return "lost"


def record_start(study: Study, run: str, nonce: str, identity: dict[str, Any]) -> None:
    """Record a started run. The first run changes a validated candidate's status to launched."""
    candidate = study.state.runs[run].candidate
    facts = {"run": run, "nonce": nonce, "candidate": candidate, "identity": identity}
    if study.state.candidates[candidate].status == CandidateStatus.VALIDATED:
        transition(study, candidate, CandidateStatus.LAUNCHED, RUNNER, f"{run} started", facts)
    else:
        study.append("launch.started", candidate, facts, RUNNER)


def _settle(study: Study, name: str, ended: dict[str, Any]) -> None:
    """Record the end of a run from its exit record."""
    run, folder = study.state.runs[name], study.folder.run(name)
    key, why = existing_key(study.root), "its signing key is missing"
    if key is not None:
        why = why_unsealed(ended, folder, key.derive(f"telic run {run.nonce}"))
    kind, facts = _ending(study, name, ended)
    if run.is_sealed and why is not None:
        kind, facts = "failed", dict[str, Any](why=f"its exit record is invalid: {why}")
    facts |= {"run": name, "actual": _amounts(run, ended.get("wall_s"), ended.get("cpu_s"))}
    facts["exit"] = {key: ended.get(key) for key in ("code", "signal", "ended_by", "error")}
    facts |= {"artifacts": artifacts_hash(ended), "code_hash": ended.get("code_hash")}
    study.append(f"run.{kind}", name, facts, RUNNER)


def _ending(study: Study, name: str, ended: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return how a run ended. An exit code of 0 alone does not mean success."""
    asked, code = RunProcess(study.folder.run(name)).stop_request or {}, ended.get("code")
    if ended.get("ended_by") == "timeout":
        return "killed", {"by": "budget", "why": "it reached its time limit"}
    if ended.get("ended_by") == "signal":
        # Without a stop request from telic, the machine's owner preempted it.
        by = asked.get("by", "preempted")
        why = asked.get("why", "it was stopped by another process, or its machine was lost")
        return "killed", {"by": by if by in _STOPPERS else "user", "why": why}
    if why := ended.get("error"):
        return "failed", {"why": why}
    if number := ended.get("signal"):
        return "failed", {"why": f"it was killed by {number}"}
    if code != study.adapter.outputs.completion.exit_code:
        return "failed", {"why": f"it exited with code {code}"}
    for each in ended.get("evaluations") or ():
        if each["code"] != 0:
            how = each["error"] or f"exited with code {each['code']}"
            return "failed", {"why": f"its evaluation {each['name']}: {how}"}
    if missing := missing_outputs(study, name):
        return "failed", {"why": f"silent failure: missing {', '.join(missing)}"}
    return "finished", {}


def _amounts(run: RunState, wall_s: float | None, cpu_s: float | None) -> dict[str, float]:
    """Return the cost of a run. Allocated GPUs count even if they were idle."""
    amounts = {"launches": 1.0}
    if wall_s is not None:
        hours = wall_s / _HOUR_S
        amounts |= {"wall_clock_h": hours, "gpu_h": 0.0 if run.gpu is None else hours}
    return amounts if cpu_s is None else {**amounts, "cpu_core_h": cpu_s / _HOUR_S}


# ---------------------------------------------------------------------------- candidates


class DueTransition(NamedTuple):
    """Transition that is due for a launched candidate whose runs have ended."""

    to: CandidateStatus
    actor: StudyActor
    why: str
    facts: dict[str, Any]


def due_move(study: Study, name: str) -> DueTransition | None:
    """Return the transition that is due after a candidate's runs have ended, or None."""
    held = study.candidate_state(name)
    if held.status != CandidateStatus.LAUNCHED or held.phase is None:
        return None
    jobs = [job for job in study.jobs if (job.candidate, job.phase) == (name, held.phase)]
    if broken := [f"seed {job.seed}: {job.reason}" for job in jobs if job.status == "failed"]:
        return DueTransition(CandidateStatus.DEBUG, RUNNER, "; ".join(broken), {})
    if any(job.status in ("running", "ready", "waiting") for job in jobs):
        return None
    if jobs and all(job.status == "done" for job in jobs):
        why = f"{len(jobs)} of {len(jobs)} runs of {held.phase} finished"
        facts = {"phase": held.phase, "seeds": sorted(job.seed for job in jobs)}
        return DueTransition(CandidateStatus.COMPLETED, RUNNER, why, facts)
    reasons = [job.reason for job in jobs if job.status == "cancelled"]
    why = ": ".join([f"{held.phase} has no more runs to launch", *reasons[:1]])
    return DueTransition(CandidateStatus.DEBUG, RUNNER, why, {})
