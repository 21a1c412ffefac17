"""Build the simulated model: the original model with actuators, a floor and an initial pose.

The robot's files are not modified. An MJCF file that references the robot's meshes is written to
the cache, in a folder named by the hash of its content.
"""

from __future__ import annotations

import functools
import hashlib
import re
import tempfile
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from telic.errors import BadEnvironment, BadFile
from telic.robots._trim import delete_actuators, fitting, still_bodies
from telic.robots.arm import TARGET, add_target, guessed_reach
from telic.robots.catalogue import cache_folder, fetch, named_robot, robot_names
from telic.robots.record import RobotRecord, guessed
from telic.robots.structure import (
    DRIVEN,
    FEET,
    FREE,
    HOME,
    ILLEGAL,
    SCALES,
    annotate,
    at_rest,
    lowest_mount,
    lowest_of_tree,
    lowest_point,
    missing_floor,
)
from telic.sandbox.host import run_worker
from telic.sandbox.worker import HostChannel
from telic.sim.files import (
    are_known,
    in_limits,
    model_documents,
    model_files,
    simulate_briefly,
    trial_options,
)
from telic.storage.files import write_text
from telic.storage.reading import check_file, read_text

_MOVING = (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE)
_BELOW_M = 1e-3
_TIMESTEP_S, _COARSER = 0.005, 5.0
"""Physics timestep, and its maximum relative to the model's because tiny robots move fast."""
_ITERATIONS, _LINE_SEARCHES = 10, 20
"""Solver iterations that are sufficient for robots on a floor and uniform across a batch."""


def built_robot(name: str) -> Path | None:
    """Return the built model for a robot's name or description file, or None for other names.

    Files of named robots are downloaded on first use. A TOML file describes a user's robot.
    """
    folder = cache_folder() / "robots" / "driven"
    if name in robot_names():
        return build_robot(named_record(name), folder, name)
    if name.endswith(".toml") and Path(name).expanduser().is_file():
        path = Path(name).expanduser()
        return build_robot(RobotRecord.read(path), folder, path.stem)
    return None


def named_record(name: str) -> RobotRecord:
    """Return the record of a named robot, and download its files if needed."""
    robot = named_robot(name)
    return RobotRecord.parse({"model": str(fetch(robot).absolute()), **robot.says})


def build_robot(record: RobotRecord, folder: Path, name: str) -> Path:
    """Return the model file of the built robot. The robot is built if it is not cached.

    The output folder is named by the hash of its content, so package versions that build the same
    model share it. The hash of the sources is also cached, which avoids rebuilding.
    """
    model = Path(record.model)
    files = dict.fromkeys((model, *(each.path for each in model_documents(model))))
    texts = [read_text(file, errors="replace") for file in files]
    made_from = [_code(), record.model_dump_json(), *texts]
    made = folder / "made" / _digest("\n".join(made_from))
    if made.is_file():
        target = folder / made.read_text(errors="replace").strip() / f"{name}.xml"
        # Rebuild if the file was modified.
        if target.is_file() and _digest(target.read_text(errors="replace")) == target.parent.name:
            return target
    _, text = complete(record)
    target = folder / _digest(text) / f"{name}.xml"
    write_text(target, text)
    write_text(made, target.parent.name)
    return target


def complete(record: RobotRecord) -> tuple[RobotRecord, str]:
    """Complete a record with inferred fields and return it with its built MJCF.

    Files of unknown origin are processed in a sandbox with a time limit.
    """
    model = Path(record.model)
    files = model_files(model)
    if are_known(files):
        record = guessed(model, record.model_dump(exclude={"model"}))
        return record, driven(record)
    check_file(model)
    with in_limits(model), tempfile.TemporaryDirectory() as place:
        order = {"record": record.model_dump(mode="json")}
        done = run_worker(f"{__name__}:complete_robot", order, **trial_options(Path(place), files))
    return RobotRecord.model_validate(done["record"]), str(done["text"])


def complete_robot(state: None, payload: dict[str, Any], channel: HostChannel) -> dict[str, Any]:
    """Complete a record in a sandboxed process."""
    record, text = complete(RobotRecord.model_validate(payload["record"]))
    simulate_briefly(mujoco.MjModel.from_xml_string(text))
    return {"record": record.model_dump(mode="json"), "text": text}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@functools.cache
def _code() -> str:
    """Return a hash of this package's code and MuJoCo's version."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return _digest(mujoco.__version__ + "".join(file.read_text() for file in files))


def driven(record: RobotRecord) -> str:
    """Return the model with actuators, a floor and a pose as MJCF."""
    spec = record.spec()
    for key in list(spec.keys):
        spec.delete(key)
    if record.actuators == "built":
        delete_actuators(spec)
        _drive(spec, record)
        # Uniform solver settings for all simulations of a batch.
        spec.option.timestep = min(_TIMESTEP_S, _COARSER * float(spec.option.timestep))
        spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
        spec.option.solver = mujoco.mjtSolver.mjSOL_NEWTON
        spec.option.cone, spec.option.impratio = mujoco.mjtCone.mjCONE_PYRAMIDAL, 1.0
        spec.option.iterations, spec.option.ls_iterations = _ITERATIONS, _LINE_SEARCHES
    if record.timestep_s is not None:
        spec.option.timestep = record.timestep_s
    if record.collisions == "ground":
        still = still_bodies(spec)
        for geom in spec.geoms:
            if geom.contype or geom.conaffinity:
                is_still = geom.parent.name in still
                geom.contype, geom.conaffinity = (1, 0) if is_still else (0, 1)
    try:
        model = spec.compile()
        qpos = _standing(model, record)
        floor = 0.0 if missing_floor(model) is not None else None
        if floor is None:  # add ground below a fixed base unless the robot reaches below its mount
            data = at_rest(model, qpos)
            mount = lowest_mount(model, data)
            if mount is not None and lowest_point(model, data) > mount - _BELOW_M:
                floor = mount
        if floor is not None:
            spec.worldbody.add_geom(
                name="floor",
                type=mujoco.mjtGeom.mjGEOM_PLANE,
                size=(0, 0, 0.05),
                pos=(0, 0, floor),
                contype=1,
                conaffinity=1,
                friction=(record.friction, 0.005, 0.0001),
            )
        if record.actuators == "built":
            qpos = _with_target(spec, record, model, qpos)
            annotate(spec, DRIVEN, [Path(record.model).name])
        spec.add_key(name="home", qpos=qpos)
        _annotate(spec, record)
        spec.compile()
        return spec.to_xml()
    except ValueError as error:
        raise BadEnvironment(f'Actuators cannot be added to "{record.model}": {error}') from error


def _with_target(
    spec: mujoco.MjSpec, record: RobotRecord, model: mujoco.MjModel, qpos: np.ndarray
) -> np.ndarray:
    """Add a target to an arm and return the pose including the target's position."""
    names = {each.name for each in (*spec.bodies, *spec.joints, *spec.geoms)}
    own = {TARGET, "goal", *(f"{TARGET}_{axis}" for axis in "xyz")}
    reach = guessed_reach(model, qpos, record.hand)
    if reach is None or names & own:
        return qpos
    reach = reach if record.goal is None else reach._replace(goal=record.goal)
    add_target(spec, reach)
    return np.concatenate((qpos, reach.farthest()))  # away from the hand's initial position


def _annotate(spec: mujoco.MjSpec, record: RobotRecord) -> None:
    """Annotate the model with the record's feet, illegal contacts and action scales."""
    name = Path(record.model).name
    annotate(spec, HOME, [str(Path(record.model).parent)])
    bodies = [body.name for body in spec.bodies[1:]]
    for key, patterns in ((FEET, record.feet), (ILLEGAL, record.illegal_contacts)):
        if patterns is not None:
            found = [
                each for pattern in patterns for each in fitting(pattern, bodies, "body", name)
            ]
            annotate(spec, key, list(dict.fromkeys(found)))
    scales = {
        joint: drive.scale or 0.0
        for drive in record.drives
        for joint in (each.name for each in spec.joints)
        if re.fullmatch(drive.joints, joint)
    }
    if any(scales.values()):
        annotate(spec, SCALES, [scales.get(each.name, 0.0) for each in spec.actuators])


def _drive(spec: mujoco.MjSpec, record: RobotRecord) -> None:
    joints = [joint for joint in spec.joints if joint.type in _MOVING]
    left = {joint.name for joint in joints}
    for drive in record.drives:
        stiffness, damping = drive.gains
        own = [joint for joint in joints if re.fullmatch(drive.joints, joint.name)]
        if not own:
            raise BadFile(
                f'The drive "{drive.joints}" does not match a joint of {Path(record.model).name}.',
                hint=f"Available joints: {', '.join(joint.name for joint in joints)}.",
            )
        for joint in own:
            if joint.name not in left:
                raise BadFile(f"Two drives in {Path(record.model).name} match {joint.name}.")
            left.discard(joint.name)
            if drive.armature:
                joint.armature = drive.armature
            actuator = spec.add_actuator(name=joint.name, target=joint.name)
            actuator.trntype = mujoco.mjtTrn.mjTRN_JOINT
            actuator.set_to_position(kp=stiffness, kv=damping)
            # Override the model's actuator defaults.
            actuator.gear = (1, 0, 0, 0, 0, 0)
            actuator.forcerange, actuator.forcelimited = (-drive.effort, drive.effort), 1
            is_limited = bool(joint.range[0] < joint.range[1])
            limits = joint.range if is_limited else (0, 0)
            actuator.ctrlrange, actuator.ctrllimited = limits, int(is_limited)


def _standing(model: mujoco.MjModel, record: RobotRecord) -> np.ndarray:
    """Return the initial pose. By default, the robot's lowest point is on the floor."""
    data = mujoco.MjData(model)
    names = [model.joint(joint).name for joint in range(model.njnt)]
    for name, value in record.posed(record.source()).items():
        if name in names:  # neither removed nor locked
            data.qpos[model.jnt_qposadr[names.index(name)]] = value
    free = next((j for j in range(model.njnt) if model.jnt_type[j] == FREE), None)
    if free is None:
        return data.qpos.copy()
    height = int(model.jnt_qposadr[free]) + 2
    if record.height is not None:
        data.qpos[height] = record.height
        return data.qpos.copy()
    mujoco.mj_kinematics(model, data)
    data.qpos[height] -= lowest_of_tree(model, data, int(model.jnt_bodyid[free]))
    return data.qpos.copy()
