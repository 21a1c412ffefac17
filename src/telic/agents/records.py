"""What the authors answer."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from telic.core.config import Record


class ElicitedCriterion(Record):
    """One measurable part of an intent."""

    title: str = Field(min_length=1, description="short and plain, no variables")
    quantity: str = Field(description="the quantity it rests on, or how it is computed")
    goal: str = Field(description="number, unit and direction, e.g. at least 3 m/s on average")
    kind: Literal["sustained", "cumulative", "phased"]
    weight: float = Field(default=1.0, gt=0)


class Elicited(Record):
    """An intent made measurable."""

    criteria: tuple[ElicitedCriterion, ...] = Field(min_length=1, max_length=10)
    seconds: float = Field(ge=0.5, le=60, description="length of an episode")
    ends_when_it_falls: bool = Field(default=True)
    ambiguous: tuple[str, ...] = Field(default=(), description="what is open, and what was taken")


class WrittenReward(Record):
    """A reward file."""

    reasoning: str = Field(description="what an optimiser would do with it, in a few sentences")
    source: str = Field(description="the whole Python file")
    steps: int = Field(ge=10_000, le=20_000_000, description="environment steps per policy")


class WrittenJudge(Record):
    """A judge file."""

    reasoning: str = Field(description="how look-alikes are ruled out, in a few sentences")
    source: str = Field(description="the whole Python file")
