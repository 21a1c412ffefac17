"""What the actuators of a model act on: joints, and the trees of bodies that they drive.

An actuator moves a joint, pulls a tendon along joints, sites and geoms, pushes at a site, drives a
crank between two, or makes a body stick. Who asks which robot in a scene is driven must know them
all: a robot of muscles beside a ball that lies there is the robot all the same.
"""

from __future__ import annotations

import mujoco

_JOINT, _IN_PARENT, _CRANK, _TENDON, _SITE, _BODY = (
    int(getattr(mujoco.mjtTrn, f"mjTRN_{name}"))
    for name in ("JOINT", "JOINTINPARENT", "SLIDERCRANK", "TENDON", "SITE", "BODY")
)
_ALONG_JOINT, _ALONG_SITE, _ROUND_SPHERE, _ROUND_CYLINDER = (
    int(getattr(mujoco.mjtWrap, f"mjWRAP_{name}"))
    for name in ("JOINT", "SITE", "SPHERE", "CYLINDER")
)


def moved_joints(model: mujoco.MjModel) -> set[int]:
    """Return the joints that actuators move, directly or by tendons.

    A tendon along sites pulls all that carries them. What pushes at a site, or sticks, moves none.
    """
    moved: set[int] = set()
    for i in range(model.nu):
        kind, number = int(model.actuator_trntype[i]), int(model.actuator_trnid[i, 0])
        if kind in (_JOINT, _IN_PARENT):
            moved.add(number)
        elif kind == _TENDON:
            moved |= _pulled(model, number)
    return moved


def driven_trees(model: mujoco.MjModel) -> list[int]:
    """Return the bodies on the world whose trees actuators act on, in the model's order."""
    bodies = {body for i in range(model.nu) for body in _bodies(model, i)}
    return sorted({int(model.body_rootid[body]) for body in bodies} - {0})


def _bodies(model: mujoco.MjModel, i: int) -> list[int]:
    """Return the bodies that an actuator acts on."""
    kind, (first, second) = int(model.actuator_trntype[i]), map(int, model.actuator_trnid[i])
    if kind in (_JOINT, _IN_PARENT):
        return [int(model.jnt_bodyid[first])]
    if kind == _CRANK:
        return [int(model.site_bodyid[site]) for site in (first, second)]
    if kind == _SITE:
        return [int(model.site_bodyid[first])]
    if kind == _TENDON:
        return [body for _, _, body in _wraps(model, first)]
    return [first] if kind == _BODY else []


def _pulled(model: mujoco.MjModel, tendon: int) -> set[int]:
    """Return the joints that a tendon acts on; one along sites pulls what carries them."""
    found: set[int] = set()
    for kind, number, body in _wraps(model, tendon):
        if kind == _ALONG_JOINT:
            found.add(number)
        while body and kind == _ALONG_SITE:
            start = int(model.body_jntadr[body])
            found |= set(range(start, start + int(model.body_jntnum[body])))
            body = int(model.body_parentid[body])
    return found


def _wraps(model: mujoco.MjModel, tendon: int) -> list[tuple[int, int, int]]:
    """Return what a tendon runs along: its kind, its number, and the body that it is on."""
    first, count = int(model.tendon_adr[tendon]), int(model.tendon_num[tendon])
    owners = {
        _ALONG_JOINT: model.jnt_bodyid,
        _ALONG_SITE: model.site_bodyid,
        _ROUND_SPHERE: model.geom_bodyid,
        _ROUND_CYLINDER: model.geom_bodyid,
    }
    found: list[tuple[int, int, int]] = []
    for wrap in range(first, first + count):
        kind, number = int(model.wrap_type[wrap]), int(model.wrap_objid[wrap])
        if kind in owners:
            found.append((kind, number, int(owners[kind][number])))
    return found
