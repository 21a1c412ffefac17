"""Tracked bodies, points and joints of a robot, resolved from names in the configuration."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from telic.core.rotations import conjugate, rotate
from telic.errors import BadEnvironment, ConfigError, UnknownName
from telic.motions.robot import MotionRobot, motion_robot
from telic.tracking.config import RobotGroup

_AXES = ("x", "y", "z")
_SOFT_FORCE = 1e6
"""effort limit assumed for actuators without a force range, in N m or N"""


class RootState(NamedTuple):
    """Root states of simulated robots."""

    pos: Tensor
    """positions (N, 3) in the world frame, in m"""
    quat: Tensor
    """orientations (N, 4) in the world frame"""
    lin_vel: Tensor
    """velocities (N, 3) in the world frame, in m/s"""
    ang_vel: Tensor
    """angular velocities (N, 3) in the root frame, in rad/s"""


@dataclass(frozen=True, eq=False)
class TrackedParts:
    """Robot with the indices of its tracked bodies and joints."""

    robot: MotionRobot
    body_names: tuple[str, ...]
    bodies: tuple[int, ...]
    """ids of the tracked bodies in the model, starting with the anchor"""
    ends: Tensor
    feet: Tensor
    points: Tensor
    offsets: Tensor
    """positions (points, 3) in the body frames"""
    lower: Tensor
    fine: Tensor
    foot_joints: Tensor
    """dof indices of the foot joints"""
    action_joints: Tensor
    """clip column of the joint that each actuator drives"""
    action_size: Tensor
    """target offset of each actuator for an action of 1"""
    action_lag: Tensor
    """lag of an unloaded joint behind its target for each actuator, in s"""

    def to(self, device: torch.device | str) -> TrackedParts:
        """Return a copy on a device, because GPU graphs must not copy from the host."""
        tensors = {
            field.name: value.to(device)
            for field in fields(self)
            if isinstance(value := getattr(self, field.name), Tensor)
        }
        return replace(self, **tensors)

    @property
    def joints(self) -> int:
        """Number of joint columns of a clip."""
        return len(self.robot.joint_names)

    def root(self, qpos: Tensor, qvel: Tensor) -> RootState:
        """Return the root pose and velocity."""
        pos, quat, _ = self.robot.from_qpos(qpos)
        facts = self.robot.facts.root
        linear = torch.zeros_like(pos)
        for slide in facts.slides:
            linear[..., _AXES.index(slide.axis)] = slide.sign * qvel[..., slide.dof]
        if facts.spin is not None:
            return RootState(pos, quat, linear, qvel[..., facts.spin : facts.spin + 3])
        turning = torch.zeros_like(pos)
        if facts.hinge is not None:
            rate = facts.hinge.sign * qvel[..., facts.hinge.dof]
            turning[..., _AXES.index(facts.hinge.axis)] = rate
        return RootState(pos, quat, linear, rotate(conjugate(quat), turning))


def tracked_parts(group: RobotGroup) -> TrackedParts:
    """Resolve the names in a configuration. Raises UnknownName if the robot lacks one of them."""
    robot = motion_robot(group.name)
    model, facts = robot.model, robot.facts
    everything = robot.body_names
    anchor = model.body(robot.root).name or everything[0]
    named = group.bodies or everything
    names = (anchor, *(name for name in named if name != anchor))
    rows = dict(zip(everything, robot.kinematics.bodies, strict=True))
    _known("body", names, everything)
    feet = group.feet or tuple(model.body(foot).name for foot in facts.feet)
    for kind, wanted in (("ends", group.ends or feet), ("feet", feet), ("points", group.points)):
        _known(f"tracked body in robot.{kind}", wanted, names)
    legs = {column for leg in facts.legs for column in leg.qpos}
    lower = [i for i, limb in enumerate(facts.limbs) if limb.qpos in legs]
    foot_rows = [rows[name] for name in feet]
    motors = facts.motors
    if motors is None or not all(motor.bias[1] < 0 for motor in motors):
        raise BadEnvironment(
            f"{group.name} is not position-controlled, but trackers output joint position targets.",
            hint="Describe its actuators (see telic robots NAME --describe).",
        )
    columns = {limb.qpos: i for i, limb in enumerate(facts.limbs)}
    effort = [(m.force_range or (-_SOFT_FORCE, _SOFT_FORCE))[1] / m.gain for m in motors]
    limits = np.minimum(np.array(effort), np.pi / group.action_scale / group.action_limit)
    return TrackedParts(
        robot=robot,
        body_names=names,
        bodies=tuple(rows[name] for name in names),
        ends=_places(group.ends or feet, names),
        feet=_places(feet, names),
        points=_places(list(group.points), names),
        offsets=torch.tensor(list(group.points.values())).reshape(-1, 3),
        lower=_joints(group.lower_joints, robot) if group.lower_joints else _index(lower),
        fine=_joints(group.fine_joints, robot),
        foot_joints=_index(
            [
                int(model.jnt_dofadr[j])
                for j in robot.joints
                if int(model.jnt_bodyid[j]) in foot_rows
            ]
        ),
        action_joints=_index([columns[motor.qpos] for motor in motors]),
        action_size=torch.tensor(group.action_scale * limits, dtype=torch.float32),
        action_lag=torch.tensor([-m.bias[2] / m.gain for m in motors], dtype=torch.float32),
    )


def _known(kind: str, names: Iterable[str], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            raise UnknownName(kind, name, list(known))


def _index(places: Sequence[int]) -> Tensor:
    return torch.tensor(list(places), dtype=torch.long)


def _places(names: Sequence[str], among: Sequence[str]) -> Tensor:
    return _index([among.index(name) for name in names])


def _joints(names: Sequence[str], robot: MotionRobot) -> Tensor:
    for name in names:
        if name not in robot.joint_names:
            raise UnknownName("joint", name, list(robot.joint_names))
    return _index([robot.joint_names.index(name) for name in names])


def substeps(group: RobotGroup, timestep_s: float) -> int:
    """Return the number of physics steps per control step. Raises ConfigError for a fraction."""
    count = round(group.control_s / timestep_s)
    if count < 1 or abs(count * timestep_s - group.control_s) > 1e-6:
        raise ConfigError(
            f"robot.control_s={group.control_s} is not a multiple of the time step of "
            f"{group.name}, {timestep_s:g} s.",
            hint=f"Try {max(count, 1) * timestep_s:g}.",
        )
    return count
