"""Analyze the structure of a MuJoCo model: kinematic trees, actuated joints and static loads.

Properties that MJCF cannot express (feet, action scales, goals) are stored in the model as custom
text elements.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

import mujoco
import numpy as np
from pydantic import TypeAdapter, ValidationError

from telic.errors import BadEnvironment

FREE, BALL, SLIDE, HINGE = (
    int(getattr(mujoco.mjtJoint, f"mjJNT_{name}")) for name in ("FREE", "BALL", "SLIDE", "HINGE")
)
DRIVEN: Final = "telic_driven"
"""Text element of models whose actuators telic built."""
HOME: Final = "telic_home"
"""Text element with the folder of the model from which a robot was built."""
FEET: Final = "telic_feet"
ILLEGAL: Final = "telic_illegal_contacts"
SCALES: Final = "telic_action_scales"
GOAL: Final = "telic_goal"

_ON_JOINT, _IN_PARENT, _CRANK, _ON_TENDON, _ON_SITE, _ON_BODY = (
    int(getattr(mujoco.mjtTrn, f"mjTRN_{name}"))
    for name in ("JOINT", "JOINTINPARENT", "SLIDERCRANK", "TENDON", "SITE", "BODY")
)
_ALONG_JOINT, _ALONG_SITE, _ROUND_SPHERE, _ROUND_CYLINDER = (
    int(getattr(mujoco.mjtWrap, f"mjWRAP_{name}"))
    for name in ("JOINT", "SITE", "SPHERE", "CYLINDER")
)
_GROUND = (int(mujoco.mjtGeom.mjGEOM_PLANE), int(mujoco.mjtGeom.mjGEOM_HFIELD))
_NEAR_ZERO_M = 0.1
_MIN_DOWN = 0.7
"""Minimum fraction of gravity along -z."""
_FOOT = 0.2
"""Height below which the end of a limb is a foot, relative to the base height."""
_STEADY = 3.0
"""Safety factor on the toppling stiffness, because all joints of a leg yield together."""


# ---- annotations


def annotate(spec: mujoco.MjSpec, name: str, values: Sequence[str | float]) -> None:
    """Store a list of values in a model as a text element."""
    spec.add_text(name=name, data=json.dumps(list(values)))


def model_text(model: mujoco.MjModel, name: str) -> str | None:
    """Return a text element of a model, or None if there is none with that name."""
    number = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_TEXT, name)
    if number < 0:
        return None
    first, size = int(model.text_adr[number]), int(model.text_size[number])
    return bytes(model.text_data[first : first + size]).split(b"\0")[0].decode()


def annotated_numbers(model: mujoco.MjModel, name: str) -> list[float] | None:
    """Return the numbers annotated under a name, or None."""
    text = model_text(model, name)
    try:
        return None if text is None else TypeAdapter(list[float]).validate_json(text)
    except ValidationError:
        raise _foreign_text(name, "numbers") from None


def annotated_bodies(model: mujoco.MjModel, name: str) -> tuple[int, ...] | None:
    """Return the ids of the bodies annotated under a name, or None."""
    text = model_text(model, name)
    try:
        names = [] if text is None else TypeAdapter(list[str]).validate_json(text)
        return None if text is None else tuple(int(model.body(each).id) for each in names)
    except (ValidationError, KeyError):
        raise _foreign_text(name, "bodies of the model") from None


def _foreign_text(name: str, wanted: str) -> BadEnvironment:
    return BadEnvironment(
        f'The text element "{name}" of the model does not list {wanted}. It was written for an '
        "earlier version of the model.",
        hint="Remove the text element to have its content inferred.",
    )


# ---- trees and actuators


def ancestors(model: mujoco.MjModel, body: int) -> list[int]:
    """Return the ancestors of a body, nearest first and excluding the world."""
    chain: list[int] = []
    while body := int(model.body_parentid[body]):
        chain.append(body)
    return chain


def joints_of(model: mujoco.MjModel, body: int) -> range:
    """Return the joint ids of a body."""
    first = int(model.body_jntadr[body])
    return range(first, first + int(model.body_jntnum[body]))


def geoms_of(model: mujoco.MjModel, body: int) -> range:
    """Return the geom ids of a body."""
    first = int(model.body_geomadr[body])
    return range(first, first + int(model.body_geomnum[body]))


def hinge_ends(model: mujoco.MjModel) -> set[int]:
    """Return the bodies with hinges that have no descendants with hinges."""
    moved = {int(body) for body in model.jnt_bodyid[model.jnt_type == HINGE]}
    return moved - {above for body in moved for above in ancestors(model, body)}


def unused_name(stem: str, taken: set[str]) -> str:
    """Return an unused name and add it to `taken`. If needed, a number from 2 is appended."""
    names = (stem, *(f"{stem}{number}" for number in range(2, len(taken) + 3)))
    name = next(name for name in names if name not in taken)
    taken.add(name)
    return name


def moved_joints(model: mujoco.MjModel) -> set[int]:
    """Return the joints that actuators move, directly or through tendons.

    A spatial tendon moves all ancestor joints of its sites. Actuators on sites or bodies do not
    move specific joints.
    """
    moved: set[int] = set()
    for i in range(model.nu):
        kind, number = int(model.actuator_trntype[i]), int(model.actuator_trnid[i, 0])
        if kind in (_ON_JOINT, _IN_PARENT):
            moved.add(number)
        elif kind == _ON_TENDON:
            for wrap, target, body in _wraps(model, number):
                if wrap == _ALONG_JOINT:
                    moved.add(target)
                elif wrap == _ALONG_SITE:
                    for carrier in (body, *ancestors(model, body)):
                        moved |= set(joints_of(model, carrier))
    return moved


def driven_trees(model: mujoco.MjModel) -> list[int]:
    """Return the root bodies of the actuated kinematic trees, in model order."""
    bodies: set[int] = set()
    for i in range(model.nu):
        kind, (first, second) = int(model.actuator_trntype[i]), map(int, model.actuator_trnid[i])
        if kind in (_ON_JOINT, _IN_PARENT):
            bodies.add(int(model.jnt_bodyid[first]))
        elif kind in (_CRANK, _ON_SITE):
            sites = (first, second) if kind == _CRANK else (first,)
            bodies |= {int(model.site_bodyid[site]) for site in sites}
        elif kind == _ON_TENDON:
            bodies |= {body for _, _, body in _wraps(model, first)}
        elif kind == _ON_BODY:
            bodies.add(first)
    return sorted({int(model.body_rootid[body]) for body in bodies} - {0})


def _wraps(model: mujoco.MjModel, tendon: int) -> list[tuple[int, int, int]]:
    """Return the type, object id and body of each wrap point of a tendon."""
    first, count = int(model.tendon_adr[tendon]), int(model.tendon_num[tendon])
    owners = {
        _ALONG_JOINT: model.jnt_bodyid,
        _ALONG_SITE: model.site_bodyid,
        _ROUND_SPHERE: model.geom_bodyid,
        _ROUND_CYLINDER: model.geom_bodyid,
    }
    kinds = model.wrap_type[first : first + count].tolist()
    numbers = model.wrap_objid[first : first + count].tolist()
    pairs = zip(kinds, numbers, strict=True)
    return [(kind, n, int(owners[kind][n])) for kind, n in pairs if kind in owners]


# ---- geometry


def geom_bounds(model: mujoco.MjModel, data: mujoco.MjData, geoms: np.ndarray) -> np.ndarray:
    """Return the axis-aligned bounding boxes of geoms in the world frame, (n, 2, 3)."""
    turned = data.geom_xmat[geoms].reshape(-1, 3, 3)
    box = model.geom_aabb[geoms]
    middle = data.geom_xpos[geoms] + (turned * box[:, None, :3]).sum(2)
    reach = (np.abs(turned) * box[:, None, 3:]).sum(2)
    return np.stack((middle - reach, middle + reach), axis=1)


def solid_geoms(model: mujoco.MjModel) -> np.ndarray:
    """Return a mask of the geoms that can collide, (ngeom,) bool."""
    return (model.geom_contype > 0) | (model.geom_conaffinity > 0)


def lowest_point(
    model: mujoco.MjModel, data: mujoco.MjData, geoms: np.ndarray | None = None
) -> float:
    """Return the height of the lowest point of the given geoms. The default is all geoms."""
    if geoms is None:
        geoms = np.arange(int(model.ngeom))
    low = geom_bounds(model, data, geoms)[:, 0, 2]
    is_sphere = model.geom_type[geoms] == int(mujoco.mjtGeom.mjGEOM_SPHERE)
    low[is_sphere] = (data.geom_xpos[geoms, 2] - model.geom_size[geoms, 0])[is_sphere]
    return float(low.min())


def lowest_of_tree(model: mujoco.MjModel, data: mujoco.MjData, root: int) -> float:
    """Return the height of the lowest collision point of a kinematic tree."""
    solid = np.flatnonzero(solid_geoms(model) & (model.body_rootid[model.geom_bodyid] == root))
    return lowest_point(model, data, solid) if len(solid) else float(data.xpos[root, 2])


def missing_floor(model: mujoco.MjModel) -> float | None:
    """Return the height at which a floating robot needs a floor, or None if no floor is needed."""
    if FREE not in model.jnt_type or not np.linalg.norm(model.opt.gravity):
        return None
    fixed = model.body_weldid[model.geom_bodyid] == 0
    solid = np.flatnonzero(solid_geoms(model) & ~fixed)
    if not len(solid):
        return None
    data = at_rest(model)
    still = np.flatnonzero(solid_geoms(model) & fixed)
    if any(_carries(model, data, int(geom), solid) for geom in still):
        return None
    lowest = lowest_point(model, data, solid)
    # Models near height 0 get a floor there, others below their lowest point.
    return 0.0 if abs(lowest) < _NEAR_ZERO_M else lowest


def at_rest(model: mujoco.MjModel, qpos: np.ndarray | None = None) -> mujoco.MjData:
    """Return data with kinematics at `qpos`. The default is the first keyframe or `qpos0`."""
    data = mujoco.MjData(model)
    if qpos is not None or model.nkey:
        data.qpos[:] = model.key_qpos[0] if qpos is None else qpos
    mujoco.mj_kinematics(model, data)
    return data


def _carries(model: mujoco.MjModel, data: mujoco.MjData, fixed: int, solid: np.ndarray) -> bool:
    """Return whether a fixed geom supports a robot, i.e. collides and overlaps horizontally."""
    meets = (model.geom_contype[solid] & model.geom_conaffinity[fixed]) | (
        model.geom_conaffinity[solid] & model.geom_contype[fixed]
    )
    if not meets.any() or model.geom_type[fixed] in _GROUND:
        return bool(meets.any())
    low, high = geom_bounds(model, data, np.array([fixed]))[0, :, :2]
    bounds = geom_bounds(model, data, solid[meets > 0])[:, :, :2]
    return bool(((low < bounds[:, 1].max(0)) & (bounds[:, 0].min(0) < high)).all())


def lowest_mount(model: mujoco.MjModel, data: mujoco.MjData) -> float | None:
    """Return the ground height below a fixed-base robot without a floor, or None."""
    is_plane = model.geom_type == int(mujoco.mjtGeom.mjGEOM_PLANE)
    if FREE in model.jnt_type or is_plane.any() or not np.linalg.norm(model.opt.gravity):
        return None
    bolted = model.body_weldid[model.geom_bodyid] == 0
    return lowest_point(model, data, np.flatnonzero(bolted)) if bolted.any() else None


def require_z_up(model: mujoco.MjModel, name: str) -> None:
    """Raise BadEnvironment unless gravity points along -z.

    Heights, falls, feet and the forward direction assume z up. Moderate slopes are accepted.
    """
    gravity = np.asarray(model.opt.gravity, dtype=float)
    strength = float(np.linalg.norm(gravity))
    if strength == 0.0 or -gravity[2] > _MIN_DOWN * strength:
        return
    down = " ".join(f"{value:g}" for value in gravity)
    raise BadEnvironment(
        f'Gravity of "{name}" is {down}, but telic requires it to point along -z.',
        hint="Rotate the model so that z is up, using the quat of the top-level bodies, and set "
        '<option gravity="0 0 -9.81"/>.',
    )


# ---- forces


def _is_free(model: mujoco.MjModel, root: int) -> bool:
    return bool(model.body_jntnum[root] and model.jnt_type[model.body_jntadr[root]] == FREE)


def steadying_stiffness(model: mujoco.MjModel, joint: int) -> float:
    """Return the joint stiffness that keeps a robot upright on its legs, in N m/rad.

    A body of mass m at height h on n legs is an inverted pendulum that needs a stiffness of m g h.
    """
    root = int(model.body_rootid[model.jnt_bodyid[joint]])
    if not _is_free(model, root) or model.jnt_type[joint] == SLIDE:
        return 0.0
    data = at_rest(model)
    members = [b for b in range(1, model.nbody) if model.body_rootid[b] == root]
    low = lowest_of_tree(model, data, root)
    height = max(float(data.xpos[root, 2]) - low, 0.0)
    weight = float(model.body_mass[members].sum() * np.linalg.norm(model.opt.gravity))
    solid = np.flatnonzero(solid_geoms(model) & (model.body_rootid[model.geom_bodyid] == root))
    bodies = {int(body) for body in model.geom_bodyid[solid]}
    ends = bodies - {int(model.body_parentid[body]) for body in bodies} - {root}
    feet = [
        body
        for body in ends
        if lowest_point(model, data, solid[model.geom_bodyid[solid] == body])
        <= low + _FOOT * height
    ]
    return _STEADY * weight * height / max(len(feet), 1)


def holding_force(model: mujoco.MjModel, joint: int) -> float:
    """Return twice the force or torque that a joint needs to hold its load against gravity.

    The load is the mass of all descendants. A free base adds a minimum, the robot's mass per limb.
    """
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    mujoco.mj_comPos(model, data)
    body = int(model.jnt_bodyid[joint])
    root = int(model.body_rootid[body])
    below = [b for b in range(body, model.nbody) if b == body or body in ancestors(model, b)]
    members = [b for b in range(1, model.nbody) if model.body_rootid[b] == root]
    leaves = [b for b in members if b not in set(model.body_parentid[members].tolist())]
    weight = float(np.linalg.norm(model.opt.gravity)) or 9.81
    mass = float(model.body_mass[below].sum())
    if _is_free(model, root):
        mass = max(mass, float(model.body_mass[members].sum()) / max(len(leaves), 1))
    if model.jnt_type[joint] == SLIDE:
        return 2.0 * weight * mass or 1.0
    away = data.xipos[below] - data.xanchor[joint]
    reach = float(np.linalg.norm(away, axis=1).max()) if below else 0.0
    return 2.0 * weight * mass * reach or 1.0
