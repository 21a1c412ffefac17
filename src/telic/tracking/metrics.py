"""How well a motion was followed: errors of bodies over the frames that were played.

P are places of the robot's bodies and G those of the reference, (T, B, 3), metres. Frames after a
failure do not count. Local errors are relative to the root of each.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from telic.core.tensors import norm
from telic.tracking.reports import FollowErrors

_MM = 1000.0
_linalg: Any = torch.linalg


def _decomposed(matrices: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return _linalg.svd(matrices)


def similarity(robot: Tensor, target: Tensor) -> Tensor:
    """Return the robot's places (T, B, 3) after the rotation, scale and shift that fit best.

    Umeyama (1991), frame by frame.
    """
    a, b = robot.double(), target.double()
    middle_a, middle_b = a.mean(1, keepdim=True), b.mean(1, keepdim=True)
    x, y = a - middle_a, b - middle_b
    u, s, vt = _decomposed(y.transpose(1, 2) @ x)
    sign = torch.ones_like(s)
    sign[:, -1] = torch.sign(_linalg.det(u @ vt))
    turn = u @ torch.diag_embed(sign) @ vt
    spread = x.square().sum((1, 2)).clamp_min(1e-12)
    scale = ((s * sign).sum(1) / spread)[:, None, None]
    return scale * (x @ turn.transpose(1, 2)) + middle_b


def follow_errors(robot: Tensor, target: Tensor, dt: float) -> FollowErrors:
    """Measure places (T, B, 3) against those of the reference."""
    robot, target = robot.double(), target.double()
    off = robot - target
    local = off - off[:, :1]
    speed = norm(off[1:] - off[:-1]).mean().item() if len(off) > 1 else None
    second = off[2:] - 2.0 * off[1:-1] + off[:-2]
    jolt = norm(second).mean().item() if len(off) > 2 else None
    return FollowErrors(
        mpjpe_g_mm=_MM * norm(off).mean().item(),
        mpjpe_l_mm=_MM * norm(local).mean().item(),
        mpjpe_pa_mm=_MM * norm(similarity(robot, target) - target).mean().item(),
        velocity_mm=None if speed is None else _MM * speed,
        velocity_m_s=None if speed is None else speed / dt,
        acceleration_mm=None if jolt is None else _MM * jolt,
        acceleration_m_s2=None if jolt is None else jolt / dt**2,
        drift_m=norm(off[-1, 0, :2]).item(),
    )
