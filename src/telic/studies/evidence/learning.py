"""What is known about a run's learning, and the form in which trouble is reported."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from telic.studies.documents.base import Part
from telic.studies.evidence.series import Series, mean

FEWEST_POINTS = 10

Severity = Literal["info", "warn", "fatal"]


class Signature(Part):
    """A sign of trouble that was found."""

    id: str
    severity: Severity
    value: float | None = None
    threshold: float | None = None
    since_step: float | None = None
    evidence: str


@dataclass(frozen=True, slots=True)
class Learning:
    """What is known about a run's learning; names of series are the canonical ones."""

    series: Mapping[str, Series]
    planned_steps: float | None = None
    """None: signs that depend on progress stay silent"""
    primary: str = "success"
    direction: Literal["max", "min"] = "max"
    target: float | None = None
    discrete_actions: int | None = None
    """number of actions; None for continuous ones"""
    target_kl: float = 0.02
    gamma: float = 0.99
    learning_rate_floor: float | None = None
    keys: Mapping[str, str] = field(default_factory=dict[str, str])
    """canonical name to logged name, where they differ"""

    def get(self, name: str) -> Series | None:
        """Return the finite points of a series with enough of them."""
        found = self.series.get(self.keys.get(name, name))
        kept = found.finite() if found else None
        return kept if kept and len(kept.values) >= FEWEST_POINTS else None

    def metric(self) -> Series | None:
        """Return the primary metric, turned so that larger is better."""
        found = self.get(self.primary)
        if found is None or self.direction == "max":
            return found
        return found._replace(values=tuple(-value for value in found.values))

    def below_target(self) -> bool:
        """Tell whether the metric is short of its target; without a target it always is."""
        found = self.metric()
        if self.target is None or found is None:
            return True
        goal = self.target if self.direction == "max" else -self.target
        return (mean(found.last(0.2).values) or found.values[-1]) < goal

    def early(self, series: Series, share: float) -> Series | None:
        """Return the points before a share of the planned steps."""
        if self.planned_steps is None:
            return None
        found = series.between(-math.inf, share * self.planned_steps)
        return found if len(found.values) >= FEWEST_POINTS else None

    def is_past(self, series: Series, share: float) -> bool:
        """Tell whether training has passed a share of the planned steps."""
        return self.planned_steps is not None and series.steps[-1] > share * self.planned_steps
