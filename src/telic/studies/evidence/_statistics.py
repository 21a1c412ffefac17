"""Statistics for claims: interquartile means, bootstrap intervals, tests, sample sizes.

A sample has one score per run.
"""

from __future__ import annotations

import hashlib
import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from telic.core import stats
from telic.core.stats import interquartile_mean
from telic.studies.documents.base import DocumentPart

FIRST_ALPHA = 0.05
_RESAMPLES = 10_000
_PAIRED_ABOVE = 0.3
"""minimum correlation of two arms on common seeds that allows a paired test"""
_POWER_FACTOR = 12.4
"""2 (1.645 + 0.842)^2: two arms, one-sided 5 %, power 80 %"""


class BootstrapInterval(NamedTuple):
    """Bounds of a 95 % bootstrap interval."""

    low: float
    high: float


class AuditStats(DocumentPart):
    """Statistics of a comparison. Scores are oriented so that larger is better."""

    delta: float | None = None
    ci: tuple[float, float] | None = None
    delta_min: float | None = None
    welch_p: float | None = None
    """one-sided p-value of Welch's test, or of the paired test if common seeds are correlated"""
    is_paired: bool = False
    is_counted: bool = False
    """true if all pairs differ by the same amount, so that p is from a sign test"""
    holm_p: float | None = None
    mwu_p: float | None = None
    """p-value of the exact one-sided Mann-Whitney test"""
    poi: float | None = None
    """probability of improvement: a candidate run beats an incumbent run"""
    sigma: float | None = None
    """pooled standard deviation of the arms"""
    sigma_0: float | None = None
    sigma_0_ci: tuple[float, float] | None = None
    look: int = 1
    alpha: float = FIRST_ALPHA


def oriented(value: float, direction: str) -> float:
    """Return a value oriented so that larger is better."""
    return value if direction == "max" else -value


def mean(values: Sequence[float]) -> float | None:
    """Return the mean, or None for no values."""
    return statistics.fmean(values) if values else None


def spread(values: Sequence[float]) -> float:
    """Return the sample standard deviation, or 0 for fewer than two values."""
    return statistics.stdev(values) if len(values) > 1 else 0.0


def pooled(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the pooled standard deviation of two samples."""
    freedom = len(one) + len(other) - 2
    squares = [max(len(x) - 1, 0) * spread(x) ** 2 for x in (one, other)]
    return math.sqrt(math.fsum(squares) / freedom) if freedom > 0 else 0.0


def seed_of(name: str) -> int:
    """Derive a random seed from a name. The seed is the same on all machines."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")


def iqm(values: Sequence[float]) -> float | None:
    """Return the interquartile mean, or the plain mean for fewer than four values."""
    return interquartile_mean(values)


def iqm_interval(values: Sequence[float], seed: int) -> BootstrapInterval | None:
    """Return an interval for the interquartile mean, or None for fewer than two values."""
    generator = np.random.PCG64(seed)
    return _middle(_resampled(values, generator)) if len(values) > 1 else None


def difference_interval(
    ours: Sequence[float], theirs: Sequence[float], seed: int, *, is_paired: bool = False
) -> BootstrapInterval | None:
    """Return an interval for IQM(ours) - IQM(theirs), or None if an arm cannot be resampled.

    If `paired` is true, both arms have the same units in the same order and are resampled jointly.
    """
    if min(len(ours), len(theirs)) < 2:
        return None
    generator = np.random.PCG64(seed)
    drawn = _resampled(ours, generator)
    return _middle(drawn - _resampled(theirs, np.random.PCG64(seed) if is_paired else generator))


def difference(
    ours: Sequence[float], theirs: Sequence[float], seed: int, *, common_seeds: bool = False
) -> AuditStats:
    """Compare two arms. If `common_seeds` is true, the n-th scores of both arms share a seed."""
    a, b = np.asarray(ours, dtype=np.float64), np.asarray(theirs, dtype=np.float64)
    has_pairs = common_seeds and len(ours) == len(theirs)
    has_spread = has_pairs and spread(ours) > 0 and spread(theirs) > 0
    is_counted = has_pairs and len(ours) > 1 and stats.is_one_gap(a, b)
    is_paired = is_counted or (has_spread and statistics.correlation(ours, theirs) > _PAIRED_ABOVE)
    paired_poi = float((a > b).mean() + (a == b).mean() / 2) if is_counted else None
    is_same = has_pairs and bool((a == b).all())  # resampling is degenerate here, too
    return AuditStats(
        delta=(iqm(ours) or 0.0) - (iqm(theirs) or 0.0),
        ci=difference_interval(ours, theirs, seed, is_paired=is_counted or is_same),
        welch_p=stats.paired_greater(a, b) if is_paired else stats.welch(a, b, "greater"),
        is_paired=is_paired,
        is_counted=is_counted,
        mwu_p=stats.mann_whitney_greater(a, b),
        poi=stats.probability_of_improvement(a, b) if paired_poi is None else paired_poi,
        sigma=pooled(ours, theirs),
    )


def pairs_needed(alpha: float) -> int:
    """Return the number of unanimous pairs at which a sign test (p = 2^-n) is below alpha."""
    return math.floor(-math.log2(alpha)) + 1


def seeds_needed(sigma: float, effect: float) -> int | None:
    """Return the seeds per arm needed to detect the effect with a power of 80 %, or None."""
    return None if effect <= 0 else max(2, math.ceil(_POWER_FACTOR * (sigma / effect) ** 2))


def spread_interval(values: Sequence[float], seed: int) -> BootstrapInterval | None:
    """Return an interval for the standard deviation, or None for fewer than two values."""
    if len(values) < 2:
        return None
    drawn = np.asarray(values, dtype=np.float64)[draw(np.random.PCG64(seed), len(values))]
    return _middle(drawn.std(axis=1, ddof=1))


def draw(generator: np.random.PCG64, size: int) -> np.ndarray:
    """Return (resamples, size) indices, computed from raw bits that are stable across versions."""
    raw = generator.random_raw(_RESAMPLES * size)
    return (raw % size).reshape(_RESAMPLES, size)


def _resampled(values: Sequence[float], generator: np.random.PCG64) -> np.ndarray:
    """Return the interquartile mean (IQM) of each resample."""
    drawn = np.sort(np.asarray(values, dtype=np.float64)[draw(generator, len(values))], axis=1)
    cut = len(values) // 4
    return drawn[:, cut : len(values) - cut].mean(axis=1)


def _middle(draws: np.ndarray) -> BootstrapInterval:
    low, high = np.quantile(draws, [0.025, 0.975])
    return BootstrapInterval(float(low), float(high))
