"""The cast of a session: which model plays which role, its reasoning effort, and how it is asked.

    reader      makes the intent measurable         reviser   decides what to try next
    reward      writes the reward                   vision    watches episodes
    judge       writes the judge                    analyst   writes the analysis
    reviewer    looks for bugs and exploits

One model plays every role that no other was named for; all of them share one budget.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar, cast, get_args

from telic.core.config import Record
from telic.errors import UnknownName
from telic.llm import Effort, Image, Models, Request, prompt_hash, render

if TYPE_CHECKING:
    from telic.authors.author import Brief

Answer = TypeVar("Answer", bound=Record)
Role = Literal["reader", "reward", "judge", "reviewer", "reviser", "vision", "analyst"]
_ROLE_OF: Mapping[str, Role] = {
    "elicitor": "reader",
    "reward_author": "reward",
    "judge_author": "judge",
    "reviewer": "reviewer",
    "reviser": "reviser",
    "vision_criteria": "vision",
    "vision_judge": "vision",
    "vision_again": "vision",
    "analyst": "analyst",
}
"""the role of each prompt"""
_PROMPTS = Path(__file__).parent / "prompts"
_SYSTEM = (
    "You are an expert in reinforcement learning and robotics. You write short, correct code and "
    "say plainly what you are unsure of."
)


class Cast:
    """The models of a session by role.

    Args:
        usual: plays every role that has no model of its own.
        others: models of single roles.
        efforts: reasoning effort in single roles; where none is named, the model decides.
    """

    def __init__(
        self,
        usual: Models,
        others: Mapping[Role, Models] | None = None,
        efforts: Mapping[Role, Effort] | None = None,
    ) -> None:
        self._usual, self._others, self._efforts = usual, others or {}, efforts or {}

    def player(self, prompt: str) -> Models:
        """Return the model that answers a prompt."""
        return self._others.get(_ROLE_OF[prompt], self._usual)

    def ask(
        self,
        prompt: str,
        answer: type[Answer],
        values: Mapping[str, str],
        *,
        system: str = _SYSTEM,
        images: Sequence[Image] = (),
        sample: int = 0,
    ) -> Answer:
        """Return the answer to the prompt `<prompt>.md` filled in with values."""
        template = (_PROMPTS / f"{prompt}.md").read_text(encoding="utf-8")
        request = Request(
            role=prompt,
            prompt=render(template, **values),
            system=system,
            images=tuple(images),
            answer=answer,
            effort=self._efforts.get(_ROLE_OF[prompt]),
            sample=sample,
            prompt_hash=prompt_hash(template),
        )
        return self.player(prompt).ask(request).answer


def connect_cast(brief: Brief) -> Cast:
    """Connect to every model that a brief names, each once, with one budget for all.

    Raises UsageError, UnknownName or MissingExtra for a name without a model.
    """
    from telic.llm import Budget, connect

    config = brief.config
    budget = Budget(usd=config.max_usd, calls=config.max_calls)
    known = {
        name: connect(
            name,
            brief.folder.path,
            budget=budget,
            on_event=brief.emit,
            should_stop=brief.should_stop,
        )
        for name in dict.fromkeys((config.model, *config.model_for.values()))
    }
    others = {cast("Role", role): known[name] for role, name in config.model_for.items()}
    efforts = cast("Mapping[Role, Effort]", config.effort_for)
    return Cast(known[config.model], others, efforts)


def check_role(name: str) -> None:
    """Raise UnknownName with the closest role if there is none of that name."""
    if name not in get_args(Role):
        raise UnknownName("role", name, list(get_args(Role)))


def check_effort(name: str) -> None:
    """Raise UnknownName with the closest reasoning effort if there is none of that name."""
    if name not in get_args(Effort):
        raise UnknownName("reasoning effort", name, list(get_args(Effort)))
