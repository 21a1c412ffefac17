"""Position actuators for a robot that has none: a new model file, with gains from its inertia.

    python -m telic.envs.actuators robot.xml robot_driven.xml

Every joint between two parts gets one, as stiff as it takes to hold the robot and damped so that it
does not ring. The new file belongs beside the old one, for its meshes are named relative to it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import mujoco
import numpy as np

from telic.errors import BadEnvironment, TelicError, UsageError
from telic.robots.statics import holding_force
from telic.sim.cpu import library
from telic.storage.files import write_text

_SAG_RAD, _SAG_M = 0.1, 0.02
"""how far a joint gives way under what it holds"""
_FASTEST = 12.0
"""natural frequency of a joint by its own inertia, rad/s, at the least"""
_STRONG = 2.0
"""force limit, in what holds the robot twice"""
_MOVING = (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE)


def add_position_actuators(spec: mujoco.MjSpec) -> tuple[str, ...]:
    """Give every joint of a model a position actuator; return their names.

    Raises:
        BadEnvironment: there is no joint to drive.
    """
    model = spec.compile()
    for actuator in list(spec.actuators):
        spec.delete(actuator)
    names: list[str] = []
    for index, joint in enumerate(spec.joints):
        if joint.type not in _MOVING:
            continue
        if not joint.name:
            joint.name = f"joint_{index}"
        inertia = float(model.dof_M0[model.jnt_dofadr[index]])
        hold = holding_force(model, index)
        is_hinge = joint.type == mujoco.mjtJoint.mjJNT_HINGE
        stiffness = max(0.5 * hold / (_SAG_RAD if is_hinge else _SAG_M), inertia * _FASTEST**2)
        actuator = spec.add_actuator(name=f"{joint.name}_position", target=joint.name)
        actuator.trntype = mujoco.mjtTrn.mjTRN_JOINT
        actuator.set_to_position(kp=stiffness, dampratio=1.0)
        limited = bool(model.jnt_limited[index])
        low, high = model.jnt_range[index] if limited else _wide(model, index, is_hinge)
        actuator.ctrlrange = (float(low), float(high))
        actuator.ctrllimited = 1
        actuator.forcerange = (-_STRONG * hold, _STRONG * hold)
        actuator.forcelimited = 1
        names.append(actuator.name)
    if not names:
        raise BadEnvironment(
            "The model has no hinge or slide joint, so there is nothing an actuator could drive.",
            hint='Give its parts joints: <joint name="knee" axis="0 1 0" range="-90 0"/>.',
        )
    return tuple(names)


def _wide(model: mujoco.MjModel, joint: int, is_hinge: bool) -> tuple[float, float]:
    rest, wide = float(model.qpos0[model.jnt_qposadr[joint]]), np.pi / 2 if is_hinge else 0.5
    return rest - wide, rest + wide


def write_driven(source: Path, target: Path) -> tuple[str, ...]:
    """Write a model with a position actuator on every joint; return the actuators' names.

    Raises:
        UsageError: the new file would overwrite the old one, or lose its meshes elsewhere.
        BadEnvironment: MuJoCo cannot read the model.
    """
    if target.exists():
        raise UsageError(f"{target} exists already.", hint="Give the name of a new file.")
    if target.absolute().parent != source.absolute().parent:
        raise UsageError(
            f"{target} would lie in another folder than {source}, whose files it names.",
            hint=f"Write it beside: {source.parent / target.name}.",
        )
    library()  # keeps MuJoCo's remarks out of the terminal and of the folder
    try:
        spec = mujoco.MjSpec.from_file(os.path.abspath(source))
        names = add_position_actuators(spec)
        spec.compile()
        text = spec.to_xml()
    except ValueError as error:
        raise BadEnvironment(f'MuJoCo cannot read "{source}": {error}') from error
    write_text(target, text)
    return names


def main(arguments: list[str]) -> int:
    """Write the model named second from the one named first."""
    if len(arguments) != 2:
        sys.stderr.write("usage: python -m telic.envs.actuators ROBOT.xml NEW.xml\n")
        return 2
    try:
        names = write_driven(Path(arguments[0]), Path(arguments[1]))
    except TelicError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{arguments[1]}: {len(names)} position actuators: {', '.join(names)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
