"""Make simulations: compile a model, choose the device, change the physics on the way."""

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
from telic.sim.files import assets_dir, require_compilable

ModelChange = Callable[[mujoco.MjModel], None]
"""changes a model in place"""


def load_model(xml_file: str) -> mujoco.MjModel:
    """Compile a model: one of Gymnasium's assets by name, or any MJCF file by path."""
    library()  # keeps the compiler's remarks on old models out of the terminal and of the folder
    path = assets_dir() / xml_file
    if not path.is_file():
        path = Path(xml_file).expanduser()
    if not path.is_file():
        raise BadEnvironment(
            f'Model file "{xml_file}" not found.',
            hint="Give a path to an MJCF file, or the name of one of Gymnasium's models (ant.xml).",
        )
    require_compilable(path)
    try:
        read = mujoco.MjModel.from_xml_path
        if path.suffix == ".mjb":
            read = mujoco.MjModel.from_binary_path
        return read(str(path))
    except (ValueError, mujoco.FatalError) as error:
        hint = "A compiled model fits one version of MuJoCo only; give the XML file."
        raise BadEnvironment(
            f'MuJoCo cannot read "{xml_file}": {error}',
            hint=hint if path.suffix == ".mjb" else None,
        ) from error


_change: ContextVar[ModelChange | None] = ContextVar("_change", default=None)


@contextmanager
def altering(change: ModelChange | None) -> Generator[None]:
    """Change every model that is simulated from within the block, before anything is made of it.

    For physics that differs from what a task says: an environment is then made as usual, whatever
    its way to its model.
    """
    token = _change.set(change)
    try:
        yield
    finally:
        _change.reset(token)


def simulate(
    model: mujoco.MjModel, num_sims: int, *, device: str = "cpu", num_threads: int | None = None
) -> Simulation:
    """Return N simulations of a model on a device: "cpu", "cuda" or "cuda:1"."""
    if change := _change.get():
        change(model)
    if device == "cpu":
        return CpuSimulation(model, num_sims, num_threads=num_threads)
    require_gpu(device)
    from telic.sim.gpu import GpuSimulation

    return GpuSimulation(model, num_sims, device=device)


def require_gpu(device: str) -> None:
    """Raise ConfigError, with the reason, if a device is not a GPU that can be used."""
    kind, _, number = device.partition(":")
    if kind != "cuda" or (number and not number.isdigit()):
        raise ConfigError(f'device="{device}" is not known.', hint='Use "cpu" or "cuda".')
    reason = why_no_gpu()
    if reason is None and int(number or 0) >= torch.cuda.device_count():
        reason = f"this machine has {torch.cuda.device_count()} of them"
    if reason is not None:
        raise ConfigError(
            f'device="{device}" cannot be used: {reason}.',
            hint='Use device="cpu"; telic doctor says more.',
        )


def why_no_gpu() -> str | None:
    """Say why no GPU can be used; None if one can."""
    if torch.version.cuda is None:
        return "torch was installed without support for GPUs"
    if not torch.cuda.is_available():
        return "no NVIDIA GPU with a working driver was found"
    return None
