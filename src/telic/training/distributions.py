"""What the outputs of a policy mean: Gaussian actions, or a choice among discrete ones."""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

_HALF_LOG_TAU = 0.5 * math.log(2.0 * math.pi)


class Toward(NamedTuple):
    """The loss's gradient at what the actor gives."""

    outputs: Tensor
    """(P, n, outputs)"""
    log_std: Tensor
    """(P, outputs); empty for discrete actions"""


class Distribution(Protocol):
    """Turns network outputs into actions. `P` members, `n` rows, `A` action dimensions."""

    width: int
    """columns an action takes in a batch"""

    def noise(self, steps: int, num_envs: int, generator: torch.Generator) -> Tensor:
        """Draw all randomness of a rollout for one member, (steps, n, outputs)."""
        ...

    def sample(self, outputs: Tensor, log_std: Tensor, noise: Tensor) -> Tensor:
        """Return actions (P, n, width) from outputs (P, n, outputs) and noise of that shape."""
        ...

    def log_prob(self, outputs: Tensor, log_std: Tensor, actions: Tensor) -> Tensor:
        """Return log densities (P, n)."""
        ...

    def entropy(self, outputs: Tensor, log_std: Tensor) -> Tensor:
        """Return the mean entropy per member (P,)."""
        ...

    def backward(
        self,
        outputs: Tensor,
        log_std: Tensor,
        actions: Tensor,
        toward_log_prob: Tensor,
        entropy_coef: Tensor,
    ) -> Toward:
        """Carry a gradient at the log densities (P, n), and an entropy bonus (P, 1), back."""
        ...


class Gaussian:
    """Independent normal actions with a learned deviation that does not depend on the state."""

    def __init__(self, outputs: int) -> None:
        self.width = outputs

    def noise(self, steps: int, num_envs: int, generator: torch.Generator) -> Tensor:
        """Draw standard normal numbers."""
        return torch.randn(
            steps, num_envs, self.width, generator=generator, device=generator.device
        )

    def sample(self, outputs: Tensor, log_std: Tensor, noise: Tensor) -> Tensor:
        """Return mean + std * noise."""
        return torch.addcmul(outputs, noise, log_std.exp().unsqueeze(1))

    def log_prob(self, outputs: Tensor, log_std: Tensor, actions: Tensor) -> Tensor:
        """Return the sum over dimensions of the normal log density."""
        z = (actions - outputs) * torch.exp(-log_std).unsqueeze(1)
        return -0.5 * z.square().sum(-1) - (
            log_std.sum(1, keepdim=True) + self.width * _HALF_LOG_TAU
        )

    def entropy(self, outputs: Tensor, log_std: Tensor) -> Tensor:
        """Return the differential entropy in nats."""
        return log_std.sum(1) + self.width * (0.5 + _HALF_LOG_TAU)

    def backward(
        self,
        outputs: Tensor,
        log_std: Tensor,
        actions: Tensor,
        toward_log_prob: Tensor,
        entropy_coef: Tensor,
    ) -> Toward:
        """For z = (a - mean) / std: d/d mean = z / std, d/d log std = z^2 - 1; dH/d log std = 1."""
        inverse = torch.exp(-log_std).unsqueeze(1)
        z = (actions - outputs) * inverse
        weighted = toward_log_prob.unsqueeze(-1) * z
        deviation = (weighted * z).sum(1) - toward_log_prob.sum(1, keepdim=True) - entropy_coef
        return Toward(weighted * inverse, deviation)


class Categorical:
    """One of `outputs` discrete actions, stored as one float column."""

    width = 1

    def __init__(self, outputs: int) -> None:
        self.outputs = outputs

    def noise(self, steps: int, num_envs: int, generator: torch.Generator) -> Tensor:
        """Draw Gumbel numbers: the argmax of logits + Gumbel noise is a categorical sample."""
        shape = (steps, num_envs, self.outputs)
        u = torch.rand(shape, generator=generator, device=generator.device)
        return -(-(u.clamp_min_(1e-20).log())).log()

    def sample(self, outputs: Tensor, log_std: Tensor, noise: Tensor) -> Tensor:
        """Return the sampled indices as floats, (P, n, 1)."""
        return (outputs + noise).argmax(-1, keepdim=True).to(outputs.dtype)

    def log_prob(self, outputs: Tensor, log_std: Tensor, actions: Tensor) -> Tensor:
        """Return the log probability of the stored indices."""
        return outputs.log_softmax(-1).gather(-1, actions.long()).squeeze(-1)

    def entropy(self, outputs: Tensor, log_std: Tensor) -> Tensor:
        """Return the mean entropy in nats."""
        log_p = outputs.log_softmax(-1)
        return -(log_p.exp() * log_p).sum(-1).mean(-1)

    def backward(
        self,
        outputs: Tensor,
        log_std: Tensor,
        actions: Tensor,
        toward_log_prob: Tensor,
        entropy_coef: Tensor,
    ) -> Toward:
        """D log p_a / d logits = onehot(a) - p; dH / d logits = -p (log p + H)."""
        log_p = outputs.log_softmax(-1)
        p = log_p.exp()
        chosen = torch.zeros_like(p).scatter_(-1, actions.long(), 1.0)
        entropy = -(p * log_p).sum(-1, keepdim=True)
        bonus = p * (log_p + entropy) * (entropy_coef / outputs.shape[1]).unsqueeze(1)
        return Toward(toward_log_prob.unsqueeze(-1) * (chosen - p) + bonus, log_std)


def distribution(outputs: int, discrete: bool) -> Distribution:
    """Return the distribution for an action space."""
    return Categorical(outputs) if discrete else Gaussian(outputs)
