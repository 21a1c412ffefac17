"""Check the system for `telic doctor`, estimate memory and compile GPU kernels.

Running `python -m telic.training.machine` with an environment, its arguments and a device compiles
the GPU kernels into Warp's cache.
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

from telic import training
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
"""number of processes that compile GPU kernels"""
_EXTRAS = {
    "gpu": ("mujoco_warp", "warp"),
    "export": ("onnx", "onnxruntime"),
    "llm": ("pydantic_ai", "anthropic", "openai"),
    "mcp": ("mcp",),
    "sb3": ("stable_baselines3",),
}


class MachineCheck(Record):
    """Result of one check."""

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
    """Run all checks. This takes a few seconds, because a rendering backend is tested."""
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
    room, elsewhere = f"{free / 1e9:.0f} GB free disk space", "Free some space, or use --runs-dir."
    checks.append(_ok("disk", room) if free > 2e9 else _bad("disk", room, elsewhere))
    checks.append(_graphics_card())
    steps = "gradient steps in native code"
    by_torch = _note("learning", f"no {steps}; PyTorch is slower", "Install cc, then telic again.")
    checks.append(by_torch if training.fused.native_library() is None else _ok("learning", steps))
    backend = choose_backend()
    rays = "OpenGL not found; videos are rendered by ray casting"
    nicer = "For better images: apt-get install libegl1 libgl1-mesa-dri libosmesa6"
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
    """Check that ffmpeg is available for encoding videos."""
    from telic.rendering.media import ffmpeg_path

    try:
        path = ffmpeg_path()
        answer = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=30)
        words = answer.stdout.split()
    except (TelicError, OSError, subprocess.TimeoutExpired) as error:
        fix = "pip install imageio-ffmpeg, or set IMAGEIO_FFMPEG_EXE."
        return _bad("ffmpeg", f"no videos: {error}", fix)
    return _ok("ffmpeg", f"{words[2] if len(words) > 2 else 'unknown version'}, {path}")


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
    """Return the versions of packages that affect results, or None if not installed."""
    return {name: _version(name) for name in _PACKAGES}


@cache
def source_commit() -> str | None:
    """Return the git commit of telic, with `-dirty` if files were modified.

    Returns None for an installed package, because its version identifies the source.
    """
    root = Path(__file__).parents[3]
    if not (root / ".git").exists():
        return None
    command = ("git", "-C", str(root), "describe", "--always", "--dirty", "--exclude=*")
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip() or None


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


_FLOAT = 4
_KEPT_BATCHES = 4
"""number of simultaneous copies of a batch (collected, normalized, packed and shuffled)"""
_ACTIVATIONS = 8
"""number of simultaneous activation tensors per hidden layer in an update"""
_CONTEXT_BYTES = 1 << 30


class Sizes(NamedTuple):
    """Sizes that determine the memory usage of training."""

    members: int
    inputs: int
    """size of the critic inputs"""
    outputs: int
    terms: int


def memory_plan(settings: PpoSettings, sizes: Sizes) -> dict[str, int]:
    """Estimate the peak memory of training in bytes by purpose, excluding simulations."""
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
    """Return the NVIDIA device files that a sandboxed process may use."""
    return [path for path in sorted(Path("/dev").glob("nvidia*")) if path.is_char_device()]


def compile_all(envs: Iterable[VecEnv]) -> None:
    """Compile all GPU kernels of the environments. Later calls use the cache."""
    for env in envs:
        with _compiling(env):
            env.compile()


@contextmanager
def _compiling(env: VecEnv) -> Generator[None]:
    """Hold the compilation lock of an environment."""
    import warp

    warp.init()
    name = hashlib.sha256(env.spec.id.encode()).hexdigest()[:12]
    with taking_turns(Path(str(warp.config.kernel_cache_dir)) / f"telic-{name}.lock"):
        yield


@contextmanager
def compiling_ahead(env: str, env_args: dict[str, Any], device: str) -> Generator[None]:
    """Compile GPU kernels in background processes. Does nothing on a CPU.

    The compilation is stopped on exit. Training that starts earlier waits in `compile_all`.
    """
    if device == "cpu":
        yield
        return
    process = Process(own_python(__name__, env, json.dumps(env_args), device))
    try:
        yield
    finally:
        process.kill()


def compile_kernels(env: str, env_args: str, device: str, shared: str | None = None) -> None:
    """Compile the GPU kernels of an environment. They do not depend on the batch size.

    Args:
        env: environment id.
        env_args: environment arguments as JSON.
        device: GPU device.
        shared: folder shared by the worker processes, or None in the process that starts them.
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
    compile_kernels(*sys.argv[1:])
