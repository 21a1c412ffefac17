"""Generalised advantage estimation with exact bootstrapping at truncation."""

from __future__ import annotations

import torch
from torch import Tensor


def advantages(
    rewards: Tensor,
    values: Tensor,
    next_values: Tensor,
    terminated: Tensor,
    done: Tensor,
    gamma: Tensor,
    lam: Tensor,
) -> Tensor:
    """Return advantage estimates, shape (T, P, n).

    Args:
        rewards: (T, P, n).
        values: V(s_t), (T, P, n).
        next_values: V of the state each step led to, before any reset, (T, P, n).
        terminated: the episode ended in a state without future, (T, P, n) bool.
        done: terminated, or cut by the time limit, (T, P, n) bool.
        gamma: discount per member, (P, 1).
        lam: lambda per member, (P, 1).
    """
    # A truncated episode goes on in principle: the value of its last state counts.
    # delta_t = r_t + gamma * V(s'_t) * (1 - terminated) - V(s_t)
    deltas = torch.addcmul(rewards - values, next_values * gamma, 1.0 - terminated.float())
    carry = (gamma * lam) * (1.0 - done.float())
    out = torch.empty_like(rewards)
    running = torch.zeros_like(rewards[0])
    for t in reversed(range(rewards.shape[0])):
        # A_t = delta_t + gamma * lambda * A_t+1, not across an episode's end
        running = torch.addcmul(deltas[t], carry[t], running)
        out[t] = running
    return out
