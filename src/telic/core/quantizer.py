"""Finite scalar quantization, where each token dimension is one of L evenly spaced levels.

The quantizer has no parameters. With off = 1/2 if L is even, else 0, and h = (L - 1)(1 + eps) / 2:

    y = tanh(l + atanh(off / h)) h - off        in (-L/2, L/2), so that l = 0 gives y = 0
    q = y + stopgrad(round(y) - y)              an integer; the gradient passes as if it were y
    z = q / floor(L / 2)                        in [-1, 1]
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

_EPSILON = 1e-3


class Quantizer(NamedTuple):
    """Quantizer that rounds latents to levels and converts levels to indices and back."""

    levels: int
    """number of levels per dimension, at least 2"""

    @property
    def _lowest(self) -> int:
        return -(self.levels // 2)

    def bound(self, latent: Tensor) -> Tensor:
        """Return y (..., d), the latents bounded to the range of the levels."""
        half = (self.levels - 1) * (1.0 + _EPSILON) / 2.0
        offset = 0.5 if self.levels % 2 == 0 else 0.0
        return torch.tanh(latent + math.atanh(offset / half)) * half - offset

    def __call__(self, latent: Tensor) -> Tensor:
        """Return the quantized latent z. Gradients pass straight through the rounding."""
        y = self.bound(latent)
        return _straight_round(y) / (self.levels // 2)

    def snap(self, z: Tensor) -> Tensor:
        """Round z to the nearest grid value. Gradients pass straight through."""
        y = (z * (self.levels // 2)).clamp(self._lowest, self._lowest + self.levels - 1)
        return _straight_round(y) / (self.levels // 2)

    def codes(self, z: Tensor) -> Tensor:
        """Return the index of each level, 0 to L - 1, (..., d) uint8 (int16 above 256 levels)."""
        numbers = (z * (self.levels // 2)).round() - self._lowest
        return numbers.to(torch.uint8 if self.levels <= 256 else torch.int16)

    def values(self, codes: Tensor) -> Tensor:
        """Return z for level indices, i.e. the inverse of `codes`."""
        return (codes.float() + self._lowest) / (self.levels // 2)


def _straight_round(y: Tensor) -> Tensor:
    """Round exactly, with the gradient of the identity (straight-through estimator)."""
    return y.detach().round() + (y - y.detach())
