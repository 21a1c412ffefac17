"""Jobs, each with a file that specifies the command, and the state of each attempt.

To run work elsewhere, write such a file; neither the worker (`worker.py`) nor the launcher
(`launcher.py`) depends on the kind of work. Files hold no secrets. Those come from the worker's
environment.

    runs/jobs/<name>/
        job_spec.json          what to run
        job.json               progress: every attempt, why it ended, which files were copied back
        attempt_<n>.log        what an attempt printed
        attempt_<n>.beat.json  when it was last alive, and where
        attempt_<n>.end.json   how it ended
        brought.json           which files were copied back
        parcel.zip             files to copy back
        stop                   its existence asks the job to end
    runs/jobs/keys/<key>       the latest job that does this work
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from telic.core.config import Record
from telic.jobs.process import ProcessId

Cluster = Literal["slurm", "local"]
AttemptState = Literal["waiting", "running", "done", "gone", "stopped"]
JobOutcome = Literal["waiting", "running", "done", "failed", "stopped"]
JOB_FILE = "job_spec.json"
JOBS = "jobs"
PYTHON = "python"
"""first word of a command that stands for the worker's Python interpreter"""


class JobSpec(Record):
    """Process to run, with the resources to request from a scheduler."""

    name: str
    """name shown by the scheduler"""
    argv: tuple[str, ...]
    cwd: str
    env: dict[str, str] = Field(default={})
    """variables added to the worker's environment"""
    cluster: Cluster = "slurm"
    """local runs it on this machine through submitit"""
    asks: dict[str, Any] = Field(default={})
    """Slurm directives; True is a directive without a value"""
    minutes: int = 0
    """time limit enforced by the scheduler; 0: none"""
    cores: float = 1.0
    gpus: float = 0.0
    folder: str | None = None
    """results folder relative to cwd; copied back without a shared file system"""
    sends: tuple[str, ...] = ()
    """files or folders relative to cwd to copy to the machine; a job that copies no files in either
    direction uses a file system shared by all machines"""
    key: str = ""
    """identifies the work: repeating the request resumes an unfinished job with the same key"""
    command: str = ""
    """equivalent terminal command"""

    @property
    def code(self) -> str:
        """Description of the command that the user must permit."""
        return f"the command {shlex.join(self.argv)} in {self.cwd} with {sorted(self.env.items())}"

    def words(self) -> list[str]:
        """Return the command with this machine's interpreter."""
        first, *rest = self.argv
        return [sys.executable if first == PYTHON else first, *rest]


class JobHeartbeat(Record):
    """A heartbeat of an attempt."""

    time: float
    node: str
    pid: int


class AttemptEnd(Record):
    """Result of an ended process. A killed process has a signal and no exit code."""

    code: int | None
    signal: int | None = None
    seconds: float
    node: str
    was_stopped: bool = False
    """whether it was asked to stop"""
    error: str | None = None
    """why it could not start, or its files could not be copied back"""

    @property
    def died(self) -> str | None:
        """Reason why the process died, or None if it exited normally."""
        if self.error is not None:
            return self.error
        if self.signal is not None:
            return f"killed by signal {self.signal} on {self.node}"
        # The code that shells and containers report for SIGKILL, e.g. from the OOM killer.
        return f"killed (code 137) on {self.node}" if self.code == 137 else None


class AttemptReport(Record):
    """State of an attempt, as reported by its launcher."""

    state: AttemptState
    detail: str = ""
    """why the attempt is gone"""
    end: AttemptEnd | None = None
    """set once the attempt is done"""


class JobAttempt(Record):
    """One attempt at a job."""

    number: int
    started: float
    handle: str = ""
    """the scheduler's handle"""
    seconds: float | None = None
    node: str | None = None
    ended: str | None = None
    """reason in words, or None while it runs"""


class JobRecord(Record):
    """State of a job."""

    schema_version: Literal[1] = 1
    name: str
    place: str
    """place it was sent to"""
    state: JobOutcome = "waiting"
    code: int | None = None
    reason: str | None = None
    """why it failed or was stopped"""
    created: float
    driver: ProcessId
    """the process that started and drives it"""
    attempts: tuple[JobAttempt, ...] = ()

    @property
    def is_over(self) -> bool:
        """True if nothing more happens without a new request."""
        return self.state in ("done", "failed", "stopped")

    @property
    def is_driven(self) -> bool:
        """True while its driver process runs."""
        return not self.is_over and self.driver.is_alive

    @property
    def seconds(self) -> float:
        """Total seconds of all attempts."""
        return sum(attempt.seconds or 0.0 for attempt in self.attempts)


class JobFolder:
    """Files of one job."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.spec, self.record = path / JOB_FILE, path / "job.json"
        self.stop = path / "stop"
        """file whose existence requests a stop"""
        self.parcel, self.brought = path / "parcel.zip", path / "brought.json"
        """files to copy back, and the names of the received ones"""

    def log(self, attempt: int) -> Path:
        """Return the path of an attempt's output."""
        return self.path / f"attempt_{attempt}.log"

    def beat(self, attempt: int) -> Path:
        """Return the path of an attempt's latest heartbeat."""
        return self.path / f"attempt_{attempt}.beat.json"

    def end(self, attempt: int) -> Path:
        """Return the path of the record of an attempt's end."""
        return self.path / f"attempt_{attempt}.end.json"
