"""Start a run as a Ray job; the submission id is the nonce, which Ray accepts once."""

from __future__ import annotations

import importlib
import shlex
from pathlib import Path
from typing import Any

from telic.errors import MissingExtra
from telic.studies.errors import EnvironmentBlocked
from telic.studies.launch.order import (
    JobHandle,
    JobReport,
    JobState,
    LaunchOrder,
    LaunchPermit,
    RenderedLaunch,
    supervised,
)

_ADDRESS = "http://127.0.0.1:8265"
_STATES: dict[str, JobState] = {
    "PENDING": "waiting",
    "RUNNING": "running",
    "STOPPED": "ended",
    "SUCCEEDED": "ended",
    "FAILED": "ended",
}


class RayLauncher:
    """Submits one job per run to a Ray cluster that shares the file system."""

    def __init__(self, address: str | None = None) -> None:
        self.address = address or _ADDRESS

    def render(self, order: LaunchOrder) -> RenderedLaunch:
        """Return the submission as the `ray` command would make it."""
        words = ["ray", "job", "submit", f"--address={self.address}", "--no-wait"]
        words += [f"--submission-id={order.job_name}", f"--entrypoint-num-gpus={len(order.gpus)}"]
        return RenderedLaunch((*words, "--", _entrypoint(order)))

    def start(self, permit: LaunchPermit, order: LaunchOrder) -> JobHandle:
        """Submit it."""
        permit.spend(order.nonce, order.argv_hash)
        client = self._client()
        try:
            client.submit_job(
                entrypoint=_entrypoint(order),
                submission_id=order.job_name,
                runtime_env={"env_vars": order.changed},
                entrypoint_num_gpus=len(order.gpus) or None,
                metadata=order.labels,
            )
        except (RuntimeError, ValueError) as error:
            raise EnvironmentBlocked(
                "E_LAUNCHER", f"Ray did not take job {order.job_name}: {error}"
            ) from None
        return JobHandle(job_id=order.job_name, attach=f"ray job logs --follow {order.job_name}")

    def report(self, nonce: str, folder: Path) -> JobReport:
        """Ask for the job's status."""
        name = f"telic-{nonce}"
        client = self._client()
        if all(each.submission_id != name for each in client.list_jobs()):
            return JobReport("unknown", f"Ray knows no job {name}")
        status = str(client.get_job_status(name).value)
        return JobReport(_STATES.get(status, "unknown"), f"Ray says {status}")

    def stop(self, nonce: str, folder: Path) -> None:
        """Stop it."""
        self._client().stop_job(f"telic-{nonce}")

    def _client(self) -> Any:
        try:
            jobs = importlib.import_module("ray.job_submission")
        except ImportError:
            raise MissingExtra("ray", "ray", "Starting runs on Ray") from None
        try:
            return jobs.JobSubmissionClient(self.address)
        except ConnectionError as error:
            raise EnvironmentBlocked(
                "E_LAUNCHER",
                f"There is no Ray cluster at {self.address}: {error}",
                hint="Start one with: ray start --head",
            ) from None


def _entrypoint(order: LaunchOrder) -> str:
    # Ray takes one string and gives it to a shell; quoting makes each argument arrive as it is.
    return shlex.join(supervised(order))
