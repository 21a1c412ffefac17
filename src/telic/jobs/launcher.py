"""Launchers: the contract, processes of this machine, and places by name.

One contract serves `telic ... --on PLACE` and the runs of studies; installed packages may bring
further kinds (entry point group `telic.launchers`, called with a `JobPlace`).

    local                      processes of this machine
    local?at_once=2            two at a time
    ray                        the Ray cluster that this machine belongs to (extra `ray`)
    ray://head:10001?cores=4   a Ray cluster elsewhere; four cores per job
    slurm?partition=gpu        Slurm, with directives (extra `slurm`)
    slurm?cluster=local        the same through submitit, on this machine

`at_once`, `seconds` (of all jobs together), `attempts`, `silence_s`, `cores`, `gpus` and `minutes`
mean the same everywhere; anything else after the question mark is a directive for Slurm, or an
option of the package's launcher.
"""

from __future__ import annotations

from typing import Any, Protocol
from urllib.parse import parse_qsl

from pydantic import Field

from telic.core.config import Config
from telic.core.plugins import load_plugin, plugin_names
from telic.core.text import read_value
from telic.errors import ConfigError, UnknownName
from telic.jobs.process import Process, own_python
from telic.jobs.spec import AttemptReport, Cluster, JobFolder, JobSpec
from telic.jobs.worker import finished_report
from telic.storage.resources import usable_cores

KINDS = ("local", "ray", "slurm")


class JobPlace(Config):
    """A place for jobs, and the resources they may use there."""

    kind: str = "local"
    """local, ray, slurm, or one that a package brings"""
    address: str | None = None
    """of a Ray cluster"""
    at_once: int | None = Field(default=None, ge=1)
    """jobs at a time; by default as many as the place has room for"""
    seconds: float | None = Field(default=None, gt=0)
    """of all attempts of all jobs together; then nothing more is started"""
    attempts: int = Field(default=3, ge=1)
    """at one job, before it counts as failed"""
    silence_s: float = Field(default=60.0, gt=0)
    """without a sign of life, after which an attempt is given up"""
    cores: float = Field(default=1.0, ge=0)
    """cores that a job asks for"""
    gpus: float = Field(default=0.0, ge=0)
    """GPUs that a job asks for"""
    minutes: int = Field(default=0, ge=0)
    """after which a scheduler ends an attempt; 0: never"""
    cluster: Cluster = "slurm"
    """local: submitit on this machine"""
    asks: dict[str, Any] = Field(default={})
    """directives for Slurm, or options of a package's launcher"""

    @property
    def title(self) -> str:
        """Name for people."""
        return self.address or self.kind


def read_place(text: str) -> JobPlace:
    """Return the place that a text names; raises UsageError."""
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
    """Starts attempts at jobs, and says what became of them. All calls come from one thread."""

    room: int
    """jobs that it makes sense to have there at a time"""

    def start(self, spec: JobSpec, folder: JobFolder, attempt: int) -> str:
        """Start an attempt; returns how the scheduler knows it. Raises OSError or RuntimeError."""
        ...

    def look(self, spec: JobSpec, folder: JobFolder, attempt: int) -> AttemptReport:
        """Say how an attempt is doing; beats and logs lie in the folder afterwards."""
        ...

    def stop(self, spec: JobSpec, *, now: bool) -> None:
        """Ask an attempt to save and end, or end it `now`; one that is over is left alone."""
        ...

    def close(self) -> None:
        """Let go of the cluster; attempts that still run are ended."""
        ...


def launcher_for(place: JobPlace) -> Launcher:
    """Return the launcher of a place; raises MissingExtra, UnknownName or Refused."""
    match place.kind:
        case "local":
            return LocalJobs()
        case "ray":
            from telic.jobs._ray_cluster import RayJobs

            return RayJobs(place.address)
        case "slurm":
            from telic.jobs._slurm import SlurmJobs

            return SlurmJobs()
        case kind:
            make = load_plugin("launchers", kind, KINDS)
    if make is None:
        raise UnknownName("place for jobs", kind, [*KINDS, *plugin_names("launchers", KINDS)])
    return make(place)


class LocalJobs:
    """Attempts as processes of this machine."""

    def __init__(self) -> None:
        self.room = len(usable_cores())
        self._processes: dict[str, Process] = {}

    def start(self, spec: JobSpec, folder: JobFolder, attempt: int) -> str:
        """Start a worker."""
        words = own_python("telic.jobs.worker", folder.path, str(attempt))
        with folder.log(attempt).open("ab") as log:
            process = Process(words, stdout=log)
        self._processes[spec.name] = process
        return f"process {process.pid}"

    def look(self, spec: JobSpec, folder: JobFolder, attempt: int) -> AttemptReport:
        """Look for the attempt's end, then for its process."""
        process = self._processes[spec.name]
        code = process.code
        report = finished_report(folder, attempt)
        if report is not None:
            process.wait()  # it has written its last file
            return report
        if code is None:
            is_running = folder.beat(attempt).exists()
            return AttemptReport(state="running" if is_running else "waiting")
        return AttemptReport(state="gone", detail=f"its worker ended with code {code}")

    def stop(self, spec: JobSpec, *, now: bool) -> None:
        """Signal the worker; asked gently, it sees the stop file by itself."""
        if now and self._processes[spec.name].code is None:
            self._processes[spec.name].kill()

    def close(self) -> None:
        """End what still runs, and wait for it."""
        for process in self._processes.values():
            process.terminate()
        for process in self._processes.values():
            process.wait()
