"""A block for an arm to push and to pick up, on whatever is below the place that it reaches for.

The block moves on three rails and a ball: to a solver that is a free body, and a model with it is
not taken for one of a robot that walks. Its contacts have elliptic cones and are stiff along the
surface, so that what grips it holds it: with pyramids it creeps out of a gripper.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import mujoco
import numpy as np

from telic.errors import BadEnvironment
from telic.robots.reaching import HAND
from telic.robots.said import GOAL, said_numbers
from telic.robots.transmissions import moved_joints

BLOCK = "block"
HALF_M = 0.02
"""half the side of the block: grippers of arms on tables open 6 cm and more"""
_MASS_KG = 0.1
_FRICTION = (1.0, 0.02, 0.0001)
_CONDIM = 4
_STIFF, _ITERATIONS, _LINE_SEARCHES = 5.0, 20, 30
"""friction's stiffness in that of the normal force, and what a solver needs for it: with 10 and
10 iterations it is not done, and light fingers throw the block away"""
_AXES = (("x", (1, 0, 0)), ("y", (0, 1, 0)), ("z", (0, 0, 1)))
_COLOUR = (0.2, 0.45, 0.8, 1.0)


class Bench(NamedTuple):
    """Where blocks lie."""

    x: tuple[float, float]
    y: tuple[float, float]
    top_m: float
    """height of what they lie on"""


def bench_of(model: mujoco.MjModel) -> Bench:
    """Return what is below the box that an arm reaches into: a table, or the floor."""
    box = said_numbers(model, GOAL)
    if box is None:
        raise BadEnvironment("There is no arm that reaches, so nothing can be pushed or picked up.")
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    middle = (0.5 * (box[0] + box[1]), 0.5 * (box[2] + box[3]))
    top = _top(model, data, np.array([*middle, box[5]]))
    if top is None:
        raise BadEnvironment("There is neither a table nor a floor below where the arm reaches.")
    return Bench((box[0], box[1]), (box[2], box[3]), top)


def _top(model: mujoco.MjModel, data: mujoco.MjData, start: np.ndarray) -> float | None:
    """Return the height of the first thing straight below that stands still and can be touched."""
    down, hit = np.array((0.0, 0.0, -1.0)), np.zeros(1, np.int32)
    for _ in range(int(model.ngeom) + 1):
        way = mujoco.mj_ray(model, data, start, down, None, 1, -1, hit, None)
        geom = int(hit[0])
        if geom < 0:
            return None
        start = start + (way + 1e-6) * down
        is_solid = bool(model.geom_contype[geom] or model.geom_conaffinity[geom])
        if is_solid and model.body_weldid[model.geom_bodyid[geom]] == 0:
            return float(start[2])
    return None


def add_block(spec: mujoco.MjSpec, plain: mujoco.MjModel) -> None:
    """Put a block on the bench of an arm; it comes last in the state."""
    if BLOCK in [body.name for body in spec.bodies]:
        raise BadEnvironment(f'The model has a body of its own that is called "{BLOCK}".')
    bench = bench_of(plain)
    middle = (sum(bench.x) / 2.0, sum(bench.y) / 2.0, bench.top_m + HALF_M)
    block = spec.worldbody.add_body(name=BLOCK, pos=middle)
    for (name, axis), place in zip(_AXES, middle, strict=True):
        _free(block.add_joint(name=f"{BLOCK}_{name}", axis=axis), mujoco.mjtJoint.mjJNT_SLIDE)
        block.joints[-1].ref = place  # places are those of the world
    _free(block.add_joint(name=f"{BLOCK}_turn"), mujoco.mjtJoint.mjJNT_BALL)
    block.add_geom(
        name=BLOCK,
        type=mujoco.mjtGeom.mjGEOM_BOX,
        size=(HALF_M, HALF_M, HALF_M),
        mass=_MASS_KG,
        friction=_FRICTION,
        condim=_CONDIM,
        priority=1,  # whatever it touches, its own friction counts
        contype=1,
        conaffinity=1,
        rgba=_COLOUR,
    )
    spec.option.cone, spec.option.impratio = mujoco.mjtCone.mjCONE_ELLIPTIC, _STIFF
    spec.option.iterations, spec.option.ls_iterations = _ITERATIONS, _LINE_SEARCHES
    for key in list(spec.keys):
        pose = (*key.qpos, *middle, 1.0, 0.0, 0.0, 0.0)
        name = key.name
        spec.delete(key)
        spec.add_key(name=name, qpos=pose)


def _free(joint: Any, kind: mujoco.mjtJoint) -> None:
    """Leave a joint to physics alone: the model's defaults for joints are for its own."""
    joint.type = kind
    joint.limited, joint.actfrclimited, joint.range = 0, 0, (0, 0)
    joint.stiffness[:], joint.damping[:] = 0, 0
    joint.frictionloss, joint.armature, joint.ref, joint.springref = 0, 0, 0, 0


def has_gripper(model: mujoco.MjModel) -> bool:
    """Say whether something is driven that does not carry the hand: fingers."""
    chain, body = set[int](), int(model.body(HAND).id)
    while body:
        chain.add(body)
        body = int(model.body_parentid[body])
    return any(int(model.jnt_bodyid[joint]) not in chain for joint in moved_joints(model))
