"""The one seam between environments and physics: N simulations of one model as batched tensors."""

from __future__ import annotations

from pathlib import Path

import mujoco
import torch
from torch import Tensor

from telic.core.tensors import split
from telic.errors import ConfigError


class Simulation:
    """N simulations of one model, stepped together.

    Tensors live on `device`. Floating-point fields are float64 on a CPU and float32 on a GPU. The
    simulation owns the memory of every field it hands out; the caller owns what it passes in.
    """

    def __init__(self, model: mujoco.MjModel, num_sims: int, device: torch.device) -> None:
        if num_sims < 1:
            raise ConfigError(f"num_envs={num_sims} is not a positive number.")
        self.model, self.num_sims, self.device = model, num_sims, device
        self.notes: list[str] = []
        """what is done differently from what the model says, in words"""
        self.failed: Tensor | None = None
        """(N,) bool, simulations in which the engine gave up during the last `step`; None: in none.
        They keep the state they had before it; the caller resets them."""
        self._template = mujoco.MjData(model)
        self._fields: dict[str, Tensor] = {}
        self._varied: dict[str, Tensor] = {}
        self._state_parts: list[Tensor] = []
        """memory that the future depends on, (N, ...) each"""

    @property
    def bound(self) -> frozenset[str]:
        """Names of the fields asked for so far, the only ones that cost anything."""
        return frozenset(self._fields)

    def field(self, name: str) -> Tensor:
        """Return the live (N, ...) view of an MjData field, e.g. "qpos" or "xpos".

        The same view shows every later step and reset: copy what must last, write nothing. A
        field costs nothing until it is asked for; from then on every step keeps it right. After
        `step`, fields are what `mj_step` leaves: positions of bodies describe the state before the
        last substep. "warning" counts the engine's warnings by kind (`mujoco.mjtWarning`) since the
        last reset. Raises UnknownName.
        """
        raise NotImplementedError

    def vary(self, name: str) -> Tensor:
        """Give a field of the model a value per simulation, and return its live (N, ...) view.

        It begins as the model's, may be written, and is part of `state`. What MuJoCo derives from
        the field when it compiles a model stays as it is. Ask before the first step.
        Raises UnknownName.
        """
        raise NotImplementedError

    def step(self, ctrl: Tensor, substeps: int) -> None:
        """Advance every simulation by `substeps` time steps under `ctrl`, (N, nu)."""
        raise NotImplementedError

    def reset(self, mask: Tensor, qpos: Tensor, qvel: Tensor) -> None:
        """Start again where `mask`, (N,) bool, from those rows of `qpos` and `qvel`.

        Fields then describe the new state; what only a step computes, such as the forces of
        contacts, is zero.
        """
        raise NotImplementedError

    def compile(self, shared: Path | None = None) -> None:
        """Compile what any field may need; processes that share a folder divide it."""

    def complaints(self) -> dict[str, int]:
        """Return how often something could not be computed exactly since the last ask, by kind.

        Such as too little room for contacts on a GPU, where it is fixed in advance. Waits for the
        device: ask seldom.
        """
        return {}

    def state(self) -> Tensor:
        """Return a copy of all that the future depends on, (N, size), warm start included."""
        rows = [part.reshape(self.num_sims, -1) for part in self._state_parts]
        return torch.cat(rows, dim=1) if len(rows) > 1 else rows[0].clone()

    def load_state(self, state: Tensor) -> None:
        """Continue from a state that `state` returned; derived fields follow with the next step."""
        sizes = [part[0].numel() for part in self._state_parts]
        if state.shape != (self.num_sims, sum(sizes)):
            raise ConfigError(
                f"A state of shape {tuple(state.shape)} does not fit {self.num_sims} simulations "
                f"of this model, which need {(self.num_sims, sum(sizes))}.",
                hint="Use the device, the number of environments and the model it was saved with.",
            )
        for part, value in zip(self._state_parts, split(state, sizes, dim=1), strict=True):
            part.copy_(value.reshape(part.shape))


def copy_fields(sim: Simulation) -> dict[str, Tensor]:
    """Return copies of the fields in use: they lag, so the state alone cannot restore them."""
    return {name: sim.field(name).clone() for name in sorted(sim.bound)}


def put_back_fields(sim: Simulation, fields: dict[str, Tensor]) -> None:
    """Let the fields show what `copy_fields` saw, until the next step or reset."""
    views = [sim.field(name) for name in fields]  # all first: the first ask refreshes every field
    for view, value in zip(views, fields.values(), strict=True):
        view.copy_(value)
