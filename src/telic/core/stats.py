"""Small statistics with stated uncertainty; plain numpy."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
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


_EXACT_PAIRS = 2500
"""largest product of the two sizes for which the exact rank test is counted"""
_ROUNDING = 1e-12
_EXACT_SIGNS, _SIGN_DRAWS = 16, 20_000
_TAILS = 0.05
_FRACTION_TERMS, _FRACTION_PRECISION, _TINY = 500, 1e-15, 1e-300


def welch(a: np.ndarray, b: np.ndarray) -> float | None:
    """Return the two-sided p of Welch's t-test; None where it says nothing.

    Fewer than two values, or no spread in either list, leave the test without a scale.
    """
    statistic = _welch_statistic(a, b)
    return None if statistic is None else student_tail(abs(statistic[0]), statistic[1])


def welch_greater(a: np.ndarray, b: np.ndarray) -> float | None:
    """Return the one-sided p of Welch's t-test that a is larger; None where it says nothing."""
    statistic = _welch_statistic(a, b)
    return None if statistic is None else student_above(*statistic)


def paired_greater(a: np.ndarray, b: np.ndarray) -> float | None:
    """Return the one-sided p of the paired t-test that a is larger; None where it says nothing.

    Differences that are all the same leave the t-test without a scale. Then signs are counted: if
    the pairs were alike, each would be as likely the other way round, and all of them being above
    has the chance 2^-n.
    """
    difference = a - b
    if len(difference) < 2:
        return None
    if is_one_gap(a, b):
        return 0.5 ** len(difference) if difference[0] > 0 else 1.0
    error = difference.std(ddof=1) / math.sqrt(len(difference))
    if error == 0:
        return None
    return student_above(float(difference.mean() / error), len(difference) - 1.0)


def is_one_gap(a: np.ndarray, b: np.ndarray) -> bool:
    """Say whether all pairs differ by the same amount, which is not 0; rounding does not count."""
    difference = a - b
    rounding = _ROUNDING * max(np.abs(a).max(), np.abs(b).max())
    return bool(np.ptp(difference) <= rounding < np.abs(difference).min())


def sign_flips(differences: np.ndarray) -> float:
    """Return the one-sided p of the sign-flip test that the mean is above 0.

    If each difference is as likely the other way round, all ways to sign them are equally likely;
    p is the share of ways whose mean is at least the one seen. Exact up to 16 differences, counted
    over drawn signs beyond, the seen way among them. Zeros tell nothing and change nothing.
    """
    sizes = np.abs(differences)
    if len(sizes) <= _EXACT_SIGNS:
        ways = np.arange(1 << len(sizes))[:, None] >> np.arange(len(sizes)) & 1
        signs = 2.0 * ways - 1.0
    else:
        drawn = np.random.default_rng(0).integers(0, 2, (_SIGN_DRAWS, len(sizes)))
        signs = np.concatenate((2.0 * drawn - 1.0, np.sign(differences)[None]))
    seen = differences.sum()
    return float((signs @ sizes >= seen - _ROUNDING * max(1.0, sizes.sum())).mean())


def student_interval(values: np.ndarray) -> Interval | None:
    """Return the 95 % interval of a mean by Student's t; None for fewer than two values."""
    if len(values) < 2:
        return None
    point = _student_point(len(values) - 1)
    half = point * float(values.std(ddof=1)) / math.sqrt(len(values))
    return Interval(float(values.mean()) - half, float(values.mean()) + half)


@cache
def _student_point(freedom: int) -> float:
    """Return the t whose two tails together hold 5 %."""
    low, high = 0.0, 20.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        is_below = student_tail(middle, float(freedom)) > _TAILS
        low, high = (middle, high) if is_below else (low, middle)
    return high


def _welch_statistic(a: np.ndarray, b: np.ndarray) -> tuple[float, float] | None:
    if len(a) < 2 or len(b) < 2:
        return None
    va, vb = a.var(ddof=1) / len(a), b.var(ddof=1) / len(b)
    if va + vb == 0:
        return None
    t = (a.mean() - b.mean()) / math.sqrt(va + vb)
    # Welch-Satterthwaite
    freedom = (va + vb) ** 2 / (va**2 / (len(a) - 1) + vb**2 / (len(b) - 1))
    return float(t), float(freedom)


def student_above(t: float, freedom: float) -> float:
    """Return the chance that Student's T exceeds t."""
    half = student_tail(abs(t), freedom) / 2
    return half if t >= 0 else 1 - half


def student_tail(t: float, freedom: float) -> float:
    """Return the chance that |T| exceeds t, for Student's T: I_x(freedom / 2, 1/2).

    I is the regularised incomplete beta function at x = freedom / (freedom + t²).
    """
    x = freedom / (freedom + t * t)
    return _incomplete_beta(x, freedom / 2, 0.5)


def _incomplete_beta(x: float, a: float, b: float) -> float:
    """Return I_x(a, b), by the continued fraction that converges on this side of its middle."""
    if x in (0.0, 1.0):
        return x
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(1 - x, b, a)
    front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    front += a * math.log(x) + b * math.log1p(-x)
    # Modified Lentz: value = numerator / denominator of ever longer fractions.
    value = numerator = 1.0
    denominator = 0.0
    for term in range(_FRACTION_TERMS):
        m = term // 2
        if term == 0:
            step = 1.0
        elif term % 2:
            step = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            step = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        denominator = 1 / _not_zero(1 + step * denominator)
        numerator = _not_zero(1 + step / numerator)
        value *= numerator * denominator
        if abs(numerator * denominator - 1) < _FRACTION_PRECISION:
            break
    return math.exp(front) * (value - 1) / a


def _not_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


def mann_whitney(a: np.ndarray, b: np.ndarray) -> float | None:
    """Return the two-sided p of the rank test: normal approximation, ties and continuity corrected.

    None for fewer than two values, or when all values are equal.
    """
    n, m = len(a), len(b)
    if n < 2 or m < 2:
        return None
    u = probability_of_improvement(a, b) * n * m
    variance = _rank_variance(a, b)
    if variance <= 0:
        return None
    z = max(0.0, abs(u - n * m / 2) - 0.5) / math.sqrt(variance)
    return math.erfc(z / math.sqrt(2))


def _rank_variance(a: np.ndarray, b: np.ndarray) -> float:
    _, counts = np.unique(np.concatenate((a, b)), return_counts=True)
    total = len(a) + len(b)
    ties = (counts**3 - counts).sum() / (total * (total - 1))
    return float(len(a) * len(b) / 12 * (total + 1 - ties))


def mann_whitney_greater(a: np.ndarray, b: np.ndarray) -> float | None:
    """Return the one-sided p of the rank test that a is larger, counted exactly, ties included.

    Every way to deal the pooled ranks to the two lists is equally likely; p is the share of deals
    whose rank sum is at least the one seen. Lists too long to count use the normal approximation.
    None without values on either side, or when all values are equal.
    """
    n, m = len(a), len(b)
    if not n or not m or _rank_variance(a, b) <= 0:
        return None
    if n * m > _EXACT_PAIRS:
        u = probability_of_improvement(a, b) * n * m
        z = (u - n * m / 2 - 0.5) / math.sqrt(_rank_variance(a, b))
        return math.erfc(z / math.sqrt(2)) / 2
    ranks = _doubled_ranks(np.concatenate((a, b)))
    seen, ways = sum(ranks[:n]), _rank_sums(ranks, n)
    above = sum(count for total, count in ways.items() if total >= seen)
    return above / math.comb(n + m, n)


def _doubled_ranks(values: np.ndarray) -> list[int]:
    """Return twice the mid-rank of every value, which is a whole number even for ties."""
    below = (values[None, :] < values[:, None]).sum(1)
    equal = (values[None, :] == values[:, None]).sum(1)
    return [int(each) for each in 2 * below + equal + 1]


def _rank_sums(ranks: Sequence[int], size: int) -> dict[int, int]:
    """Return in how many ways `size` of the ranks give each sum."""
    ways: list[dict[int, int]] = [{0: 1}, *({} for _ in range(size))]
    for rank in ranks:
        for taken in range(size, 0, -1):
            for total, count in ways[taken - 1].items():
                ways[taken][total + rank] = ways[taken].get(total + rank, 0) + count
    return ways[size]


def probability_of_improvement(a: np.ndarray, b: np.ndarray) -> float:
    """Return the share of pairs in which a is larger; ties count half."""
    above = (a[:, None] > b[None, :]).mean()
    return float(above + (a[:, None] == b[None, :]).mean() / 2)


def holm(values: Sequence[float | None]) -> list[float | None]:
    """Return p values with Holm's correction over all that are known."""
    ordered = sorted((p, place) for place, p in enumerate(values) if p is not None)
    out: list[float | None] = [None] * len(values)
    highest = 0.0
    for rank, (p, place) in enumerate(ordered):
        highest = max(highest, min(1.0, (len(ordered) - rank) * p))
        out[place] = highest
    return out
