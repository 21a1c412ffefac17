"""What this machine offers to a run, and what it lacks."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import subprocess
from pathlib import Path

from telic.core.config import Record

_GIB = 2**30
_ASK_S = 20
_FIELDS = ("index", "name", "memory.total", "memory.free", "driver_version", "compute_mode")


class Gpu(Record):
    """One graphics card; memory in GB, None where the driver does not say."""

    index: int
    name: str
    total_gb: float | None
    free_gb: float | None
    driver: str
    compute_mode: str


class Machine(Record):
    """hw.json: where a run was started."""

    host: str
    platform: str
    processors: int
    memory_gb: float
    free_memory_gb: float
    free_disk_gb: float
    gpus: tuple[Gpu, ...] | None
    """None: not looked at, or there is no driver to ask"""
    python: str
    precision_flags: dict[str, str]
    """variables that change numerical results"""


_PRECISION = (
    "NVIDIA_TF32_OVERRIDE",
    "CUBLAS_WORKSPACE_CONFIG",
    "XLA_FLAGS",
    "JAX_ENABLE_X64",
    "TF_ENABLE_ONEDNN_OPTS",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
    "OMP_NUM_THREADS",
)


def look(folder: Path, *, at_gpus: bool) -> Machine:
    """Return the facts; GPUs are asked for through the driver's own program.

    Args:
        folder: on the disk whose free space counts.
        at_gpus: whether to start that program.
    """
    import psutil  # slow to load, and most commands do not look

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
    if shutil.which("nvidia-smi") is None:
        return None
    words = ["nvidia-smi", f"--query-gpu={','.join(_FIELDS)}", "--format=csv,noheader,nounits"]
    try:
        asked = subprocess.run(words, capture_output=True, text=True, timeout=_ASK_S, check=False)
    except subprocess.TimeoutExpired:
        return None
    return read_gpus(asked.stdout) if asked.returncode == 0 else None


def read_gpus(text: str) -> tuple[Gpu, ...]:
    """Read what nvidia-smi prints: one card a line, memory in MiB."""
    cards: list[Gpu] = []
    for line in filter(None, map(str.strip, text.splitlines())):
        index, name, total, free, driver, mode = (part.strip() for part in line.split(","))
        memory = {"total_gb": _gb(total), "free_gb": _gb(free)}
        cards.append(Gpu(index=int(index), name=name, driver=driver, compute_mode=mode, **memory))
    return tuple(cards)


def preflight(
    machine: Machine,
    *,
    gpus: tuple[int, ...],
    min_free_gpu_gb: float | None,
    min_free_disk_gb: float | None,
) -> list[str]:
    """Return what this machine lacks for a run; one sentence each."""
    problems: list[str] = []
    if min_free_disk_gb is not None and machine.free_disk_gb < min_free_disk_gb:
        problems.append(
            f"{machine.free_disk_gb:g} GB of disk are free, the contract asks for "
            f"{min_free_disk_gb:g}"
        )
    if not gpus:
        return problems
    if machine.gpus is None:
        return [*problems, f"GPU {', '.join(map(str, gpus))} is wanted and no driver answers"]
    cards = {card.index: card for card in machine.gpus}
    for index in gpus:
        card = cards.get(index)
        if card is None:
            problems.append(f"there is no GPU {index}")
        elif min_free_gpu_gb is not None and (card.free_gb or 0.0) < min_free_gpu_gb:
            problems.append(
                f"GPU {index} has {card.free_gb or 0.0:g} GB free, the contract asks for "
                f"{min_free_gpu_gb:g}"
            )
    return problems


def run_probe(argv: tuple[str, ...], cwd: Path, variables: dict[str, str]) -> str | None:
    """Run the adapter's probe (does the simulator start?) and return its complaint, or None."""
    try:
        done = subprocess.run(
            argv,
            cwd=cwd,
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_ASK_S * 3,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"the probe did not run: {error}"
    if done.returncode == 0:
        return None
    said = (done.stderr or done.stdout).strip().splitlines()
    return f"the probe ended with code {done.returncode}: {said[-1] if said else 'no word'}"


def _gb(mebibytes: str) -> float | None:
    return round(int(mebibytes) / 1024, 2) if mebibytes.isdigit() else None
