"""Quaternions (w, x, y, z) of unit length, batched over any leading dimensions."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from telic.core.tensors import broadcast, cross, norm


@lru_cache(maxsize=16)
def _product_table(device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return which part of `a` stands where, and its sign, in the matrix that multiplies `b`."""
    place = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2], [2, 3, 0, 1], [3, 2, 1, 0]], device=device)
    sign = [[1, -1, -1, -1], [1, 1, -1, 1], [1, 1, 1, -1], [1, -1, 1, 1]]
    return place, torch.tensor(sign, device=device, dtype=dtype)


def multiply(a: Tensor, b: Tensor) -> Tensor:
    """Return the product, which turns first by `b`, then by `a`."""
    place, sign = _product_table(a.device, a.dtype)
    return ((a[..., place] * sign) @ b.unsqueeze(-1)).squeeze(-1)


@lru_cache(maxsize=16)
def _opposite(device: torch.device, dtype: torch.dtype) -> Tensor:
    return torch.tensor((1.0, -1.0, -1.0, -1.0), device=device, dtype=dtype)


def conjugate(q: Tensor) -> Tensor:
    """Return the opposite rotation."""
    return q * _opposite(q.device, q.dtype)


def element(q: Tensor, row: int, column: int) -> Tensor:
    """Return one element of the rotation matrix: world component `row` of the body's `column`."""
    w, parts = q[..., 0], (q[..., 1], q[..., 2], q[..., 3])
    if row == column:
        first, second = (parts[k] for k in range(3) if k != row)
        return 1.0 - 2.0 * (first * first + second * second)
    third = w * parts[3 - row - column]
    # the elements below the diagonal in cyclic order carry +w
    signed = third if (row - column) % 3 == 1 else -third
    return 2.0 * (parts[row] * parts[column] + signed)


def rotate(q: Tensor, v: Tensor) -> Tensor:
    """Return the vectors `v` (..., 3) turned by `q` (..., 4)."""
    axis, v = broadcast(q[..., 1:], v)
    twice = 2.0 * cross(axis, v)
    return v + q[..., :1] * twice + cross(axis, twice)


def rotation_vector(q: Tensor) -> Tensor:
    """Return axis times angle of the shorter way round, radians, (..., 3)."""
    w, v = q[..., :1], q[..., 1:]
    size = norm(v, keepdim=True)
    angle = 2.0 * torch.atan2(size, w.abs())
    # angle / size tends to 2 as the rotation vanishes
    factor = torch.where(size > 1e-9, angle / size.clamp_min(1e-9), torch.full_like(size, 2.0))
    return torch.where(w < 0, -factor, factor) * v


def wrap(angle: Tensor) -> Tensor:
    """Return the same angle in (-pi, pi]."""
    return torch.atan2(angle.sin(), angle.cos())
