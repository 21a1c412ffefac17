"""State of a population: parameters, optimizer, statistics and random generators."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from telic.core.seeds import derive
from telic.training.job import MEMBER_FIELDS, PpoSettings
from telic.training.networks import (
    InputMask,
    Known,
    Networks,
    PolicyNetworks,
    Shape,
    Views,
    distribution,
)

if TYPE_CHECKING:
    from telic.training.mirror import Mirror
    from telic.training.rollout import Batch

CLIP = 10.0
_EPSILON = 1e-8
_KNOWN_WELL = 1e5
"""sample count assigned to the statistics of an initial policy"""


class Saved:
    """Base class for objects whose state is in named attributes: tensors or `Saved` objects."""

    _saved: ClassVar[tuple[str, ...]]

    def state_dict(self) -> dict[str, Any]:
        """Return a dictionary of the saved attributes."""
        parts = {name: getattr(self, name) for name in self._saved}
        return {k: v.state_dict() if isinstance(v, Saved) else v for k, v in parts.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state in place, because CUDA graphs require fixed addresses."""
        for name in self._saved:
            part = getattr(self, name)
            (part.load_state_dict if isinstance(part, Saved) else part.copy_)(state[name])


class Adam(Saved):
    """Adam state: first and second moments (P, size) and step counts (P, 1)."""

    _saved = ("first", "second", "count")

    def __init__(self, flat: Tensor) -> None:
        self.first = torch.zeros_like(flat)
        self.second = torch.zeros_like(flat)
        self.count = torch.zeros(flat.shape[0], 1, device=flat.device)


class Actor(NamedTuple):
    """Frozen copy of the policies that acts while the originals are trained."""

    views: Views
    scaling: Scaling
    actor_inputs: int
    mask: Tensor | None
    """input mask (P, 1, actor inputs) to hide reward memory, or None if all inputs are visible"""

    def copy_(self, other: Actor) -> None:
        """Copy other policies into the existing tensors."""
        self.load(other.tensors())

    def load(self, tensors: list[Tensor]) -> None:
        """Copy the given tensors into the existing tensors."""
        for mine, theirs in zip(self.tensors(), tensors, strict=True):
            mine.copy_(theirs)

    def tensors(self) -> list[Tensor]:
        """Return all tensors of the policies."""
        layers = [*self.views.actor, *self.views.critic]
        return [*(part for layer in layers for part in layer), self.views.log_std, *self.scaling]

    def part(self, inputs: Tensor) -> Tensor:
        """Select and mask the actor inputs of normalized inputs (P, n, d)."""
        seen = inputs if inputs.shape[-1] == self.actor_inputs else inputs[..., : self.actor_inputs]
        return seen if self.mask is None else seen * self.mask


class UpdateStats(NamedTuple):
    """Diagnostics (P,) of each member, or NaN if the learner does not compute them."""

    policy_loss: Tensor
    value_loss: Tensor
    entropy: Tensor
    approx_kl: Tensor
    clip_fraction: Tensor
    grad_norm: Tensor
    steps: Tensor
    """number of gradient steps on the batch"""
    finite: Tensor
    """False if the gradient was not finite, so that the member's weights were not updated"""


class LearningResult(NamedTuple):
    """Diagnostics of an update."""

    stats: UpdateStats
    explained_variance: Tensor
    """fraction (P,) of the return variance explained by the value function"""
    policy_std: Tensor
    """mean standard deviation (P,) of actions"""


class Learner:
    """Base class of learning algorithms: PPO, REPPO and FlashSAC."""

    def __init__(self, population: Population, iterations: int) -> None:
        """Initialize the learner for a number of iterations."""
        self.population = population

    def learn(self, batch: Batch, iteration: int) -> LearningResult:
        """Update the population on a batch.

        On a GPU, the call returns before the update ends. All batches must use the same buffers.
        """
        raise NotImplementedError

    def anneal(self, progress: float) -> None:
        """Update schedules for the fraction of training completed."""
        self.population.anneal(progress)

    def state_dict(self, folder: Path) -> dict[str, Any]:
        """Return the state for an exact resume. Large data are written to `folder`."""
        return self.population.state_dict()

    def load_state_dict(self, state: dict[str, Any], folder: Path) -> None:
        """Restore the state."""
        self.population.load_state_dict(state)


class Population(Saved):
    """P independent members trained in one batch."""

    _saved = ("flat", "adam", "learning_rate", "alive", "moments", "return_scale")
    gamma: Tensor
    gae_lambda: Tensor
    clip: Tensor
    entropy_coef: Tensor
    value_coef: Tensor
    max_grad_norm: Tensor
    target_kl: Tensor
    learning_rate: Tensor
    critic_rate: Tensor

    def __init__(
        self,
        members: Sequence[PpoSettings],
        seeds: Sequence[int],
        networks: PolicyNetworks,
        *,
        masks: list[InputMask] | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        """Initialize every member from its seed. Without `masks`, all inputs are visible."""
        self.settings = members[0]
        self.networks, self.shape = networks, networks.shape
        self.masks = masks
        self.mask = _mask(masks, device)
        self.size = len(members)
        self.distribution = distribution(self.shape)
        self.seeds = list(seeds)
        self.device = torch.device(device)
        starts = [torch.Generator().manual_seed(derive(seed, "weights")) for seed in seeds]
        self.flat = self.networks.initialize(starts, self.settings.log_std, masks).to(device)
        self.adam = Adam(self.flat)
        self.grad = torch.empty_like(self.flat)
        self.views = self.networks.views(self.flat)
        self.grad_views = self.networks.views(self.grad)
        self.moments = Moments(self.size, self.shape.critic_inputs, device)
        self.return_scale = ReturnScale(self.size, self.settings.num_envs, device)
        self.alive = torch.ones(self.size, dtype=torch.bool, device=device)
        for name in MEMBER_FIELDS:
            values = [getattr(settings, name) for settings in members]
            setattr(self, name, torch.tensor(values, device=device).unsqueeze(1))
        self.initial_rate = self.learning_rate.clone()
        self.rate_factors = self._rate_factors()
        self.on_anneal: Callable[[float], None] | None = None
        self.mirror: Mirror | None = None

    def _rate_factors(self) -> Tensor | None:
        """Return learning rate factors (P, size), or None if all are one."""
        if bool((self.critic_rate == 1.0).all()):
            return None
        factors = torch.ones_like(self.flat)
        for layer in self.networks.views(factors).critic:
            layer.weight.mul_(self.critic_rate.unsqueeze(-1))
            layer.bias.mul_(self.critic_rate.unsqueeze(-1))
        return factors

    def part(self, inputs: Tensor) -> Tensor:
        """Select and mask the actor inputs of normalized inputs (P, n, d)."""
        seen = inputs[..., : self.shape.actor_inputs]
        return seen if self.mask is None else seen * self.mask

    def critic_mask(self, member: int, actions: int) -> Tensor | None:
        """Return the mask of a member's critic inputs and actions, or None if all are visible."""
        if self.masks is None:
            return None
        return torch.cat((self.masks[member].critic, torch.ones(actions, dtype=torch.bool)))

    def generators(
        self, purpose: str, iteration: int, device: torch.device | str | None = None
    ) -> list[torch.Generator]:
        """Return one generator per member, seeded by its seed, the purpose and the iteration.

        Resuming requires no generator state, and the random numbers of members are independent.
        """
        seeds = (derive(seed, purpose, iteration) for seed in self.seeds)
        return [torch.Generator(device or self.device).manual_seed(seed) for seed in seeds]

    def noise(self, iteration: int) -> Tensor:
        """Sample the action noise of one rollout, (T, P, n, outputs)."""
        settings = self.settings
        draws: list[Tensor] = []
        for generator in self.generators("act", iteration):
            noise = self.distribution.noise(settings.horizon, settings.num_envs, generator)
            if settings.noise_hold > 1:
                noise = _held(noise, settings.noise_hold, generator)
            draws.append(noise)
        return torch.stack(draws, dim=1)

    def shuffles(self, iteration: int, samples: int) -> Iterable[Tensor]:
        """Sample random permutations of each member's samples, (P, B) per epoch."""
        generators = self.generators("shuffle", iteration)
        epochs = self.settings.epochs
        if self.device.type == "cpu":  # lazily, because most updates stop early
            return (
                torch.stack([torch.randperm(samples, generator=one) for one in generators])
                for _ in range(epochs)
            )
        draw = [torch.rand(epochs, samples, generator=g, device=self.device) for g in generators]
        return torch.stack(draw, dim=1).argsort(dim=-1)  # one sort instead of P x epochs

    def actor(self) -> Actor:
        """Return a frozen copy of the current policies."""
        views = self.networks.views(self.flat.clone())
        return Actor(views, self.scaling(), self.shape.actor_inputs, self.mask)

    def scaling(self) -> Scaling:
        """Return a frozen copy of the current input normalization."""
        scaling = Scaling.of(self.moments)
        if not self.settings.normalize_obs:
            scaling = Scaling(torch.zeros_like(scaling.shift), torch.ones_like(scaling.scale))
        if self.networks.unscaled is not None:
            scaling.shift[..., self.networks.unscaled] = 0.0
            scaling.scale[..., self.networks.unscaled] = 1.0
        return scaling

    def anneal(self, progress: float) -> None:
        """Update the learning rate if its schedule is linear, and call `on_anneal`.

        `progress` is the fraction of training completed.
        """
        if self.settings.schedule == "linear":
            self.learning_rate.copy_(self.initial_rate * max(1.0 - progress, 0.0))
        if self.on_anneal is not None:
            self.on_anneal(progress)

    def take_over(self, member: int, saved: dict[str, Any], extra: int = 0) -> bool:
        """Initialize a member from a saved policy, or return False if it is incompatible.

        Weights and statistics are copied, but the optimizer is reset, because the reward may
        differ. The input size of the critic may differ if the policy was trained together with
        other rewards. The last `extra` critic inputs are privileged fields.
        """
        before = Shape(**saved["shape"])
        if before == self.shape:
            flat, known = saved["flat"], torch.arange(self.shape.critic_inputs)
            columns = known, known
        elif isinstance(self.networks, Networks) and self._sees_as(member, before, saved["mask"]):
            shared = Known.of(before, self.shape, extra)
            flat, columns = self.networks.fitted(saved["flat"], before, shared), shared.critic
        else:
            return False
        self.flat[member].copy_(flat)
        self.moments.mean[member, columns[1]] = saved["shift"][columns[0]].double()
        self.moments.var[member, columns[1]] = saved["scale"][columns[0]].double() ** -2
        self.moments.count[member] = _KNOWN_WELL
        return True

    def _sees_as(self, member: int, before: Shape, mask: Tensor | None) -> bool:
        """Return True if a policy differs only in input sizes, but not in its actor inputs."""
        now = self.shape
        width = max(before.actor_inputs, now.actor_inputs)
        seen = torch.zeros(2, width, dtype=torch.bool)
        seen[0, : before.actor_inputs] = True if mask is None else mask.bool().cpu()
        seen[1, : now.actor_inputs] = True if self.mask is None else self.mask[member, 0].bool()
        same = before._replace(actor_inputs=now.actor_inputs, critic_inputs=now.critic_inputs)
        return same == now and bool((seen[0] == seen[1]).all())


def _held(noise: Tensor, longest: int, generator: torch.Generator) -> Tensor:
    """Hold each noise vector of (T, n, A) for k <= `longest` steps, with P(k) ~ k^-2.

    Repetition ends with the batch, so resuming requires no state.
    """
    steps, num_envs, _ = noise.shape
    chances = torch.arange(1.0, longest + 1.0, device=noise.device) ** -2.0
    spans = chances.multinomial(steps * num_envs, replacement=True, generator=generator) + 1
    left = torch.zeros(num_envs, dtype=torch.long, device=noise.device)
    source = torch.zeros(steps, num_envs, dtype=torch.long, device=noise.device)
    for t, span in enumerate(spans.view(steps, num_envs)):
        begins = left == 0
        source[t] = torch.where(begins, t, source[t - 1])
        left = torch.where(begins, span, left) - 1
    return noise.gather(0, source.unsqueeze(-1).expand_as(noise))


def _mask(masks: list[InputMask] | None, device: torch.device | str) -> Tensor | None:
    """Return the actor input masks (P, 1, actor inputs), or None if all inputs are visible."""
    if masks is None or all(bool(mask.actor.all()) for mask in masks):
        return None
    return torch.stack([mask.actor for mask in masks]).float().unsqueeze(1).to(device)


# ------------------------------------------------------------------ running statistics


class Moments(Saved):
    """Running mean and variance per member, merged batch by batch (Chan et al.)."""

    _saved = ("count", "mean", "var")

    def __init__(self, members: int, size: int, device: torch.device | str = "cpu") -> None:
        self.count = torch.full((members, 1), 1e-4, dtype=torch.float64, device=device)
        self.mean = torch.zeros(members, size, dtype=torch.float64, device=device)
        self.var = torch.ones(members, size, dtype=torch.float64, device=device)

    def update(self, batch: Tensor, alive: Tensor) -> None:
        """Update the moments with a batch (P, n, size). Inactive members are unchanged."""
        n = batch.shape[1]
        mean = batch.mean(1, dtype=torch.float64)
        var = (batch - mean[:, None].to(batch.dtype)).square().mean(1, dtype=torch.float64)
        self.merge(mean, var, n, alive)

    def merge(self, mean: Tensor, var: Tensor, n: int, alive: Tensor) -> None:
        """Merge the mean and variance (P, size) of n rows."""
        delta = mean - self.mean
        total = self.count + n
        # M2 = M2_a + M2_b + delta^2 * n_a * n_b / (n_a + n_b)
        m2 = self.var * self.count + var * n + delta.square() * (self.count * n / total)
        alive = alive.unsqueeze(1)
        # In place, because CUDA graphs require fixed addresses.
        self.mean.copy_(torch.where(alive, self.mean + delta * (n / total), self.mean))
        self.var.copy_(torch.where(alive, m2 / total, self.var))
        self.count.copy_(torch.where(alive, total, self.count))


class Scaling(NamedTuple):
    """Frozen input normalization (x - shift) * scale with clipping, in shapes (P, 1, size)."""

    shift: Tensor
    scale: Tensor

    @classmethod
    def of(cls, moments: Moments) -> Scaling:
        """Create the normalization from running statistics, in float32."""
        scale = (moments.var + _EPSILON).rsqrt()
        return cls(moments.mean[:, None].float(), scale[:, None].float())

    def apply(self, x: Tensor) -> Tensor:
        """Normalize a batch (P, n, size)."""
        return (x - self.shift).mul_(self.scale).clamp_(-CLIP, CLIP)


class ReturnScale(Saved):
    """Reward scaling by the running standard deviation of the discounted return, per member."""

    _saved = ("moments", "running", "largest")

    def __init__(self, members: int, num_envs: int, device: torch.device | str = "cpu") -> None:
        self.moments = Moments(members, 1, device)
        self.running = torch.zeros(members, num_envs, device=device)
        self.largest = torch.zeros(members, 1, device=device)
        """largest absolute return so far, (P, 1)"""

    def update(self, rewards: Tensor, done: Tensor, gamma: Tensor, alive: Tensor) -> Tensor:
        """Update the statistics with rewards (T, P, n) and return scaled and clipped rewards."""
        returns = torch.empty_like(rewards)
        keep = 1.0 - done.float()
        running = self.running
        for t in range(rewards.shape[0]):
            # G_t = gamma * G_t-1 + r_t, reset after episode ends
            running = torch.addcmul(rewards[t], running, gamma)
            returns[t] = running
            running = running * keep[t]
        self.running.copy_(running)
        rows = returns.permute(1, 0, 2).flatten(1)
        self.moments.update(rows.unsqueeze(-1), alive)
        torch.maximum(self.largest, rows.abs().amax(1, keepdim=True), out=self.largest)
        scale = (self.moments.var + _EPSILON).rsqrt().float()  # (P, 1)
        return (rewards * scale).clamp_(-CLIP, CLIP)
