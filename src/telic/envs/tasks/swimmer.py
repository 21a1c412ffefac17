"""Swimmer: a chain of three links swims forward in a viscous plane."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from telic.envs.names import position_names, velocity_names
from telic.envs.task import Outcome, Task, TaskArguments
from telic.envs.tasks.arguments import (
    ControlWeight,
    ForwardWeight,
    FrameSkip,
    HidePosition,
    NoiseScale,
)
from telic.sim import Simulation


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
            "distance_from_origin": lambda read: read("qpos")[:, :2].norm(dim=1),
        }
        hidden = 2 * arguments.exclude_current_positions_from_observation
        self._seen = self.qpos[:, hidden:]
        self._place = self.qpos[:, :2]
        self.obs_names = position_names(sim.model)[hidden:] + velocity_names(sim.model)

    def start(self, seed: Tensor, episode: Tensor) -> tuple[Tensor, Tensor]:
        """Start near the default pose."""
        return self.start_near_default(seed, episode, self.arguments.reset_noise_scale)

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
