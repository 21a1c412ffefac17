"""Arm tasks: reach a target, push a block to a goal on a table, or lift it to a goal.

Targets and block positions are sampled per episode, with a minimum distance between goal and block.
Observations are joint states and the poses of hand, target and block.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar

import mujoco
import torch
from pydantic import Field, PositiveInt
from torch import Tensor

from telic.core.rotations import element
from telic.core.seeds import uniform
from telic.core.tensors import norm
from telic.envs.own_robot import OWN_REWARD, CustomArguments, CustomTask
from telic.envs.task import StepOutcome
from telic.errors import ConfigError
from telic.robots.arm import BLOCK, HALF_M, HAND, TARGET, Box, bench_of, has_gripper
from telic.robots.structure import GOAL, annotated_numbers
from telic.robots.terrain import ArmTask
from telic.sim.base import Simulation

_GOALS, _PLACES = 14, 15
"""Random number streams."""
_NEAREST = 0.6
"""Minimum distance from block to goal, relative to the maximum distance."""
_LIFT_M = 0.1
"""Minimum height of a goal in the air above a block on the table."""


class ReachArguments(CustomArguments):
    """Arguments of the arm tasks."""

    max_episode_steps: PositiveInt | None = Field(150, description="time limit in steps, or None")
    task: ArmTask = Field(
        "reach", description="reach the target with the hand, or push or pick a block to it"
    )
    goal: Box | None = Field(
        None, description="target box as lower and upper x, y and z in m, or None for the default"
    )


def is_reaching_arm(model: mujoco.MjModel) -> bool:
    """Return whether the model is an arm with a target added by telic."""
    return annotated_numbers(model, GOAL) is not None


def _axes(stem: str) -> list[str]:
    return [f"{stem}_{axis}" for axis in "xyz"]


class ReachTask(CustomTask):
    """Reach task without termination. The reward penalizes hand-target distance and effort."""

    Arguments = ReachArguments
    # pyrefly: ignore[bad-override-mutable-attribute]
    arguments: ReachArguments
    meanings: ClassVar[Mapping[str, str]] = {
        "reward_dist": "negative distance to the target",
        "reward_ctrl": "negative control cost",
    }

    def __init__(self, arguments: ReachArguments, sim: Simulation, notes: Sequence[str]) -> None:
        super().__init__(arguments, sim, notes)
        model, like = sim.model, self.qpos
        places = sim.field("xpos")
        hand, target = (int(model.body(name).id) for name in (HAND, TARGET))
        self._hand, self._target = places[:, hand], places[:, target]
        self.seen = []
        if not self._rest.any():  # `ObservationBlock` cannot subtract constants
            for field, columns in (("qpos", self._joints), ("qvel", self._rates)):
                for column in columns.tolist():
                    self.see(sim, field, column, 1)
            for body, minus in ((hand, None), (target, None), (target, 3 * hand)):
                self.see(sim, "xpos", 3 * body, 3, minus=minus)
        rail = model.joint(f"{TARGET}_x").id
        self._at, self._still = int(model.jnt_qposadr[rail]), int(model.jnt_dofadr[rail])
        own = annotated_numbers(model, GOAL) or []
        box = like.new_tensor(arguments.goal or own).view(3, 2)
        self._nearest, self._wide = box[:, 0], box[:, 1] - box[:, 0]
        if bool((self._wide < 0).any()):
            raise ConfigError(f"goal={arguments.goal}: a lower bound exceeds its upper bound.")
        self.obs_names = (
            *(f"{name} position" for name in self.actuators),
            *(f"{name} velocity" for name in self.actuators),
            *(*_axes("hand"), *_axes(TARGET), *_axes(f"to_{TARGET}")),
        )

    def reward_note(self) -> str:
        """Describe the default reward."""
        return f"{OWN_REWARD} - hand-target distance - ctrl_cost_weight * effort."

    def start(self, seed: Tensor, episode: Tensor) -> tuple[Tensor, ...]:
        """Sample initial states near the resting pose, and a target uniformly in its box."""
        qpos, qvel = super().start(seed, episode)
        u = uniform(seed, episode, 3, stream=_GOALS).to(qpos.dtype)
        qpos[:, self._at : self._at + 3] = self._nearest + self._wide * u
        qvel[:, self._still : self._still + 3] = 0.0
        return qpos, qvel

    def observe(self) -> Tensor:
        """Return joint states, hand and target positions, and the vector between them."""
        joints = self.qpos[:, self._joints] - self._rest
        way = self._target - self._hand
        rates = self.qvel[:, self._rates]
        return torch.cat((joints, rates, self._hand, self._target, way), dim=1)

    def outcome(self, action: Tensor, moved: Tensor) -> StepOutcome:
        """Compute the negative distance and control costs."""
        distance = -norm(self._target - self._hand)
        control = self.effort_cost(action)
        return StepOutcome(
            distance + control, None, {"reward_dist": distance, "reward_ctrl": control}
        )


class BlockTask(ReachTask):
    """Push or pick task. The reward penalizes block-goal and hand-block distances, and effort."""

    meanings: ClassVar[Mapping[str, str]] = {
        "reward_dist": "negative distance between block and goal",
        "reward_near": "negative half distance between hand and block",
        "reward_ctrl": "negative control cost",
    }

    def __init__(self, arguments: ReachArguments, sim: Simulation, notes: Sequence[str]) -> None:
        super().__init__(arguments, sim, notes)
        model = sim.model
        self.seen = []
        if arguments.task == "pick" and not has_gripper(model):
            raise ConfigError(
                f'task="pick" is not possible, because {self.id} has no gripper.',
                hint='An arm without a gripper can push: task="push".',
            )
        body = int(model.body(BLOCK).id)
        self._block = sim.field("xpos")[:, body]
        self._turn = sim.field("xquat")[:, body]
        rail = model.joint(f"{BLOCK}_x").id
        self._block_at = int(model.jnt_qposadr[rail])
        self._block_rate = int(model.jnt_dofadr[rail])
        self._lies = bench_of(model).top_m + HALF_M
        """Height of the block's center when it lies on the table."""
        self._highest = max(float(self._nearest[2] + self._wide[2]), self._lies + _LIFT_M)
        self.obs_names = (
            *self.obs_names,
            *(*_axes(BLOCK), *_axes(f"{BLOCK}_ahead"), *_axes(f"{BLOCK}_left")),
            *(*_axes(f"{BLOCK}_velocity"), *_axes(f"to_{BLOCK}"), *_axes(f"{BLOCK}_to_{TARGET}")),
        )

    def reward_note(self) -> str:
        """Describe the default reward."""
        return (
            f"{OWN_REWARD} - block-goal distance - half the hand-block distance - "
            "ctrl_cost_weight * effort."
        )

    def start(self, seed: Tensor, episode: Tensor) -> tuple[Tensor, ...]:
        """Sample initial states near the resting pose, a goal, and a block elsewhere on the table.

        The offset from goal to block is sampled in a ring of half the width of the goal box. An
        offset that leads outside the box changes its sign, which always leads inside.
        """
        qpos, qvel = super().start(seed, episode)
        u = uniform(seed, episode, 4, stream=_PLACES).to(qpos.dtype)
        far = _NEAREST + (1.0 - _NEAREST) * u[:, :1]
        angle = math.tau * u[:, 1:2]
        way = 0.5 * self._wide[:2] * far * torch.cat((angle.cos(), angle.sin()), dim=1)
        goal = qpos[:, self._at : self._at + 2]
        low, high = self._nearest[:2], self._nearest[:2] + self._wide[:2]
        is_off = (goal + way < low) | (goal + way > high)
        lies = torch.full_like(u[:, :1], self._lies)
        yaw = math.pi * (u[:, 2:3] - 0.5)
        none = torch.zeros_like(yaw)
        turned = torch.cat(((yaw / 2.0).cos(), none, none, (yaw / 2.0).sin()), dim=1)
        placed = torch.cat((goal + torch.where(is_off, -way, way), lies, turned), dim=1)
        qpos[:, self._block_at : self._block_at + 7] = placed
        qvel[:, self._block_rate : self._block_rate + 6] = 0.0
        up = self._lies + _LIFT_M + (self._highest - self._lies - _LIFT_M) * u[:, 3]
        is_air = self.arguments.task == "pick"
        qpos[:, self._at + 2] = up if is_air else lies[:, 0]
        return qpos, qvel

    def observe(self) -> Tensor:
        """Return the reach observation with the block's pose, velocity and relative positions."""
        axes = [element(self._turn, row, column) for column in (0, 1) for row in range(3)]
        moves = self.qvel[:, self._block_rate : self._block_rate + 3]
        parts = (
            *(super().observe(), self._block, torch.stack(axes, dim=1), moves),
            *(self._block - self._hand, self._target - self._block),
        )
        return torch.cat(parts, dim=1)

    def outcome(self, action: Tensor, moved: Tensor) -> StepOutcome:
        """Compute the negative remaining distances and control cost."""
        control = self.effort_cost(action)
        distance = -norm(self._target - self._block)
        near = -0.5 * norm(self._block - self._hand)
        values = {"reward_dist": distance, "reward_near": near, "reward_ctrl": control}
        return StepOutcome(distance + near + control, None, values)
