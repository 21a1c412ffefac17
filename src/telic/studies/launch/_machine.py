"""Query this machine's hardware and compare it with a run's requirements."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import socket
import subprocess
from pathlib import Path

from telic.core.config import Record
from telic.errors import TelicError
from telic.jobs.process import user_environment
from telic.studies.documents.contract import Hardware

_GIB = 2**30
_ASK_S, _PROGRAM_S = 20, 600
_PRECISION = (
    "NVIDIA_TF32_OVERRIDE",
    "CUBLAS_WORKSPACE_CONFIG",
    "XLA_FLAGS",
    "JAX_ENABLE_X64",
    "TF_ENABLE_ONEDNN_OPTS",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
    "OMP_NUM_THREADS",
)


class Gpu(Record):
    """GPU with memory in GB. Values that the driver does not report are None."""

    index: int
    name: str
    free_gb: float | None


class Machine(Record):
    """Machine on which a run was started (hw.json)."""

    host: str
    platform: str
    processors: int  # language: quoted
    memory_gb: float
    free_memory_gb: float
    free_disk_gb: float
    gpus: tuple[Gpu, ...] | None
    """None if it was not queried or the driver is missing"""
    python: str
    precision_flags: dict[str, str]
    """environment variables that affect numerical results"""


def look(folder: Path, *, at_gpus: bool) -> Machine:
    """Return a description of this machine, including the free disk space of a folder.

    If `at_gpus` is true, nvidia-smi is called to query the GPUs.
    """
    import psutil  # slow to load, and rarely needed

    memory = psutil.virtual_memory()
    return Machine(
        host=socket.gethostname(),
        platform=f"{platform.system()} {platform.release()} {platform.machine()}",
        processors=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1,
        memory_gb=round(memory.total / _GIB, 2),
        free_memory_gb=round(memory.available / _GIB, 2),
        free_disk_gb=round(shutil.disk_usage(folder).free / _GIB, 2),
        gpus=_gpus() if at_gpus else None,
        python=platform.python_version(),
        precision_flags={name: os.environ[name] for name in _PRECISION if name in os.environ},
    )


def _gpus() -> tuple[Gpu, ...] | None:
    words = ["nvidia-smi", "--query-gpu=index,name,memory.free", "--format=csv,noheader,nounits"]
    try:
        asked = subprocess.run(words, capture_output=True, text=True, timeout=_ASK_S, check=False)
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return None
    return read_gpus(asked.stdout) if asked.returncode == 0 else None


def read_gpus(text: str) -> tuple[Gpu, ...]:
    """Parse the output of nvidia-smi: one GPU per line, memory in MiB."""
    cards: list[Gpu] = []
    for line in filter(None, map(str.strip, text.splitlines())):
        index, name, free = (part.strip() for part in line.split(","))
        free_gb = round(int(free) / 1024, 2) if free.isdigit() else None
        cards.append(Gpu(index=int(index), name=name, free_gb=free_gb))
    return tuple(cards)


def preflight(machine: Machine, hardware: Hardware, gpus: tuple[int, ...]) -> list[str]:
    """Return a sentence for each requirement of a run that this machine does not meet."""
    problems: list[str] = []
    disk, least = machine.free_disk_gb, hardware.min_free_disk_gb
    if least is not None and disk < least:
        problems.append(f"{disk:g} GB of disk space are free, but the contract requires {least:g}")
    if gpus and machine.gpus is None:
        return [*problems, f"GPU {', '.join(map(str, gpus))} is required, but no driver responds"]
    free = {card.index: card.free_gb or 0.0 for card in machine.gpus or ()}
    wanted = hardware.min_free_gpu_gb or 0.0
    for index in gpus:
        if index not in free:
            problems.append(f"GPU {index} does not exist")
        elif free[index] < wanted:
            text = f"GPU {index} has {free[index]:g} GB free, but the contract requires"
            problems.append(f"{text} {wanted:g}")
    return problems


def run_program(argv: tuple[str, ...], cwd: Path, text: str) -> str:
    """Run a program with `text` as input and return its output, or raise TelicError."""
    done = None
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        given = {"input": text, "capture_output": True, "text": True, "timeout": _PROGRAM_S}
        done = subprocess.run(argv, cwd=cwd, env=user_environment(), check=False, **given)
    if done is None or done.returncode != 0:
        why = "did not run" if done is None else done.stderr.strip()[-500:] or "failed"
        raise TelicError(f"{argv[0]}: {why}")
    return done.stdout
