"""Learn to aim at the reference before learning from rewards: a start that moves, if it falls too.

For a few batches the policy is drawn to the actions that would follow the reference's joints alone
(`RowView.guide`), in the states it gets into itself (DAgger, Ross et al. 2011), together with the
losses of tokens. Everything goes through encoders and tokens, so nothing has to be given up
afterwards. PPO then learns what joints do not say: to stay up. As no policy has to stay near
another one here, a minute of PPO is a few seconds of this.
"""

from __future__ import annotations

import torch
from torch import Tensor

from telic.core.tensors import norm
from telic.tracking.config import TrackingConfig
from telic.tracking.tokens import LOSSES, TokenNetworks
from telic.training.loop import collecting
from telic.training.networks import Pull
from telic.training.ppo import adam_step
from telic.training.rollout import by_member
from telic.training.setup import Setup

_EPOCHS = 6
_RATE = 2e-3


def warm_up(setup: Setup, config: TrackingConfig) -> list[float]:
    """Learn from `trainer.warm_up` batches; returns how far actions were off in each."""
    population, networks = setup.population, setup.population.networks
    assert isinstance(networks, TokenNetworks)
    batches = config.trainer.warm_up
    if not batches:
        return []
    usual, rate = networks.weights.clone(), population.learning_rate.clone()
    networks.weights[LOSSES.index("guide")] = 1.0
    setup.collector.start(stagger=False)
    told: list[float] = []
    for number in range(batches):
        population.learning_rate.fill_(_RATE * (1.0 - number / batches))
        losses = learn_without_rewards(setup, -1 - number, "warm up")
        told.append(losses[LOSSES.index("guide")].mean().item())
    networks.weights.copy_(usual)
    population.learning_rate.copy_(rate)
    forget_steps(setup)
    return told


def forget_steps(setup: Setup) -> None:
    """Let the optimiser start anew: what it knows is of another loss."""
    adam = setup.population.adam
    for moments in (adam.first, adam.second, adam.count):
        moments.zero_()


def learn_without_rewards(
    setup: Setup, iteration: int, phase: str, *, normalises: bool = True
) -> Tensor:
    """Collect a batch and learn from it by the losses of tokens alone.

    Args:
        setup: the training.
        iteration: number of the batch, which noise and shuffles follow from.
        phase: what this is a part of; shuffles follow from it, too.
        normalises: whether the batch adds to the statistics that inputs are normalised by.

    Returns:
        (4, P) the losses of the last minibatch.
    """
    population, networks = setup.population, setup.population.networks
    assert isinstance(networks, TokenNetworks)
    batch = collecting(setup, iteration)()
    raw = by_member(batch.inputs)
    if normalises:
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
                population.views, population.grad_views, batch.actor.part(rows), rows, _nothing
            )
            population.exchange()
            grad = population.grad
            adam_step(population, grad, norm(grad, dim=1), population.alive, population.alive)
    assert networks.latest is not None
    return networks.latest.clone()


def _nothing(outputs: Tensor, values: Tensor) -> tuple[Pull, None]:
    """Rewards say nothing."""
    deviation = outputs.new_zeros(outputs.shape[0], outputs.shape[-1])
    return Pull(torch.zeros_like(outputs), deviation, torch.zeros_like(values).unsqueeze(-1)), None
