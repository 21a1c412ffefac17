"""Statistics of a claim: interquartile means, bootstrap intervals, tests, required seeds.

numpy and scipy are imported at use: they take longer to load than most commands run.
"""

from __future__ import annotations

import hashlib
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np

_RESAMPLES = 10_000
_PAIRED_ABOVE = 0.3
"""correlation of two arms on common seeds from which the paired test is used"""
_POWER_FACTOR = 12.4
"""2 (1.645 + 0.842)^2: both arms, one-sided 5 %, power 80 %"""

Scores = Mapping[str, Sequence[float]]
"""scores of one arm by stratum; without strata there is one, and its name is empty"""


class Ends(NamedTuple):
    """A 95 % bootstrap interval."""

    low: float
    high: float


class ArmDifference(NamedTuple):
    """Candidate against incumbent."""

    delta: float
    ci: Ends | None
    welch_p: float | None
    """one-sided: the candidate is better; Welch, or paired where seeds are common and correlate"""
    is_paired: bool
    is_counted: bool
    """all pairs differ by the same amount: p counts signs, and nothing is left to resample"""
    mwu_p: float | None
    """exact one-sided Mann-Whitney"""
    poi: float
    """probability that a run of the candidate beats one of the incumbent"""
    sigma: float
    """pooled standard deviation"""


def oriented(value: float, direction: str) -> float:
    """Return a value oriented so that larger is better."""
    return value if direction == "max" else -value


def mean(values: Sequence[float]) -> float | None:
    """Return the mean; None without values."""
    return statistics.fmean(values) if values else None


def spread(values: Sequence[float]) -> float:
    """Return the standard deviation of a sample; 0 for fewer than two values."""
    return statistics.stdev(values) if len(values) > 1 else 0.0


def pooled(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the pooled standard deviation of two samples."""
    freedom = len(one) + len(other) - 2
    squares = [max(len(x) - 1, 0) * spread(x) ** 2 for x in (one, other)]
    return math.sqrt(math.fsum(squares) / freedom) if freedom > 0 else 0.0


def seed_of(name: str) -> int:
    """Return the random seed that belongs to a name, the same on every machine."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")


def iqm(scores: Sequence[float] | Scores) -> float | None:
    """Return the interquartile mean over runs and strata; the plain mean below four values."""
    from telic.core.stats import interquartile_mean

    strata = scores.values() if isinstance(scores, Mapping) else [scores]
    return interquartile_mean([value for each in strata for value in each])


def iqm_interval(scores: Sequence[float] | Scores, seed: int) -> Ends | None:
    """Return the interval of the interquartile mean; None when no stratum has two values."""
    strata = scores if isinstance(scores, Mapping) else {"": scores}
    if all(len(each) < 2 for each in strata.values()):
        return None
    return _middle(_resampled(strata, _draws(seed, strata)[0]))


def difference_interval(
    ours: Scores, theirs: Scores, seed: int, *, is_paired: bool = False
) -> Ends | None:
    """Return the interval of IQM(ours) - IQM(theirs); None when an arm cannot be resampled.

    Paired: both arms have the same units in the same order (clips), which are drawn together.
    """
    if any(all(len(each) < 2 for each in arm.values()) for arm in (ours, theirs)):
        return None
    draws, their_draws = _draws(seed, ours, theirs)
    their_draws = draws if is_paired else their_draws
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
    is_counted = has_pairs and len(x) > 1 and stats.is_one_gap(a, b)
    is_paired = is_counted or (has_spread and statistics.correlation(x, y) > _PAIRED_ABOVE)
    in_pairs = resample_pairs or is_counted
    return ArmDifference(
        delta=(iqm(ours) or 0.0) - (iqm(theirs) or 0.0),
        ci=difference_interval(ours, theirs, seed, is_paired=in_pairs),
        welch_p=stats.paired_greater(a, b) if is_paired else stats.welch(a, b, "greater"),
        is_paired=is_paired,
        is_counted=is_counted,
        mwu_p=stats.mann_whitney_greater(a, b),
        poi=float((a > b).mean() + (a == b).mean() / 2)
        if in_pairs
        else stats.probability_of_improvement(a, b),
        sigma=pooled(x, y),
    )


def pairs_needed(alpha: float) -> int:
    """Return how many pairs that all agree bring a count of signs, 2^-n, below alpha."""
    return math.floor(-math.log2(alpha)) + 1


def seeds_needed(sigma: float, effect: float) -> int | None:
    """Return the seeds per arm that show the effect with power 80 %; None without an effect."""
    return None if effect <= 0 else max(2, math.ceil(_POWER_FACTOR * (sigma / effect) ** 2))


def spread_interval(values: Sequence[float], seed: int) -> Ends | None:
    """Return the interval of a standard deviation; None for fewer than two values."""
    import numpy as np

    if len(values) < 2:
        return None
    drawn = np.asarray(values, dtype=np.float64)[draw(np.random.PCG64(seed), len(values))]
    return _middle(drawn.std(axis=1, ddof=1))


def draw(generator: np.random.PCG64, size: int) -> np.ndarray:
    """Return (resamples, size) places from raw bits: the one stream numpy promises to keep."""
    raw = generator.random_raw(_RESAMPLES * size)
    return (raw % size).reshape(_RESAMPLES, size)


def _per_unit(scores: Scores) -> list[float]:
    """Return one score per replication unit: runs are means over strata where all have as many."""
    columns = list(scores.values())
    if len({len(each) for each in columns}) == 1:
        return [math.fsum(row) / len(row) for row in zip(*columns, strict=True)]
    return [value for each in columns for value in each]


def _draws(seed: int, *arms: Scores) -> list[dict[str, np.ndarray]]:
    import numpy as np

    generator = np.random.PCG64(seed)
    return [{name: draw(generator, len(each)) for name, each in arm.items()} for arm in arms]


def _resampled(scores: Scores, draws: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the IQM of every resample; strata are drawn separately and pooled."""
    import numpy as np

    parts = [np.asarray(each, dtype=np.float64)[draws[name]] for name, each in scores.items()]
    pool = np.sort(np.concatenate(parts, axis=1), axis=1)
    cut = pool.shape[1] // 4
    return pool[:, cut : pool.shape[1] - cut].mean(axis=1)


def _middle(draws: np.ndarray) -> Ends:
    import numpy as np

    low, high = np.quantile(draws, [0.025, 0.975])
    return Ends(float(low), float(high))
