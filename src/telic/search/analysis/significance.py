"""Is a difference more than chance: Welch, Mann-Whitney, Holm, probability of improvement."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from telic.core.config import Record

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(200)
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
        draws = [
            x[rng.integers(0, len(x), (_RESAMPLES, len(x)))].mean(1) for x in (a, b)
        ]  # fmt: skip
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


def welch(a: np.ndarray, b: np.ndarray) -> float | None:
    """Return the two-sided p of Welch's t-test; None where it says nothing.

    Fewer than two values, or no spread in either list, leave the test without a scale.
    """
    if len(a) < 2 or len(b) < 2:
        return None
    va, vb = a.var(ddof=1) / len(a), b.var(ddof=1) / len(b)
    if va + vb == 0:
        return None
    t = (a.mean() - b.mean()) / math.sqrt(va + vb)
    # Welch-Satterthwaite
    freedom = (va + vb) ** 2 / (va**2 / (len(a) - 1) + vb**2 / (len(b) - 1))
    return student_tail(abs(float(t)), float(freedom))


def student_tail(t: float, freedom: float) -> float:
    """Return the chance that |T| exceeds t, for Student's T.

    The density, substituted by x = sqrt(freedom) tan(u), is proportional to cos(u)^(freedom - 1) on
    (-pi/2, pi/2), which Gauss-Legendre quadrature integrates to machine precision.
    """
    edge = math.atan(t / math.sqrt(freedom))
    return _cosine_power(edge, math.pi / 2, freedom) / _cosine_power(0.0, math.pi / 2, freedom)


def _cosine_power(low: float, high: float, freedom: float) -> float:
    middle, half = (low + high) / 2, (high - low) / 2
    return float(half * (_WEIGHTS * np.cos(middle + half * _NODES) ** (freedom - 1)).sum())


def mann_whitney(a: np.ndarray, b: np.ndarray) -> float | None:
    """Return the two-sided p of the rank test: normal approximation, ties and continuity corrected.

    None for fewer than two values, or when all values are equal.
    """
    n, m = len(a), len(b)
    if n < 2 or m < 2:
        return None
    u = probability_of_improvement(a, b) * n * m
    _, counts = np.unique(np.concatenate((a, b)), return_counts=True)
    total = n + m
    ties = (counts**3 - counts).sum() / (total * (total - 1))
    variance = n * m / 12 * (total + 1 - ties)
    if variance <= 0:
        return None
    z = max(0.0, abs(u - n * m / 2) - 0.5) / math.sqrt(variance)
    return math.erfc(z / math.sqrt(2))


def probability_of_improvement(a: np.ndarray, b: np.ndarray) -> float:
    """Return the share of pairs in which a is larger; ties count half."""
    above = (a[:, None] > b[None, :]).mean()
    return float(above + (a[:, None] == b[None, :]).mean() / 2)


def holm(tests: Sequence[Test]) -> list[Test]:
    """Return the tests with Holm's correction over all that have a p."""
    order = sorted(
        (i for i, each in enumerate(tests) if each.welch_p is not None),
        key=lambda i: tests[i].welch_p or 0.0,
    )
    out, highest = list(tests), 0.0
    for rank, index in enumerate(order):
        p = (len(order) - rank) * (tests[index].welch_p or 0.0)
        highest = max(highest, min(1.0, p))
        out[index] = tests[index].model_copy(update={"holm_p": highest})
    return out
