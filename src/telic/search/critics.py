"""Who revises a candidate after watching it: a model, or arithmetic on what was tried."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from telic.llm import ModelAnswerError
from telic.search.asking import Asker
from telic.search.draws import Floats
from telic.search.environments.task import Task
from telic.search.history import Entry
from telic.search.proposers.model import Memories, objection
from telic.search.proposers.proposer import Draft, Proposed, View
from telic.search.proposers.tabular import TabularModel
from telic.search.records import Candidate
from telic.search.rollouts import Recording
from telic.search.space import Space
from telic.search.switches import Switches
from telic.search.writer import Writer

_NEIGHBOURS = 3  # history points per parameter that a regression looks at
_RIDGE = 1e-2


class Watched(NamedTuple):
    """A candidate, how it behaved, and from where on it should be left alone."""

    candidate: Candidate
    evidence: str
    gate: float | None
    memories: Memories


class Critic(Protocol):
    """Makes a second candidate from the first one and its behaviour."""

    name: str
    needs_transitions: bool

    def revise(self, view: View, watched: Watched) -> Proposed:
        """Return the revision; no draft where the critic would change nothing."""
        ...

    def observe(self, recording: Recording | None) -> None:
        """Learn from the steps of episodes."""
        ...


class ModelCritic:
    """A language model that reads what happened."""

    name = "critic"
    needs_transitions = False

    def __init__(self, asker: Asker, writer: Writer, space: Space, switches: Switches) -> None:
        self._asker, self._writer, self._space, self._switches = asker, writer, space, switches

    def revise(self, view: View, watched: Watched) -> Proposed:
        """Ask for a revision."""
        prompt = self._writer.critic(
            view.history, watched.candidate, watched.evidence, watched.gate, watched.memories
        )
        may_repeat = self._switches.allow_no_change
        refused = objection(view.history, watched.candidate, may_repeat=may_repeat)
        try:
            asked = self._asker.ask("critic", prompt, refused)
        except ModelAnswerError as error:
            note = f"no valid answer from the critic, so no revision: {str(error)[:300]}"
            return Proposed([], note=note)
        (answer,) = asked.answers
        fitted = self._space.fit(answer.params)
        draft = Draft(fitted.params, self.name, answer.explanation, fitted.warnings)
        return Proposed([draft], (asked.call,))

    def observe(self, recording: Recording | None) -> None:
        """Learn nothing: it reads."""


class TableCritic:
    """One step of policy iteration in the model learned from all steps; no language model."""

    name = "offline critic"
    needs_transitions = True

    def __init__(self, task: Task) -> None:
        self._model = TabularModel(task)

    def revise(self, view: View, watched: Watched) -> Proposed:
        """Improve the table on the states that were visited."""
        before = watched.candidate.params
        after = tuple(self._model.improve(before).tolist())
        changed = [i for i, each in enumerate(after) if each != before[i]]
        if not changed or _is_good(watched):
            return Proposed([])
        why = f"policy improvement in the learned model; changes states {changed}"
        return Proposed([Draft(after, self.name, why)])

    def observe(self, recording: Recording | None) -> None:
        """Count the steps."""
        assert recording is not None, "a table critic learns from steps"
        self._model.learn(recording)


class RidgeCritic:
    """A step up the slope that ridge regression finds among similar policies; no language model."""

    name = "offline critic"
    needs_transitions = False

    def __init__(self, task: Task, space: Space) -> None:
        self._step, self._space = task.step_size, space

    def revise(self, view: View, watched: Watched) -> Proposed:
        """Step up the slope."""
        slope = _slope(np.array(watched.candidate.params), view.history.everything)
        if slope is None or _is_good(watched):
            return Proposed([])
        step = self._step * slope / np.abs(slope).max()
        params = self._space.fit(np.array(watched.candidate.params) + step, is_rounded=False).params
        why = f"a step of at most {self._step:g} up the slope of similar policies' returns"
        return Proposed([Draft(params, self.name, why)])

    def observe(self, recording: Recording | None) -> None:
        """Learn nothing: the history knows."""


def _is_good(watched: Watched) -> bool:
    return watched.gate is not None and watched.candidate.mean >= watched.gate


def _slope(point: Floats, entries: list[Entry]) -> Floats | None:
    """Return the direction in which returns rise around a point; None when nothing is known."""
    points = np.array([each.params for each in entries])
    if len(points) <= len(point):
        return None
    means = np.array([each.mean for each in entries])
    near = np.argsort(np.square(points - point).sum(1))[: _NEIGHBOURS * len(point)]
    offsets, heights = points[near] - points[near].mean(0), means[near] - means[near].mean()
    if heights.std() == 0:
        return None
    # beta = (X'X + lambda I)^-1 X'y
    gram = offsets.T @ offsets
    gram += np.eye(len(point)) * (_RIDGE * np.trace(gram) / len(point) + 1e-9)
    slope = np.linalg.solve(gram, offsets.T @ heights)
    return slope if np.abs(slope).max() > 0 else None
