"""What is written about a run: its folder before the start, then how it began and how it ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from telic import __version__
from telic.storage.files import read_json, write_json, write_text
from telic.studies import git_read, lifecycle
from telic.studies.documents.adapter import RepositoryOutputs
from telic.studies.documents.base import RUNNER
from telic.studies.documents.candidate import CandidateStatus
from telic.studies.documents.contract import Amounts
from telic.studies.documents.runs import RunStatus, StudyRun, Times
from telic.studies.launch.attempt import LaunchAttempt
from telic.studies.launch.command import OVERRIDES_FILE
from telic.studies.launch.environment import redact_environment
from telic.studies.launch.processes import read_heartbeat, stop_request
from telic.studies.launch.request import ARTEFACTS
from telic.studies.queue import MOST_ATTEMPTS
from telic.studies.state import CandidateState, RunState
from telic.studies.study import Study


def write_run_folder(attempt: LaunchAttempt) -> None:
    """Write run.json, cmd.json, env.json, git.json, hw.json and what the launcher starts from.

    It is enough to start the run again by hand.
    """
    folder = attempt.run_folder
    (folder / ARTEFACTS).mkdir(parents=True)
    if attempt.adapter.config.override_style == "file":
        write_json(folder / ARTEFACTS / OVERRIDES_FILE, attempt.overrides)
    write_json(folder / "cmd.json", _command_facts(attempt))
    write_json(folder / "env.json", _environment_facts(attempt))
    write_json(folder / "git.json", _tree_facts(attempt))
    write_json(folder / "hw.json", attempt.machine.model_dump(mode="json"))
    if attempt.rendered.document is not None:
        write_text(folder / str(attempt.rendered.document_name), attempt.rendered.document)
    write_json(attempt.study.folder.run_file(attempt.run_id), _run(attempt).as_data())


def _command_facts(attempt: LaunchAttempt) -> dict[str, Any]:
    return {
        "nonce": attempt.nonce,
        "argv": list(attempt.command.argv),
        "argv_hash": attempt.command.hash,
        "cwd": str(attempt.command.cwd),
        "timeout_s": attempt.order.timeout_s,
        "launcher": attempt.adapter.launcher.kind,
        "launcher_options": attempt.adapter.launcher.options,
        "started_by": list(attempt.rendered.argv),
        "rendered_hash": attempt.rendered.hash,
        "tool_version": __version__,
    }


def _run(attempt: LaunchAttempt) -> StudyRun:
    return StudyRun(
        id=attempt.run_id,
        created_at=attempt.now,
        created_by=RUNNER,
        candidate=attempt.request.candidate,
        phase=attempt.request.phase,
        seed=attempt.request.seed,
        cmd_hash=attempt.command.hash,
        nonce=attempt.nonce,
        launcher=attempt.adapter.launcher.kind,
        status=RunStatus.STARTING,
        times=Times(planned_at=attempt.now),
        resources=attempt.reservation,
        artefacts={"run_dir": ARTEFACTS, "stdout": "stdout.log", "stderr": "stderr.log"},
        retry_of=attempt.request.retry_of,
    )


def _environment_facts(attempt: LaunchAttempt) -> dict[str, Any]:
    environment = attempt.environment
    return {
        "set": redact_environment(environment.changed),
        "inherited": redact_environment(
            {k: v for k, v in environment.variables.items() if k not in environment.changed}
        ),
        "withheld": list(environment.withheld),
        "network": "offline" if environment.is_offline else "approved",
        "enforced_by": "environment" if environment.is_offline else "none",
    }


def _tree_facts(attempt: LaunchAttempt) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "tree": str(attempt.tree),
        "mode": attempt.candidate.isolation.mode,
        "base_commit": attempt.candidate.base_commit,
        "patch_hash": attempt.candidate.change.patch_sha256,
    }
    if git_read.is_repository(attempt.tree):
        facts["commit"] = git_read.head_commit(attempt.tree)
        facts["changed"] = list(git_read.changed_paths(attempt.tree))
        facts["diff"] = git_read.ask(attempt.tree, "diff", "--no-ext-diff", "HEAD", "--").out
    return facts


_HOUR_S = 3600.0
_STOPPERS = ("user", "stop_rule", "monitor", "budget", "preempted")


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


def settle(study: Study, name: str, ended: dict[str, Any]) -> str:
    """Enter the end of a run from its exit record; return what it came to in words."""
    run, folder = study.state.runs[name], study.folder.run(name)
    kind, facts = _ending(ended, folder, study.adapter.outputs)
    actual = _amounts(run, ended.get("wall_s"), ended.get("cpu_s"))
    facts |= {"run": name, "actual": actual.model_dump(exclude_none=True)}
    facts |= {"exit": {key: ended.get(key) for key in ("code", "signal", "ended_by", "error")}}
    study.append(f"run.{kind}", name, facts, RUNNER)
    close_run_file(study, name)
    return f"{kind}: {facts['why']}" if facts.get("why") else kind


def settle_lost(study: Study, name: str, why: str) -> None:
    """Enter a run that left no word; it is charged up to its last sign of life."""
    run = study.state.runs[name]
    beat = read_heartbeat(study.folder.run(name)) or {}
    actual = _amounts(run, beat.get("wall_s", 0.0), None)
    facts = {"run": name, "why": why, "last_seen": beat.get("at")}
    facts["actual"] = actual.model_dump(exclude_none=True)
    study.append("run.lost", name, facts, RUNNER)
    close_run_file(study, name)


def close_run_file(study: Study, name: str) -> None:
    """Bring run.json in line with the ledger."""
    path, state = study.folder.run_file(name), study.state.runs[name]
    if not path.is_file():
        return
    run = StudyRun.parse(read_json(path), str(path))
    times = run.times.model_copy(
        update={"started_at": state.started_at, "ended_at": state.ended_at}
    )
    changes = {
        "status": state.status,
        "killed_by": state.killed_by,
        "why": state.why,
        "times": times,
        "cost": state.actual,
    }
    write_json(path, run.model_copy(update=changes).as_data())


def move_candidates(study: Study) -> None:
    """Send candidates on whose runs of this phase are all over: to completed or to debug."""
    for name, standing in study.state.candidates.items():
        if standing.status == CandidateStatus.LAUNCHED:
            _move(study, name, standing)


def _move(study: Study, name: str, standing: CandidateState) -> None:
    tries = _tries(study, name, standing)
    if broken := [why for each in tries.values() if (why := _why_broken(each))]:
        lifecycle.transition(study, name, CandidateStatus.DEBUG, RUNNER, "; ".join(broken), {})
        return
    planned = frozenset[int]()
    if standing.phase is not None:
        planned = study.planned_seeds(name, standing.phase)
    latest = [each[-1] for each in tries.values()]
    finished = {run.seed for run in latest if run.status == RunStatus.FINISHED}
    if planned and planned <= finished and not any(run.is_live for run in latest):
        reason = f"{len(planned)} of {len(planned)} runs of {standing.phase} finished"
        facts = {"phase": standing.phase, "seeds": sorted(planned)}
        lifecycle.transition(study, name, CandidateStatus.COMPLETED, RUNNER, reason, facts)


def _tries(study: Study, candidate: str, standing: CandidateState) -> dict[int, list[RunState]]:
    """Return the tries of each seed of the present phase and revision, the oldest first."""
    revisions = study.run_revisions
    tries: dict[int, list[RunState]] = {}
    for name, run in study.state.runs_of(candidate, standing.phase).items():
        if run.status != RunStatus.ABORTED and revisions[name] == standing.revision:
            tries.setdefault(run.seed, []).append(run)
    return tries


def _why_broken(tries: list[RunState]) -> str | None:
    """Return why a seed sends its candidate to debug; a lost run is tried again first."""
    run = tries[-1]
    if run.may_be_retried:
        is_hopeless = len(tries) >= MOST_ATTEMPTS
        return f"seed {run.seed} was lost {len(tries)} times" if is_hopeless else None
    if run.status in (RunStatus.FAILED, RunStatus.KILLED):
        return f"seed {run.seed} was {run.status}: {run.why}"
    return None


def _ending(
    ended: dict[str, Any], folder: Path, outputs: RepositoryOutputs
) -> tuple[str, dict[str, Any]]:
    """Return what kind of end it was: an exit code alone never proves success."""
    asked = stop_request(folder) or {}
    if ended.get("ended_by") == "timeout":
        return "killed", {"by": "budget", "why": "its time was over"}
    if ended.get("ended_by") == "signal":
        # Nobody here asked for it: whoever owns the machine took it back.
        by = asked.get("by", "preempted")
        why = asked.get("why", "it was told to stop from outside")
        return "killed", {"by": by if by in _STOPPERS else "user", "why": why}
    if ended.get("error"):
        return "failed", {"why": ended["error"]}
    if ended.get("signal"):
        return "failed", {"why": f"it died of {ended['signal']}"}
    completion = outputs.completion
    if ended.get("code") != completion.exit_code:
        return "failed", {"why": f"it ended with code {ended.get('code')}"}
    if missing := _missing_proof(folder / ARTEFACTS, outputs):
        return "failed", {"why": f"silent failure: {missing}"}
    return "finished", {}


def _missing_proof(run_dir: Path, outputs: RepositoryOutputs) -> str | None:
    marker = outputs.completion.marker_file
    if marker is not None and not (run_dir / marker.removeprefix("{run_dir}/")).is_file():
        return f"it left no {marker}"
    glob = outputs.checkpoint_glob
    if glob is not None and not any(run_dir.glob(glob.removeprefix("{run_dir}/"))):
        return f"it left no checkpoint ({glob})"
    return None


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
