"""Domain randomization of friction, masses, actuators, sensors and pushes per episode.

Randomization prevents policies from overfitting to the simulator. At level `light` or `full`, the
parameters of an episode are computed from uniform samples in [0, 1) and written to the model fields
that vary between simulations. `benchmarks/robots.py` measures the overhead.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from telic.robots.structure import ancestors
from telic.sim.base import Simulation

RandomizationLevel = Literal["none", "light", "full"]


class Randomization(NamedTuple):
    """Ranges of the randomized parameters, relative to the model's values unless noted."""

    friction: tuple[float, float]
    base_mass: tuple[float, float]
    """Mass of the trunk including a payload."""
    center: float
    """Maximum offset of the trunk's center of mass along each axis, in leg lengths."""
    gains: tuple[float, float]
    """PD gains of each actuator."""
    strength: tuple[float, float]
    """Force limit of each actuator."""
    encoder_rad: float
    """Maximum absolute encoder offset of a joint, in rad."""
    noise: float
    """Scale of the default sensor noise."""
    push: float
    """Maximum velocity of a push, in units of sqrt(gravity * leg length)."""
    late: float
    """Probability that the actions of an episode are delayed by one control step."""


RANDOMIZATIONS: dict[RandomizationLevel, Randomization] = {
    "light": Randomization(
        (0.7, 1.3), (0.9, 1.1), 0.03, (0.9, 1.1), (0.95, 1.05), 0.01, 0.5, 0.1, 0.0
    ),
    "full": Randomization(
        (0.4, 1.6), (0.85, 1.25), 0.1, (0.8, 1.2), (0.85, 1.1), 0.02, 1.0, 0.3, 0.5
    ),
}


class _Field(NamedTuple):
    """Randomized model field. With `draws` of 0, it reuses the samples of the previous field."""

    name: str
    draws: int
    values: Callable[[Tensor], Tensor]
    """Function from samples in [0, 1), (N, draws), to the field, (N, ...)."""


class RandomizedModel:
    """Apply randomized parameters to the model fields of a simulation."""

    def __init__(self, sim: Simulation, ranges: Randomization, base: int, leg_m: float) -> None:
        self._fields = _fields(sim, ranges, base, leg_m)
        self._views = {name: sim.vary(name) for name, _, _ in self._fields}
        self.numbers = sum(field.draws for field in self._fields)

    def begin(self, mask: Tensor, drawn: Tensor) -> None:
        """Apply the samples of the episodes that begin where `mask`, (N,), is true."""
        at, own = 0, drawn[:, :0]
        for name, draws, values in self._fields:
            if draws:
                own = drawn[:, at : at + draws]
                at += draws
            view = self._views[name]
            rows = mask.view(-1, *[1] * (view.ndim - 1))
            view.copy_(torch.where(rows, values(own).to(view.dtype), view))


def _fields(sim: Simulation, ranges: Randomization, base: int, leg_m: float) -> list[_Field]:
    model = sim.model
    like = sim.field("qpos")

    def constant(name: str) -> Tensor:
        return like.new_tensor(getattr(model, name))

    friction, mass, center = map(constant, ("geom_friction", "body_mass", "body_ipos"))
    subtree = constant("body_subtreemass")
    is_base = torch.zeros(model.nbody, dtype=torch.bool, device=like.device)
    is_base[base] = True
    above = is_base.clone()
    above[[0, *ancestors(model, base)]] = True
    nu = int(model.nu)

    def between(share: Tensor, span: tuple[float, float]) -> Tensor:
        return span[0] + (span[1] - span[0]) * share

    def sliding(own: Tensor) -> Tensor:
        factor = torch.ones_like(friction).expand(len(own), -1, -1).clone()
        factor[:, :, 0] = between(own, ranges.friction)
        return friction * factor

    def of_base(values: Tensor, own: Tensor) -> Tensor:
        factor = between(own, ranges.base_mass).view(-1, *[1] * values.ndim)
        return torch.where(is_base.view(-1, *[1] * (values.ndim - 1)), values * factor, values)

    def subtrees(own: Tensor) -> Tensor:
        more = (between(own, ranges.base_mass) - 1.0) * mass[base]
        return torch.where(above, subtree + more, subtree)

    def shifted(own: Tensor) -> Tensor:
        offset = (2.0 * own - 1.0) * ranges.center * leg_m
        return torch.where(is_base[:, None], center + offset[:, None, :], center)

    def times(values: Tensor, span: tuple[float, float], own: Tensor) -> Tensor:
        return values * between(own, span)[:, :, None]

    def scaled(name: str, span: tuple[float, float], draws: int) -> _Field:
        return _Field(name, draws, partial(times, constant(name), span))

    return [
        _Field("geom_friction", 1, sliding),
        _Field("body_mass", 1, partial(of_base, mass)),
        _Field("body_inertia", 0, partial(of_base, constant("body_inertia"))),
        _Field("body_subtreemass", 0, subtrees),
        _Field("body_ipos", 3, shifted),
        scaled("actuator_gainprm", ranges.gains, nu),
        scaled("actuator_biasprm", ranges.gains, 0),
        scaled("actuator_forcerange", ranges.strength, nu),
    ]
