"""REPPO: on-policy maximum-entropy reinforcement learning with a KL constraint.

    Reppo.learn           one batch of experience
      targets             soft TD(λ) returns under the behavior policy
      update              epochs of shuffled minibatches
        critic            cross-entropy to HL-Gauss targets, auxiliary predictions
        actor             critic's gradient where KL(old, new) is small, else the KL's
        multipliers       temperature and weight of the KL

Every tensor has a member dimension P. Deviations from the paper are listed in
docs/explanation/learners.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from telic.training.networks import Layer, Networks, Operation, Squashed, Views
from telic.training.pathwise import (
    NetworkParameters,
    PartSizes,
    PathwiseLearner,
    SquashedActor,
    cross_entropy,
    named_parts,
    return_factor,
)
from telic.training.population import LearningResult, Population, UpdateStats
from telic.training.rollout import Batch, by_member

_BINS = 151
_FIRST_MULTIPLIER = 0.01
_ENTROPY_PER_ACTION = -0.5


class ReppoActor(SquashedActor):
    """Multilayer perceptron with layer normalization and SiLU."""

    def build(self, inputs: int, outputs: int, hidden: tuple[int, ...]) -> None:
        """Set `sizes` and `learned`."""
        widths = [inputs, *hidden, outputs]
        pairs = list(pairwise(widths))
        weights = {f"weight_{i}": pair for i, pair in enumerate(pairs)}
        self.sizes = {**weights, **{f"bias_{i}": (pair[1],) for i, pair in enumerate(pairs)}}
        self.learned = len(self.sizes)

    def views(self, flat: Tensor) -> Views:
        """Return the linear layers."""
        return self.views_of(named_parts(flat, self.sizes))

    def views_of(self, own: Mapping[str, Tensor]) -> Views:
        """Return the linear layers for named parameters."""
        count = len(self.shape.hidden) + 1
        layers = [Layer(own[f"weight_{i}"], own[f"bias_{i}"].unsqueeze(1)) for i in range(count)]
        return Views(layers, [], layers[0].bias.new_zeros(len(layers[0].bias), 0))

    def program(self, views: Views) -> list[Operation]:
        """Return the operations of the network."""
        *inner, last = (Operation("affine", layer) for layer in views.actor)
        between = (Operation("layer_norm"), Operation("silu"))
        return [part for one in inner for part in (one, *between)] + [last]


def critic_sizes(inputs: int, hidden: tuple[int, ...]) -> PartSizes:
    """Return the parameter sizes of a critic: trunk, value head and auxiliary model head."""
    last = hidden[-1]
    widths = [inputs, *hidden]
    trunk = {f"trunk{i}": pair for i, pair in enumerate(pairwise(widths))}
    heads = {"value": (last, last), "bins": (last, _BINS)}
    heads |= {"model": (last, last), "next": (last, last + 1)}
    weights = {**trunk, **heads}
    return {**weights, **{f"{name}_bias": (pair[1],) for name, pair in weights.items()}}


def _layer(net: NetworkParameters, x: Tensor, name: str) -> Tensor:
    return Networks.affine(Layer(net.layers[name], net.layers[f"{name}_bias"].unsqueeze(1)), x)


def _active(net: NetworkParameters, x: Tensor, name: str) -> Tensor:
    x = _layer(net, x, name)
    return functional.silu(functional.layer_norm(x, x.shape[-1:]))


def _judge(net: NetworkParameters, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return embeddings (P, n, width) and logits (P, n, bins) of inputs and actions (P, n, d)."""
    for name in net.layers:
        if name.startswith("trunk") and not name.endswith("_bias"):
            x = _active(net, x, name)
    return x, _layer(net, _active(net, x, "value"), "bins")


class _Samples(NamedTuple):
    """Samples of an update, each of shape (P, B, columns)."""

    inputs: Tensor
    actions: Tensor
    old: Tensor
    """actor outputs of the reference policy for the KL"""
    target: Tensor
    following: Tensor
    """auxiliary targets: next embedding and reward"""
    runs: Tensor
    """mask that is 0 at episode ends, where the next embedding is not a target, and 1 otherwise"""
    noise: Tensor


class Reppo(PathwiseLearner):
    """REPPO learner for a population. On a GPU, the update is one CUDA graph."""

    def __init__(self, population: Population, iterations: int) -> None:
        super().__init__(population, iterations, _BINS)
        settings, shape = population.settings, population.shape
        assert isinstance(population.networks, ReppoActor)
        self._networks = population.networks
        inputs = shape.critic_inputs + shape.outputs
        sizes = critic_sizes(inputs, settings.critic_hidden or settings.hidden)
        self._critic = self.critics(sizes, len(sizes), 1)
        first = torch.full((population.size, 2), math.log(_FIRST_MULTIPLIER))
        sizes = {"temperature": (1,), "kl": (1,)}
        self._multipliers = NetworkParameters(first.to(population.device), sizes, 2)
        self.parts |= {"critic": self._critic, "multipliers": self._multipliers}
        self._entropy = _ENTROPY_PER_ACTION * shape.outputs
        self._batch: Batch | None = None

    def learn(self, batch: Batch, iteration: int) -> LearningResult:
        """Learn from a batch. See `Learner.learn`."""
        self._batch = batch
        count = batch.rewards[:, 0].numel()
        shuffles = torch.stack(list(self.population.shuffles(iteration, count)))
        noise = self.draws("noise", iteration, 2, count, self.population.shape.outputs)
        return self.updated(shuffles, noise)

    def update(self) -> LearningResult:
        """Take all gradient steps for a batch."""
        assert self._batch is not None
        population, (shuffles, noise) = self.population, self.held
        samples, explained = self._make_samples(self._batch, noise)
        packed, widths = torch.cat(samples, dim=-1), [part.shape[-1] for part in samples]
        P, B, width = packed.shape
        finite = torch.ones_like(population.alive)
        sums = torch.zeros(6, P, device=packed.device)
        steps = 0
        for order in shuffles:
            order = order + torch.arange(0, P * B, B, device=packed.device).unsqueeze(1)
            shuffled = packed.view(-1, width).index_select(0, order.view(-1)).view(P, B, width)
            for rows in shuffled.split(population.settings.minibatch_size, dim=1):
                minibatch = _Samples._make(rows.split(widths, dim=-1))
                value_loss, length = self._improve_critic(minibatch)
                policy_loss, entropy, kl, over = self._improve_actor(minibatch)
                finite = finite & length.isfinite()
                sums += torch.stack((policy_loss, value_loss, entropy, kl, over, length))
                steps += 1
        means = sums / steps
        count = torch.full_like(means[0], float(steps))
        spread = Squashed.parts(samples.old)[1].exp().mean((1, 2))
        return LearningResult(UpdateStats._make((*means, count, finite)), explained, spread)

    @torch.no_grad()
    def _make_samples(self, batch: Batch, noise: Tensor) -> tuple[_Samples, Tensor]:
        """Return the samples and the explained variance (P,)."""
        population, bins = self.population, self.bins
        T, P, n = batch.rewards.shape
        rewards = batch.rewards * return_factor(population, batch)
        raw = by_member(batch.inputs)
        scaling = batch.actor.scaling
        inputs, after = scaling.apply(raw), scaling.apply(by_member(batch.next_inputs))
        population.moments.update(raw, population.alive)
        act = self._networks.act
        views = self._networks.views(population.flat)
        old = act(views, population.part(inputs))
        following, density = self.squashed.draw(act(views, population.part(after)), noise[0])
        embedding, logits = _judge(self._critic, torch.cat((after, following), -1))
        temperature = self._multipliers.layers["temperature"].exp()

        def by_step(x: Tensor) -> Tensor:
            return x.view(P, T, n).transpose(0, 1)

        later, bonus = by_step(bins.mean(logits)), by_step(-temperature * density)
        target = torch.empty_like(rewards)
        running = later[-1]
        for t in reversed(range(T)):
            # G_t = r_t + γ (bonus' + (1 - λ) Q' + λ G_t+1), with λ = 0 at episode ends
            lam = population.gae_lambda * (0.0 if t == T - 1 else 1.0 - batch.done[t].float())
            ahead = bonus[t] + torch.lerp(later[t], running, lam)
            discount = population.gamma * (1.0 - batch.terminated[t].float())
            target[t] = running = rewards[t] + discount * ahead
        actions, goal = by_member(batch.actions), by_member(target)
        found = bins.mean(_judge(self._critic, torch.cat((inputs, actions), -1))[1])
        explained = 1.0 - (goal - found).var(1) / goal.var(1).clamp_min(1e-8)
        samples = _Samples(
            inputs,
            actions,
            old,
            goal.unsqueeze(-1),
            torch.cat((embedding, by_member(rewards).unsqueeze(-1)), -1),
            1.0 - by_member(batch.done).float().unsqueeze(-1),
            noise[1],
        )
        return samples, explained

    def _improve_critic(self, samples: _Samples) -> tuple[Tensor, Tensor]:
        """Update the critics on value and auxiliary losses. Returns losses and gradient norms."""
        population = self.population
        embedding, logits = _judge(self._critic, torch.cat((samples.inputs, samples.actions), -1))
        target = self.bins.smoothed(samples.target.squeeze(-1))
        value = cross_entropy(logits, target).mean(1)
        # the next embedding and reward (P, n, width + 1)
        predicted = _layer(self._critic, _active(self._critic, embedding, "model"), "next")
        missed = (predicted - samples.following).square().mean(-1, keepdim=True)
        auxiliary = (missed * samples.runs).mean((1, 2))
        length = self._critic.descend(
            (value + auxiliary).sum(),
            population.learning_rate,
            population.alive,
            population.max_grad_norm,
        )
        return value.detach(), length

    def _improve_actor(self, samples: _Samples) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Update actors and multipliers. Returns loss, entropy, KL and share beyond the bound."""
        population, multipliers = self.population, self._multipliers.layers
        views = self._networks.views_of(self.actor.layers)
        outputs = self._networks.act(views, population.part(samples.inputs))
        actions, density = self.squashed.draw(outputs, samples.noise)
        _, logits = _judge(self._critic, torch.cat((samples.inputs, actions), -1))
        kl = _divergence(samples.old, outputs)
        temperature, weight = (multipliers[name].detach().exp() for name in ("temperature", "kl"))
        is_near = kl.detach() < population.target_kl
        improve = temperature * density - self.bins.mean(logits)
        losses = torch.where(is_near, improve, weight * kl).mean(1)
        limits = population.learning_rate, population.alive, population.max_grad_norm
        self.actor.descend(losses.sum(), *limits)
        entropy, far = -density.detach().mean(1, keepdim=True), kl.detach().mean(1, keepdim=True)
        toward = multipliers["temperature"].exp() * (entropy - self._entropy)
        toward = toward - multipliers["kl"].exp() * (far - population.target_kl)
        self._multipliers.descend(toward.sum(), *limits)
        beyond = (~is_near).float().mean(1)
        return losses.detach(), entropy[:, 0], far[:, 0], beyond


def _divergence(old: Tensor, new: Tensor) -> Tensor:
    """Return KL(old, new) (P, n) of the Gaussians, which is invariant under tanh."""
    (mean, log_std), (new_mean, new_log_std) = Squashed.parts(old), Squashed.parts(new)
    ratio = (2.0 * (log_std - new_log_std)).exp()
    distance = ((mean - new_mean) * torch.exp(-new_log_std)).square()
    return (0.5 * (ratio + distance - 1.0) - (log_std - new_log_std)).sum(-1)
