"""Series of logged numbers, their plain statistics, and the numbers of a claim."""

from __future__ import annotations

import hashlib
import importlib
import math
import statistics
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    import numpy as np

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


def slope(steps: Sequence[float], values: Sequence[float]) -> float | None:
    """Return the Theil-Sen slope, the median over all pairs; None for fewer than two steps."""
    stride = max(1, math.ceil(len(steps) / _SLOPE_POINTS))
    xs, ys = steps[::stride], values[::stride]
    return float(_scipy_stats().theilslopes(ys, xs).slope) if len(set(xs)) > 1 else None


def correlation(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Return Pearson's correlation; None for fewer than two pairs or no spread."""
    if len(one) < 2 or spread(one) == 0 or spread(other) == 0:
        return None
    return statistics.correlation(one, other)


def rank_correlation(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Return Spearman's correlation; None for fewer than two pairs or no spread."""
    ranks = _scipy_stats().rankdata
    return correlation(ranks(one).tolist(), ranks(other).tolist())


def _scipy_stats() -> Any:
    """Import scipy.stats at its first use: it takes longer to load than most commands run."""
    return importlib.import_module("scipy.stats")


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


RESAMPLES = 10_000
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
    p: float | None
    """one-sided: the candidate is better; Welch, or paired where seeds are common and agree"""
    is_paired: bool
    is_counted: bool
    """all pairs differ by the same amount: p counts signs, and nothing is left to resample"""
    rank_p: float | None
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

    return interquartile_mean(_flat(scores))


def iqm_interval(scores: Sequence[float] | Scores, seed: int) -> Ends | None:
    """Return the 95 % interval of the middle half's mean; None when no stratum has two values."""
    import numpy as np

    strata = _strata(scores)
    if all(len(each) < 2 for each in strata.values()):
        return None
    return _middle(_drawn(strata, _draws(np.random.PCG64(seed), strata)))


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
    return _middle(_drawn(ours, draws) - _drawn(theirs, their_draws))


def difference(
    ours: Scores,
    theirs: Scores,
    seed: int,
    *,
    common_units: bool = False,
    resample_pairs: bool = False,
) -> ArmDifference:
    """Return everything that is said about two arms.

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
    agreement = correlation(x, y) if has_pairs else None
    is_counted = has_pairs and len(x) > 1 and stats.is_one_gap(a, b)
    is_paired = is_counted or (agreement is not None and agreement > _PAIRED_ABOVE)
    test = stats.paired_greater if is_paired else stats.welch_greater
    in_pairs = resample_pairs or is_counted
    return ArmDifference(
        delta=(iqm(ours) or 0.0) - (iqm(theirs) or 0.0),
        ci=difference_interval(ours, theirs, seed, is_paired=in_pairs),
        p=test(a, b),
        is_paired=is_paired,
        is_counted=is_counted,
        rank_p=stats.mann_whitney_greater(a, b),
        poi=_share_above(a, b) if in_pairs else stats.probability_of_improvement(a, b),
        sigma=pooled(x, y),
    )


def smallest_effect(
    incumbent: float, *, absolute: float, relative: float, noise_k: float, sigma_0: float | None
) -> float:
    """Return the improvement that counts: max(absolute, relative |IQM(Y)|, k sigma_0)."""
    return max(absolute, relative * abs(incumbent), noise_k * (sigma_0 or 0.0))


def pairs_needed(alpha: float) -> int:
    """Return how many pairs that all agree bring a count of signs, 2^-n, below alpha."""
    return math.floor(-math.log2(alpha)) + 1


def seeds_needed(sigma: float, effect: float) -> int | None:
    """Return the seeds per arm that show the smallest effect in 80 % of tries; None without one."""
    if effect <= 0:
        return None
    return max(2, math.ceil(_POWER_FACTOR * (sigma / effect) ** 2))


def _share_above(a: np.ndarray, b: np.ndarray) -> float:
    """Return the share of common units in which a is larger; ties count half."""
    return float((a > b).mean() + (a == b).mean() / 2)


def _flat(scores: Sequence[float] | Scores) -> list[float]:
    return [value for each in _strata(scores).values() for value in each]


def _strata(scores: Sequence[float] | Scores) -> Scores:
    return scores if isinstance(scores, Mapping) else {"": scores}


def _per_unit(scores: Scores) -> list[float]:
    """Return one score per replication unit: runs are means over strata where all have as many."""
    columns = list(scores.values())
    if len({len(each) for each in columns}) == 1:
        return [math.fsum(row) / len(row) for row in zip(*columns, strict=True)]
    return _flat(scores)


def draw(generator: np.random.PCG64, size: int) -> np.ndarray:
    """Return (RESAMPLES, size) places. Raw bits, since numpy keeps only their stream for ever."""
    raw = generator.random_raw(RESAMPLES * size)
    return (raw % size).reshape(RESAMPLES, size)


def _draws(generator: np.random.PCG64, scores: Scores) -> dict[str, np.ndarray]:
    return {name: draw(generator, len(each)) for name, each in scores.items()}


def _drawn(scores: Scores, draws: Mapping[str, np.ndarray]) -> np.ndarray:
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


def spread_interval(values: Sequence[float], seed: int) -> Ends | None:
    """Return the 95 % interval of a standard deviation; None for fewer than two values."""
    import numpy as np

    if len(values) < 2:
        return None
    draws = draw(np.random.PCG64(seed), len(values))
    return _middle(np.asarray(values, dtype=np.float64)[draws].std(axis=1, ddof=1))
