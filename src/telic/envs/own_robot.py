"""The task of a robot that is given as a model file: what follows from the model alone."""

from __future__ import annotations

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
from telic.envs.anatomy import action_names, position_names, robot_of, velocity_names
from telic.envs.assumptions import OWN_REWARD, assumptions
from telic.envs.models import action_limits
from telic.envs.spec import Robot
from telic.envs.task import Outcome, Task, TaskArguments, between
from telic.errors import ConfigError, UnknownName
from telic.robots.structure import BALL, FREE, HINGE, SLIDE, at_rest, unused_name
from telic.sim import Simulation

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

    def outcome(self, action: Tensor, moved: Tensor) -> Outcome:
        """Reward nothing."""
        return Outcome(torch.zeros_like(self.qpos[:, 0]), None, {})


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

    def outcome(self, action: Tensor, moved: Tensor) -> Outcome:
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
        return Outcome(forward + control + survive, terminated, values)

    def _health(self) -> tuple[Tensor, Tensor | None]:
        """Return the reward for being healthy, and who is not if that ends the episode."""
        bounds, height = self.arguments.healthy_z_range, self._height
        if bounds is None or height is None:
            return torch.zeros_like(self.qpos[:, 0]), None
        healthy = between(height.offset + height.sign * self.qpos[:, height.qpos], bounds)
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
