"""The composer's reviser: other weights against what the judge missed, searched by population.

The best iteration so far is the parent. Its weights are tried again (longer), against its worst
lacks, and varied at random around; short trials on the judge's score choose among them. Weights
that were tried before are not tried again.
"""

from __future__ import annotations

import math

import numpy as np

from telic.core.seeds import derive
from telic.session.records import Candidate, Iteration, Variant

# For each failure tag the terms to raise and to lower, in the words of the composer's rewards.
_EDITS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "too_slow": (("speed",), ("control", "upright", "alive", "straight")),
    "stops": (("speed",), ("control",)),
    "wrong_speed": (("speed",), ("control",)),
    "falls": (("upright", "alive", "posture"), ("speed", "rise")),
    "drifts": (("still", "straight", "near"), ()),
    "too_low": (("height", "rise"), ("control",)),
    "too_far": (("near",), ("control",)),
    "under_rotates": (("turn", "spin"), ("rest", "control")),
    "over_rotates": (("rest",), ("spin",)),
    "no_landing": (("land", "rest"), ("spin",)),
    "jitters": (("control",), ()),
}
_UP, _DOWN = 2.0, 0.5
_SPREAD = 0.5
"""of the logarithm of a weight that is varied at random"""
LONGER = 1.3
"""how much longer a revision is trained"""
VARIANTS = 4
"""sets of weights that a revision tries side by side at most"""
_WARM_FROM = 0.6
"""score from which a policy is worth going on from; a worse one is stuck in the wrong place"""


def revise(
    history: list[Iteration], candidates: dict[int, Candidate], own: dict[str, float]
) -> Candidate:
    """Return the next candidate.

    Args:
        history: finished iterations, the latest last.
        candidates: what each of them tried, by number.
        own: the weights written in the reward's file.
    """
    parent = max(history, key=lambda each: -1.0 if each.score is None else each.score)
    base = candidates[parent.number]
    start = {**own, **base.variants[parent.variant].weights}
    warm = (parent.score or 0.0) >= _WARM_FROM
    tried = {
        _rounded({**own, **each.weights})
        for candidate in candidates.values()
        for each in candidate.variants
    }
    variants, words = [Variant(weights=start, warm=warm)], ["the same for longer"]
    for name, weights in _proposals(parent, start, len(history)):
        if _rounded(weights) not in tried:
            tried.add(_rounded(weights))
            variants.append(Variant(weights=weights, warm=warm))
            words.append(name)
    return base.model_copy(
        update={
            "variants": tuple(variants),
            "steps": int(base.steps * LONGER),
            "parent": parent.number,
            "change": f"from iteration {parent.number}: {', '.join(words)}",
            "diagnosis": f"lacking: {', '.join(parent.tags) or 'nothing that has a name'}",
            "lessons": (),
        }
    )


def _proposals(
    parent: Iteration, start: dict[str, float], round_number: int
) -> list[tuple[str, dict[str, float]]]:
    found: list[tuple[str, dict[str, float]]] = []
    raised: set[str] = set()
    lowered: set[str] = set()
    for tag in parent.tags[: VARIANTS - 2]:
        up, down = _EDITS.get(tag, ((), ()))
        raised, lowered = raised | set(up), (lowered | set(down)) - raised
        found.append((f"against {tag}", _scaled(start, raised, lowered)))
    random = np.random.default_rng(derive("weights", round_number, parent.number))
    wild = {
        name: round(value * math.exp(_SPREAD * random.standard_normal()), 4)
        for name, value in start.items()
    }
    return [*found, ("varied at random", wild)]


def _scaled(start: dict[str, float], up: set[str], down: set[str]) -> dict[str, float]:
    return {
        name: round(value * (_UP if name in up else _DOWN if name in down else 1.0), 4)
        for name, value in start.items()
    }


def _rounded(weights: dict[str, float]) -> tuple[tuple[str, float], ...]:
    return tuple(sorted((name, round(value, 3)) for name, value in weights.items()))
