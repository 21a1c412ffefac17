"""What holds a robot up: the floor that it lacks, and the forces of its joints."""

from __future__ import annotations

import mujoco
import numpy as np

from telic.errors import BadEnvironment

_FREE, _SLIDE = int(mujoco.mjtJoint.mjJNT_FREE), int(mujoco.mjtJoint.mjJNT_SLIDE)
_GROUND = (int(mujoco.mjtGeom.mjGEOM_PLANE), int(mujoco.mjtGeom.mjGEOM_HFIELD))
_NEAR_ZERO_M = 0.1
_STEEPEST = 0.7
"""share of gravity that must pull along -z"""
_FOOT = 0.2
"""share of the height of the base that a foot lies below"""
_STEADY = 3.0
"""times the stiffness below which a robot would topple: joints of a leg give way together"""


def missing_floor(model: mujoco.MjModel) -> float | None:
    """Return the height of the floor that a falling robot lacks; None: it lacks none."""
    if _FREE not in model.jnt_type or not np.linalg.norm(model.opt.gravity):
        return None
    touches = (model.geom_contype > 0) | (model.geom_conaffinity > 0)
    fixed = model.body_weldid[model.geom_bodyid] == 0
    solid = np.flatnonzero(touches & ~fixed)
    if not len(solid):
        return None
    data = mujoco.MjData(model)
    if model.nkey:
        data.qpos[:] = model.key_qpos[0]
    mujoco.mj_kinematics(model, data)
    if any(_carries(model, data, int(geom), solid) for geom in np.flatnonzero(touches & fixed)):
        return None
    lowest = _lowest(model, data, solid)
    # Robots are drawn standing on the zero level, or about it, or anywhere in space.
    return 0.0 if abs(lowest) < _NEAR_ZERO_M else lowest


def _carries(model: mujoco.MjModel, data: mujoco.MjData, fixed: int, solid: np.ndarray) -> bool:
    """Say whether something that stands still can be fallen on: below, and not passed through."""
    meets = (model.geom_contype[solid] & model.geom_conaffinity[fixed]) | (
        model.geom_conaffinity[solid] & model.geom_contype[fixed]
    )
    if not meets.any():
        return False
    if model.geom_type[fixed] in _GROUND:
        return True
    low, high = _footprint(model, data, np.array([fixed]))
    theirs_low, theirs_high = _footprint(model, data, solid[meets > 0])
    return bool(((low < theirs_high) & (theirs_low < high)).all())


def _footprint(
    model: mujoco.MjModel, data: mujoco.MjData, geoms: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the smallest and the largest x and y of some geoms, (2,) each."""
    across = data.geom_xmat[geoms].reshape(-1, 3, 3)[:, :2]  # (n, 2, 3)
    box = model.geom_aabb[geoms]
    middle = data.geom_xpos[geoms, :2] + (across * box[:, None, :3]).sum(2)
    reach = (np.abs(across) * box[:, None, 3:]).sum(2)
    return (middle - reach).min(0), (middle + reach).max(0)


def require_z_up(model: mujoco.MjModel, name: str) -> None:
    """Raise BadEnvironment for a model in which gravity does not pull along -z.

    Heights, falls, feet and the way forward are all measured with z up. A slope is fine.
    """
    gravity = np.asarray(model.opt.gravity, dtype=float)
    strength = float(np.linalg.norm(gravity))
    if strength == 0.0 or -gravity[2] > _STEEPEST * strength:
        return
    down = " ".join(f"{value:g}" for value in gravity)
    raise BadEnvironment(
        f'Gravity of "{name}" is {down}: telic measures heights, falls and feet along z.',
        hint="Turn the model so that z is up, by the quat of the bodies on its world, and give it "
        '<option gravity="0 0 -9.81"/>.',
    )


def lowest_mount(model: mujoco.MjModel, data: mujoco.MjData) -> float | None:
    """Return where the ground is below what is bolted to the world and lacks one; else None."""
    is_plane = model.geom_type == int(mujoco.mjtGeom.mjGEOM_PLANE)
    if _FREE in model.jnt_type or is_plane.any() or not np.linalg.norm(model.opt.gravity):
        return None
    bolted = model.body_weldid[model.geom_bodyid] == 0
    return _lowest(model, data, np.flatnonzero(bolted)) if bolted.any() else None


def _lowest(model: mujoco.MjModel, data: mujoco.MjData, geoms: np.ndarray) -> float:
    """Return the height of the lowest point of some geoms."""
    upward = data.geom_xmat[geoms].reshape(-1, 3, 3)[:, 2]  # (n, 3)
    box = model.geom_aabb[geoms]
    middle = data.geom_xpos[geoms, 2] + (upward * box[:, :3]).sum(1)
    reach = (np.abs(upward) * box[:, 3:]).sum(1)
    is_sphere = model.geom_type[geoms] == int(mujoco.mjtGeom.mjGEOM_SPHERE)
    reach[is_sphere] = model.geom_size[geoms, 0][is_sphere]
    return float((middle - reach).min())


def lowest_of_all(model: mujoco.MjModel, data: mujoco.MjData) -> float:
    """Return the height of the lowest point of all that is there."""
    return _lowest(model, data, np.arange(int(model.ngeom)))


def lowest_point(model: mujoco.MjModel, data: mujoco.MjData, root: int) -> float:
    """Return the height of the lowest point of the tree of a body that can touch something."""
    touches = (model.geom_contype > 0) | (model.geom_conaffinity > 0)
    solid = np.flatnonzero(touches & (model.body_rootid[model.geom_bodyid] == root))
    return _lowest(model, data, solid) if len(solid) else float(data.xpos[root, 2])


def steadying(model: mujoco.MjModel, joint: int) -> float:
    """Return the stiffness of a joint that keeps a robot from swaying on its legs, N m/rad.

    A body of mass m at height h on n legs is a pendulum on its head, with m g h to be held back.
    """
    root = int(model.body_rootid[model.jnt_bodyid[joint]])
    is_free = model.body_jntnum[root] and model.jnt_type[model.body_jntadr[root]] == _FREE
    if not is_free or model.jnt_type[joint] == _SLIDE:
        return 0.0
    data = mujoco.MjData(model)
    if model.nkey:
        data.qpos[:] = model.key_qpos[0]
    mujoco.mj_kinematics(model, data)
    members = [b for b in range(1, model.nbody) if model.body_rootid[b] == root]
    low = lowest_point(model, data, root)
    height = float(data.xpos[root, 2]) - low
    weight = float(model.body_mass[members].sum() * np.linalg.norm(model.opt.gravity))
    standing = _ends_near(model, data, root, low + _FOOT * max(height, 0.0))
    return _STEADY * weight * max(height, 0.0) / max(standing, 1)


def _ends_near(model: mujoco.MjModel, data: mujoco.MjData, root: int, height: float) -> int:
    """Return how many ends of a tree reach down to a height: its feet, not its hands."""
    touches = (model.geom_contype > 0) | (model.geom_conaffinity > 0)
    solid = np.flatnonzero(touches & (model.body_rootid[model.geom_bodyid] == root))
    bodies = {int(body) for body in model.geom_bodyid[solid]}
    inner = {int(model.body_parentid[body]) for body in bodies}
    ends = [
        body
        for body in bodies - inner - {root}
        if _lowest(model, data, solid[model.geom_bodyid[solid] == body]) <= height
    ]
    return len(ends)


def holding_force(model: mujoco.MjModel, joint: int) -> float:
    """Return twice the force or torque of a joint that holds what it carries against gravity.

    On a base that is free, a leg carries its share of the whole robot; else what hangs on it.
    """
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    mujoco.mj_comPos(model, data)
    body = int(model.jnt_bodyid[joint])
    root = int(model.body_rootid[body])
    below = [b for b in range(body, model.nbody) if _hangs_on(model, b, body)]
    members = [b for b in range(1, model.nbody) if model.body_rootid[b] == root]
    leaves = [b for b in members if b not in set(model.body_parentid[members].tolist())]
    is_free = model.body_jntnum[root] and model.jnt_type[model.body_jntadr[root]] == _FREE
    weight = float(np.linalg.norm(model.opt.gravity)) or 9.81
    mass = float(model.body_mass[below].sum())
    if is_free:
        mass = max(mass, float(model.body_mass[members].sum()) / max(len(leaves), 1))
    if model.jnt_type[joint] == _SLIDE:
        return 2.0 * weight * mass or 1.0
    away = data.xipos[below] - data.xanchor[joint]
    reach = float(np.linalg.norm(away, axis=1).max()) if below else 0.0
    return 2.0 * weight * mass * reach or 1.0


def _hangs_on(model: mujoco.MjModel, body: int, ancestor: int) -> bool:
    while body > ancestor:
        body = int(model.body_parentid[body])
    return body == ancestor
