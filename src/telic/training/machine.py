"""What this machine offers: the facts `telic doctor` prints and a bug report needs."""

from __future__ import annotations

import os
import platform
import re
import shutil
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from telic.core.config import Record
from telic.training.run import versions

_EXTRAS = {
    "gpu": ("mujoco_warp", "warp"),
    "export": ("onnx", "onnxruntime"),
    "sb3": ("stable_baselines3",),
}


class MachineCheck(Record):
    """One line of the report."""

    name: str
    state: Literal["ok", "note", "bad"]
    message: str
    fix: str | None = None


def examine() -> list[MachineCheck]:
    """Return every check; takes a few seconds because rendering is really tried."""
    return [
        _versions(),
        _processors(),
        _disk(),
        _graphics_card(),
        _rendering(),
        *_confinement(),
        *_extras(),
    ]


def _versions() -> MachineCheck:
    found = versions()
    missing = [name for name, version in found.items() if version is None and name != "telic"]
    text = ", ".join(f"{name} {version}" for name, version in found.items() if version)
    if missing:
        return MachineCheck(
            name="packages",
            state="bad",
            message=f"{text}; missing: {', '.join(missing)}",
            fix="pip install telic",
        )
    return MachineCheck(
        name="packages", state="ok", message=f"Python {platform.python_version()}, {text}"
    )


def _processors() -> MachineCheck:
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return MachineCheck(
        name="machine",
        state="ok",
        message=f"{platform.system()} {platform.machine()}, {usable} processors, "
        f"{pages / 2**30:.0f} GiB",
    )


def _disk() -> MachineCheck:
    free = shutil.disk_usage(Path.cwd()).free
    state = "ok" if free > 2e9 else "bad"
    fix = None if state == "ok" else "Free some space, or use --runs-dir on another disk."
    return MachineCheck(name="disk", state=state, message=f"{free / 1e9:.0f} GB free here", fix=fix)


def _graphics_card() -> MachineCheck:
    import torch

    from telic.sim.simulation import why_no_gpu

    reason = why_no_gpu()
    if reason is not None:
        return MachineCheck(
            name="GPU", state="note", message=f"not used: {reason}; training uses the processors"
        )
    name, (free, total) = torch.cuda.get_device_name(0), torch.cuda.mem_get_info(0)
    text = f"{name}, {free / 2**30:.0f} of {total / 2**30:.0f} GiB free, CUDA {torch.version.cuda}"
    driver = _driver_version()
    text += f", driver {driver}" if driver else ""
    missing = [each for each in _EXTRAS["gpu"] if find_spec(each) is None]
    if missing:
        return MachineCheck(
            name="GPU",
            state="note",
            message=f"{text}; not used: {', '.join(missing)} missing",
            fix="pip install 'telic[gpu]'",
        )
    used = ", ".join(f"{each} {version(each)}" for each in ("mujoco-warp", "warp-lang"))
    return MachineCheck(
        name="GPU", state="ok", message=f"{text}, {used}; use it with --device cuda"
    )


def _driver_version() -> str | None:
    """Return the version of the NVIDIA driver; None where it does not say."""
    path = Path("/proc/driver/nvidia/version")
    if not path.exists():
        return None
    found = re.search(r"\b(\d+\.\d+(\.\d+)?)\b", path.read_text())
    return found.group(1) if found else None


def _rendering() -> MachineCheck:
    from telic.rendering import choose_backend

    backend = choose_backend()
    if backend == "rays":
        return MachineCheck(
            name="rendering",
            state="note",
            message="no GL found; videos are drawn by ray casting",
            fix="For nicer ones: apt-get install libegl1 libgl1-mesa-dri libosmesa6",
        )
    return MachineCheck(name="rendering", state="ok", message=f"{backend}")


def _confinement() -> list[MachineCheck]:
    from telic.sandbox.confine import available

    return [
        MachineCheck(
            name=f"confinement: {part.name}",
            state="ok" if part.active else "note",
            message=part.message,
        )
        for part in available().parts
    ]


def _extras() -> list[MachineCheck]:
    out: list[MachineCheck] = []
    for extra, modules in _EXTRAS.items():
        missing = [name for name in modules if find_spec(name) is None]
        out.append(
            MachineCheck(
                name=f"extra {extra}",
                state="note" if missing else "ok",
                message=f"not installed: {', '.join(missing)}" if missing else "installed",
                fix=f"pip install 'telic[{extra}]'" if missing else None,
            )
        )
    return out
