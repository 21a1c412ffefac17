"""Episodes that differ in what nobody knows exactly: friction, masses, motors, sensors, pushes.

A policy that was trained in one world learns its faults. With `light` or `full` variation every
episode has a world of its own, drawn from numbers in [0, 1) and written into the fields of the
model that differ between simulations. What it costs is measured by `benchmarks/robots.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple

import mujoco
import torch
from torch import Tensor

from telic.sim import Simulation

Level = Literal["none", "light", "full"]
Write = Callable[[Tensor], Tensor]
"""numbers in [0, 1), (N, k) -> the field, (N, ...)"""


class Spread(NamedTuple):
    """How far each thing may differ; times the model's own value, unless a unit is named."""

    friction: tuple[float, float]
    base_mass: tuple[float, float]
    """the trunk may carry something"""
    centre: float
    """of the trunk's mass, in lengths of its legs, to every side"""
    gains: tuple[float, float]
    """of each drive"""
    strength: tuple[float, float]
    """largest effort of each drive"""
    encoder_rad: float
    """how wrong a joint's zero is, to both sides"""
    noise: float
    """times the usual noise of each sensor"""
    push: float
    """sudden velocity in roots of gravity times leg length"""
    late: float
    """chance that actions of an episode come one control step late"""


SPREADS: dict[Level, Spread] = {
    "light": Spread((0.7, 1.3), (0.9, 1.1), 0.03, (0.9, 1.1), (0.95, 1.05), 0.01, 0.5, 0.1, 0.0),
    "full": Spread((0.4, 1.6), (0.85, 1.25), 0.1, (0.8, 1.2), (0.85, 1.1), 0.02, 1.0, 0.3, 0.5),
}


class VariedField(NamedTuple):
    """A field of the model that is drawn for every episode."""

    name: str
    numbers: int
    values: Write


class VariedModel:
    """Writes what episodes draw into the fields of a simulation's model."""

    def __init__(self, sim: Simulation, spread: Spread, base: int, leg_m: float) -> None:
        self._fields = _fields(sim, spread, base, leg_m)
        self._views = {name: sim.vary(name) for name, _, _ in self._fields}
        # Fields that follow from the same numbers come one after another.
        self.numbers = sum(field.numbers for field in self._fields)

    def begin(self, mask: Tensor, drawn: Tensor) -> None:
        """Let the episodes that begin where `mask`, (N,), have the world of their numbers."""
        at, own = 0, drawn[:, :0]
        for name, numbers, values in self._fields:
            if numbers:
                own = drawn[:, at : at + numbers]
                at += numbers
            view = self._views[name]
            rows = mask.view(-1, *[1] * (view.ndim - 1))
            view.copy_(torch.where(rows, values(own).to(view.dtype), view))


def _fields(sim: Simulation, spread: Spread, base: int, leg_m: float) -> list[VariedField]:
    """Return the fields; one without numbers of its own follows from those of the one before."""
    model = sim.model
    like = sim.field("qpos")

    def constant(name: str) -> Tensor:
        return like.new_tensor(getattr(model, name))

    friction, mass = constant("geom_friction"), constant("body_mass")
    inertia, subtree = constant("body_inertia"), constant("body_subtreemass")
    centre, gain = constant("body_ipos"), constant("actuator_gainprm")
    bias, effort = constant("actuator_biasprm"), constant("actuator_forcerange")
    is_base = torch.zeros(model.nbody, dtype=torch.bool, device=like.device)
    is_base[base] = True
    above = is_base.clone()
    above[_ancestors(model, base)] = True
    nu = int(model.nu)

    def between(share: Tensor, span: tuple[float, float]) -> Tensor:
        return span[0] + (span[1] - span[0]) * share

    def sliding(own: Tensor) -> Tensor:
        times = torch.ones_like(friction).expand(len(own), -1, -1).clone()
        times[:, :, 0] = between(own, spread.friction)
        return friction * times

    def of_base(values: Tensor, own: Tensor) -> Tensor:
        times = between(own, spread.base_mass)
        times = times.view(-1, *[1] * values.ndim)
        return torch.where(is_base.view(-1, *[1] * (values.ndim - 1)), values * times, values)

    def subtrees(own: Tensor) -> Tensor:
        more = (between(own, spread.base_mass) - 1.0) * mass[base]
        return torch.where(above, subtree + more, subtree)

    def shifted(own: Tensor) -> Tensor:
        offset = (2.0 * own - 1.0) * spread.centre * leg_m
        return torch.where(is_base[:, None], centre + offset[:, None, :], centre)

    def scaled(values: Tensor, span: tuple[float, float], own: Tensor) -> Tensor:
        return values * between(own, span)[:, :, None]

    return [
        VariedField("geom_friction", 1, sliding),
        VariedField("body_mass", 1, partial(of_base, mass)),
        VariedField("body_inertia", 0, partial(of_base, inertia)),
        VariedField("body_subtreemass", 0, subtrees),
        VariedField("body_ipos", 3, shifted),
        VariedField("actuator_gainprm", nu, partial(scaled, gain, spread.gains)),
        VariedField("actuator_biasprm", 0, partial(scaled, bias, spread.gains)),
        VariedField("actuator_forcerange", nu, partial(scaled, effort, spread.strength)),
    ]


def _ancestors(model: mujoco.MjModel, body: int) -> list[int]:
    found: list[int] = []
    while body:
        body = int(model.body_parentid[body])
        found.append(body)
    return found
