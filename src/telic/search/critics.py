"""Who revises a candidate after watching it: by arithmetic on what was tried, or by a model."""

from __future__ import annotations

from typing import Protocol, cast

import numpy as np

from telic.llm import ModelAnswerError
from telic.search.history import Entry
from telic.search.language_model import Asker, objection
from telic.search.methods import Switches
from telic.search.policies import Space
from telic.search.proposers import PolicyDraft, PolicyProposal, TabularModel, View
from telic.search.rollouts import BatchRecording
from telic.search.task import Floats, SearchTask
from telic.search.writer import WatchedCandidate, Writer

_NEIGHBOURS = 3  # history points per parameter that a regression looks at
_RIDGE = 1e-2


class Critic(Protocol):
    """Makes a second candidate from the first one and its behaviour."""

    name: str
    needs_transitions: bool

    def revise(self, view: View, watched: WatchedCandidate) -> PolicyProposal:
        """Return the revision; no draft where the critic would change nothing."""
        ...

    def observe(self, recording: BatchRecording | None) -> None:
        """Learn from the steps of episodes."""
        ...


class TableCritic:
    """One step of policy iteration in the model learned from all steps; no language model."""

    name = "offline critic"
    needs_transitions = True

    def __init__(self, task: SearchTask) -> None:
        self._model = TabularModel(task)

    def revise(self, view: View, watched: WatchedCandidate) -> PolicyProposal:
        """Improve the table on the states that were visited."""
        before = watched.candidate.params
        after = tuple(self._model.improve(before).tolist())
        changed = [i for i, each in enumerate(after) if each != before[i]]
        if not changed or _is_good(watched):
            return PolicyProposal([])
        why = f"policy improvement in the learned model; changes states {changed}"
        return PolicyProposal([PolicyDraft(after, self.name, why)])

    def observe(self, recording: BatchRecording | None) -> None:
        """Count the steps."""
        assert recording is not None, "a table critic learns from steps"
        self._model.learn(recording)


class RidgeCritic:
    """A step up the slope that ridge regression finds among similar policies; no language model."""

    name = "offline critic"
    needs_transitions = False

    def __init__(self, task: SearchTask, space: Space) -> None:
        self._step, self._space = task.step_size, space

    def revise(self, view: View, watched: WatchedCandidate) -> PolicyProposal:
        """Step up the slope."""
        slope = _slope(np.array(watched.candidate.params), view.history.everything)
        if slope is None or _is_good(watched):
            return PolicyProposal([])
        step = self._step * slope / np.abs(slope).max()
        params = self._space.fit(np.array(watched.candidate.params) + step, is_rounded=False).params
        why = f"a step of at most {self._step:g} up the slope of similar policies' returns"
        return PolicyProposal([PolicyDraft(params, self.name, why)])

    def observe(self, recording: BatchRecording | None) -> None:
        """Learn nothing: the history knows."""


class ModelCritic:
    """A language model that reads what happened."""

    name = "critic"
    needs_transitions = False

    def __init__(self, asker: Asker, writer: Writer, switches: Switches) -> None:
        self._asker, self._writer, self._switches = asker, writer, switches

    def revise(self, view: View, watched: WatchedCandidate) -> PolicyProposal:
        """Ask for a revision."""
        prompt = self._writer.critic(view.history, watched)
        may_repeat = self._switches.allow_no_change
        refused = objection(view.history, watched.candidate, may_repeat=may_repeat)
        try:
            return self._asker.ask("critic", prompt, refused, self.name)
        except ModelAnswerError as error:
            note = f"no valid answer from the critic, so no revision: {str(error)[:300]}"
            return PolicyProposal([], note=note)

    def observe(self, recording: BatchRecording | None) -> None:
        """Learn nothing: it reads."""


def _is_good(watched: WatchedCandidate) -> bool:
    return watched.gate is not None and watched.candidate.mean >= watched.gate


def _slope(point: Floats, entries: list[Entry]) -> Floats | None:
    """Return the direction in which returns rise around a point; None when nothing is known."""
    points = np.array([entry.params for entry in entries])
    if len(points) <= len(point):
        return None
    means = np.array([entry.mean for entry in entries])
    near = np.argsort(np.square(points - point).sum(1))[: _NEIGHBOURS * len(point)]
    offsets, heights = points[near] - points[near].mean(0), means[near] - means[near].mean()
    if heights.std() == 0:
        return None
    # beta = (X'X + lambda I)^-1 X'y
    gram = offsets.T @ offsets
    gram += np.eye(len(point)) * (_RIDGE * np.trace(gram) / len(point) + 1e-9)
    slope = cast("Floats", np.linalg.solve(gram, offsets.T @ heights))
    return slope if np.abs(slope).max() > 0 else None
