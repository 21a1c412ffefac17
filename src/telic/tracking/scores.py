"""Tracking rewards and terminations, as pure functions of the state that return (N,) values.

Relative targets (`relative`) are aligned with the robot in horizontal position and yaw:

    dq = yaw(q_robot q_reference^-1)        of the roots
    p  = (x_robot, y_robot, z_reference) + dq (p_reference - p_reference root)
    q  = dq q_reference
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from telic.core.rotations import conjugate, heading, multiply, rotate, rotation_vector
from telic.core.tensors import norm
from telic.errors import ConfigError, UnknownName
from telic.motions.kinematics import BodyStates
from telic.tracking._observations import local_points, point_turns
from telic.tracking._parts import TrackedParts
from telic.tracking.config import TerminationsGroup, TrackingReward
from telic.tracking.own_terms import NO_TERMS, OwnTerms


class Tracked(NamedTuple):
    """States, targets, actions and contacts of N robots at one time."""

    parts: TrackedParts
    bodies: BodyStates
    target: BodyStates
    relative: BodyStates
    """targets aligned with the robots in horizontal position and yaw"""
    action: Tensor
    """actions (N, A)"""
    last_action: Tensor
    joint_pos: Tensor
    """joint positions (N, J)"""
    joint_acc: Tensor
    """joint accelerations (N, nv)"""
    limits: Tensor
    """lower and upper joint limits (2, J)"""
    contact: Tensor
    """contact forces on undesired bodies (N, undesired bodies), in N"""


def relative(bodies: BodyStates, target: BodyStates) -> BodyStates:
    """Return targets aligned with the robots in horizontal position and yaw."""
    dq = heading(multiply(bodies.quat[:, 0], conjugate(target.quat[:, 0])))[:, None]
    place = torch.cat((bodies.pos[:, :1, :2], target.pos[:, :1, 2:]), dim=-1)
    pos = place + rotate(dq, target.pos - target.pos[:, :1])
    quat = multiply(dq.expand_as(target.quat), target.quat)
    return BodyStates(pos, quat, target.lin_vel, target.ang_vel)


def angle(one: Tensor, other: Tensor) -> Tensor:
    """Return the angles between quaternions (..., 4), in rad."""
    return norm(rotation_vector(multiply(conjugate(one), other)))


ERRORS: dict[str, Callable[[Tracked], Tensor]] = {
    "anchor_place": lambda t: (t.target.pos[:, 0] - t.bodies.pos[:, 0]).square().sum(-1),
    "anchor_turn": lambda t: angle(t.target.quat[:, 0], t.bodies.quat[:, 0]).square(),
    "body_places": lambda t: (t.relative.pos - t.bodies.pos).square().sum(-1).mean(-1),
    "body_turns": lambda t: angle(t.relative.quat, t.bodies.quat).square().mean(-1),
    "body_velocities": lambda t: (t.target.lin_vel - t.bodies.lin_vel).square().sum(-1).mean(-1),
    "body_spins": lambda t: (t.target.ang_vel - t.bodies.ang_vel).square().sum(-1).mean(-1),
    "points": lambda t: (
        (local_points(t.target, t.parts) - local_points(t.bodies, t.parts))
        .square()
        .sum(-1)
        .mean(-1)
    ),
    "point_turns": lambda t: (
        angle(point_turns(t.bodies, t.parts), point_turns(t.target, t.parts)).square().mean(-1)
    ),
}
"""squared errors that are rewarded by exp(-error / sigma^2)"""


def _joint_limits(t: Tracked, limit: float) -> Tensor:
    middle, half = t.limits.mean(0), (t.limits[1] - t.limits[0]) / 2.0
    beyond = ((t.joint_pos - middle).abs() - limit * half).clamp_min(0.0)
    return torch.where(half.isfinite(), beyond, 0.0).sum(-1)


def _shaking(t: Tracked, limit: float) -> Tensor:
    ends = t.bodies.ang_vel[:, t.parts.ends]
    return (norm(ends) - limit).clamp_min(0.0).square().mean(-1)


CHARGES: dict[str, Callable[[Tracked, float], Tensor]] = {
    "action_rate": lambda t, _: (t.action - t.last_action).square().sum(-1),
    "joint_limits": _joint_limits,
    "contacts": lambda t, limit: (t.contact > limit).to(t.contact.dtype).sum(-1),
    "shaking": _shaking,
    "foot_acceleration": lambda t, _: t.joint_acc[:, t.parts.foot_joints].square().sum(-1),
}
"""penalties, as functions of the state and a threshold below which they are zero"""


def check_rewards(terms: dict[str, TrackingReward], own: OwnTerms = NO_TERMS) -> None:
    """Raise UnknownName or ConfigError for invalid reward terms."""
    errors, penalties = {**ERRORS, **own.errors}, {**CHARGES, **own.penalties}
    for name, term in terms.items():
        if name not in errors and name not in penalties:
            raise UnknownName("reward", name, [*errors, *penalties])
        if (name in errors) != (term.sigma is not None):
            need = "requires a sigma" if name in errors else "has no sigma"
            raise ConfigError(f"rewards.terms.{name} {need}.")


def rewards(
    tracked: Tracked,
    terms: dict[str, TrackingReward],
    dt: float,
    charged: Tensor | float = 1.0,
    own: OwnTerms = NO_TERMS,
) -> dict[str, Tensor]:
    """Return the weighted reward terms of a step, each (N,), which sum to the reward.

    Penalties are scaled by `charged`.
    """
    out: dict[str, Tensor] = {}
    for name, term in terms.items():
        if term.sigma is not None:
            error = (own.errors.get(name) or ERRORS[name])(tracked)
            value = torch.exp(-error / term.sigma**2)
        elif name in own.penalties:
            value = own.penalties[name](tracked, limit=term.limit) * charged
        else:
            value = CHARGES[name](tracked, term.limit or 0.0) * charged
        out[name] = value * (term.weight * dt)
    return out


def failures(
    tracked: Tracked,
    limits: TerminationsGroup,
    low: Tensor,
    leniency: Tensor | float = 1.0,
    own: OwnTerms = NO_TERMS,
) -> dict[str, Tensor]:
    """Return a mask (N,) of failed episodes for each termination."""
    out = {name: ends(tracked) for name, ends in own.terminations.items()}
    bodies, target, near = tracked.bodies, tracked.target, tracked.relative

    def height(most: float) -> Tensor:
        strict = torch.full_like(bodies.pos[:, 0, 2], most)
        return torch.where(low, max(limits.low_height_m, most), strict)

    if limits.anchor_height_m is not None:
        off = (target.pos[:, 0, 2] - bodies.pos[:, 0, 2]).abs()
        out["anchor_height"] = off > height(limits.anchor_height_m) * leniency
    if limits.anchor_turn_rad is not None:
        off = angle(target.quat[:, 0], bodies.quat[:, 0])
        out["anchor_turn"] = off > limits.anchor_turn_rad * leniency
    if limits.end_height_m is not None:
        ends = tracked.parts.ends
        off = (near.pos[:, ends, 2] - bodies.pos[:, ends, 2]).abs().amax(-1)
        out["end_height"] = off > height(limits.end_height_m) * leniency
    if limits.foot_place_m is not None:
        feet = tracked.parts.feet
        off = norm(near.pos[:, feet] - bodies.pos[:, feet]).amax(-1)
        out["foot_place"] = off > limits.foot_place_m * leniency
    if limits.anchor_place_m is not None:
        off = norm((target.pos[:, 0] - bodies.pos[:, 0])[:, :2])
        out["anchor_place"] = off > limits.anchor_place_m * leniency
    return out
