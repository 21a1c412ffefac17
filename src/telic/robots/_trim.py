"""Preprocess a model before adding actuators: remove scene objects and set the base joint.

Model files may contain scene objects (balls, walls, targets), a base on three slides and three
hinges, a fixed base to which a library adds the joint, or joints without actuators. Only the loaded
model is changed, never the model file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import mujoco
import numpy as np

from telic.errors import BadFile
from telic.robots.structure import (
    FREE,
    HINGE,
    SLIDE,
    driven_trees,
    joints_of,
    moved_joints,
    unused_name,
)

_STRAIGHT = 1e-6
BaseMount = Literal["model", "free", "fixed"]


def fitting(pattern: str, names: Sequence[str], what: str, of: str) -> list[str]:
    """Return the names that match a pattern, or raise BadFile if there are none."""
    found = [name for name in names if re.fullmatch(pattern, name)]
    if not found:
        raise BadFile(
            f'"{pattern}" matches no {what} of {of}.',
            hint=f"Available: {', '.join(dict.fromkeys(names))}.",
        )
    return found


def name_parts(spec: mujoco.MjSpec) -> None:
    """Name unnamed bodies and joints, so that actuators and poses can refer to them."""
    for parts, kind in ((spec.bodies[1:], "body"), (spec.joints, "joint")):
        taken = {part.name for part in parts}
        for part in parts:
            part.name = part.name or unused_name(f"{part.parent.name}.{kind}", taken)


def leave_out(spec: mujoco.MjSpec, patterns: Sequence[str], of: str) -> None:
    """Remove bodies and geoms from a model, together with their children and references."""
    for pattern in patterns:
        bodies = [body.name for body in spec.bodies[1:] if body.name]
        geoms = [geom.name for geom in spec.geoms if geom.name]
        found = fitting(pattern, [*bodies, *geoms], "body or geom", of)
        for name in found:
            # Children may already have been removed with their parent.
            for element in (spec.body(name), spec.geom(name)):
                if element is not None:
                    spec.delete(element)


def root_kind(model: mujoco.MjModel) -> BaseMount:
    """Infer the base joint: "free" for three unactuated slides and hinges, or else "model"."""
    joints = joints_of(model, base_of(model))
    kinds = sorted(int(model.jnt_type[joint]) for joint in joints)
    is_loose = kinds == [SLIDE] * 3 + [HINGE] * 3 and not moved_joints(model) & set(joints)
    return "free" if is_loose else "model"


def base_of(model: mujoco.MjModel) -> int:
    """Return the child of the world with the most joints, preferably in an actuated tree."""
    driven = driven_trees(model)
    roots = [body for body in range(1, model.nbody) if model.body_parentid[body] == 0]
    joints = model.body_rootid[model.jnt_bodyid].tolist()
    return max(roots, key=lambda body: (body in driven, joints.count(body)), default=0)


def set_root(spec: mujoco.MjSpec, kind: BaseMount, name: str | None) -> None:
    """Replace the joints of the base body with a free joint, or remove them."""
    if kind == "model":
        return
    base = spec.body(name or "")
    if base is None or base.parent.name != "world":
        raise BadFile(f"The base, {name!r}, is not a body attached to the world.")
    for joint in list(base.joints):
        _delete_joint(spec, joint)
    for key in list(spec.keys):  # keyframes do not fit the changed model
        spec.delete(key)
    if kind == "free":
        base.add_freejoint(name="floating_base")


def lock(spec: mujoco.MjSpec, patterns: Sequence[str], pose: Mapping[str, float], of: str) -> Any:
    """Return the model with some joints removed and their bodies fixed in the given pose."""
    if not patterns:
        return spec
    names = [joint.name for joint in spec.joints]
    locked = {name for each in patterns for name in fitting(each, names, "joint", of)}
    for key in list(spec.keys):
        spec.delete(key)
    model = spec.compile()
    data = mujoco.MjData(model)
    for name, value in pose.items():
        if mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_JOINT, name) >= 0:  # not removed
            data.qpos[model.joint(name).qposadr[0]] = value
    mujoco.mj_kinematics(model, data)
    # A round trip through XML resolves frames, so that positions are relative to the parent.
    spec = mujoco.MjSpec.from_string(spec.to_xml())
    for body in spec.bodies[1:]:
        own = [joint for joint in body.joints if joint.name in locked]
        if not own:
            continue
        if len(own) < len(body.joints):
            raise BadFile(f"{body.name} has locked and unlocked joints. Lock all or none.")
        me, parent = model.body(body.name).id, model.body(body.parent.name).id
        inverse = np.zeros(4)
        mujoco.mju_negQuat(inverse, data.xquat[parent])
        body.pos = _turned(data.xpos[me] - data.xpos[parent], inverse)
        body.quat = _product(inverse, data.xquat[me])
        for joint in own:
            _delete_joint(spec, joint)
    return spec


def delete_actuators(spec: mujoco.MjSpec) -> None:
    """Remove all actuators of a model and the sensors that refer to actuators."""
    for sensor in list(spec.sensors):
        if sensor.objtype == mujoco.mjtObj.mjOBJ_ACTUATOR:
            spec.delete(sensor)
    for actuator in list(spec.actuators):
        spec.delete(actuator)


def _delete_joint(spec: mujoco.MjSpec, joint: mujoco.MjsJoint) -> None:
    """Remove a joint and the actuators, sensors and equalities that refer to it."""
    named = [each for each in spec.actuators if each.target == joint.name]
    named += [each for each in spec.sensors if each.objname == joint.name]
    named += [
        each
        for each in spec.equalities
        if each.type == mujoco.mjtEq.mjEQ_JOINT and joint.name in (each.name1, each.name2)
    ]
    for each in named:
        spec.delete(each)
    spec.delete(joint)


def straighten(spec: mujoco.MjSpec, name: str | None, facing_deg: float) -> mujoco.MjSpec:
    """Return the model with the frame of its free base aligned to the world, facing along x.

    Sensors and commands are expressed in this frame. The robot is rotated by `facing_deg` about the
    vertical axis to face along x. The relative poses of its parts do not change.
    """
    base = spec.body(name or "")
    if base is None or not any(int(joint.type) == FREE for joint in base.joints):
        return spec
    ahead, turn = np.zeros(4), np.zeros(4)
    mujoco.mju_axisAngle2Quat(ahead, np.array((0.0, 0.0, 1.0)), -np.radians(facing_deg))
    plain = spec.compile()
    rest = plain.body_quat[plain.body(base.name).id]
    mujoco.mju_mulQuat(turn, ahead, rest)
    if abs(turn[0]) > 1.0 - _STRAIGHT:
        return spec
    spec = mujoco.MjSpec.from_string(spec.to_xml())
    base = spec.body(base.name)
    base.quat = (1.0, 0.0, 0.0, 0.0)
    for part in (*base.bodies, *base.geoms, *base.sites, *base.cameras):
        part.pos, part.quat = _turned(part.pos, turn), _product(turn, part.quat)
    for light in base.lights:
        light.pos, light.dir = _turned(light.pos, turn), _turned(light.dir, turn)
    if base.explicitinertial:
        base.ipos, base.iquat = _turned(base.ipos, turn), _product(turn, base.iquat)
    return spec


def _turned(vector: np.ndarray, quaternion: np.ndarray) -> np.ndarray:
    out = np.zeros(3)
    mujoco.mju_rotVecQuat(out, vector, quaternion)
    return out


def _product(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    out = np.zeros(4)
    mujoco.mju_mulQuat(out, first, second)
    return out


def still_bodies(spec: mujoco.MjSpec) -> set[str]:
    """Return the static bodies of the scene, i.e. the world, tables and walls."""
    still = {"world"}
    for top in spec.worldbody.bodies:
        family = [top]
        for body in family:
            family += body.bodies
        if not any(body.joints or body.mocap for body in family):
            still |= {body.name for body in family}
    return still
