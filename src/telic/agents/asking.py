"""Put a role's question to a model: its prompt is a Markdown file beside this one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from telic.core.config import Record
from telic.llm import Image, Models, Request, prompt_hash, render

Answer = TypeVar("Answer", bound=Record)

_PROMPTS = Path(__file__).parent / "prompts"
_SYSTEM = (
    "You are an expert in reinforcement learning and robotics. You write short, correct code and "
    "say plainly what you are unsure of."
)


def ask(
    models: Models,
    role: str,
    answer: type[Answer],
    values: dict[str, str],
    *,
    system: str = _SYSTEM,
    images: Sequence[Image] = (),
    sample: int = 0,
) -> Answer:
    """Return the answer to the prompt `<role>.md` filled in with values."""
    template = (_PROMPTS / f"{role}.md").read_text(encoding="utf-8")
    request = Request(
        role=role,
        prompt=render(template, **values),
        system=system,
        images=tuple(images),
        answer=answer,
        sample=sample,
        prompt_hash=prompt_hash(template),
    )
    return models.ask(request).answer
