"""The task of a robot that is given as a model file: what follows from the model alone."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import mujoco
import numpy as np
import torch
from pydantic import Field, NonNegativeFloat
from torch import Tensor

from telic.core.seeds import uniform
from telic.core.tensors import norm
from telic.envs.anatomy import action_names, body_names, position_names, robot_of, velocity_names
from telic.envs.models import action_limits, is_position
from telic.envs.spec import EnvSpec, Robot
from telic.envs.task import StepOutcome, Task, TaskArguments, strictly_within
from telic.errors import ConfigError, UnknownName
from telic.robots.structure import BALL, FREE, HINGE, SLIDE, at_rest, driven_trees, unused_name
from telic.sim import Simulation

OWN_REWARD = "Default reward:"
"""begins the note that a session, which writes its own, does not need"""
_SMALL_M = 0.1
"""size below which a robot's places are strewn less"""


class CustomArguments(TaskArguments):
    """Arguments of a user's own robot."""

    keyframe: int | str | None = Field(
        default=None,
        description="pose to start from, by number or name; None: the first if the model has any; "
        "-1: the model's default pose",
    )
    reset_noise_scale: NonNegativeFloat = Field(
        0.01, description="uniform noise of the initial positions and velocities"
    )
    forward_reward_weight: float = Field(1.0, description="reward per m/s along x")
    ctrl_cost_weight: float = Field(
        0.1, description="cost of full effort: the mean squared action, each scaled to [-1, 1]"
    )
    healthy_z_range: tuple[float, float] | None = Field(
        None, description="torso heights that count as healthy; None: all"
    )
    healthy_reward: float = Field(1.0, description="reward per step within healthy_z_range")
    terminate_when_unhealthy: bool = Field(
        True, description="end the episode outside healthy_z_range"
    )


class CustomTask(Task[CustomArguments]):
    """What follows from a model alone: observation and start. Reward is zero; never terminates."""

    Arguments = CustomArguments
    meanings: ClassVar[Mapping[str, str]] = {}

    def __init__(self, arguments: CustomArguments, sim: Simulation, notes: Sequence[str]) -> None:
        super().__init__(arguments, sim)
        model = sim.model
        path = Path(arguments.xml_file)
        self.id = path.name
        self.description = f"The robot of {path.name}, with a task that follows from its model."
        qpos, qvel = start_pose(model, arguments.keyframe)
        self.qpos0, self.qvel0 = self.qpos.new_tensor(qpos), self.qvel.new_tensor(qvel)
        self.robot = robot_of(model, qpos)
        self.action_limits = action_limits(model, qpos)
        hidden = _global_columns(self.robot)
        shown = [column for column in range(model.nq) if column not in hidden]
        names = position_names(model)
        joint_positions = tuple(names[column] for column in shown)
        joints = joint_positions + velocity_names(model)
        self.obs_names = joints + _sensor_names(model, set(joints))
        self._shown = torch.tensor(shown, dtype=torch.long, device=sim.device)
        self._sensors = sim.field("sensordata") if model.nsensordata else None
        low, high = self.qpos.new_tensor(_limits(model))
        # A resting pose outside the limits is the user's choice; only the noise is held back.
        self._low, self._high = torch.minimum(low, self.qpos0), torch.maximum(high, self.qpos0)
        self._quaternions = _quaternions(model)
        self._start_noise = self.qpos.new_tensor(_noise_shares(model, qpos))
        low, high = self.qpos.new_tensor(self.action_limits).T
        self._middle, self._half = (high + low) / 2.0, ((high - low) / 2.0).clamp_min(1e-9)
        self.notes = (*notes, self.reward_note(), *assumptions(model, self.robot))

    def reward_note(self) -> str:
        """Describe the default reward."""
        return f"{OWN_REWARD} zero, for nothing in the model can travel along x. Give a reward."

    def effort_cost(self, action: Tensor) -> Tensor:
        """Return minus the weighted mean squared action, each scaled to [-1, 1], (N,)."""
        effort = ((action - self._middle) / self._half).square().mean(1)
        return -self.arguments.ctrl_cost_weight * effort

    def start(self, seed: Tensor, episode: Tensor) -> tuple[Tensor, ...]:
        """Start near the resting pose, within the joints' limits."""
        positions, velocities = self.qpos.shape[1], self.qvel.shape[1]
        noise = uniform(seed, episode, positions + velocities) * 2.0 - 1.0
        noise *= self.arguments.reset_noise_scale * self._start_noise
        qpos = torch.clamp(self.qpos0 + noise[:, :positions], self._low, self._high)
        for first in self._quaternions:
            part = qpos[:, first : first + 4]
            qpos[:, first : first + 4] = part / norm(part, 1, keepdim=True)
        return qpos, self.qvel0 + noise[:, positions:]

    def observe(self) -> Tensor:
        """Observe joint positions but for global x and y, velocities, and sensors."""
        parts = [self.qpos[:, self._shown], self.qvel]
        if self._sensors is not None:
            parts.append(self._sensors)
        return torch.cat(parts, dim=1)

    def outcome(self, action: Tensor, moved: Tensor) -> StepOutcome:
        """Reward nothing."""
        return StepOutcome(torch.zeros_like(self.qpos[:, 0]), None, {})


class ActuatedTask(CustomTask):
    """A custom task that knows the joint of every actuator, in the order of actions."""

    def __init__(self, arguments: CustomArguments, sim: Simulation, notes: Sequence[str]) -> None:
        super().__init__(arguments, sim, notes)
        model, device = sim.model, sim.device
        joints = model.actuator_trnid[:, 0]
        self.actuators = action_names(model)
        self._joints = torch.tensor(model.jnt_qposadr[joints].tolist(), device=device)
        self._rates = torch.tensor(model.jnt_dofadr[joints].tolist(), device=device)
        self._rest = self.qpos0[self._joints]


class TravelTask(CustomTask):
    """Reward is w_f * x velocity + w_h * healthy - w_c * effort; ends when unhealthy, if asked."""

    meanings: ClassVar[Mapping[str, str]] = {
        "x_velocity": "mean velocity along x over the step, m/s",
        "reward_forward": "weighted forward velocity",
        "reward_ctrl": "minus the control cost",
        "reward_survive": "reward for being healthy",
    }

    def __init__(self, arguments: CustomArguments, sim: Simulation, notes: Sequence[str]) -> None:
        super().__init__(arguments, sim, notes)
        forward = self.robot.root.slide("x")
        assert forward is not None  # make_mjcf chose this task because of it
        self._forward = forward
        self._height = self.robot.root.slide("z")
        if arguments.healthy_z_range is not None and self._height is None:
            raise ConfigError(
                f"healthy_z_range={arguments.healthy_z_range} means nothing for {self.id}: "
                "its torso cannot move up and down."
            )

    def reward_note(self) -> str:
        """Describe the default reward."""
        healthy = " + healthy_reward" if self.arguments.healthy_z_range is not None else ""
        return (
            f"{OWN_REWARD} forward_reward_weight * x_velocity{healthy} "
            "- ctrl_cost_weight * mean squared action."
        )

    def track(self) -> Tensor:
        """Follow x."""
        return self.qpos[:, self._forward.qpos : self._forward.qpos + 1].clone()

    def outcome(self, action: Tensor, moved: Tensor) -> StepOutcome:
        """Reward speed and standing, charge effort."""
        velocity = self._forward.sign * moved[:, 0] / self.dt
        forward = self.arguments.forward_reward_weight * velocity
        control = self.effort_cost(action)
        survive, terminated = self._health()
        values = {
            "x_velocity": velocity,
            "reward_forward": forward,
            "reward_ctrl": control,
            "reward_survive": survive,
        }
        return StepOutcome(forward + control + survive, terminated, values)

    def _health(self) -> tuple[Tensor, Tensor | None]:
        """Return the reward for health, and where its lack ends the episode."""
        bounds, height = self.arguments.healthy_z_range, self._height
        if bounds is None or height is None:
            return torch.zeros_like(self.qpos[:, 0]), None
        healthy = strictly_within(height.offset + height.sign * self.qpos[:, height.qpos], bounds)
        ends = ~healthy if self.arguments.terminate_when_unhealthy else None
        return self.where(healthy, self.arguments.healthy_reward), ends


def start_pose(model: mujoco.MjModel, keyframe: int | str | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the resting positions and velocities: of a keyframe, else the model's default."""
    names = [model.key(k).name for k in range(model.nkey)]
    if isinstance(keyframe, str):
        if keyframe not in names:
            raise UnknownName("keyframe", keyframe, names)
        keyframe = names.index(keyframe)
    if keyframe is None:
        keyframe = 0 if model.nkey else -1
    if keyframe >= model.nkey:
        raise ConfigError(f"keyframe={keyframe}: the model has {model.nkey} keyframes.")
    if keyframe < 0:
        return model.qpos0.copy(), np.zeros(int(model.nv))
    return model.key_qpos[keyframe].copy(), model.key_qvel[keyframe].copy()


def _global_columns(robot: Robot) -> set[int]:
    """Return the columns of qpos that say where on the ground the robot is."""
    if robot.root.kind not in ("free", "planar"):
        return set()
    return {slide.qpos for slide in robot.root.slides if slide.axis in "xy"}


def _sensor_names(model: mujoco.MjModel, taken: set[str]) -> tuple[str, ...]:
    names: list[str] = []
    for k in range(model.nsensor):
        stem = model.sensor(k).name or f"sensor_{k}"
        size = int(model.sensor_dim[k])
        own = [stem] if size == 1 else [f"{stem}_{part}" for part in range(size)]
        # A sensor may be called like the joint that it reads.
        names += [unused_name(f"{name}_sensor" if name in taken else name, taken) for name in own]
    return tuple(names)


def _limits(model: mujoco.MjModel) -> np.ndarray:
    """Return the lowest and highest value of each column of qpos, (2, nq)."""
    limits = np.array([[-np.inf], [np.inf]]).repeat(model.nq, axis=1)
    for j in range(model.njnt):
        if model.jnt_limited[j] and model.jnt_type[j] in (HINGE, SLIDE):
            limits[:, model.jnt_qposadr[j]] = model.jnt_range[j]
    return limits


def _noise_shares(model: mujoco.MjModel, qpos: np.ndarray) -> np.ndarray:
    """Return how much of the noise each column of qpos and qvel gets, (nq + nv,).

    A centimetre is a little of most robots; of one that is smaller than ten, metres get less.
    """
    data = at_rest(model, qpos)
    size = max(
        float(np.linalg.norm(np.ptp(data.xpos[model.body_rootid == tree], axis=0)))
        for tree in set(model.body_rootid[model.jnt_bodyid].tolist())
    )
    share = min(1.0, size / _SMALL_M) if size > 0.0 else 1.0
    positions, velocities = np.ones(int(model.nq)), np.ones(int(model.nv))
    for j in range(model.njnt):
        metres = {FREE: 3, SLIDE: 1}.get(int(model.jnt_type[j]), 0)
        for values, first in ((positions, model.jnt_qposadr[j]), (velocities, model.jnt_dofadr[j])):
            values[first : first + metres] = share
    return np.concatenate((positions, velocities))


def _quaternions(model: mujoco.MjModel) -> tuple[int, ...]:
    """Return where quaternions start in qpos."""
    offset = {FREE: 3, BALL: 0}
    return tuple(
        int(model.jnt_qposadr[j]) + offset[int(model.jnt_type[j])]
        for j in range(model.njnt)
        if int(model.jnt_type[j]) in offset
    )


# ---- what is assumed of the robot
# A model does not say which of its bodies is the robot, which way it faces, what it stands on. All
# three are guessed; where names or poses of the model contradict the guess, a note says so.

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


def assumption_notes(spec: EnvSpec) -> list[str]:
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
        "(x towards y). If the names are right: telic robots FILE --describe > mine.toml, "
        f"then facing_deg = {angle:.0f} in it, and use mine.toml."
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
