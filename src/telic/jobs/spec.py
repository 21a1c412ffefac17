"""A job: one file that specifies what to run, and the state of each attempt.

To get work done elsewhere, write such a file; what runs it (`worker.py`) need not know what
it is, and what starts it (`launcher.py`) need not either. Files hold no secrets: those are in the
environment that a worker finds.

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
"""as the first word of a command: the interpreter that the worker itself runs in"""


class JobSpec(Record):
    """One process to run, and what is asked of a scheduler for it."""

    name: str
    """under which a scheduler knows it"""
    argv: tuple[str, ...]
    cwd: str
    env: dict[str, str] = Field(default={})
    """set on top of the environment that it finds"""
    cluster: Cluster = "slurm"
    """local runs it on this machine, through the same package"""
    asks: dict[str, Any] = Field(default={})
    """directives for Slurm; True stands for one without a value"""
    minutes: int = 0
    """after which the scheduler ends it; 0 is never"""
    cores: float = 1.0
    gpus: float = 0.0
    folder: str | None = None
    """below cwd: its results, which are copied back without a shared file system"""
    sends: tuple[str, ...] = ()
    """below cwd: files, or folders with their contents, to copy to the machine; a job that
    copies no files in either direction uses a file system that all machines share"""
    key: str = ""
    """unfinished jobs of one key are the same work, so that the same request resumes it"""
    command: str = ""
    """what does the same in a terminal"""

    @property
    def code(self) -> str:
        """Description of the command that the user is asked to permit."""
        return f"the command {shlex.join(self.argv)} in {self.cwd} with {sorted(self.env.items())}"

    def words(self) -> list[str]:
        """Return the command as this machine runs it."""
        first, *rest = self.argv
        return [sys.executable if first == PYTHON else first, *rest]


class JobBeat(Record):
    """A sign of life of an attempt."""

    time: float
    node: str
    pid: int


class AttemptEnd(Record):
    """The end of a process; one that was killed has a signal and no code."""

    code: int | None
    signal: int | None = None
    seconds: float
    node: str
    was_stopped: bool = False
    """it was asked to stop"""
    error: str | None = None
    """why it could not be started, or its files could not be copied back"""

    @property
    def died(self) -> str | None:
        """Reason why the process did not exit by itself; None when it did."""
        if self.error is not None:
            return self.error
        if self.signal is not None:
            return f"killed by signal {self.signal} on {self.node}"
        # What a shell or a container makes of SIGKILL, the memory killer's.
        return f"killed (code 137) on {self.node}" if self.code == 137 else None


class AttemptReport(Record):
    """The state of an attempt, as its launcher reports it."""

    state: AttemptState
    detail: str = ""
    """why it is gone"""
    end: AttemptEnd | None = None
    """when it is done"""


class JobAttempt(Record):
    """One attempt at a job."""

    number: int
    started: float
    handle: str = ""
    """how the scheduler knows it"""
    seconds: float | None = None
    node: str | None = None
    ended: str | None = None
    """why, in words; None while it runs"""


class JobRecord(Record):
    """The progress of a job."""

    schema_version: Literal[1] = 1
    name: str
    place: str
    """where it was sent"""
    state: JobOutcome = "waiting"
    code: int | None = None
    reason: str | None = None
    """why it failed or was stopped"""
    created: float
    driver: ProcessId
    """the process that started it and looks after it"""
    attempts: tuple[JobAttempt, ...] = ()

    @property
    def is_over(self) -> bool:
        """True once nothing more happens without a new request."""
        return self.state in ("done", "failed", "stopped")

    @property
    def is_driven(self) -> bool:
        """True while a process drives it."""
        return not self.is_over and self.driver.is_alive

    @property
    def seconds(self) -> float:
        """Seconds of all attempts."""
        return sum(attempt.seconds or 0.0 for attempt in self.attempts)


class JobFolder:
    """The files of one job."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.spec, self.record = path / JOB_FILE, path / "job.json"
        self.stop = path / "stop"
        """its existence asks the job to end"""
        self.parcel, self.brought = path / "parcel.zip", path / "brought.json"
        """files to copy back, and the names of those that arrived"""

    def log(self, attempt: int) -> Path:
        """Output of an attempt."""
        return self.path / f"attempt_{attempt}.log"

    def beat(self, attempt: int) -> Path:
        """Latest sign of life of an attempt."""
        return self.path / f"attempt_{attempt}.beat.json"

    def end(self, attempt: int) -> Path:
        """End of an attempt."""
        return self.path / f"attempt_{attempt}.end.json"
