"""Hopper and Walker2d: one and two legs in the vertical plane, which must not fall."""

from __future__ import annotations

from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from telic.envs.names import position_names, velocity_names
from telic.envs.task import Outcome, Task, TaskArguments, between
from telic.envs.tasks.arguments import (
    Camera,
    ControlWeight,
    ForwardWeight,
    FrameSkip,
    HealthyAngle,
    HealthyHeight,
    HealthyReward,
    HidePosition,
    NoiseScale,
    Range,
    TerminateWhenUnhealthy,
)
from telic.sim import Simulation

_CAMERA: Camera = {
    "trackbodyid": 2,
    "distance": 3.0,
    "lookat": (0.0, 0.0, 1.15),
    "elevation": -20.0,
}


class Walker2dArguments(TaskArguments):
    """Arguments of Walker2d-v5."""

    xml_file: str = "walker2d_v5.xml"
    frame_skip: FrameSkip = 4
    default_camera_config: Camera = Field(default={**_CAMERA, "distance": 4.0})
    forward_reward_weight: ForwardWeight = 1.0
    ctrl_cost_weight: ControlWeight = 1e-3
    healthy_reward: HealthyReward = 1.0
    terminate_when_unhealthy: TerminateWhenUnhealthy = True
    healthy_z_range: HealthyHeight = (0.8, 2.0)
    healthy_angle_range: HealthyAngle = (-1.0, 1.0)
    reset_noise_scale: NoiseScale = 5e-3
    exclude_current_positions_from_observation: HidePosition = True


class HopperArguments(Walker2dArguments):
    """Arguments of Hopper-v5."""

    xml_file: str = "hopper.xml"
    default_camera_config: Camera = _CAMERA
    healthy_state_range: Annotated[
        Range, Field(description="all other positions and velocities must lie in it")
    ] = (-100.0, 100.0)
    healthy_z_range: HealthyHeight = (0.7, float("inf"))
    healthy_angle_range: HealthyAngle = (-0.2, 0.2)


class Walker2d(Task[Walker2dArguments]):
    """Reward is w_f * x velocity + w_h * healthy - w_c * |action|^2; ends when it falls."""

    id = "Walker2d-v5"
    description = "Two legs in the vertical plane; its own task is to walk forward without falling."
    Arguments = Walker2dArguments
    meanings: ClassVar = {
        "x_position": "position along x, m",
        "z_distance_from_origin": "height of the torso above its default, m",
        "x_velocity": "mean velocity along x over the step, m/s",
        "reward_forward": "weighted forward velocity",
        "reward_ctrl": "minus the control cost",
        "reward_survive": "reward for being healthy",
    }

    def __init__(self, arguments: Walker2dArguments, sim: Simulation) -> None:
        super().__init__(arguments, sim)
        hidden = int(arguments.exclude_current_positions_from_observation)
        self._seen = self.qpos[:, hidden:]
        self._x, self._height, self._angle = self.qpos[:, :1], self.qpos[:, 1], self.qpos[:, 2]
        self.obs_names = position_names(sim.model)[hidden:] + velocity_names(sim.model)
        height = float(sim.model.qpos0[1])
        self.readers = {
            "x_position": lambda read: read("qpos")[:, 0],
            "z_distance_from_origin": lambda read: read("qpos")[:, 1] - height,
        }

    def start(self, seed: Tensor, episode: Tensor) -> tuple[Tensor, Tensor]:
        """Start near the default pose."""
        return self.start_near_default(seed, episode, self.arguments.reset_noise_scale)

    def observe(self) -> Tensor:
        """Observe joint positions, and velocities cut at 10."""
        return torch.cat((self._seen, self.qvel.clamp(-10.0, 10.0)), dim=1)

    def track(self) -> Tensor:
        """Follow x."""
        return self._x.clone()

    def is_healthy(self) -> Tensor:
        """Tell who stands, (N,) bool."""
        return between(self._height, self.arguments.healthy_z_range) & between(
            self._angle, self.arguments.healthy_angle_range
        )

    def outcome(self, action: Tensor, moved: Tensor) -> Outcome:
        """Reward speed and standing, charge effort."""
        arguments = self.arguments
        velocity = moved[:, 0] / self.dt
        healthy = self.is_healthy()
        forward = velocity * arguments.forward_reward_weight
        survive = self.where(healthy, arguments.healthy_reward)
        control = action.square().sum(1) * -arguments.ctrl_cost_weight
        values = {
            "x_velocity": velocity,
            "reward_forward": forward,
            "reward_ctrl": control,
            "reward_survive": survive,
        }
        terminated = ~healthy if arguments.terminate_when_unhealthy else None
        return Outcome(forward + survive + control, terminated, values)


class Hopper(Walker2d):
    """As Walker2d, and every other position and velocity must stay in bounds too."""

    id = "Hopper-v5"
    description = "One leg in the vertical plane; its own task is to hop forward without falling."
    Arguments = HopperArguments
    arguments: HopperArguments

    def is_healthy(self) -> Tensor:
        """Tell who stands and moves within bounds, (N,) bool."""
        state = torch.cat((self.qpos[:, 2:], self.qvel), dim=1)
        return super().is_healthy() & between(state, self.arguments.healthy_state_range).all(1)
