"""Play episodes of many candidates, of many runs, in one batch."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from telic.search.policies import PolicyFamily
from telic.search.task import Floats, SearchTask, Seeds, StepResult, World

TERMINATED, TIME_LIMIT, CAP = "t", "l", "c"
_COMPACT_BELOW = 0.8  # share of rows still alive from which the dead ones are left out


class PolicyTrial(NamedTuple):
    """A wish to see how candidates do."""

    params: Floats  # (C, rank)
    seeds: Seeds  # (C, K)
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
    """How candidates did."""

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
        seeds: Seeds,
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
