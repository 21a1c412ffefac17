"""The plan of a probe: move one parameter of the world at a time and see how far a policy holds."""

from __future__ import annotations

import math
from typing import Literal, Self

from pydantic import Field, model_validator

from telic.studies.documents.base import Document, Part
from telic.studies.errors import StudyError

_GRID = 7


class ProbedParameter(Part):
    """A parameter that is moved while the others stay."""

    path: str
    unit: str = ""
    nominal: float
    grid: tuple[float, ...] = Field(min_length=5)
    scale: Literal["linear", "log"] = "linear"
    hard_limits: tuple[float, float] | None = None

    @model_validator(mode="after")
    def _check_grid(self) -> Self:
        if list(self.grid) != sorted(set(self.grid)):
            raise ValueError(f"the grid of {self.path} must rise")
        if self.nominal not in self.grid:
            raise ValueError(f"the grid of {self.path} lacks its nominal value {self.nominal:g}")
        if self.scale == "log" and self.grid[0] <= 0:
            raise ValueError(f"a logarithmic grid of {self.path} must be above 0")
        low, high = self.hard_limits or (-math.inf, math.inf)
        if self.grid[0] < low or self.grid[-1] > high:
            raise ValueError(f"the grid of {self.path} leaves its hard limits {low:g} to {high:g}")
        return self


class ProbedPolicy(Part):
    """The policy under test."""

    candidate: str
    checkpoint_sha: str


class ProbePlan(Document):
    """What a probe will do: one parameter at a time."""

    schema_id: str = Field(default="telic.dr_probe_plan/1", alias="schema")
    policy: ProbedPolicy
    protocol_hash: str
    parameters: tuple[ProbedParameter, ...] = Field(min_length=1)
    seeds: tuple[int, ...] = Field(min_length=3)
    episodes: int = Field(default=10, ge=10)
    one_at_a_time: Literal[True] = True
    abort_on: tuple[str, ...] = ()

    @property
    def evaluations(self) -> int:
        """How many evaluations it takes; the nominal point is shared by all parameters."""
        return (1 + sum(len(each.grid) - 1 for each in self.parameters)) * len(self.seeds)


def grid(
    nominal: float, low: float, high: float, *, scale: str = "linear", points: int = _GRID
) -> tuple[float, ...]:
    """Return a rising grid from low to high that holds the nominal value."""
    if not low < high or not low <= nominal <= high or (scale == "log" and low <= 0):
        raise StudyError(
            "E_PROBE_GRID",
            f"There is no {scale} grid from {low:g} to {high:g} around {nominal:g}.",
            hint="Give low < nominal < high; a logarithmic grid stays above 0.",
        )
    shares = [place / (points - 1) for place in range(points)]
    if scale == "log":
        made = [low * (high / low) ** share for share in shares]
    else:
        made = [low + share * (high - low) for share in shares]
    # The nearest inner point makes room, so that the ends and the number of points stay.
    nearest = min(range(points), key=lambda i: abs(made[i] - nominal))
    if nominal not in made:
        made[min(max(nearest, 1), points - 2) if nominal not in (low, high) else nearest] = nominal
    return tuple(sorted(float(f"{value:.12g}") for value in made))
