"""Lower confidence bounds for mean scores in [0, 1], valid for any distribution and sample size.

The hypothesis that the true mean is at most m is tested by betting. A gambler stakes a share b of
the capital on each score exceeding m, so a score x multiplies the capital by 1 + b (x/m - 1). Under
the hypothesis it is never negative and does not grow in expectation, so it reaches 1/alpha with
probability at most alpha (Ville, 1939), in which case m is rejected. The capital is split over
several shares, so that one of them suits the scores (Waudby-Smith and Ramdas, 2024, "Estimating
means of bounded random variables by betting"). The bound is the largest rejected m.

The bound holds for any distribution and any stopping rule. Twelve scores of 1 prove 0.74, not 1.

A session evaluates policies repeatedly, so its error probability of 5 % is divided among the
evaluations in advance (alpha spending): iteration i gets 5 % / (i (i + 1)), which sums to at most 5
% over any number of iterations. Half is for the end of training, half for interim evaluations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

ALPHA = 0.05
"""probability that any claim of a session is wrong"""
_SHARES = np.array([1.0, 0.85, 0.7, 0.55, 0.4, 0.28, 0.18, 0.1])
_CAPITAL = np.array([0.44, *[0.08] * 7])
"""initial capital of each share, with most on the largest, which suits low variance"""
_HALVINGS = 40
_MAX_EPISODES = 512
_ROUNDING = 1e-9


def proven_mean(scores: Sequence[float], alpha: float = ALPHA) -> float:
    """Return a lower confidence bound for a mean score with error probability at most alpha."""
    data = _checked(scores)
    if not data.any():
        return 0.0
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):  # the capital decreases with m
        middle = (low + high) / 2.0
        low, high = (middle, high) if _is_disproved(data, middle, alpha) else (low, middle)
    return low


def proves(scores: Sequence[float], mean: float, alpha: float = ALPHA) -> bool:
    """Return whether `proven_mean(scores, alpha) >= mean` without computing the bound."""
    data = _checked(scores)
    return mean <= 0.0 or (bool(data.any()) and _is_disproved(data, mean, alpha))


def _checked(scores: Sequence[float]) -> np.ndarray:
    data = np.asarray(scores, dtype=np.float64)
    if len(data) and not (data.min() >= -_ROUNDING and data.max() <= 1.0 + _ROUNDING):
        raise ValueError("scores must be between 0 and 1")
    return data.clip(0.0, 1.0)


def _is_disproved(data: np.ndarray, mean: float, alpha: float) -> bool:
    """Return whether betting against this mean multiplies the capital by at least 1/alpha."""
    growth = _SHARES[:, None] * (data / mean - 1.0)
    with np.errstate(divide="ignore"):  # the largest share loses everything at a score of 0
        capital = np.log(_CAPITAL) + np.log1p(growth).sum(axis=1)
    return bool(np.logaddexp.reduce(capital) >= -math.log(alpha))


def fewest_scores(mean: float, alpha: float) -> int:
    """Return the number of scores of 1 that prove a mean, capped at 512."""
    if mean <= 0.0:
        return 1
    if mean >= 1.0:
        return _MAX_EPISODES
    enough = math.log(alpha * _CAPITAL[0]) / math.log(mean)
    return max(1, min(_MAX_EPISODES, math.ceil(enough)))


def spending(iteration: int, policies: int, looks: int, *, is_last: bool) -> float:
    """Return the error probability allotted to one policy at one interim evaluation."""
    whole = ALPHA / (iteration * (iteration + 1)) / max(1, policies)
    if looks < 1:
        return whole
    return whole / 2.0 if is_last else whole / 2.0 / looks
