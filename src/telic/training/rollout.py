"""Collect a batch of experience from all members' environments at once, and count episodes."""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

import torch
from torch import Tensor

from telic.core.tensors import integers, table
from telic.envs.vector import VecEnv
from telic.sim.cuda_graph import GraphedCallable
from telic.training.group import TrainingGroup
from telic.training.networks import Distribution, PolicyNetworks
from telic.training.population import Actor
from telic.training.scoring import Scoring

_RECENT = 20
"""latest episodes of a member whose mean is its return"""


class Batch(NamedTuple):
    """T steps of P members with n environments each, and how they acted."""

    inputs: Tensor
    """(T, P, n, d) what the networks saw, not normalised"""
    next_inputs: Tensor
    """(T, P, n, d) what each step led to, before any reset"""
    actions: Tensor
    """(T, P, n, width) as sampled"""
    log_probs: Tensor
    """(T, P, n)"""
    rewards: Tensor
    """(T, P, n)"""
    terms: Tensor
    """(T, P, n, k) parts of the reward, by each member's own list of names"""
    terminated: Tensor
    """(T, P, n) bool"""
    done: Tensor
    """(T, P, n) bool: terminated or truncated"""
    actor: Actor
    """the policies that acted"""


class RolloutInputs(NamedTuple):
    """What to collect: where to, with what randomness, for whom."""

    batch: Batch
    """to be filled; its actor acts"""
    noise: Tensor
    """(T, P, n, outputs)"""
    alive: Tensor | None
    """(P, 1, 1) bool, members that act; None: all"""


class Collector:
    """Steps the environments with frozen policies; owns everything that lives between batches."""

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
        self._inputs: RolloutInputs | None = None  # on a GPU, at a fixed place
        self.graphed = GraphedCallable(self._run_in_place, [self, env, scoring], env.device)

    def start(self, *, stagger: bool) -> None:
        """Reset every environment; staggered, their time limits do not come all at once."""
        self._obs = self.env.reset()
        if stagger:
            self.env.stagger()

    @torch.no_grad()
    def collect(self, actor: Actor, noise: Tensor, alive: Tensor) -> Batch:
        """Run `horizon` steps. Members that are not alive act with zeros and fill their place.

        On a GPU, returns before it is done, and always the same memory.
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
        self._log_probs(batch)
        return batch

    def _allocate(self, actor: Actor) -> Batch:
        """Return fresh tensors: the learner may still be reading the previous batch."""
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
        """Fill in log densities for the whole batch in one pass instead of one per step."""
        actor = batch.actor
        inputs = actor.scaling.apply(by_member(batch.inputs))
        outputs = self.networks.act(actor.views, actor.part(inputs))
        log_probs = self.distribution.log_prob(
            outputs, actor.views.log_std, by_member(batch.actions)
        )
        batch.log_probs.copy_(log_probs.view(self.members, self.horizon, -1).transpose(0, 1))

    def carried(self) -> dict[str, Tensor]:
        """Return the observation to act on next."""
        return {"obs": self._obs}

    def carry(self, tensors: dict[str, Tensor]) -> None:
        """Act on another one next."""
        self._obs = tensors["obs"]

    def state_dict(self) -> dict[str, Any]:
        """Return what the next batch depends on."""
        return {
            "obs": self._obs,
            "env": self.env.state_dict(),
            "scoring": self.scoring.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put it back; the next batch is then the one that would have been collected."""
        self._obs = state["obs"].clone()
        self.env.load_state_dict(state["env"])
        self.scoring.load_state_dict(state["scoring"])
        if not getattr(self.env, "resumable", True):  # it has started new episodes
            restarted: Any = self.env
            self._obs = restarted.exact_obs.float()
            everyone = torch.ones(self.members, self.num_envs, dtype=torch.bool)
            self.scoring.reset(everyone.to(self.env.device))


class ActionMap:
    """Maps sampled actions (P, n, width) to what the environment takes.

    Continuous: [-1, 1] becomes the action range, values outside are clipped. Discrete: indices.
    """

    def __init__(self, env: VecEnv) -> None:
        self.discrete = env.num_actions is not None
        if not self.discrete:
            self.middle = (env.action_high + env.action_low) / 2.0
            self.half = (env.action_high - env.action_low) / 2.0
            self.plain = bool((self.middle == 0).all() and (self.half == 1).all())

    def __call__(self, actions: Tensor) -> Tensor:
        """Return the environment's actions (N, A) or (N,)."""
        if self.discrete:
            return actions.reshape(-1).long()
        actions = actions.reshape(-1, actions.shape[-1]).clamp(-1.0, 1.0)
        return actions if self.plain else torch.addcmul(self.middle, actions, self.half)


def by_member(x: Tensor) -> Tensor:
    """Turn (T, P, n, ...) into (P, T * n, ...)."""
    return x.transpose(0, 1).flatten(1, 2)


class Episode(NamedTuple):
    """A finished training episode."""

    total: float
    length: int
    terms: tuple[float, ...]


class EpisodeTracker:
    """Carries unfinished episodes from batch to batch and remembers each member's latest ones."""

    def __init__(self, members: int, num_envs: int, terms: int, device: torch.device | str) -> None:
        # columns: return, length, then each term
        self._carry = torch.zeros(members, num_envs, 2 + terms, dtype=torch.float64, device=device)
        self.recent: list[deque[Episode]] = [deque(maxlen=_RECENT) for _ in range(members)]
        self.finished = [0] * members

    def update(self, batch: Batch, group: TrainingGroup | None = None) -> list[int]:
        """Take in a batch; returns how many episodes ended per member, in all processes."""
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
        counts = batch.done.sum(dim=(0, 2))
        ended = integers(counts if group is None else group.sum_(counts))
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
        """Put them back."""
        self._carry = state["carry"].clone()
        self.finished = list(state["finished"])
        for member, rows in zip(self.recent, state["recent"], strict=True):
            member.clear()
            member.extend(Episode(row[0], int(row[1]), tuple(row[2:])) for row in rows)


def _at(sums: Tensor, index: Tensor) -> Tensor:
    """Return `sums` at a time index per environment, zero where the index is -1."""
    picked = sums.gather(0, index.clamp_min(0).unsqueeze(-1).expand(*index.shape, sums.shape[-1]))
    return torch.where((index >= 0).unsqueeze(-1), picked, 0.0)
