"""Interface of launchers, launchers for local processes and Slurm, and names of places.

Launchers are used by `telic ... --on PLACE` and by the runs of studies. Other packages can add
kinds in the entry point group `telic.launchers`, which are called with a `JobPlace`.

    local                      processes of this machine
    local?at_once=2            two at a time
    ray                        the Ray cluster of this machine (extra `ray`)
    ray://head:10001?cores=4   another Ray cluster, with four cores per job
    slurm?partition=gpu        Slurm, with directives

The parameters `at_once`, `seconds` (total of all jobs), `attempts`, `silence_s`, `cores`, `gpus`
and `minutes` have the same meaning for all kinds. Other parameters are Slurm directives or options
of a plugin's launcher.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import shlex
import time
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol
from urllib.parse import parse_qsl

from pydantic import Field

from telic.core.config import Config
from telic.core.plugins import load_plugin, plugin_names
from telic.core.text import read_value
from telic.errors import ConfigError, Refused, UnknownName
from telic.jobs.process import PIPE, Process, own_python, safe_path, user_environment
from telic.jobs.spec import AttemptEnd, JobFolder, JobSpec
from telic.jobs.worker import read_end
from telic.storage.files import json_text, open_append
from telic.storage.resources import usable_cores

KINDS = ("local", "ray", "slurm")
_SLURM_ASK_S = 1.0
"""minimum seconds between two queries of the scheduler"""
_SLURM_WARN_S = 90
"""seconds before a time limit at which Slurm sends the warning signal, or up to a minute earlier"""
_SLURM_WAITS = {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT", "SUSPENDED"}
_SLURM_RUNS = {"RUNNING", "COMPLETING", "STAGE_OUT", "RESIZING", "SIGNALING", "STOPPED"}


class JobPlace(Config):
    """Location where jobs run, with its resource limits."""

    kind: str = "local"
    """local, ray, slurm, or the kind of a plugin"""
    address: str | None = None
    """address of a Ray cluster"""
    at_once: int | None = Field(default=None, ge=1)
    """maximum number of concurrent jobs. Defaults to the capacity of the place."""
    seconds: float | None = Field(default=None, gt=0)
    """limit on the total time of all attempts, after which no attempt is started"""
    attempts: int = Field(default=3, ge=1)
    """maximum number of attempts per job"""
    silence_s: float = Field(default=60.0, gt=0)
    """heartbeat timeout after which an attempt is abandoned"""
    cores: float = Field(default=1.0, ge=0)
    """cores per job"""
    gpus: float = Field(default=0.0, ge=0)
    """GPUs per job"""
    minutes: int = Field(default=0, ge=0)
    """time limit per attempt that the scheduler enforces. 0 means no limit."""
    asks: dict[str, Any] = Field(default={})
    """Slurm directives, or options of a plugin's launcher"""

    @property
    def title(self) -> str:
        """Display name."""
        return self.address or self.kind


def read_place(text: str) -> JobPlace:
    """Parse the name of a place, e.g. "local". Raises UsageError."""
    name, _, query = text.partition("?")
    kind, separator, address = name.partition("://")
    known_kinds = [*KINDS, *plugin_names("launchers", KINDS)]
    if kind not in known_kinds:
        raise UnknownName("place for jobs", name, known_kinds)
    if separator and (kind != "ray" or not address):
        raise ConfigError(
            f'Unknown place for jobs: "{name}".', hint="For example: ray://head:10001"
        )
    settings = {key: read_value(value) for key, value in parse_qsl(query, keep_blank_values=True)}
    if not all(str(each).isprintable() for pair in settings.items() for each in pair):
        raise ConfigError(f"{text!r} contains a line break or another control character.")
    known = {key: value for key, value in settings.items() if key in JobPlace.model_fields}
    asks = {key: value for key, value in settings.items() if key not in known}
    if asks and kind in ("local", "ray"):
        raise UnknownName("setting of a place", next(iter(asks)), list(JobPlace.model_fields))
    return JobPlace.parse(
        {**known, "kind": kind, "address": name if separator else None, "asks": asks}
    )


class AttemptWaiting(NamedTuple):
    """An attempt in the scheduler's queue."""

    reason: str


AttemptLook = AttemptEnd | AttemptWaiting | str | None
"""how an attempt ended, that it waits, why it was lost, or None while it runs"""


class Launcher(Protocol):
    """Interface to start attempts of jobs and query their state.

    Only one thread at a time calls these methods.
    """

    room: int
    """number of jobs to submit concurrently"""

    def start(self, spec: JobSpec, folder: JobFolder, attempt: int) -> str:
        """Start an attempt and return its scheduler handle. Raises OSError or RuntimeError."""
        ...

    def find(self, spec: JobSpec, folder: JobFolder, attempt: int) -> str | None:
        """Return the handle of an attempt that outlived its driver, or None."""
        ...

    def look(self, spec: JobSpec, folder: JobFolder, attempt: int) -> AttemptLook:
        """Return how an attempt ended, that it waits, why it was lost, or None while it runs.

        The method also updates the heartbeats and logs in the job's folder.
        """
        ...

    def stop(self, spec: JobSpec, *, now: bool) -> None:
        """Ask an attempt to save and end, or kill it if `now` is true. Ignore ended attempts."""
        ...

    def close(self) -> None:
        """End all running attempts and disconnect from the cluster."""
        ...


def launcher_for(place: JobPlace) -> Launcher:
    """Return the launcher for a place. Raises MissingExtra, UnknownName or Refused."""
    match place.kind:
        case "local":
            return LocalJobs()
        case "ray":
            from telic.jobs._ray_cluster import RayJobs

            return RayJobs(place.address)
        case "slurm":
            return SlurmJobs()
        case kind:
            make = load_plugin("launchers", kind, KINDS)
    if make is None:
        raise UnknownName("place for jobs", kind, [*KINDS, *plugin_names("launchers", KINDS)])
    return make(place)


def _worker_words(spec: JobSpec, folder: JobFolder, attempt: int) -> Sequence[str]:
    """Return the command of a worker, which accepts only this specification."""
    digest = hashlib.sha256(json_text(spec).encode()).hexdigest()
    return own_python("telic.jobs.worker", folder.path, str(attempt), digest)


class LocalJobs:
    """Launcher that runs attempts as processes on this machine."""

    def __init__(self) -> None:
        self.room = len(usable_cores())
        self._processes: dict[str, Process] = {}

    words = staticmethod(_worker_words)

    def find(self, spec: JobSpec, folder: JobFolder, attempt: int) -> str | None:
        """Return None: workers are children of their driver."""

    def start(self, spec: JobSpec, folder: JobFolder, attempt: int) -> str:
        """Start a worker process."""
        words = self.words(spec, folder, attempt)
        with open_append(folder.log(attempt)) as log:
            process = Process(words, stdout=log)
        self._processes[spec.name] = process
        return f"process {process.pid}"

    def look(self, spec: JobSpec, folder: JobFolder, attempt: int) -> AttemptLook:
        """Check the attempt's result file, then its process."""
        process = self._processes[spec.name]
        code = process.code
        end = read_end(folder, attempt)
        if end is not None:
            process.wait()  # it has written its last file
            return end
        return None if code is None else f"its worker ended with code {code}"

    def stop(self, spec: JobSpec, *, now: bool) -> None:
        """Kill the worker. For a graceful stop, the worker polls for a stop file."""
        if now and self._processes[spec.name].code is None:
            self._processes[spec.name].kill()

    def close(self) -> None:
        """Kill running workers and wait for them to exit."""
        for process in self._processes.values():
            process.terminate()
        for process in self._processes.values():
            process.wait()


class SlurmJobs:
    """Launcher that runs attempts as Slurm jobs.

    Slurm machines share a file system, so jobs run in the folder of the request and no files are
    copied. Before its time limit, a job saves and requeues itself (see `worker.py`). A cancelled
    job is not submitted again. Accounting is not used.
    """

    room = 200

    def __init__(self) -> None:
        self._ids: dict[str, str] = {}
        self._asked, self._queue = 0.0, dict[str, ScheduledJob]()

    def find(self, spec: JobSpec, folder: JobFolder, attempt: int) -> str | None:
        """Return the job number of an attempt, or that it ended. Job names are unique."""
        if found := slurm_queue().get(f"{spec.name}.{attempt}"):
            self._ids[spec.name] = found.number
        return self._ids.get(spec.name, "ended" if read_end(folder, attempt) else None)

    @safe_path()
    def start(self, spec: JobSpec, folder: JobFolder, attempt: int) -> str:
        """Submit an attempt."""
        script = shlex.join(_worker_words(spec, folder, attempt))
        log = f"--output={folder.log(attempt)}"
        given = _slurm_options(spec, attempt)
        printed = _slurm("sbatch", "--parsable", log, *given, f"--wrap=exec {script}")
        number = self._ids[spec.name] = printed.strip().split(";")[0]
        self._queue[number] = ScheduledJob(number, "PENDING", "submitted")
        return number

    def look(self, spec: JobSpec, folder: JobFolder, attempt: int) -> AttemptLook:
        """Read the attempt's result, or its state in the queue."""
        self._ask()  # before reading the result, which precedes the end of the job
        number, end = self._ids.get(spec.name, ""), read_end(folder, attempt)
        if end is not None and end.died is None:
            return end
        job = self._queue.get(number, ScheduledJob(number, "UNKNOWN", ""))
        if job.waits:
            return AttemptWaiting(job.words)
        if job.state == "CANCELLED":
            node, error = end.node if end else "Slurm", f"job {number} was cancelled"
            return AttemptEnd(code=None, seconds=0.0, node=node, was_stopped=True, error=error)
        return None if job.runs else end or f"Slurm job {number} is {job.state} and left no result"

    def stop(self, spec: JobSpec, *, now: bool) -> None:
        """Cancel an attempt. For a graceful stop of a running one, its worker reads a stop file."""
        number = self._ids[spec.name]
        if now or (number in self._queue and self._queue[number].waits):
            _slurm("scancel", number)

    def close(self) -> None:
        """Do nothing, because this launcher holds no resources."""

    def _ask(self) -> None:
        """Read the states of all jobs. A scheduler that does not answer is asked again later."""
        now = time.monotonic()
        if now - self._asked < _SLURM_ASK_S:
            return
        self._asked = now
        with contextlib.suppress(Refused):
            self._queue = {job.number: job for job in slurm_queue().values()}


class ScheduledJob(NamedTuple):
    """State of a job according to Slurm."""

    number: str
    state: str
    reason: str

    @property
    def waits(self) -> bool:
        """Return whether the job is in the queue."""
        return self.state in _SLURM_WAITS

    @property
    def runs(self) -> bool:
        """Return whether the job is running."""
        return self.state in _SLURM_RUNS

    @property
    def words(self) -> str:
        """Describe the state and its reason."""
        return f"{self.state.lower()}: {self.reason}"


def slurm_queue() -> dict[str, ScheduledJob]:
    """Return this user's Slurm jobs by name, including those that ended a few minutes ago."""
    printed = _slurm("squeue", "--me", "--noheader", "--states=all", "--format=%j|%i|%T|%r")
    rows = (line.split("|", 3) for line in printed.splitlines())
    return {name: ScheduledJob(*job) for name, *job in rows}


def _slurm(*words: str) -> str:
    """Run a command of Slurm and return its output. Raises Refused."""
    with Process(words, stdout=PIPE, env=user_environment()) as process:
        printed = process.stdout.read().decode(errors="replace")
        if process.wait() != 0:
            raise Refused(f"{words[0]} failed: {printed.strip()[:500]}")
    return printed


def _slurm_options(spec: JobSpec, attempt: int) -> list[str]:
    asks: dict[str, Any] = {
        "job-name": f"{spec.name}.{attempt}",
        "time": spec.minutes,
        "open-mode": "append",
        **({"cpus-per-task": math.ceil(spec.cores)} if spec.cores > 1 else {}),
        **({"gres": f"gpu:{math.ceil(spec.gpus)}"} if spec.gpus > 0 else {}),
    }
    if "no-requeue" not in spec.asks:
        asks |= {"requeue": True, "signal": f"B:USR2@{_SLURM_WARN_S}"}
    asks |= {name.replace("_", "-"): value for name, value in spec.asks.items()}
    return [f"--{name}" if value is True else f"--{name}={value}" for name, value in asks.items()]
