"""Tasks of policy search: settings, random numbers, and episodes played in one batch.

Random numbers are pure functions of (seed, place), alone or in any batch.
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
    """Return `count` seeds of rollouts that belong to one root seed."""
    return _mix(np.full(count, root, np.uint64) * _GOLDEN, np.arange(count, dtype=np.uint64))


def uniform(seeds: RolloutSeeds, size: int) -> Floats:
    """Return numbers in [0, 1), shape (N, size); the same for a seed in any batch."""
    place = np.arange(1, size + 1, dtype=np.uint64)
    bits = _mix(seeds[:, None], place[None, :])
    # 53 bits, as a float64 mantissa holds
    return (bits >> np.uint64(11)).astype(np.float64) * (1.0 / 9007199254740992.0)


def generator(*path: int | str) -> np.random.Generator:
    """Return a generator for a path of names, e.g. (seed, "propose", 3)."""
    return np.random.default_rng(derive(*path))


def _mix(state: RolloutSeeds, place: RolloutSeeds) -> RolloutSeeds:
    """Mix two 64-bit numbers (the finaliser of SplitMix64: Steele, Lea, Flood, 2014)."""
    x = state + (place + np.uint64(1)) * _GOLDEN
    x = (x ^ (x >> np.uint64(30))) * _FIRST
    x = (x ^ (x >> np.uint64(27))) * _SECOND
    return x ^ (x >> np.uint64(31))


class _ObservedNumber(NamedTuple):
    """One number a policy sees, and the range that matters, for scaling."""

    name: str
    centre: float
    half_range: float


class SearchTask(Record):
    """A task and everything about it that holds for every method."""

    id: str
    story: str
    """what happens, in words for a person or a model"""
    rewards: str
    """how it is rewarded and when it ends, in words"""
    observations: tuple[_ObservedNumber, ...] = ()
    """what a policy sees; empty where it sees one of `states`"""
    states: int | None = None
    """number of states, where a policy is a table"""
    actions: tuple[str, ...]
    """choices, or components of a continuous action"""
    first_action: int = 0
    """number of the first choice"""
    action_low: float | None = None
    """lower end of each component; None where actions are choices"""
    action_high: float | None = None
    time_limit: int
    """steps after which an episode ends"""
    cap: int | None = None
    """steps after which search cuts an episode, where its own limit is needlessly long"""
    target: float
    """return stated to a model as the goal"""
    good: float
    """return from which a policy is left alone or nearly so (the threshold of the gate)"""
    solved: float
    """return from which one episode counts as a success"""
    step_size: float = 1.0
    """largest change of a number that a revision should make"""
    warmup: int = 20
    """random policies tried, one episode each, before a model is asked"""
    rollouts: int = 5
    """episodes per candidate that suffice for a numeric proposer"""
    is_deterministic: bool = False
    """whether every episode of a policy is the same"""
    excerpts: int = 5
    """entries of the history that carried an excerpt in the published runs, where any did"""
    edit_levels: tuple[float, float, float] = Field(default=(0.05, 0.4, 0.9))
    """shares of the way from the worst to the target: near zero, partial, high; for analysis"""
    worst: float = 0.0
    """return of a policy that achieves nothing"""

    @property
    def is_continuous(self) -> bool:
        """Return whether actions are continuous."""
        return self.action_low is not None

    @property
    def is_table(self) -> bool:
        """Return whether a policy is one action per state."""
        return self.states is not None

    @property
    def choices(self) -> tuple[int, ...]:
        """The numbers of the choices."""
        return tuple(range(self.first_action, self.first_action + len(self.actions)))


class StepResult(NamedTuple):
    """Result of one step in N episodes."""

    obs: NDArray[Any]  # (N, quantities) float32, or (N,) int64 states
    reward: Floats  # (N,)
    terminated: Flags  # (N,)


class World(Protocol):
    """N episodes of a task, stepped together; no autoreset, and rows that ended can be left out."""

    most_rows: int
    """episodes that one world should hold at most"""

    def start(self, seeds: RolloutSeeds) -> NDArray[Any]:
        """Begin one episode per seed and return what is seen first."""
        ...

    def step(self, action: NDArray[Any]) -> StepResult:
        """Make one step everywhere: actions (N,) int64, or (N, components) float64."""
        ...

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Keep these rows only."""
        ...


TERMINATED, TIME_LIMIT, CAP = "t", "l", "c"
_COMPACT_BELOW = 0.8  # share of rows still alive from which the dead ones are left out


class PolicyTrial(NamedTuple):
    """A request for episodes of candidates."""

    params: Floats  # (C, rank)
    seeds: RolloutSeeds  # (C, K)
    is_recorded: bool = False


class Trace(NamedTuple):
    """One episode, step by step."""

    obs: NDArray[Any]  # (T, quantities) or (T,)
    action: NDArray[Any]  # (T,) or (T, components)
    reward: Floats  # (T,)
    next_obs: NDArray[Any]
    end: str


class BatchRecording:
    """Everything that happened in a batch, in the order of time."""

    def __init__(self, steps: list[tuple[NDArray[Any], ...]], first: int, count: int) -> None:
        """Look at the rows `first` to `first + count` of a batch."""
        self._steps, self._first, self._count = steps, first, count

    @cached_property
    def transitions(self) -> tuple[NDArray[Any], ...]:
        """Return row, obs, action, reward, next_obs, terminated of every step taken."""
        parts = [np.concatenate(column) for column in zip(*self._steps, strict=True)]
        mine = (parts[0] >= self._first) & (parts[0] < self._first + self._count)
        return (parts[0][mine] - self._first, *(part[mine] for part in parts[1:]))

    def trace(self, row: int, end: str) -> Trace:
        """Return one episode."""
        rows, *parts = self.transitions
        obs, action, reward, next_obs, _ = (part[rows == row] for part in parts)
        return Trace(obs, action, reward, next_obs, end)


class Rollouts(NamedTuple):
    """Results of candidates."""

    returns: Floats  # (C, K)
    lengths: NDArray[np.int64]  # (C, K)
    ends: NDArray[np.str_]  # (C, K) "t" terminated, "l" time limit, "c" a shorter cap
    recording: BatchRecording | None

    def trace(self, candidate: int, rollout: int) -> Trace:
        """Return one recorded episode."""
        assert self.recording is not None, "the trial was not recorded"
        row = candidate * self.returns.shape[1] + rollout
        return self.recording.trace(row, str(self.ends[candidate, rollout]))


class Player:
    """Plays trials; the numbers of a rollout depend on its parameters and its seed alone."""

    def __init__(
        self, task: SearchTask, world: World, policy: PolicyFamily, *, cap: int | None, clips: bool
    ) -> None:
        """Play episodes of a task.

        Args:
            task: what is played.
            world: where it is played.
            policy: the family the parameters belong to.
            cap: steps after which an episode is cut, if sooner than the task's own limit.
            clips: whether continuous actions are cut to their range before they are used.
        """
        self._task, self._world, self._policy = task, world, policy
        self._limit = task.time_limit if cap is None else min(cap, task.time_limit)
        self._late = TIME_LIMIT if self._limit == task.time_limit else CAP
        self._clip = clips and task.is_continuous

    def play(self, trials: list[PolicyTrial]) -> list[Rollouts]:
        """Return the results of several trials, played together."""
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
        """Play one episode per seed and write what came of it into rows from `start` on."""
        world, policy = self._world, self._policy
        rows = np.arange(start, start + len(seeds))  # where each present row is written to
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
