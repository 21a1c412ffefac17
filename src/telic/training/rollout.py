"""Collect rollouts for all members in one batch, with rewards and episode statistics.

Members that share a reward are adjacent in the batch, so each distinct reward is called once per
step on one slice of environments. Reward memory is appended to the network inputs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from telic.core.tensors import integers, table
from telic.envs.vector import Info, Step, VecEnv
from telic.errors import RewardError
from telic.rewards.reward import Reward
from telic.sim.cuda_graph import GraphedCallable, is_recording
from telic.training.networks import Distribution, InputMask, PolicyNetworks, Squashed
from telic.training.population import Actor


class Group(NamedTuple):
    """Reward and the adjacent members that are trained on it."""

    reward: Reward
    first: int
    members: int


class Score(NamedTuple):
    """Rewards of one step, by member and environment."""

    total: Tensor
    """total reward (P, n)"""
    terms: Tensor
    """reward terms (P, n, k) (zero where a member's reward has fewer than k terms)"""


class Scoring:
    """Compute each reward on its members' environments and keep the memory of the rewards."""

    def __init__(
        self, env: VecEnv, groups: Sequence[Group], critic_sees: Sequence[str] = ()
    ) -> None:
        self.groups = list(groups)
        self.members = sum(group.members for group in groups)
        self.num_envs = env.num_envs // self.members
        self.obs_dim = env.obs_dim
        self.critic_sees = tuple(critic_sees)
        self.device, self._env = env.device, env
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
        """Write observations, reward memory and privileged fields to `out` (P, n, inputs).

        For next inputs, `info` is the info of the transition. For the current state, it is None.
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
        """Return each member's input mask, which hides the memory of other members' rewards."""
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
                raise  # a graph capture error, not an error of the reward
            # NaN rewards stop only the members of the failing reward; the others keep training.
            self._errors[group.first] = error
            total = torch.full((len(obs[rows]),), torch.nan, device=obs.device)
            return total, total.new_zeros(len(total), self.term_count)
        columns = [terms[name] for name in group.reward.term_names]
        columns += [torch.zeros_like(total)] * (self.term_count - len(columns))
        stacked = torch.stack(columns, dim=1) if columns else total.new_zeros(len(total), 0)
        return total, stacked

    def error_of(self, member: int) -> RewardError | None:
        """Return the error raised by a member's reward, or None."""
        for group in self.groups:
            if group.first <= member < group.first + group.members:
                return self._errors.get(group.first)
        return None

    def reset(self, done: Tensor) -> None:
        """Reset the reward memory of ended episodes. `done` is (P, n) bool."""
        for group in self.groups:
            group.reward.reset(done[group.first : group.first + group.members].reshape(-1))

    def carried(self) -> dict[str, Tensor]:
        """Return a dictionary of the reward memory that each step updates."""
        return {
            f"{i}/{name}": value
            for i, group in enumerate(self.groups)
            for name, value in group.reward.carried().items()
        }

    def carry(self, tensors: dict[str, Tensor]) -> None:
        """Replace the reward memory with the given tensors."""
        for i, group in enumerate(self.groups):
            start = f"{i}/"
            own = {k[len(start) :]: v for k, v in tensors.items() if k.startswith(start)}
            group.reward.carry(own)

    def state_dict(self) -> dict[str, Any]:
        """Return the rewards' memory."""
        return {str(i): group.reward.state_dict() for i, group in enumerate(self.groups)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the rewards' memory."""
        for i, group in enumerate(self.groups):
            group.reward.load_state_dict(state[str(i)])


_RECENT = 20
"""window of the moving average of episode returns"""


class Batch(NamedTuple):
    """Rollout of T steps for P members with n environments each."""

    inputs: Tensor
    """network inputs (T, P, n, d) before normalization"""
    next_inputs: Tensor
    """inputs (T, P, n, d) after each step, before any reset"""
    actions: Tensor
    """sampled actions (T, P, n, width) before clipping"""
    log_probs: Tensor
    """log probabilities of the actions (T, P, n)"""
    rewards: Tensor
    """rewards (T, P, n)"""
    terms: Tensor
    """reward terms (T, P, n, k), in the order of each member's term names"""
    terminated: Tensor
    """whether the episode terminated, (T, P, n) bool"""
    done: Tensor
    """whether the episode terminated or was truncated, (T, P, n) bool"""
    actor: Actor
    """policies that collected the batch"""


class RolloutInputs(NamedTuple):
    """Inputs of a rollout: output buffers, action noise and a mask of active members."""

    batch: Batch
    """buffers to fill, with the policies that act"""
    noise: Tensor
    """action noise (T, P, n, outputs)"""
    alive: Tensor | None
    """mask (P, 1, 1) of active members, or None for all"""


class Collector:
    """Collect rollouts with frozen policies and keep the state between batches."""

    def __init__(
        self,
        env: VecEnv,
        scoring: Scoring,
        networks: PolicyNetworks,
        distribution: Distribution,
        horizon: int,
    ) -> None:
        self.env = env
        self.scoring = scoring
        self.networks = networks
        self.distribution = distribution
        self.horizon = horizon
        self.members = scoring.members
        self.num_envs = env.num_envs // self.members
        self._to_env = ActionMap(env)
        self._obs = torch.empty(0)
        self._inputs: RolloutInputs | None = None  # on a GPU, at fixed addresses
        self.graphed = GraphedCallable(self._run_in_place, [self, env, scoring], env.device)

    def start(self, *, stagger: bool) -> None:
        """Reset every environment, optionally with staggered episode clocks."""
        self._obs = self.env.reset()
        if stagger:
            self.env.stagger()

    @torch.no_grad()
    def collect(self, actor: Actor, noise: Tensor, alive: Tensor) -> Batch:
        """Collect a rollout of `horizon` steps. Inactive members take zero actions.

        On a GPU, the call returns before the rollout is complete. All calls use the same buffers.
        """
        if self.env.device.type == "cpu":
            quiet = None if bool(alive.all()) else alive.view(-1, 1, 1)
            return self._run(RolloutInputs(self._allocate(actor), noise, quiet))
        if self._inputs is None:
            self._inputs = RolloutInputs(self._allocate(actor), noise, alive.view(-1, 1, 1).clone())
        else:
            self._inputs.batch.actor.copy_(actor)
            self._inputs.noise.copy_(noise)
            assert self._inputs.alive is not None
            self._inputs.alive.copy_(alive.view(-1, 1, 1))
        return self.graphed()

    def _run_in_place(self) -> Batch:
        assert self._inputs is not None
        return self._run(self._inputs)

    def _run(self, rollout: RolloutInputs) -> Batch:
        batch, noise, alive = rollout
        actor = batch.actor
        env, scoring, rows = self.env, self.scoring, (self.members, self.num_envs)
        obs = self._obs
        with env.foreseeing():
            for t in range(self.horizon):
                inputs = scoring.inputs(obs, None, out=batch.inputs[t])
                outputs = self.networks.act(actor.views, actor.part(actor.scaling.apply(inputs)))
                actions = self.distribution.sample(outputs, actor.views.log_std, noise[t])
                if alive is not None:
                    actions = torch.where(alive, actions, 0.0)
                batch.actions[t] = actions
                env_action = self._to_env(actions)
                step = env.step(env_action)
                score = scoring.score(obs, env_action, step)
                scoring.inputs(step.final_obs, step.info, out=batch.next_inputs[t])
                batch.rewards[t] = score.total
                batch.terms[t] = score.terms
                batch.terminated[t] = step.terminated.view(rows)
                torch.logical_or(
                    step.terminated.view(rows), step.truncated.view(rows), out=batch.done[t]
                )
                scoring.reset(batch.done[t])
                obs = step.obs
        self._obs = obs
        if not isinstance(self.distribution, Squashed):  # its learners do not use log densities
            self._log_probs(batch)
        return batch

    def _allocate(self, actor: Actor) -> Batch:
        """Allocate new buffers, because the learner may still be reading the previous batch."""
        T, P, n = self.horizon, self.members, self.num_envs
        width, device = self.networks.shape.critic_inputs, self.env.device

        def floats(*sizes: int) -> Tensor:
            return torch.empty(T, P, n, *sizes, device=device)

        def flags() -> Tensor:
            return torch.empty(T, P, n, dtype=torch.bool, device=device)

        return Batch(
            floats(width),
            floats(width),
            floats(self.distribution.width),
            floats(),
            floats(),
            torch.zeros(T, P, n, self.scoring.term_count, device=device),
            flags(),
            flags(),
            actor,
        )

    def _log_probs(self, batch: Batch) -> None:
        """Compute the log densities of the whole batch in one forward pass."""
        actor = batch.actor
        inputs = actor.scaling.apply(by_member(batch.inputs))
        outputs = self.networks.act(actor.views, actor.part(inputs))
        log_probs = self.distribution.log_prob(
            outputs, actor.views.log_std, by_member(batch.actions)
        )
        batch.log_probs.copy_(log_probs.view(self.members, self.horizon, -1).transpose(0, 1))

    def carried(self) -> dict[str, Tensor]:
        """Return a dictionary with the current observation."""
        return {"obs": self._obs}

    def carry(self, tensors: dict[str, Tensor]) -> None:
        """Replace the current observation."""
        self._obs = tensors["obs"]

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the environments, rewards and current observation."""
        return {
            "obs": self._obs,
            "env": self.env.state_dict(),
            "scoring": self.scoring.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state, so that the next batch matches an uninterrupted run."""
        self._obs = state["obs"].clone()
        self.env.load_state_dict(state["env"])
        self.scoring.load_state_dict(state["scoring"])
        if not getattr(self.env, "resumable", True):  # new episodes were started
            restarted: Any = self.env
            self._obs = restarted.exact_obs.float()
            everyone = torch.ones(self.members, self.num_envs, dtype=torch.bool)
            self.scoring.reset(everyone.to(self.env.device))


class ActionMap:
    """Map sampled actions (P, n, width) to environment actions.

    Continuous actions are clipped to [-1, 1] and scaled to the range. Discrete actions are indices.
    """

    def __init__(self, env: VecEnv) -> None:
        self.discrete = env.num_actions is not None
        if not self.discrete:
            self.middle = (env.action_high + env.action_low) / 2.0
            self.half = (env.action_high - env.action_low) / 2.0
            self.plain = bool((self.middle == 0).all() and (self.half == 1).all())

    def __call__(self, actions: Tensor) -> Tensor:
        """Return environment actions, (N, A) or (N,) if discrete."""
        if self.discrete:
            return actions.reshape(-1).long()
        actions = actions.reshape(-1, actions.shape[-1]).clamp(-1.0, 1.0)
        return actions if self.plain else torch.addcmul(self.middle, actions, self.half)


def by_member(x: Tensor) -> Tensor:
    """Reshape (T, P, n, ...) to (P, T * n, ...)."""
    return x.transpose(0, 1).flatten(1, 2)


class Episode(NamedTuple):
    """Finished training episode."""

    total: float
    length: int
    terms: tuple[float, ...]


class EpisodeTracker:
    """Accumulate episode returns across batches and keep the latest episodes of each member."""

    def __init__(self, members: int, num_envs: int, terms: int, device: torch.device | str) -> None:
        # columns: return, length, then each term
        self._carry = torch.zeros(members, num_envs, 2 + terms, dtype=torch.float64, device=device)
        self.recent: list[deque[Episode]] = [deque(maxlen=_RECENT) for _ in range(members)]
        self.finished = [0] * members

    def update(self, batch: Batch) -> list[int]:
        """Add the steps of a batch and return the number of finished episodes per member."""
        ones = torch.ones_like(batch.rewards)
        parts = torch.cat((torch.stack((batch.rewards, ones), dim=-1), batch.terms), dim=-1)
        sums = parts.double().cumsum(0) + self._carry  # (T, P, n, k)
        steps = torch.arange(len(sums), device=sums.device).view(-1, 1, 1)
        ends = torch.where(batch.done, steps, -1).cummax(0).values  # latest end so far
        before = torch.cat((torch.full_like(ends[:1], -1), ends[:-1]))
        episodes = sums - _at(sums, before)
        self._carry = sums[-1] - _at(sums, ends[-1:])[0]
        where = batch.done.transpose(0, 1).nonzero()  # by member, then time
        finished = episodes[where[:, 1], where[:, 0], where[:, 2]]
        for member, row in zip(integers(where[:, 0]), table(finished), strict=True):
            self.recent[member].append(Episode(row[0], round(row[1]), tuple(row[2:])))
        ended = integers(batch.done.sum(dim=(0, 2)))
        self.finished = [a + b for a, b in zip(self.finished, ended, strict=True)]
        return ended

    def state_dict(self) -> dict[str, Any]:
        """Return unfinished and recent episodes."""
        rows = [
            [(episode.total, episode.length, *episode.terms) for episode in member]
            for member in self.recent
        ]
        return {"carry": self._carry, "recent": rows, "finished": self.finished}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore unfinished and recent episodes."""
        self._carry = state["carry"].clone()
        self.finished = list(state["finished"])
        for member, rows in zip(self.recent, state["recent"], strict=True):
            member.clear()
            member.extend(Episode(row[0], int(row[1]), tuple(row[2:])) for row in rows)


def _at(sums: Tensor, index: Tensor) -> Tensor:
    """Return `sums` at a time index per environment, or zero where the index is -1."""
    picked = sums.gather(0, index.clamp_min(0).unsqueeze(-1).expand(*index.shape, sums.shape[-1]))
    return torch.where((index >= 0).unsqueeze(-1), picked, 0.0)
