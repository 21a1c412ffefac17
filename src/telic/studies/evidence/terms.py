"""What one term of a reward did over training: share, trend, saturation, alignment, churn."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from telic.studies.documents.base import Part
from telic.studies.evidence.series import (
    Series,
    covariance,
    mean,
    rank_correlation,
    slope,
    smooth,
    spread,
    turns,
)

WINDOW = 0.2
"""the first and the last fifth of training are compared"""
FEWEST_EVALUATIONS = 8
EPSILON = 1e-8
_SMOOTHING = 5


class TermReflection(Part):
    """One term of the reward."""

    name: str
    share: float | None
    var_share: float | None
    mean_w0: float | None
    mean_w1: float | None
    trend: float | None
    saturation: float | None
    """bounded terms: share of the last window near the top; None for unbounded ones"""
    alignment: float | None
    """rank correlation with the metric at evaluations; None for fewer than 8"""
    churn: float | None
    flags: tuple[str, ...] = ()


def reflect_term(
    name: str,
    terms: Mapping[str, Series],
    last: Mapping[str, Series],
    shares: Mapping[str, float | None],
    bounds: tuple[float, float] | None,
    metric: Series | None,
    is_below: bool,
) -> TermReflection:
    """Return what a term did; `last` holds the last window of every term."""
    whole, window, share = terms[name], last[name], shares[name]
    found = TermReflection(
        name=name,
        share=share,
        var_share=_variance_share(name, last),
        mean_w0=mean(whole.first(WINDOW).values),
        mean_w1=mean(window.values),
        trend=_trend(whole, window),
        saturation=_near_top(window.values, bounds) if bounds else None,
        alignment=_alignment(whole, metric),
        churn=_churn(whole.values),
    )
    flat = _has_levelled_off(whole, window) if bounds is None else False
    return found.model_copy(
        update={"flags": _flags(found, len(terms), spread(window.values), is_below, flat)}
    )


def _flags(
    term: TermReflection, count: int, deviation: float, is_below: bool, is_flat: bool
) -> tuple[str, ...]:
    share = term.share if term.share is not None else 0.0
    tests = {
        "dominant_critical": count >= 3 and share > 0.90,
        "dominant": count >= 3 and 0.60 < share <= 0.90,
        "variance_dominant": count > 1 and term.var_share is not None and term.var_share > 0.90,
        "inactive": share < 0.01 and deviation < 1e-6,
        "saturated": is_below and (is_flat or (term.saturation or 0.0) >= 0.80),
        "rising": (term.trend or 0.0) > 0.05,
        "falling": (term.trend or 0.0) < -0.05,
        "misaligned": term.alignment is not None and term.alignment < -0.5,
        "oscillating": (term.churn or 0.0) > 20,
    }
    if tests["inactive"]:
        tests["saturated"] = False  # a term that does nothing has nothing to saturate
    return tuple(name for name, holds in tests.items() if holds)


def _variance_share(name: str, last: Mapping[str, Series]) -> float | None:
    """Return cov(c_i, sum of c) / var(sum of c) over the steps that all terms have."""
    common = set.intersection(*(set(each.steps) for each in last.values()))
    steps = sorted(common)
    columns = {key: dict(zip(each.steps, each.values, strict=True)) for key, each in last.items()}
    total = [math.fsum(each[step] for each in columns.values()) for step in steps]
    variance, shared = covariance(total, total), None
    if variance is not None and variance > 0:
        shared = covariance([columns[name][step] for step in steps], total)
    return None if shared is None or not variance else shared / variance


def _trend(whole: Series, window: Series) -> float | None:
    found = slope(window.steps, window.values)
    if found is None:
        return None
    length = window.steps[-1] - window.steps[0]
    return found * length / (max(map(abs, whole.values)) + EPSILON)


def _near_top(values: Sequence[float], bounds: tuple[float, float]) -> float | None:
    """Return the share of values in the top 5 % of the range.

    Bounds given for a cost, as if it were positive, are mirrored when the contribution is not.
    """
    low, high = bounds
    if low >= 0 and values and max(values) <= 0:
        low, high = -high, -low
    edge = low + 0.95 * (high - low)
    return sum(value >= edge for value in values) / len(values) if values else None


def _has_levelled_off(whole: Series, window: Series) -> bool:
    """Tell whether the last 30 % gained under 1 % of the range, with hardly any variation left."""
    tail = whole.last(0.3)
    third = max(1, len(tail.values) // 3)
    before, after = mean(tail.values[:third]), mean(tail.values[-third:])
    middle, height = mean(window.values), max(whole.values) - min(whole.values)
    if before is None or after is None or not middle or height <= 0:
        return False
    return abs(after - before) < 0.01 * height and spread(window.values) / abs(middle) < 0.05


def _alignment(term: Series, metric: Series | None) -> float | None:
    pairs = [
        (value, goal)
        for step, goal in (zip(metric.steps, metric.values, strict=True) if metric else ())
        if (value := term.at(step)) is not None
    ]
    if len(pairs) < FEWEST_EVALUATIONS:
        return None
    return rank_correlation([each for each, _ in pairs], [goal for _, goal in pairs])


def _churn(values: Sequence[float]) -> float | None:
    if len(values) < FEWEST_EVALUATIONS:
        return None
    return 100 * turns(smooth(values, _SMOOTHING)) / len(values)
