"""The gradient of the PPO loss for all members, written out.

The networks are small, so recording operations for automatic differentiation would cost more than
the arithmetic itself: written out, a gradient step takes half the time. A test holds it
against automatic differentiation.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from telic.training.networks import Layer, Networks, Toward
from telic.training.population import Actor, Population


class Samples(NamedTuple):
    """What an update learns from; inputs are normalised as they were when acting."""

    inputs: Tensor
    """(P, B, d)"""
    actions: Tensor
    """(P, B, width) as sampled, before clipping to the action range"""
    log_probs: Tensor
    """(P, B) under the policy around which ratios are clipped"""
    advantages: Tensor
    """(P, B)"""
    returns: Tensor
    """(P, B) targets of the value function"""


class Losses(NamedTuple):
    """Parts of the loss and diagnostics, each (P,)."""

    policy_loss: Tensor
    value_loss: Tensor
    entropy: Tensor
    kl: Tensor
    clipped: Tensor


@torch.no_grad()
def gradient(population: Population, actor: Actor, samples: Samples) -> tuple[Tensor, Losses]:
    """Return the gradient of every member's loss in its own row, (P, size), and the losses.

    The gradient is the population's own buffer, overwritten by the next call.

    L = policy loss + value_coef * value loss - entropy_coef * entropy, per member.
    """
    networks = population.networks
    views, out = population.views, population.grad_views
    count = samples.advantages.shape[1]

    acted = _forward(networks, views.actor, actor.part(samples.inputs))
    judged = (
        [*acted[:-1], _last(views.critic[-1], acted[-2])]
        if networks.shape.shared_value
        else _forward(networks, views.critic, samples.inputs)
    )
    outputs, values = acted[-1], judged[-1].squeeze(-1)
    policy = _policy(population, outputs, views.log_std, samples)

    error = values - samples.returns
    value_loss = error.square().mean(1)
    # d/dV value_coef * mean (V - R)^2 = 2 value_coef (V - R) / B
    toward_value = (error * (population.value_coef * (2.0 / count))).unsqueeze(-1)

    hidden_from_value = _backward(networks, views.critic, out.critic, judged, toward_value)
    _backward(
        networks,
        views.actor,
        out.actor,
        acted,
        policy.toward.outputs,
        extra=hidden_from_value if networks.shape.shared_value else None,
    )
    out.log_std.copy_(policy.toward.log_std)
    losses = Losses(policy.loss, value_loss, policy.entropy, policy.kl, policy.clipped)
    return population.grad, losses


class _Policy(NamedTuple):
    loss: Tensor
    entropy: Tensor
    kl: Tensor
    clipped: Tensor
    toward: Toward


def _policy(population: Population, outputs: Tensor, log_std: Tensor, samples: Samples) -> _Policy:
    distribution, clip = population.distribution, population.clip
    count = samples.advantages.shape[1]
    log_probs = distribution.log_prob(outputs, log_std, samples.actions)
    log_ratio = log_probs - samples.log_probs
    ratio = log_ratio.exp()
    clipped_ratio = torch.minimum(torch.maximum(ratio, 1.0 - clip), 1.0 + clip)
    plain, bounded = ratio * samples.advantages, clipped_ratio * samples.advantages
    # L = -mean min(ratio A, clip(ratio) A); d ratio / d log_prob = ratio, and nothing flows
    # where the clipped side is the smaller one
    toward_log_prob = torch.where(plain <= bounded, plain, 0.0).mul_(-1.0 / count)
    toward = distribution.backward(
        outputs, log_std, samples.actions, toward_log_prob, population.entropy_coef
    )
    return _Policy(
        loss=-torch.minimum(plain, bounded).mean(1),
        entropy=distribution.entropy(outputs, log_std),
        # Schulman's low-variance estimate: E[(ratio - 1) - log ratio]
        kl=(ratio - log_ratio).mean(1) - 1.0,
        clipped=(ratio != clipped_ratio).float().mean(1),
        toward=toward,
    )


def _forward(networks: Networks, layers: list[Layer], x: Tensor) -> list[Tensor]:
    """Return the inputs, every hidden activation and the output."""
    tape = [x]
    for layer in layers[:-1]:
        tape.append(networks.activate(_last(layer, tape[-1])))
    return [*tape, _last(layers[-1], tape[-1])]


def _last(layer: Layer, x: Tensor) -> Tensor:
    return Networks.affine(layer, x)


def _backward(
    networks: Networks,
    layers: list[Layer],
    out: list[Layer],
    tape: list[Tensor],
    toward: Tensor,
    extra: Tensor | None = None,
) -> Tensor | None:
    """Write the gradients of a stack of layers; returns that of its first layer's inputs.

    Args:
        networks: whose activation it is.
        layers: the weights.
        out: where the gradients go.
        tape: what `_forward` returned; of layers that continue another stack, the last ones.
        toward: gradient of the output, (P, B, out).
        extra: gradient that reaches the last hidden layer from elsewhere.
    """
    offset = len(tape) - 1 - len(layers)
    for index in reversed(range(len(layers))):
        x, layer = tape[offset + index], layers[index]
        if layer.weight.shape[-1] > 1:
            torch.bmm(x.transpose(1, 2), toward, out=out[index].weight)
        else:  # see Networks.affine
            out[index].weight.copy_((x * toward).sum(1).unsqueeze(-1))
        if toward.is_cuda:  # a product with ones is several times faster than a tall sum
            ones = toward.new_ones(1, 1, toward.shape[1]).expand(toward.shape[0], -1, -1)
            torch.bmm(ones, toward, out=out[index].bias)
        else:
            torch.sum(toward, 1, keepdim=True, out=out[index].bias)
        if index == 0 and offset == 0:
            return None
        narrow = layer.weight.shape[-1] == 1
        back = layer.weight.transpose(1, 2)
        toward = toward * back if narrow else torch.bmm(toward, back)
        if extra is not None:
            toward, extra = toward.add_(extra), None
        if index == 0:
            return toward
        toward = networks.slope(x, toward)
    return None
