"""What learns: weights, optimiser, statistics and random state of P members."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from telic.core.seeds import derive
from telic.training.distribution import distribution
from telic.training.networks import Networks, Sees, Shape, Views
from telic.training.normalise import Moments, ReturnScale, Scaling
from telic.training.settings import MEMBER_FIELDS, PpoSettings

_KNOWN_WELL = 1e5
"""samples that the statistics of a policy trained before count for"""


class Adam:
    """First and second moments (P, size) and the step count (P, 1)."""

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
        for mine, theirs in zip(self._tensors(), other._tensors(), strict=True):
            mine.copy_(theirs)

    def _tensors(self) -> list[Tensor]:
        layers = [*self.views.actor, *self.views.critic]
        return [*(part for layer in layers for part in layer), self.views.log_std, *self.scaling]

    def part(self, inputs: Tensor) -> Tensor:
        """Return what the policies see of normalised inputs (P, n, d)."""
        seen = inputs if inputs.shape[-1] == self.actor_inputs else inputs[..., : self.actor_inputs]
        return seen if self.mask is None else seen * self.mask


class Population:
    """P members that learn together and never influence one another."""

    gamma: Tensor
    gae_lambda: Tensor
    clip: Tensor
    entropy_coef: Tensor
    value_coef: Tensor
    max_grad_norm: Tensor
    target_kl: Tensor
    learning_rate: Tensor

    def __init__(
        self,
        members: Sequence[PpoSettings],
        seeds: Sequence[int],
        shape: Shape,
        *,
        sees: list[Sees] | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        self.settings = members[0]
        self.shape = shape
        self.mask = _mask(sees, device)
        self.size = len(members)
        self.networks = Networks(shape)
        self.distribution = distribution(shape.outputs, shape.discrete)
        self.seeds = list(seeds)
        self.device = torch.device(device)
        starts = [torch.Generator().manual_seed(derive(seed, "weights")) for seed in seeds]
        self.flat = self.networks.initialise(starts, self.settings.log_std, sees).to(device)
        self.adam = Adam(self.flat)
        self.grad = torch.empty_like(self.flat)
        self._look()
        self.moments = Moments(self.size, shape.critic_inputs, device)
        self.return_scale = ReturnScale(self.size, self.settings.num_envs, device)
        self.alive = torch.ones(self.size, dtype=torch.bool, device=device)
        for name in MEMBER_FIELDS:
            values = [getattr(each, name) for each in members]
            setattr(self, name, torch.tensor(values, device=device).unsqueeze(1))
        self.initial_rate = self.learning_rate.clone()

    def generators(self, purpose: str, iteration: int) -> list[torch.Generator]:
        """Return one generator per member, a pure function of its seed, purpose and iteration.

        Nothing to save for a resume, and no member's numbers depend on how often another one drew.
        """
        seeds = (derive(seed, purpose, iteration) for seed in self.seeds)
        return [torch.Generator(self.device).manual_seed(seed) for seed in seeds]

    def noise(self, iteration: int) -> Tensor:
        """Draw the action noise of one rollout, (T, P, n, outputs)."""
        settings = self.settings
        draws = [
            self.distribution.noise(settings.horizon, settings.num_envs, generator)
            for generator in self.generators("act", iteration)
        ]
        return torch.stack(draws, dim=1)

    def orders(self, iteration: int, samples: int) -> Iterable[Tensor]:
        """Draw each member's order of its samples, (P, B), for every epoch."""
        generators = self.generators("shuffle", iteration)
        epochs = self.settings.epochs
        if self.device.type == "cpu":  # drawn when needed: most batches end before the last epoch
            return (
                torch.stack([torch.randperm(samples, generator=each) for each in generators])
                for _ in range(epochs)
            )
        draw = [torch.rand(epochs, samples, generator=g, device=self.device) for g in generators]
        return torch.stack(draw, dim=1).argsort(dim=-1)  # one sort instead of P x epochs

    def actor(self) -> Actor:
        """Freeze the current policies."""
        scaling = Scaling.of(self.moments)
        if not self.settings.normalise_obs:
            scaling = Scaling(torch.zeros_like(scaling.shift), torch.ones_like(scaling.scale))
        views = self.networks.views(self.flat.clone())
        return Actor(views, scaling, self.shape.actor_inputs, self.mask)

    def _look(self) -> None:
        """Cut weights and gradients into layers once; updates change them in place."""
        self.views = self.networks.views(self.flat)
        self.grad_views = self.networks.views(self.grad)

    def anneal(self, progress: float) -> None:
        """Set the learning rate for a share of training done, if it is annealed."""
        if self.settings.schedule == "linear":
            self.learning_rate.copy_(self.initial_rate * max(1.0 - progress, 0.0))

    def take_over(self, member: int, saved: dict[str, Any]) -> bool:
        """Let a member go on from a saved policy; False if its networks have other sizes.

        Weights and statistics are taken; the optimiser starts anew, because the reward may differ.
        """
        fits = saved["shape"] == self.shape._asdict()
        if fits:
            self.flat[member].copy_(saved["flat"])
            self.moments.mean[member].copy_(saved["shift"])
            self.moments.var[member].copy_(saved["scale"].double() ** -2)
            self.moments.count[member] = _KNOWN_WELL
        return fits

    def state_dict(self) -> dict[str, Any]:
        """Return everything learning depends on."""
        return {
            "flat": self.flat,
            "first": self.adam.first,
            "second": self.adam.second,
            "count": self.adam.count,
            "learning_rate": self.learning_rate,
            "alive": self.alive,
            "moments": self.moments.state_dict(),
            "return_scale": self.return_scale.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put everything back."""
        self.flat = state["flat"].clone()
        self._look()
        for name in ("first", "second", "count"):
            setattr(self.adam, name, state[name].clone())
        self.learning_rate = state["learning_rate"].clone()
        self.alive = state["alive"].clone()
        self.moments.load_state_dict(state["moments"])
        self.return_scale.load_state_dict(state["return_scale"])


def _mask(sees: list[Sees] | None, device: torch.device | str) -> Tensor | None:
    """Return (P, 1, actor inputs) zeros where a policy may not look; None if all see everything."""
    if sees is None or all(bool(each.actor.all()) for each in sees):
        return None
    return torch.stack([each.actor for each in sees]).float().unsqueeze(1).to(device)
