"""Jobs on Slurm, through submitit.

Slurm machines share a file system, so a job runs in the folder of the request and no files are
copied. submitit's local executor runs the same jobs on this machine, for trials without a cluster.
"""

from __future__ import annotations

import importlib
import math
from typing import Any

from telic.errors import MissingExtra
from telic.jobs.spec import AttemptReport, JobFolder, JobSpec
from telic.jobs.worker import finished_report, run_attempt_in

_FOREVER_MIN = 10 * 365 * 24 * 60
_WAITING = ("PENDING", "CONFIGURING", "REQUEUED", "SUSPENDED", "UNKNOWN", "READY")
_RUNNING = ("RUNNING", "COMPLETING", "STAGE_OUT")


class SlurmJobs:
    """Launcher that runs attempts as Slurm jobs, or with submitit's local executor."""

    room = 200

    def __init__(self) -> None:
        _submitit()
        self._jobs: dict[str, Any] = {}

    def start(self, spec: JobSpec, folder: JobFolder, attempt: int) -> str:
        """Submit an attempt."""
        executor = _executor(spec, folder)
        job = executor.submit(run_attempt_in, str(folder.path), attempt)
        self._jobs[spec.name] = job
        return str(job.job_id)

    def look(self, spec: JobSpec, folder: JobFolder, attempt: int) -> AttemptReport:
        """Read the attempt's files, or query the scheduler."""
        job = self._jobs[spec.name]
        state = str(job.state).split(" ")[0]
        report = finished_report(folder, attempt)
        # The local process is our child, so wait for it to end.
        if report is not None and (spec.cluster != "local" or job.done()):
            return report
        if state in _WAITING or state in _RUNNING:
            is_running = folder.beat(attempt).exists()
            return AttemptReport(state="running" if is_running else "waiting", detail=state)
        return AttemptReport(state="gone", detail=f"{job.job_id} is {state} and left no result")

    def stop(self, spec: JobSpec, *, now: bool) -> None:
        """Cancel an attempt; for a graceful stop its worker polls the stop file."""
        if now:
            self._jobs[spec.name].cancel(check=False)

    def close(self) -> None:
        """Do nothing: no resources are held."""


def _executor(spec: JobSpec, folder: JobFolder) -> Any:
    kinds = _submitit()
    kind = kinds.LocalExecutor if spec.cluster == "local" else kinds.SlurmExecutor
    executor = kind(folder=folder.path / "submitit")
    if spec.cluster == "local":
        executor.update_parameters(timeout_min=spec.minutes or _FOREVER_MIN)
    else:
        executor.update_parameters(**_parameters(spec))
    return executor


def _parameters(spec: JobSpec) -> dict[str, Any]:
    asks = {name.replace("_", "-"): value for name, value in spec.asks.items()}
    if spec.cores > 1:
        asks.setdefault("cpus-per-task", math.ceil(spec.cores))
    if spec.gpus > 0:
        asks.setdefault("gres", f"gpu:{math.ceil(spec.gpus)}")
    return {"job_name": spec.name, "time": spec.minutes, "additional_parameters": asks}


def _submitit() -> Any:
    try:
        return importlib.import_module("submitit")
    except ImportError:
        raise MissingExtra("submitit", "slurm", "Starting runs on Slurm") from None
