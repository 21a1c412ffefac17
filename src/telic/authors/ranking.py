"""Rewards compared without training: does a reward pay most what the judge likes best?

Examples whose worth is known were paid by the reward, term by term, and scored by the judge. What
another set of weights would have paid follows from that. A reward that ranks the examples as the
judge does is worth training; where the author's own weights do not, others that do are trained
beside them for a short while.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from telic.authors.candidate import Variant, weights_in
from telic.core.seeds import derive
from telic.judges.trial import ExampleResult

_CLEAR = 0.8
"""agreement from which the author's own weights are trained alone"""
_NOTICED = 0.1
"""by how much others must agree better to be worth a trial"""
_FEWEST = 4
"""examples below which a ranking says nothing"""
_DRAWN = 200
_SPREAD = 0.7
"""of the logarithm of a weight that is drawn"""


def agreement(
    pays: Sequence[float], scores: Sequence[float], good: Sequence[bool] = ()
) -> float | None:
    """Return how far pay ranks examples as the judge does, from -1 to 1.

    Pairs that are paid in the judge's order, less those in the opposite one; equal pay is half of
    each. A pair counts as much as the judge tells it apart. None: there is none that it does.

    Args:
        pays: what each example was paid.
        scores: what the judge gave it.
        good: which ones are good examples; then only pairs with one of them count, because which
            of two bad habits is worse leads nobody astray.
    """
    pay, score = np.asarray(pays, dtype=float), np.asarray(scores, dtype=float)
    gap = score[:, None] - score[None, :]
    if any(good):
        flags = np.asarray(good, dtype=bool)
        gap = gap * (flags[:, None] | flags[None, :])
    whole = np.abs(gap).sum()
    if not whole:
        return None
    return float((gap * np.sign(pay[:, None] - pay[None, :])).sum() / whole)


def pays_under(
    examples: Sequence[ExampleResult], own: Mapping[str, float], weights: Mapping[str, float]
) -> list[float]:
    """Return what examples would have been paid under other weights.

    A term that has no weight of its own, and one whose weight is 0, stays as it is.
    """
    pays: list[float] = []
    for example in examples:
        change = sum(
            paid * (weights.get(term, own[term]) / own[term] - 1.0)
            for term, paid in example.terms.items()
            if own.get(term)
        )
        pays.append((example.pay or 0.0) + change)
    return pays


def ranked(
    proposals: Sequence[Mapping[str, float]],
    examples: Sequence[ExampleResult],
    own: Mapping[str, float],
) -> list[tuple[float, Mapping[str, float]]]:
    """Return sets of weights with their agreement, the best first; none where nothing is known."""
    known = [each for each in examples if each.score is not None and each.pay is not None]
    if len(known) < _FEWEST:
        return []
    scores = [each.score for each in known if each.score is not None]
    good = [each.is_good for each in known]
    rated = [
        (found, weights)
        for weights in proposals
        if (found := agreement(pays_under(known, own, weights), scores, good)) is not None
    ]
    return sorted(rated, key=lambda row: -row[0])


def first_variants(
    reward: str, examples: Sequence[ExampleResult], most: int = 3
) -> tuple[Variant, ...]:
    """Return what to train first: the author's weights, and others where those rank badly.

    Args:
        reward: text of the reward file.
        examples: how the reward and the judge saw examples whose worth is known.
        most: sets of weights at most.
    """
    own = weights_in(reward)
    alone = (Variant(),)
    mine = ranked([own], examples, own)
    if len(own) < 2 or most < 2 or not mine or mine[0][0] >= _CLEAR:
        return alone
    better = [
        dict(weights)
        for found, weights in ranked(_drawn(own), examples, own)
        if found >= mine[0][0] + _NOTICED
    ]
    chosen: list[dict[str, float]] = []
    while better and len(chosen) < most - 1:  # the best, then whatever is least like it
        chosen.append(better.pop(0))
        better.sort(key=lambda weights: -min(_distance(weights, each) for each in chosen))
    return (*alone, *(Variant(weights=weights) for weights in chosen))


def _drawn(own: Mapping[str, float]) -> list[dict[str, float]]:
    """Return weights drawn around the author's own; the same for the same file."""
    chance = np.random.default_rng(derive("first weights", *sorted(own)))
    return [
        {
            name: round(weight * math.exp(_SPREAD * chance.standard_normal()), 4)
            for name, weight in own.items()
        }
        for _ in range(_DRAWN)
    ]


def _distance(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    """Return how far two sets of weights are apart, by ratios."""
    return sum(
        abs(math.log(abs(weight) / abs(other[name])))
        for name, weight in one.items()
        if weight and other[name]
    )
