"""Shared parts of REPPO and FlashSAC: tanh-Gaussian policies trained by pathwise gradients.

The learners fit a distributional critic Q(s, a) over fixed bins and follow its action gradient. The
networks of all members are one matrix, as in `networks`, but are trained with autograd.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from telic.core.tensors import norm, split
from telic.sim.cuda_graph import GraphedCallable
from telic.training.networks import (
    FUNCTIONS,
    InputMask,
    Networks,
    Operation,
    Shape,
    Squashed,
    Views,
)
from telic.training.population import Learner, LearningResult, Population, Saved
from telic.training.rollout import Batch

_BOUND = 5.0
"""largest scaled return that critics can represent, to which rewards are scaled"""
_BETAS = 0.9, 0.999


PartSizes = Mapping[str, tuple[int, ...]]


def named_parts(flat: Tensor, sizes: PartSizes) -> dict[str, Tensor]:
    """Split a flat matrix (C, size) into named views (C, ...)."""
    parts = split(flat, [torch.Size(size).numel() for size in sizes.values()], dim=1)
    return {
        name: part.view(len(flat), *size)
        for (name, size), part in zip(sizes.items(), parts, strict=True)
    }


class NetworkParameters(Saved):
    """Parameters of C identical networks, one per row, and their Adam optimizer."""

    _saved = ("flat", "first", "second", "count")

    def __init__(self, flat: Tensor, sizes: PartSizes, learned: int) -> None:
        """Wrap a matrix (C, size), updated in place. Only the first `learned` parts are trained."""
        self.flat = flat
        self.layers = named_parts(flat.detach(), sizes)
        self._leaves = [part.requires_grad_() for part in list(self.layers.values())[:learned]]
        self._width = sum(part[0].numel() for part in self._leaves)
        self.first, self.second = (torch.zeros_like(flat[:, : self._width]) for _ in range(2))
        self.count = torch.zeros(len(flat), 1, device=flat.device)

    def descend(self, loss: Tensor, rate: Tensor, active: Tensor, most: Tensor | float) -> Tensor:
        """Take an Adam step on the sum of all rows' losses and return gradient norms (C,).

        Inactive rows and rows with non-finite gradients remain unchanged. `most` is the maximum
        gradient norm of each row.
        """
        parts = torch.autograd.grad(loss, self._leaves)
        with torch.no_grad():
            grad = torch.cat([part.flatten(1) for part in parts], dim=1)
            length = norm(grad, dim=1)
            moves = (active & length.isfinite()).unsqueeze(1)
            factor = (most / (length.unsqueeze(1) + 1e-6)).clamp(max=1.0)
            grad = torch.where(moves, grad * factor, 0.0)
            self.count += moves
            self.first.lerp_(grad, 1.0 - _BETAS[0])
            self.second.lerp_(grad.square(), 1.0 - _BETAS[1])
            first = self.first / (1.0 - _BETAS[0] ** self.count.clamp_min(1.0))
            second = self.second / (1.0 - _BETAS[1] ** self.count.clamp_min(1.0))
            change = torch.where(moves, rate * first / (second.sqrt() + 1e-8), 0.0)
            self.flat[:, : self._width] -= change
        return length


class Bins:
    """Categorical distribution of returns over fixed bins."""

    def __init__(self, count: int, device: torch.device) -> None:
        self.centers = torch.linspace(-_BOUND, _BOUND, count, device=device)
        self.width = 2.0 * _BOUND / (count - 1)

    def mean(self, logits: Tensor) -> Tensor:
        """Return the expected value (...) of logits (..., bins)."""
        return (logits.softmax(-1) * self.centers).sum(-1)

    def smoothed(self, values: Tensor) -> Tensor:
        """Return HL-Gauss targets (..., bins): binned normal distributions around values (...)."""
        spread = 0.75 * self.width
        edges = torch.cat((self.centers - self.width / 2.0, self.centers[-1:] + self.width / 2.0))
        below = torch.special.ndtr((edges - values.clamp(-_BOUND, _BOUND).unsqueeze(-1)) / spread)
        return below.diff(dim=-1) / (below[..., -1:] - below[..., :1])

    def moved(self, chances: Tensor, reward: Tensor, discount: Tensor) -> Tensor:
        """Project the distribution of reward + discount * G, with G ~ `chances`, onto the bins."""
        to = reward.unsqueeze(-1) + discount.unsqueeze(-1) * self.centers
        place = (to.clamp(-_BOUND, _BOUND) + _BOUND) / self.width
        low = place.floor().clamp(max=len(self.centers) - 2)
        upper = (place - low) * chances
        out = torch.zeros_like(chances).scatter_add_(-1, low.long(), chances - upper)
        return out.scatter_add_(-1, low.long() + 1, upper)


def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """Return the cross-entropy (...) between logits and targets (..., bins)."""
    return -(target * logits.log_softmax(-1)).sum(-1)


class SquashedActor:
    """Base class of tanh-Gaussian actors, defined as a sequence of operations.

    Subclasses set `sizes` and `learned` in `build`, and implement `views` and `program`.
    """

    unscaled: Tensor | None = None
    sizes: PartSizes
    learned: int
    """number of leading parts that are trained, where the others are statistics"""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.build(shape.actor_inputs, 2 * shape.outputs, shape.hidden)
        self.size = sum(torch.Size(size).numel() for size in self.sizes.values())

    def build(self, inputs: int, outputs: int, hidden: tuple[int, ...]) -> None:
        """Set `sizes` and `learned`."""
        raise NotImplementedError

    def views(self, flat: Tensor) -> Views:
        """Return the affine layers of a flat matrix for inference."""
        raise NotImplementedError

    def program(self, views: Views) -> list[Operation]:
        """Return the operations from actor inputs to outputs."""
        raise NotImplementedError

    def initialize(
        self,
        generators: list[torch.Generator],
        log_std: float,
        masks: list[InputMask] | None = None,
    ) -> Tensor:
        """Return initial flat parameters. `log_std` is unused, because networks predict the std."""
        used = [None] * len(generators) if masks is None else [mask.actor for mask in masks]
        rows = zip(generators, used, strict=True)
        return torch.stack([fresh(self.sizes, one, seen) for one, seen in rows])

    def act(self, views: Views, inputs: Tensor) -> Tensor:
        """Return means and log stds (P, n, 2 * outputs) for actor inputs (P, n, d)."""
        x = kept = inputs
        for kind, layer in self.program(views):
            if kind == "affine":
                assert layer is not None
                x = Networks.affine(layer, x)
            elif kind == "keep":
                kept = x
            else:
                x = x + kept if kind == "add" else FUNCTIONS[kind](x)
        return x


class PathwiseLearner(Learner):
    """Base class of learners with a tanh-Gaussian actor and distributional critics."""

    def __init__(self, population: Population, iterations: int, bins: int) -> None:
        super().__init__(population, iterations)
        assert isinstance(population.networks, SquashedActor)
        assert isinstance(population.distribution, Squashed)
        self.squashed, self.bins = population.distribution, Bins(bins, population.device)
        networks = population.networks
        self.actor = NetworkParameters(population.flat, networks.sizes, networks.learned)
        self.parts: dict[str, NetworkParameters] = {"actor": self.actor}
        """all trained parameters by name"""
        self.held: list[Tensor] = []
        """inputs of `update` at fixed addresses for the CUDA graph"""
        self._graphed = GraphedCallable(self.update, [], population.device)

    def critics(self, sizes: PartSizes, learned: int, copies: int) -> NetworkParameters:
        """Initialize `copies` critics per member, in adjacent rows."""
        population = self.population
        rows = [
            fresh(sizes, one, population.critic_mask(member, population.shape.outputs))
            for member, one in enumerate(population.generators("critic", 0, "cpu"))
            for _ in range(copies)
        ]
        return NetworkParameters(torch.stack(rows).to(population.device), sizes, learned)

    def draws(self, purpose: str, iteration: int, *shape: int) -> Tensor:
        """Sample standard normal noise (len, P, ...) from each member's generator."""
        generators = self.population.generators(purpose, iteration)
        device = self.population.device
        return torch.stack([torch.randn(shape, generator=g, device=device) for g in generators], 1)

    def updated(self, *varying: Tensor) -> LearningResult:
        """Call `update` with new inputs. On a GPU, replay its CUDA graph."""
        if self.held and self.population.device.type != "cpu":
            for place, new in zip(self.held, varying, strict=True):
                place.copy_(new)
        else:
            self.held = list(varying)
        return self._graphed()

    def update(self) -> LearningResult:
        """Take all gradient steps for a batch."""
        raise NotImplementedError

    def state_dict(self, folder: Path) -> dict[str, Any]:
        """Return the state of the learner."""
        own = {name: part.state_dict() for name, part in self.parts.items()}
        return {**super().state_dict(folder), **own}

    def load_state_dict(self, state: dict[str, Any], folder: Path) -> None:
        """Restore the state."""
        super().load_state_dict(state, folder)
        for name, part in self.parts.items():
            part.load_state_dict(state[name])


def fresh(sizes: PartSizes, generator: torch.Generator, used: Tensor | None) -> Tensor:
    """Return initial parameters (size,): orthogonal matrices, and ones for scales and variances.

    The first matrix has zero weights for inputs that are not `used`.
    """
    parts: list[Tensor] = []
    for name, size in sizes.items():
        if len(size) == 1:
            is_one = name.startswith(("scale", "var"))
            parts.append(torch.ones(size) if is_one else torch.zeros(size))
            continue
        rows = torch.ones(size[0], dtype=torch.bool) if used is None or parts else used
        dense = torch.empty(int(rows.sum()), size[1])
        torch.nn.init.orthogonal_(dense, generator=generator)
        whole = torch.zeros(size)
        whole[rows] = functional.normalize(dense, dim=0)
        parts.append(whole.flatten())
    return torch.cat(parts)


def return_factor(population: Population, batch: Batch) -> Tensor:
    """Update the return statistics, and return the factor (P, 1) that keeps returns in the bins.

    The factor is 1 / max(std of the discounted return, largest |return| / 5) over training so far.
    """
    scale = population.return_scale
    scale.update(batch.rewards, batch.done, population.gamma, population.alive)
    deviation = scale.moments.var.sqrt().float()
    return 1.0 / torch.maximum(deviation, scale.largest / _BOUND).clamp_min(1e-3)
