"""The numbers of a policy: how many, how large, how fine, and what each one means."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from telic.core.config import Record
from telic.search.draws import Floats

_EXACT = 6  # decimals kept of numbers that no model reads


class Fitted(NamedTuple):
    """Numbers that lie in a space, and what had to be changed for it."""

    params: tuple[float, ...]
    warnings: tuple[str, ...]


class Space(Record):
    """Where the parameters of a policy lie."""

    names: tuple[str, ...]
    """what each number means"""
    formula: str
    """how the numbers become actions, in words"""
    low: float
    high: float
    decimals: int
    """digits after the point that a model is asked for"""
    choices: tuple[int, ...] | None = None
    """allowed whole numbers, where the policy is a table"""

    @property
    def rank(self) -> int:
        """How many numbers a policy has."""
        return len(self.names)

    @property
    def is_table(self) -> bool:
        """Whether each number is one of the choices."""
        return self.choices is not None

    def fit(self, params: Floats | tuple[float, ...], *, is_rounded: bool = True) -> Fitted:
        """Return the numbers clipped to the bounds and rounded, and say what was changed."""
        given = np.asarray(params, dtype=np.float64)
        fitted = np.round(
            np.clip(given, self.low, self.high), self.decimals if is_rounded else _EXACT
        )
        outside = np.flatnonzero((given < self.low) | (given > self.high))
        warnings = [
            f"params[{i}] = {given[i]:g} lies outside [{self.low:g}, {self.high:g}] and was clipped"
            for i in outside
        ]
        if is_rounded and np.any(np.abs(fitted - np.clip(given, self.low, self.high)) > 1e-9):
            warnings.append(f"rounded to {self.decimals} decimals")
        # Adding 0 turns -0.0 into 0.0, so that equal policies look equal.
        return Fitted(tuple((fitted + 0.0).tolist()), tuple(warnings))
