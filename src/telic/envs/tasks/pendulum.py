"""InvertedPendulum and InvertedDoublePendulum: a cart balances one or two poles."""

from __future__ import annotations

from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from telic.envs.names import position_names, velocity_names
from telic.envs.task import Outcome, Task, TaskArguments
from telic.envs.tasks.arguments import (
    Camera,
    FrameSkip,
    HealthyReward,
    NoiseScale,
    TerminateWhenUnhealthy,
)
from telic.sim import Simulation


class InvertedPendulumArguments(TaskArguments):
    """Arguments of InvertedPendulum-v5."""

    xml_file: str = "inverted_pendulum.xml"
    frame_skip: FrameSkip = 2
    default_camera_config: Camera = Field(default={"trackbodyid": 0, "distance": 2.04})
    reset_noise_scale: NoiseScale = 0.01
    terminate_when_unhealthy: TerminateWhenUnhealthy = True


class InvertedPendulum(Task[InvertedPendulumArguments]):
    """Reward is 1 while the pole stands within 0.2 rad; ends when it does not."""

    id = "InvertedPendulum-v5"
    description = "A cart with a pole; its own task is to keep the pole up."
    Arguments = InvertedPendulumArguments
    meanings: ClassVar = {"reward_survive": "1 while the pole stands, else 0"}

    def __init__(self, arguments: InvertedPendulumArguments, sim: Simulation) -> None:
        super().__init__(arguments, sim)
        self.obs_names = position_names(sim.model) + velocity_names(sim.model)

    def start(self, seed: Tensor, episode: Tensor) -> tuple[Tensor, Tensor]:
        """Start near the default pose."""
        return self.start_near_default(seed, episode, self.arguments.reset_noise_scale)

    def observe(self) -> Tensor:
        """Observe positions and velocities of cart and pole."""
        return torch.cat((self.qpos, self.qvel), dim=1)

    def outcome(self, action: Tensor, moved: Tensor) -> Outcome:
        """Reward a standing pole."""
        finite = (self.qpos.sum(1) + self.qvel.sum(1)).isfinite()
        healthy = (self.qpos[:, 1].abs() <= 0.2) & finite
        reward = healthy.to(self.qpos.dtype)
        terminated = ~healthy if self.arguments.terminate_when_unhealthy else None
        return Outcome(reward, terminated, {"reward_survive": reward})


class InvertedDoublePendulumArguments(TaskArguments):
    """Arguments of InvertedDoublePendulum-v5."""

    xml_file: str = "inverted_double_pendulum.xml"
    frame_skip: FrameSkip = 5
    healthy_reward: HealthyReward = 10.0
    reset_noise_scale: NoiseScale = 0.1
    terminate_when_unhealthy: TerminateWhenUnhealthy = True


class InvertedDoublePendulum(Task[InvertedDoublePendulumArguments]):
    """Reward is w_h * standing - 0.01 x^2 - (y - 2)^2 - 1e-3 v1^2 - 5e-3 v2^2, (x, y) the tip."""

    id = "InvertedDoublePendulum-v5"
    description = "A cart with a pole on a pole; its own task is to keep both up."
    Arguments = InvertedDoublePendulumArguments
    meanings: ClassVar = {
        "reward_survive": "reward while the tip is above 1 m",
        "distance_penalty": "minus the penalty for the tip being away from its place",
        "velocity_penalty": "minus the penalty for the poles turning",
    }
    obs_names = (
        *("slider", "hinge_sin", "hinge2_sin", "hinge_cos", "hinge2_cos", "slider_velocity"),
        *("hinge_velocity", "hinge2_velocity", "slider_constraint_force"),
    )

    def __init__(self, arguments: InvertedDoublePendulumArguments, sim: Simulation) -> None:
        super().__init__(arguments, sim)
        self._tip = sim.field("site_xpos")[:, 0]
        self._constraint = sim.field("qfrc_constraint")[:, :1]

    def start(self, seed: Tensor, episode: Tensor) -> tuple[Tensor, Tensor]:
        """Start near the default pose, with normal velocities."""
        scale = self.arguments.reset_noise_scale
        return self.start_near_default(seed, episode, scale, normal_velocity=True)

    def observe(self) -> Tensor:
        """Observe the cart, sines and cosines of the poles, and velocities and force cut at 10."""
        angles = self.qpos[:, 1:]
        speeds = self.qvel.clamp(-10.0, 10.0)
        force = self._constraint.clamp(-10.0, 10.0)
        return torch.cat((self.qpos[:, :1], angles.sin(), angles.cos(), speeds, force), dim=1)

    def outcome(self, action: Tensor, moved: Tensor) -> Outcome:
        """Reward standing, charge distance and velocity."""
        x, y = self._tip[:, 0], self._tip[:, 2]
        fallen = y <= 1.0
        survive = self.where(~fallen, self.arguments.healthy_reward)
        distance = x.square() * -0.01 - (y - 2.0).square()
        velocity = self.qvel[:, 1].square() * -1e-3 - self.qvel[:, 2].square() * 5e-3
        values = {
            "reward_survive": survive,
            "distance_penalty": distance,
            "velocity_penalty": velocity,
        }
        terminated = fallen if self.arguments.terminate_when_unhealthy else None
        return Outcome(survive + distance + velocity, terminated, values)
