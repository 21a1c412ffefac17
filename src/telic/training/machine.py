"""What this machine offers: the facts `telic doctor` prints and a bug report needs."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from telic.core.config import Record
from telic.errors import ResourceError
from telic.storage.locks import taking_turns
from telic.training.job import PpoSettings, TrainJob

if TYPE_CHECKING:
    from telic.envs.vector import VecEnv

_PACKAGES = ("telic", "torch", "mujoco", "gymnasium", "numpy", "pydantic")
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


def versions() -> dict[str, str | None]:
    """Return the version of every package that decides numbers; None where it is not installed."""
    return {name: _version(name) for name in _PACKAGES}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


_FLOAT = 4
_KEPT_BATCHES = 4
"""copies of a batch that exist at once: collected, normalised, packed, shuffled"""
_ACTIVATIONS = 8
"""tensors as large as a hidden layer's output that an update holds at once"""
_SPARE = 0.9
"""share of the free memory to plan with; CUDA and other programs use some too"""
_CONTEXT_BYTES = 1 << 30


class Sizes(NamedTuple):
    """Widths that decide how much memory training takes."""

    members: int
    inputs: int
    """what the critic sees"""
    outputs: int
    terms: int


def memory_plan(settings: PpoSettings, sizes: Sizes) -> dict[str, int]:
    """Return the bytes that training takes at most beside the simulations, by what for."""
    rows = settings.batch_size * sizes.members
    row = 2 * sizes.inputs + sizes.outputs + sizes.terms + 8
    minibatch = settings.minibatch_size * sizes.members
    hidden = sum(settings.hidden) * 2
    return {
        "batches": _KEPT_BATCHES * rows * row * _FLOAT,
        "update": minibatch * hidden * _ACTIVATIONS * _FLOAT,
        "values": rows * hidden * 2 * _FLOAT,
        "libraries": _CONTEXT_BYTES,
    }


def require_memory(settings: PpoSettings, sizes: Sizes, free_bytes: int) -> None:
    """Raise ResourceError, with what to lower and to what, if training will not fit."""
    plan = memory_plan(settings, sizes)
    needed, usable = sum(plan.values()), int(_SPARE * free_bytes)
    if needed <= usable:
        return
    largest = max(plan, key=lambda name: plan[name])
    smaller = settings.num_envs
    while smaller > 1 and needed > usable:
        smaller //= 2
        fitting = settings.model_copy(
            update={
                "num_envs": smaller,
                "minibatch_size": max(1, settings.minibatch_size * smaller // settings.num_envs),
            }
        )
        needed = sum(memory_plan(fitting, sizes).values())
    gib = 2**30
    advice = (
        f"Lower num_envs from {settings.num_envs} to {smaller}, or train fewer members at once."
        if needed <= usable
        else "Use smaller networks, or train fewer members at once."
    )
    raise ResourceError(
        f"Training needs about {sum(plan.values()) / gib:.1f} GiB of GPU memory, most of it for "
        f"{largest}; {free_bytes / gib:.1f} GiB are free.",
        hint=advice,
    )


def device_files() -> list[Path]:
    """Return the files of the NVIDIA driver that a confined process may use."""
    return [path for path in sorted(Path("/dev").glob("nvidia*")) if path.is_char_device()]


def is_gpu(job: TrainJob) -> bool:
    """Say whether a job runs on a GPU."""
    return job.device != "cpu"


def compile_all(envs: Iterable[VecEnv]) -> None:
    """Compile all that environments on a GPU may need; who comes second finds it in the cache."""
    import warp

    warp.init()
    with taking_turns(Path(str(warp.config.kernel_cache_dir)) / "telic.lock"):
        for env in envs:
            env.compile()


@contextmanager
def compiling_ahead(env: str, env_args: dict[str, Any], device: str) -> Generator[None]:
    """Compile in another process while this one does something else; on a CPU do nothing.

    Nobody waits for it here: training that begins before it is done waits in `compile_all`.
    """
    if device == "cpu":
        yield
        return
    command = [sys.executable, "-m", __name__, env, json.dumps(env_args), device]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def main(env: str, env_args: str = "{}", device: str = "cuda") -> None:
    """Compile for an environment as it is for training; how many there are makes no difference."""
    from telic.envs import make

    compile_all([make(env, num_envs=16, device=device, **json.loads(env_args))])


if __name__ == "__main__":
    main(*sys.argv[1:])
