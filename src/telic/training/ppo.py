"""Proximal policy optimization (PPO) for a population.

    PpoLearner.learn         one batch of experience
      make_samples           scale rewards, estimate values and advantages, apply importance weights
      update                 epochs of shuffled minibatches, on CPUs in `fused`
        gradient             of the clipped loss, through the networks
        adam_step            clipped by norm

Every tensor has a member dimension P, and members are independent: losses are summed over members,
so row p of the gradient is member p's gradient, and clipping, KL limits and learning rates are per
member. T steps of n environments give B = T * n samples per member. Deviations from standard PPO
are listed in docs/explanation/training.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import NamedTuple, cast

import torch
from torch import Tensor

from telic.core.tensors import norm, split
from telic.sim.cuda_graph import GraphedCallable
from telic.training import fused
from telic.training.networks import Networks, OutputGradients
from telic.training.population import Actor, Learner, LearningResult, Population, UpdateStats
from telic.training.rollout import Batch, by_member

_MAX_WEIGHT = 2.0
"""upper limit of importance weights"""


class Samples(NamedTuple):
    """Samples of an update. Inputs are normalized with the statistics used in collection."""

    inputs: Tensor
    """network inputs (P, B, d)"""
    actions: Tensor
    """sampled actions (P, B, width) before clipping to the action range"""
    log_probs: Tensor
    """log densities (P, B) under the proximal policy"""
    advantages: Tensor
    """advantages (P, B)"""
    returns: Tensor
    """value targets (P, B)"""


class Losses(NamedTuple):
    """Loss components and diagnostics, each (P,)."""

    policy_loss: Tensor
    value_loss: Tensor
    entropy: Tensor
    kl: Tensor
    clipped: Tensor


class PpoLearner(Learner):
    """PPO learner for a population. On a GPU, the update is one CUDA graph."""

    def __init__(self, population: Population, iterations: int) -> None:
        super().__init__(population, iterations)
        self._graphed = GraphedCallable(self._learn_in_place, [], population.device)
        self._batch: Batch | None = None  # on a GPU, inputs of the CUDA graph
        self._shuffles = torch.empty(0)

    def learn(self, batch: Batch, iteration: int) -> LearningResult:
        """Learn from a batch. See `Learner.learn`."""
        samples = batch.rewards[:, 0].numel()
        shuffles = self.population.shuffles(iteration, samples)
        if self.population.device.type == "cpu":
            return self._learn(batch, shuffles)
        assert isinstance(shuffles, Tensor)
        if self._batch is None:
            self._batch, self._shuffles = batch, shuffles
        else:
            self._shuffles.copy_(shuffles)
        return self._graphed()

    def _learn_in_place(self) -> LearningResult:
        assert self._batch is not None
        return self._learn(self._batch, self._shuffles)

    def _learn(self, batch: Batch, shuffles: Iterable[Tensor]) -> LearningResult:
        samples, explained_variance = make_samples(self.population, batch)
        stats = update(self.population, batch.actor, samples, shuffles)
        deviation = self.population.views.log_std.exp().mean(1)
        return LearningResult(stats, explained_variance, deviation)


# ------------------------------------------------------------------ samples


@torch.no_grad()
def make_samples(population: Population, batch: Batch) -> tuple[Samples, Tensor]:
    """Convert a batch to samples and update the running statistics.

    Returns the samples and the explained variance, (P,). With a mirror, the second half of the
    samples mirrors the first.
    """
    networks, scaling = _networks(population), batch.actor.scaling
    T, P, n = batch.rewards.shape
    rewards = batch.rewards
    if population.settings.scale_reward:
        rewards = population.return_scale.update(
            rewards, batch.done, population.gamma, population.alive
        )
    raw = by_member(batch.inputs)  # (P, B, d)
    inputs = scaling.apply(raw)  # with the statistics used during collection
    views = networks.views(population.flat)

    def values(x: Tensor) -> Tensor:
        return networks.value(views, x).view(P, T, n).transpose(0, 1)

    now, following = values(inputs), values(scaling.apply(by_member(batch.next_inputs)))
    advantage = advantages(
        rewards,
        now,
        following,
        batch.terminated,
        batch.done,
        population.gamma,
        population.gae_lambda,
    )  # (T, P, n)
    # A <- (A - mean A) / std A, over each member's batch
    found, returns = by_member(advantage), by_member(advantage + now)
    normal = (found - found.mean(1, keepdim=True)) / (found.std(1, keepdim=True) + 1e-8)
    # 1 - Var[R - V] / Var[R]
    explained = 1.0 - found.var(1) / returns.var(1).clamp_min(1e-8)
    log_probs, actions = by_member(batch.log_probs), by_member(batch.actions)
    if population.mirror is not None:
        # Mirrored samples have the same advantages, returns and log densities.
        raw = torch.cat((raw, population.mirror.inputs.apply(raw)), dim=1)
        actions = torch.cat((actions, population.mirror.actions.apply(actions)), dim=1)
        inputs = scaling.apply(raw)
        normal, returns, log_probs = (each.repeat(1, 2) for each in (normal, returns, log_probs))
    population.moments.update(raw, population.alive)
    if population.settings.overlap or population.mirror is not None:
        # The batch was collected one update ago. Clip ratios around the current policy and apply
        # truncated importance weights (decoupled PPO, Hilton et al. 2021):
        # A <- A * min(pi_now(a|s) / pi_acted(a|s), 2)
        outputs = networks.act(views, batch.actor.part(inputs))
        proximal = population.distribution.log_prob(outputs, views.log_std, actions)
        normal = normal * (proximal - log_probs).exp().clamp_(max=_MAX_WEIGHT)
        log_probs = proximal
    return Samples(inputs, actions, log_probs, normal, returns), explained


def advantages(
    rewards: Tensor,
    values: Tensor,
    next_values: Tensor,
    terminated: Tensor,
    done: Tensor,
    gamma: Tensor,
    lam: Tensor,
) -> Tensor:
    """Compute generalized advantage estimates (T, P, n).

    All arguments are (T, P, n) except gamma and lambda, (P, 1). `next_values` are the values of the
    next states before any reset. States that are `done` but not `terminated` were truncated.
    """
    # Truncated episodes bootstrap from the value of their last state.
    # delta_t = r_t + gamma * V(s'_t) * (1 - terminated) - V(s_t)
    deltas = torch.addcmul(rewards - values, next_values * gamma, 1.0 - terminated.float())
    carry = (gamma * lam) * (1.0 - done.float())
    out = torch.empty_like(rewards)
    running = torch.zeros_like(rewards[0])
    for t in reversed(range(rewards.shape[0])):
        # A_t = delta_t + gamma * lambda * A_t+1, reset at episode ends
        running = torch.addcmul(deltas[t], carry[t], running)
        out[t] = running
    return out


# ------------------------------------------------------------------ update


@torch.no_grad()
def update(
    population: Population, actor: Actor, samples: Samples, shuffles: Iterable[Tensor]
) -> UpdateStats:
    """Update every active member on its samples. Each epoch has its own sample order (P, B).

    With a mirror, each minibatch also contains the mirrored samples.
    """
    B, settings = samples.advantages.shape[1], population.settings
    size = settings.minibatch_size
    if population.mirror is not None:
        size *= 2
        shuffles = (torch.stack((one, one + B // 2), dim=-1).flatten(1) for one in shuffles)
    is_fused = fused.is_supported(population)
    stats = (fused.run_epochs if is_fused else _update)(population, actor, samples, shuffles, size)
    if settings.schedule == "adaptive":
        _steer_learning_rate(population, stats.approx_kl)
    return stats


def _update(
    population: Population, actor: Actor, samples: Samples, orders: Iterable[Tensor], size: int
) -> UpdateStats:
    """Update with PyTorch: any networks, distribution and device. See `fused.run_epochs`."""
    settings = population.settings
    packed, widths = _pack(samples)
    can_look = packed.device.type == "cpu"  # reading a value on a GPU would synchronize
    active = population.alive.clone()
    finite = torch.ones_like(active)
    sums = torch.zeros(6, len(active), device=packed.device)
    steps = torch.zeros(len(active), device=packed.device)
    for order in orders:
        shuffled = _shuffle(packed, order)
        for start in range(0, shuffled.shape[1], size):
            minibatch = _unpack(shuffled[:, start : start + size], widths)
            grad, losses = gradient(population, actor, minibatch)
            grad_norm = norm(grad, dim=1)
            # Statistics and updates of a member depend only on that member.
            sums += torch.where(active, torch.stack((*losses, grad_norm)), 0.0)
            steps += active
            sound = grad_norm.isfinite()
            finite &= sound | ~active
            active &= sound
            if settings.schedule == "per_minibatch":
                _steer_learning_rate(population, losses.kl)
            elif settings.schedule != "adaptive":
                active &= losses.kl <= fused.KL_STOP * population.target_kl[:, 0]
            adam_step(population, grad, grad_norm, active)
            if can_look and not active.any():
                break
        else:
            continue
        break
    means = sums / steps.clamp_min(1.0)
    return UpdateStats._make((*means, steps, finite))


@torch.no_grad()
def gradient(population: Population, actor: Actor, samples: Samples) -> tuple[Tensor, Losses]:
    """Compute the gradients of all members' losses, (P, size), and the losses.

    L = policy loss + value_coef * value loss - entropy_coef * entropy, per member, plus auxiliary
    losses of the networks. The result is the population's gradient buffer, which the next call
    overwrites.
    """
    losses = _networks(population).descend(
        population.views,
        population.grad_views,
        actor.part(samples.inputs),
        samples.inputs,
        partial(toward_outputs, population, samples),
    )
    return population.grad, losses


def toward_outputs(
    population: Population, samples: Samples, outputs: Tensor, values: Tensor
) -> tuple[OutputGradients, Losses]:
    """Compute the gradient of the loss with respect to the network outputs, and the losses.

    The gradient is analytic, because for small networks autograd's overhead exceeds the cost of the
    arithmetic. A test compares both gradients.
    """
    distribution, clip, log_std = population.distribution, population.clip, population.views.log_std
    B = samples.advantages.shape[1]
    log_probs = distribution.log_prob(outputs, log_std, samples.actions)
    log_ratio = log_probs - samples.log_probs
    ratio = log_ratio.exp()
    clipped_ratio = torch.minimum(torch.maximum(ratio, 1.0 - clip), 1.0 + clip)
    plain, bounded = ratio * samples.advantages, clipped_ratio * samples.advantages
    # L = -mean min(ratio A, clip(ratio) A); d ratio / d log_prob = ratio, and the gradient is zero
    # where the clipped term is smaller
    toward_log_prob = torch.where(plain <= bounded, plain, 0.0).mul_(-1.0 / B)
    toward = distribution.backward(
        outputs, log_std, samples.actions, toward_log_prob, population.entropy_coef
    )
    error = values - samples.returns
    losses = Losses(
        policy_loss=-torch.minimum(plain, bounded).mean(1),
        value_loss=error.square().mean(1),
        entropy=distribution.entropy(outputs, log_std),
        # Schulman's low-variance estimate: E[(ratio - 1) - log ratio]
        kl=(ratio - log_ratio).mean(1) - 1.0,
        clipped=(ratio != clipped_ratio).float().mean(1),
    )
    # d/dV value_coef * mean (V - R)^2 = 2 value_coef (V - R) / B
    toward_value = (error * (population.value_coef * (2.0 / B))).unsqueeze(-1)
    return OutputGradients(*toward, toward_value), losses


def adam_step(population: Population, grad: Tensor, grad_norm: Tensor, active: Tensor) -> None:
    """Take one Adam step with gradient clipping for the active members. Overwrites `grad`.

    g <- g * min(max_norm / |g|, 1);  m <- b1 m + (1 - b1) g;  v <- b2 v + (1 - b2) g^2
    w <- w - rate * sqrt(1 - b2^k) / (1 - b1^k) * m / (sqrt(v) + eps)
    """
    step = active.unsqueeze(1)
    factor = (population.max_grad_norm / (grad_norm.unsqueeze(1) + 1e-6)).clamp_(max=1.0)
    together = grad.device.type == "cpu" and bool(active.all())
    if not together:
        # where instead of a product, because 0 * NaN is NaN
        grad = torch.where(step, grad, 0.0)
    grad.mul_(factor)
    adam = population.adam
    adam.count += step
    keep1, keep2 = fused.BETAS
    if together:
        adam.first.lerp_(grad, 1.0 - keep1)
        adam.second.mul_(keep2).addcmul_(grad, grad, value=1.0 - keep2)
    else:
        # A member that stopped early must not change while the others continue.
        first = adam.first.lerp(grad, 1.0 - keep1)
        second = (adam.second * keep2).addcmul_(grad, grad, value=1.0 - keep2)
        adam.first.copy_(torch.where(step, first, adam.first))
        adam.second.copy_(torch.where(step, second, adam.second))
    correction = (1.0 - keep2**adam.count).sqrt_().div_(1.0 - keep1**adam.count)
    rate = torch.where(step, population.learning_rate * correction, 0.0)
    if population.rate_factors is not None:
        rate = rate * population.rate_factors
    population.flat.addcdiv_(adam.first * rate, adam.second.sqrt().add_(fused.EPSILON), value=-1.0)


def _steer_learning_rate(population: Population, kl: Tensor) -> None:
    """Adapt each member's learning rate to keep its KL divergence near the target."""
    target = population.target_kl[:, 0]
    factor = torch.where(kl > 2.0 * target, 1 / 1.5, torch.where(kl < 0.5 * target, 1.5, 1.0))
    rate = population.learning_rate
    rate.copy_((rate * factor.unsqueeze(1)).clamp(*fused.LEARNING_RATES))


def _networks(population: Population) -> Networks:
    return cast("Networks", population.networks)


def _pack(samples: Samples) -> tuple[Tensor, list[int]]:
    """Concatenate all columns, so that one gather per epoch shuffles all of them."""
    columns = [column if column.dim() == 3 else column.unsqueeze(-1) for column in samples]
    return torch.cat(columns, dim=-1), [column.shape[-1] for column in columns]


def _unpack(packed: Tensor, widths: list[int]) -> Samples:
    inputs, actions, *rest = split(packed, widths, dim=-1)
    return Samples(inputs, actions, *(column.squeeze(-1) for column in rest))


def _shuffle(packed: Tensor, order: Tensor) -> Tensor:
    """Permute the rows of each member by its order, (P, B)."""
    P, B, width = packed.shape
    order = order + torch.arange(0, P * B, B, device=packed.device).unsqueeze(1)
    return packed.view(-1, width).index_select(0, order.view(-1)).view(P, B, width)
