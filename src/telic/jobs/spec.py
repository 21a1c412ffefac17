"""Files that specify jobs and record the state of their attempts.

A job can run any kind of work, because neither the worker (`worker.py`) nor the launcher
(`launcher.py`) depends on the kind. The worker's environment, not a file, holds secrets.

    runs/jobs/<name>/
        job_spec.json          command to run
        job.json               progress: attempts, why they ended, and which files were copied
        attempt_<n>.log        output of an attempt
        attempt_<n>.beat.json  latest heartbeat of an attempt
        attempt_<n>.end.json   result of an attempt
        brought.json           names of the files that were copied back
        archive.zip             files to copy back
        stop                   requests a stop while it exists
    runs/jobs/keys/<key>       name of the latest job for this work
"""

from __future__ import annotations

import shlex
import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field

from telic.core.config import Record
from telic.jobs.process import ProcessId
from telic.storage.layout import check_name

JobOutcome = Literal["waiting", "running", "done", "failed", "stopped"]
JobName = Annotated[str, AfterValidator(partial(check_name, option="Job"))]
JOB_FILE = "job_spec.json"
JOBS = "jobs"
PYTHON = "python"
"""first word of a command that is replaced by the worker's Python interpreter"""


class JobSpec(Record):
    """Process to run, with the resources to request from a scheduler."""

    model_config = ConfigDict(extra="ignore")  # a setting of earlier versions

    name: JobName
    """name of its folder, shown by the scheduler"""
    argv: tuple[str, ...]
    cwd: str
    env: dict[str, str] = Field(default={})
    """variables to add to the worker's environment"""
    asks: dict[str, Any] = Field(default={})
    """Slurm directives, where True stands for a directive without a value"""
    minutes: int = 0
    """time limit that the scheduler enforces. 0 means no limit."""
    cores: float = 1.0
    gpus: float = 0.0
    folder: str | None = None
    """results folder relative to cwd, which is copied back if no file system is shared"""
    sends: tuple[str, ...] = ()
    """files or folders relative to cwd to copy. Jobs that copy nothing share a file system."""
    key: str = ""
    """key of the work. Repeating a request resumes the unfinished job with the same key."""
    command: str = ""
    """equivalent terminal command"""

    @property
    def code(self) -> str:
        """Text of the command and its settings, for which the user must grant permission."""
        more = self.model_dump_json(exclude={"name", "argv", "command"})
        return f"the command {shlex.join(self.argv)} with {more}"

    def words(self) -> list[str]:
        """Return the command line with the Python interpreter of this machine."""
        first, *rest = self.argv
        return [sys.executable if first == PYTHON else first, *rest]


class JobHeartbeat(Record):
    """Heartbeat of an attempt."""

    time: float
    node: str
    pid: int


class AttemptEnd(Record):
    """Result of an ended process. Killed processes have a signal instead of an exit code."""

    code: int | None
    signal: int | None = None
    seconds: float
    node: str
    was_stopped: bool = False
    """whether it was asked to stop"""
    at_limit: bool = False
    """whether it saved and ended because its time limit was near"""
    error: str | None = None
    """reason why it could not start, or why its files could not be copied back"""

    @property
    def died(self) -> str | None:
        """Reason why the process died, or None if it exited normally."""
        if self.error is not None:
            return self.error
        if self.signal is not None:
            return f"killed by signal {self.signal} on {self.node}"
        # The code that shells and containers report for SIGKILL, e.g. from the OOM killer.
        return f"killed (code 137) on {self.node}" if self.code == 137 else None


class JobAttempt(Record):
    """One attempt at a job."""

    number: int
    started: float
    handle: str = ""
    """the scheduler's handle"""
    seconds: float | None = None
    node: str | None = None
    ended: str | None = None
    """description of how it ended, or None while it is running"""


class JobRecord(Record):
    """State of a job."""

    schema_version: Literal[1] = 1
    name: str
    place: str
    """place where it runs"""
    state: JobOutcome = "waiting"
    code: int | None = None
    reason: str | None = None
    """reason why it failed or was stopped"""
    created: float
    driver: ProcessId
    """process that started and drives it"""
    attempts: tuple[JobAttempt, ...] = ()

    @property
    def is_over(self) -> bool:
        """True if the job does not continue without a new request."""
        return self.state in ("done", "failed", "stopped")

    @property
    def is_driven(self) -> bool:
        """True while the driver process of the job is running."""
        return not self.is_over and self.driver.is_alive

    @property
    def seconds(self) -> float:
        """Total duration of all attempts in seconds."""
        return sum(attempt.seconds or 0.0 for attempt in self.attempts)


class JobFolder:
    """Files of one job."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.spec, self.record = path / JOB_FILE, path / "job.json"
        self.stop = path / "stop"
        """file whose existence requests a stop"""
        self.archive, self.returned = path / "archive.zip", path / "brought.json"
        """files to copy back, and names of received files"""

    def log(self, attempt: int) -> Path:
        """Return the path of an attempt's output."""
        return self.path / f"attempt_{attempt}.log"

    def beat(self, attempt: int) -> Path:
        """Return the path of an attempt's latest heartbeat."""
        return self.path / f"attempt_{attempt}.beat.json"

    def end(self, attempt: int) -> Path:
        """Return the path of the record of an attempt's end."""
        return self.path / f"attempt_{attempt}.end.json"
