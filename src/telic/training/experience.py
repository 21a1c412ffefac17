"""From a collected batch to what an update learns from: normalise, estimate values, advantages."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from telic.training.advantage import advantages
from telic.training.gradient import Samples
from telic.training.population import Population
from telic.training.rollout import Batch, by_member

_MAX_WEIGHT = 2.0


class Experience(NamedTuple):
    """Samples and what is worth logging about them."""

    samples: Samples
    explained_variance: Tensor
    """(P,) share of the returns' variance that the value function predicts"""


@torch.no_grad()
def digest(population: Population, batch: Batch) -> Experience:
    """Turn a batch into samples, and let the running statistics take it in."""
    networks, scaling = population.networks, batch.actor.scaling
    steps, members, num_envs = batch.rewards.shape
    rewards = batch.rewards
    if population.settings.scale_reward:
        rewards = population.return_scale.update(
            rewards, batch.done, population.gamma, population.alive
        )
    raw = by_member(batch.inputs)
    inputs = scaling.apply(raw)
    views = networks.views(population.flat)

    def values(x: Tensor) -> Tensor:
        flat = networks.value(views, batch.actor.part(x) if networks.shape.shared_value else x)
        return flat.view(members, steps, num_envs).transpose(0, 1)

    now, following = values(inputs), values(scaling.apply(by_member(batch.next_inputs)))
    advantage = advantages(
        rewards,
        now,
        following,
        batch.terminated,
        batch.done,
        population.gamma,
        population.gae_lambda,
    )
    returns = advantage + now
    population.moments.update(raw, population.alive)

    flat = by_member(advantage)
    flat = (flat - flat.mean(1, keepdim=True)) / (flat.std(1, keepdim=True) + 1e-8)
    log_probs = by_member(batch.log_probs)
    if population.settings.overlap:
        # The batch was collected one update ago. Clip around today's policy, and weigh by how much
        # more likely it is to act so (decoupled PPO, Hilton et al. 2021).
        outputs = networks.act(views, batch.actor.part(inputs))
        proximal = population.distribution.log_prob(
            outputs, views.log_std, by_member(batch.actions)
        )
        flat = flat * (proximal - log_probs).exp().clamp_(max=_MAX_WEIGHT)
        log_probs = proximal
    samples = Samples(
        inputs=inputs,
        actions=by_member(batch.actions),
        log_probs=log_probs,
        advantages=flat,
        returns=by_member(returns),
    )
    unexplained = by_member(advantage).var(1)
    total = by_member(returns).var(1)
    return Experience(samples, 1.0 - unexplained / total.clamp_min(1e-8))
