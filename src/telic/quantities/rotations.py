"""Quaternions (w, x, y, z) of unit length, batched over any leading dimensions."""

from __future__ import annotations

import torch
from torch import Tensor


def multiply(a: Tensor, b: Tensor) -> Tensor:
    """Return the product, which turns first by `b`, then by `a`."""
    aw, ax, ay, az = a.unbind(-1)
    bw, bx, by, bz = b.unbind(-1)
    return torch.stack(
        (
            aw * bw - ax * bx - ay * by - az * bz,
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by - ax * bz + ay * bw + az * bx,
            aw * bz + ax * by - ay * bx + az * bw,
        ),
        -1,
    )


def conjugate(q: Tensor) -> Tensor:
    """Return the opposite rotation."""
    return torch.cat((q[..., :1], -q[..., 1:]), -1)


def rotate(q: Tensor, v: Tensor) -> Tensor:
    """Return the vectors `v` (..., 3) turned by `q` (..., 4)."""
    v = v.expand(*torch.broadcast_shapes(q.shape[:-1], v.shape[:-1]), 3)
    axis = q[..., 1:].expand_as(v)
    twice = 2.0 * torch.linalg.cross(axis, v)
    return v + q[..., :1] * twice + torch.linalg.cross(axis, twice)


def rotation_vector(q: Tensor) -> Tensor:
    """Return axis times angle of the shorter way round, radians, (..., 3)."""
    w, v = q[..., :1], q[..., 1:]
    size = v.norm(dim=-1, keepdim=True)
    angle = 2.0 * torch.atan2(size, w.abs())
    # angle / size tends to 2 as the rotation vanishes
    factor = torch.where(size > 1e-9, angle / size.clamp_min(1e-9), torch.full_like(size, 2.0))
    return torch.where(w < 0, -factor, factor) * v


def wrap(angle: Tensor) -> Tensor:
    """Return the same angle in (-pi, pi]."""
    return torch.atan2(angle.sin(), angle.cos())
