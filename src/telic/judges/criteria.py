"""What an intent asks for, made measurable: the record that people read, edit and approve."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from telic.core.config import Record

Kind = Literal["sustained", "cumulative", "phased"]
Way = Literal["at_least", "at_most", "about"]


class Criterion(Record):
    """One measurable part of what was asked for."""

    title: str = Field(min_length=1, description="short and plain; the judge's leaf has the same")
    quantity: str = Field(description="what is measured, in words or names of quantities")
    kind: Kind = Field(
        default="sustained",
        description="held over time, added up over the episode, or the end of a phase",
    )
    direction: Way = Field(default="at_least", description="which side of the goal is right")
    zero: float | None = Field(
        default=None, description="value that earns nothing; None: only the judge's code says it"
    )
    goal: float | None = Field(
        default=None, description="value that earns everything; of `about`, the very value meant"
    )
    unit: str = ""
    weight: float = Field(default=1.0, ge=0, description="share in the score; 0 for a guard")
    is_guard: bool = Field(default=False, description="the whole score is multiplied by its credit")
    tag: str | None = Field(
        default=None, description="what went wrong when it is missed, in a word"
    )
