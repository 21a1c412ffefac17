"""An arm with a block: to push along a table to a goal on it, or to pick up to a goal in the air.

Every episode has the block and the goal elsewhere, never so near each other that nothing is left
to do. What is observed is what a robot can know that sees the block: joints, hand, block and goal.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar

import torch
from torch import Tensor

from telic.core.seeds import uniform
from telic.core.tensors import norm
from telic.envs.reach import ReachArguments, ReachTask
from telic.envs.task import Outcome
from telic.errors import ConfigError
from telic.robots.block import BLOCK, HALF_M, bench_of, has_gripper
from telic.robots.reaching import TARGET
from telic.sim import Simulation

_PLACES = 15
"""stream of random numbers"""
_NEAREST = 0.6
"""least way of the block to the goal, in the farthest that fits the table everywhere"""
_LIFT_M = 0.1
"""least height of a goal in the air above where the block lies"""
_AXES = "xyz"


class BlockTask(ReachTask):
    """Reward is minus the distances of the block to the goal and of the hand to the block."""

    meanings: ClassVar[Mapping[str, str]] = {
        "reward_dist": "minus the distance of the block to the goal",
        "reward_near": "minus half the distance of the hand to the block",
        "reward_ctrl": "minus the control cost",
    }

    def __init__(self, arguments: ReachArguments, sim: Simulation, notes: Sequence[str]) -> None:
        super().__init__(arguments, sim, notes)
        model = sim.model
        if arguments.task == "pick" and not has_gripper(model):
            raise ConfigError(
                f'task="pick": {self.id} has no gripper to hold a block with.',
                hint='An arm without one can push: task="push".',
            )
        body = int(model.body(BLOCK).id)
        self._block = sim.field("xpos")[:, body]
        self._turn = sim.field("xquat")[:, body]
        self._block_at = int(model.jnt_qposadr[model.joint(f"{BLOCK}_x").id])
        self._block_rate = int(model.jnt_dofadr[model.joint(f"{BLOCK}_x").id])
        self._lies = bench_of(model).top_m + HALF_M
        """height of the middle of a block that lies"""
        self._highest = max(float(self._nearest[2] + self._wide[2]), self._lies + _LIFT_M)
        self.obs_names = (
            *self.obs_names,
            *(f"{BLOCK}_{axis}" for axis in _AXES),
            *(f"{BLOCK}_{side}_{axis}" for side in ("ahead", "left") for axis in _AXES),
            *(f"{BLOCK}_velocity_{axis}" for axis in _AXES),
            *(f"to_{BLOCK}_{axis}" for axis in _AXES),
            *(f"{BLOCK}_to_{TARGET}_{axis}" for axis in _AXES),
        )

    def reward_note(self) -> str:
        """Say what the default reward is."""
        return (
            "Default reward: - distance of the block to the goal - half that of the hand to the "
            "block - ctrl_cost_weight * effort."
        )

    def start(self, seed: Tensor, episode: Tensor) -> tuple[Tensor, ...]:
        """Start near the resting pose, the goal anywhere, and the block on the table, not at it.

        The way between them is a point of a ring that half the table is wide. Where it would lead
        off the table it is taken to the other side, which is on it.
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
        """Observe what a reach observes, and where the block is, how it lies and how it moves."""
        w, x, y, z = self._turn.unbind(1)
        ahead = (1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y + w * z), 2.0 * (x * z - w * y))
        left = (2.0 * (x * y - w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z + w * x))
        moves = self.qvel[:, self._block_rate : self._block_rate + 3]
        parts = (
            *(super().observe(), self._block, torch.stack((*ahead, *left), dim=1), moves),
            *(self._block - self._hand, self._target - self._block),
        )
        return torch.cat(parts, dim=1)

    def outcome(self, action: Tensor, moved: Tensor) -> Outcome:
        """Charge what is left of the way, and effort."""
        values = super().outcome(action, moved).values
        distance = -norm(self._target - self._block)
        near = -0.5 * norm(self._block - self._hand)
        values = {**values, "reward_dist": distance, "reward_near": near}
        return Outcome(distance + near + values["reward_ctrl"], None, values)
