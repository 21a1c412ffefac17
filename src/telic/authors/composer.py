"""The composer as a session's author: no model, no eyes, the same answer every time.

It revises by a search over weights. The best iteration so far is the parent. Its weights are tried
again (longer), against its worst lacks, and varied at random around, in the way that ranks examples
most like the judge; short trials on the judge's score choose among them. Weights that were tried
before are not tried again.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from telic.authors.author import Brief, MeasurableIntent
from telic.authors.candidate import (
    RewardCandidate,
    SessionIteration,
    Variant,
    read_candidates,
    weights_in,
    worth,
)
from telic.authors.ranking import ranked
from telic.composer.compose import compose
from telic.composer.notes import Wish, read_wish
from telic.core.seeds import derive
from telic.errors import NotUnderstood
from telic.judges.criteria import Composition
from telic.judges.trial import ExampleResult, Trial
from telic.judges.verdict import Verdict
from telic.storage.files import read_record
from telic.training.plan import steps_factor

# For each failure tag the terms to raise and to lower, in the words of the composer's rewards.
_CALM = ("control", "calm", "smooth")
_EDITS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "never_moves": (
        ("speed", "way", "turn", "height", "hop", "leap"),
        (*_CALM, "still", "posture"),
    ),
    "wrong_way": (("speed", "way", "turn"), _CALM),
    "too_slow": (("speed", "way", "leap", "ahead"), (*_CALM, "upright", "alive", "straight")),
    "too_fast": (("still", "calm"), ("speed",)),
    "stops": (("speed", "way"), _CALM),
    "wrong_speed": (("speed",), _CALM),
    "falls": (("upright", "alive", "posture", "tall", "body"), ("speed", "rise", "turn")),
    "drifts": (("still", "stay", "straight", "near", "there"), ("rise",)),
    "too_low": (("height", "rise", "hop", "raise", "tall", "off"), _CALM),
    "too_high": (("low", "flat", "squat", "grounded"), ("rise", "height")),
    "too_far": (("near", "way", "there"), _CALM),
    "under_rotates": (("turn", "spin"), ("rest", *_CALM)),
    "over_rotates": (("rest", "calm"), ("spin",)),
    "no_landing": (("land", "rest"), ("spin",)),
    "one_sided": (("symmetric", "alternate", "legs", "step"), ("speed",)),
    "drags": (("step", "legs", "off", "hop"), ("speed",)),
    "ends_early": (("upright", "alive"), ("speed", "rise")),
    "jitters": (_CALM, ()),
    "wrong_gait": (("rhythm", "flight", "alternate"), ("speed",)),
}
_UP, _DOWN = 2.0, 0.5
_SPREAD = 0.5
"""of the logarithm of a weight that is varied at random"""
LONGER = 1.3
"""how much longer a revision is trained"""
VARIANTS = 4
"""sets of weights that a revision tries side by side at most"""
_DRAWN = 16
"""sets of weights that are drawn to try one of them"""
_WARM_FROM = 0.6
"""score from which a policy is worth going on from; a worse one is stuck in the wrong place"""


class ComposerAuthor:
    """Writes by rules; see `telic.composer`."""

    def __init__(self, brief: Brief) -> None:
        self._brief = brief

    def read(self) -> MeasurableIntent:
        """Read the intent by the composer's grammar."""
        composed = compose(self._brief.intent, self._brief.spec, self._brief.criteria)
        return MeasurableIntent(
            criteria=composed.criteria,
            doubts=composed.doubts,
            not_understood=composed.not_understood,
            dropped=composed.dropped,
            covered=composed.covered,
        )

    def write(self, wanted: MeasurableIntent) -> Composition:
        """Write both files from the words and the agreed criteria."""
        composed = compose(self._brief.intent, self._brief.spec, wanted.criteria)
        steps = composed.steps * steps_factor(self._brief.device)
        return composed.model_copy(update={"steps": steps})

    def review(self, written: Composition, trial: Trial) -> Composition | None:
        """Rules do not change by being told; what the trial found stands in the report."""
        return None

    def revise(self, history: list[SessionIteration], notes: Sequence[str]) -> RewardCandidate:
        """Search the weights; what people noted changes terms and weights, or is told as unread."""
        candidates = read_candidates(self._brief.folder, history)
        parent = max(history, key=worth)
        own = weights_in(candidates[parent.number].reward)
        tried = self._brief.folder.trial
        examples = read_record(tried, Trial).examples if tried.exists() else ()
        revision = search_weights(history, candidates, own, examples)
        return self._heeding(revision, notes) if notes else revision

    def _heeding(self, revision: RewardCandidate, notes: Sequence[str]) -> RewardCandidate:
        """Return a revision that heeds notes, in every one of its variants."""
        wishes: list[Wish] = []
        told: list[str] = []
        intent = self._brief.intent
        for note in notes:
            try:
                wish = read_wish(note, intent, self._brief.spec)
            except NotUnderstood as error:
                told.append(error.message)
                continue
            wishes.append(wish)
            told.append(f"heeds “{note}”")
            intent = f"{intent.rstrip(' .!')}, {wish.words}" if wish.reward else intent
        return heeding(revision, wishes, told)

    def watch(self, episodes: list[Path], verdicts: list[Verdict]) -> list[Verdict]:
        """It has no eyes: what code says stands."""
        return verdicts

    def analyse(self, history: list[SessionIteration]) -> None:
        """It has no words beyond the report's own."""


def search_weights(
    history: list[SessionIteration],
    candidates: dict[int, RewardCandidate],
    own: dict[str, float],
    examples: Sequence[ExampleResult] = (),
) -> RewardCandidate:
    """Return the next candidate.

    Args:
        history: finished iterations, the latest last.
        candidates: what each of them tried, by number.
        own: the weights written in the reward's file.
        examples: what the reward paid and the judge gave, of which random weights are compared.
    """
    parent = max(history, key=worth)
    base = candidates[parent.number]
    start = {**own, **base.variants[parent.variant].weights}
    warm = (parent.score or 0.0) >= _WARM_FROM
    tried = {
        _rounded({**own, **variant.weights})
        for candidate in candidates.values()
        for variant in candidate.variants
    }
    variants, words = [Variant(weights=start, warm=warm)], ["the same for longer"]
    drawn = _drawn(start, derive("weights", len(history), parent.number))
    wild = next((dict(weights) for _, weights in ranked(drawn, examples, own)), drawn[0])
    for name, weights in (*_proposals(parent, start), ("varied at random", wild)):
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


def heeding(
    revision: RewardCandidate, wishes: Sequence[Wish], told: Sequence[str]
) -> RewardCandidate:
    """Return a revision whose reward and weights follow wishes."""
    reward = next((wish.reward for wish in wishes[::-1] if wish.reward), None)
    up: set[str] = set()
    down: set[str] = set()
    for tag in (tag for wish in wishes for tag in wish.tags):
        raised, lowered = _EDITS.get(tag, ((), ()))
        up, down = up | set(raised), (down | set(lowered)) - set(raised)
    own = weights_in(reward or revision.reward)
    variants = [
        Variant(
            weights=_scaled(
                {**own, **{k: v for k, v in variant.weights.items() if k in own}}, up, down - up
            ),
            warm=variant.warm and reward is None,  # other memory needs another network
        )
        for variant in revision.variants
    ]
    return revision.model_copy(
        update={
            "reward": reward or revision.reward,
            "variants": tuple(variants),
            "change": "; ".join((revision.change, *told)),
        }
    )


def _proposals(
    parent: SessionIteration, start: dict[str, float]
) -> list[tuple[str, dict[str, float]]]:
    proposals: list[tuple[str, dict[str, float]]] = []
    raised: set[str] = set()
    lowered: set[str] = set()
    for tag in parent.tags[: VARIANTS - 2]:
        up, down = _EDITS.get(tag, ((), ()))
        raised, lowered = raised | set(up), (lowered | set(down)) - raised
        proposals.append((f"against {tag}", _scaled(start, raised, lowered)))
    return proposals


def _drawn(start: dict[str, float], seed: int) -> list[dict[str, float]]:
    """Return weights varied at random; the first that ranks examples best will be tried."""
    random = np.random.default_rng(seed)
    return [
        {
            name: round(value * math.exp(_SPREAD * random.standard_normal()), 4)
            for name, value in start.items()
        }
        for _ in range(_DRAWN)
    ]


def _scaled(start: dict[str, float], up: set[str], down: set[str]) -> dict[str, float]:
    scaled: dict[str, float] = {}
    for name, value in start.items():
        term = re.sub(r"_\d+$", "", name)  # terms of a sequence are numbered by phase
        factor = _UP if term in up else _DOWN if term in down else 1.0
        scaled[name] = round(value * factor, 4)
    return scaled


def _rounded(weights: dict[str, float]) -> tuple[tuple[str, float], ...]:
    return tuple(sorted((name, round(value, 3)) for name, value in weights.items()))
