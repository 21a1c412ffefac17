"""The members' rewards, and what reward memory adds to the networks' inputs.

Members that share a reward are neighbours in the batch, so each distinct reward is called once per
step on one slice of environments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from telic.envs.vector import Info, Step, VecEnv
from telic.errors import RewardError
from telic.rewards.reward import Reward
from telic.sim.cuda_graph import is_recording
from telic.training.networks import InputMask


class Group(NamedTuple):
    """One reward and the neighbouring members that train on it."""

    reward: Reward
    first: int
    members: int


class Score(NamedTuple):
    """Rewards of one step."""

    total: Tensor
    """(P, n)"""
    terms: Tensor
    """(P, n, k), zero where a member's reward has fewer than k terms"""


class Scoring:
    """Calls each reward on its members' environments and owns the rewards' memory."""

    def __init__(
        self, env: VecEnv, groups: Sequence[Group], critic_sees: Sequence[str] = ()
    ) -> None:
        self.groups = list(groups)
        self.members = sum(group.members for group in groups)
        self.num_envs = env.num_envs // self.members
        self.obs_dim = env.obs_dim
        self.critic_sees = tuple(critic_sees)
        self._env = env
        self._errors: dict[int, RewardError] = {}
        for group in self.groups:
            group.reward.start(group.members * self.num_envs, env.device)
        self.term_names = [
            list(group.reward.term_names) for group in self.groups for _ in range(group.members)
        ]
        self.term_count = max(map(len, self.term_names), default=0)
        self.memory_size = max((group.reward.memory_size for group in self.groups), default=0)
        self.extra_size = sum(
            self._field(env.present(), name).shape[1] for name in self.critic_sees
        )
        to_actor = any(group.reward.seen_memory for group in self.groups)
        self.actor_inputs = self.obs_dim + (self.memory_size if to_actor else 0)
        self.critic_inputs = self.obs_dim + self.memory_size + self.extra_size

    def _slice(self, group: Group) -> slice:
        return slice(group.first * self.num_envs, (group.first + group.members) * self.num_envs)

    def inputs(self, obs: Tensor, info: Info | None, out: Tensor) -> Tensor:
        """Write observation, reward memory and privileged fields into `out` (P, n, inputs).

        `info` is the transition's for what a step led to, None for the present state.
        """
        flat = out.view(-1, out.shape[-1])
        if not (self.memory_size or self.extra_size):
            return out.copy_(obs.view(out.shape))
        flat[:, : self.obs_dim] = obs
        if self.memory_size:
            end = self.obs_dim + self.memory_size
            for group in self.groups:
                size = group.reward.memory_size
                rows = flat[self._slice(group), self.obs_dim : end]
                rows[:, size:] = 0.0
                if size:
                    rows[:, :size] = group.reward.memory()
        if self.extra_size:
            source = self._env.present() if info is None else info
            fields = [self._field(source, name) for name in self.critic_sees]
            torch.cat(fields, dim=1, out=flat[:, self.obs_dim + self.memory_size :])
        return out

    @staticmethod
    def _field(info: Info, name: str) -> Tensor:
        value = info[name]
        return value.reshape(value.shape[0], -1).float()

    def input_masks(self) -> list[InputMask]:
        """Return what each member's networks see: not the memory of other members' rewards."""
        out: list[InputMask] = []
        for group in self.groups:
            own, end = self.obs_dim + group.reward.memory_size, self.obs_dim + self.memory_size
            critic = torch.ones(self.critic_inputs, dtype=torch.bool)
            critic[own:end] = False
            actor = critic[: self.actor_inputs].clone()
            actor[self.obs_dim :] = False
            for column in group.reward.seen_memory if len(actor) > self.obs_dim else ():
                actor[self.obs_dim + column] = True
            out += [InputMask(actor, critic)] * group.members
        return out

    def score(self, obs: Tensor, action: Tensor, step: Step) -> Score:
        """Return every member's reward for one step."""
        if len(self.groups) == 1:
            total, terms = self._call(self.groups[0], obs, action, step, slice(None))
        else:
            slices = [(group, self._slice(group)) for group in self.groups]
            parts = [self._call(group, obs, action, step, rows) for group, rows in slices]
            total = torch.cat([part[0] for part in parts])
            terms = torch.cat([part[1] for part in parts])
        rows = self.members, self.num_envs
        return Score(total.view(rows), terms.view(*rows, -1))

    def _call(
        self, group: Group, obs: Tensor, action: Tensor, step: Step, rows: slice
    ) -> tuple[Tensor, Tensor]:
        info = step.info if rows == slice(None) else step.info.slice(rows)
        try:
            if group.first in self._errors:
                raise self._errors[group.first]
            total, terms = group.reward(
                obs[rows], action[rows], step.final_obs[rows], info, step.reward[rows]
            )
        except RewardError as error:
            if is_recording():
                raise  # it cannot be recorded; that says nothing about its value
            # One reward's error must not end the others' training: its members see NaN and stop.
            self._errors[group.first] = error
            total = torch.full((len(obs[rows]),), torch.nan, device=obs.device)
            return total, total.new_zeros(len(total), self.term_count)
        columns = [terms[name] for name in group.reward.term_names]
        columns += [torch.zeros_like(total)] * (self.term_count - len(columns))
        stacked = torch.stack(columns, dim=1) if columns else total.new_zeros(len(total), 0)
        return total, stacked

    def error_of(self, member: int) -> RewardError | None:
        """Return the error that a member's reward raised, if it did."""
        for group in self.groups:
            if group.first <= member < group.first + group.members:
                return self._errors.get(group.first)
        return None

    def reset(self, done: Tensor) -> None:
        """Forget the memory of ended episodes, (P, n) bool."""
        for group in self.groups:
            group.reward.reset(done[group.first : group.first + group.members].reshape(-1))

    def carried(self) -> dict[str, Tensor]:
        """Return the memory that rewards replace at every step, by name."""
        return {
            f"{i}/{name}": value
            for i, group in enumerate(self.groups)
            for name, value in group.reward.carried().items()
        }

    def carry(self, tensors: dict[str, Tensor]) -> None:
        """Let the rewards go on with these tensors."""
        for i, group in enumerate(self.groups):
            start = f"{i}/"
            own = {k[len(start) :]: v for k, v in tensors.items() if k.startswith(start)}
            group.reward.carry(own)

    def state_dict(self) -> dict[str, Any]:
        """Return the rewards' memory."""
        return {str(i): group.reward.state_dict() for i, group in enumerate(self.groups)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put the rewards' memory back."""
        for i, group in enumerate(self.groups):
            group.reward.load_state_dict(state[str(i)])
