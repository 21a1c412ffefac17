"""Checks of this machine for `telic doctor`, and preparation of its GPU for training.

As a program, `python -m telic.training.machine HalfCheetah-v5`, it leaves the kernels for a GPU in
Warp's cache.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from telic.core.config import Record
from telic.errors import TelicError
from telic.jobs.process import Process, die_with_parent, own_python
from telic.storage.keys import key_file, user_key
from telic.storage.locks import taking_turns
from telic.storage.resources import usable_cores
from telic.training.job import PpoSettings

if TYPE_CHECKING:
    from telic.envs.vector import VecEnv

_PACKAGES = ("telic", "torch", "mujoco", "gymnasium", "numpy", "pydantic")
_COMPILERS = 4
"""processes that compile for a GPU"""
_EXTRAS = {
    "gpu": ("mujoco_warp", "warp"),
    "export": ("onnx", "onnxruntime"),
    "llm": ("pydantic_ai", "anthropic", "openai"),
    "mcp": ("mcp",),
    "sb3": ("stable_baselines3",),
}


class MachineCheck(Record):
    """One line of the report."""

    name: str
    state: Literal["ok", "note", "bad"]
    message: str
    fix: str | None = None


def _ok(name: str, message: str) -> MachineCheck:
    return MachineCheck(name=name, state="ok", message=message)


def _note(name: str, message: str, fix: str | None = None) -> MachineCheck:
    return MachineCheck(name=name, state="note", message=message, fix=fix)


def _bad(name: str, message: str, fix: str | None) -> MachineCheck:
    return MachineCheck(name=name, state="bad", message=message, fix=fix)


def examine() -> list[MachineCheck]:
    """Return every check; takes a few seconds because rendering is really tried."""
    from telic.rendering import choose_backend
    from telic.sandbox.host import available

    installed, python = package_versions(), platform.python_version()
    missing = [name for name, number in installed.items() if number is None and name != "telic"]
    text = ", ".join(f"{name} {number}" for name, number in installed.items() if number)
    checks = [_ok("packages", f"Python {python}, {text}")]
    if missing:
        checks = [_bad("packages", f"{text}; missing: {', '.join(missing)}", "pip install telic")]
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    system = f"{platform.system()} {platform.machine()}"
    checks.append(
        _ok("machine", f"{system}, {len(usable_cores())} CPU cores, {memory / 2**30:.0f} GiB")
    )
    free = shutil.disk_usage(Path.cwd()).free
    room, elsewhere = f"{free / 1e9:.0f} GB free here", "Free some space, or use --runs-dir."
    checks.append(_ok("disk", room) if free > 2e9 else _bad("disk", room, elsewhere))
    checks.append(_graphics_card())
    backend = choose_backend()
    rays = "no GL found; videos are drawn by ray casting"
    nicer = "For nicer ones: apt-get install libegl1 libgl1-mesa-dri libosmesa6"
    is_plain = backend == "rays"
    checks.append(_note("rendering", rays, nicer) if is_plain else _ok("rendering", backend))
    checks.append(_ffmpeg())
    for part in available().parts:
        checks.append((_ok if part.active else _note)(f"confinement: {part.name}", part.message))
    try:
        key = user_key()
        checks.append(_ok("signing key", f"Ed25519 {key.public}, in {key_file()}"))
    except (TelicError, OSError) as error:
        checks.append(_bad("signing key", str(error), getattr(error, "hint", None)))
    for extra, modules in _EXTRAS.items():
        absent = ", ".join(module for module in modules if find_spec(module) is None)
        how = f"pip install 'telic[{extra}]'"
        name = f"extra {extra}"
        is_there = _ok(name, "installed")
        checks.append(_note(name, f"not installed: {absent}", how) if absent else is_there)
    return checks


def _ffmpeg() -> MachineCheck:
    """Say which ffmpeg encodes videos, or that none does."""
    from telic.rendering.media import ffmpeg_path

    try:
        path = ffmpeg_path()
        said = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=30)
        words = said.stdout.split()
    except (TelicError, OSError, subprocess.TimeoutExpired) as error:
        fix = "pip install imageio-ffmpeg, or name one in IMAGEIO_FFMPEG_EXE."
        return _bad("ffmpeg", f"no videos: {error}", fix)
    return _ok("ffmpeg", f"{words[2] if len(words) > 2 else 'of an unknown version'}, {path}")


def _graphics_card() -> MachineCheck:
    import torch

    from telic.sim.simulation import why_no_gpu

    reason = why_no_gpu()
    if reason is not None:
        return _note("GPU", f"not used: {reason}; training uses the CPU")
    name, (free, total) = torch.cuda.get_device_name(0), torch.cuda.mem_get_info(0)
    text = f"{name}, {free / 2**30:.0f} of {total / 2**30:.0f} GiB free, CUDA {torch.version.cuda}"
    file = Path("/proc/driver/nvidia/version")
    driver = re.search(r"\b(\d+\.\d+(\.\d+)?)\b", file.read_text()) if file.exists() else None
    text += f", driver {driver[1]}" if driver else ""
    missing = [module for module in _EXTRAS["gpu"] if find_spec(module) is None]
    if missing:
        text += f"; not used: {', '.join(missing)} missing"
        return _note("GPU", text, "pip install 'telic[gpu]'")
    used = ", ".join(f"{package} {version(package)}" for package in ("mujoco-warp", "warp-lang"))
    return _ok("GPU", f"{text}, {used}; use it with --device cuda")


def package_versions() -> dict[str, str | None]:
    """Return the version of every package that decides numbers; None where it is not installed."""
    return {name: _version(name) for name in _PACKAGES}


@cache
def source_commit() -> str | None:
    """Return the commit telic itself runs from, with `-dirty` where files differ from it.

    None where it is installed and not a checkout: then its version says what it is.
    """
    root = Path(__file__).parents[3]
    if not (root / ".git").exists():
        return None
    command = ("git", "-C", str(root), "describe", "--always", "--dirty", "--exclude=*")
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return said.stdout.strip() or None


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
_CONTEXT_BYTES = 1 << 30


class Sizes(NamedTuple):
    """Widths that decide how much memory training takes."""

    members: int
    inputs: int
    """what the critic sees"""
    outputs: int
    terms: int


def memory_plan(settings: PpoSettings, sizes: Sizes) -> dict[str, int]:
    """Return the bytes that training takes at most besides the simulations, by purpose."""
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


def device_files() -> list[Path]:
    """Return the files of the NVIDIA driver that a confined process may use."""
    return [path for path in sorted(Path("/dev").glob("nvidia*")) if path.is_char_device()]


def compile_all(envs: Iterable[VecEnv]) -> None:
    """Compile everything that environments on a GPU may need; later calls use the cache."""
    for env in envs:
        with _compiling(env):
            env.compile()


@contextmanager
def _compiling(env: VecEnv) -> Generator[None]:
    """Wait for others that compile for the same environment."""
    import warp

    warp.init()
    name = hashlib.sha256(env.spec.id.encode()).hexdigest()[:12]
    with taking_turns(Path(str(warp.config.kernel_cache_dir)) / f"telic-{name}.lock"):
        yield


@contextmanager
def compiling_ahead(env: str, env_args: dict[str, Any], device: str) -> Generator[None]:
    """Compile in other processes while this one does something else; on a CPU do nothing.

    This does not wait: training that begins before it is done waits in `compile_all`.
    """
    if device == "cpu":
        yield
        return
    process = Process(own_python(__name__, env, json.dumps(env_args), device))
    try:
        yield
    finally:
        process.kill()


def main(env: str, env_args: str, device: str, shared: str | None = None) -> None:
    """Compile for an environment as it is for training; how many there are makes no difference.

    Args:
        env: the environment.
        env_args: its arguments, as JSON.
        device: the GPU.
        shared: folder of the processes that divide the work; None: start them, and see to the rest.
    """
    from telic.envs.factory import make

    die_with_parent()
    if shared is not None:
        make(env, num_envs=16, device=device, **json.loads(env_args)).compile(Path(shared))
        return
    with tempfile.TemporaryDirectory() as folder:
        command = own_python(__name__, env, env_args, device, folder)
        count = min(_COMPILERS, len(usable_cores()) // 2) - 1
        others = [Process(command, own_group=False) for _ in range(count)]
        made = make(env, num_envs=16, device=device, **json.loads(env_args))
        with _compiling(made):
            made.compile(Path(folder))
            for other in others:
                other.wait()
            made.compile()


if __name__ == "__main__":
    main(*sys.argv[1:])
