"""Running statistics per member: observation normalisation and reward scaling."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

CLIP = 10.0
_EPSILON = 1e-8


class Moments:
    """Mean and variance of a stream, one set per member, merged batch by batch (Chan et al.)."""

    def __init__(self, members: int, size: int, device: torch.device | str = "cpu") -> None:
        self.count = torch.full((members, 1), 1e-4, dtype=torch.float64, device=device)
        self.mean = torch.zeros(members, size, dtype=torch.float64, device=device)
        self.var = torch.ones(members, size, dtype=torch.float64, device=device)

    def update(self, batch: Tensor, alive: Tensor) -> None:
        """Take in a batch (P, n, size); members that are not alive keep what they had."""
        n = batch.shape[1]
        mean = batch.mean(1, dtype=torch.float64)
        var = (batch - mean[:, None].to(batch.dtype)).square().mean(1, dtype=torch.float64)
        delta = mean - self.mean
        total = self.count + n
        # M2 = M2_a + M2_b + delta^2 * n_a * n_b / (n_a + n_b)
        m2 = self.var * self.count + var * n + delta.square() * (self.count * n / total)
        alive = alive.unsqueeze(1)
        # In place: a recorded update must find them where they were.
        self.mean.copy_(torch.where(alive, self.mean + delta * (n / total), self.mean))
        self.var.copy_(torch.where(alive, m2 / total, self.var))
        self.count.copy_(torch.where(alive, total, self.count))

    def state_dict(self) -> dict[str, Tensor]:
        """Return the three tensors."""
        return {"count": self.count, "mean": self.mean, "var": self.var}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Put the three tensors back."""
        self.count, self.mean, self.var = (state[key].clone() for key in ("count", "mean", "var"))


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


class ReturnScale:
    """Scales rewards by the running deviation of the discounted return, per member."""

    def __init__(self, members: int, num_envs: int, device: torch.device | str = "cpu") -> None:
        self.moments = Moments(members, 1, device)
        self.running = torch.zeros(members, num_envs, device=device)

    def update(self, rewards: Tensor, done: Tensor, gamma: Tensor, alive: Tensor) -> Tensor:
        """Take in rewards (T, P, n) with episode ends, return them scaled and clipped."""
        returns = torch.empty_like(rewards)
        keep = 1.0 - done.float()
        running = self.running
        for t in range(rewards.shape[0]):
            # G_t = gamma * G_t-1 + r_t, starting anew after an episode's end
            running = torch.addcmul(rewards[t], running, gamma)
            returns[t] = running
            running = running * keep[t]
        self.running.copy_(running)
        self.moments.update(returns.permute(1, 0, 2).flatten(1).unsqueeze(-1), alive)
        scale = (self.moments.var + _EPSILON).rsqrt().float()  # (P, 1)
        return (rewards * scale).clamp_(-CLIP, CLIP)

    def state_dict(self) -> dict[str, Tensor]:
        """Return the statistics and the returns under way."""
        return {**self.moments.state_dict(), "running": self.running}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Put the state back."""
        self.moments.load_state_dict(state)
        self.running = state["running"].clone()
