"""Instantaneous quantities of bodies, joints, feet, motors and targets.

Positions and velocities of bodies are MuJoCo's values after a step. They are one physics substep
older than the joint state.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from telic.core.rotations import rotate
from telic.core.tensors import cross, norm
from telic.envs.spec import EnvSpec, Limb, Robot
from telic.errors import UnknownName, UsageError
from telic.quantities.quantity import (
    CONTINUOUS,
    FEET,
    ROBOT,
    TRAVELS,
    Fields,
    quantity,
    robot_in,
    robot_need,
    spec_in,
)

MOTORS = robot_need("motors with known torque", lambda robot: robot.motors)
LIMITS = robot_need("joints with limits", lambda robot: any(each.range for each in robot.limbs))
LIMBS = robot_need("joints other than those of the base", lambda robot: robot.limbs)
UPPER = robot_need(
    "legs, and joints that are not part of a leg", lambda robot: robot.legs and _upper(robot)
)
SPLAY = robot_need("legs with abduction or rotation joints", lambda robot: _splay(robot))
TARGET = robot_need("an environment with a target", lambda robot: robot.target is not None)


def body_row(spec: EnvSpec, body: str) -> int:
    """Return the row of a named body in per-body arrays."""
    if body not in spec.body_names:
        raise UnknownName("body", body, list(spec.body_names))
    return spec.body_names.index(body)


def limb(spec: EnvSpec, joint: str) -> Limb:
    """Return a joint of the robot by name."""
    limbs = {} if spec.robot is None else {each.name: each for each in spec.robot.limbs}
    if joint not in limbs:
        raise UnknownName("joint", joint, list(limbs))
    return limbs[joint]


def touch(info: Fields) -> Tensor:
    """Return the magnitude of the contact force on every body, (..., nbody), newtons."""
    if "contacts" in info:
        return info["contacts"]
    return norm(info["cfrc_ext"][..., 3:])


@lru_cache(maxsize=256)
def constant(values: tuple[Any, ...], device: torch.device, dtype: torch.dtype) -> Tensor:
    """Return a cached tensor of constants, which avoids a transfer at every step."""
    return torch.tensor(values, device=device, dtype=dtype)


def places(columns: Iterable[int], device: torch.device) -> Tensor:
    """Return a cached index tensor."""
    return constant(tuple(columns), device, torch.long)


class _Motors(NamedTuple):
    """Properties of a robot's motors as tensors of shape (A,)."""

    qpos: Tensor
    dof: Tensor
    gear: Tensor
    gain: Tensor
    control: Tensor  # (2, A)
    bias: Tensor | None  # (3, A); None for plain motors
    force: Tensor | None  # (2, A); None without limits


@lru_cache(maxsize=64)
def _motors(robot: Robot, device: torch.device, dtype: torch.dtype) -> _Motors:
    motors = robot.motors or ()
    unlimited = (-torch.inf, torch.inf)

    def numbers(values: Sequence[float | Sequence[float]]) -> Tensor:
        return torch.tensor(values, device=device, dtype=dtype)

    return _Motors(
        torch.tensor([each.qpos for each in motors], device=device),
        torch.tensor([each.dof for each in motors], device=device),
        numbers([each.gear for each in motors]),
        numbers([each.gain for each in motors]),
        numbers([each.control_range or unlimited for each in motors]).T,
        numbers([each.bias for each in motors]).T if any(any(m.bias) for m in motors) else None,
        numbers([each.force_range or unlimited for each in motors]).T
        if any(each.force_range for each in motors)
        else None,
    )


@lru_cache(maxsize=64)
def _action_range(
    low: tuple[float, ...], high: tuple[float, ...], device: torch.device, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Return the center and the half-width of the action range, each of shape (A,)."""
    least, most = (torch.tensor(each, device=device, dtype=dtype) for each in (low, high))
    return (most + least) / 2.0, ((most - least) / 2.0).clamp_min(1e-9)


def scaled_action(info: Fields) -> Tensor:
    """Return the action with each column scaled to [-1, 1] by its range, shape (..., A)."""
    spec, action = spec_in(info), info["action"]
    middle, half = _action_range(spec.action_low, spec.action_high, action.device, action.dtype)
    return (action - middle) / half


@lru_cache(maxsize=64)
def _upper(robot: Robot) -> tuple[int, ...]:
    """Return the qpos columns of the joints that are not part of a leg."""
    of_legs = {column for leg in robot.legs for column in leg.qpos}
    return tuple(each.qpos for each in robot.limbs if each.qpos not in of_legs)


def _splay(robot: Robot) -> tuple[int, ...]:
    """Return the qpos columns of the joints that abduct or rotate a leg."""
    return tuple(column for leg in robot.legs for column in leg.splay)


def _off_rest(info: Fields, columns: tuple[int, ...]) -> Tensor:
    qpos, resting = info["qpos"], robot_in(info).rest_qpos
    rest = constant(tuple(resting[each] for each in columns), qpos.device, qpos.dtype)
    return (qpos[..., places(columns, qpos.device)] - rest).square().mean(-1).sqrt()


@lru_cache(maxsize=64)
def _masses(robot: Robot, device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return the mass fractions (nbody,) and centers of mass (nbody, 3) of all bodies."""
    own = [robot.torso is None or root == robot.torso for root in robot.body_root]
    mass = [
        each / robot.mass if mine else 0.0 for each, mine in zip(robot.body_mass, own, strict=True)
    ]
    center = torch.tensor(robot.body_center, device=device, dtype=dtype)
    return torch.tensor(mass, device=device, dtype=dtype), center


@quantity(unit="m", latex=r"p_b", need=ROBOT, per="axis")
def body_position(info: Fields, body: str) -> Tensor:
    """Position (x, y, z) of a body's origin in the world, m."""
    return info["xpos"][..., body_row(spec_in(info), body), :]


@quantity(unit="m", latex=r"z_b", need=ROBOT)
def body_height(info: Fields, body: str) -> Tensor:
    """Height of a body's origin above the zero level of the world."""
    return info["xpos"][..., body_row(spec_in(info), body), 2]


@quantity(unit="m/s", latex=r"v_b = v_c + \omega_b \times (p_b - c)", need=ROBOT, per="axis")
def body_velocity(info: Fields, body: str) -> Tensor:
    """Velocity (x, y, z) of a body's origin in the world."""
    row = body_row(spec_in(info), body)
    # MuJoCo gives the velocity at the point c, the center of mass of the body's whole tree
    turning, moving = info["cvel"][..., row, :3], info["cvel"][..., row, 3:]
    center = info["subtree_com"][..., robot_in(info).body_root[row], :]
    return moving + cross(turning, info["xpos"][..., row, :] - center)


@quantity(unit="N", latex=r"\|f_b\|", need=ROBOT)
def contact_force(info: Fields, body: str) -> Tensor:
    """Magnitude of the contact force on a body."""
    return touch(info)[..., body_row(spec_in(info), body)]


@quantity(unit="rad or m", latex=r"q_j", need=ROBOT)
def joint_position(info: Fields, joint: str) -> Tensor:
    """Position of a joint of the robot, with the model's sign convention."""
    return info["qpos"][..., limb(spec_in(info), joint).qpos]


@quantity(unit="rad/s or m/s", latex=r"\dot q_j", need=ROBOT)
def joint_velocity(info: Fields, joint: str) -> Tensor:
    """Velocity of a joint of the robot, with the model's sign convention."""
    return info["qvel"][..., limb(spec_in(info), joint).dof]


@quantity(unit="rad/s or m/s", latex=r"\sqrt{\frac{1}{J}\sum_j \dot q_j^2}", need=LIMBS)
def joint_speed(info: Fields) -> Tensor:
    """Root mean square velocity of the robot's joints. A robot that holds its pose has 0."""
    qvel = info["qvel"]
    own = places((each.dof for each in robot_in(info).limbs), qvel.device)
    return qvel[..., own].square().mean(-1).sqrt()


@quantity(unit="rad or m", latex=r"\sqrt{\frac{1}{U}\sum_j (q_j - q_j^0)^2}", need=UPPER)
def upper_pose_error(info: Fields) -> Tensor:
    """Root mean square deviation of the waist and arm joints from the resting pose."""
    return _off_rest(info, _upper(robot_in(info)))


@quantity(unit="rad or m", latex=r"\sqrt{\frac{1}{S}\sum_j (q_j - q_j^0)^2}", need=SPLAY)
def leg_splay(info: Fields) -> Tensor:
    """Root mean square deviation of the legs' abduction and rotation joints from rest."""
    return _off_rest(info, _splay(robot_in(info)))


@quantity(unit="1", latex=r"\max_j |2 q_j - u_j - l_j| / (u_j - l_j)", need=LIMITS)
def joint_limit_closeness(info: Fields) -> Tensor:
    """Closeness of joints to their limits, from 0 (all centered) to 1 (at least one at a limit)."""
    qpos = info["qpos"]
    limited = [each for each in robot_in(info).limbs if each.range]
    ranges = tuple(each.range for each in limited)
    low, high = constant(ranges, qpos.device, qpos.dtype).T
    own = qpos[..., places((each.qpos for each in limited), qpos.device)]
    place = (2.0 * own - high - low) / (high - low)
    return place.abs().amax(-1)


@quantity(unit="m", latex=r"c = \sum_b m_b c_b / \sum_b m_b", need=TRAVELS, per="axis")
def center_of_mass(info: Fields) -> Tensor:
    """Center of mass (x, y, z) of the robot."""
    return info["subtree_com"][..., robot_in(info).torso, :]


@quantity(unit="m", latex=r"c_z", need=TRAVELS)
def center_of_mass_height(info: Fields) -> Tensor:
    """Height of the robot's center of mass above the zero level of the world."""
    return info["subtree_com"][..., robot_in(info).torso, 2]


@quantity(unit="m/s", latex=r"\dot c = \sum_b m_b \dot c_b / \sum_b m_b", need=TRAVELS, per="axis")
def center_of_mass_velocity(info: Fields) -> Tensor:
    """Velocity (x, y, z) of the robot's center of mass."""
    robot, xpos = robot_in(info), info["xpos"]
    share, own_center = _masses(robot, xpos.device, xpos.dtype)
    center = info["subtree_com"][..., robot.torso, None, :]
    arm = xpos + rotate(info["xquat"], own_center) - center
    of_bodies = info["cvel"][..., 3:] + cross(info["cvel"][..., :3], arm)
    return (share[:, None] * of_bodies).sum(-2)


@quantity(unit="1", latex=r"[\,\|f_i\| > 0.01\, m g\,]", need=FEET, per="foot")
def foot_contact(info: Fields) -> Tensor:
    """Contact of each foot, which is 1 if its force exceeds 1 % of the robot's weight, else 0."""
    robot = robot_in(info)
    force = touch(info)
    on_feet = force.index_select(-1, places(robot.feet, force.device))
    return (on_feet > robot.contact_threshold).to(on_feet.dtype)


@quantity(unit="1", latex=r"\sum_i \text{contact}_i", need=FEET)
def feet_in_contact(info: Fields) -> Tensor:
    """Number of feet that are in contact with the ground or an object."""
    return foot_contact.function(info).sum(-1)


@quantity(unit="W", latex=r"\sum_j |\tau_j \dot q_j|", need=MOTORS)
def power(info: Fields) -> Tensor:
    """Mechanical power of all motors at the end of the step. Braking counts as positive work."""
    qvel = info["qvel"]
    motors = _motors(robot_in(info), qvel.device, qvel.dtype)
    moving = qvel[..., motors.dof]
    force = motors.gain * info["action"].clamp(motors.control[0], motors.control[1])
    if motors.bias is not None:
        length = motors.gear * info["qpos"][..., motors.qpos]
        force = force + motors.bias[0] + motors.bias[1] * length
        force = force + motors.bias[2] * motors.gear * moving
    if motors.force is not None:
        force = force.clamp(motors.force[0], motors.force[1])
    return (motors.gear * force * moving).abs().sum(-1)


@quantity(unit="1", latex=r"\overline{a_i^2}", need=CONTINUOUS)
def effort(info: Fields) -> Tensor:
    """Mean of the squared actions, each scaled to [-1, 1] by its range. 1 is full force."""
    return scaled_action(info).square().mean(-1)


@quantity(unit="1", latex=r"a_i", need=CONTINUOUS, per="actuator")
def action_strength(info: Fields) -> Tensor:
    """Each action scaled to [-1, 1] by its range."""
    return scaled_action(info)


@quantity(unit="m", latex=r"\|p_\text{pointer} - p_\text{target}\|", need=TARGET)
def distance_to_target(info: Fields) -> Tensor:
    """Distance from the robot's fingertip or hand to the environment's target."""
    robot, xpos = robot_in(info), info["xpos"]
    return norm(xpos[..., robot.pointer, :] - xpos[..., robot.target, :])


@quantity(unit="m", latex=r"\|p_b - g\|", need=ROBOT)
def distance_to_point(
    info: Fields, point: Sequence[float] | Tensor, body: str | None = None
) -> Tensor:
    """Distance from a body (by default the torso) to a point.

    For a point (x, y) the distance is horizontal, for a point (x, y, z) it is three-dimensional.
    """
    spec, robot = spec_in(info), robot_in(info)
    row = body_row(spec, body) if body is not None else robot.torso
    if row is None:
        raise UsageError(
            f"{spec.id} has no torso to measure the distance from.",
            hint=f"Pass one of the bodies: {', '.join(spec.body_names)}.",
        )
    goal = torch.as_tensor(point, dtype=info["xpos"].dtype, device=info["xpos"].device)
    if goal.shape[-1] not in (2, 3):
        raise UsageError(f"A point has 2 or 3 coordinates, not {goal.shape[-1]}.")
    return norm(info["xpos"][..., row, : goal.shape[-1]] - goal)
