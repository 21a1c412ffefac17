"""Read a user's own model file and make it controllable."""

from __future__ import annotations

from pathlib import Path

import mujoco

from telic.envs.names import action_names
from telic.errors import BadEnvironment, UnknownName
from telic.sim import load_model
from telic.sim.library import library


def read_model(path: str) -> tuple[mujoco.MjModel, list[str]]:
    """Compile a model that can be controlled; return it with notes on what was added to it."""
    file = Path(path).expanduser()
    if not file.is_file():
        beside = file.parent.glob("*") if file.parent.is_dir() else ()
        models = [each.name for each in beside if each.suffix in (".xml", ".urdf", ".mjb", ".mjcf")]
        raise UnknownName(f"model file in {file.parent}", file.name, models)
    notes: list[str] = []
    if file.suffix == ".urdf":
        model = _read_urdf(file, notes)
    elif file.suffix == ".mjb":
        model = _read_compiled(file)
    else:  # an absolute path, for a bare name could also mean one of Gymnasium's own models
        model = load_model(str(file.resolve()))
    if model.nu == 0:
        raise BadEnvironment(
            f'"{path}" has no actuators, so there is nothing a policy could do.',
            hint='Add e.g. <actuator><motor joint="knee" gear="50" ctrlrange="-1 1"/></actuator>.',
        )
    names = action_names(model)
    unlimited = [i for i in range(model.nu) if not model.actuator_ctrllimited[i]]
    for i in unlimited:
        model.actuator_ctrlrange[i] = (-1.0, 1.0)
        model.actuator_ctrllimited[i] = 1
    if unlimited:
        notes.append(
            f"No ctrlrange in the model for {', '.join(names[i] for i in unlimited)}: "
            "controls are limited to [-1, 1]."
        )
    return model, notes


def _read_urdf(file: Path, notes: list[str]) -> mujoco.MjModel:
    """Compile a URDF, which has no actuators of its own, with a motor on every joint."""
    library()
    try:
        spec = mujoco.MjSpec.from_file(str(file))
        for joint in spec.joints:
            effort = float(joint.actfrcrange[1])
            motor = spec.add_actuator(name=joint.name, target=joint.name)
            motor.trntype = mujoco.mjtTrn.mjTRN_JOINT
            motor.gear[0] = effort if effort > 0 else 1.0
            motor.ctrlrange = (-1.0, 1.0)
            motor.ctrllimited = 1
        model = spec.compile()
    except ValueError as error:
        raise BadEnvironment(f'MuJoCo cannot read "{file.name}": {error}') from error
    notes.append(
        "URDF: each joint got a motor with its effort limit; the base is fixed to the world."
    )
    return model


def _read_compiled(file: Path) -> mujoco.MjModel:
    library()  # keeps MuJoCo's remarks out of the terminal and of the folder
    try:
        return mujoco.MjModel.from_binary_path(str(file))
    except (ValueError, mujoco.FatalError) as error:
        raise BadEnvironment(
            f'MuJoCo cannot read "{file.name}": {error}',
            hint="A compiled model fits one version of MuJoCo only; give the XML file.",
        ) from error
