"""Series of numbers over training: windows, slopes, ranks. Plain Python, no arrays needed."""

from __future__ import annotations

import math
import statistics
from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

_SLOPE_POINTS = 300
"""Theil-Sen looks at all pairs; a longer series is thinned to this many points first"""
_SIGMA_OF_NOTHING = 1e-8


class Series(NamedTuple):
    """One metric over training; all three have one entry per point."""

    steps: tuple[float, ...]
    values: tuple[float, ...]
    """as logged: may hold NaN and infinity, which `finite` leaves out"""
    times: tuple[float | None, ...] = ()
    """wall-clock seconds, where the source has them"""

    def finite(self) -> Series:
        """Return the points whose value is a number."""
        kept = [i for i, value in enumerate(self.values) if math.isfinite(value)]
        times = tuple(self.times[i] for i in kept) if self.times else ()
        return Series(
            tuple(self.steps[i] for i in kept), tuple(self.values[i] for i in kept), times
        )

    def between(self, low: float, high: float) -> Series:
        """Return the points whose step is in the range, ends included."""
        kept = [i for i, step in enumerate(self.steps) if low <= step <= high]
        times = tuple(self.times[i] for i in kept) if self.times else ()
        return Series(
            tuple(self.steps[i] for i in kept), tuple(self.values[i] for i in kept), times
        )

    def at(self, step: float) -> float | None:
        """Return the value in force at a step: the last one logged by then."""
        place = bisect_right(self.steps, step)
        return self.values[place - 1] if place else None

    def first(self, share: float) -> Series:
        """Return the points in the first share of the steps."""
        return self.between(self.steps[0], self._step(share)) if self.steps else self

    def last(self, share: float) -> Series:
        """Return the points in the last share of the steps."""
        return self.between(self._step(1 - share), self.steps[-1]) if self.steps else self

    def _step(self, share: float) -> float:
        return self.steps[0] + share * (self.steps[-1] - self.steps[0])


def mean(values: Sequence[float]) -> float | None:
    """Return the mean; None without values."""
    return math.fsum(values) / len(values) if values else None


def spread(values: Sequence[float]) -> float:
    """Return the standard deviation of a sample; 0 for fewer than two values."""
    return statistics.stdev(values) if len(values) > 1 else 0.0


def pooled(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the standard deviation that two samples share."""
    freedom = len(one) + len(other) - 2
    if freedom < 1:
        return 0.0
    squares = [max(len(x) - 1, 0) * spread(x) ** 2 for x in (one, other)]
    return math.sqrt(math.fsum(squares) / freedom)


def gain(before: Sequence[float], after: Sequence[float]) -> float | None:
    """Return (mean after - mean before) in pooled standard deviations; None without values.

    Two samples without any spread give 0 where they are equal, else plus or minus infinity.
    """
    start, end = mean(before), mean(after)
    if start is None or end is None:
        return None
    width = pooled(before, after)
    if width < _SIGMA_OF_NOTHING:
        return 0.0 if math.isclose(start, end) else math.copysign(math.inf, end - start)
    return (end - start) / width


def percentile(values: Sequence[float], share: float) -> float | None:
    """Return a percentile by linear interpolation; None without values."""
    if not values:
        return None
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def slope(steps: Sequence[float], values: Sequence[float]) -> float | None:
    """Return the Theil-Sen slope, the median over all pairs; None for fewer than two steps."""
    stride = max(1, math.ceil(len(steps) / _SLOPE_POINTS))
    xs, ys = steps[::stride], values[::stride]
    found = [
        (ys[j] - ys[i]) / (xs[j] - xs[i])
        for i in range(len(xs))
        for j in range(i + 1, len(xs))
        if xs[j] != xs[i]
    ]
    return statistics.median(found) if found else None


def ranks(values: Sequence[float]) -> list[float]:
    """Return the rank of every value, from 1; equal values share the middle of their ranks."""
    order = sorted(range(len(values)), key=values.__getitem__)
    out = [0.0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end + 1 < len(order) and values[order[end + 1]] == values[order[start]]:
            end += 1
        for place in range(start, end + 1):
            out[order[place]] = (start + end) / 2 + 1
        start = end + 1
    return out


def correlation(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Return Pearson's correlation; None for fewer than two pairs or no spread."""
    if len(one) < 2 or spread(one) == 0 or spread(other) == 0:
        return None
    return statistics.correlation(one, other)


def rank_correlation(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Return Spearman's correlation; None for fewer than two pairs or no spread."""
    return correlation(ranks(one), ranks(other))


def covariance(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Return the covariance of a sample; None for fewer than two pairs."""
    return statistics.covariance(one, other) if len(one) > 1 else None


def smooth(values: Sequence[float], width: int) -> list[float]:
    """Return the centred moving average; the window shrinks at both ends."""
    half = width // 2
    return [
        math.fsum(part) / len(part)
        for part in (values[max(0, i - half) : i + half + 1] for i in range(len(values)))
    ]


def turns(values: Sequence[float]) -> int:
    """Return how often the series changes direction; flat pieces do not count."""
    moves = [b - a for a, b in pairwise(values) if b != a]
    return sum((a > 0) != (b > 0) for a, b in pairwise(moves))
