"""A language model proposes; where its answers never become valid, a step of hill climbing does."""

from __future__ import annotations

from collections.abc import Mapping

from telic.llm import ModelAnswerError
from telic.search.answers import Answer, Objection
from telic.search.asking import Asker
from telic.search.history import History
from telic.search.policies import Policy
from telic.search.proposers.numeric import Climb, Stateless
from telic.search.proposers.proposer import Draft, Proposed, View
from telic.search.records import Candidate
from telic.search.rollouts import Trace
from telic.search.switches import Switches
from telic.search.writer import Prompt, Writer

Memories = Mapping[int, Trace]


def objection(
    history: History, first: Candidate | None = None, *, may_repeat: bool = False
) -> Objection:
    """Return who complains about a policy that was tried before."""

    def object_(params: tuple[float, ...]) -> str | None:
        if may_repeat:
            return None
        if history.holds(params) or (first is not None and params == first.params):
            return "this policy was tried before; propose another one"
        return None

    return object_


class Model(Stateless):
    """Asks for policies in one of two roles: search, or critic alone."""

    name = "llm"

    def __init__(self, asker: Asker, writer: Writer, policy: Policy, switches: Switches) -> None:
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

    def propose(self, view: View) -> Proposed:
        """Ask for new policies."""
        if self._switches.proposer == "none":
            prompt = self._writer.critic_only(
                view.history, view.iteration, view.iterations, self.last, self.memories
            )
            return self._ask("critic", prompt, view, objection(view.history), 1)
        prompt = self._writer.search(view.history, view.iteration, view.iterations, self.memories)
        return self._ask("search", prompt, view, objection(view.history), self._switches.candidates)

    def propose_again(self, view: View, first: Candidate) -> Proposed:
        """Ask a second time, with or without the result of the first."""
        known = first if self._switches.second_sees_first else None
        prompt = self._writer.search(
            view.history, view.iteration, view.iterations, self.memories, known
        )
        return self._ask("search", prompt, view, objection(view.history, first), 1, sample=1)

    def _ask(
        self, role: str, prompt: Prompt, view: View, refused: Objection, count: int, sample: int = 0
    ) -> Proposed:
        try:
            asked = self._asker.ask(role, prompt, refused, count=count, sample=sample)
        except ModelAnswerError as error:
            return self.fall_back(view, str(error))
        drafts = [self._draft(each) for each in asked.answers]
        return Proposed(drafts, (asked.call,))

    def fall_back(self, view: View, problem: str) -> Proposed:
        """Return a step of hill climbing instead, marked as such."""
        (draft,) = self._fallback.propose(view).drafts
        fitted = self._space.fit(draft.params).params
        note = f"no valid answer from the model, so a numeric step instead: {problem[:300]}"
        return Proposed([Draft(fitted, "fallback:climb")], note=note)

    def _draft(self, answer: Answer) -> Draft:
        fitted = self._space.fit(answer.params)
        return Draft(fitted.params, self.name, answer.explanation, fitted.warnings)
