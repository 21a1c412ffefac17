"""Quantities accumulated over the episode, each with a small state of shape (N, width).

The first step of an episode sets the reference, so the change within that step is not included.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from telic.core.rotations import conjugate, multiply, rotation_vector
from telic.quantities._bodies import MOTORS, foot_contact, places, power, scaled_action
from telic.quantities._motion import coordinate, orientation, position
from telic.quantities.quantity import (
    CONTINUOUS,
    FEET,
    Fields,
    Update,
    moves_along,
    num_feet,
    quantity,
    robot_in,
    robot_need,
    time_step,
    turns_about,
)

TURN = 1.0 / (2.0 * math.pi)
SIDES = robot_need("feet on two sides", lambda robot: robot.sides)


def _turned(state: Tensor, info: Fields, axis: int, *, world: bool = False) -> Update:
    """Accumulate rotation. The memory holds a flag, the total, and the last angle or direction."""
    hinge = robot_in(info).root.hinge
    if hinge is not None:
        angle = coordinate(info, hinge)
        total = state[..., 1] + state[..., 0] * (angle - state[..., 2])
        spare = torch.zeros_like(angle)
        return torch.stack((torch.ones_like(angle), total, angle, spare, spare, spare), -1), total
    now, before = orientation(info), conjugate(state[..., 2:6])
    # before * now is the rotation in the robot frame, now * before in the world frame; at the first
    # step `before` is zero, and so is the rotation
    step = multiply(now, before) if world else multiply(before, now)
    total = state[..., 1] + rotation_vector(step)[..., axis]
    return torch.cat((torch.stack((torch.ones_like(total), total), -1), now), -1), total


_AXES = (
    ("roll", 0, "the robot's own forward axis", "Tipping to the right is positive"),
    ("pitch", 1, "the robot's own left axis", "A front flip is +1 turn and a backflip is -1"),
    ("yaw", 2, "the robot's own up axis", "Turning left is positive"),
    ("heading", 2, "the world's vertical", "Turning left is positive"),
)


def _register(name: str, axis: int, about: str, sign: str, unit: str) -> None:
    """Register the accumulated rotation about an axis, in radians or in turns."""
    is_turns, world = unit == "turns", name == "heading"

    def update(state: Tensor, info: Fields) -> Update:
        state, angle = _turned(state, info, axis, world=world)
        return state, angle * TURN if is_turns else angle

    update.__name__ = f"{name}_{'turns' if is_turns else 'rotation'}"
    what = "Full turns" if is_turns else "Rotation"
    update.__doc__ = f"{what} about {about} since the start, unwrapped. {sign}."
    rate = rf"\omega_{'xyz'[axis]}" + (r"^\text{world}" if world else "")
    latex = (r"\frac{1}{2\pi}" if is_turns else "") + rf"\int {rate}\,dt"
    need = turns_about("xyz"[axis])
    quantity(unit=unit, latex=latex, need=need, width=6)(update)


for _unit in ("rad", "turns"):
    for _axis in _AXES:
        _register(*_axis, _unit)


@quantity(unit="m", latex=r"x_t - x_1", need=moves_along("x"), width=2)
def displacement(state: Tensor, info: Fields) -> Update:
    """Displacement along x since the start of the episode. Backward is negative."""
    # memory: seen, initial x
    x = position(info, "x")
    start = torch.where(state[..., 0] > 0, state[..., 1], x)
    return torch.stack((torch.ones_like(x), start), -1), x - start


@quantity(unit="m", latex=r"\sum_t \|p_t - p_{t-1}\|_{xy}", need=moves_along("x"), width=4)
def distance_traveled(state: Tensor, info: Fields) -> Update:
    """Length of the horizontal path since the start of the episode, including detours."""
    # memory: seen, total, last x, last y
    x = position(info, "x")
    y = position(info, "y")
    step = torch.hypot(x - state[..., 2], y - state[..., 3])
    total = state[..., 1] + state[..., 0] * step
    return torch.stack((torch.ones_like(x), total, x, y), -1), total


@quantity(
    unit="1",
    latex=r"\frac{1}{t}\sum_{s \le t} \text{contact}_i(s)",
    need=FEET,
    width=lambda spec: 1 + num_feet(spec),
    per="foot",
)
def foot_duty_factor(state: Tensor, info: Fields) -> Update:
    """Fraction of the episode so far in which each foot was on the ground."""
    # memory: steps, steps with ground contact per foot
    steps = state[..., :1] + 1.0
    on_ground = state[..., 1:] + foot_contact.function(info)
    return torch.cat((steps, on_ground), -1), on_ground / steps


@quantity(unit="s", latex=r"t - t_\text{last contact}", need=FEET, width=1)
def air_time(state: Tensor, info: Fields) -> Update:
    """Time since the last foot left the ground, or 0 while any foot is in contact."""
    airborne = (foot_contact.function(info).amax(-1) == 0).to(state.dtype)
    clock = (state[..., 0] + time_step(info)) * airborne
    return clock.unsqueeze(-1), clock


@quantity(
    unit="1",
    latex=r"\frac{\#\{\text{touchdowns on the other side}\}}{\#\{\text{touchdowns}\} - 1}",
    need=SIDES,
    width=5,
)
def stride_alternation(state: Tensor, info: Fields) -> Update:
    """Share of touchdowns that follow one of the opposite side: 1 for walking and 0 for hopping.

    The sides are left and right, or back and front for a planar robot without left and right feet.
    If both sides land in the same step, the touchdown does not alternate. The share is 0 before the
    second touchdown.
    """
    # memory: each side's contact, last side (-1, 0, 1), touchdowns, alternations
    contact, sides = foot_contact.function(info), robot_in(info).sides
    assert sides is not None  # guaranteed by the quantity's precondition
    left, right = (contact[..., places(side, contact.device)].amax(-1) for side in sides)
    left_lands = left * (1.0 - state[..., 0])
    right_lands = right * (1.0 - state[..., 1])
    last = state[..., 2]
    landed = torch.maximum(left_lands, right_lands)
    side = right_lands - left_lands  # 0 if both land in the same step
    touchdowns = state[..., 3] + landed
    alternations = state[..., 4] + (side * last < 0).to(state.dtype)
    last = torch.where(landed > 0, side, last)
    memory = torch.stack((left, right, last, touchdowns, alternations), -1)
    return memory, alternations / (touchdowns - 1.0).clamp_min(1.0)


@quantity(unit="J", latex=r"\sum_t \sum_j |\tau_j \dot q_j|\,\Delta t", need=MOTORS, width=1)
def energy(state: Tensor, info: Fields) -> Update:
    """Mechanical work of all motors since the episode began. Braking counts as positive work."""
    total = state[..., 0] + power.function(info) * time_step(info)
    return total.unsqueeze(-1), total


@quantity(
    unit="1",
    latex=r"\frac{1}{n}\sum_i (a_{t,i} - a_{t-1,i})^2",
    need=CONTINUOUS,
    width=lambda spec: 1 + spec.act_dim,
)
def action_change(state: Tensor, info: Fields) -> Update:
    """Mean squared change of the scaled action since the previous step, or 0 in the first step."""
    # memory: seen, last action
    action = scaled_action(info)
    change = state[..., 0] * (action - state[..., 1:]).square().mean(-1)
    return torch.cat((torch.ones_like(change).unsqueeze(-1), action), -1), change
