"""A model of a small world, learned from every step taken, and the policy that is best in it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from telic.search.draws import Floats, generator
from telic.search.environments.task import Task
from telic.search.proposers.numeric import drafts
from telic.search.proposers.proposer import Proposed, View
from telic.search.records import Candidate
from telic.search.rollouts import Recording
from telic.search.space import Space

_SWEEPS = 500
_ENOUGH = 5  # visits after which a pair of state and action is believed
_TIE = 1e-7
_DISCOUNT = 0.9999  # so that a walk in circles is worth less than an end


class TabularModel:
    """Counts of what followed what."""

    def __init__(self, task: Task) -> None:
        assert task.states is not None, "the plan allows this for tables only"
        self._first = task.first_action
        self._enough = 1 if task.is_deterministic else _ENOUGH
        shape = (task.states, len(task.actions))
        self._visits = np.zeros(shape)
        self._rewards = np.zeros(shape)
        self._followed = np.zeros((*shape, task.states))
        self._most = 1.0  # largest return any of these tasks has

    def learn(self, recording: Recording) -> None:
        """Count the steps of episodes."""
        _, state, action, reward, following, terminated = recording.transitions
        action = action - self._first
        # A table may name an action the task does not have.
        fine = (action >= 0) & (action < self._visits.shape[1])
        state, action, reward = state[fine], action[fine], reward[fine]
        following, goes_on = following[fine], ~terminated[fine]
        np.add.at(self._visits, (state, action), 1.0)
        np.add.at(self._rewards, (state, action), reward)
        np.add.at(self._followed, (state[goes_on], action[goes_on], following[goes_on]), 1.0)

    def best_table(self, rng: np.random.Generator) -> Floats:
        """Return the best action per state; what was hardly tried counts as perfect."""
        worth = self._worth(np.zeros(len(self._visits)), unknown=self._most)
        for _ in range(_SWEEPS):
            before, worth = worth, self._worth(worth.max(1), unknown=self._most)
            if np.abs(worth - before).max() < 1e-9:
                break
        # Equal actions are told apart by chance, so that runs do not all walk the same way.
        worth = worth + rng.uniform(0.0, _TIE, worth.shape)
        return worth.argmax(1).astype(np.float64) + self._first

    def improve(self, params: tuple[float, ...]) -> Floats:
        """Return the table after one step of policy iteration on the states that were visited."""
        table = np.array(params, dtype=np.int64) - self._first
        value = np.zeros(len(self._visits))
        states = np.arange(len(value))
        for _ in range(_SWEEPS):
            following = self._worth(value, unknown=0.0)[states, table]
            if np.abs(following - value).max() < 1e-9:
                break
            value = following
        worth = self._worth(value, unknown=-np.inf)
        seen = self._visits.sum(1) > 0
        better = worth.max(1) > worth[states, table] + 1e-9
        table = np.where(seen & better, worth.argmax(1), table)
        return table.astype(np.float64) + self._first

    def _worth(self, value: Floats, unknown: float) -> Floats:
        """Return Q(s, a) = mean reward + sum_s' P(s' | s, a) V(s'), (states, actions)."""
        known = self._visits >= self._enough
        count = np.maximum(self._visits, 1.0)
        worth = (self._rewards + _DISCOUNT * (self._followed @ value)) / count
        return np.where(known, worth, unknown)


class Tabular:
    """Proposes the table that is best in the model learned so far."""

    name = "tabular"
    at_once = 1
    needs_transitions = True

    def __init__(self, task: Task, space: Space) -> None:
        self._model, self._space = TabularModel(task), space

    def propose(self, view: View) -> Proposed:
        """Solve the model."""
        rng = generator(view.seed, self.name, view.iteration)
        return Proposed(drafts(self._space, [self._model.best_table(rng)], self.name))

    def observe(self, candidates: Sequence[Candidate], recording: Recording | None) -> None:
        """Count."""
        assert recording is not None, "a tabular model learns from steps"
        self._model.learn(recording)

    def replay(
        self, view: View, candidates: Sequence[Candidate], recording: Recording | None
    ) -> None:
        """Count the same steps again."""
        self.observe(candidates, recording)
