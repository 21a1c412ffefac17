"""The numbers of a claim: middle halves, intervals that repeat bit by bit, effect and tests.

Scores are oriented so that larger is better. numpy is loaded on the first call, not on import.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from telic.studies.evidence.series import correlation, pooled

if TYPE_CHECKING:
    import numpy as np

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
