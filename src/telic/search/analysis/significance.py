"""Two methods on one task: how much better, and whether that is more than chance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from telic.core.config import Record
from telic.core.significance import holm as corrected
from telic.core.significance import mann_whitney, probability_of_improvement, welch

_RESAMPLES = 2000


class Test(Record):
    """Two methods on one task."""

    __test__ = False  # not one for pytest

    one: str
    other: str
    difference: float
    """mean of one minus mean of the other"""
    low: float | None
    """lower end of the 95 % bootstrap interval of the difference"""
    high: float | None
    welch_p: float | None
    mann_whitney_p: float | None
    holm_p: float | None = None
    """the Welch p, corrected for the number of comparisons that were asked for"""
    improvement: float
    """chance that a run of one beats a run of the other; ties count half"""


def compare_pair(
    one: str, ones: Sequence[float], other: str, others: Sequence[float], seed: int = 0
) -> Test:
    """Return what can be said about two lists of results, one value per run."""
    a, b = np.asarray(ones, dtype=np.float64), np.asarray(others, dtype=np.float64)
    low = high = None
    if len(a) > 1 and len(b) > 1:
        rng = np.random.default_rng(seed)
        draws = [x[rng.integers(0, len(x), (_RESAMPLES, len(x)))].mean(1) for x in (a, b)]
        low, high = np.quantile(draws[0] - draws[1], [0.025, 0.975]).tolist()
    return Test(
        one=one,
        other=other,
        difference=float(a.mean() - b.mean()),
        low=low,
        high=high,
        welch_p=welch(a, b),
        mann_whitney_p=mann_whitney(a, b),
        improvement=probability_of_improvement(a, b),
    )


def holm(tests: Sequence[Test]) -> list[Test]:
    """Return the tests with Holm's correction over all that have a p."""
    adjusted = corrected([each.welch_p for each in tests])
    return [each.model_copy(update={"holm_p": p}) for each, p in zip(tests, adjusted, strict=True)]
