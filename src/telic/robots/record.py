"""What a robot is beside its model: pose, drives, feet; guessed where nobody said, in one file.

A drive is a position controller. Its stiffness follows from the inertia of the rotor behind the
gear as the joint feels it (armature) at a natural frequency of 10 Hz, twice critically damped, as
such robots are tuned; and it is at least so stiff that full effort is 1.5 rad away.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

import mujoco
import numpy as np
from pydantic import Field, field_validator

from telic.core.config import Config
from telic.errors import BadEnvironment, BadFile
from telic.robots.statics import holding_force, steadying
from telic.sim.cpu import library
from telic.storage.reading import check_file, read_text

_OMEGA = 2.0 * math.pi * 10.0
_DAMPING_RATIO = 2.0
_GIVES_RAD = 1.5
"""how far off full effort is, at the most"""
_SAG_RAD = 0.2
"""how far a joint gives way under what it holds"""
_STRONG = 2.0
"""effort limit in what holds the robot, where the model does not say"""
_MOVING = (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE)


class Drive(Config):
    """A position controller of one or more joints; what is left out follows from the inertia."""

    joints: str = Field(description="pattern of joint names")
    effort: float = Field(gt=0, description="largest torque or force, N m or N")
    armature: float = Field(default=0.0, ge=0, description="inertia of its rotor behind the gear")
    stiffness: float | None = Field(default=None, gt=0, description="N m/rad; None: by inertia")
    damping: float | None = Field(default=None, ge=0, description="N m s/rad; None: by stiffness")

    @field_validator("joints")
    @classmethod
    def _is_a_pattern(cls, joints: str) -> str:
        try:
            re.compile(joints)
        except re.error as error:
            raise ValueError(f"{joints!r} is no pattern: {error}") from None
        return joints

    @property
    def gains(self) -> tuple[float, float]:
        """Stiffness and damping."""
        stiffness = self.stiffness or max(self.armature * _OMEGA**2, self.effort / _GIVES_RAD)
        damping = self.damping
        return stiffness, 2.0 * _DAMPING_RATIO * stiffness / _OMEGA if damping is None else damping


class RobotRecord(Config):
    """A robot: an untouched model, and how it stands and is driven."""

    model: str = Field(description="MJCF or URDF file; relative to this one")
    pose: dict[str, float] = Field(
        default={}, description="joints by pattern; the others are as in the model's default pose"
    )
    height: float | None = Field(
        default=None, description="of the base above the floor; None: the lowest point touches it"
    )
    drives: tuple[Drive, ...] = Field(
        default=(), description="None: guessed from motors, limits and masses"
    )
    timestep_s: float = Field(default=0.005, gt=0, le=0.02, description="of the physics")
    friction: float = Field(default=1.0, gt=0, description="of the floor")
    collisions: Literal["ground", "all"] = Field(
        default="ground", description="whether its parts touch only the ground, or each other too"
    )

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return the record in a TOML file, its model located; raises BadFile that says why not."""
        try:
            values: dict[str, Any] = tomllib.loads(read_text(path))
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise BadFile(f"{path} is no TOML: {error}") from None
        record = cls.parse(values)
        return record.replace(model=str((path.absolute().parent / record.model).resolve()))

    def spec(self) -> mujoco.MjSpec:
        """Return the model as it can be changed before it is compiled."""
        check_file(Path(self.model))  # a named pipe would never end
        library()  # keeps MuJoCo's remarks out of the terminal and of the folder
        try:
            return mujoco.MjSpec.from_file(self.model)
        except (ValueError, OSError) as error:
            raise BadEnvironment(f'MuJoCo cannot read "{self.model}": {error}') from error

    def posed(self, joints: list[str]) -> dict[str, float]:
        """Return the pose of single joints; raises BadFile for a pattern that none has."""
        found: dict[str, float] = {}
        for pattern, value in self.pose.items():
            names = [name for name in joints if re.fullmatch(pattern, name)]
            if not names:
                raise BadFile(
                    f'"{pattern}" in the pose fits no joint of {Path(self.model).name}.',
                    hint=f"Its joints: {', '.join(joints)}.",
                )
            found |= dict.fromkeys(names, value)
        return found


def guessed(path: Path, given: Mapping[str, Any] | None = None) -> RobotRecord:
    """Return the record of a model, complete: what `given` leaves out is guessed from the model."""
    record = RobotRecord.parse({"model": str(path.absolute()), **(given or {})})
    spec = record.spec()
    try:
        model = spec.compile()
    except ValueError as error:
        raise BadEnvironment(f'MuJoCo cannot read "{path}": {error}') from error
    pose = record.pose or _keyframe(model)
    return record.replace(pose=pose, drives=record.drives or _drives(model))


def _keyframe(model: mujoco.MjModel) -> dict[str, float]:
    """Return the joints of the pose called home, or of the first one."""
    if not model.nkey:
        return {}
    names = [model.key(index).name for index in range(model.nkey)]
    qpos = model.key_qpos[names.index("home") if "home" in names else 0]
    return {
        model.joint(joint).name: round(float(qpos[model.jnt_qposadr[joint]]), 4)
        for joint in moving_joints(model)
    }


def moving_joints(model: mujoco.MjModel) -> list[int]:
    """Return the joints that can be driven: hinges and slides with a name."""
    kinds = [int(kind) for kind in _MOVING]
    return [j for j in range(model.njnt) if model.jnt_type[j] in kinds and model.joint(j).name]


def _drives(model: mujoco.MjModel) -> tuple[Drive, ...]:
    """Return a drive for every joint, joints of equal drives together."""
    alike: dict[tuple[float, float, float], list[str]] = {}
    for joint in moving_joints(model):
        armature = round(float(model.dof_armature[model.jnt_dofadr[joint]]), 6)
        effort = float(f"{_effort(model, joint):.4g}")
        # Nobody tuned it: it is as stiff as it takes to stand, too.
        holds = max(0.5 * holding_force(model, joint) / _SAG_RAD, steadying(model, joint))
        own = Drive(joints="", effort=effort, armature=armature).gains[0]
        key = effort, armature, float(f"{max(own, holds):.3g}")
        alike.setdefault(key, []).append(re.escape(model.joint(joint).name))
    return tuple(
        Drive(joints="|".join(names), effort=effort, armature=armature, stiffness=stiffness)
        for (effort, armature, stiffness), names in alike.items()
    )


def _effort(model: mujoco.MjModel, joint: int) -> float:
    """Return the largest torque of a joint: of its motor, of its own limit, or what holds it."""
    for i in range(model.nu):
        on_joint = model.actuator_trntype[i] == int(mujoco.mjtTrn.mjTRN_JOINT)
        if not on_joint or model.actuator_trnid[i, 0] != joint:
            continue
        gear = float(abs(model.actuator_gear[i, 0])) or 1.0
        if model.actuator_forcelimited[i]:
            return gear * float(np.abs(model.actuator_forcerange[i]).max())
        if model.actuator_ctrllimited[i] and model.actuator_biastype[i] == 0:
            gain = float(abs(model.actuator_gainprm[i, 0])) or 1.0
            return gear * gain * float(np.abs(model.actuator_ctrlrange[i]).max())
    if model.jnt_actfrclimited[joint]:
        return float(np.abs(model.jnt_actfrcrange[joint]).max())
    return _STRONG * holding_force(model, joint)


def as_toml(record: RobotRecord) -> str:
    """Return the record as a file that a person can edit."""
    lines = [
        "# A robot: its model is untouched; change here how it stands and is driven.",
        f"model = {_quoted(record.model)}",
        f"timestep_s = {record.timestep_s:g}",
        f"friction = {record.friction:g}",
        f"collisions = {_quoted(record.collisions)}  # or 'all': its parts touch each other, too",
        "" if record.height is None else f"height = {record.height:g}",
        "",
        "[pose]  # joints by pattern, radians or metres",
        *(f"{_quoted(name)} = {value:g}" for name, value in record.pose.items()),
    ]
    for drive in record.drives:
        stiffness, damping = drive.gains
        lines += [
            "",
            "[[drives]]",
            f"joints = {_quoted(drive.joints)}",
            f"effort = {drive.effort:g}",
            f"armature = {drive.armature:g}",
            f"stiffness = {stiffness:.4g}",
            f"damping = {damping:.4g}",
        ]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    # A literal string of TOML has no escapes; patterns are full of backslashes.
    return f"'{text}'" if "'" not in text and text.isprintable() else _escaped(text)


def _escaped(text: str) -> str:
    import json

    return json.dumps(text)
