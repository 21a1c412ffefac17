"""Instantaneous quantities of the torso: position, velocity and orientation.

The world axes are x forward, y left and z up. The robot frame has the same axes when the robot is
in its resting pose. Angles follow the right-hand rule: pitch is positive with the nose down
(leaning forward), roll with the left side up, and yaw when turning left.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from telic.core.rotations import element, multiply, rotate, wrap
from telic.core.tensors import norm
from telic.envs.spec import Coordinate, Robot
from telic.quantities.quantity import (
    TRAVELS,
    Fields,
    Need,
    moves_along,
    quantity,
    robot_in,
    robot_need,
    spec_in,
    turns_about,
)

TILTS = robot_need("a robot that can tip over", lambda robot: {"x", "y"} & set(robot.root.turns))
TURNS = robot_need("a robot that can turn", lambda robot: robot.root.turns)


def position(info: Fields, axis: str) -> Tensor:
    """Return the torso's position along a world axis in which it can move, shape (...)."""
    return coordinate(info, robot_in(info).root.slide(axis))


def velocity(info: Fields, axis: str) -> Tensor:
    """Return the torso's velocity along a world axis, or zero if it cannot move along it."""
    return rate(info, robot_in(info).root.slide(axis))


def coordinate(info: Fields, which: Coordinate | None) -> Tensor:
    """Return a coordinate of the model, or zeros if the model does not have it."""
    qpos = info["qpos"]
    if which is None:
        return torch.zeros_like(qpos[..., 0])
    return which.offset + which.sign * qpos[..., which.qpos]


def rate(info: Fields, which: Coordinate | None) -> Tensor:
    """Return the rate of a coordinate of the model, or zeros if the model does not have it."""
    qvel = info["qvel"]
    return torch.zeros_like(qvel[..., 0]) if which is None else which.sign * qvel[..., which.dof]


@lru_cache(maxsize=64)
def _own_frame(robot: Robot) -> tuple[tuple[float, ...], ...]:
    """Return the robot's forward, left and up directions in the torso frame."""
    upright = torch.tensor(robot.upright, dtype=torch.float64)
    rows = [[element(upright, row, column).item() for row in range(3)] for column in range(3)]
    return tuple(tuple(0.0 if abs(x) < 1e-12 else x for x in row) for row in rows)


def direction(info: Fields, axis: int, component: int) -> Tensor:
    """Return a world component of the robot's forward (0), left (1) or up (2) direction."""
    robot = robot_in(info)
    start, hinge = robot.root.quaternion, robot.root.hinge
    if start is not None:
        q = info["qpos"][..., start : start + 4]
        own = enumerate(_own_frame(robot)[axis])
        parts = [x * element(q, component, column) for column, x in own if x != 0.0]
        return sum(parts[1:], parts[0])
    angle = coordinate(info, hinge)
    still = 3 if hinge is None else "xyz".index(hinge.axis)
    if still in (axis, component, 3):
        return torch.full_like(angle, float(axis == component))
    if axis == component:
        return angle.cos()
    return angle.sin() if (component - axis) % 3 == 1 else -angle.sin()


def orientation(info: Fields) -> Tensor:
    """Return the quaternion of a free torso, rotated so that its axes are (forward, left, up)."""
    robot = robot_in(info)
    start = robot.root.quaternion
    assert start is not None  # robots on a hinge have an angle instead
    q = info["qpos"][..., start : start + 4]
    if robot.upright[0] == 1.0:
        return q
    return multiply(q, q.new_tensor(robot.upright))


def spin(info: Fields) -> Tensor:
    """Return the angular velocity in the robot frame as measured by a gyroscope, shape (..., 3)."""
    return torch.stack([spin_about(info, axis) for axis in range(3)], -1)


def spin_about(info: Fields, axis: int) -> Tensor:
    """Return the angular velocity about the robot's forward (0), left (1) or up (2) axis."""
    robot = robot_in(info)
    first = robot.root.spin
    if first is not None:
        qvel = info["qvel"]
        own = enumerate(_own_frame(robot)[axis])
        parts = [x * qvel[..., first + column] for column, x in own if x != 0.0]
        return sum(parts[1:], parts[0])
    hinge = robot.root.hinge
    return rate(info, hinge if hinge is not None and hinge.axis == "xyz"[axis] else None)


@quantity(unit="m", latex=r"x", need=moves_along("x"))
def x_position(info: Fields) -> Tensor:
    """Position of the torso along x (forward)."""
    return position(info, "x")


@quantity(unit="m", latex=r"y", need=moves_along("y"))
def y_position(info: Fields) -> Tensor:
    """Position of the torso along y (to the left)."""
    return position(info, "y")


@quantity(unit="m/s", latex=r"v_x = \dot x", need=moves_along("x"))
def forward_velocity(info: Fields) -> Tensor:
    """Velocity of the torso along world x at the end of the step. Backward is negative."""
    return velocity(info, "x")


@quantity(unit="m/s", latex=r"v_y = \dot y", need=moves_along("y"))
def lateral_velocity(info: Fields) -> Tensor:
    """Velocity of the torso along world y. Left is positive."""
    return velocity(info, "y")


@quantity(unit="m/s", latex=r"v_z = \dot z", need=moves_along("z"))
def vertical_velocity(info: Fields) -> Tensor:
    """Velocity of the torso along world z. Upward is positive."""
    return velocity(info, "z")


@quantity(unit="m/s", latex=r"\sqrt{v_x^2 + v_y^2 + v_z^2}", need=TRAVELS)
def speed(info: Fields) -> Tensor:
    """Magnitude of the torso's velocity."""
    squares = [velocity(info, axis).square() for axis in robot_in(info).root.moves]
    return sum(squares[1:], squares[0]).sqrt()


@quantity(unit="m/s", latex=r"\sqrt{v_x^2 + v_y^2}", need=moves_along("x"))
def horizontal_speed(info: Fields) -> Tensor:
    """Magnitude of the torso's horizontal velocity."""
    return torch.hypot(velocity(info, "x"), velocity(info, "y"))


@quantity(
    unit="m/s",
    latex=r"v_x \cos\psi + v_y \sin\psi",
    need=moves_along("x", "y") & turns_about("z"),
)
def heading_velocity(info: Fields) -> Tensor:
    """Horizontal velocity in the direction that the robot faces."""
    x, y = direction(info, 0, 0), direction(info, 0, 1)
    along = velocity(info, "x") * x + velocity(info, "y") * y
    return along / torch.hypot(x, y).clamp_min(1e-9)


GROUND = Need(
    "an environment that measures the ground below the robot",
    lambda spec: {"ground_height", "ground_step"} <= set(spec.info_keys),
)


@quantity(unit="m", latex=r"z_\text{ground}", need=GROUND)
def ground_height(info: Fields) -> Tensor:
    """Height of the ground below the torso, relative to the lowest level of the terrain.

    Its change during an episode is the height that the robot has climbed.
    """
    return info["ground_height"]


@quantity(unit="m", latex=r"h_\text{step}", need=GROUND)
def ground_step(info: Fields) -> Tensor:
    """Size of the obstacles in the terrain below the torso, or 0 on flat ground.

    The size is the step height of stairs, the rise per meter of slopes, or the height of the
    highest bump of rough ground.
    """
    return info["ground_step"]


@quantity(unit="m", latex=r"z - z_\text{ground}", need=moves_along("z"))
def height(info: Fields) -> Tensor:
    """Height of the torso's origin above the ground below it."""
    return position(info, "z") - _ground(info)


def _ground(info: Fields) -> Tensor | float:
    """Return the height of the ground below the torso, or 0 on flat ground."""
    is_flat = spec_in(info).arguments.get("terrain", "flat") == "flat"
    return 0.0 if is_flat or "ground_height" not in info else info["ground_height"]


@quantity(unit="m", latex=r"z - z_\text{rest}", need=moves_along("z"))
def height_above_start(info: Fields) -> Tensor:
    """Height of the torso relative to the resting pose in which episodes start."""
    rest = robot_in(info).rest_height
    return position(info, "z") - (0.0 if rest is None else rest)


@quantity(unit="1", latex=r"\cos\angle(\text{up}_\text{robot}, z)", need=TILTS)
def uprightness(info: Fields) -> Tensor:
    """Cosine of the angle between the robot's up direction and the world's.

    The value is 1 if upright, 0 if lying and -1 if upside down.
    """
    return direction(info, 2, 2)


@quantity(unit="rad", latex=r"\psi = \operatorname{atan2}(f_y, f_x)", need=turns_about("z"))
def heading(info: Fields) -> Tensor:
    """Direction the robot faces, seen from above, from +x toward +y (left), in (-pi, pi]."""
    return torch.atan2(direction(info, 0, 1), direction(info, 0, 0))


@quantity(unit="rad/s", latex=r"\omega_z^\text{world}", need=turns_about("z"))
def heading_rate(info: Fields) -> Tensor:
    """Yaw rate about the vertical axis of the world. Turning left is positive."""
    if robot_in(info).root.hinge is not None:
        return spin_about(info, 2)
    parts = [spin_about(info, axis) * direction(info, axis, 2) for axis in range(3)]
    return parts[0] + parts[1] + parts[2]


@quantity(
    unit="rad",
    latex=r"\theta = \operatorname{atan2}(-f_z, \sqrt{f_x^2 + f_y^2})",
    need=turns_about("y"),
)
def pitch(info: Fields) -> Tensor:
    """Angle about the left axis. Nose down (leaning forward) is positive.

    The range is (-pi, pi] for planar robots and [-pi/2, pi/2] for free-floating ones.
    """
    hinge = robot_in(info).root.hinge
    if hinge is not None:
        return wrap(coordinate(info, hinge))
    level = torch.hypot(direction(info, 0, 0), direction(info, 0, 1))
    return torch.atan2(-direction(info, 0, 2), level)


@quantity(unit="rad", latex=r"\phi = \operatorname{atan2}(l_z, u_z)", need=turns_about("x"))
def roll(info: Fields) -> Tensor:
    """Angle about the forward axis. Left side up (tipping to the right) is positive."""
    return torch.atan2(direction(info, 1, 2), direction(info, 2, 2))


@quantity(unit="rad", latex=r"\psi = \operatorname{atan2}(f_y, f_x)", need=turns_about("z"))
def yaw(info: Fields) -> Tensor:
    """Angle about the vertical axis, equal to the heading."""
    return heading.function(info)


@quantity(unit="rad/s", latex=r"\omega_x^\text{robot}", need=turns_about("x"))
def roll_rate(info: Fields) -> Tensor:
    """Angular velocity about the robot's forward axis."""
    return spin_about(info, 0)


@quantity(unit="rad/s", latex=r"\omega_y^\text{robot}", need=turns_about("y"))
def pitch_rate(info: Fields) -> Tensor:
    """Angular velocity about the robot's left axis.

    Forward rotation (nose down, as in a front flip) is positive, and a backflip is negative.
    """
    return spin_about(info, 1)


@quantity(unit="rad/s", latex=r"\omega_z^\text{robot}", need=turns_about("z"))
def yaw_rate(info: Fields) -> Tensor:
    """Angular velocity about the robot's up axis. Turning left is positive."""
    return spin_about(info, 2)


@quantity(unit="rad/s", latex=r"\|\omega\|", need=TURNS)
def angular_speed(info: Fields) -> Tensor:
    """Magnitude of the torso's angular velocity."""
    return norm(spin(info))


POLES = robot_need("a pole to balance", lambda robot: robot.poles)
TIP = robot_need("a pole on a cart", lambda robot: robot.tip is not None)


@quantity(unit="rad", latex=r"\theta_k = \sum_{i \le k} q_i", need=POLES, per="pole")
def pole_angles(info: Fields) -> Tensor:
    """Angle of each pole from upright, in (-pi, pi]. On a cart, leaning toward +x is positive."""
    relative = torch.stack([coordinate(info, each) for each in robot_in(info).poles], -1)
    return wrap(relative.cumsum(-1))


@quantity(unit="rad", latex=r"\theta_1", need=POLES)
def pole_angle(info: Fields) -> Tensor:
    """Angle of the first (lowest) pole from upright, in (-pi, pi]."""
    return pole_angles.function(info)[..., 0]


@quantity(unit="rad/s", latex=r"\dot\theta_k = \sum_{i \le k} \dot q_i", need=POLES, per="pole")
def pole_rates(info: Fields) -> Tensor:
    """Angular velocity of each pole in the world frame."""
    relative = torch.stack([rate(info, each) for each in robot_in(info).poles], -1)
    return relative.cumsum(-1)


@quantity(unit="m", latex=r"z_\text{tip}", need=TIP)
def tip_height(info: Fields) -> Tensor:
    """Height of the end of the last pole above the zero level of the world."""
    tip = robot_in(info).tip
    assert tip is not None  # guaranteed by the quantity's precondition
    body, point = tip
    xpos, xquat = info["xpos"][..., body, :], info["xquat"][..., body, :]
    return (xpos + rotate(xquat, xpos.new_tensor(point)))[..., 2]


_COMMANDS = ("command_forward", "command_sideways", "command_turn")
COMMANDED = Need("commands", lambda spec: set(_COMMANDS) <= set(spec.info_keys))
_ON_GROUND = moves_along("x", "y") & turns_about("z")


@quantity(unit="m/s", latex=r"v_y \cos\psi - v_x \sin\psi", need=_ON_GROUND)
def sideways_velocity(info: Fields) -> Tensor:
    """Horizontal velocity to the robot's left. Motion to the right is negative."""
    x, y = direction(info, 0, 0), direction(info, 0, 1)
    aside = velocity(info, "y") * x - velocity(info, "x") * y
    return aside / torch.hypot(x, y).clamp_min(1e-9)


@quantity(
    unit="m/s",
    latex=r"\sqrt{(v_\text{ahead} - v_\text{ahead}^*)^2 + (v_\text{left} - v_\text{left}^*)^2}",
    need=_ON_GROUND & COMMANDED,
)
def command_error(info: Fields) -> Tensor:
    """Magnitude of the difference between the commanded and the actual horizontal velocity."""
    ahead = heading_velocity.function(info) - info["command_forward"]
    return torch.hypot(ahead, sideways_velocity.function(info) - info["command_sideways"])


@quantity(unit="rad/s", latex=r"|\omega_z - \omega_z^*|", need=turns_about("z") & COMMANDED)
def turn_command_error(info: Fields) -> Tensor:
    """Absolute difference between the yaw rate and the commanded yaw rate."""
    return (heading_rate.function(info) - info["command_turn"]).abs()
