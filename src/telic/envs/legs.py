"""Measure the legs of a robot off its model: how long they are, where they stand, what moves them.

What is fast or high for a robot follows from its legs: speeds go with the root of their length
(Froude number), jumps with the length itself. The length used is the height of the hip when the
robot stands on its feet.
"""

from __future__ import annotations

import mujoco
import numpy as np

from telic.envs.spec import Leg
from telic.robots.said import ILLEGAL, said_bodies

_ACROSS = 0.7
"""cosine to the direction "left" from which on a joint's axis swings the leg forward and back"""
_LEAST_BENT = 0.5
"""share of its stretched length that a leg stands at, where the resting pose shows less"""


def legs_of(
    model: mujoco.MjModel, data: mujoco.MjData, torso: int | None, feet: tuple[int, ...]
) -> tuple[Leg, ...]:
    """Return a leg for each foot, of a robot in its resting pose.

    Args:
        model: the compiled model.
        data: its resting pose, with positions computed.
        torso: body the legs hang on.
        feet: last body of each leg.
    """
    if torso is None:
        return ()
    chains = [_chain(model, foot, torso) for foot in feet]
    return tuple(
        _leg(model, data, torso, [body for body in chain if _owners(chains, body) == 1])
        for chain in chains
    )


def illegal_bodies(
    model: mujoco.MjModel, torso: int | None, feet: tuple[int, ...]
) -> tuple[int, ...]:
    """Return the bodies that touch the ground only in a fall: those said, or all but the legs."""
    if (named := said_bodies(model, ILLEGAL)) is not None:
        return named
    if torso is None or not feet:
        return ()
    chains = [_chain(model, foot, torso) for foot in feet]
    legs = {body for chain in chains for body in chain if _owners(chains, body) == 1}
    touches = (model.geom_contype > 0) | (model.geom_conaffinity > 0)
    solid = set(model.geom_bodyid[touches].tolist())
    below = {b for b in range(model.nbody) if legs & set(_chain(model, b, torso))}
    own = {b for b in range(1, model.nbody) if model.body_rootid[b] == model.body_rootid[torso]}
    return tuple(sorted((own & solid) - below))


def _chain(model: mujoco.MjModel, foot: int, torso: int) -> list[int]:
    """Return the bodies from the torso, left out, down to a foot."""
    chain: list[int] = []
    while foot not in (torso, 0):
        chain.insert(0, foot)
        foot = int(model.body_parentid[foot])
    return chain


def _owners(chains: list[list[int]], body: int) -> int:
    return sum(body in chain for chain in chains)


def _leg(model: mujoco.MjModel, data: mujoco.MjData, torso: int, chain: list[int]) -> Leg:
    """Return the leg made of bodies that belong to it alone, from the hip down."""
    joints = [
        joint
        for body in chain
        for joint in range(
            model.body_jntadr[body], model.body_jntadr[body] + model.body_jntnum[body]
        )
    ]
    centre = data.xpos[torso]
    # Joints of one body share their place: a hip with three axes is one point.
    points = [data.xanchor[joint] for joint in joints] or [data.xpos[chain[0]]]
    low, tip = _sole(model, data, chain[-1], points[-1])
    stretched = float(np.linalg.norm(np.diff([*points, tip], axis=0), axis=-1).sum())
    own = data.xmat[chain[-1]].reshape(3, 3).T @ (tip - data.xpos[chain[-1]])
    hip = points[0]
    height = float(np.clip(hip[2] - low, _LEAST_BENT * stretched, stretched))
    armature = [float(model.dof_armature[model.jnt_dofadr[joint]]) for joint in joints]
    return Leg(
        drive_kg=sum(armature) / max(len(armature), 1) / height**2 if height > 0 else 0.0,
        place=(float(tip[0] - centre[0]), float(tip[1] - centre[1])),
        hip_m=float(hip[2] - centre[2]),
        length_m=height,
        stretched_m=stretched,
        qpos=tuple(int(model.jnt_qposadr[joint]) for joint in joints),
        splay=tuple(
            int(model.jnt_qposadr[joint])
            for joint in joints
            if abs(float(data.xaxis[joint][1])) < _ACROSS
        ),
        tip=(float(own[0]), float(own[1]), float(own[2])),
    )


def _sole(
    model: mujoco.MjModel, data: mujoco.MjData, foot: int, joint: np.ndarray
) -> tuple[float, np.ndarray]:
    """Return the lowest height of a foot, and its end farthest from its joint."""
    low, tip, away = float(data.xpos[foot][2]), data.xpos[foot], -1.0
    first = int(model.body_geomadr[foot])
    for geom in range(first, first + int(model.body_geomnum[foot])):
        axes = data.geom_xmat[geom].reshape(3, 3)
        middle = data.geom_xpos[geom] + axes @ model.geom_aabb[geom, :3]
        half = model.geom_aabb[geom, 3:]
        low = min(low, float(middle[2] - np.abs(axes[2]) @ half))
        ends = np.concatenate((middle + axes.T * half[:, None], middle - axes.T * half[:, None]))
        distances = np.linalg.norm(ends - joint, axis=-1)
        if distances.max() > away:
            tip, away = ends[int(distances.argmax())], float(distances.max())
    return low, tip
