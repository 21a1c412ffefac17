"""The one seam between environments and physics: N simulations of one model as batched tensors."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Protocol

import mujoco
import torch
from torch import Tensor

from telic.errors import BadEnvironment, ConfigError
from telic.sim.cpu import CpuSimulation, library

ModelChange = Callable[[mujoco.MjModel], None]
"""changes a model in place"""


class Simulation(Protocol):
    """N simulations of one model, stepped together.

    Tensors live on `device`. Floating-point fields are float64 on a CPU and float32 on a GPU. The
    simulation owns the memory of every field it hands out; the caller owns what it passes in.
    """

    model: mujoco.MjModel
    num_sims: int
    device: torch.device
    notes: list[str]
    """what is done differently from what the model says, in words"""
    failed: Tensor | None
    """(N,) bool, simulations in which the engine gave up during the last `step`; None: in none.
    They keep the state they had before it; the caller resets them."""

    @property
    def bound(self) -> frozenset[str]:
        """Names of the fields asked for so far, the only ones that cost anything."""
        ...

    def field(self, name: str) -> Tensor:
        """Return the live (N, ...) view of an MjData field, e.g. "qpos" or "xpos".

        The same view shows every later step and reset: copy what must last, write nothing. A
        field costs nothing until it is asked for; from then on every step keeps it right. After
        `step`, fields are what `mj_step` leaves: positions of bodies describe the state before the
        last substep. "warning" counts the engine's warnings by kind (`mujoco.mjtWarning`) since the
        last reset. Raises UnknownName.
        """
        ...

    def vary(self, name: str) -> Tensor:
        """Give a field of the model a value per simulation, and return its live (N, ...) view.

        It begins as the model's, may be written, and is part of `state`. What MuJoCo derives from
        the field when it compiles a model stays as it is. Ask before the first step.
        Raises UnknownName.
        """
        ...

    def step(self, ctrl: Tensor, substeps: int) -> None:
        """Advance every simulation by `substeps` time steps under `ctrl`, (N, nu)."""
        ...

    def reset(self, mask: Tensor, qpos: Tensor, qvel: Tensor) -> None:
        """Start anew where `mask`, (N,) bool, from those rows of `qpos` and `qvel`.

        Fields then describe the new state; what only a step computes, such as the forces of
        contacts, is zero.
        """
        ...

    def compile(self, shared: Path | None = None) -> None:
        """Compile what any field may need and would otherwise be compiled when asked for.

        Args:
            shared: folder of processes that divide it between them; None: all of it here.
        """
        ...

    def complaints(self) -> dict[str, int]:
        """Return how often something could not be computed exactly since the last ask, by kind.

        Such as too little room for contacts on a GPU, where it is fixed in advance. Waits for the
        device: ask seldom.
        """
        ...

    def state(self) -> Tensor:
        """Return a copy of all that the future depends on, (N, size), warm start included."""
        ...

    def load_state(self, state: Tensor) -> None:
        """Go on from a state that `state` returned; derived fields follow with the next step."""
        ...


def copy_fields(sim: Simulation) -> dict[str, Tensor]:
    """Return copies of the fields in use: they lag, so the state alone cannot bring them back."""
    return {name: sim.field(name).clone() for name in sorted(sim.bound)}


def put_back_fields(sim: Simulation, fields: dict[str, Tensor]) -> None:
    """Let the fields show what `copy_fields` saw, until the next step or reset."""
    views = [sim.field(name) for name in fields]  # all first: the first ask refreshes every field
    for view, value in zip(views, fields.values(), strict=True):
        view.copy_(value)


def load_model(xml_file: str) -> mujoco.MjModel:
    """Compile a model: one of Gymnasium's assets by name, or any MJCF file by path."""
    import gymnasium

    library()  # keeps the compiler's remarks on old models out of the terminal and of the folder
    path = Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets" / xml_file
    if not path.is_file():
        path = Path(xml_file).expanduser()
    if not path.is_file():
        raise BadEnvironment(
            f'There is no model file "{xml_file}".',
            hint="Give a path to an MJCF file, or the name of one of Gymnasium's models (ant.xml).",
        )
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
