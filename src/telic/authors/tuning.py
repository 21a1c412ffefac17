"""Numeric tuning of a reward's weights on the judge's score.

Weights that were tried say where better ones may be: an evolution strategy with a diagonal
covariance, (mu/mu, lambda), in the logarithms of the weights. Its next generation is trained as one
population, the same program for all, and the worse half is left at every rung (successive halving).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from telic.authors.candidate import (
    SHORT,
    MemberScore,
    RewardCandidate,
    SessionIteration,
    program_text,
    reward_text,
    weights_in,
)
from telic.core.seeds import derive

GENERATION = 8
"""sets of weights that are trained together"""
RUNGS = (SHORT / 3.0, 2.0 * SHORT / 3.0, SHORT)
"""shares of the steps after which the worse half is left: 8, 4, 2, and 1 to the end"""
_NARROW, _WIDE = 0.2, 0.6
"""standard deviation of the logarithm of a weight, at least and at most"""


class ScoredWeights(NamedTuple):
    """Weights that policies were trained with, and what the judge gave them."""

    weights: dict[str, float]
    score: float


def scored_weights(
    history: Sequence[SessionIteration], candidates: Mapping[int, RewardCandidate], program: str
) -> list[ScoredWeights]:
    """Return all weights that were tried with a program, as far as each was trained."""
    found: list[ScoredWeights] = []
    for iteration in history:
        candidate = candidates[iteration.number]
        for place in range(len(candidate.variants)):
            text = reward_text(candidate, place)
            score = _mean(iteration.members, place)
            score = _mean(iteration.trials, place) if score is None else score
            if score is not None and program_text(text) == program:
                found.append(ScoredWeights(weights_in(text), score))
    return found


def _mean(members: Sequence[MemberScore], variant: int) -> float | None:
    scores = [
        member.judgement.score
        for member in members
        if member.variant == variant and member.judgement.score is not None
    ]
    return sum(scores) / len(scores) if scores else None


def next_generation(
    start: Mapping[str, float],
    tried: Sequence[ScoredWeights],
    seed: int,
    count: int = GENERATION - 1,
) -> list[dict[str, float]]:
    """Return new weights around the better half of those tried; the same for the same seed.

    They come in pairs that lie opposite each other, so that their middle is not moved by chance.
    Signs stay, and so does a weight of 0: a term that was left out.

    Args:
        start: the best weights so far, which stand in where nothing was tried.
        tried: weights of the same terms with their scores.
        seed: of the draws.
        count: how many.
    """
    names = [name for name, weight in start.items() if weight]
    middle, spread = _distribution(start, names, tried)
    chance = np.random.default_rng(derive("generation", seed))
    out: list[dict[str, float]] = []
    step = np.zeros(len(names))
    for number in range(count):
        step = -step if number % 2 else chance.standard_normal(len(names))
        drawn = np.exp(middle + spread * step)
        moved = {
            name: round(math.copysign(float(value), start[name]), 4)
            for name, value in zip(names, drawn, strict=True)
        }
        out.append({**start, **moved})
    return out


def _distribution(
    start: Mapping[str, float], names: Sequence[str], tried: Sequence[ScoredWeights]
) -> tuple[np.ndarray, np.ndarray]:
    """Return middle and spread of the logarithms of the weights.

    The spread is measured from the middle of everything tried, not of the best: where the best lie
    to one side, it grows in that direction.
    """
    known = [each for each in tried if all(each.weights.get(name) for name in names)]
    if len(known) <= 2:
        return _logs([start], names)[0], np.full(len(names), _WIDE)
    best = sorted(known, key=lambda each: -each.score)[: min(len(known) // 2, GENERATION // 2)]
    logs, everything = (_logs([each.weights for each in some], names) for some in (best, known))
    # w_i ~ log(mu + 1/2) - log(i), as in CMA-ES (Hansen, 2016).
    shares = math.log(len(best) + 0.5) - np.log(np.arange(1, len(best) + 1))
    shares = shares / shares.sum()
    spread = np.sqrt(shares @ (logs - everything.mean(0)) ** 2)
    return shares @ logs, np.clip(spread, _NARROW, _WIDE)


def _logs(rows: Sequence[Mapping[str, float]], names: Sequence[str]) -> np.ndarray:
    return np.log(np.abs([[row[name] for name in names] for row in rows]))  # (rows, terms)
