"""Rotations of motions: unit quaternions (w, x, y, z) blended, made and differentiated in batches.

What every part of the package needs beside `quantities.rotations`; all of it broadcasts over any
leading dimensions and looks at no values, so that it can be recorded on a GPU.
"""

from __future__ import annotations

import torch
from torch import Tensor

from telic.core.tensors import cross, norm
from telic.quantities.rotations import conjugate, rotate, rotation_vector

_TINY = 1e-9
_STRAIGHT = 0.9995
"""cosine above which two rotations are so near that the straight way is the round one"""


def unit(q: Tensor) -> Tensor:
    """Return quaternions of length 1."""
    return q / norm(q, keepdim=True).clamp_min(_TINY)


def multiply(a: Tensor, b: Tensor) -> Tensor:
    """Return the product, which turns first by `b`, then by `a`.

    Of many bodies in many frames it takes a fifth of the time that products of matrices take.
    """
    real, left, other, right = a[..., :1], a[..., 1:], b[..., :1], b[..., 1:]
    first = real * other - (left * right).sum(-1, keepdim=True)
    return torch.cat((first, real * right + other * left + cross(left, right)), dim=-1)


def slerp(a: Tensor, b: Tensor, share: Tensor) -> Tensor:
    """Return the rotation that is `share` (..., 1) of the shorter way from `a` to `b`."""
    cosine = (a * b).sum(-1, keepdim=True)
    b = torch.where(cosine < 0, -b, b)
    cosine = cosine.abs().clamp_max(1.0)
    angle = torch.acos(cosine.clamp_max(_STRAIGHT))
    sine = torch.sin(angle)
    near = cosine > _STRAIGHT
    first = torch.where(near, 1.0 - share, torch.sin((1.0 - share) * angle) / sine)
    second = torch.where(near, share, torch.sin(share * angle) / sine)
    return unit(first * a + second * b)


def from_rotation_vector(vector: Tensor) -> Tensor:
    """Return the rotation about an axis by its length in radians, (..., 3) to (..., 4)."""
    half = 0.5 * norm(vector, keepdim=True)
    # sin(x) / x without the hole at nought
    return torch.cat((torch.cos(half), 0.5 * torch.sinc(half / torch.pi) * vector), dim=-1)


def about(axis: int, angle: Tensor) -> Tensor:
    """Return the rotation about the axis 0, 1 or 2 by angles (...)."""
    parts = [torch.cos(angle / 2)] + [torch.zeros_like(angle) for _ in range(3)]
    parts[1 + axis] = torch.sin(angle / 2)
    return torch.stack(parts, dim=-1)


def from_euler(order: str, angles: Tensor) -> Tensor:
    """Return turns about the axes of `order` ("ZYX"), each about the axis as turned before.

    Read from right to left, the same turns are about the fixed axes of the world.
    """
    turns = [about("XYZ".index(axis), angles[..., i]) for i, axis in enumerate(order.upper())]
    out = turns[0]
    for turn in turns[1:]:
        out = multiply(out, turn)
    return out


def continuous(q: Tensor) -> Tensor:
    """Return (T, 4) with signs such that neighbours are near: q and -q are one rotation."""
    jumps = (q[1:] * q[:-1]).sum(-1) < 0
    flips = torch.cumprod(torch.where(jumps, -1.0, 1.0), dim=0)
    return torch.cat((q[:1], q[1:] * flips[:, None].to(q.dtype)))


def angular_velocity(q: Tensor, fps: float) -> Tensor:
    """Return the angular velocity (T, 3) in the world, rad/s, by central differences."""
    step = rotation_vector(multiply(q[1:], conjugate(q[:-1])))
    middle = rotation_vector(multiply(q[2:], conjugate(q[:-2]))) / 2
    # Over a turn of more than half a circle in two frames the shorter way is the wrong one.
    middle = torch.where(norm(step[1:] + step[:-1], keepdim=True) > torch.pi, step[1:], middle)
    return torch.cat((step[:1], middle, step[-1:])) * fps


def rate(values: Tensor, fps: float) -> Tensor:
    """Return the change per second of (T, n), by central differences, one-sided at the ends."""
    step = values[1:] - values[:-1]
    middle = (values[2:] - values[:-2]) / 2
    return torch.cat((step[:1], middle, step[-1:])) * fps


def heading(q: Tensor) -> Tensor:
    """Return the part of a rotation that is about the vertical; none for one upside down."""
    flat = torch.cat((q[..., :1], torch.zeros_like(q[..., 1:3]), q[..., 3:]), dim=-1)
    size = norm(flat, keepdim=True)
    nothing = torch.zeros_like(q)
    nothing[..., 0] = 1.0
    return torch.where(size > 1e-6, flat / size.clamp_min(_TINY), nothing)


def relative(a: Tensor, b: Tensor) -> Tensor:
    """Return what turns `a` into `b`, seen from `a`."""
    return multiply(conjugate(a), b)


__all__ = [
    "about",
    "angular_velocity",
    "conjugate",
    "continuous",
    "from_euler",
    "from_rotation_vector",
    "heading",
    "multiply",
    "rate",
    "relative",
    "rotate",
    "rotation_vector",
    "slerp",
    "unit",
]
