"""Reacher: an arm of two links brings its fingertip to a target."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from telic.core.seeds import uniform
from telic.envs.task import Outcome, Task, TaskArguments
from telic.envs.tasks.arguments import Camera, FrameSkip
from telic.errors import BadEnvironment
from telic.sim import Simulation

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
        distance = way.norm(dim=1) * -self.arguments.reward_dist_weight
        control = action.square().sum(1) * -self.arguments.reward_control_weight
        values = {"reward_dist": distance, "reward_ctrl": control}
        return Outcome(distance + control, None, values)
