"""The cast of a session: which model plays which role, how hard it thinks, and how it is asked.

    reader      makes the intent measurable         reviser   decides what to try next
    reward      writes the reward                   vision    watches episodes
    judge       writes the judge                    analyst   sums up
    reviewer    looks for bugs and exploits

One model plays every role that no other was named for; all of them spend from one budget.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar, get_args

from telic.core.config import Record
from telic.errors import UnknownName
from telic.llm import Effort, Image, Models, Request, prompt_hash, render

if TYPE_CHECKING:
    from telic.authors.author import Brief

Answer = TypeVar("Answer", bound=Record)
Option = TypeVar("Option", bound=str)
Role = Literal["reader", "reward", "judge", "reviewer", "reviser", "vision", "analyst"]
ROLES: tuple[Role, ...] = get_args(Role)
EFFORTS: tuple[Effort, ...] = get_args(Effort)
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
"""the role behind each prompt"""
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
        efforts: how hard to think in single roles; where none is named, the model decides.
    """

    def __init__(
        self,
        usual: Models,
        others: Mapping[Role, Models] | None = None,
        efforts: Mapping[Role, Effort] | None = None,
    ) -> None:
        self._usual = usual
        self._others: Mapping[Role, Models] = others or {}
        self._efforts: Mapping[Role, Effort] = efforts or {}

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

    Raises UsageError, UnknownName or MissingExtra for a name that leads to no model.
    """
    from telic.llm import Budget, connect

    budget = Budget(usd=brief.config.max_usd, calls=brief.config.max_calls)
    known: dict[str | None, Models] = {}
    for name in (brief.config.model, *brief.config.model_for.values()):
        if name not in known:
            known[name] = connect(
                name,
                brief.folder.path,
                budget=budget,
                on_event=brief.emit,
                should_stop=brief.should_stop,
            )
    others: dict[Role, Models] = {
        check_role(role): known[name] for role, name in brief.config.model_for.items()
    }
    efforts: dict[Role, Effort] = {
        check_role(role): check_effort(effort) for role, effort in brief.config.effort_for.items()
    }
    return Cast(known[brief.config.model], others, efforts)


def check_role(name: str) -> Role:
    """Return the role of that name; raises UnknownName with the closest."""
    return _known(name, "role", ROLES)


def check_effort(name: str) -> Effort:
    """Return the effort of that name; raises UnknownName with the closest."""
    return _known(name, "thinking effort", EFFORTS)


def _known(name: str, what: str, options: tuple[Option, ...]) -> Option:
    for option in options:
        if option == name:
            return option
    raise UnknownName(what, name, list(options))
