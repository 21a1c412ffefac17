"""Robots in a plane: HalfCheetah runs, Hopper hops, Walker2d walks and Swimmer swims."""

from __future__ import annotations

from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from telic.core.tensors import norm
from telic.envs.names import position_names, velocity_names
from telic.envs.task import (
    Camera,
    ControlWeight,
    ForwardWeight,
    FrameSkip,
    HealthyAngle,
    HealthyHeight,
    HealthyReward,
    HidePosition,
    NoiseScale,
    Outcome,
    Range,
    Task,
    TaskArguments,
    TerminateWhenUnhealthy,
    between,
)
from telic.sim import Simulation


class HalfCheetahArguments(TaskArguments):
    """Arguments of HalfCheetah-v5."""

    xml_file: str = "half_cheetah.xml"
    frame_skip: FrameSkip = 5
    default_camera_config: Camera = Field(default={"distance": 4.0})
    forward_reward_weight: ForwardWeight = 1.0
    ctrl_cost_weight: ControlWeight = 0.1
    reset_noise_scale: NoiseScale = 0.1
    exclude_current_positions_from_observation: HidePosition = True


class HalfCheetah(Task[HalfCheetahArguments]):
    """Reward is w_f * x velocity - w_c * |action|^2; never terminates."""

    id = "HalfCheetah-v5"
    description = "A two-legged robot in the vertical plane; its own task is to run forward fast."
    Arguments = HalfCheetahArguments
    normal_velocities = True
    meanings: ClassVar = {
        "x_position": "position along x, m",
        "x_velocity": "mean velocity along x over the step, m/s",
        "reward_forward": "weighted forward velocity",
        "reward_ctrl": "minus the control cost",
    }

    def __init__(self, arguments: HalfCheetahArguments, sim: Simulation) -> None:
        super().__init__(arguments, sim)
        self.readers = {"x_position": lambda read: read("qpos")[:, 0]}
        hidden = int(arguments.exclude_current_positions_from_observation)
        self._seen = self.qpos[:, hidden:]
        self._x = self.qpos[:, :1]
        self.obs_names = position_names(sim.model)[hidden:] + velocity_names(sim.model)

    def observe(self) -> Tensor:
        """Observe joint positions and velocities."""
        return torch.cat((self._seen, self.qvel), dim=1)

    def track(self) -> Tensor:
        """Follow x."""
        return self._x.clone()

    def outcome(self, action: Tensor, moved: Tensor) -> Outcome:
        """Reward speed, charge effort."""
        velocity = moved[:, 0] / self.dt
        forward = velocity * self.arguments.forward_reward_weight
        control = action.square().sum(1) * -self.arguments.ctrl_cost_weight
        values = {"x_velocity": velocity, "reward_forward": forward, "reward_ctrl": control}
        return Outcome(forward + control, None, values)


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


class SwimmerArguments(TaskArguments):
    """Arguments of Swimmer-v5."""

    xml_file: str = "swimmer.xml"
    frame_skip: FrameSkip = 4
    forward_reward_weight: ForwardWeight = 1.0
    ctrl_cost_weight: ControlWeight = 1e-4
    reset_noise_scale: NoiseScale = 0.1
    exclude_current_positions_from_observation: HidePosition = True


class Swimmer(Task[SwimmerArguments]):
    """Reward is w_f * x velocity - w_c * |action|^2; never terminates."""

    id = "Swimmer-v5"
    description = "A chain of three links in a viscous plane; its own task is to swim towards +x."
    Arguments = SwimmerArguments
    meanings: ClassVar = {
        "x_position": "position of the front tip along x, m",
        "y_position": "position of the front tip along y, m",
        "distance_from_origin": "distance of the front tip from the origin, m",
        "x_velocity": "mean velocity along x over the step, m/s",
        "y_velocity": "mean velocity along y over the step, m/s",
        "reward_forward": "weighted forward velocity",
        "reward_ctrl": "minus the control cost",
    }

    def __init__(self, arguments: SwimmerArguments, sim: Simulation) -> None:
        super().__init__(arguments, sim)
        self.readers = {
            "x_position": lambda read: read("qpos")[:, 0],
            "y_position": lambda read: read("qpos")[:, 1],
            "distance_from_origin": lambda read: norm(read("qpos")[:, :2]),
        }
        hidden = 2 * arguments.exclude_current_positions_from_observation
        self._seen = self.qpos[:, hidden:]
        self._place = self.qpos[:, :2]
        self.obs_names = position_names(sim.model)[hidden:] + velocity_names(sim.model)

    def observe(self) -> Tensor:
        """Observe joint positions and velocities."""
        return torch.cat((self._seen, self.qvel), dim=1)

    def track(self) -> Tensor:
        """Follow x and y."""
        return self._place.clone()

    def outcome(self, action: Tensor, moved: Tensor) -> Outcome:
        """Reward speed, charge effort."""
        x_velocity, y_velocity = (moved / self.dt).unbind(1)
        forward = x_velocity * self.arguments.forward_reward_weight
        control = action.square().sum(1) * -self.arguments.ctrl_cost_weight
        values = {
            "x_velocity": x_velocity,
            "y_velocity": y_velocity,
            "reward_forward": forward,
            "reward_ctrl": control,
        }
        return Outcome(forward + control, None, values)
