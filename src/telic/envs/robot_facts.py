"""Properties of a robot that telic built, read from the model for review by users."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
from pydantic import Field

from telic.core.config import Record
from telic.envs._arm import is_reaching_arm
from telic.envs.anatomy import body_names, illegal_bodies, robot_of
from telic.envs.models import action_limits, read_model
from telic.envs.own_robot import start_pose
from telic.envs.spec import Robot
from telic.robots.arm import HAND, Box
from telic.robots.catalogue import RobotKind
from telic.robots.structure import FREE, GOAL, annotated_numbers, driven_trees, hinge_ends

_FINGERS = 3
"""Minimum number of limb ends of a hand on a fixed base."""


class RobotFacts(Record):
    """Properties of a robot. None means that a property does not apply."""

    kind: RobotKind
    mass_kg: float
    joints: int = Field(description="names of moving joints")
    actuators: int
    base: str | None
    height_m: float | None = Field(description="height of the standing base above the floor")
    leg_m: float | None = Field(description="mean hip height when standing")
    feet: tuple[str, ...]
    illegal_contacts: tuple[str, ...]
    imu: str | None = Field(description="site of the inertial sensor, or None for the base")
    hand: str | None = Field(default=None, description="hand of an arm")
    goal: Box | None = Field(default=None, description="target box of an arm in m")
    action_scales: dict[str, float] = Field(
        description="position offset in rad or m of each actuator for an action of 1"
    )


def robot_facts(path: Path) -> RobotFacts:
    """Return the properties of the robot in a built model."""
    model, _ = read_model(str(path))
    qpos, _ = start_pose(model, None)
    robot = robot_of(model, qpos)
    names = body_names(model)
    lengths = [leg.length_m for leg in robot.legs]
    half = np.diff(action_limits(model, qpos), axis=1)[:, 0] / 2.0
    driven = np.isin(model.body_rootid, driven_trees(model))  # without scene objects
    illegal = illegal_bodies(model, robot.torso, robot.feet)
    sites = [model.site(site).name for site in range(model.nsite)]
    ends = annotated_numbers(model, GOAL)
    goal: Box | None = None
    if ends is not None:
        goal = (ends[0], ends[1]), (ends[2], ends[3]), (ends[4], ends[5])
    return RobotFacts(
        kind=_kind(model, robot),
        mass_kg=_rounded(float(model.body_mass[driven].sum()), 2),
        joints=int(((model.jnt_type != FREE) & driven[model.jnt_bodyid]).sum()),
        actuators=int(model.nu),
        base=None if robot.torso is None else names[robot.torso],
        height_m=None if robot.rest_height is None else _rounded(robot.rest_height, 3),
        leg_m=_rounded(sum(lengths) / len(lengths), 3) if lengths else None,
        feet=tuple(names[foot] for foot in robot.feet),
        illegal_contacts=tuple(names[body] for body in illegal),
        imu=next((name for name in sites if "imu" in name.lower()), None),
        hand=HAND if is_reaching_arm(model) else None,
        goal=goal,
        action_scales={model.actuator(i).name: round(float(half[i]), 4) for i in range(model.nu)},
    )


def _rounded(value: float, places: int) -> float:
    """Round to decimal places, or to three significant digits below 1."""
    return round(value, places) if abs(value) >= 1.0 else float(f"{value:.3g}")


def _kind(model: mujoco.MjModel, robot: Robot) -> RobotKind:
    """Classify a robot by its numbers of feet and limb ends."""
    ends = hinge_ends(model)
    if robot.root.kind != "free":
        return "hand" if len(ends) >= _FINGERS else "arm" if ends else "other"
    if len(robot.feet) == 2:
        return "humanoid" if len(ends) >= 4 else "biped"
    by_feet: dict[int, RobotKind] = {4: "quadruped", 6: "hexapod"}
    return by_feet.get(len(robot.feet), "other")
