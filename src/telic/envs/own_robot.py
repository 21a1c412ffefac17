"""Default task for user-provided robot models, derived from the model alone."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
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
from telic.envs.models import ON_JOINT, action_limits
from telic.envs.spec import EnvSpec, Robot
from telic.envs.task import StepOutcome, Task, TaskArguments, strictly_within
from telic.errors import ConfigError, UnknownName
from telic.robots.structure import BALL, FREE, SLIDE, at_rest, driven_trees, unused_name
from telic.sim.base import Simulation

OWN_REWARD = "Default reward:"
"""Prefix of the default-reward note that sessions omit because they write the reward."""
_SMALL_M = 0.1
"""Robot size below which the initial position noise is reduced."""


class CustomArguments(TaskArguments):
    """Arguments of a user-provided robot."""

    keyframe: int | str | None = Field(
        default=None,
        description="initial keyframe by number or name, None for the first one, or -1 for the "
        "model's default pose",
    )
    reset_noise_scale: NonNegativeFloat = Field(
        0.01, description="amplitude of uniform noise on initial positions and velocities"
    )
    forward_reward_weight: float = Field(1.0, description="reward per m/s along x")
    ctrl_cost_weight: float = Field(
        0.1, description="cost of full effort, i.e. of the mean squared scaled action"
    )
    healthy_z_range: tuple[float, float] | None = Field(
        None, description="range of healthy torso heights, or None for all"
    )
    healthy_reward: float = Field(1.0, description="reward per step within `healthy_z_range`")
    terminate_when_unhealthy: bool = Field(
        True, description="end the episode outside `healthy_z_range`"
    )


class CustomTask(Task[CustomArguments]):
    """Default task that observes joints and sensors and rewards forward motion along x.

    The reward is w_f * x velocity + w_h * healthy - w_c * effort, or zero for a robot that cannot
    travel along x. Episodes terminate outside healthy_z_range if it is set.
    """

    Arguments = CustomArguments
    travel_meanings: ClassVar[Mapping[str, str]] = {
        "x_velocity": "mean velocity along x over the step, m/s",
        "reward_forward": "weighted forward velocity",
        "reward_ctrl": "negative control cost",
        "reward_survive": "reward while healthy",
    }

    def __init__(self, arguments: CustomArguments, sim: Simulation, notes: Sequence[str]) -> None:
        super().__init__(arguments, sim)
        model, device = sim.model, sim.device
        path = Path(arguments.xml_file)
        self.id = path.name
        self.description = f"The robot of {path.name}, with a default task derived from its model."
        qpos, qvel = start_pose(model, arguments.keyframe)
        self.qpos0, self.qvel0 = self.qpos.new_tensor(qpos), self.qvel.new_tensor(qvel)
        self.robot = robot_of(model, qpos)
        root = self.robot.root
        can_travel = root.kind in ("free", "planar")
        self._forward = root.slide("x") if can_travel else None
        self._height = root.slide("z")
        if arguments.healthy_z_range is not None and self._forward and self._height is None:
            raise ConfigError(
                f"healthy_z_range={arguments.healthy_z_range} is invalid for {self.id}, because "
                "its torso cannot move vertically."
            )
        # Observe joint positions except global x and y, velocities, and sensors.
        hidden = {slide.qpos for slide in root.slides if slide.axis in "xy" and can_travel}
        for before, after in pairwise((-1, *sorted(hidden), model.nq)):
            if after > before + 1:
                self.see(sim, "qpos", before + 1, after - before - 1)
        self.see(sim, "qvel", 0, model.nv)
        if model.nsensordata:
            self.see(sim, "sensordata", 0, model.nsensordata)
        positions = (name for i, name in enumerate(position_names(model)) if i not in hidden)
        joints = (*positions, *velocity_names(model))
        self.obs_names = joints + _sensor_names(model, set(joints))
        # Allow a resting pose outside the joint limits; clamp only the noise.
        limits = np.array([[-np.inf], [np.inf]]).repeat(model.nq, axis=1)
        self._quaternions: list[int] = []
        for j in range(model.njnt):
            kind, first = int(model.jnt_type[j]), int(model.jnt_qposadr[j])
            if kind in (FREE, BALL):
                self._quaternions.append(first + (3 if kind == FREE else 0))
            elif model.jnt_limited[j]:
                limits[:, first] = model.jnt_range[j]
        low, high = self.qpos.new_tensor(limits)
        self._low, self._high = torch.minimum(low, self.qpos0), torch.maximum(high, self.qpos0)
        self._start_noise = self.qpos.new_tensor(_noise_shares(model, qpos))
        self.action_limits = action_limits(model, qpos)
        low, high = self.qpos.new_tensor(self.action_limits).T
        self._middle, self._half = (high + low) / 2.0, ((high - low) / 2.0).clamp_min(1e-9)
        # The joint of each actuator, in action order; unused for actuators without a joint.
        driven = np.where(model.actuator_trntype == ON_JOINT, model.actuator_trnid[:, 0], 0)
        self.actuators = action_names(model)
        self._joints = torch.tensor(model.jnt_qposadr[driven].tolist(), device=device)
        self._rates = torch.tensor(model.jnt_dofadr[driven].tolist(), device=device)
        self._rest = self.qpos0[self._joints]
        self.notes = (*notes, self.reward_note(), *assumptions(model, self.robot))

    @property
    def info_meanings(self) -> Mapping[str, str]:
        """Task-specific info values and their meanings."""
        return self.meanings or (self.travel_meanings if self._forward else {})

    def reward_note(self) -> str:
        """Describe the default reward."""
        if self._forward is None:
            return f"{OWN_REWARD} zero, because the robot cannot move along x. Provide a reward."
        healthy = " + healthy_reward" if self.arguments.healthy_z_range is not None else ""
        return (
            f"{OWN_REWARD} forward_reward_weight * x_velocity{healthy} "
            "- ctrl_cost_weight * mean squared action."
        )

    def effort_cost(self, action: Tensor) -> Tensor:
        """Return the negative weighted mean of the squared scaled actions, (N,)."""
        effort = ((action - self._middle) / self._half).square().mean(1)
        return -self.arguments.ctrl_cost_weight * effort

    def start(self, seed: Tensor, episode: Tensor) -> tuple[Tensor, ...]:
        """Sample initial states near the resting pose, within the joint limits."""
        positions, velocities = self.qpos.shape[1], self.qvel.shape[1]
        noise = uniform(seed, episode, positions + velocities) * 2.0 - 1.0
        noise *= self.arguments.reset_noise_scale * self._start_noise
        qpos = torch.clamp(self.qpos0 + noise[:, :positions], self._low, self._high)
        for first in self._quaternions:
            part = qpos[:, first : first + 4]
            qpos[:, first : first + 4] = part / norm(part, 1, keepdim=True)
        return qpos, self.qvel0 + noise[:, positions:]

    def track(self) -> Tensor:
        """Return the tracked x position."""
        if self._forward is None:
            return super().track()
        return self.qpos[:, self._forward.qpos : self._forward.qpos + 1].clone()

    def outcome(self, action: Tensor, moved: Tensor) -> StepOutcome:
        """Compute the reward from forward velocity and health minus the control cost."""
        if self._forward is None:
            return StepOutcome(torch.zeros_like(self.qpos[:, 0]), None, {})
        arguments, height = self.arguments, self._height
        velocity = self._forward.sign * moved[:, 0] / self.dt
        forward = arguments.forward_reward_weight * velocity
        control = self.effort_cost(action)
        survive, terminated = torch.zeros_like(self.qpos[:, 0]), None
        if arguments.healthy_z_range is not None and height is not None:
            at = height.offset + height.sign * self.qpos[:, height.qpos]
            healthy = strictly_within(at, arguments.healthy_z_range)
            survive = self.where(healthy, arguments.healthy_reward)
            terminated = ~healthy if arguments.terminate_when_unhealthy else None
        values = {
            "x_velocity": velocity,
            "reward_forward": forward,
            "reward_ctrl": control,
            "reward_survive": survive,
        }
        return StepOutcome(forward + control + survive, terminated, values)


def start_pose(model: mujoco.MjModel, keyframe: int | str | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the initial qpos and qvel of a keyframe, or the model's default pose."""
    names = [model.key(k).name for k in range(model.nkey)]
    if isinstance(keyframe, str):
        if keyframe not in names:
            raise UnknownName("keyframe", keyframe, names)
        keyframe = names.index(keyframe)
    if keyframe is None:
        keyframe = 0 if model.nkey else -1
    if keyframe >= model.nkey:
        raise ConfigError(f"keyframe={keyframe}, but the model has {model.nkey} keyframes.")
    if keyframe < 0:
        return model.qpos0.copy(), np.zeros(int(model.nv))
    return model.key_qpos[keyframe].copy(), model.key_qvel[keyframe].copy()


def _sensor_names(model: mujoco.MjModel, taken: set[str]) -> tuple[str, ...]:
    names: list[str] = []
    for k in range(model.nsensor):
        stem = model.sensor(k).name or f"sensor_{k}"
        size = int(model.sensor_dim[k])
        own = [stem] if size == 1 else [f"{stem}_{part}" for part in range(size)]
        # A sensor and the joint it measures may share a name.
        names += [unused_name(f"{name}_sensor" if name in taken else name, taken) for name in own]
    return tuple(names)


def _noise_shares(model: mujoco.MjModel, qpos: np.ndarray) -> np.ndarray:
    """Return the noise scale of each column of qpos and qvel, (nq + nv,).

    A centimeter of noise is too large for tiny robots. Below 10 cm, translations are scaled down.
    """
    data = at_rest(model, qpos)
    size = max(
        float(np.linalg.norm(np.ptp(data.xpos[model.body_rootid == tree], axis=0)))
        for tree in set(model.body_rootid[model.jnt_bodyid].tolist())
    )
    share = min(1.0, size / _SMALL_M) if size > 0.0 else 1.0
    positions, velocities = np.ones(int(model.nq)), np.ones(int(model.nv))
    for j in range(model.njnt):
        meters = {FREE: 3, SLIDE: 1}.get(int(model.jnt_type[j]), 0)
        for values, first in ((positions, model.jnt_qposadr[j]), (velocities, model.jnt_dofadr[j])):
            values[first : first + meters] = share
    return np.concatenate((positions, velocities))


# ---- assumptions about the robot
# A model does not specify which of its bodies is the robot, its forward direction, or its feet.
# These are guessed and reported as notes.

_FRONT = {"front", "fore", "fl", "fr", "lf", "rf"}
_BACK = {"rear", "hind", "back", "rl", "rr", "hl", "hr", "lh", "rh"}
_LEFT = {"left", "l", "fl", "lf", "rl", "hl", "lh"}
_RIGHT = {"right", "r", "fr", "rf", "rr", "hr", "rh"}
_FAR_DEG = 45.0
"""Angle from x above which the facing direction is reported as different."""
_APART = 0.1
"""Minimum distance between front and back, relative to the robot's size."""


def assumption_notes(spec: EnvSpec) -> list[str]:
    """Return the notes that are shown at the start of a session with this robot."""
    return [note for note in spec.notes if not note.startswith(OWN_REWARD)]


def assumptions(model: mujoco.MjModel, robot: Robot) -> list[str]:
    """List the assumptions about properties that the model file does not specify."""
    if robot.torso is None:
        return []
    names = body_names(model)
    notes: list[str] = []
    others = [names[tree] for tree in driven_trees(model) if tree != robot.torso]
    if others:
        notes.append(
            f"{names[robot.torso]} is assumed to be the robot. Actions also drive "
            f"{', '.join(others)}, which are not measured."
        )
    if robot.feet:
        feet = ", ".join(names[foot] for foot in robot.feet)
        notes.append(f"Assumed feet, the lowest end bodies of limbs at rest: {feet}.")
    angle = _named_facing(model, robot, names)
    if angle is not None and abs(angle) > _FAR_DEG:
        notes.append(
            f"Forward is +x, but the body names suggest that the robot faces {angle:.0f}° from "
            "it (x towards y). If so, run telic robots FILE --describe > mine.toml, set "
            f"facing_deg = {angle:.0f} in it, and use mine.toml."
        )
    return notes


def _named_facing(model: mujoco.MjModel, robot: Robot, names: tuple[str, ...]) -> float | None:
    """Infer the heading from body names, in degrees from x toward y, or None if unknown.

    The heading points from rear to front bodies, or else is perpendicular to the direction from
    right to left bodies.
    """
    data = at_rest(model, np.array(robot.rest_qpos))
    own = [b for b in range(1, model.nbody) if model.body_rootid[b] == robot.torso]
    words = [  # "FL_hipJoint" is fl, hip, joint
        set(re.split(r"[^a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", names[body]).lower()))
        for body in own
    ]
    places = data.xpos[own, :2]
    size = float(np.linalg.norm(np.ptp(data.xpos[own], axis=0)))
    for ahead, behind, turned in ((_FRONT, _BACK, 0.0), (_LEFT, _RIGHT, -90.0)):
        first = [k for k, found in enumerate(words) if found & ahead]
        second = [k for k, found in enumerate(words) if found & behind]
        if first and second:
            way = places[first].mean(0) - places[second].mean(0)
            if np.linalg.norm(way) > _APART * size:
                angle = math.degrees(math.atan2(way[1], way[0])) + turned
                return (angle + 180.0) % 360.0 - 180.0
    return None
