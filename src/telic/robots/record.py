"""Robot records: the pose, actuators and feet of a robot, with inferred defaults.

A drive is a position controller. Its default gains give the reflected rotor inertia (armature) a
natural frequency of 10 Hz and a damping ratio of 2, which is typical of legged robots. The
stiffness is at least the value at which an error of 1.5 rad reaches the effort limit.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self, cast

import mujoco
import numpy as np
from pydantic import AfterValidator, Field

from telic.core.config import Config
from telic.errors import BadFile
from telic.robots._trim import (
    BaseMount,
    base_of,
    fitting,
    leave_out,
    lock,
    name_parts,
    root_kind,
    set_root,
    straighten,
)
from telic.robots.arm import Box
from telic.robots.structure import (
    HINGE,
    SLIDE,
    holding_force,
    moved_joints,
    require_z_up,
    steadying_stiffness,
)
from telic.sim.cpu import library
from telic.sim.files import unreadable
from telic.storage.reading import check_file, read_text

_OMEGA = 2.0 * math.pi * 10.0
_DAMPING_RATIO = 2.0
_GIVES_RAD = 1.5
"""Maximum position error at which the effort limit is reached."""
_SAG_RAD = 0.2
"""Maximum sag of a joint under its static load."""
_INSIDE = 0.02
"""Margin of an inferred pose to the joint limits, relative to the joint range."""
_STRONG = 2.0
"""Default effort limit as a multiple of the holding force."""


def _checked_pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"{text!r} is not a pattern: {error}") from None
    if re.search(r"\)[*+{]", text) or len(re.findall(r"[*+{]", text)) > 4:  # slow to match
        raise ValueError(f"{text!r} repeats a group, or has more than four repetitions")
    return text


_Pattern = Annotated[str, AfterValidator(_checked_pattern)]
"""Regular expression that must match the whole name."""


class Drive(Config):
    """Position controller for one or more joints. Missing gains are derived from the inertia."""

    joints: _Pattern = Field(description="regular expression for joint names")
    effort: float = Field(gt=0, description="maximum torque or force in N m or N")
    armature: float = Field(default=0.0, ge=0, description="reflected rotor inertia (armature)")
    stiffness: float | None = Field(default=None, gt=0, description="N m/rad, inferred if None")
    damping: float | None = Field(default=None, ge=0, description="N m s/rad, inferred if None")
    scale: float | None = Field(
        default=None,
        gt=0,
        description="position offset in rad or m for an action of 1 (from the joint range if None)",
    )

    @property
    def gains(self) -> tuple[float, float]:
        """Stiffness and damping gains."""
        stiffness = self.stiffness or max(self.armature * _OMEGA**2, self.effort / _GIVES_RAD)
        damping = self.damping
        return stiffness, 2.0 * _DAMPING_RATIO * stiffness / _OMEGA if damping is None else damping


class RobotRecord(Config):
    """Robot description that refers to an unmodified model and adds its pose and actuators."""

    model: str = Field(description="MJCF or URDF file, relative to the TOML file")
    pose: dict[_Pattern, float] = Field(
        default={}, description="joint positions by name pattern, by default from the model"
    )
    height: float | None = Field(
        default=None,
        description="base height above the floor in m (if None, the robot stands on the floor)",
    )
    drives: tuple[Drive, ...] = Field(
        default=(), description="position drives (inferred from motors, limits and masses if None)"
    )
    actuators: Literal["built", "model"] = Field(
        default="built", description="build position drives, or keep the model's actuators"
    )
    base: str | None = Field(default=None, description="base body (inferred if None)")
    root: BaseMount | None = Field(
        default=None, description="base joint: free, fixed or as in the model (inferred if None)"
    )
    facing_deg: float = Field(
        default=0.0, description="heading in degrees from x toward y, corrected to face x"
    )
    leave_out: tuple[_Pattern, ...] = Field(
        default=(), description="name patterns of bodies and geoms that are not part of the robot"
    )
    locked: tuple[_Pattern, ...] = Field(
        default=(), description="name patterns of joints that are fixed in the given pose"
    )
    feet: tuple[_Pattern, ...] | None = Field(
        default=None, description="name patterns of feet (the lowest limb ends if None)"
    )
    illegal_contacts: tuple[_Pattern, ...] | None = Field(
        default=None,
        description="patterns of bodies that must not touch the ground (if None, all but legs)",
    )
    hand: str | None = Field(
        default=None, description="hand of an arm, as a site or body (inferred if None)"
    )
    goal: Box | None = Field(
        default=None, description="corners of an arm's target box, as x, y and z in m"
    )
    timestep_s: float | None = Field(
        default=None,
        gt=0,
        le=0.02,
        description="physics time step in s (default: that of a model with actuators, else 0.005)",
    )
    friction: float = Field(default=1.0, gt=0, description="friction of the floor")
    collisions: Literal["ground", "all"] = Field(
        default="ground", description="whether bodies also collide with each other"
    )

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a record from a TOML file, and resolve its model path. Raises BadFile on errors."""
        try:
            values: dict[str, Any] = tomllib.loads(read_text(path))
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise BadFile(f"{path} is not TOML: {error}") from None
        record = cls.parse(values)
        return record.replace(model=str((path.absolute().parent / record.model).resolve()))

    def source(self) -> mujoco.MjSpec:
        """Load the model file and name all unnamed bodies and joints."""
        check_file(Path(self.model))  # rejects named pipes, which would block
        library()  # prevents MuJoCo from logging to the terminal and the working directory
        try:
            spec = mujoco.MjSpec.from_file(self.model)
        except (ValueError, OSError) as error:
            raise unreadable(self.model, error) from error
        home = Path(self.model).parent  # makes asset paths independent of the working directory
        spec.meshdir = str((home / spec.meshdir).resolve())
        spec.texturedir = str((home / spec.texturedir).resolve())
        name_parts(spec)
        used = re.findall(r'material="([^"]+)"', read_text(Path(self.model)))
        for material in set(used) - {each.name for each in spec.materials}:
            spec.add_material(name=material)  # MuJoCo cannot read a built model without it
        return spec

    def spec(self) -> mujoco.MjSpec:
        """Return an editable spec of the robot without scene objects."""
        name = Path(self.model).name
        spec = self.source()
        pose = self.posed(spec)
        leave_out(spec, self.leave_out, name)
        try:
            set_root(spec, self.root or "model", self.base)
            spec = lock(spec, self.locked, pose, name)
            return straighten(spec, self.base, self.facing_deg)
        except ValueError as error:
            raise unreadable(self.model, error) from error

    def posed(self, spec: mujoco.MjSpec) -> dict[str, float]:
        """Return joint positions by name. Raises BadFile for a pattern without matches."""
        joints = [joint.name for joint in spec.joints]
        found: dict[str, float] = {}
        for pattern, value in self.pose.items():
            names = fitting(pattern, joints, "joint", f"{Path(self.model).name} (pose)")
            found |= dict.fromkeys(names, value)
        return found


def guessed(path: Path, given: Mapping[str, Any] | None = None) -> RobotRecord:
    """Return a complete record of a model. Fields that `given` does not set are inferred."""
    record = RobotRecord.parse({"model": str(path.absolute()), **(given or {})})
    try:
        model = record.source().compile()
        require_z_up(model, path.name)
        record = record.replace(
            pose=record.pose or _guessed_pose(model),
            root=record.root or root_kind(model),
            base=record.base or model.body(base_of(model)).name,
        )
        if model.nu and not moved_joints(model).intersection(_moving_joints(model)):
            record = record.replace(actuators="model")  # e.g. thrusters, ball joints
        if record.actuators == "model":
            return record
        model = record.spec().compile()
    except ValueError as error:
        raise unreadable(path, error) from error
    return record.replace(drives=record.drives or _drives(model))


def _guessed_pose(model: mujoco.MjModel) -> dict[str, float]:
    """Return joint positions from the keyframe "home", or else from the first keyframe.

    Without keyframes, joints whose default is outside their range are moved just inside it.
    """
    pose: dict[str, float] = {}
    names = [model.key(index).name for index in range(model.nkey)]
    for joint in _moving_joints(model):
        name, column = model.joint(joint).name, model.jnt_qposadr[joint]
        if model.nkey:
            home = names.index("home") if "home" in names else 0
            pose[name] = round(float(model.key_qpos[home][column]), 4)
            continue
        low, high = map(float, model.jnt_range[joint])
        rest = float(model.qpos0[column])
        if model.jnt_limited[joint] and not low <= rest <= high:
            inside = _INSIDE * (high - low)
            pose[name] = round(min(max(rest, low + inside), high - inside), 4)
    return pose


def _moving_joints(model: mujoco.MjModel) -> list[int]:
    """Return the named hinge and slide joints."""
    kinds = (HINGE, SLIDE)
    return [j for j in range(model.njnt) if model.jnt_type[j] in kinds and model.joint(j).name]


def _drives(model: mujoco.MjModel) -> tuple[Drive, ...]:
    """Return the drives of all joints, grouping joints with equal parameters.

    Joints that no actuator of the model moves, such as a pole on a cart, the rails of a base or a
    ball, are excluded. If the model has no actuators, all joints are driven.
    """
    joints, moved = _moving_joints(model), moved_joints(model)
    alike: dict[tuple[float, float, float], list[str]] = {}
    for joint in [joint for joint in joints if joint in moved] or joints:
        armature = round(float(model.dof_armature[model.jnt_dofadr[joint]]), 6)
        effort = float(f"{_effort(model, joint):.4g}")
        # Untuned joints must also be stiff enough for the robot to stand.
        holds = max(0.5 * holding_force(model, joint) / _SAG_RAD, steadying_stiffness(model, joint))
        own = Drive(joints="", effort=effort, armature=armature).gains[0]
        key = effort, armature, float(f"{max(own, holds):.3g}")
        alike.setdefault(key, []).append(re.escape(model.joint(joint).name))
    return tuple(
        Drive(joints="|".join(names), effort=effort, armature=armature, stiffness=stiffness)
        for (effort, armature, stiffness), names in alike.items()
    )


def _effort(model: mujoco.MjModel, joint: int) -> float:
    """Return the effort limit of a joint from its motor, its force range or its load."""
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


# ---- serialization


def as_toml(record: RobotRecord, facts: Mapping[str, Any] | None = None) -> str:
    """Serialize a record as TOML.

    Unset fields become comments with inferred values from `facts`, which the user can uncomment.
    """
    facts = facts or {}
    guesses: dict[str, object] = {"height": facts.get("height_m"), "goal": facts.get("goal")}
    for name in ("feet", "illegal_contacts"):
        bodies = facts.get(name)
        guesses[name] = None if bodies is None else tuple(re.escape(body) for body in bodies)
    lines = [
        "# Robot description. Edit the pose and the actuators here. The model file is unchanged.",
        f"model = {_toml(record.model)}",
    ]
    for name, field in type(record).model_fields.items():
        if name in ("model", "pose", "drives"):
            continue
        value, guess = getattr(record, name), guesses.get(name)
        line = f"{name} = {_toml(value)}"
        if value is None:
            line = f"# {name} =" if guess is None else f"# {name} = {_toml(guess)}"
        lines.append(f"{line}  # {field.description}")
    for key, words in _REMARKS.items():
        if facts.get(key) is not None:
            lines.append(f"# {words}: {facts[key]}")
    lines += ["", "[pose]  # name pattern = position, radians or meters"]
    lines += [f"{_toml(name)} = {value:g}" for name, value in record.pose.items()]
    for drive in record.drives:
        stiffness, damping = drive.gains
        scale = f"scale = {drive.scale}"
        if drive.scale is None:
            scales: Mapping[str, float] = facts.get("action_scales") or {}
            own = [scales[name] for name in scales if re.fullmatch(drive.joints, name)]
            guess = f"{min(own):g}" if own else ""
            scale = f"# scale = {guess}  # position offset for an action of 1"
        lines += [
            "",
            "[[drives]]",
            f"joints = {_toml(drive.joints)}",
            f"effort = {drive.effort:g}",
            f"armature = {drive.armature:g}",
            f"stiffness = {stiffness:.4g}",
            f"damping = {damping:.4g}",
            scale,
        ]
    return "\n".join(lines) + "\n"


_REMARKS = {
    "kind": "kind of robot",
    "mass_kg": "mass, kg",
    "leg_m": "leg length in m",
    "imu": "site of the inertial sensor",
}
"""Properties that are shown as comments."""


def _toml(value: object) -> str:
    if isinstance(value, int | float):
        return f"{value:g}"
    if isinstance(value, tuple):
        several = cast("tuple[object, ...]", value)
        return f"[{', '.join(_toml(each) for each in several)}]"
    text = str(value)
    # TOML literal strings have no escapes, which suits patterns with backslashes.
    return f"'{text}'" if "'" not in text and text.isprintable() else json.dumps(text)
