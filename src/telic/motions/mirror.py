"""Left-right mirroring of motions.

`telic.training.mirror` finds the partner of each joint. The root is mirrored at the x-z plane:
root' = M root, (w, x, y, z)' = (w, -x, y, -z).
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from telic.core.tensors import integers, numbers
from telic.motions.clip import HumanTrack, MotionClip
from telic.motions.robot import MotionRobot
from telic.robots.structure import at_rest
from telic.training.mirror import joint_partners

SUFFIX = "-mirrored"
_FLIP = np.array([1.0, -1.0, 1.0])
_TURN = np.array([1.0, -1.0, 1.0, -1.0])


class Symmetry(NamedTuple):
    """Permutation and signs of clip columns under mirroring."""

    joints: tuple[int, ...]
    """index of the opposite joint for every joint"""
    signs: tuple[float, ...]
    feet: tuple[int, ...]


@functools.lru_cache(maxsize=8)
def symmetry(robot: MotionRobot) -> Symmetry:
    """Return a robot's mirror symmetry. Raises BadEnvironment if a joint has no partner."""
    partners = joint_partners(robot.model, robot.facts, robot.name)
    data = at_rest(robot.model, np.array(robot.facts.rest_qpos))
    feet = data.xpos[list(robot.facts.feet)]
    shown = feet * _FLIP + [0.0, 2.0 * float(data.xpos[robot.root][1]), 0.0]
    other = [int(np.argmin(np.linalg.norm(feet - place, axis=-1))) for place in shown]
    return Symmetry(tuple(integers(partners.index)), tuple(numbers(partners.sign)), tuple(other))


def mirrored(robot: MotionRobot, clip: MotionClip) -> MotionClip:
    """Return the mirrored clip, which belongs to the split of the original."""
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
