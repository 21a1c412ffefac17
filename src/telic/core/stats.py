"""Small statistics with stated uncertainty; plain numpy."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Interval(NamedTuple):
    """A confidence interval."""

    low: float
    high: float


def bootstrap(
    values: Sequence[float],
    statistic: Callable[..., NDArray[np.float64]] = np.mean,
    *,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Interval | None:
    """Return a percentile bootstrap interval of a statistic; None for fewer than two values."""
    data = np.asarray(values, dtype=np.float64)
    if len(data) < 2:
        return None
    draws = np.random.default_rng(seed).integers(0, len(data), (resamples, len(data)))
    spread = statistic(data[draws], axis=1)
    tail = (1.0 - level) / 2.0
    low, high = np.quantile(spread, [tail, 1.0 - tail])
    return Interval(float(low), float(high))


def interquartile_mean(values: Sequence[float]) -> float | None:
    """Return the mean of the middle half; None without values."""
    data = np.sort(np.asarray(values, dtype=np.float64))
    if not len(data):
        return None
    cut = len(data) // 4
    return float(data[cut : len(data) - cut].mean())


_NORMAL_95 = 1.959964
"""half width of the 95 % interval of a standard normal"""


def wilson(successes: int, trials: int) -> Interval | None:
    """Return the 95 % Wilson score interval of a share; None without trials.

    With p = successes / n and z the normal quantile (Wilson, 1927):
    (p + z²/2n ± z √(p(1-p)/n + z²/4n²)) / (1 + z²/n).
    """
    if trials == 0:
        return None
    share, z = successes / trials, _NORMAL_95
    middle = share + z * z / (2 * trials)
    half = z * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    scale = 1 + z * z / trials
    return Interval(max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale))
