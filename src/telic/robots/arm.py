"""Add a hand, a target and a block to the model of an arm.

The target is a body on three unactuated slide joints. Its position is part of the state, so that it
differs between simulations of a batch and is included in recordings. The hand is a massless body at
a site or body of the model. The block has three slide joints and a ball joint instead of a free
joint, so that the model is not classified as a walking robot. Its friction cones are elliptic and
stiff tangentially, because blocks slip out of a gripper with pyramidal cones.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import mujoco
import numpy as np

from telic.errors import BadEnvironment, BadFile
from telic.robots.structure import (
    FREE,
    GOAL,
    HINGE,
    ancestors,
    annotate,
    annotated_numbers,
    at_rest,
    hinge_ends,
    moved_joints,
)

TARGET, HAND = "target", "fingertip"
"""Body names used by measured quantities."""
BLOCK = "block"
HALF_M = 0.02
"""Half the side of the block, which fits tabletop grippers that open 6 cm or more."""
Box = tuple[tuple[float, float], tuple[float, float], tuple[float, float]]
_HANDS = ("grasp", "grip", "pinch", "tcp", "tool", "end_effector", "eef", "attachment")
"""Substrings of the names of hand sites, in order of preference."""
_FINGERS = 3
"""Minimum number of hinge chain ends of a hand (not treated as an arm)."""
_MIN_JOINTS = 3
_AROUND = 0.25
"""Half the side of the inferred goal box, relative to the length of the arm."""
_ABOVE_M = 0.05
_BALL_M = 0.02
_MASS_KG = 0.1
_FRICTION = (1.0, 0.02, 0.0001)
_STIFF, _ITERATIONS, _LINE_SEARCHES = 5.0, 20, 30
"""Ratio of friction to normal stiffness (impratio), and solver iterations. With only 10 and 10
iterations the solver does not converge, and light fingers eject the block."""
_RAILS = (("x", (1, 0, 0)), ("y", (0, 1, 0)), ("z", (0, 0, 1)))


class Reach(NamedTuple):
    """Hand of an arm and the box that contains its targets."""

    hand: str
    """Name of a site or body."""
    goal: Box
    """Box of target positions in meters."""
    place: tuple[float, float, float]
    """Hand position in the initial pose in meters."""

    def farthest(self) -> np.ndarray:
        """Return the corner of the goal box farthest from the hand."""
        sides = zip(self.goal, self.place, strict=True)
        return np.array([max(side, key=lambda at: abs(at - here)) for side, here in sides])


def guessed_reach(model: mujoco.MjModel, qpos: np.ndarray, hand: str | None) -> Reach | None:
    """Infer the hand of an arm and a goal box around the hand. Returns None for other models."""
    if FREE in model.jnt_type or len(hinge_ends(model)) >= _FINGERS:
        return None
    data = at_rest(model, qpos)
    name = hand or _hand(model)
    if name is None:
        return None
    body, place = _place(model, data, name)
    chain = {body, *ancestors(model, body)}
    joints = [joint for joint in range(model.njnt) if int(model.jnt_bodyid[joint]) in chain]
    driven = moved_joints(model)
    is_arm = len(joints) >= _MIN_JOINTS and all(
        model.jnt_type[joint] == HINGE and joint in driven for joint in joints
    )
    if hand is None and not is_arm:
        return None
    points = [*(data.xanchor[joint] for joint in joints), place]
    half = _AROUND * float(np.linalg.norm(np.diff(points, axis=0), axis=1).sum())
    low = min(_ABOVE_M, float(place[2]))
    box = [(float(at - half), float(at + half)) for at in place]
    box[2] = (max(box[2][0], low), max(box[2][1], low + half))
    x, y, z = ((round(a, 3), round(b, 3)) for a, b in box)
    return Reach(name, (x, y, z), (float(place[0]), float(place[1]), float(place[2])))


def _place(model: mujoco.MjModel, data: mujoco.MjData, hand: str) -> tuple[int, np.ndarray]:
    """Return the body and the position of the hand."""
    site = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_SITE, hand)
    if site >= 0:
        return int(model.site_bodyid[site]), data.site_xpos[site]
    body = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, hand)
    if body < 0:
        names = [model.site(s).name for s in range(model.nsite)]
        names += [model.body(b).name for b in range(1, model.nbody)]
        raise BadFile(
            f'The hand "{hand}" is neither a site nor a body of the model.',
            hint=f"Available: {', '.join(names)}.",
        )
    return body, data.xpos[body]


def _hand(model: mujoco.MjModel) -> str | None:
    """Return a site with the name of a hand, or else the deepest body with a hinge."""
    sites = [model.site(site).name for site in range(model.nsite)]
    named = (name for word in _HANDS for name in sites if re.search(word, name.lower()))
    if (site := next(named, None)) is not None:
        return site
    moved = [int(body) for body in model.jnt_bodyid[model.jnt_type == HINGE]]
    last = max(moved, key=lambda body: len(ancestors(model, body)), default=None)
    return None if last is None else str(model.body(last).name)


def add_target(spec: mujoco.MjSpec, reach: Reach) -> None:
    """Add the hand and the target to a model, with the target last in qpos."""
    if spec.body(HAND) is None:
        site = next((each for each in spec.sites if each.name == reach.hand), None)
        holder = spec.body(reach.hand) if site is None else site.parent
        holder.add_body(name=HAND, pos=(0, 0, 0) if site is None else site.pos)
    target = spec.worldbody.add_body(name=TARGET, gravcomp=1.0)
    for name, axis in _RAILS:
        _free(target.add_joint(name=f"{TARGET}_{name}", axis=axis), mujoco.mjtJoint.mjJNT_SLIDE)
    target.add_geom(
        name=TARGET,
        type=mujoco.mjtGeom.mjGEOM_SPHERE,
        size=(_BALL_M, 0, 0),
        contype=0,
        conaffinity=0,
        mass=0.01,
        rgba=(0.9, 0.2, 0.2, 1),
    )
    annotate(spec, GOAL, [bound for side in reach.goal for bound in side])


def _free(joint: Any, kind: mujoco.mjtJoint) -> None:
    """Make a joint passive, overriding the model's joint defaults."""
    joint.type = kind
    joint.limited, joint.actfrclimited, joint.range = 0, 0, (0, 0)
    joint.stiffness[:], joint.damping[:] = 0, 0
    joint.frictionloss, joint.armature, joint.ref, joint.springref = 0, 0, 0, 0


# ---- block


class Bench(NamedTuple):
    """Surface that supports the block."""

    x: tuple[float, float]
    y: tuple[float, float]
    top_m: float
    """Height of the surface in meters."""


def bench_of(model: mujoco.MjModel) -> Bench:
    """Return the surface below the goal box of an arm (a table or the floor)."""
    box = annotated_numbers(model, GOAL)
    if box is None:
        raise BadEnvironment("The model has no arm with a hand, so it cannot push or pick.")
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    top = _top(model, data, np.array((0.5 * (box[0] + box[1]), 0.5 * (box[2] + box[3]), box[5])))
    if top is None:
        raise BadEnvironment("There is neither a table nor a floor below the arm's workspace.")
    return Bench((box[0], box[1]), (box[2], box[3]), top)


def _top(model: mujoco.MjModel, data: mujoco.MjData, start: np.ndarray) -> float | None:
    """Return the height of the first static collision geom below a point, or None."""
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
    """Add a block on the supporting surface of an arm, with the block last in qpos."""
    if BLOCK in [body.name for body in spec.bodies]:
        raise BadEnvironment(f'The model already has a body named "{BLOCK}".')
    bench = bench_of(plain)
    middle = (sum(bench.x) / 2.0, sum(bench.y) / 2.0, bench.top_m + HALF_M)
    block = spec.worldbody.add_body(name=BLOCK, pos=middle)
    for (name, axis), place in zip(_RAILS, middle, strict=True):
        _free(block.add_joint(name=f"{BLOCK}_{name}", axis=axis), mujoco.mjtJoint.mjJNT_SLIDE)
        block.joints[-1].ref = place  # makes coordinates absolute
    _free(block.add_joint(name=f"{BLOCK}_turn"), mujoco.mjtJoint.mjJNT_BALL)
    block.add_geom(
        name=BLOCK,
        type=mujoco.mjtGeom.mjGEOM_BOX,
        size=(HALF_M, HALF_M, HALF_M),
        mass=_MASS_KG,
        friction=_FRICTION,
        condim=4,
        priority=1,  # the block's friction applies in every contact
        contype=1,
        conaffinity=1,
        rgba=(0.2, 0.45, 0.8, 1.0),
    )
    spec.option.cone, spec.option.impratio = mujoco.mjtCone.mjCONE_ELLIPTIC, _STIFF
    spec.option.iterations, spec.option.ls_iterations = _ITERATIONS, _LINE_SEARCHES
    for key in list(spec.keys):
        name, pose = key.name, (*key.qpos, *middle, 1.0, 0.0, 0.0, 0.0)
        spec.delete(key)
        spec.add_key(name=name, qpos=pose)


def has_gripper(model: mujoco.MjModel) -> bool:
    """Return whether the model has an actuated joint outside the chain to the hand."""
    hand = int(model.body(HAND).id)
    chain = {hand, *ancestors(model, hand)}
    return any(int(model.jnt_bodyid[joint]) not in chain for joint in moved_joints(model))
