"""Proposers that query a language model for policies, and the parser for model answers.

Answers are validated strictly. An invalid answer is returned to the model with a precise error. If
all attempts are invalid, a hill-climbing step replaces the answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from pydantic import Field, field_validator

from telic.core.config import Record
from telic.core.text import is_row
from telic.llm import ModelAnswerError, Models, Request
from telic.search._writer import SYSTEM, Memories, Prompt, WatchedCandidate, Writer
from telic.search.config import MethodSettings
from telic.search.plan import SearchPlan
from telic.search.policies import Space
from telic.search.proposers import (
    Climb,
    Cma,
    PolicyDraft,
    PolicyProposal,
    Proposer,
    SearchView,
    Tabular,
)
from telic.search.records import Candidates, History, ModelQuestion, PolicyCandidate
from telic.search.task import BatchRecording

Numbers = tuple[float, ...]
Objection = Callable[[Numbers], str | None]

_LISTED = 6
_ASKED = ("llm", "fallback:climb")


class ModelProposer(Proposer):
    """Query a language model for policies, either as the searcher or only as a critic."""

    name = "llm"

    def __init__(self, asker: PolicyRequester, writer: Writer, plan: SearchPlan, seed: int) -> None:
        super().__init__(plan.task, plan.policy, seed)
        self._asker, self._writer, self._switches = asker, writer, plan.switches
        self.at_once = plan.switches.candidates
        self._fallback = Climb(plan.task, plan.policy, seed, count=1)
        self.memories: Memories = {}
        """episodes of history entries, for prompts that include them"""
        self.last = ""
        """behavior of the latest selected policy, for the critic-only method"""

    def propose(self, view: SearchView) -> PolicyProposal:
        """Query the model for new policies."""
        if self._switches.proposer == "none":
            prompt = self._writer.critic_only(view, self.last, self.memories)
            return self._ask("critic", prompt, view, objection(view.history), 1)
        prompt = self._writer.search(view, self.memories)
        return self._ask("search", prompt, view, objection(view.history), self._switches.candidates)

    def replay(
        self, view: SearchView, candidates: Candidates, recording: BatchRecording | None
    ) -> None:
        """Do nothing, because the history contains all required state."""

    def propose_again(self, view: SearchView, first: PolicyCandidate) -> PolicyProposal:
        """Query the model again, with or without the result of the first candidate."""
        known = first if self._switches.second_sees_first else None
        prompt = self._writer.search(view, self.memories, known)
        return self._ask("search", prompt, view, objection(view.history, first), 1, sample=1)

    def _ask(
        self,
        role: str,
        prompt: Prompt,
        view: SearchView,
        refused: Objection,
        count: int,
        sample: int = 0,
    ) -> PolicyProposal:
        try:
            return self._asker.ask(role, prompt, refused, self.name, count=count, sample=sample)
        except ModelAnswerError as error:
            (draft,) = self._fallback.propose(view).drafts
            fitted = self._space.fit(draft.params).params
            note = f"no valid answer from the model; used a numeric step: {str(error)[:300]}"
            return PolicyProposal([PolicyDraft(fitted, "fallback:climb")], note=note)


class ModelCritic:
    """Critic that asks a language model to revise policies based on recorded behavior."""

    name = "critic"

    def __init__(self, asker: PolicyRequester, writer: Writer, switches: MethodSettings) -> None:
        self._asker, self._writer, self._switches = asker, writer, switches

    def revise(self, view: SearchView, watched: WatchedCandidate) -> PolicyProposal:
        """Query the model for a revision."""
        prompt = self._writer.critic(view.history, watched)
        may_repeat = self._switches.allow_no_change
        refused = objection(view.history, watched.candidate, may_repeat=may_repeat)
        try:
            return self._asker.ask("critic", prompt, refused, self.name)
        except ModelAnswerError as error:
            note = f"no valid answer from the critic; no revision: {str(error)[:300]}"
            return PolicyProposal([], note=note)


class Hybrid(Proposer):
    """CMA-ES with injected candidates of a model, or a tabular method for table policies."""

    name = "hybrid"

    def __init__(self, model: ModelProposer, numeric: Cma | Tabular) -> None:
        self.model, self._numeric = model, numeric
        self.needs_transitions = numeric.needs_transitions

    @property
    def at_once(self) -> int:  # pyrefly: ignore[bad-override]
        """Return the population size, including candidates of the model."""
        own = self._numeric.at_once
        return own if isinstance(self._numeric, Cma) else own + self.model.at_once

    def propose(self, view: SearchView) -> PolicyProposal:
        """Query the model, then the optimizer. Each candidate records its origin."""
        asked = self.model.propose(view)
        self._inject([draft.params for draft in asked.drafts])
        own = self._numeric.propose(view).drafts
        count = len(asked.drafts) if isinstance(self._numeric, Cma) else 0
        return PolicyProposal([*asked.drafts, *own[count:]], asked.calls, asked.note)

    def observe(self, candidates: Candidates, recording: BatchRecording | None) -> None:
        """Update the optimizer with all candidates."""
        self._numeric.observe(candidates, recording)

    def replay(
        self, view: SearchView, candidates: Candidates, recording: BatchRecording | None
    ) -> None:
        """Inject the model's stored candidates and replay the optimizer."""
        self._inject([candidate.params for candidate in candidates if candidate.origin in _ASKED])
        self._numeric.replay(view, candidates, recording)

    def _inject(self, policies: list[Numbers]) -> None:
        if isinstance(self._numeric, Cma):
            self._numeric.inject([np.array(params) for params in policies])


class PolicyRequester:
    """Request policies from a language model for one run."""

    def __init__(self, models: Models, plan: SearchPlan, run: int) -> None:
        self._models, self._space, self._run = models, plan.policy.space, run
        self._temperature = plan.switches.temperature
        self.model = models.provider.name

    def ask(
        self,
        role: str,
        prompt: Prompt,
        refused: Objection,
        origin: str,
        *,
        count: int = 1,
        sample: int = 0,
    ) -> PolicyProposal:
        """Return `count` valid policies, or raise ModelAnswerError if all attempts are invalid.

        Identical requests of different runs receive separate answers, because `sample` differs.
        """
        request = Request(
            role=role,
            prompt=prompt.text,
            system=SYSTEM,
            answer=answer_record(self._space, refused, count),
            prompt_hash=prompt.version,
            sample=2 * self._run + sample,
            temperature=self._temperature,
        )
        reply = self._models.ask(request)
        call = ModelQuestion(
            role=role,
            key=request.key(self.model),
            model=reply.model,
            input_tokens=reply.tokens.input,
            output_tokens=reply.tokens.output,
            price_usd=reply.price_usd,
            seconds=round(reply.latency_s, 3),
            attempts=reply.attempts,
        )
        answer: Any = reply.answer
        drafts: list[PolicyDraft] = []
        for policy in [answer] if count == 1 else answer.candidates:
            fitted = self._space.fit(policy.params)
            drafts.append(PolicyDraft(fitted.params, origin, policy.explanation, fitted.warnings))
        return PolicyProposal(drafts, (call,))


def objection(
    history: History, first: PolicyCandidate | None = None, *, may_repeat: bool = False
) -> Objection:
    """Return a validator that rejects policies that were tried before."""

    def object_(params: tuple[float, ...]) -> str | None:
        is_old = history.holds(params) or (first is not None and params == first.params)
        is_refused = is_old and not may_repeat
        return "this policy was already evaluated; propose a different one" if is_refused else None

    return object_


def _read_numbers(value: Any, space: Space) -> Numbers:
    """Parse the parameters in an answer, or raise ValueError with a precise message."""
    if not is_row(value) or len(value) != space.rank:
        got = f"got {len(value)}" if is_row(value) else f"not {type(value).__name__}"
        raise ValueError(f"expected {space.rank} numbers, {got}")

    def is_allowed(item: Any) -> bool:
        is_number = isinstance(item, int | float) and not isinstance(item, bool)
        is_choice = space.choices is None or item in space.choices
        return is_number and math.isfinite(item) and is_choice

    wrong = [f"params[{i}] is {item!r:.40}" for i, item in enumerate(value) if not is_allowed(item)]
    if wrong:
        allowed = f"one of {list(space.choices)}" if space.choices else "a finite number"
        more = f" and {len(wrong) - _LISTED} more" if len(wrong) > _LISTED else ""
        raise ValueError(f"{', '.join(wrong[:_LISTED])}{more}: each must be {allowed}")
    return tuple(map(float, value))


def answer_record(space: Space, objection: Objection, count: int = 1) -> type[Record]:
    """Return the record type of an answer with `count` policies."""
    text = f"{space.rank} numbers, in order, each "
    if space.choices:
        text += f"one of {list(space.choices)}"
    else:
        text += f"in [{space.low:g}, {space.high:g}] with at most {space.decimals} decimals"

    class Proposal(Record):
        """A policy, and why."""

        params: tuple[float, ...] = Field(
            description=text, json_schema_extra={"minItems": space.rank, "maxItems": space.rank}
        )
        explanation: str = Field(description="why, in one to three sentences")

        @field_validator("params", mode="before")
        @classmethod
        def _read(cls, value: Any) -> Numbers:
            numbers = _read_numbers(value, space)
            if problem := objection(space.fit(numbers).params):
                raise ValueError(problem)
            return numbers

    if count == 1:
        return Proposal

    class Proposals(Record):
        """Several policies."""

        candidates: tuple[Proposal, ...] = Field(min_length=count, max_length=count)

    return Proposals
