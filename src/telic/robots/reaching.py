"""What an arm reaches with, and what it reaches for: a target that stands still where it is put.

The target is a body on three rails that nothing moves: its place is part of the state, so each
episode of a batch has its own, and a recording shows it where it was. The hand is a body without
mass in the place of a site or a body of the model.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import mujoco
import numpy as np

from telic.errors import BadFile
from telic.robots.said import GOAL, say
from telic.robots.transmissions import moved_joints

TARGET, HAND = "target", "fingertip"
"""bodies that quantities know by these names"""
Box = tuple[tuple[float, float], tuple[float, float], tuple[float, float]]
_HANDS = ("grasp", "grip", "pinch", "tcp", "tool", "end_effector", "eef", "attachment")
"""what a site is called that a hand grasps at, best first"""
_FINGERS = 3
"""ends from which on it is a hand, which reaches for nothing"""
_LEAST_JOINTS = 3
_AROUND = 0.25
"""half the side of the guessed box, in the reach of the arm"""
_ABOVE_M = 0.05
_BALL_M = 0.02
_FREE, _HINGE = int(mujoco.mjtJoint.mjJNT_FREE), int(mujoco.mjtJoint.mjJNT_HINGE)


class Reach(NamedTuple):
    """What reaches, and where to."""

    hand: str
    """site or body"""
    goal: Box
    """where targets are, metres"""
    place: tuple[float, float, float]
    """where the hand is in the pose that the arm starts in"""

    def farthest(self) -> np.ndarray:
        """Return the corner of the box that is farthest from the hand."""
        sides = zip(self.goal, self.place, strict=True)
        return np.array([max(side, key=lambda at: abs(at - here)) for side, here in sides])


def guessed_reach(model: mujoco.MjModel, qpos: np.ndarray, hand: str | None) -> Reach | None:
    """Return what an arm reaches with, and a box around where it holds it; None: it is no arm."""
    if _FREE in model.jnt_type or _ends(model) >= _FINGERS:
        return None
    data = mujoco.MjData(model)
    data.qpos[:] = qpos
    mujoco.mj_kinematics(model, data)
    found = hand or _hand(model)
    if found is None:
        return None
    place = _place(model, data, found)
    carrying = _carrying(model, found)
    if hand is None and not _is_arm(model, carrying):
        return None
    hand = found
    joints = [data.xanchor[joint] for joint in carrying]
    reach = float(np.linalg.norm(np.diff([*joints, place], axis=0), axis=1).sum())
    half = _AROUND * reach
    low = min(_ABOVE_M, float(place[2]))
    box = [(float(at - half), float(at + half)) for at in place]
    height = (max(box[2][0], low), max(box[2][1], low + half))
    rounded = [(round(a, 3), round(b, 3)) for a, b in (box[0], box[1], height)]
    here = (float(place[0]), float(place[1]), float(place[2]))
    return Reach(hand, (rounded[0], rounded[1], rounded[2]), here)


def _place(model: mujoco.MjModel, data: mujoco.MjData, hand: str) -> np.ndarray:
    site = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_SITE, hand)
    if site >= 0:
        # A site stands on its body; kinematics place it, too.
        return data.site_xpos[site]
    body = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, hand)
    if body < 0:
        names = [model.site(s).name for s in range(model.nsite)]
        names += [model.body(b).name for b in range(1, model.nbody)]
        raise BadFile(
            f'The hand "{hand}" is neither a site nor a body.',
            hint=f"There are: {', '.join(names)}.",
        )
    return data.xpos[body]


def _carrying(model: mujoco.MjModel, hand: str) -> list[int]:
    """Return the joints from the mount to the hand."""
    site = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_SITE, hand)
    body = int(model.site_bodyid[site]) if site >= 0 else int(model.body(hand).id)
    chain = {body, *_above(model, body)}
    return [joint for joint in range(model.njnt) if int(model.jnt_bodyid[joint]) in chain]


def _is_arm(model: mujoco.MjModel, joints: list[int]) -> bool:
    """Say whether these joints carry a hand: several hinges, each of them driven."""
    driven = moved_joints(model)
    are_driven = all(model.jnt_type[joint] == _HINGE and joint in driven for joint in joints)
    return are_driven and len(joints) >= _LEAST_JOINTS


def _ends(model: mujoco.MjModel) -> int:
    """Return how many chains of hinges there are."""
    moved = {int(body) for body in model.jnt_bodyid[model.jnt_type == _HINGE]}
    return len(moved - {body for each in moved for body in _above(model, each)})


def _above(model: mujoco.MjModel, body: int) -> list[int]:
    chain: list[int] = []
    while body := int(model.body_parentid[body]):
        chain.append(body)
    return chain


def _hand(model: mujoco.MjModel) -> str | None:
    """Return a site that is called like a hand, else the body that most hinges carry."""
    sites = [model.site(site).name for site in range(model.nsite)]
    for word in _HANDS:
        found = [name for name in sites if re.search(word, name.lower())]
        if found:
            return found[0]
    moved = [int(body) for body in model.jnt_bodyid[model.jnt_type == _HINGE]]
    if not moved:
        return None
    return str(model.body(max(moved, key=lambda body: len(_above(model, body)))).name)


def add_target(spec: mujoco.MjSpec, reach: Reach) -> None:
    """Add the hand and the target to a model; the target comes last in its state."""
    if spec.body(HAND) is None:
        site = next((each for each in spec.sites if each.name == reach.hand), None)
        holder = spec.body(reach.hand) if site is None else site.parent
        holder.add_body(name=HAND, pos=(0, 0, 0) if site is None else site.pos)
    target = spec.worldbody.add_body(name=TARGET, gravcomp=1.0)
    for name, axis in (("x", (1, 0, 0)), ("y", (0, 1, 0)), ("z", (0, 0, 1))):
        rail = target.add_joint(name=f"{TARGET}_{name}", axis=axis)
        rail.type = mujoco.mjtJoint.mjJNT_SLIDE
        # The model's defaults for joints are for its own.
        rail.limited, rail.actfrclimited, rail.range = 0, 0, (0, 0)
        rail.stiffness[:], rail.damping[:] = 0, 0
        rail.frictionloss, rail.armature, rail.ref, rail.springref = 0, 0, 0, 0
    target.add_geom(
        name=TARGET,
        type=mujoco.mjtGeom.mjGEOM_SPHERE,
        size=(_BALL_M, 0, 0),
        contype=0,
        conaffinity=0,
        mass=0.01,
        rgba=(0.9, 0.2, 0.2, 1),
    )
    say(spec, GOAL, [bound for side in reach.goal for bound in side])
