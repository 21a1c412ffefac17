"""Interface of launchers, launchers for local processes and Slurm, and names of places.

Launchers are used by `telic ... --on PLACE` and by the runs of studies. Other packages can add
kinds in the entry point group `telic.launchers`, which are called with a `JobPlace`.

    local                      processes of this machine
    local?at_once=2            two at a time
    ray                        the Ray cluster of this machine (extra `ray`)
    ray://head:10001?cores=4   another Ray cluster, with four cores per job
    slurm?partition=gpu        Slurm, with directives (extra `slurm`)
    slurm?cluster=local        the same on this machine, through submitit

The parameters `at_once`, `seconds` (total of all jobs), `attempts`, `silence_s`, `cores`, `gpus`
and `minutes` have the same meaning for all kinds. Other parameters are Slurm directives or options
of a plugin's launcher.
"""

from __future__ import annotations

import importlib
import math
import shlex
from typing import Any, Protocol
from urllib.parse import parse_qsl

from pydantic import Field

from telic.core.config import Config
from telic.core.plugins import load_plugin, plugin_names
from telic.core.text import read_value
from telic.errors import ConfigError, MissingExtra, UnknownName
from telic.jobs.process import Process, own_python, safe_path
from telic.jobs.spec import AttemptEnd, Cluster, JobFolder, JobSpec
from telic.jobs.worker import read_end, run_attempt_in
from telic.storage.files import open_append
from telic.storage.resources import usable_cores

KINDS = ("local", "ray", "slurm")
_FOREVER_MIN = 10 * 365 * 24 * 60
_UNFINISHED = {
    *("PENDING", "CONFIGURING", "REQUEUED", "SUSPENDED", "UNKNOWN", "READY"),
    *("RUNNING", "COMPLETING", "STAGE_OUT"),
}


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
    """time limit per attempt, which the scheduler enforces. 0 means no limit."""
    cluster: Cluster = "slurm"
    """local, to use submitit on this machine"""
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
    known = {key: value for key, value in settings.items() if key in JobPlace.model_fields}
    asks = {key: value for key, value in settings.items() if key not in known}
    if asks and kind in ("local", "ray"):
        raise UnknownName("setting of a place", next(iter(asks)), list(JobPlace.model_fields))
    return JobPlace.parse(
        {**known, "kind": kind, "address": name if separator else None, "asks": asks}
    )


class Launcher(Protocol):
    """Interface to start attempts of jobs and query their state.

    Only one thread at a time calls these methods.
    """

    room: int
    """number of jobs to submit concurrently"""

    def start(self, spec: JobSpec, folder: JobFolder, attempt: int) -> str:
        """Start an attempt and return its scheduler handle. Raises OSError or RuntimeError."""
        ...

    def look(self, spec: JobSpec, folder: JobFolder, attempt: int) -> AttemptEnd | str | None:
        """Return how an attempt ended, why it was lost, or None while it waits or runs.

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


class LocalJobs:
    """Launcher that runs attempts as processes on this machine."""

    def __init__(self) -> None:
        self.room = len(usable_cores())
        self._processes: dict[str, Process] = {}

    def start(self, spec: JobSpec, folder: JobFolder, attempt: int) -> str:
        """Start a worker process."""
        words = own_python("telic.jobs.worker", folder.path, str(attempt))
        with open_append(folder.log(attempt)) as log:
            process = Process(words, stdout=log)
        self._processes[spec.name] = process
        return f"process {process.pid}"

    def look(self, spec: JobSpec, folder: JobFolder, attempt: int) -> AttemptEnd | str | None:
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
    """Launcher that runs attempts as Slurm jobs, through submitit.

    Slurm machines share a file system, so jobs run in the folder of the request and no files are
    copied. submitit's local executor runs the same jobs on this machine, e.g. for tests.
    """

    room = 200

    def __init__(self) -> None:
        _submitit()
        self._jobs: dict[str, Any] = {}

    @safe_path()
    def start(self, spec: JobSpec, folder: JobFolder, attempt: int) -> str:
        """Submit an attempt."""
        executor = _executor(spec, folder)
        job = executor.submit(run_attempt_in, str(folder.path), attempt)
        self._jobs[spec.name] = job
        return str(job.job_id)

    def look(self, spec: JobSpec, folder: JobFolder, attempt: int) -> AttemptEnd | str | None:
        """Read the attempt's files, or query the scheduler."""
        job = self._jobs[spec.name]
        state = str(job.state).split(" ")[0]
        end = read_end(folder, attempt)
        # The local process is our child, so wait for it to end.
        if end is not None and (spec.cluster != "local" or job.done()):
            return end
        return None if state in _UNFINISHED else f"{job.job_id} is {state} and left no result"

    def stop(self, spec: JobSpec, *, now: bool) -> None:
        """Cancel an attempt. For a graceful stop, the worker polls for a stop file."""
        if now:
            self._jobs[spec.name].cancel(check=False)

    def close(self) -> None:
        """Do nothing, because this launcher holds no resources."""


def _executor(spec: JobSpec, folder: JobFolder) -> Any:
    kinds = _submitit()
    kind = kinds.LocalExecutor if spec.cluster == "local" else kinds.SlurmExecutor
    executor = kind(folder=folder.path / "submitit", python=shlex.join(own_python(None)))
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
