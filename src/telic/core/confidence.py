"""Lower bound of a mean of scores: one that holds for any scores in [0, 1], however few.

Suppose the true mean were at most m. A gambler who bets a share b of a capital on every score being
above m has, after each score x, 1 + b (x/m - 1) times what there was; that is never negative, and
on average no gain. So the chance that a capital ever becomes 1/alpha is at most alpha (Ville,
1939), and an m under which it did is disproved. The capital is spread over several shares, of
which one fits the scores that come (Waudby-Smith and Ramdas, 2024, "Estimating means of bounded
random variables by betting"). The bound is the largest m that is disproved.

It holds for any distribution and any stopping rule; twelve scores of 1 prove 0.74 and not 1.

A session looks at policies more than once. What may go wrong, 5 % for the whole session, is
divided among the looks before the first one: iteration i has 5 % / (i (i + 1)), which adds up to
5 % however many there are; half of that is for the end of a training, half for the looks before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

ALPHA = 0.05
"""chance that anything a session claims is wrong"""
_SHARES = np.array([1.0, 0.85, 0.7, 0.55, 0.4, 0.28, 0.18, 0.1])
_CAPITAL = np.array([0.44, *[0.08] * 7])
"""put on each share: most on the boldest, which is right for scores that hardly vary"""
_HALVINGS = 40
_MOST_EPISODES = 512
_ROUNDING = 1e-9


def proven_mean(scores: Sequence[float], alpha: float = ALPHA) -> float:
    """Return the lower confidence bound of a mean score, wrong with probability alpha at most."""
    data = _checked(scores)
    if not data.any():
        return 0.0
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):  # the capital falls as m rises
        middle = (low + high) / 2.0
        low, high = (middle, high) if _is_disproved(data, middle, alpha) else (low, middle)
    return low


def proves(scores: Sequence[float], mean: float, alpha: float = ALPHA) -> bool:
    """Say whether scores prove a mean: `proven_mean(scores, alpha) >= mean`, in less time."""
    data = _checked(scores)
    return mean <= 0.0 or (bool(data.any()) and _is_disproved(data, mean, alpha))


def _checked(scores: Sequence[float]) -> np.ndarray:
    data = np.asarray(scores, dtype=np.float64)
    if len(data) and not (data.min() >= -_ROUNDING and data.max() <= 1.0 + _ROUNDING):
        raise ValueError("scores lie between 0 and 1")
    return data.clip(0.0, 1.0)


def _is_disproved(data: np.ndarray, mean: float, alpha: float) -> bool:
    """Return whether the capital of a gambler who bets against this mean became 1/alpha."""
    growth = _SHARES[:, None] * (data / mean - 1.0)
    with np.errstate(divide="ignore"):  # the boldest loses all at a score of 0
        capital = np.log(_CAPITAL) + np.log1p(growth).sum(axis=1)
    return bool(np.logaddexp.reduce(capital) >= -math.log(alpha))


def fewest_scores(mean: float, alpha: float) -> int:
    """Return how many scores of 1 prove a mean; at most 512, also where no number does."""
    if mean <= 0.0:
        return 1
    if mean >= 1.0:
        return _MOST_EPISODES
    enough = math.log(alpha * _CAPITAL[0]) / math.log(mean)
    return max(1, min(_MOST_EPISODES, math.ceil(enough)))


def spending(iteration: int, policies: int, looks: int, *, is_last: bool) -> float:
    """Return the chance of a wrong claim about one policy, at one look of an iteration."""
    whole = ALPHA / (iteration * (iteration + 1)) / max(1, policies)
    if looks < 1:
        return whole
    return whole / 2.0 if is_last else whole / 2.0 / looks
