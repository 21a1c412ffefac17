"""Rotations as unit quaternions (w, x, y, z), batched over any leading dimensions.

None of the functions copies data to the host, so they can be captured in CUDA graphs.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from telic.core.tensors import broadcast, cross, norm

_TINY = 1e-9
_STRAIGHT = 0.9995
"""cosine of the angle above which slerp interpolates linearly"""


@lru_cache(maxsize=16)
def _opposite(device: torch.device, dtype: torch.dtype) -> Tensor:
    return torch.tensor((1.0, -1.0, -1.0, -1.0), device=device, dtype=dtype)


def conjugate(q: Tensor) -> Tensor:
    """Return the inverse rotation."""
    return q * _opposite(q.device, q.dtype)


def element(q: Tensor, row: int, column: int) -> Tensor:
    """Return one element of the rotation matrix: world component `row` of body axis `column`."""
    w, parts = q[..., 0], (q[..., 1], q[..., 2], q[..., 3])
    if row == column:
        first, second = (parts[k] for k in range(3) if k != row)
        return 1.0 - 2.0 * (first * first + second * second)
    third = w * parts[3 - row - column]
    # the elements below the diagonal in cyclic order carry +w
    signed = third if (row - column) % 3 == 1 else -third
    return 2.0 * (parts[row] * parts[column] + signed)


def gravity_direction(q: Tensor) -> Tensor:
    """Return the direction of gravity in the body frame, (..., 3): (0, 0, -1) when upright."""
    return -torch.stack([element(q, 2, column) for column in range(3)], dim=-1)


def rotate(q: Tensor, v: Tensor) -> Tensor:
    """Rotate vectors `v` (..., 3) by quaternions `q` (..., 4)."""
    axis, v = broadcast(q[..., 1:], v)
    twice = 2.0 * cross(axis, v)
    return v + q[..., :1] * twice + cross(axis, twice)


def rotation_vector(q: Tensor) -> Tensor:
    """Return the rotation vector (axis times angle, radians) of the shorter rotation, (..., 3)."""
    w, v = q[..., :1], q[..., 1:]
    size = norm(v, keepdim=True)
    angle = 2.0 * torch.atan2(size, w.abs())
    # angle / size tends to 2 as the angle tends to 0
    factor = torch.where(size > 1e-9, angle / size.clamp_min(1e-9), torch.full_like(size, 2.0))
    return torch.where(w < 0, -factor, factor) * v


def wrap(angle: Tensor) -> Tensor:
    """Wrap an angle to (-pi, pi]."""
    return torch.atan2(angle.sin(), angle.cos())


def multiply(a: Tensor, b: Tensor) -> Tensor:
    """Return the product a b, which rotates first by `b` and then by `a`."""
    real, other = a[..., :1], b[..., :1]
    left, right = broadcast(a[..., 1:], b[..., 1:])
    first = real * other - (left * right).sum(-1, keepdim=True)
    return torch.cat((first, real * right + other * left + cross(left, right)), dim=-1)


def slerp(a: Tensor, b: Tensor, share: Tensor) -> Tensor:
    """Interpolate from `a` to `b` along the shorter arc, by the fraction `share` (..., 1)."""
    cosine = (a * b).sum(-1, keepdim=True)
    b = torch.where(cosine < 0, -b, b)
    cosine = cosine.abs().clamp_max(1.0)
    angle = torch.acos(cosine.clamp_max(_STRAIGHT))
    sine = torch.sin(angle)
    near = cosine > _STRAIGHT
    first = torch.where(near, 1.0 - share, torch.sin((1.0 - share) * angle) / sine)
    second = torch.where(near, share, torch.sin(share * angle) / sine)
    between = first * a + second * b
    return between / norm(between, keepdim=True).clamp_min(_TINY)


def from_rotation_vector(vector: Tensor) -> Tensor:
    """Return the quaternion of a rotation vector in radians, (..., 3) to (..., 4)."""
    half = 0.5 * norm(vector, keepdim=True)
    # sin(x) / x, defined at 0
    return torch.cat((torch.cos(half), 0.5 * torch.sinc(half / torch.pi) * vector), dim=-1)


def about(axis: int, angle: Tensor) -> Tensor:
    """Return the rotation by angles (...) about the coordinate axis 0, 1 or 2."""
    parts = [torch.cos(angle / 2)] + [torch.zeros_like(angle) for _ in range(3)]
    parts[1 + axis] = torch.sin(angle / 2)
    return torch.stack(parts, dim=-1)


def from_euler(order: str, angles: Tensor) -> Tensor:
    """Return the rotation of intrinsic Euler angles in `order`, e.g. "ZYX".

    The result equals extrinsic rotations about the world axes in reverse order.
    """
    turns = [about("XYZ".index(axis), angles[..., i]) for i, axis in enumerate(order.upper())]
    out = turns[0]
    for turn in turns[1:]:
        out = multiply(out, turn)
    return out


def continuous(q: Tensor) -> Tensor:
    """Flip signs in a (T, 4) sequence so that neighbors are close (q and -q are equivalent)."""
    jumps = (q[1:] * q[:-1]).sum(-1) < 0
    flips = torch.cumprod(torch.where(jumps, -1.0, 1.0), dim=0)
    return torch.cat((q[:1], q[1:] * flips[:, None].to(q.dtype)))


def angular_velocity(q: Tensor, fps: float) -> Tensor:
    """Return the angular velocity (T, 3) in the world frame, rad/s, by central differences."""
    step = rotation_vector(multiply(q[1:], conjugate(q[:-1])))
    middle = rotation_vector(multiply(q[2:], conjugate(q[:-2]))) / 2
    # If two frames span more than half a turn, the shorter rotation has the wrong sign.
    middle = torch.where(norm(step[1:] + step[:-1], keepdim=True) > torch.pi, step[1:], middle)
    return torch.cat((step[:1], middle, step[-1:])) * fps


def rate(values: Tensor, fps: float) -> Tensor:
    """Return the derivative of (T, n) by central differences, one-sided at the ends."""
    step = values[1:] - values[:-1]
    middle = (values[2:] - values[:-2]) / 2
    return torch.cat((step[:1], middle, step[-1:])) * fps


def heading(q: Tensor) -> Tensor:
    """Return the yaw rotation (about the vertical axis), or the identity if upside down."""
    flat = torch.cat((q[..., :1], torch.zeros_like(q[..., 1:3]), q[..., 3:]), dim=-1)
    size = norm(flat, keepdim=True)
    nothing = torch.zeros_like(q)
    nothing[..., 0] = 1.0
    return torch.where(size > 1e-6, flat / size.clamp_min(_TINY), nothing)
