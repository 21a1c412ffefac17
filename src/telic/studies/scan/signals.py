"""Weights that add up to a confidence, with the lines behind them."""

from __future__ import annotations

from dataclasses import dataclass, field

from telic.studies.scan.records import Evidence

_CAP = 0.5
_KEPT = 8


@dataclass(slots=True)
class Signals:
    """Evidence for one answer; a signal against it caps the confidence at one half."""

    scale: float = 1.0
    """how much the place of the answer counts"""
    weights: list[float] = field(default_factory=list[float])
    evidence: list[Evidence] = field(default_factory=list[Evidence])

    def add(self, weight: float, path: str, line: int, note: str) -> None:
        """Count a signal."""
        self.weights.append(weight)
        self.evidence.append(Evidence(path=path, line=line, note=note))

    @property
    def confidence(self) -> float:
        """One minus the chance that every signal misleads."""
        doubt = 1.0
        for weight in self.weights:
            if weight > 0:
                doubt *= 1 - weight * self.scale
        sure = 1 - doubt
        return round(min(sure, _CAP) if any(each < 0 for each in self.weights) else sure, 3)

    @property
    def strongest(self) -> tuple[Evidence, ...]:
        """The evidence worth showing, strongest first."""
        order = sorted(
            zip(self.weights, self.evidence, strict=True), key=lambda pair: -abs(pair[0])
        )
        return tuple(each for _, each in order[:_KEPT])
