"""The one seam between environments and physics: N simulations of one model as batched tensors."""

from __future__ import annotations

from typing import Protocol

import mujoco
import torch
from torch import Tensor


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

    def step(self, ctrl: Tensor, substeps: int) -> None:
        """Advance every simulation by `substeps` time steps under `ctrl`, (N, nu)."""
        ...

    def reset(self, mask: Tensor, qpos: Tensor, qvel: Tensor) -> None:
        """Start anew where `mask`, (N,) bool, from those rows of `qpos` and `qvel`.

        Fields then describe the new state; what only a step computes, such as the forces of
        contacts, is zero.
        """
        ...

    def compile(self) -> None:
        """Compile what any field may need and would otherwise be compiled when asked for."""
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
