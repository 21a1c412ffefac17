"""Training phases with only token losses: warm-up before PPO and settling after PPO.

Warm-up imitates the actions that follow the reference joints (`RowView.guide`) in the states that
the policy visits (DAgger, Ross et al. 2011). Gradients pass through encoders and tokens, so PPO
continues from the imitating policy and learns to balance.

Settling aligns the encoders, whose latents differ by about one quantization level after PPO. The
first encoder and the decoders are fixed, and the other encoders learn the tokens of the first one.
"""

from __future__ import annotations

import torch
from torch import Tensor

from telic.core.events import Listener, LogMessage, ignore
from telic.core.tensors import norm
from telic.tracking._tokens import LOSSES, TokenNetworks
from telic.tracking.config import TrackingConfig
from telic.training.loop import collecting
from telic.training.networks import OutputGradients
from telic.training.ppo import adam_step
from telic.training.rollout import by_member
from telic.training.setup import Setup

_EPOCHS = 6
_WARM_UP_RATE, _SETTLE_RATE = 2e-3, 1e-3


def warm_up(setup: Setup, config: TrackingConfig, on_event: Listener = ignore) -> list[float]:
    """Imitate the guide during the first `trainer.warm_up` batches, and return their losses."""
    batches = config.trainer.warm_up
    if not batches:
        return []
    population, networks = setup.population, _networks(setup)
    usual, rate = networks.weights.clone(), population.learning_rate.clone()
    networks.weights[LOSSES.index("guide")] = 1.0
    setup.collector.start(stagger=False)
    errors: list[float] = []
    for number in range(batches):
        population.learning_rate.fill_(_WARM_UP_RATE * (1.0 - number / batches))
        losses = _learn(setup, -1 - number, "warm up", normalizes=True)
        errors.append(losses[LOSSES.index("guide")].mean().item())
        on_event(LogMessage(message=f"warm-up {number + 1} of {batches}: {errors[-1]:.2f} nats"))
    networks.weights.copy_(usual)
    population.learning_rate.copy_(rate)
    _reset_optimizer(setup)
    return errors


def settle(setup: Setup, config: TrackingConfig, on_event: Listener = ignore) -> list[float]:
    """Align the encoders during the last `trainer.settle` batches, and return their losses."""
    batches = config.trainer.settle
    if not batches or len(config.networks.encoders) < 2:
        return []
    networks, place = _networks(setup), LOSSES.index("alignment")
    _reset_optimizer(setup)
    networks.weights.zero_()
    networks.weights[place] = 1.0
    distances: list[float] = []
    with networks.drawn_to_first():
        for number in range(batches):
            setup.population.learning_rate.fill_(_SETTLE_RATE * (1.0 - number / batches))
            iteration = setup.job.iterations + number
            losses = _learn(setup, iteration, "settle", normalizes=False)
            distances.append(losses[place].mean().item())
            off = f"distance of latents {distances[-1]:.3g}"
            on_event(
                LogMessage(message=f"settling encoders: batch {number + 1} of {batches}, {off}")
            )
    return distances


def _networks(setup: Setup) -> TokenNetworks:
    networks = setup.population.networks
    assert isinstance(networks, TokenNetworks)
    return networks


def _reset_optimizer(setup: Setup) -> None:
    """Reset the optimizer state after a change of the loss."""
    adam = setup.population.adam
    for moments in (adam.first, adam.second, adam.count):
        moments.zero_()


def _learn(setup: Setup, iteration: int, phase: str, *, normalizes: bool) -> Tensor:
    """Train on one batch with only token losses, and return the last minibatch's losses (4, P)."""
    population, networks = setup.population, _networks(setup)
    batch = collecting(setup, iteration)()
    raw = by_member(batch.inputs)
    if normalizes:
        population.moments.update(raw, population.alive)
    inputs = population.actor().scaling.apply(raw)
    size = population.settings.minibatch_size
    for generation in range(_EPOCHS):
        order = torch.stack(
            [
                torch.randperm(inputs.shape[1], generator=one, device=one.device)
                for one in population.generators(f"{phase} {generation}", iteration)
            ]
        )
        shuffled = inputs.gather(1, order.unsqueeze(-1).expand_as(inputs))
        for start in range(0, inputs.shape[1], size):
            rows = shuffled[:, start : start + size]
            networks.descend(
                population.views, population.grad_views, batch.actor.part(rows), rows, _no_reward
            )
            grad = population.grad
            adam_step(population, grad, norm(grad, dim=1), population.alive)
    assert networks.latest is not None
    return networks.latest.clone()


def _no_reward(outputs: Tensor, values: Tensor) -> tuple[OutputGradients, None]:
    """Return zero policy and value gradients."""
    deviation = outputs.new_zeros(outputs.shape[0], outputs.shape[-1])
    return OutputGradients(
        torch.zeros_like(outputs), deviation, torch.zeros_like(values).unsqueeze(-1)
    ), None
