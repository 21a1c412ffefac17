"""An arm that reaches for a target, which every episode draws anew from a box."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import mujoco
import torch
from pydantic import Field, PositiveInt
from torch import Tensor

from telic.core.seeds import uniform
from telic.core.tensors import norm
from telic.envs.anatomy import action_names
from telic.envs.own_robot import CustomArguments, CustomTask
from telic.envs.task import Outcome
from telic.errors import ConfigError
from telic.robots.reaching import HAND, TARGET, Box
from telic.robots.said import GOAL, said_numbers
from telic.robots.terrain import ArmTask
from telic.sim import Simulation

_GOALS = 14
"""stream of random numbers"""
_AXES = "xyz"


class ReachArguments(CustomArguments):
    """Arguments of an arm that reaches."""

    max_episode_steps: PositiveInt | None = Field(150, description="time limit; None: unlimited")
    task: ArmTask = Field(
        "reach", description="with the hand to the target, or with a block: push or pick it there"
    )
    goal: Box | None = Field(
        None, description="x, y and z of targets, lowest and highest, m; None: the robot's own"
    )


def reaches(model: mujoco.MjModel) -> bool:
    """Say whether telic gave the arm of a model a target."""
    return said_numbers(model, GOAL) is not None


class ReachTask(CustomTask):
    """Reward is minus the distance of the hand to the target and a little effort; never ends."""

    Arguments = ReachArguments
    arguments: ReachArguments
    meanings: ClassVar[Mapping[str, str]] = {
        "reward_dist": "minus the distance to the target",
        "reward_ctrl": "minus the control cost",
    }

    def __init__(self, arguments: ReachArguments, sim: Simulation, notes: Sequence[str]) -> None:
        super().__init__(arguments, sim, notes)
        model, like = sim.model, self.qpos
        places = sim.field("xpos")
        self._hand = places[:, model.body(HAND).id]
        self._target = places[:, model.body(TARGET).id]
        joints = [int(model.actuator_trnid[i, 0]) for i in range(model.nu)]
        device = sim.device
        self._joints = torch.tensor([int(model.jnt_qposadr[j]) for j in joints], device=device)
        self._rates = torch.tensor([int(model.jnt_dofadr[j]) for j in joints], device=device)
        self._rest = self.qpos0[self._joints]
        self._at = int(model.jnt_qposadr[model.joint(f"{TARGET}_x").id])
        self._still = int(model.jnt_dofadr[model.joint(f"{TARGET}_x").id])
        own = said_numbers(model, GOAL) or []
        box = like.new_tensor(arguments.goal or own).view(3, 2)
        self._nearest, self._wide = box[:, 0], box[:, 1] - box[:, 0]
        if bool((self._wide < 0).any()):
            raise ConfigError(f"goal={arguments.goal}: a lowest value is above its highest.")
        low, high = like.new_tensor(self.action_limits).T
        self._middle, self._half = (high + low) / 2.0, ((high - low) / 2.0).clamp_min(1e-9)
        names = action_names(model)
        self.obs_names = (
            *(f"{name} position" for name in names),
            *(f"{name} velocity" for name in names),
            *(f"hand_{axis}" for axis in _AXES),
            *(f"{TARGET}_{axis}" for axis in _AXES),
            *(f"to_{TARGET}_{axis}" for axis in _AXES),
        )

    def reward_note(self) -> str:
        """Say what the default reward is."""
        return "Default reward: - distance of the hand to the target - ctrl_cost_weight * effort."

    def start(self, seed: Tensor, episode: Tensor) -> tuple[Tensor, ...]:
        """Start near the resting pose, the target anywhere in its box."""
        qpos, qvel = super().start(seed, episode)
        u = uniform(seed, episode, 3, stream=_GOALS).to(qpos.dtype)
        qpos[:, self._at : self._at + 3] = self._nearest + self._wide * u
        qvel[:, self._still : self._still + 3] = 0.0
        return qpos, qvel

    def observe(self) -> Tensor:
        """Observe the joints, the hand, the target, and the way between them."""
        joints = self.qpos[:, self._joints] - self._rest
        way = self._target - self._hand
        rates = self.qvel[:, self._rates]
        return torch.cat((joints, rates, self._hand, self._target, way), dim=1)

    def outcome(self, action: Tensor, moved: Tensor) -> Outcome:
        """Charge distance and effort."""
        distance = -norm(self._target - self._hand)
        effort = ((action - self._middle) / self._half).square().mean(1)
        control = -self.arguments.ctrl_cost_weight * effort
        return Outcome(distance + control, None, {"reward_dist": distance, "reward_ctrl": control})
