"""What the token networks learn beside the reward: that a token says what the motion is.

Three losses, each (P,), of members that do not influence one another. Latents are compared before
they are rounded; rows in which an encoder has nothing to see do not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Literal

import torch
from torch import Tensor

Distance = Literal["mse", "l1", "huber", "cosine"]


def distance(one: Tensor, other: Tensor, kind: Distance) -> Tensor:
    """Return how far latents (P, n, k) are apart, (P, n), a mean over their numbers."""
    if kind == "cosine":
        return 1.0 - torch.nn.functional.cosine_similarity(one, other, dim=-1)
    if kind == "mse":
        return (one - other).square().mean(-1)
    apart = (one - other).abs()
    if kind == "l1":
        return apart.mean(-1)
    return torch.where(apart < 1.0, 0.5 * apart.square(), apart - 0.5).mean(-1)


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Return the mean of (P, n) where `mask`, (P,); zero where nothing counts."""
    weight = mask.to(values.dtype)
    return (values * weight).sum(1) / weight.sum(1).clamp_min(1.0)


def reconstruction(decoded: Tensor, target: Tensor) -> Tensor:
    """Return how far the decoded motion is from the true one, both in units of its spread, (P,)."""
    return (decoded - target).square().mean((1, 2))


def alignment(
    latents: Sequence[Tensor],
    available: Tensor,
    *,
    kind: Distance = "mse",
    constant: Sequence[bool] | None = None,
) -> Tensor:
    """Return how far the latents of every two encoders are apart for the same frames, (P,).

    Args:
        latents: one (P, n, k) per encoder.
        available: (P, n, encoders) bool, who has something to see in a row.
        kind: how distance is measured.
        constant: encoders that the others are drawn to and that are not drawn themselves.
    """
    fixed = constant or [False] * len(latents)
    held = [one.detach() if still else one for one, still in zip(latents, fixed, strict=True)]
    total = latents[0].new_zeros(latents[0].shape[0])
    for i, j in combinations(range(len(latents)), 2):
        both = available[..., i] & available[..., j]
        total = total + masked_mean(distance(held[i], held[j], kind), both)
    return total


def cycle(reencoded: Sequence[Tensor], first: Tensor, available: Tensor) -> Tensor:
    """Return how far a motion, decoded from another encoder's token and encoded anew, is off, (P,).

    Args:
        reencoded: latents (P, n, k) of the first encoder for what the tokens of each other one
            were decoded to.
        first: the first encoder's latents of the true motion, (P, n, k).
        available: (P, n, encoders) bool.
    """
    total = first.new_zeros(first.shape[0])
    for index, latent in enumerate(reencoded, start=1):
        both = available[..., 0] & available[..., index]
        total = total + masked_mean(distance(latent, first, "mse"), both)
    return total


def guidance(outputs: Tensor, wanted: Tensor, log_std: Tensor) -> Tensor:
    """Return how far the policy is from one of the same noise about given actions, (P,).

    KL = sum_a (mean_a - wanted_a)^2 / (2 std_a^2), a mean over rows.

    Args:
        outputs: means (P, n, A).
        wanted: actions (P, n, A).
        log_std: (P, A); it is not drawn to anything.
    """
    off = (outputs - wanted) * torch.exp(-log_std.detach()).unsqueeze(1)
    return 0.5 * off.square().sum(-1).mean(-1)
