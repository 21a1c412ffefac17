"""Models and reasoning efforts assigned to the roles of a session.

    elicitor        makes the intent measurable    reviser   proposes the next candidate
    reward_author   writes the reward              vision    watches episodes
    judge_author    writes the judge               analyst   writes the analysis
    reviewer        looks for bugs and exploits

Roles without a separate model use the default model. All models share one budget.
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
    "report only what you observe, and clearly state what you are unsure about."
)
_BRIEFED, _MORE = ("vision", "analyst"), "\n# "
"""roles that need the first part of the context only, and the beginning of its second part"""


class RoleModels:
    """Models of a session by role. Roles that are not in `others` use the model `usual`."""

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
        """Return the model assigned to a role."""
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
        """Render the prompt template `<prompt>.md` with values, and return the model's answer."""
        role = next(role for role in ROLES if prompt.startswith(role))
        context = self._context.partition(_MORE)[0] if role in _BRIEFED else self._context
        request = Request(
            role=role,
            prompt=f"{context.strip()}\n\n{render(prompt, **values)}\n",
            system=_SYSTEM,
            images=tuple(images),
            answer=answer,
            effort=self._efforts.get(role),
            sample=sample,
            prompt_hash=prompt_hash(prompt_source(prompt)),
        )
        return self.player(role).ask(request).answer


def connect_models(brief: Brief) -> RoleModels:
    """Connect to each distinct model of a brief, with one shared budget.

    Raises UsageError, UnknownName or MissingExtra if a model name cannot be resolved.
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
    return RoleModels(known[config.model], others, config.effort_for, session_context(brief))
