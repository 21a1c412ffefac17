"""Status of the machine (cores, memory, disk, GPUs) and jobs started from the dashboard."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from functools import cache
from pathlib import Path

import psutil
from fastapi import APIRouter

from telic.core.config import Record
from telic.llm.keys import KEY_NAMES
from telic.llm.names import CLOUD
from telic.storage.resources import Admission, CoreLease, usable_cores
from telic.verbs.background import StartedJob, list_jobs, read_job, read_log, stop_job
from telic.verbs.jobs import PrintedLog
from telic.web._place import WebPlace

_GPU_FIELDS = "name,utilization.gpu,memory.used,memory.total"
_TIMEOUT_S = 3.0
_MEBIBYTE = 1 << 20


class CapacityUsage(Record):
    """Usage of memory or a disk in bytes."""

    total: int
    used: int


class GpuUsage(Record):
    """Usage of a GPU."""

    name: str
    utilization: float | None
    """in percent"""
    memory: CapacityUsage | None


class ProviderStatus(Record):
    """Model provider and whether it is available."""

    provider: str
    has_key: bool
    needs_key: bool


class MachineState(Record):
    """State of this machine."""

    cores: tuple[float, ...]
    """utilization of each core in percent since the last request"""
    usable: tuple[int, ...]
    """indices of the cores that this process may use"""
    leases: tuple[CoreLease, ...]
    memory: CapacityUsage
    disk: CapacityUsage
    """disk that holds the runs folder"""
    gpus: tuple[GpuUsage, ...]
    providers: tuple[ProviderStatus, ...]


@cache
def _start_measuring() -> None:
    psutil.cpu_percent(percpu=True)  # the first call returns no measurement
    time.sleep(0.1)


def _gpus() -> tuple[GpuUsage, ...]:
    command = ["nvidia-smi", f"--query-gpu={_GPU_FIELDS}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):  # no driver, or it does not respond
        return ()
    gpus: list[GpuUsage] = []
    for line in done.stdout.splitlines():
        name, *texts = (part.strip() for part in line.split(","))
        busy, used, total = (float(text) if text.isdecimal() else None for text in texts)
        memory = None
        if used is not None and total is not None:
            memory = CapacityUsage(total=int(total) * _MEBIBYTE, used=int(used) * _MEBIBYTE)
        gpus.append(GpuUsage(name=name, utilization=busy, memory=memory))
    return tuple(gpus)


def read_machine(runs_dir: Path) -> MachineState:
    """Return the state of this machine."""
    _start_measuring()
    memory = psutil.virtual_memory()
    disk = shutil.disk_usage(next(x for x in (runs_dir, *runs_dir.parents) if x.exists()))
    return MachineState(
        cores=tuple(psutil.cpu_percent(percpu=True)),
        usable=tuple(usable_cores()),
        leases=tuple(Admission().leases()),
        memory=CapacityUsage(total=memory.total, used=memory.total - memory.available),
        disk=CapacityUsage(total=disk.total, used=disk.total - disk.free),
        gpus=_gpus(),
        providers=tuple(
            ProviderStatus(
                provider=name,
                has_key=any(os.environ.get(variable, "").strip() for variable in variables),
                needs_key=name in CLOUD,
            )
            for name, variables in KEY_NAMES.items()
        ),
    )


def routes(place: WebPlace) -> APIRouter:
    """Return the routes for the machine and for jobs."""
    router = APIRouter(tags=["machine"])

    @router.get("/machine")
    def machine_now() -> MachineState:
        """Return the usage of cores, memory, disk and GPUs."""
        return read_machine(place.runs_dir)

    @router.get("/jobs")
    def list_started() -> list[StartedJob]:
        """List the jobs that a server has started, newest first."""
        return list_jobs(place.runs_dir)

    @router.post("/jobs/{job}/stop")
    def stop_started(job: str) -> StartedJob:
        """Ask a job's process to save and stop."""
        return stop_job(place.runs_dir, job)

    @router.get("/jobs/{job}")
    def read_started(job: str) -> StartedJob:
        """Return the state of a job, and its artifact once it is known."""
        return read_job(place.runs_dir, job)

    @router.get("/jobs/{job}/log")
    def read_printed(job: str) -> PrintedLog:
        """Return the last lines of a job's output."""
        return PrintedLog(job=job, log=read_log(place.runs_dir, job))

    return router
