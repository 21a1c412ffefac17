"""Launch a run: check the gates, prepare, check again under the lock, start and record the run.

Runs are only started by this module, so every training process passes all gates.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from telic.core.config import Record
from telic.errors import TelicError
from telic.jobs.process import Process
from telic.storage.files import write_json
from telic.studies import _git_read as git_read
from telic.studies.canonical import content_hash
from telic.studies.documents.base import RUNNER, StudyActor
from telic.studies.documents.candidate import CheckResult
from telic.studies.errors import EnvironmentBlocked
from telic.studies.launch._isolation import check_out, evaluator_checkout, mode_of, prepare_tree
from telic.studies.launch.attempt import LaunchAttempt, LaunchRequest, check_token
from telic.studies.launch.command import OVERRIDES_FILE, redact_environment
from telic.studies.launch.process import RunProcess
from telic.studies.launch.recovery import reconcile, record_start
from telic.studies.launch.supervisor import ORDER_FILE
from telic.studies.rules.gates import evaluate, refusal
from telic.studies.study import Study

_CLAIM_S = 20.0
_POLL_S = 0.005


class DryRun(Record):
    """Gate results of a run, and the command that a launch would start."""

    candidate: str
    phase: str
    seed: int
    gates: tuple[CheckResult, ...]
    start: dict[str, Any] | None
    """command, folder and redacted environment, or None if it cannot be built"""

    @property
    def is_open(self) -> bool:
        """True if every gate except the confirmation is open."""
        return all(each.passed or each.id == "G01" for each in self.gates)


class LaunchResult(Record):
    """Result of starting a run."""

    run: str
    nonce: str
    folder: Path
    pid: int


def look(study: Study, request: LaunchRequest, *, processes: bool = True) -> DryRun:
    """Evaluate the gates and show the command without starting or writing anything.

    If `processes` is true, the GPU driver may be queried.
    """
    attempt = LaunchAttempt(study, request, processes=processes)
    gates = evaluate(attempt)
    start: dict[str, Any] | None = None
    with contextlib.suppress(TelicError):  # reported by the gates that need it
        start = {
            "argv": list(attempt.command.argv),
            "cwd": str(attempt.command.cwd),
            "started_by": list(attempt.started_by),
            "environment": redact_environment(attempt.environment.changed),
            "reservation": attempt.reservation.model_dump(exclude_none=True),
        }
    candidate, phase, seed = request[:3]
    return DryRun(candidate=candidate, phase=phase, seed=seed, gates=gates, start=start)


def launch(study: Study, request: LaunchRequest, actor: StudyActor) -> LaunchResult:
    """Start one run. If a gate is closed, record the refusal and raise the gate's error.

    Raises StudyError E_CONFIRM, the error of the closed gates, or EnvironmentBlocked E_LAUNCHER.
    """
    check_token(request.confirm)
    reconcile(study)
    first = LaunchAttempt(study, request, processes=True)
    _refuse_closed(study, first, evaluate(first), actor)
    prepare_tree(study.folder, first.candidate)
    if first.evaluator_tree == evaluator_checkout(study.folder, first.run_id):
        # The candidate has no influence on the commit that measures it.
        commit = first.study.contract.baseline.commit or str(first.candidate.base_commit)
        check_out(study.folder, commit, first.evaluator_tree)
    with study.locked():
        attempt = LaunchAttempt(study, first.request, processes=True, first=first)
        results = evaluate(attempt)
        _refuse_closed(study, attempt, results, actor)
        _write_run_folder(attempt)
        candidate = attempt.request.candidate
        study.append("launch.intent", candidate, _intent(attempt, results, actor), RUNNER)
        try:
            claim = _start(attempt)
        except TelicError as error:
            # If it did start, the next reconciliation adopts it.
            process = RunProcess(attempt.run_folder)
            if process.give_up(error.message) or process.state == "given_up":
                facts = {"run": attempt.run_id, "nonce": attempt.nonce, "reason": error.message}
                study.append("launch.aborted", candidate, facts, RUNNER)
            raise
        identity = {**claim, "logs": ["stdout.log", "stderr.log"]}
        record_start(study, attempt.run_id, attempt.nonce, identity)
    return LaunchResult(
        run=attempt.run_id,
        nonce=attempt.nonce,
        folder=attempt.run_folder,
        pid=int(claim["pid"]),
    )


def _refuse_closed(
    study: Study, attempt: LaunchAttempt, results: Sequence[CheckResult], actor: StudyActor
) -> None:
    """Record the refusal and raise it as an error if a gate is closed."""
    if closed := [each for each in results if not each.passed]:
        request, reasons = attempt.request, {each.id: each.why for each in closed}
        facts = {"run": attempt.run_id, "phase": request.phase, "seed": request.seed}
        facts |= {"asked_by": actor.label, "shut": reasons}
        study.append("launch.refused", request.candidate, facts, RUNNER)
        raise refusal(closed)


def _intent(
    attempt: LaunchAttempt, results: Sequence[CheckResult], actor: StudyActor
) -> dict[str, Any]:
    """Return the ledger entry that announces a run. The details are in the run folder."""
    request, takes_steps = attempt.request, any("{steps}" in x for x in attempt.spec.argv)
    return {
        "run": attempt.run_id,
        "candidate": request.candidate,
        "phase": request.phase,
        "seed": request.seed,
        "steps": attempt.reservation.env_steps if takes_steps else None,
        "nonce": attempt.nonce,
        "sealed": True,
        "argv": list(attempt.command.argv),
        "steps_hash": content_hash([step.model_dump() for step in attempt.steps]),
        "content_hash": attempt.candidate.compute_hash(),
        "gates": {each.id: each.passed for each in results},
        "reservation": attempt.reservation.model_dump(exclude_none=True),
        "gpu": attempt.gpus[0] if attempt.gpus else None,
        "retry_of": attempt.retry_of,
        "asked_by": actor.label,
    }


def _write_run_folder(attempt: LaunchAttempt) -> None:
    """Write the files needed to restart the run manually."""
    folder, environment, tree = attempt.run_folder, attempt.environment, attempt.tree
    candidate, changed = attempt.candidate, environment.changed
    git: dict[str, Any] = {
        "tree": str(tree),
        "mode": mode_of(attempt.study.folder, candidate),
        "base_commit": candidate.base_commit,
        "patch_hash": candidate.change.patch_sha256,
    }
    if git_read.is_repository(tree):
        git["commit"] = git_read.head_commit(tree)
        git["changed"] = list(git_read.changed_paths(tree))
        git["diff"] = git_read.ask(tree, "diff", "--no-ext-diff", "HEAD", "--").out
    attempt.artifacts.mkdir(parents=True)
    if attempt.study.adapter.config.override_style == "file":
        write_json(attempt.artifacts / OVERRIDES_FILE, attempt.overrides)
    env = {
        "set": redact_environment(changed),
        # Values could be secrets of any form.
        "inherited": sorted(environment.variables.keys() - changed),
        "withheld": list(environment.withheld),
        "network": "offline" if environment.is_offline else "approved",
    }
    write_json(folder / ORDER_FILE, attempt.order)
    write_json(folder / "env.json", env)
    write_json(folder / "git.json", git)
    write_json(folder / "hw.json", attempt.machine.model_dump(mode="json"))


def _start(attempt: LaunchAttempt) -> dict[str, Any]:
    """Start the supervisor, which outlives this process, and return its claim to the run.

    Raises EnvironmentBlocked E_LAUNCHER.
    """
    log = attempt.run_folder / "supervisor.log"
    process = Process.detach(attempt.started_by, log, attempt.variables)
    run, deadline = RunProcess(attempt.run_folder), time.monotonic() + _CLAIM_S
    while run.claim is None and process.code is None and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    claim = run.claim
    if claim is None or run.state == "given_up":
        why = f"did not start (see supervisor.log, code {process.code})"
        raise EnvironmentBlocked("E_LAUNCHER", f"The supervisor of {attempt.run_id} {why}.")
    return claim
