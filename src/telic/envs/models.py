"""Load user-provided models and add missing parts that a policy needs.

Floating robots without a floor get a floor, actuators without limits get suitable limits, and
position actions are centered on the initial pose. Added floors and limits are reported as notes.
"""

from __future__ import annotations

import os
from pathlib import Path

import mujoco
import numpy as np

from telic.envs.anatomy import action_names
from telic.errors import BadEnvironment, UnknownName
from telic.robots.structure import (
    FREE,
    HINGE,
    SCALES,
    SLIDE,
    annotated_numbers,
    holding_force,
    missing_floor,
    require_z_up,
)
from telic.robots.terrain import Ground, lay
from telic.sim.cpu import library
from telic.sim.files import MODEL_FILES, require_compilable, unreadable
from telic.sim.simulation import load_model

_FLAT = Ground()
ON_JOINT = int(mujoco.mjtTrn.mjTRN_JOINT)
_MAX_SWING_RAD = 1.25
"""Maximum deviation of a walking robot's joint targets from the resting pose."""
_WIDE_RAD, _WIDE_M = np.pi / 2, 0.5
"""Position range around rest if neither the actuator nor the joint has limits."""


def read_model(path: str, ground: Ground = _FLAT) -> tuple[mujoco.MjModel, list[str]]:
    """Compile a controllable model on `ground` and return it with notes on added parts."""
    file = Path(path).expanduser()
    if not os.path.isfile(file):
        siblings = file.parent.glob("*") if os.path.isdir(file.parent) else ()
        models = [near.name for near in siblings if near.suffix in MODEL_FILES]
        raise UnknownName("model file", path, models)
    notes: list[str] = []
    if file.suffix == ".urdf":
        model = _read_urdf(file, notes)
    else:  # an absolute path, because a bare name could also refer to a Gymnasium asset
        model = load_model(os.path.abspath(file))
        if ground != _FLAT:
            model = lay(mujoco.MjSpec.from_file(os.path.abspath(file)), ground)
    if model.nu == 0:
        raise BadEnvironment(
            f'"{path}" has no actuators to control.',
            hint=f"To add position actuators, run telic robots {file.name} --describe > "
            f"{file.stem}.toml, and use {file.stem}.toml.",
        )
    require_z_up(model, file.name)
    height = missing_floor(model)
    if height is not None and file.suffix not in (".mjb", ".urdf"):
        spec = mujoco.MjSpec.from_file(os.path.abspath(file))
        plane, place = mujoco.mjtGeom.mjGEOM_PLANE, (0, 0, height)
        spec.worldbody.add_geom(name="telic_ground", type=plane, size=(0, 0, 0.05), pos=place)
        model = spec.compile()
        notes.append(f"The model has no floor. One was added at a height of {height:.3g} m.")
    names = action_names(model)
    limited: dict[str, list[str]] = {}
    for i in np.flatnonzero(model.actuator_ctrllimited == 0):
        low, high, why = _sensible_range(model, int(i))
        model.actuator_ctrlrange[i] = (low, high)
        model.actuator_ctrllimited[i] = 1
        limited.setdefault(f"[{low:.3g}, {high:.3g}] ({why})", []).append(names[i])
    for limits, which in limited.items():
        notes.append(
            f"The model has no ctrlrange for {', '.join(which)}. Controls are limited to {limits}."
        )
    return model, notes


def _read_urdf(file: Path, notes: list[str]) -> mujoco.MjModel:
    """Compile a URDF with a motor added to every joint."""
    library()
    require_compilable(file)
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
        raise unreadable(file.name, error) from error
    notes.append("A motor with the effort limit was added to each URDF joint. The base is fixed.")
    return model


def _sensible_range(model: mujoco.MjModel, i: int) -> tuple[float, float, str]:
    """Return a control range for an actuator without limits, and the reason for this range."""
    gain = float(abs(model.actuator_gainprm[i, 0])) or 1.0
    gear = float(abs(model.actuator_gear[i, 0])) or 1.0
    joint = int(model.actuator_trnid[i, 0])
    on_joint = model.actuator_trntype[i] == ON_JOINT and model.jnt_type[joint] in (HINGE, SLIDE)
    if on_joint and is_position(model, i):
        if model.jnt_limited[joint]:
            low, high = (float(each) * gear for each in model.jnt_range[joint])
            return low, high, "the joint's range"
        rest = float((model.key_qpos[0] if model.nkey else model.qpos0)[model.jnt_qposadr[joint]])
        wide = (_WIDE_RAD if model.jnt_type[joint] == HINGE else _WIDE_M) * gear
        return rest * gear - wide, rest * gear + wide, "the range around the initial pose"
    if model.actuator_forcelimited[i]:
        most = float(np.abs(model.actuator_forcerange[i]).max()) / gain
        return -most, most, "its force range"
    if on_joint and model.jnt_actfrclimited[joint]:
        most = float(np.abs(model.jnt_actfrcrange[joint]).max()) / (gain * gear)
        return -most, most, "the joint's force range"
    if not on_joint or gear != 1.0 or gain != 1.0 or model.actuator_biastype[i] != 0:
        return -1.0, 1.0, "unit controls, scaled by its gear"
    most = holding_force(model, joint)
    return -most, most, "twice the holding force against gravity"


def is_position(model: mujoco.MjModel, i: int) -> bool:
    """Return whether an actuator is a position servo."""
    affine = model.actuator_biastype[i] == int(mujoco.mjtBias.mjBIAS_AFFINE)
    fixed = model.actuator_gaintype[i] == int(mujoco.mjtGain.mjGAIN_FIXED)
    pulls = model.actuator_biasprm[i, 1] < 0.0 < model.actuator_gainprm[i, 0]
    return bool(affine and fixed and pulls)


def action_limits(model: mujoco.MjModel, rest_qpos: np.ndarray) -> np.ndarray:
    """Return the action limits, (nu, 2).

    Limits of position actuators are as wide as their range but centered on the resting pose, so
    that an untrained policy holds this pose. MuJoCo clamps actions to the control range.
    """
    limits = np.array(model.actuator_ctrlrange, dtype=float)
    walks = FREE in model.jnt_type
    scales = annotated_numbers(model, SCALES) or [0.0] * int(model.nu)
    if len(scales) != model.nu:
        raise BadEnvironment(
            f'The text "{SCALES}" of the model has {len(scales)} values, not {model.nu}.',
            hint="Remove that element to have the scales inferred.",
        )
    for i in range(model.nu):
        joint = int(model.actuator_trnid[i, 0])
        on_joint = model.actuator_trntype[i] == ON_JOINT
        if not on_joint or model.jnt_type[joint] not in (HINGE, SLIDE) or not is_position(model, i):
            continue
        bias, gain = model.actuator_biasprm[i], float(model.actuator_gainprm[i, 0])
        length = float(rest_qpos[model.jnt_qposadr[joint]] * model.actuator_gear[i, 0])
        rest = float(np.clip(-(bias[0] + bias[1] * length) / gain, *limits[i]))
        half = float(limits[i, 1] - limits[i, 0]) / 2.0
        if walks and model.jnt_type[joint] == HINGE:
            half = min(half, _MAX_SWING_RAD * float(abs(model.actuator_gear[i, 0])))
        half = scales[i] or half
        limits[i] = rest - half, rest + half
    return limits
