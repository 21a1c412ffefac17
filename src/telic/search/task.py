"""Tasks for policy search, with settings, random numbers and batched episodes.

Random numbers are pure functions of (seed, index) and do not depend on the batch.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from telic.core.config import Record
from telic.core.seeds import derive

if TYPE_CHECKING:
    from telic.search.policies import PolicyFamily

RolloutSeeds = NDArray[np.uint64]  # (N,), one per rollout
Floats = NDArray[np.float64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
Flags = NDArray[np.bool_]


def rollout_seeds(root: int, count: int) -> RolloutSeeds:
    """Return `count` rollout seeds derived from a root seed."""
    return _mix(np.full(count, root, np.uint64) * _GOLDEN, np.arange(count, dtype=np.uint64))


def uniforms(seeds: RolloutSeeds, size: int) -> Floats:
    """Return numbers in [0, 1), (N, size), which depend only on the seeds."""
    place = np.arange(1, size + 1, dtype=np.uint64)
    bits = _mix(seeds[:, None], place[None, :])
    # 53 bits: the precision of float64
    return (bits >> np.uint64(11)).astype(np.float64) * (1.0 / 9007199254740992.0)


def generator(*path: int | str) -> np.random.Generator:
    """Return a random generator for a path of names, such as (seed, "propose", 3)."""
    return np.random.default_rng(derive(*path))


def _mix(state: RolloutSeeds, place: RolloutSeeds) -> RolloutSeeds:
    """Mix two 64-bit numbers (SplitMix64 finalizer: Steele, Lea, Flood, 2014)."""
    x = state + (place + np.uint64(1)) * _GOLDEN
    x = (x ^ (x >> np.uint64(30))) * _FIRST
    x = (x ^ (x >> np.uint64(27))) * _SECOND
    return x ^ (x >> np.uint64(31))


class _ObservedNumber(NamedTuple):
    """Component of an observation, with its typical range for scaling."""

    name: str
    center: float
    half_range: float


class SearchTask(Record):
    """Definition of a task, independent of the search method."""

    id: str
    story: str
    """description of the task for people and models"""
    rewards: str
    """description of rewards and termination"""
    observations: tuple[_ObservedNumber, ...] = ()
    """components of the observation, empty if it is a state index"""
    states: int | None = None
    """number of states if the policy is a table, or else None"""
    actions: tuple[str, ...]
    """names of the discrete actions, or of the components of a continuous action"""
    first_action: int = 0
    """index of the first discrete action"""
    action_low: float | None = None
    """lower bound of each component, or None for discrete actions"""
    action_high: float | None = None
    time_limit: int
    """maximum episode length in steps"""
    cap: int | None = None
    """shorter maximum length used by the search, if the time limit is needlessly long"""
    target: float
    """target return stated to a model"""
    good: float
    """return above which a policy is not revised, or only slightly (gate threshold)"""
    solved: float
    """return above which an episode counts as a success"""
    step_size: float = 1.0
    """largest recommended change of a parameter in a revision"""
    warmup: int = 20
    """number of initial random policies, with one episode each, before a model is queried"""
    rollouts: int = 5
    """sufficient number of episodes per candidate for a numeric proposer"""
    is_deterministic: bool = False
    """whether all episodes of a policy are equal"""
    excerpts: int = 5
    """number of history entries with an excerpt in the published runs, if any"""
    edit_levels: tuple[float, float, float] = Field(default=(0.05, 0.4, 0.9))
    """fractions of the range from worst to target that are near zero, partial and high"""
    worst: float = 0.0
    """return of a policy that makes no progress"""

    @property
    def is_continuous(self) -> bool:
        """Return whether actions are continuous."""
        return self.action_low is not None

    @property
    def is_table(self) -> bool:
        """Return whether a policy is a table with one action per state."""
        return self.states is not None

    @property
    def choices(self) -> tuple[int, ...]:
        """Indices of the discrete actions."""
        return tuple(range(self.first_action, self.first_action + len(self.actions)))


class StepResult(NamedTuple):
    """Result of one step in N episodes."""

    obs: NDArray[Any]  # (N, quantities) float32, or (N,) int64 states
    reward: Floats  # (N,)
    terminated: Flags  # (N,)


class World(Protocol):
    """Batch of N episodes of a task, without autoreset."""

    most_rows: int
    """maximum number of episodes per world"""

    def start(self, seeds: RolloutSeeds) -> NDArray[Any]:
        """Start one episode per seed and return the initial observations."""
        ...

    def step(self, action: NDArray[Any]) -> StepResult:
        """Step all episodes with actions (N,) int64, or (N, components) float64."""
        ...

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Keep only these rows."""
        ...


TERMINATED, TIME_LIMIT, CAP = "t", "l", "c"
_COMPACT_BELOW = 0.8  # fraction of active rows below which a batch is compacted


class PolicyTrial(NamedTuple):
    """Request to evaluate candidates."""

    params: Floats  # (C, rank)
    seeds: RolloutSeeds  # (C, K)
    is_recorded: bool = False


class Trace(NamedTuple):
    """Single episode with all its steps."""

    obs: NDArray[Any]  # (T, quantities) or (T,)
    action: NDArray[Any]  # (T,) or (T, components)
    reward: Floats  # (T,)
    next_obs: NDArray[Any]
    end: str


class BatchRecording:
    """Recorded transitions of a batch in chronological order."""

    def __init__(self, steps: list[tuple[NDArray[Any], ...]], first: int, count: int) -> None:
        """Select the rows `first` to `first + count` of a batch."""
        self._steps, self._first, self._count = steps, first, count

    @cached_property
    def transitions(self) -> tuple[NDArray[Any], ...]:
        """Return the columns `row`, `obs`, `action`, `reward`, `next_obs` and `terminated`."""
        parts = [np.concatenate(column) for column in zip(*self._steps, strict=True)]
        mine = (parts[0] >= self._first) & (parts[0] < self._first + self._count)
        return (parts[0][mine] - self._first, *(part[mine] for part in parts[1:]))

    def trace(self, row: int, end: str) -> Trace:
        """Return a single episode."""
        rows, *parts = self.transitions
        obs, action, reward, next_obs, _ = (part[rows == row] for part in parts)
        return Trace(obs, action, reward, next_obs, end)


class Rollouts(NamedTuple):
    """Returns, lengths and endings of candidates' episodes."""

    returns: Floats  # (C, K)
    lengths: NDArray[np.int64]  # (C, K)
    ends: NDArray[np.str_]  # (C, K) "t" terminated, "l" time limit, "c" a shorter cap
    recording: BatchRecording | None

    def trace(self, candidate: int, rollout: int) -> Trace:
        """Return a single recorded episode."""
        assert self.recording is not None, "the trial was not recorded"
        row = candidate * self.returns.shape[1] + rollout
        return self.recording.trace(row, str(self.ends[candidate, rollout]))


class Player:
    """Evaluate trials in batches. A rollout depends only on its parameters and its seed."""

    def __init__(
        self, task: SearchTask, world: World, policy: PolicyFamily, *, cap: int | None, clips: bool
    ) -> None:
        """Create a player."""
        self._task, self._world, self._policy = task, world, policy
        self._limit = task.time_limit if cap is None else min(cap, task.time_limit)
        self._late = TIME_LIMIT if self._limit == task.time_limit else CAP
        self._clip = clips and task.is_continuous

    def play(self, trials: list[PolicyTrial]) -> list[Rollouts]:
        """Play several trials in one batch and return their results."""
        shapes = [trial.seeds.shape for trial in trials]
        params = np.concatenate(
            [np.repeat(t.params, s[1], axis=0) for t, s in zip(trials, shapes, strict=True)]
        )
        seeds = np.concatenate([trial.seeds.ravel() for trial in trials])
        log: list[tuple[NDArray[Any], ...]] | None = (
            [] if any(trial.is_recorded for trial in trials) else None
        )
        total = np.zeros(len(seeds))
        length = np.zeros(len(seeds), np.int64)
        ended = np.zeros(len(seeds), bool)
        for start in range(0, len(seeds), self._world.most_rows):
            part = slice(start, start + self._world.most_rows)
            self._episodes(start, params[part], seeds[part], total, length, ended, log)
        ends = np.where(ended, TERMINATED, self._late)
        out, first = list[Rollouts](), 0
        for trial, shape in zip(trials, shapes, strict=True):
            rows = slice(first, first + trial.seeds.size)
            recording = (
                BatchRecording(log, first, trial.seeds.size) if log and trial.is_recorded else None
            )
            returns, lengths = total[rows].reshape(shape), length[rows].reshape(shape)
            out.append(Rollouts(returns, lengths, ends[rows].reshape(shape), recording))
            first = rows.stop
        return out

    def _episodes(
        self,
        start: int,
        params: Floats,
        seeds: RolloutSeeds,
        total: Floats,
        length: NDArray[np.int64],
        ended: NDArray[np.bool_],
        log: list[tuple[NDArray[Any], ...]] | None,
    ) -> None:
        """Play one episode per seed and write the results into rows from `start`."""
        world, policy = self._world, self._policy
        rows = np.arange(start, start + len(seeds))  # output row of each active row
        alive = np.ones(len(seeds), bool)
        weights, obs = policy.weights(params), world.start(seeds)
        for step in range(1, self._limit + 1):
            action = policy.act(weights, obs)
            if self._clip:
                action = np.clip(action, self._task.action_low, self._task.action_high)
            moved: StepResult = world.step(action)
            total[rows] += np.where(alive, moved.reward, 0.0)
            if log is not None:
                facts = (rows, obs, action, moved.reward, moved.obs, moved.terminated)
                log.append(tuple(fact[alive] for fact in facts))
            obs = moved.obs
            finished = moved.terminated & alive
            if not finished.any():
                continue
            done = rows[finished]
            length[done], ended[done] = step, True
            alive &= ~finished
            left = np.flatnonzero(alive)
            if not len(left):
                return
            if len(left) < _COMPACT_BELOW * len(alive):
                world.keep(left)
                rows, obs, alive = rows[left], obs[left], alive[left]
                weights = tuple(weight[left] for weight in weights)
        length[rows[alive]] = self._limit
