"""Logged numbers: rows of whatever kind, the series they make, and plain statistics of series."""

from __future__ import annotations

import math
import statistics
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal, NamedTuple, TypeGuard

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
        return self._at([i for i, value in enumerate(self.values) if math.isfinite(value)])

    def between(self, low: float, high: float) -> Series:
        """Return the points whose step is in the range, ends included."""
        return self._at([i for i, step in enumerate(self.steps) if low <= step <= high])

    def _at(self, places: Sequence[int]) -> Series:
        times = tuple(self.times[i] for i in places) if self.times else ()
        steps, values = (tuple(column[i] for i in places) for column in (self.steps, self.values))
        return Series(steps, values, times)

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

    def ends(self, share: float) -> tuple[float | None, float | None]:
        """Return the means of the first and of the last share of the steps."""
        return mean(self.first(share).values), mean(self.last(share).values)

    def turned(self, direction: str) -> Series:
        """Return the series turned so that larger is better."""
        if direction == "max":
            return self
        return self._replace(values=tuple(-value for value in self.values))

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


Row = Mapping[str, float | str]
"""numbers and words of one point in time; nested names are joined by a slash"""

STEP_NAMES = (
    *("step", "global_step", "env_step", "env_steps", "total_timesteps", "timesteps"),
    *("total_steps", "steps", "num_steps", "iteration", "iterations", "iter", "update"),
    *("epoch", "episode"),
)
TIME_NAMES = ("time", "wall_time", "timestamp", "time_elapsed", "elapsed_s", "elapsed")

Aggregate = Literal["mean", "median", "iqm", "last", "auc"]


def is_object(value: Any) -> TypeGuard[Mapping[str, Any]]:
    """Whether plain data is an object with named values."""
    return isinstance(value, Mapping)


def flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, float | str]:
    """Return nested data as one row: numbers and texts; lists and missing values are left out."""
    out: dict[str, float | str] = {}
    for key, each in value.items():
        name = f"{prefix}{key}"
        if is_object(each):
            out.update(flat(each, f"{name}/"))
        elif isinstance(each, str):
            out[name] = _number(each)
        elif isinstance(each, bool | int | float):
            out[name] = float(each)
    return out


def _number(text: str) -> float | str:
    """Return a text as the number it writes, NaN and infinity included, else the text itself."""
    try:
        return float(text)
    except ValueError:
        return text


def to_series(rows: Iterable[Row]) -> dict[str, Series]:
    """Return one series per name, in the order of the steps; a repeated step keeps the last value.

    The step is the first of `STEP_NAMES` that a row has, also at the end of a longer name
    ("time/total_timesteps"); rows without one are counted.
    """
    points: dict[str, dict[float, tuple[float, float | None]]] = {}
    for place, row in enumerate(rows):
        step_name, time_name = _find(row, STEP_NAMES), _find(row, TIME_NAMES)
        step = row[step_name] if step_name else float(place)
        when = row[time_name] if time_name else None
        if not isinstance(step, float) or not math.isfinite(step):
            continue
        for name, value in row.items():
            if isinstance(value, float) and name not in (step_name, time_name):
                found = when if isinstance(when, float) else None
                points.setdefault(name, {})[step] = (value, found)
    return {name: _ordered(each) for name, each in points.items()}


def _ordered(points: Mapping[float, tuple[float, float | None]]) -> Series:
    steps = tuple(sorted(points))
    return Series(
        steps, tuple(points[step][0] for step in steps), tuple(points[step][1] for step in steps)
    )


def _find(row: Row, names: Iterable[str]) -> str | None:
    last = {key.rsplit("/", 1)[-1]: key for key in reversed(list(row))}
    for name in names:
        if name in row:
            return name
        if name in last:
            return last[name]
    return None


def aggregate(series: Series, how: Aggregate) -> float | None:
    """Return one number for a series; None when it has no finite value.

    "auc" is the area under the values over steps, divided by the range of steps: a mean that
    does not depend on how densely was logged.
    """
    steps, values, _ = series.finite()
    if not values:
        return None
    match how:
        case "mean":
            return math.fsum(values) / len(values)
        case "median":
            return statistics.median(values)
        case "last":
            return values[-1]
        case "iqm":
            ordered = sorted(values)
            cut = len(ordered) // 4
            middle = ordered[cut : len(ordered) - cut]
            return math.fsum(middle) / len(middle)
        case "auc":
            points = list(zip(steps, values, strict=True))
            width = steps[-1] - steps[0]
            if width <= 0:
                return values[-1]
            area = math.fsum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in pairwise(points))
            return area / width
