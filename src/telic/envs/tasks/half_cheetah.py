"""HalfCheetah: a two-legged robot in the vertical plane runs forward."""

from __future__ import annotations

from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from telic.envs.names import position_names, velocity_names
from telic.envs.task import Outcome, Task, TaskArguments
from telic.envs.tasks.arguments import (
    Camera,
    ControlWeight,
    ForwardWeight,
    FrameSkip,
    HidePosition,
    NoiseScale,
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

    def start(self, seed: Tensor, episode: Tensor) -> tuple[Tensor, Tensor]:
        """Start near the default pose, with normal velocities."""
        scale = self.arguments.reset_noise_scale
        return self.start_near_default(seed, episode, scale, normal_velocity=True)

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
