"""Jobs on Slurm, through submitit: one contract for pools of jobs and for the runs of studies.

Slurm machines share a file system, so a job works where it was asked for and nothing travels.
submitit's local executor runs the same jobs on this machine: a way to try one without a cluster.
"""

from __future__ import annotations

import importlib
import math
import sys
from pathlib import Path
from typing import Any

from telic.errors import MissingExtra
from telic.jobs.spec import AttemptReport, JobFolder, JobSpec
from telic.jobs.worker import finished_report, run_attempt_in, run_job

_FOREVER_MIN = 10 * 365 * 24 * 60
_WAITING = ("PENDING", "CONFIGURING", "REQUEUED", "SUSPENDED", "UNKNOWN", "READY")
_RUNNING = ("RUNNING", "COMPLETING", "STAGE_OUT")


def submit_job(path: Path) -> str:
    """Hand the job of a file to its scheduler; returns the number that it gave.

    Raises MissingExtra without the extra `slurm`, RuntimeError where there is no Slurm.
    """
    spec = JobSpec.model_validate_json(path.read_bytes())
    return str(_executor(spec, path).submit(run_job, str(path)).job_id)


def slurm_script(spec: JobSpec, path: Path) -> str:
    """Return the script that `submit_job` would give to sbatch."""
    _submitit()
    slurm = importlib.import_module("submitit.slurm.slurm")
    folder = _folder(path)
    command = f"{sys.executable} -u -m submitit.core._submit {folder}"
    return str(slurm._make_sbatch_string(command=command, folder=folder, **_parameters(spec)))


class SlurmJobs:
    """Attempts as jobs of Slurm, or of submitit's local executor."""

    room = 200

    def __init__(self) -> None:
        _submitit()
        self._jobs: dict[str, Any] = {}

    def start(self, spec: JobSpec, folder: JobFolder, attempt: int) -> str:
        """Submit an attempt."""
        executor = _executor(spec, folder.spec)
        job = executor.submit(run_attempt_in, str(folder.path), attempt)
        self._jobs[spec.name] = job
        return str(job.job_id)

    def look(self, spec: JobSpec, folder: JobFolder, attempt: int) -> AttemptReport:
        """Read what the attempt left behind, else ask the scheduler."""
        job = self._jobs[spec.name]
        state = str(job.state).split(" ")[0]
        report = finished_report(folder, attempt)
        # Here the process is ours, and somebody has to see it end.
        if report is not None and (spec.cluster != "local" or job.done()):
            return report
        if state in _WAITING or state in _RUNNING:
            is_running = folder.beat(attempt).exists()
            return AttemptReport(state="running" if is_running else "waiting", detail=state)
        return AttemptReport(state="gone", detail=f"{job.job_id} is {state} and left no result")

    def stop(self, spec: JobSpec, *, now: bool) -> None:
        """Cancel an attempt; asked gently, its worker sees the stop file by itself."""
        if now:
            self._jobs[spec.name].cancel(check=False)

    def close(self) -> None:
        """Nothing is held."""


def _executor(spec: JobSpec, path: Path) -> Any:
    kinds = _submitit()
    kind = kinds.LocalExecutor if spec.cluster == "local" else kinds.SlurmExecutor
    executor = kind(folder=_folder(path))
    if spec.cluster == "local":
        executor.update_parameters(timeout_min=spec.minutes or _FOREVER_MIN)
    else:
        executor.update_parameters(**_parameters(spec))
    return executor


def _folder(path: Path) -> Path:
    return path.parent / "submitit"


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
