"""This machine: its cores and who has them, memory, disk, graphics cards, and what was started."""

from __future__ import annotations

import shutil
import subprocess
import time
from functools import cache
from pathlib import Path

import psutil
from fastapi import APIRouter

from telic.core.config import Record
from telic.llm.keys import KEY_NAMES, NEEDS_KEY
from telic.storage.resources import Admission, CoreLease, usable_cores
from telic.verbs.background import StartedJob, list_jobs, read_job, read_log
from telic.web.place import WebPlace

_GPU_FIELDS = "index,name,utilization.gpu,memory.used,memory.total,temperature.gpu,power.draw"
_PATIENCE_S = 3.0
_FIRST_LOOK_S = 0.1
"""how long the cores are watched before anything is said of them"""
_MEBIBYTE = 1 << 20


class MemoryUse(Record):
    """Bytes of memory or of a disk."""

    total: int
    used: int
    free: int


class GpuUse(Record):
    """A graphics card now; what the driver does not say is None."""

    index: int
    name: str
    utilisation: float | None
    """percent"""
    memory: MemoryUse | None
    temperature_c: float | None
    power_w: float | None


class ProviderLine(Record):
    """A provider of models, and whether it could be asked."""

    provider: str
    has_key: bool
    needs_key: bool


class MachineNow(Record):
    """What this machine does now."""

    cores: tuple[float, ...]
    """percent of each since the last look"""
    usable: tuple[int, ...]
    """numbers of the cores that this process may use"""
    leases: tuple[CoreLease, ...]
    """who holds which cores"""
    memory: MemoryUse
    disk: MemoryUse
    """of the folder of runs"""
    gpus: tuple[GpuUse, ...]
    providers: tuple[ProviderLine, ...]


class DiskUse(Record):
    """What a thing takes on the disk."""

    thing: str
    bytes: int


class JobLog(Record):
    """The end of what a job printed."""

    job: str
    log: str


@cache
def _is_measured() -> bool:
    """Begin to measure how busy the cores are: the first answer is of no time at all."""
    psutil.cpu_percent(percpu=True)
    time.sleep(_FIRST_LOOK_S)
    return True


def _busy() -> tuple[float, ...]:
    """Return how busy each core was since the last look, percent."""
    _is_measured()
    return tuple(psutil.cpu_percent(percpu=True))


def read_machine(runs_dir: Path) -> MachineNow:
    """Return what this machine does now."""
    memory = psutil.virtual_memory()
    return MachineNow(
        cores=_busy(),
        usable=tuple(usable_cores()),
        leases=tuple(Admission().leases()),
        memory=MemoryUse(
            total=memory.total, used=memory.total - memory.available, free=memory.available
        ),
        disk=_disk(runs_dir),
        gpus=_gpus(),
        providers=_providers(),
    )


def _disk(runs_dir: Path) -> MemoryUse:
    place = next(each for each in (runs_dir, *runs_dir.parents) if each.exists())
    used = shutil.disk_usage(place)
    return MemoryUse(total=used.total, used=used.used, free=used.free)


def _providers() -> tuple[ProviderLine, ...]:
    import os

    return tuple(
        ProviderLine(
            provider=name,
            has_key=any(os.environ.get(variable, "").strip() for variable in variables),
            needs_key=name in NEEDS_KEY,
        )
        for name, variables in KEY_NAMES.items()
    )


@cache
def _has_driver() -> bool:
    return shutil.which("nvidia-smi") is not None


def _gpus() -> tuple[GpuUse, ...]:
    if not _has_driver():
        return ()
    command = ["nvidia-smi", f"--query-gpu={_GPU_FIELDS}", "--format=csv,noheader,nounits"]
    try:
        told = subprocess.run(
            command, capture_output=True, text=True, timeout=_PATIENCE_S, check=True
        )
    except (OSError, subprocess.SubprocessError):  # a driver that does not answer
        return ()
    return tuple(_gpu(line) for line in told.stdout.splitlines() if line.count(",") == 6)


def _gpu(line: str) -> GpuUse:
    index, name, *rest = (part.strip() for part in line.split(","))
    share, used, total, heat, power = map(_number, rest)
    memory = None
    if used is not None and total is not None:
        sizes = int(total) * _MEBIBYTE, int(used) * _MEBIBYTE
        memory = MemoryUse(total=sizes[0], used=sizes[1], free=sizes[0] - sizes[1])
    return GpuUse(
        index=int(index) if index.isdecimal() else 0,
        name=name,
        utilisation=share,
        memory=memory,
        temperature_c=heat,
        power_w=power,
    )


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:  # "[N/A]"
        return None


def disk_use(path: Path) -> int:
    """Return the bytes of everything below a folder; links are not followed."""
    return sum(file.lstat().st_size for file in path.rglob("*") if not file.is_dir())


def routes(place: WebPlace) -> APIRouter:
    """Return the routes of the machine and of the jobs that a server has started here."""
    router = APIRouter()

    @router.get("/machine", tags=["machine"])
    def machine_now() -> MachineNow:
        """Return cores, memory, disk, graphics cards, and who holds what."""
        return read_machine(place.runs_dir)

    @router.get("/things/{thing}/disk", tags=["machine"])
    def thing_disk(thing: str) -> DiskUse:
        """Return what a thing takes on the disk."""
        return DiskUse(thing=thing, bytes=disk_use(place.thing(thing).path))

    @router.get("/jobs", tags=["work"])
    def list_started() -> list[StartedJob]:
        """List what was started from here, the latest first."""
        return list_jobs(place.runs_dir)

    @router.get("/jobs/{job}", tags=["work"])
    def read_started(job: str) -> StartedJob:
        """Say how far a job is, and which thing it works on once that is known."""
        return read_job(place.runs_dir, job)

    @router.get("/jobs/{job}/log", tags=["work"])
    def read_printed(job: str) -> JobLog:
        """Return the end of what a job printed."""
        return JobLog(job=job, log=read_log(place.runs_dir, job))

    return router
