"""A language model as proposer and as critic; without a valid answer a step of hill climbing."""

from __future__ import annotations

import numpy as np

from telic.llm import ModelAnswerError
from telic.search.answers import Asker, Objection, PolicyAnswer
from telic.search.critics import WatchedCandidate
from telic.search.history import History
from telic.search.methods import Switches
from telic.search.policies import PolicyFamily, Space
from telic.search.proposers import (
    Climb,
    Cma,
    HistoryProposer,
    PolicyDraft,
    PolicyProposal,
    Tabular,
    View,
)
from telic.search.records import Candidates, PolicyCandidate
from telic.search.rollouts import BatchRecording
from telic.search.writer import Memories, Prompt, Writer

_ASKED = ("llm", "fallback:climb")


class ModelProposer(HistoryProposer):
    """Asks for policies in one of two roles: search, or critic alone."""

    name = "llm"

    def __init__(
        self, asker: Asker, writer: Writer, policy: PolicyFamily, switches: Switches
    ) -> None:
        self._asker, self._writer, self._switches = asker, writer, switches
        self._space = policy.space
        self._fallback = Climb(policy, count=1)
        self.memories: Memories = {}
        """episodes of history entries, for prompts that show them"""
        self.last = ""
        """how the latest selected policy behaved, for the critic alone"""

    @property
    def at_once(self) -> int:
        """Return how many policies a call asks for."""
        return self._switches.candidates

    def propose(self, view: View) -> PolicyProposal:
        """Ask for new policies."""
        if self._switches.proposer == "none":
            prompt = self._writer.critic_only(
                view.history, view.iteration, view.iterations, self.last, self.memories
            )
            return self._ask("critic", prompt, view, objection(view.history), 1)
        prompt = self._writer.search(view.history, view.iteration, view.iterations, self.memories)
        return self._ask("search", prompt, view, objection(view.history), self._switches.candidates)

    def propose_again(self, view: View, first: PolicyCandidate) -> PolicyProposal:
        """Ask a second time, with or without the result of the first."""
        known = first if self._switches.second_sees_first else None
        prompt = self._writer.search(
            view.history, view.iteration, view.iterations, self.memories, known
        )
        return self._ask("search", prompt, view, objection(view.history, first), 1, sample=1)

    def _ask(
        self, role: str, prompt: Prompt, view: View, refused: Objection, count: int, sample: int = 0
    ) -> PolicyProposal:
        try:
            asked = self._asker.ask(role, prompt, refused, count=count, sample=sample)
        except ModelAnswerError as error:
            return self.fall_back(view, str(error))
        drafts = [self._draft(answer) for answer in asked.answers]
        return PolicyProposal(drafts, (asked.call,))

    def fall_back(self, view: View, problem: str) -> PolicyProposal:
        """Return a step of hill climbing instead, marked as such."""
        (draft,) = self._fallback.propose(view).drafts
        fitted = self._space.fit(draft.params).params
        note = f"no valid answer from the model, so a numeric step instead: {problem[:300]}"
        return PolicyProposal([PolicyDraft(fitted, "fallback:climb")], note=note)

    def _draft(self, answer: PolicyAnswer) -> PolicyDraft:
        fitted = self._space.fit(answer.params)
        return PolicyDraft(fitted.params, self.name, answer.explanation, fitted.warnings)


class Hybrid:
    """CMA-ES with the model's candidates injected; beside a learned model where it is a table."""

    name = "hybrid"

    def __init__(self, model: ModelProposer, numeric: Cma | Tabular) -> None:
        self.model, self._numeric = model, numeric
        self.needs_transitions = numeric.needs_transitions

    @property
    def at_once(self) -> int:
        """Return the size of the population, the model's candidates included."""
        own = self._numeric.at_once
        return own if isinstance(self._numeric, Cma) else own + self.model.at_once

    def propose(self, view: View) -> PolicyProposal:
        """Ask the model, then the optimiser; each candidate says who made it."""
        asked = self.model.propose(view)
        self._inject([np.array(draft.params) for draft in asked.drafts])
        own = self._numeric.propose(view).drafts
        count = len(asked.drafts) if isinstance(self._numeric, Cma) else 0
        return PolicyProposal([*asked.drafts, *own[count:]], asked.calls, asked.note)

    def observe(self, candidates: Candidates, recording: BatchRecording | None) -> None:
        """Let the optimiser learn from everybody's candidates."""
        self._numeric.observe(candidates, recording)

    def replay(self, view: View, candidates: Candidates, recording: BatchRecording | None) -> None:
        """Inject what the model said then."""
        self._inject(
            [np.array(candidate.params) for candidate in candidates if candidate.origin in _ASKED]
        )
        self._numeric.replay(view, candidates, recording)

    def _inject(self, points: list[np.ndarray]) -> None:
        if isinstance(self._numeric, Cma):
            self._numeric.inject(points)


class ModelCritic:
    """A language model that reads what happened."""

    name = "critic"
    needs_transitions = False

    def __init__(self, asker: Asker, writer: Writer, space: Space, switches: Switches) -> None:
        self._asker, self._writer, self._space, self._switches = asker, writer, space, switches

    def revise(self, view: View, watched: WatchedCandidate) -> PolicyProposal:
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
            return PolicyProposal([], note=note)
        (answer,) = asked.answers
        fitted = self._space.fit(answer.params)
        draft = PolicyDraft(fitted.params, self.name, answer.explanation, fitted.warnings)
        return PolicyProposal([draft], (asked.call,))

    def observe(self, recording: BatchRecording | None) -> None:
        """Learn nothing: it reads."""


def objection(
    history: History, first: PolicyCandidate | None = None, *, may_repeat: bool = False
) -> Objection:
    """Return who complains about a policy that was tried before."""

    def object_(params: tuple[float, ...]) -> str | None:
        if may_repeat:
            return None
        if history.holds(params) or (first is not None and params == first.params):
            return "this policy was tried before; propose another one"
        return None

    return object_
