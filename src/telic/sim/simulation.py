"""Create simulations: compile a model, select the device, and apply model changes."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

import mujoco
import torch

from telic.errors import BadEnvironment, ConfigError
from telic.sim.base import Simulation
from telic.sim.cpu import CpuSimulation, library
from telic.sim.files import assets_dir, require_compilable, unreadable

ModelChange = Callable[[mujoco.MjModel], None]
"""Function that modifies a model in place."""


def load_model(xml_file: str) -> mujoco.MjModel:
    """Compile a model, given as the name of a Gymnasium asset or the path of an MJCF file."""
    library()  # prevents compiler warnings in the terminal and in log files
    path = assets_dir() / xml_file
    if not path.is_file():
        path = Path(xml_file).expanduser()
    if not path.is_file():
        raise BadEnvironment(
            f'Model file "{xml_file}" not found.',
            hint="Pass a path to an MJCF file, or the name of a Gymnasium model (ant.xml).",
        )
    require_compilable(path)
    try:
        read = mujoco.MjModel.from_xml_path
        if path.suffix == ".mjb":
            read = mujoco.MjModel.from_binary_path
        return read(str(path))
    except (ValueError, mujoco.FatalError) as error:
        raise unreadable(xml_file, error) from error


_change: ContextVar[ModelChange | None] = ContextVar("_change", default=None)


@contextmanager
def altering(change: ModelChange | None) -> Generator[None]:
    """Return a context that applies a change to every model simulated in it.

    The change can alter the physics of a task, regardless of how an environment loads its model.
    """
    token = _change.set(change)
    try:
        yield
    finally:
        _change.reset(token)


def simulate(
    model: mujoco.MjModel, num_sims: int, *, device: str = "cpu", num_threads: int | None = None
) -> Simulation:
    """Create N simulations of a model on a device such as "cpu", "cuda" or "cuda:1"."""
    if change := _change.get():
        change(model)
    if device == "cpu":
        return CpuSimulation(model, num_sims, num_threads=num_threads)
    require_gpu(device)
    from telic.sim._gpu import GpuSimulation

    return GpuSimulation(model, num_sims, device=device)


def require_gpu(device: str) -> None:
    """Raise ConfigError unless the device is a usable GPU."""
    kind, _, number = device.partition(":")
    if kind != "cuda" or (number and not number.isdigit()):
        raise ConfigError(f'Unknown device="{device}".', hint='Use "cpu" or "cuda".')
    reason = why_no_gpu()
    if reason is None and int(number or 0) >= torch.cuda.device_count():
        reason = f"this machine has {torch.cuda.device_count()} GPUs"
    if reason is not None:
        raise ConfigError(
            f'device="{device}" cannot be used: {reason}.',
            hint='Use device="cpu", and see telic doctor for details.',
        )


def why_no_gpu() -> str | None:
    """Return the reason why no GPU is usable, or None."""
    if torch.version.cuda is None:
        return "torch was installed without GPU support"
    if not torch.cuda.is_available():
        return "no NVIDIA GPU with a working driver was found"
    return None
