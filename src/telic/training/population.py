"""The population that learns: weights, optimiser, statistics and random state of P members."""

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
"""samples that the statistics of a policy trained before count for"""


class Saved:
    """Something whose state is a few tensors and parts, by the names of its attributes."""

    _saved: ClassVar[tuple[str, ...]]

    def state_dict(self) -> dict[str, Any]:
        """Return everything that what follows depends on."""
        parts = {name: getattr(self, name) for name in self._saved}
        return {k: v.state_dict() if isinstance(v, Saved) else v for k, v in parts.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Put it back, in place: a recorded update must find tensors where they were."""
        for name in self._saved:
            part = getattr(self, name)
            (part.load_state_dict if isinstance(part, Saved) else part.copy_)(state[name])


class Adam(Saved):
    """First and second moments (P, size) and the step count (P, 1)."""

    _saved = ("first", "second", "count")

    def __init__(self, flat: Tensor) -> None:
        self.first = torch.zeros_like(flat)
        self.second = torch.zeros_like(flat)
        self.count = torch.zeros(flat.shape[0], 1, device=flat.device)


class Actor(NamedTuple):
    """A frozen copy of the policies, safe to act with while the originals learn."""

    views: Views
    scaling: Scaling
    actor_inputs: int
    mask: Tensor | None
    """(P, 1, actor inputs) zeros where a policy may not see its reward's memory"""

    def copy_(self, other: Actor) -> None:
        """Become a copy of other policies, in the same memory."""
        self.load(other.tensors())

    def load(self, tensors: list[Tensor]) -> None:
        """Become the policies that these are the tensors of."""
        for mine, theirs in zip(self.tensors(), tensors, strict=True):
            mine.copy_(theirs)

    def tensors(self) -> list[Tensor]:
        """Return all that the policies consist of."""
        layers = [*self.views.actor, *self.views.critic]
        return [*(part for layer in layers for part in layer), self.views.log_std, *self.scaling]

    def part(self, inputs: Tensor) -> Tensor:
        """Return what the policies see of normalised inputs (P, n, d)."""
        seen = inputs if inputs.shape[-1] == self.actor_inputs else inputs[..., : self.actor_inputs]
        return seen if self.mask is None else seen * self.mask


class UpdateStats(NamedTuple):
    """Diagnostics per member, each (P,); NaN where a learner has no such number."""

    policy_loss: Tensor
    value_loss: Tensor
    entropy: Tensor
    approx_kl: Tensor
    clip_fraction: Tensor
    grad_norm: Tensor
    steps: Tensor
    """gradient steps taken on the batch"""
    finite: Tensor
    """False where a loss or gradient was NaN or infinite; that member's weights were left alone"""


class LearningResult(NamedTuple):
    """Result of learning from a batch."""

    stats: UpdateStats
    explained_variance: Tensor
    """(P,) share of the returns' variance that the value function predicts"""
    policy_std: Tensor
    """(P,) mean standard deviation of actions"""


class Learner:
    """Improves a population batch by batch: PPO, REPPO, FlashSAC."""

    def __init__(self, population: Population, iterations: int) -> None:
        """Prepare to learn from so many batches."""
        self.population = population

    def learn(self, batch: Batch, iteration: int) -> LearningResult:
        """Learn from a batch.

        On a GPU, returns before it is done; the batch must lie where the first one did.
        """
        raise NotImplementedError

    def anneal(self, progress: float) -> None:
        """Set what changes with the share of training done."""
        self.population.anneal(progress)

    def state_dict(self, folder: Path) -> dict[str, Any]:
        """Return what learning depends on, for an exact resume; what is large goes to a folder."""
        return self.population.state_dict()

    def load_state_dict(self, state: dict[str, Any], folder: Path) -> None:
        """Put it back."""
        self.population.load_state_dict(state)


class Population(Saved):
    """P members that learn together and never influence one another."""

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
        shape: Shape,
        *,
        masks: list[InputMask] | None = None,
        networks: PolicyNetworks | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        """Initialise every member from its seed; without `masks`, its networks see everything."""
        self.settings = members[0]
        self.shape = shape
        self.masks = masks
        self.mask = _mask(masks, device)
        self.size = len(members)
        self.networks: PolicyNetworks = networks or Networks(shape)
        self.distribution = distribution(shape)
        self.seeds = list(seeds)
        self.device = torch.device(device)
        starts = [torch.Generator().manual_seed(derive(seed, "weights")) for seed in seeds]
        self.flat = self.networks.initialise(starts, self.settings.log_std, masks).to(device)
        self.adam = Adam(self.flat)
        self.grad = torch.empty_like(self.flat)
        self.views = self.networks.views(self.flat)
        self.grad_views = self.networks.views(self.grad)
        self.moments = Moments(self.size, shape.critic_inputs, device)
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
        """Return (P, size) factors of the learning rate; None: they are all one."""
        if bool((self.critic_rate == 1.0).all()):
            return None
        factors = torch.ones_like(self.flat)
        for layer in self.networks.views(factors).critic:
            layer.weight.mul_(self.critic_rate.unsqueeze(-1))
            layer.bias.mul_(self.critic_rate.unsqueeze(-1))
        return factors

    def part(self, inputs: Tensor) -> Tensor:
        """Return what the policies see of normalised inputs (P, n, d)."""
        seen = inputs[..., : self.shape.actor_inputs]
        return seen if self.mask is None else seen * self.mask

    def critic_mask(self, member: int, actions: int) -> Tensor | None:
        """Return which of its inputs and of some actions a member's critic sees; None: all."""
        if self.masks is None:
            return None
        return torch.cat((self.masks[member].critic, torch.ones(actions, dtype=torch.bool)))

    def generators(
        self, purpose: str, iteration: int, device: torch.device | str | None = None
    ) -> list[torch.Generator]:
        """Return one generator per member, a pure function of its seed, purpose and iteration.

        Nothing to save for a resume, and no member's numbers depend on how often another one drew.
        """
        seeds = (derive(seed, purpose, iteration) for seed in self.seeds)
        return [torch.Generator(device or self.device).manual_seed(seed) for seed in seeds]

    def noise(self, iteration: int) -> Tensor:
        """Draw the action noise of one rollout, (T, P, n, outputs)."""
        settings = self.settings
        draws: list[Tensor] = []
        for generator in self.generators("act", iteration):
            noise = self.distribution.noise(settings.horizon, settings.num_envs, generator)
            if settings.noise_hold > 1:
                noise = _held(noise, settings.noise_hold, generator)
            draws.append(noise)
        return torch.stack(draws, dim=1)

    def shuffles(self, iteration: int, samples: int) -> Iterable[Tensor]:
        """Draw each member's order of its samples, (P, B), for every epoch."""
        generators = self.generators("shuffle", iteration)
        epochs = self.settings.epochs
        if self.device.type == "cpu":  # drawn when needed: most batches end before the last epoch
            return (
                torch.stack([torch.randperm(samples, generator=one) for one in generators])
                for _ in range(epochs)
            )
        draw = [torch.rand(epochs, samples, generator=g, device=self.device) for g in generators]
        return torch.stack(draw, dim=1).argsort(dim=-1)  # one sort instead of P x epochs

    def actor(self) -> Actor:
        """Freeze the current policies."""
        views = self.networks.views(self.flat.clone())
        return Actor(views, self.scaling(), self.shape.actor_inputs, self.mask)

    def scaling(self) -> Scaling:
        """Freeze how inputs are normalised now."""
        scaling = Scaling.of(self.moments)
        if not self.settings.normalise_obs:
            scaling = Scaling(torch.zeros_like(scaling.shift), torch.ones_like(scaling.scale))
        if self.networks.unscaled is not None:
            scaling.shift[..., self.networks.unscaled] = 0.0
            scaling.scale[..., self.networks.unscaled] = 1.0
        return scaling

    def anneal(self, progress: float) -> None:
        """Set what changes with the share of training done: the learning rate, if it is annealed.

        And whatever `on_anneal` changes, in place.
        """
        if self.settings.schedule == "linear":
            self.learning_rate.copy_(self.initial_rate * max(1.0 - progress, 0.0))
        if self.on_anneal is not None:
            self.on_anneal(progress)

    def take_over(self, member: int, saved: dict[str, Any], extra: int = 0) -> bool:
        """Start a member from a saved policy; False if its observations or actions differ.

        Weights and statistics are taken; the optimiser starts fresh, because the reward may differ.
        The critic may have been wider or narrower: it was trained together with other rewards.
        The last `extra` inputs of critics are privileged fields.
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
        """Say whether a policy of other sizes sees the same and differs in nothing but width."""
        now = self.shape
        width = max(before.actor_inputs, now.actor_inputs)
        seen = torch.zeros(2, width, dtype=torch.bool)
        seen[0, : before.actor_inputs] = True if mask is None else mask.bool().cpu()
        seen[1, : now.actor_inputs] = True if self.mask is None else self.mask[member, 0].bool()
        same = before._replace(actor_inputs=now.actor_inputs, critic_inputs=now.critic_inputs)
        return same == now and bool((seen[0] == seen[1]).all())


def _held(noise: Tensor, longest: int, generator: torch.Generator) -> Tensor:
    """Return noise (T, n, A) whose vectors are each held for k steps, P(k) ~ k^-2, k <= longest.

    Batches are drawn one by one, so that a resume needs no state: a vector ends with its batch.
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
    """Return (P, 1, actor inputs) zeros where a policy may not look; None if all see everything."""
    if masks is None or all(bool(mask.actor.all()) for mask in masks):
        return None
    return torch.stack([mask.actor for mask in masks]).float().unsqueeze(1).to(device)


# ------------------------------------------------------------------ running statistics


class Moments(Saved):
    """Mean and variance of a stream, one set per member, merged batch by batch (Chan et al.)."""

    _saved = ("count", "mean", "var")

    def __init__(self, members: int, size: int, device: torch.device | str = "cpu") -> None:
        self.count = torch.full((members, 1), 1e-4, dtype=torch.float64, device=device)
        self.mean = torch.zeros(members, size, dtype=torch.float64, device=device)
        self.var = torch.ones(members, size, dtype=torch.float64, device=device)

    def update(self, batch: Tensor, alive: Tensor) -> None:
        """Take in a batch (P, n, size); members that are not alive keep what they had."""
        n = batch.shape[1]
        mean = batch.mean(1, dtype=torch.float64)
        var = (batch - mean[:, None].to(batch.dtype)).square().mean(1, dtype=torch.float64)
        self.merge(mean, var, n, alive)

    def merge(self, mean: Tensor, var: Tensor, n: int, alive: Tensor) -> None:
        """Take in the mean and variance (P, size) of n rows."""
        delta = mean - self.mean
        total = self.count + n
        # M2 = M2_a + M2_b + delta^2 * n_a * n_b / (n_a + n_b)
        m2 = self.var * self.count + var * n + delta.square() * (self.count * n / total)
        alive = alive.unsqueeze(1)
        # In place: a recorded update must find them where they were.
        self.mean.copy_(torch.where(alive, self.mean + delta * (n / total), self.mean))
        self.var.copy_(torch.where(alive, m2 / total, self.var))
        self.count.copy_(torch.where(alive, total, self.count))


class Scaling(NamedTuple):
    """A frozen normalisation: (x - shift) * scale, clipped; shapes (P, 1, size)."""

    shift: Tensor
    scale: Tensor

    @classmethod
    def of(cls, moments: Moments) -> Scaling:
        """Freeze the current statistics as float32."""
        scale = (moments.var + _EPSILON).rsqrt()
        return cls(moments.mean[:, None].float(), scale[:, None].float())

    def apply(self, x: Tensor) -> Tensor:
        """Return the normalised batch (P, n, size)."""
        return (x - self.shift).mul_(self.scale).clamp_(-CLIP, CLIP)


class ReturnScale(Saved):
    """Scales rewards by the running deviation of the discounted return, per member."""

    _saved = ("moments", "running", "largest")

    def __init__(self, members: int, num_envs: int, device: torch.device | str = "cpu") -> None:
        self.moments = Moments(members, 1, device)
        self.running = torch.zeros(members, num_envs, device=device)
        self.largest = torch.zeros(members, 1, device=device)
        """the largest |return| so far, (P, 1)"""

    def update(self, rewards: Tensor, done: Tensor, gamma: Tensor, alive: Tensor) -> Tensor:
        """Take in rewards (T, P, n) with episode ends, return them scaled and clipped."""
        returns = torch.empty_like(rewards)
        keep = 1.0 - done.float()
        running = self.running
        for t in range(rewards.shape[0]):
            # G_t = gamma * G_t-1 + r_t, starting over after an episode's end
            running = torch.addcmul(rewards[t], running, gamma)
            returns[t] = running
            running = running * keep[t]
        self.running.copy_(running)
        rows = returns.permute(1, 0, 2).flatten(1)
        self.moments.update(rows.unsqueeze(-1), alive)
        torch.maximum(self.largest, rows.abs().amax(1, keepdim=True), out=self.largest)
        scale = (self.moments.var + _EPSILON).rsqrt().float()  # (P, 1)
        return (rewards * scale).clamp_(-CLIP, CLIP)
