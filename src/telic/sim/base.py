"""Physics interface: N simulations of one model with batched tensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mujoco
import torch
from torch import Tensor

from telic.core.tensors import split
from telic.errors import ConfigError


class Simulation:
    """Base class of batched simulations of one model.

    Tensors are on `device`. Floating-point fields are float64 on a CPU and float32 on a GPU.
    Returned fields are views of the simulation's memory, while arguments are copied.
    """

    def __init__(self, model: mujoco.MjModel, num_sims: int, device: torch.device) -> None:
        if num_sims < 1:
            raise ConfigError(f"num_envs={num_sims} must be positive.")
        self.model, self.num_sims, self.device = model, num_sims, device
        self.notes: list[str] = []
        """Descriptions of deviations from the model."""
        self.failed: Tensor | None = None
        """Mask of the simulations whose engine failed in the last `step`, (N,) bool, or None.
        They keep their previous state until the caller resets them."""
        self._template = mujoco.MjData(model)
        self._fields: dict[str, Tensor] = {}
        self._varied: dict[str, Tensor] = {}
        self._state_parts: list[Tensor] = []
        """Tensors that make up the state, each (N, ...)."""

    @property
    def bound(self) -> frozenset[str]:
        """Names of the fields requested so far. Steps update only these fields."""
        return frozenset(self._fields)

    def field(self, name: str) -> Tensor:
        """Return the live (N, ...) view of an MjData field, e.g. "qpos" or "xpos".

        The view is updated by every step and reset. Copy values to keep them, and do not write to
        it. Fields are only updated once they have been requested. After `step`, they are as left by
        `mj_step`: body positions describe the state before the last substep. "warning" counts the
        engine's warnings by kind (`mujoco.mjtWarning`) since the last reset. Raises UnknownName for
        an unknown field.
        """
        raise NotImplementedError

    def vary(self, name: str) -> Tensor:
        """Expand a model field to one value per simulation, and return its live (N, ...) view.

        The view is writable, initialized from the model, and part of `state`. Quantities that
        MuJoCo derives from the field at compile time are not updated. Call this before the first
        step. Raises UnknownName for an unknown field.
        """
        raise NotImplementedError

    def step(self, ctrl: Tensor, substeps: int) -> None:
        """Advance every simulation by `substeps` time steps with controls `ctrl`, (N, nu)."""
        raise NotImplementedError

    def reset(self, mask: Tensor, qpos: Tensor, qvel: Tensor) -> None:
        """Reset the simulations in `mask`, (N,) bool, to their rows of `qpos` and `qvel`.

        After the reset, fields describe the new state, but fields that only a step computes, such
        as contact forces, are zero.
        """
        raise NotImplementedError

    def compile(self, shared: Path | None = None) -> None:
        """Compile kernels in advance. Processes that share a folder divide the work."""

    def complaints(self) -> dict[str, int]:
        """Return the number of inexact computations since the last call, by kind.

        An example is an overflow of the contact buffers on a GPU, whose sizes are fixed. The call
        synchronizes with the device, so call it rarely.
        """
        return {}

    def state(self) -> Tensor:
        """Return a copy of the full state, including the warm start, (N, size)."""
        rows = [part.reshape(self.num_sims, -1) for part in self._state_parts]
        return torch.cat(rows, dim=1) if len(rows) > 1 else rows[0].clone()

    def load_state(self, state: Tensor) -> None:
        """Restore a state returned by `state`. The next step updates derived fields."""
        sizes = [part[0].numel() for part in self._state_parts]
        if state.shape != (self.num_sims, sum(sizes)):
            raise ConfigError(
                f"A state of shape {tuple(state.shape)} does not match {self.num_sims} simulations "
                f"of this model. Expected {(self.num_sims, sum(sizes))}.",
                hint="Use the same device, number of environments and model as when it was saved.",
            )
        for part, value in zip(self._state_parts, split(state, sizes, dim=1), strict=True):
            part.copy_(value.reshape(part.shape))

    def snapshot(self) -> dict[str, Any]:
        """Return copies of the state and of bound fields, which may be older than the state."""
        fields = {name: self.field(name).clone() for name in sorted(self.bound)}
        return {"state": self.state(), "fields": fields}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Restore a snapshot. Its fields are valid until the next step or reset."""
        self.load_state(snapshot["state"])
        fields = snapshot["fields"]
        views = [self.field(name) for name in fields]  # bind all first: binding updates others
        for view, value in zip(views, fields.values(), strict=True):
            view.copy_(value)
