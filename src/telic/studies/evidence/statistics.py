"""Series of logged numbers, and the numbers of a claim: intervals, tests, the effect that counts.

numpy and scipy are imported at use: they take longer to load than most commands run.
"""

from __future__ import annotations

import hashlib
import math
import statistics
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    import numpy as np

_SLOPE_POINTS = 300
"""Theil-Sen looks at all pairs; a longer series is thinned to this many points first"""
_NO_SPREAD = 1e-8


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

    def oriented(self, direction: str) -> Series:
        """Return the series oriented so that larger is better."""
        return self._replace(values=tuple(oriented(value, direction) for value in self.values))

    def _step(self, share: float) -> float:
        return self.steps[0] + share * (self.steps[-1] - self.steps[0])


def oriented(value: float, direction: str) -> float:
    """Return a value oriented so that larger is better."""
    return value if direction == "max" else -value


def mean(values: Sequence[float]) -> float | None:
    """Return the mean; None without values."""
    return math.fsum(values) / len(values) if values else None


def spread(values: Sequence[float]) -> float:
    """Return the standard deviation of a sample; 0 for fewer than two values."""
    return statistics.stdev(values) if len(values) > 1 else 0.0


def _pooled(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the standard deviation that two samples share."""
    freedom = len(one) + len(other) - 2
    squares = [max(len(x) - 1, 0) * spread(x) ** 2 for x in (one, other)]
    return math.sqrt(math.fsum(squares) / freedom) if freedom > 0 else 0.0


def gain(series: Series, share: float) -> float | None:
    """Return by how many pooled deviations the last share of a series lies above the first.

    None without values; two parts without any spread give 0 where they are equal, else infinity.
    """
    before, after = series.first(share).values, series.last(share).values
    if not before or not after:
        return None
    start, end = statistics.fmean(before), statistics.fmean(after)
    width = _pooled(before, after)
    if width < _NO_SPREAD:
        return 0.0 if math.isclose(start, end) else math.copysign(math.inf, end - start)
    return (end - start) / width


def slope(series: Series) -> float | None:
    """Return the Theil-Sen slope, the median over all pairs; None for fewer than two steps."""
    from scipy.stats import theilslopes

    stride = max(1, math.ceil(len(series.steps) / _SLOPE_POINTS))
    steps, values = series.steps[::stride], series.values[::stride]
    return float(theilslopes(values, steps).slope) if len(set(steps)) > 1 else None


Aggregate = Literal["mean", "median", "iqm", "last", "auc"]


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
            return mean(values)
        case "median":
            return statistics.median(values)
        case "last":
            return values[-1]
        case "iqm":
            return iqm(values)
        case "auc":
            width = steps[-1] - steps[0]
            points = list(zip(steps, values, strict=True))
            area = math.fsum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in pairwise(points))
            return area / width if width > 0 else values[-1]


# ---------------------------------------------------------------------------- claims

_RESAMPLES = 10_000
_PAIRED_ABOVE = 0.3
"""correlation of two arms on common seeds from which the paired test is used"""
_POWER_FACTOR = 12.4
"""2 (1.645 + 0.842)^2: both arms, one-sided 5 %, power 80 %"""

Scores = Mapping[str, Sequence[float]]
"""scores of one arm by stratum; without strata there is one, and its name is empty"""


class Ends(NamedTuple):
    """The middle 95 % of what resampling gives."""

    low: float
    high: float


class ArmDifference(NamedTuple):
    """Candidate against incumbent."""

    delta: float
    ci: Ends | None
    welch_p: float | None
    """one-sided: the candidate is better; Welch, or paired where seeds are common and agree"""
    is_paired: bool
    is_counted: bool
    """all pairs differ by the same amount: p counts signs, and nothing is left to resample"""
    mwu_p: float | None
    """exact one-sided Mann-Whitney"""
    poi: float
    """chance that a run of the candidate beats one of the incumbent"""
    sigma: float
    """standard deviation the arms share"""


def seed_of(name: str) -> int:
    """Return the seed that belongs to a name, the same on every machine."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")


def iqm(scores: Sequence[float] | Scores) -> float | None:
    """Return the mean of the middle half over runs and strata; the plain mean below four values."""
    from telic.core.stats import interquartile_mean

    return interquartile_mean([value for each in _strata(scores).values() for value in each])


def iqm_interval(scores: Sequence[float] | Scores, seed: int) -> Ends | None:
    """Return the 95 % interval of the middle half's mean; None when no stratum has two values."""
    import numpy as np

    strata = _strata(scores)
    if all(len(each) < 2 for each in strata.values()):
        return None
    return _middle(_resampled(strata, _draws(np.random.PCG64(seed), strata)))


def difference_interval(
    ours: Scores, theirs: Scores, seed: int, *, is_paired: bool = False
) -> Ends | None:
    """Return the 95 % interval of IQM(ours) - IQM(theirs); None when an arm cannot be resampled.

    Paired: both arms have the same units in the same order (clips), which are drawn together.
    """
    import numpy as np

    if any(all(len(each) < 2 for each in arm.values()) for arm in (ours, theirs)):
        return None
    generator = np.random.PCG64(seed)
    draws = _draws(generator, ours)
    their_draws = draws if is_paired else _draws(generator, theirs)
    return _middle(_resampled(ours, draws) - _resampled(theirs, their_draws))


def difference(
    ours: Scores,
    theirs: Scores,
    seed: int,
    *,
    common_units: bool = False,
    resample_pairs: bool = False,
) -> ArmDifference:
    """Compare two arms.

    Args:
        ours: scores of the candidate by stratum.
        theirs: scores of the incumbent by stratum.
        seed: of the resampling.
        common_units: the n-th scores of both arms belong to the same seed or clip.
        resample_pairs: draw common units together, as a claim about one checkpoint needs it.
    """
    import numpy as np

    from telic.core import stats

    x, y = _per_unit(ours), _per_unit(theirs)
    a, b = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    has_pairs = common_units and len(x) == len(y)
    has_spread = has_pairs and spread(x) > 0 and spread(y) > 0
    agreement = statistics.correlation(x, y) if has_spread else 0.0
    is_counted = has_pairs and len(x) > 1 and stats.is_one_gap(a, b)
    is_paired = is_counted or agreement > _PAIRED_ABOVE
    in_pairs = resample_pairs or is_counted
    above = float((a > b).mean() + (a == b).mean() / 2) if in_pairs else None
    return ArmDifference(
        delta=(iqm(ours) or 0.0) - (iqm(theirs) or 0.0),
        ci=difference_interval(ours, theirs, seed, is_paired=in_pairs),
        welch_p=(stats.paired_greater if is_paired else stats.welch_greater)(a, b),
        is_paired=is_paired,
        is_counted=is_counted,
        mwu_p=stats.mann_whitney_greater(a, b),
        poi=stats.probability_of_improvement(a, b) if above is None else above,
        sigma=_pooled(x, y),
    )


def pairs_needed(alpha: float) -> int:
    """Return how many pairs that all agree bring a count of signs, 2^-n, below alpha."""
    return math.floor(-math.log2(alpha)) + 1


def seeds_needed(sigma: float, effect: float) -> int | None:
    """Return the seeds per arm that show the smallest effect in 80 % of tries; None without one."""
    if effect <= 0:
        return None
    return max(2, math.ceil(_POWER_FACTOR * (sigma / effect) ** 2))


def spread_interval(values: Sequence[float], seed: int) -> Ends | None:
    """Return the 95 % interval of a standard deviation; None for fewer than two values."""
    import numpy as np

    if len(values) < 2:
        return None
    drawn = np.asarray(values, dtype=np.float64)[draw(np.random.PCG64(seed), len(values))]
    return _middle(drawn.std(axis=1, ddof=1))


def draw(generator: np.random.PCG64, size: int) -> np.ndarray:
    """Return (resamples, size) places. Raw bits, since numpy keeps only their stream for ever."""
    raw = generator.random_raw(_RESAMPLES * size)
    return (raw % size).reshape(_RESAMPLES, size)


def _strata(scores: Sequence[float] | Scores) -> Scores:
    return scores if isinstance(scores, Mapping) else {"": scores}


def _per_unit(scores: Scores) -> list[float]:
    """Return one score per replication unit: runs are means over strata where all have as many."""
    columns = list(scores.values())
    if len({len(each) for each in columns}) == 1:
        return [math.fsum(row) / len(row) for row in zip(*columns, strict=True)]
    return [value for each in columns for value in each]


def _draws(generator: np.random.PCG64, scores: Scores) -> dict[str, np.ndarray]:
    return {name: draw(generator, len(each)) for name, each in scores.items()}


def _resampled(scores: Scores, draws: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the IQM of every resample; strata are drawn apart and pooled."""
    import numpy as np

    parts = [np.asarray(each, dtype=np.float64)[draws[name]] for name, each in scores.items()]
    pool = np.sort(np.concatenate(parts, axis=1), axis=1)
    cut = pool.shape[1] // 4
    return pool[:, cut : pool.shape[1] - cut].mean(axis=1)


def _middle(draws: np.ndarray) -> Ends:
    import numpy as np

    low, high = np.quantile(draws, [0.025, 0.975])
    return Ends(float(low), float(high))
