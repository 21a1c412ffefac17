"""A job of a Ray cluster that outlives whoever submitted it: how studies start a run on Ray.

Ray's job server takes a name once, keeps the log and knows the state, so nobody has to stay and
drive. Such a job works on a file system that all machines share; `ray_cluster.py` is for jobs whose
files travel.
"""

from __future__ import annotations

import importlib
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from telic.errors import MissingExtra
from telic.jobs.spec import JobSpec, job_command
from telic.storage.files import write_text

HERE = "http://127.0.0.1:8265"
_STATES: dict[str, Literal["waiting", "running", "ended"]] = {
    "PENDING": "waiting",
    "RUNNING": "running",
    **dict.fromkeys(("STOPPED", "SUCCEEDED", "FAILED"), "ended"),
}


class SubmittedState(NamedTuple):
    """What Ray says of a job."""

    state: Literal["waiting", "running", "ended", "unknown"]
    detail: str


class RaySubmissions:
    """The job server of a Ray cluster.

    Args:
        address: of its dashboard; None for that of this machine.
    """

    def __init__(self, address: str | None = None) -> None:
        self.address = address or HERE

    def words(self, spec: JobSpec, path: Path) -> tuple[str, ...]:
        """Return the submission as the `ray` command would make it."""
        submit = ["ray", "job", "submit", f"--address={self.address}", "--no-wait"]
        asked = [f"--submission-id={spec.name}", f"--entrypoint-num-gpus={spec.gpus:g}"]
        # Ray takes one string and gives it to a shell; quoting makes each argument arrive as it is.
        return (*submit, *asked, "--", shlex.join(job_command("run", path)))

    def submit(self, spec: JobSpec, path: Path, labels: Mapping[str, str]) -> None:
        """Write a job's file and submit it.

        Raises RuntimeError or ValueError when Ray does not take it, ConnectionError when nobody
        answers.
        """
        client = self._client()
        write_text(path, spec.as_text())
        client.submit_job(
            entrypoint=self.words(spec, path)[-1],
            submission_id=spec.name,
            entrypoint_num_gpus=spec.gpus or None,
            metadata=dict(labels),
        )

    def state(self, name: str) -> SubmittedState:
        """Ask for a job's state."""
        client = self._client()
        if all(job.submission_id != name for job in client.list_jobs()):
            return SubmittedState("unknown", f"Ray knows no job {name}")
        status = str(client.get_job_status(name).value)
        return SubmittedState(_STATES.get(status, "unknown"), f"Ray says {status}")

    def stop(self, name: str) -> None:
        """Stop a job."""
        self._client().stop_job(name)

    def _client(self) -> Any:
        try:
            jobs = importlib.import_module("ray.job_submission")
        except ImportError:
            raise MissingExtra("ray", "ray", "Starting runs on Ray") from None
        return jobs.JobSubmissionClient(self.address)
