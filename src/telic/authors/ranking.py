"""Choose the rewards to train: ranked without training, and tuned by the scores of trained ones.

Examples whose worth is known were paid by the reward, term by term, and scored by the judge; so are
the episodes that policies of the session played since. What another set of weights would have paid
follows from that. A reward that ranks them as the judge does is worth training; where the author's
own does not, others that do, in weights or in structure, are trained beside it for a short while.

Weights that were trained say where better ones may be: an evolution strategy with a diagonal
covariance, (mu/mu, lambda), in the logarithms of the weights. Its next generation is trained as one
population, the same program for all, and the worse half is left at every rung (successive halving).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from telic.authors.author import Author, StructureAuthor
from telic.authors.candidate import (
    SHORT,
    MemberScore,
    RewardCandidate,
    SessionIteration,
    Variant,
    program_text,
    reward_texts,
    weights_in,
)
from telic.core.seeds import derive
from telic.judges.criteria import Composition
from telic.judges.findings import ExampleResult

_CLEAR = 0.8
"""agreement from which the author's own weights are trained alone"""
_NOTICED = 0.1
"""by how much others must agree better to be worth a trial"""
_FEWEST = 4
"""examples below which a ranking says nothing"""
_DRAWN = 200
_SPREAD = 0.7
"""of the logarithm of a weight that is drawn"""
GENERATION = 8
"""sets of weights that are trained together"""
RUNGS = (SHORT / 3.0, 2.0 * SHORT / 3.0, SHORT)
"""shares of the steps after which the worse half is left: 8, 4, 2, and 1 to the end"""
_NARROW, _WIDE = 0.2, 0.6
"""standard deviation of the logarithm of a weight, at least and at most"""


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
            of two bad habits is worse does not matter.
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
    played: Sequence[ExampleResult] = (),
) -> list[tuple[float, Mapping[str, float]]]:
    """Return sets of weights with their agreement, the best first; none where nothing is known.

    Args:
        proposals: the sets of weights.
        examples: bad habits and good examples, as the reward paid and the judge scored them.
        own: the weights that they were paid under.
        played: the same of episodes that policies played.
    """
    rated = [
        (found, weights)
        for weights in proposals
        if (found := agreeing(examples, played, own, weights)) is not None
    ]
    return sorted(rated, key=lambda row: -row[0])


def agreeing(
    examples: Sequence[ExampleResult],
    played: Sequence[ExampleResult],
    own: Mapping[str, float],
    weights: Mapping[str, float],
) -> float | None:
    """Return how far a reward ranks everything recorded so far as the judge does; None: unknown.

    Examples and played episodes count alike, however many there are of each. Among the played ones
    every pair counts: which of two attempts is the better one is just what a reward must tell.
    """
    found: list[float] = []
    for group, has_good in ((examples, True), (played, False)):
        known = [each for each in group if each.score is not None and each.pay is not None]
        if len(known) < _FEWEST:
            continue
        scores = [each.score for each in known if each.score is not None]
        good = [each.is_good for each in known] if has_good else ()
        value = agreement(pays_under(known, own, weights), scores, good)
        found += [] if value is None else [value]
    return sum(found) / len(found) if found else None


class TriedReward(NamedTuple):
    """A reward of another structure, and how it saw everything recorded so far."""

    variant: Variant
    """with its reward"""
    agreement: float | None
    """None: nothing is known"""
    words: str = ""
    """what it is, for people"""


def first_rewards(
    author: Author, written: Composition, examples: Sequence[ExampleResult], most: int
) -> tuple[Variant, ...]:
    """Return what to train first: the author's reward, and others where it ranks badly.

    Args:
        author: may offer rewards of another structure.
        written: the author's reward.
        examples: how the reward and the judge saw examples whose worth is known.
        most: rewards at most.
    """
    alone = (Variant(),)
    own = weights_in(written.reward)
    mine = agreeing(examples, (), own, own)
    if most < 2 or mine is None or mine >= _CLEAR:
        return alone
    others: Sequence[TriedReward] = ()
    if isinstance(author, StructureAuthor):
        others = author.first_structures(written)
    least = mine + _NOTICED
    known = [each for each in others if each.agreement is not None and each.agreement >= least]
    known.sort(key=lambda each: -(each.agreement or 0.0))
    structures = [each.variant for each in known[: most - 1]]
    drawn = draw_weights(own, derive("first weights", *sorted(own)), _SPREAD, _DRAWN)
    rated = ranked(drawn, examples, own) if len(own) > 1 else ()
    better = [dict(weights) for found, weights in rated if found >= least]
    chosen: list[dict[str, float]] = []
    # The best, then whatever is least like it.
    while better and len(chosen) + len(structures) < most - 1:
        chosen.append(better.pop(0))
        better.sort(key=lambda weights: -min(_distance(weights, each) for each in chosen))
    return (*alone, *structures, *(Variant(weights=weights) for weights in chosen))


def draw_weights(
    around: Mapping[str, float], seed: int, spread: float, count: int
) -> list[dict[str, float]]:
    """Return sets of weights drawn around others; `spread` is that of their logarithms."""
    random = np.random.default_rng(seed)
    return [
        {
            name: round(weight * math.exp(spread * random.standard_normal()), 4)
            for name, weight in around.items()
        }
        for _ in range(count)
    ]


def _distance(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    """Return how far two sets of weights are apart, by ratios."""
    return sum(
        abs(math.log(abs(weight) / abs(other[name])))
        for name, weight in one.items()
        if weight and other[name]
    )


# ---------------------------------------------------------------------------- trained weights


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
        for place, text in enumerate(reward_texts([candidates[iteration.number]])):
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
