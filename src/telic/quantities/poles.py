"""Instant quantities of balanced poles: pendulums on a cart, and the classic control tasks."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from telic.envs.spec import EnvSpec
from telic.quantities.motion import coordinate, rate
from telic.quantities.quantity import Fields, Need, instant, robot_in, spec_in
from telic.quantities.rotations import rotate, wrap


class _Classic(NamedTuple):
    """Where a classic control task keeps its poles in `info["state"]`."""

    angles: slice
    rates: slice
    upright: float  # what the first angle reads when the pole points up


CLASSIC = {
    "CartPole": _Classic(slice(2, 3), slice(3, 4), 0.0),
    "Pendulum": _Classic(slice(0, 1), slice(1, 2), 0.0),
    "Acrobot": _Classic(slice(0, 2), slice(2, 4), math.pi),
}


def _classic(spec: EnvSpec) -> _Classic | None:
    return CLASSIC.get(spec.id.split("-v")[0]) if "state" in spec.info_keys else None


POLES = Need(
    "a pole to balance",
    lambda spec: bool(spec.robot and spec.robot.poles) or _classic(spec) is not None,
)
TIP = Need("a pole on a cart", lambda spec: spec.robot is not None and spec.robot.tip is not None)


def _angles(info: Fields) -> Tensor:
    classic = _classic(spec_in(info))
    if classic is None:
        relative = torch.stack([coordinate(info, each) for each in robot_in(info).poles], -1)
        return wrap(relative.cumsum(-1))
    return wrap(info["state"][..., classic.angles].cumsum(-1) - classic.upright)


@instant(unit="rad", latex=r"\theta_k = \sum_{i \le k} q_i", need=POLES, per="pole")
def pole_angles(info: Fields) -> Tensor:
    """Angle of each pole from upright, in (-pi, pi]; on a cart, leaning towards +x is positive."""
    return _angles(info)


@instant(unit="rad", latex=r"\theta_1", need=POLES)
def pole_angle(info: Fields) -> Tensor:
    """Angle of the first (lowest) pole from upright, in (-pi, pi]."""
    return _angles(info)[..., 0]


@instant(unit="rad/s", latex=r"\dot\theta_k = \sum_{i \le k} \dot q_i", need=POLES, per="pole")
def pole_rates(info: Fields) -> Tensor:
    """Angular velocity of each pole in the world."""
    classic = _classic(spec_in(info))
    if classic is None:
        relative = torch.stack([rate(info, each) for each in robot_in(info).poles], -1)
        return relative.cumsum(-1)
    return info["state"][..., classic.rates].cumsum(-1)


@instant(unit="m", latex=r"z_\text{tip}", need=TIP)
def tip_height(info: Fields) -> Tensor:
    """Height of the end of the last pole above the world's zero level."""
    tip = robot_in(info).tip
    assert tip is not None  # the need says so
    body, point = tip
    xpos, xquat = info["xpos"][..., body, :], info["xquat"][..., body, :]
    return (xpos + rotate(xquat, xpos.new_tensor(point)))[..., 2]
