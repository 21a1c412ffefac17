"""What is taken for granted of a robot that is given as a file, so that nobody is surprised.

A model says nothing of which of its bodies is the robot, which way that faces, and what it stands
on. All three are guessed; where the model's own names or poses speak against the guess, that is
said with the way to correct it.
"""

from __future__ import annotations

import math
import re

import mujoco
import numpy as np

from telic.envs.anatomy import body_names
from telic.envs.models import is_position
from telic.envs.spec import EnvSpec, Robot
from telic.robots.structure import at_rest, driven_trees

OWN_REWARD = "Default reward:"
"""begins the note that a session, which writes its own, does not need"""
_FRONT = {"front", "fore", "fl", "fr", "lf", "rf"}
_BACK = {"rear", "hind", "back", "rl", "rr", "hl", "hr", "lh", "rh"}
_LEFT = {"left", "l", "fl", "lf", "rl", "hl", "lh"}
_RIGHT = {"right", "r", "fr", "rf", "rr", "hr", "rh"}
_FAR_DEG = 45.0
"""off x, from which on a robot does not face it"""
_APART = 0.1
"""of a robot's size, by which its front is from its back"""
_SINKS, _ALONE_S = 0.6, 1.0
"""share of its height that a robot keeps which holds itself up, after so long"""
_UPRIGHT = ("home", "stand", "standing", "default", "nominal")


def told(spec: EnvSpec) -> list[str]:
    """Return what a session on this robot tells at its start."""
    return [note for note in spec.notes if not note.startswith(OWN_REWARD)]


def assumptions(model: mujoco.MjModel, robot: Robot) -> list[str]:
    """Return a note on everything that was guessed of the robot in a model."""
    if robot.torso is None:
        return []
    data = at_rest(model, np.array(robot.rest_qpos))
    names = body_names(model)
    return [
        *_several(model, robot.torso, names),
        *_feet(robot, names),
        *_faces(model, data, robot, names),
        *_lies(model, data, robot.torso),
        *_sinks(model, data, robot),
    ]


def _several(model: mujoco.MjModel, torso: int, names: tuple[str, ...]) -> list[str]:
    others = [names[tree] for tree in driven_trees(model) if tree != torso]
    if not others:
        return []
    return [
        f"The robot is taken to be {names[torso]}; actions also drive {', '.join(others)}, of "
        "which nothing is measured."
    ]


def _feet(robot: Robot, names: tuple[str, ...]) -> list[str]:
    if not robot.feet:
        return []
    feet = ", ".join(names[foot] for foot in robot.feet)
    return [f"Feet, taken to be the limbs' last bodies lowest at rest: {feet}."]


def _faces(
    model: mujoco.MjModel, data: mujoco.MjData, robot: Robot, names: tuple[str, ...]
) -> list[str]:
    angle = named_facing(model, data, robot, names)
    if angle is None or abs(angle) <= _FAR_DEG:
        return []
    return [
        f"Forward is +x, but by the names of its bodies the robot faces {angle:.0f}° from there "
        "(x towards y). If the names are right: telic robots FILE --describe > mine.toml, then "
        f"facing_deg = {angle:.0f} in it, and use mine.toml."
    ]


def named_facing(
    model: mujoco.MjModel, data: mujoco.MjData, robot: Robot, names: tuple[str, ...]
) -> float | None:
    """Return where a robot faces by what its bodies are called, degrees from x towards y.

    None: the names say nothing of it. From the rear ones to the front ones, else to the right of
    the way from the right ones to the left ones.
    """
    own = [b for b in range(1, model.nbody) if model.body_rootid[b] == robot.torso]
    words = {body: _words(names[body]) for body in own}
    places = data.xpos[own, :2]
    size = float(np.linalg.norm(np.ptp(data.xpos[own], axis=0)))
    for ahead, behind, turned in ((_FRONT, _BACK, 0.0), (_LEFT, _RIGHT, -90.0)):
        first = [k for k, body in enumerate(own) if words[body] & ahead]
        second = [k for k, body in enumerate(own) if words[body] & behind]
        if first and second:
            way = places[first].mean(0) - places[second].mean(0)
            if np.linalg.norm(way) > _APART * size:
                angle = math.degrees(math.atan2(way[1], way[0])) + turned
                return (angle + 180.0) % 360.0 - 180.0
    return None


def _words(name: str) -> set[str]:
    """Return the words of a name: "FL_hipJoint" is fl, hip, joint."""
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    return set(re.split(r"[^a-z]+", apart.lower()))


def _lies(model: mujoco.MjModel, data: mujoco.MjData, torso: int) -> list[str]:
    """Yield a note where the pose it starts in is tilted, and another of the model is not."""
    if not model.nkey or not np.allclose(data.qpos, model.key_qpos[0]):
        return []
    upward = data.xmat[torso].reshape(3, 3)[2].copy()
    named = [model.key(k).name for k in range(model.nkey)]
    better = [name for name in named[1:] if name.lower() in _UPRIGHT]
    data.qpos[:] = model.qpos0
    mujoco.mj_kinematics(model, data)
    if not better or upward @ data.xmat[torso].reshape(3, 3)[2] > math.cos(math.radians(_FAR_DEG)):
        return []
    return [
        f'It starts as its first keyframe has it, "{named[0]}", which is tilted; feet and heights '
        f"are taken from there. To start upright: --env-arg keyframe={better[0]}"
    ]


def _sinks(model: mujoco.MjModel, data: mujoco.MjData, robot: Robot) -> list[str]:
    """Yield a note where a robot on legs, driven by forces alone, does not hold itself up."""
    is_held = any(is_position(model, i) for i in range(model.nu))
    if is_held or robot.torso is None or not robot.feet or robot.root.kind != "free":
        return []
    mujoco.mj_resetData(model, data)
    data.qpos[:] = robot.rest_qpos
    mujoco.mj_kinematics(model, data)
    before = float(data.xpos[robot.torso, 2])
    for _ in range(round(_ALONE_S / model.opt.timestep)):
        mujoco.mj_step(model, data)
    after = float(data.xpos[robot.torso, 2])
    if not after < _SINKS * before:
        return []
    return [
        f"Its motors are forces and nothing holds it up: left alone it sinks from {before:.2g} to "
        f"{after:.2g} m. With position drives it stands from the first step on, and walking is "
        "learned sooner: telic robots FILE --describe > mine.toml, and use mine.toml."
    ]
