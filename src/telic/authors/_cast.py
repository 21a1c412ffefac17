"""The cast of a session: which model plays which role, its reasoning effort, and how it is asked.

    elicitor        makes the intent measurable    reviser   decides what to try next
    reward_author   writes the reward              vision    watches episodes
    judge_author    writes the judge               analyst   writes the analysis
    reviewer        looks for bugs and exploits

One model plays every role that no other was named for; all of them share one budget.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from telic import llm
from telic.authors._context import prompt_source, render, session_context
from telic.authors.author import Brief
from telic.authors.request import ROLES
from telic.core.config import Record
from telic.llm import Budget, Image, Models, Request, prompt_hash

Answer = TypeVar("Answer", bound=Record)
_SYSTEM = (
    "You are an expert in reinforcement learning and robotics. You write short, correct code, "
    "report what you see, and say plainly what you are unsure of."
)


class Cast:
    """The models of a session by role: `usual` plays every role without one of its own."""

    def __init__(
        self,
        usual: Models,
        others: Mapping[str, Models] | None = None,
        efforts: Mapping[str, Any] | None = None,
        context: str = "",
    ) -> None:
        self._usual, self._others, self._efforts = usual, others or {}, efforts or {}
        self._context = context

    def player(self, role: str) -> Models:
        """Return the model that plays a role."""
        return self._others.get(role, self._usual)

    def ask(
        self,
        prompt: str,
        answer: type[Answer],
        *,
        images: Sequence[Image] = (),
        sample: int = 0,
        **values: Any,
    ) -> Answer:
        """Return the answer to the prompt `<prompt>.md` filled in with values."""
        role = next(role for role in ROLES if prompt.startswith(role))
        request = Request(
            role=role,
            prompt=f"{self._context}\n{render(prompt, **values)}\n",
            system=_SYSTEM,
            images=tuple(images),
            answer=answer,
            effort=self._efforts.get(role),
            sample=sample,
            prompt_hash=prompt_hash(prompt_source(prompt)),
        )
        return self.player(role).ask(request).answer


def connect_cast(brief: Brief) -> Cast:
    """Connect to every model that a brief names, each once, with one budget for all.

    Raises UsageError, UnknownName or MissingExtra for a name without a model.
    """
    config = brief.config
    budget = Budget(usd=config.max_usd, calls=config.max_calls)
    known = {
        name: llm.connect(
            name,
            brief.folder.path,
            budget=budget,
            on_event=brief.emit,
            should_stop=brief.should_stop,
        )
        for name in dict.fromkeys((config.model, *config.model_for.values()))
    }
    others = {role: known[name] for role, name in config.model_for.items()}
    return Cast(known[config.model], others, config.effort_for, session_context(brief))
