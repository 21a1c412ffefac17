"""Machines on a fixed base: a cart balances one or two poles, and an arm reaches a target."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from telic.core.seeds import uniform
from telic.core.tensors import norm
from telic.envs.names import position_names, velocity_names
from telic.envs.task import (
    Camera,
    FrameSkip,
    HealthyReward,
    NoiseScale,
    Outcome,
    Task,
    TaskArguments,
    TerminateWhenUnhealthy,
)
from telic.errors import BadEnvironment
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
    normal_velocities = True
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


_REACH = 0.2  # radius of the disc the target lies in, m


class ReacherArguments(TaskArguments):
    """Arguments of Reacher-v5."""

    xml_file: str = "reacher.xml"
    frame_skip: FrameSkip = 2
    max_episode_steps: Annotated[
        int | None, Field(gt=0, description="time limit; None: unlimited")
    ] = 50
    default_camera_config: Camera = Field(default={"trackbodyid": 0})
    reward_dist_weight: Annotated[float, Field(description="cost per metre to the target")] = 1.0
    reward_control_weight: Annotated[float, Field(description="cost per squared action")] = 1.0


class Reacher(Task[ReacherArguments]):
    """Reward is -w_d * distance - w_c * |action|^2; never terminates."""

    id = "Reacher-v5"
    description = (
        "An arm of two links in a plane; its own task is to bring the fingertip to a target."
    )
    Arguments = ReacherArguments
    meanings: ClassVar = {
        "reward_dist": "minus the weighted distance to the target",
        "reward_ctrl": "minus the control cost",
    }
    obs_names = (
        *("joint0_cos", "joint1_cos", "joint0_sin", "joint1_sin", "target_x", "target_y"),
        *("joint0_velocity", "joint1_velocity", "to_target_x", "to_target_y"),
    )

    def __init__(self, arguments: ReacherArguments, sim: Simulation) -> None:
        super().__init__(arguments, sim)
        places = sim.field("xpos")
        try:
            self._fingertip = places[:, sim.model.body("fingertip").id]
            self._target = places[:, sim.model.body("target").id]
        except KeyError as error:
            raise BadEnvironment(
                f'The model "{arguments.xml_file}" lacks a body Reacher needs: {error}.',
                hint='Name the bodies "fingertip" and "target".',
            ) from error

    def start(self, seed: Tensor, episode: Tensor) -> tuple[Tensor, Tensor]:
        """Start near the default pose, the target anywhere in its disc."""
        positions, velocities = self.qpos.shape[1], self.qvel.shape[1]
        u = uniform(seed, episode, positions + velocities)
        qpos = self.qpos0 + 0.1 * (2.0 * u[:, :positions] - 1.0)
        qvel = 0.005 * (2.0 * u[:, positions:] - 1.0)
        # Uniform in a disc: the radius goes with the square root. The target itself stands still.
        radius = _REACH * u[:, positions - 2].sqrt()
        angle = 2.0 * math.pi * u[:, positions - 1]
        qpos[:, -2] = radius * angle.cos()
        qpos[:, -1] = radius * angle.sin()
        qvel[:, -2:] = 0.0
        return qpos, qvel

    def observe(self) -> Tensor:
        """Observe the joints, the target, and the way from it to the fingertip."""
        angles = self.qpos[:, :2]
        way = self._fingertip[:, :2] - self._target[:, :2]
        return torch.cat(
            (angles.cos(), angles.sin(), self.qpos[:, 2:], self.qvel[:, :2], way), dim=1
        )

    def outcome(self, action: Tensor, moved: Tensor) -> Outcome:
        """Charge distance and effort."""
        way = self._fingertip - self._target
        distance = norm(way) * -self.arguments.reward_dist_weight
        control = action.square().sum(1) * -self.arguments.reward_control_weight
        values = {"reward_dist": distance, "reward_ctrl": control}
        return Outcome(distance + control, None, values)
