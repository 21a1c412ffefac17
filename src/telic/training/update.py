"""One PPO update for all members at once.

Every quantity carries a leading member dimension P. Losses of members are summed, so the gradient
of the sum holds each member's own gradient in its own row: members cannot influence one another.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor

from telic.training.gradient import Samples, gradient
from telic.training.population import Actor, Population

_BETAS = (0.9, 0.999)
_EPSILON = 1e-5
_LEARNING_RATES = 1e-5, 1e-2
_KL_STOP = 1.5


class UpdateStats(NamedTuple):
    """Diagnostics per member, each (P,)."""

    policy_loss: Tensor
    value_loss: Tensor
    entropy: Tensor
    approx_kl: Tensor
    clip_fraction: Tensor
    grad_norm: Tensor
    steps: Tensor
    """gradient steps taken before the KL limit ended the batch"""
    finite: Tensor
    """False where a loss or gradient was NaN or infinite; that member's weights were left alone"""


@torch.no_grad()
def update(
    population: Population, actor: Actor, samples: Samples, orders: Iterable[Tensor]
) -> UpdateStats:
    """Improve every living member on its own samples; diagnostics are means over its steps.

    Args:
        population: the members.
        actor: the policies that collected the samples.
        samples: what to learn from.
        orders: for each epoch the order of each member's samples, (P, B); see `Population.orders`.
    """
    settings = population.settings
    packed, widths = _pack(samples)
    members, batch, _ = packed.shape
    can_look = packed.device.type == "cpu"  # elsewhere, looking at a value waits for it
    active = population.alive.clone()
    finite = torch.ones_like(active)
    sums = torch.zeros(6, members, device=packed.device)
    steps = torch.zeros(members, device=packed.device)

    for order in orders:
        shuffled = _shuffle(packed, order)
        for start in range(0, batch, settings.minibatch_size):
            piece = shuffled[:, start : start + settings.minibatch_size]
            grad, losses = gradient(population, actor, _unpack(piece, widths))
            norm = grad.norm(dim=1)
            # What is counted and changed for a member depends on that member alone.
            sums += torch.where(active, torch.stack((*losses, norm)), 0.0)
            steps += active
            sound = norm.isfinite()
            finite &= sound | ~active
            active &= sound
            if settings.schedule != "adaptive":
                active &= losses.kl <= _KL_STOP * population.target_kl[:, 0]
            _adam(population, grad, norm, active)
            if can_look and not active.any():
                break
        else:
            continue
        break
    means = sums / steps.clamp_min(1.0)
    if settings.schedule == "adaptive":
        _steer(population, means[3])
    return UpdateStats._make((*means, steps, finite))


def _pack(samples: Samples) -> tuple[Tensor, list[int]]:
    """Join all columns so that one gather per epoch shuffles everything."""
    columns = [each if each.dim() == 3 else each.unsqueeze(-1) for each in samples]
    return torch.cat(columns, dim=-1), [each.shape[-1] for each in columns]


def _unpack(packed: Tensor, widths: list[int]) -> Samples:
    inputs, actions, *rest = packed.split(widths, dim=-1)
    return Samples(inputs, actions, *(each.squeeze(-1) for each in rest))


def _shuffle(packed: Tensor, order: Tensor) -> Tensor:
    """Return the rows of each member in an order of its own, (P, B)."""
    members, batch, width = packed.shape
    order = order + torch.arange(0, members * batch, batch, device=packed.device).unsqueeze(1)
    return packed.view(-1, width).index_select(0, order.view(-1)).view(members, batch, width)


def _adam(population: Population, grad: Tensor, norm: Tensor, active: Tensor) -> None:
    """Take one clipped Adam step for the active members only; uses up `grad`."""
    step = active.unsqueeze(1)
    factor = (population.max_grad_norm / (norm.unsqueeze(1) + 1e-6)).clamp_(max=1.0)
    if grad.device.type != "cpu" or not bool(active.all()):
        # where, not a product: 0 * NaN would carry a member's NaN into its weights
        grad = torch.where(step, grad, 0.0)
    grad.mul_(factor)
    adam = population.adam
    adam.count += step
    keep1, keep2 = _BETAS
    adam.first.lerp_(grad, 1.0 - keep1)
    adam.second.mul_(keep2).addcmul_(grad, grad, value=1.0 - keep2)
    correction = (1.0 - keep2**adam.count).sqrt_().div_(1.0 - keep1**adam.count)
    rate = torch.where(step, population.learning_rate * correction, 0.0)
    population.flat.addcdiv_(adam.first * rate, adam.second.sqrt().add_(_EPSILON), value=-1.0)


def _steer(population: Population, kl: Tensor) -> None:
    """Raise or lower each member's learning rate so that its KL stays near the target."""
    target = population.target_kl[:, 0]
    factor = torch.where(kl > 2.0 * target, 1 / 1.5, torch.where(kl < 0.5 * target, 1.5, 1.0))
    rate = population.learning_rate
    rate.copy_((rate * factor.unsqueeze(1)).clamp(*_LEARNING_RATES))
