"""The model that is simulated: the public one with our drives, a floor and a pose to start from.

The files of the robot stay as they are. What is written is one MJCF that names their meshes, in the
cache, under a name that holds the hash of everything it was made from.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import mujoco
import numpy as np

from telic.errors import BadEnvironment, BadFile
from telic.robots.catalogue import cache_folder, fetch, named_robot, robot_names
from telic.robots.record import RobotRecord, guessed
from telic.robots.statics import lowest_point, missing_floor
from telic.robots.trim import still_bodies
from telic.storage.files import write_text

_MOVING = (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE)
DRIVEN = "telic_driven"
"""text in a model that says that its drives were built here"""
_EDITION = 4
"""of what this module makes of a record; another one makes new files"""
_TIMESTEP_S = 0.005
_ITERATIONS, _LINE_SEARCHES = 10, 20
"""of the solver: enough for robots on a floor, and the same work for every one of a batch"""


def robot_path(name: str) -> Path | None:
    """Return the model that is simulated for a robot's name or file; None: it is neither.

    A name fetches its files at the first need. A TOML file describes a robot of the user's own.
    """
    if name in robot_names():
        robot = named_robot(name)
        record = guessed(fetch(robot), robot.says)
        return build(record, cache_folder() / "robots" / "driven", name)
    if name.endswith(".toml") and Path(name).expanduser().is_file():
        path = Path(name).expanduser()
        read = RobotRecord.read(path)
        record = guessed(Path(read.model), read.model_dump(exclude={"model"}))
        return build(record, cache_folder() / "robots" / "driven", path.stem)
    return None


def build(record: RobotRecord, folder: Path, name: str) -> Path:
    """Return the file of the driven robot, made at the first need."""
    model = Path(record.model).read_text(errors="replace")
    made_from = f"{_EDITION} {record.model_dump_json()} {model}"
    digest = hashlib.sha256(made_from.encode()).hexdigest()[:12]
    target = folder / digest / f"{name}.xml"
    if not target.is_file():
        write_text(target, driven(record))
    return target


def driven(record: RobotRecord) -> str:
    """Return the model with drives, floor and pose as MJCF."""
    spec = record.spec()
    for key in list(spec.keys):
        spec.delete(key)
    if record.actuators == "built":
        for actuator in list(spec.actuators):
            spec.delete(actuator)
        _drive(spec, record)
        _set_options(spec)
    if record.timestep_s is not None:
        spec.option.timestep = record.timestep_s
    if record.collisions == "ground":
        _touch_only_ground(spec)
    try:
        model = spec.compile()
        if missing_floor(model) is not None:
            spec.worldbody.add_geom(
                name="floor",
                type=mujoco.mjtGeom.mjGEOM_PLANE,
                size=(0, 0, 0.05),
                contype=1,
                conaffinity=1,
                friction=(record.friction, 0.005, 0.0001),
            )
        spec.add_key(name="home", qpos=_standing(model, record))
        if record.actuators == "built":
            spec.add_text(name=DRIVEN, data=Path(record.model).name)
        spec.compile()
        return spec.to_xml()
    except ValueError as error:
        raise BadEnvironment(f'"{record.model}" cannot be driven: {error}') from error


def _set_options(spec: mujoco.MjSpec) -> None:
    """Set the physics for batches: the same work for every simulation."""
    spec.option.timestep = _TIMESTEP_S
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    spec.option.solver = mujoco.mjtSolver.mjSOL_NEWTON
    spec.option.cone, spec.option.impratio = mujoco.mjtCone.mjCONE_PYRAMIDAL, 1.0
    spec.option.iterations, spec.option.ls_iterations = _ITERATIONS, _LINE_SEARCHES


def _touch_only_ground(spec: mujoco.MjSpec) -> None:
    """Let parts of the robot collide with what stands still, and not with each other."""
    still = still_bodies(spec)
    for geom in spec.geoms:
        if geom.contype or geom.conaffinity:
            is_still = geom.parent.name in still
            geom.contype, geom.conaffinity = (1, 0) if is_still else (0, 1)


def _drive(spec: mujoco.MjSpec, record: RobotRecord) -> None:
    joints = [joint for joint in spec.joints if joint.type in _MOVING]
    left = {joint.name for joint in joints}
    for drive in record.drives:
        stiffness, damping = drive.gains
        own = [joint for joint in joints if re.fullmatch(drive.joints, joint.name)]
        if not own:
            raise BadFile(
                f'The drive of "{drive.joints}" fits no joint of {Path(record.model).name}.',
                hint=f"Its joints: {', '.join(joint.name for joint in joints)}.",
            )
        for joint in own:
            if joint.name not in left:
                raise BadFile(f"Two drives of {Path(record.model).name} fit {joint.name}.")
            left.discard(joint.name)
            if drive.armature:
                joint.armature = drive.armature
            actuator = spec.add_actuator(name=joint.name, target=joint.name)
            actuator.trntype = mujoco.mjtTrn.mjTRN_JOINT
            actuator.set_to_position(kp=stiffness, kv=damping)
            actuator.forcerange, actuator.forcelimited = (-drive.effort, drive.effort), 1
            is_limited = bool(joint.range[0] < joint.range[1])
            if is_limited:
                actuator.ctrlrange, actuator.ctrllimited = joint.range, 1


def _standing(model: mujoco.MjModel, record: RobotRecord) -> np.ndarray:
    """Return the pose to start from, with the base where its lowest point touches the floor."""
    data = mujoco.MjData(model)
    names = [model.joint(joint).name for joint in range(model.njnt)]
    for name, value in record.posed(record.source()).items():
        if name in names:  # neither left out nor locked
            data.qpos[model.jnt_qposadr[names.index(name)]] = value
    free = next(
        (j for j in range(model.njnt) if model.jnt_type[j] == int(mujoco.mjtJoint.mjJNT_FREE)), None
    )
    if free is None:
        return data.qpos.copy()
    height = int(model.jnt_qposadr[free]) + 2
    if record.height is not None:
        data.qpos[height] = record.height
        return data.qpos.copy()
    mujoco.mj_kinematics(model, data)
    data.qpos[height] -= lowest_point(model, data, int(model.jnt_bodyid[free]))
    return data.qpos.copy()
