"""Statistics with confidence intervals. SciPy is imported lazily, because its import is slow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_EXACT_PAIRS = 2500
"""maximum product of the sample sizes for an exact rank test"""
_ROUNDING = 1e-12
_RESAMPLES = 1 << 16


class Interval(NamedTuple):
    """A confidence interval."""

    low: float
    high: float


def _scipy() -> Any:
    import scipy.stats

    return scipy.stats


def bootstrap(
    values: Sequence[float],
    statistic: Callable[..., NDArray[np.float64]] = np.mean,
    *,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Interval | None:
    """Return a percentile bootstrap interval for a statistic, or None for fewer than two values."""
    data = np.asarray(values, dtype=np.float64)
    if len(data) < 2:
        return None
    draws = np.random.default_rng(seed).integers(0, len(data), (resamples, len(data)))
    spread = statistic(data[draws], axis=1)
    tail = (1.0 - level) / 2.0
    low, high = np.quantile(spread, [tail, 1.0 - tail])
    return Interval(float(low), float(high))


def mean_interval(values: NDArray[np.float64], worst: float, best: float) -> Interval | None:
    """Return a 95 % interval of a mean, or None for fewer than two values.

    It is a bootstrap interval, or a Wilson interval for at most two distinct values. Equal values
    do not prove that others are impossible: unseen values may be as extreme as `worst` or `best`.
    """
    low, high = float(values.min()), float(values.max())
    if len(values) < 2 or len(np.unique(values)) > 2:
        return bootstrap(values.tolist())
    share = wilson(int((values == high).sum()), len(values))
    assert share is not None, "there are values"
    if low < high:
        return Interval(*(low + end * (high - low) for end in share))
    unseen = 1.0 - share.low
    return Interval(low - unseen * max(0.0, low - worst), low + unseen * max(0.0, best - low))


def interquartile_mean(values: Sequence[float]) -> float | None:
    """Return the interquartile mean, or None if `values` is empty."""
    data = np.sort(np.asarray(values, dtype=np.float64))
    if not len(data):
        return None
    cut = len(data) // 4
    return float(data[cut : len(data) - cut].mean())


def wilson(successes: int, trials: int) -> Interval | None:
    """Return the 95 % Wilson score interval for a proportion, or None for zero trials."""
    if trials == 0:
        return None
    ends = _scipy().binomtest(successes, trials).proportion_ci(method="wilson")
    return Interval(float(ends.low), float(ends.high))


def welch(a: np.ndarray, b: np.ndarray, alternative: str = "two-sided") -> float | None:
    """Return the p-value of Welch's t-test, or None if values are too few or have no variance."""
    if len(a) < 2 or len(b) < 2 or np.ptp(a) + np.ptp(b) == 0:
        return None
    return float(_scipy().ttest_ind(a, b, equal_var=False, alternative=alternative).pvalue)


def paired_greater(a: np.ndarray, b: np.ndarray) -> float | None:
    """Return the p-value of a one-sided paired t-test (a > b), or None if it is undefined.

    If all differences are equal, the t statistic is undefined and a sign test is used. Under the
    null hypothesis both signs are equally likely, so n positive differences have probability 2^-n.
    """
    difference = a - b
    if len(difference) < 2:
        return None
    if is_one_gap(a, b):
        return 0.5 ** len(difference) if difference[0] > 0 else 1.0
    if np.ptp(difference) == 0:
        return None
    return float(_scipy().ttest_rel(a, b, alternative="greater").pvalue)


def is_one_gap(a: np.ndarray, b: np.ndarray) -> bool:
    """Return whether all pairs differ by the same non-zero amount, up to rounding."""
    difference = a - b
    rounding = _ROUNDING * max(np.abs(a).max(), np.abs(b).max())
    return bool(np.ptp(difference) <= rounding < np.abs(difference).min())


def mann_whitney_greater(a: np.ndarray, b: np.ndarray) -> float | None:
    """Return the p-value of a one-sided Mann-Whitney test (a > b).

    The test is exact for small samples. With ties, the pooled ranks are permuted, exhaustively if
    feasible and by sampling otherwise. Returns None if a sample is empty or all values are equal.
    """
    pool = np.concatenate((a, b))
    if not len(a) or not len(b) or np.ptp(pool) == 0:
        return None
    stats = _scipy()
    method: Any = "asymptotic"
    if len(a) * len(b) <= _EXACT_PAIRS:
        drawn = stats.PermutationMethod(n_resamples=_RESAMPLES, rng=np.random.default_rng(0))
        method = "exact" if len(np.unique(pool)) == len(pool) else drawn
    return float(stats.mannwhitneyu(a, b, alternative="greater", method=method).pvalue)


def probability_of_improvement(a: np.ndarray, b: np.ndarray) -> float:
    """Return the fraction of pairs (x from a, y from b) with x > y. Ties count as half."""
    above = (a[:, None] > b[None, :]).mean()
    return float(above + (a[:, None] == b[None, :]).mean() / 2)


def holm(values: Sequence[float | None]) -> list[float | None]:
    """Apply Holm's correction to the p-values that are not None."""
    ordered = sorted((p, place) for place, p in enumerate(values) if p is not None)
    out: list[float | None] = [None] * len(values)
    highest = 0.0
    for rank, (p, place) in enumerate(ordered):
        highest = max(highest, min(1.0, (len(ordered) - rank) * p))
        out[place] = highest
    return out
