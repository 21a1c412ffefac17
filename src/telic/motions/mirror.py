"""The same motion, left and right exchanged: what one hand does, the other one does.

The plane between left and right is the robot's own x-z plane. Which joint is the other side's is
found in the model: with all joints at zero, the one that stands where a mirror shows it. A mirror M
turns a rotation by an angle about an axis a into one about -M a, so that

    angle' = angle * sign(a' . -M a)        root' = M root,  (w, x, y, z)' = (w, -x, y, -z)
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import mujoco
import numpy as np

from telic.errors import BadEnvironment
from telic.motions.clip import HumanTrack, MotionClip
from telic.motions.robot import MotionRobot

SUFFIX = "-mirrored"
_FLIP = np.array([1.0, -1.0, 1.0])
_TURN = np.array([1.0, -1.0, 1.0, -1.0])
_NEAR_M, _PARALLEL = 0.02, 0.98
"""models are drawn by hand: sides differ by millimetres"""


class Symmetry(NamedTuple):
    """Which column of a clip becomes which in the mirror."""

    joints: tuple[int, ...]
    """for every joint, the one of the other side"""
    signs: tuple[float, ...]
    feet: tuple[int, ...]


@functools.lru_cache(maxsize=8)
def symmetry(robot: MotionRobot) -> Symmetry:
    """Return the sides of a robot; raises BadEnvironment that names a joint without a partner."""
    model: Any = robot.model
    data = mujoco.MjData(model)
    data.qpos[:] = robot.facts.rest_qpos
    for limb in robot.facts.limbs:
        data.qpos[limb.qpos] = 0.0
    mujoco.mj_forward(model, data)
    places = [np.array(data.xanchor[joint]) for joint in robot.joints]
    axes = [np.array(data.xaxis[joint]) for joint in robot.joints]
    middle = float(data.xpos[robot.root][1])
    joints: list[int] = []
    signs: list[float] = []
    for name, place, axis in zip(robot.joint_names, places, axes, strict=True):
        there, along = _shown(place, middle), -_FLIP * axis
        off = [
            float(np.linalg.norm(other - there)) if abs(own @ along) > _PARALLEL else np.inf
            for other, own in zip(places, axes, strict=True)
        ]
        best = int(np.argmin(off))
        if off[best] > _NEAR_M:
            raise BadEnvironment(
                f"{robot.name} is not the same on both sides: nothing is where a mirror shows "
                f"{name}, so its motions cannot be mirrored."
            )
        joints.append(best)
        signs.append(float(np.sign(axes[best] @ along)))
    feet = [np.array(data.xpos[foot]) for foot in robot.facts.feet]
    other = [
        int(np.argmin([np.linalg.norm(each - _shown(foot, middle)) for each in feet]))
        for foot in feet
    ]
    return Symmetry(tuple(joints), tuple(signs), tuple(other))


def _shown(place: np.ndarray, middle: float) -> np.ndarray:
    return np.array([place[0], 2.0 * middle - place[1], place[2]])


def mirrored(robot: MotionRobot, clip: MotionClip) -> MotionClip:
    """Return a clip as a mirror shows it, in the same split."""
    sides = symmetry(robot)
    order = list(sides.joints)
    flip: np.ndarray = _FLIP.astype(np.float32)
    human = clip.human
    return clip.replace(
        name=f"{clip.name}{SUFFIX}",
        root_pos=clip.root_pos * flip,
        root_quat=clip.root_quat * _TURN.astype(np.float32),
        joint_pos=clip.joint_pos[:, order] * np.array(sides.signs, dtype=np.float32)[order],
        contacts=None if clip.contacts is None else clip.contacts[:, list(sides.feet)],
        human=None if human is None else _mirrored_person(human),
        origin=clip.origin.then("mirrored"),
    )


def _mirrored_person(human: HumanTrack) -> HumanTrack:
    names = {name: place for place, name in enumerate(human.names)}
    swap = {"left_": "right_", "right_": "left_"}
    order = [
        names.get(next((b + n[len(a) :] for a, b in swap.items() if n.startswith(a)), n), place)
        for place, n in enumerate(human.names)
    ]
    points = human.points[:, order] * _FLIP.astype(np.float32)
    return HumanTrack(human.names, points, human.root_quat * _TURN.astype(np.float32))
