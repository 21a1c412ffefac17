"""Deterministic session author based on the composer, without models or vision.

Before training, rewards are compared with the judge on examples of known quality. If the composed
reward and the judge rank the examples differently, variants with better weights are screened too.

A revision starts from the best iteration. Its variants are the unchanged reward with longer
training (even longer if the score was still rising) and weights changed to counter the worst
failures. Screening runs select the best variant. Weights that were tried before are skipped.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from telic.authors.author import Author, Brief, MeasurableIntent
from telic.authors.candidate import (
    RewardCandidate,
    SessionIteration,
    Variant,
    program_text,
    read_candidates,
    reward_text,
    structure_text,
    weights_in,
    worth,
)
from telic.composer.compose import compose
from telic.composer.lexicon import word_table
from telic.composer.notes import ParsedNote, read_request
from telic.core.seeds import derive
from telic.errors import NotUnderstood
from telic.judges.criteria import Composition, Criterion
from telic.judges.validation import ExampleResult, JudgeValidation
from telic.storage.files import read_json_lines, read_record
from telic.training.plan import steps_factor

_Weights = Mapping[str, float]

# ---- ranking weights on examples

_CLEAR, _NOTICED = 0.8, 0.1
"""rank agreement above which only the original weights are trained, and minimum gain to screen"""
_MIN_EXAMPLES = 4
"""minimum number of examples for a ranking"""


def rank_agreement(
    own: _Weights, examples: Sequence[ExampleResult], weights: _Weights | None = None
) -> float | None:
    """Return the rank agreement in [-1, 1] between returns under some weights and judge scores.

    The agreement is the concordant minus the discordant pairs, weighted by score difference. Ties
    in return count as 0. If there are good examples, only pairs that contain one are used, because
    the order of failure modes does not matter. Returns None if unknown or if all scores are equal.
    The pay of the examples was computed with `own`, and `weights` are evaluated instead.
    """
    known = [each for each in examples if each.score is not None and each.pay is not None]
    if len(known) < _MIN_EXAMPLES:
        return None
    # Terms without a weight or with weight 0 are left unchanged.
    factors = {
        term: (weights or own).get(term, weight) / weight - 1.0
        for term, weight in own.items()
        if weight
    }
    pay = np.array(
        [
            (each.pay or 0.0)
            + sum(paid * factors.get(term, 0.0) for term, paid in each.terms.items())
            for each in known
        ]
    )
    score = np.array([each.score or 0.0 for each in known])
    gap = score[:, None] - score[None, :]
    good = np.array([each.is_good for each in known])
    if good.any():
        gap = gap * (good[:, None] | good[None, :])
    whole = np.abs(gap).sum()
    return float((gap * np.sign(pay[:, None] - pay[None, :])).sum() / whole) if whole else None


def _ranked(
    own: _Weights, examples: Sequence[ExampleResult], proposals: Iterable[_Weights]
) -> list[tuple[float, _Weights]]:
    """Return (agreement, weights) pairs sorted by agreement, omitting unknown agreements."""
    rated = [(rank_agreement(own, examples, weights), weights) for weights in proposals]
    known = [(found, weights) for found, weights in rated if found is not None]
    return sorted(known, key=lambda row: -row[0])


def first_rewards(
    written: Composition, examples: Sequence[ExampleResult], most: int
) -> tuple[Variant, ...]:
    """Return at most `most` initial variants.

    If the original reward and the judge rank the examples equally, it is the only variant.
    """
    own = weights_in(written.reward)
    mine = rank_agreement(own, examples)
    if most < 2 or mine is None or mine >= _CLEAR or len(own) < 2:
        return (Variant(),)
    drawn = draw_weights(own, derive("first weights", *sorted(own)), 0.7, 200)
    rated = _ranked(own, examples, drawn)
    better = [Variant(weights=dict(each)) for found, each in rated if found >= mine + _NOTICED]
    return (Variant(), *better[: most - 1])


def draw_weights(around: _Weights, seed: int, spread: float, count: int) -> list[dict[str, float]]:
    """Sample weights from a log-normal distribution. `spread` is the log standard deviation."""
    random = np.random.default_rng(seed)
    return [
        {
            name: round(weight * math.exp(spread * random.standard_normal()), 4)
            for name, weight in around.items()
        }
        for _ in range(count)
    ]


# ---- revisions

_UP, _DOWN = 2.0, 0.5
LONGER, LONGEST = 1.3, 1.5
"""factors of training steps for a revision, and for one whose parent was still improving"""
VARIANTS = 4
"""maximum number of variants of a revision"""
_GOOD, _PROMISING = 0.6, 0.2
"""minimum scores for a warm start, in general and if the score is still rising"""
_RISING = 0.05
"""minimum score gain over the second half of training that counts as still rising"""


def next_candidate(
    history: Sequence[SessionIteration],
    candidates: Mapping[int, RewardCandidate],
    *,
    examples: Sequence[ExampleResult] = (),
    rises: bool = False,
) -> RewardCandidate:
    """Return the next candidate: longer training of the best iteration, and new weights.

    `examples` contains the returns under the best reward. `rises` is True if its score was still
    rising.
    """
    parent = max(history, key=worth)
    base = candidates[parent.number]
    text, chosen = structure_text(base, parent.variant), base.variants[parent.variant]
    own, program = weights_in(text), program_text(text)
    kept = Variant(
        weights={**own, **chosen.weights},
        warm=(parent.score or 0.0) >= (_PROMISING if rises else _GOOD),
        structure=chosen.structure,
    )
    variants, words = [kept], ["the same for longer"]
    tried = {
        (program_text(each), _rounded(weights_in(each)))
        for candidate in candidates.values()
        for each in (reward_text(candidate, k) for k in range(len(candidate.variants)))
    }
    drawn = draw_weights(kept.weights, derive("weights", len(history), parent.number), 0.5, 16)
    order = _ranked(own, examples, drawn)
    wild = dict(order[0][1]) if order else drawn[0]
    proposals = _proposals(history, parent, kept.weights)
    for name, weights in (*proposals, ("varied at random", wild)):
        key = (program, _rounded(weights))
        if key not in tried and len(variants) < VARIANTS:
            tried.add(key)
            variants.append(kept.model_copy(update={"weights": weights}))
            words.append(name)
    words += ["more steps, because its score was still rising"] if rises else []
    return base.model_copy(
        update={
            "reward": text,
            "variants": tuple(variants),
            "rungs": (),
            "steps": int(base.steps * (LONGEST if rises else LONGER)),
            "parent": parent.number,
            "change": f"from iteration {parent.number}: {', '.join(words)}",
            "diagnosis": f"failed: {', '.join(parent.tags) or 'no named change'}",
            "lessons": (),
        }
    )


def _proposals(
    history: Sequence[SessionIteration], parent: SessionIteration, start: dict[str, float]
) -> list[tuple[str, dict[str, float]]]:
    """Return named weight changes that counter the worst failures."""
    found: list[tuple[str, dict[str, float]]] = []
    worst = next(iter(parent.tags), "")
    if any(worst in each.tags for each in history if each is not parent):
        # Recurring failure: remove the opposing terms, since halving them was not enough.
        opposed = word_table("repairs").get(worst, {"lowers": ()})["lowers"]
        without = [name for name, value in start.items() if value and _term(name) in opposed]
        if without and len(without) < len(start):
            left = {**start, **dict.fromkeys(without, 0.0)}
            found.append((f"without {' and '.join(without)}", left))
    tags = parent.tags[: VARIANTS - 2]
    against = (
        (f"against {tag}", _against(start, tags[:place])) for place, tag in enumerate(tags, 1)
    )
    return [*found, *against]


def _against(start: _Weights, tags: Iterable[str]) -> dict[str, float]:
    """Raise the weights of terms that counter failures, and lower those of opposing terms."""
    up: set[str] = set()
    down: set[str] = set()
    for tag in tags:
        row = word_table("repairs").get(tag, {"raises": (), "lowers": ()})
        up, down = up | {*row["raises"]}, down | {*row["lowers"]}
    factors = dict.fromkeys(down, _DOWN) | dict.fromkeys(up, _UP)
    return {name: round(value * factors.get(_term(name), 1.0), 4) for name, value in start.items()}


def is_improving(checkpoints: Sequence[Mapping[str, Any]], end: float | None) -> bool:
    """Return whether the score was rising over the second half of training, up to `end`."""
    rows = [[each for each in row["scores"].values() if each is not None] for row in checkpoints]
    means = [sum(scores) / len(scores) for scores in rows if scores]
    if end is None or len(means) < 2:
        return False
    return end - means[len(means) // 2] >= _RISING and end >= max(means) - _RISING


def apply_requests(
    revision: RewardCandidate, wishes: Sequence[ParsedNote], changes: Sequence[str]
) -> RewardCandidate:
    """Apply the reward and weight changes requested in notes to a revision."""
    reward = next((wish.reward for wish in wishes[::-1] if wish.reward), None)
    tags = [tag for wish in wishes for tag in wish.tags]
    variants: list[Variant] = []
    for variant in revision.variants:
        if reward is not None and variant.reward is not None:
            continue  # its structure differs from the requested reward
        own = weights_in(reward or variant.reward or revision.reward)
        kept = {name: value for name, value in variant.weights.items() if name in own}
        update: dict[str, Any] = {"weights": _against({**own, **kept}, tags)}
        if reward is not None:  # different memory changes the network's input
            update |= {"warm": False, "structure": ()}
        variants.append(variant.model_copy(update=update))
    return revision.model_copy(
        update={
            "reward": reward or revision.reward,
            "variants": tuple(variants),
            "change": "; ".join((revision.change, *changes)),
        }
    )


def _term(name: str) -> str:
    """Return the name of a reward term without the phase number of a sequence."""
    return re.sub(r"_\d+$", "", name)


def _rounded(weights: _Weights) -> tuple[tuple[str, float], ...]:
    return tuple(sorted((name, round(value, 3)) for name, value in weights.items()))


class ComposerAuthor(Author):
    """Rule-based author. See `telic.composer`."""

    def __init__(self, brief: Brief) -> None:
        self._brief, self._config = brief, brief.config

    def read(self) -> MeasurableIntent:
        """Parse the intent with the composer's grammar."""
        return MeasurableIntent.of(self._composed(self._config.criteria))

    def write(self, wanted: MeasurableIntent) -> Composition:
        """Compose reward and judge from the intent and the agreed criteria."""
        composed = self._composed(wanted.criteria)
        steps = composed.steps * steps_factor(self._config.device)
        return composed.model_copy(update={"steps": steps})

    def _composed(self, criteria: Sequence[Criterion] | None) -> Composition:
        return compose(self._config.intent, self._brief.spec, criteria, self._brief.reference)

    def revise(self, history: list[SessionIteration], notes: Sequence[str]) -> RewardCandidate:
        """Return the next candidate from a weight search, with all notes that are understood."""
        revision = self._revision(history)
        wishes: list[ParsedNote] = []
        changes: list[str] = []
        intent = self._config.intent
        for note in notes:
            try:
                wish = read_request(note, intent, self._brief.spec, self._brief.reference)
            except NotUnderstood as error:
                changes.append(error.message)
                continue
            wishes.append(wish)
            changes.append(f"follows “{note}”")
            intent = f"{intent.rstrip(' .!')}, {wish.words}" if wish.reward else intent
        return apply_requests(revision, wishes, changes) if notes else revision

    def _revision(self, history: list[SessionIteration]) -> RewardCandidate:
        """Return the next candidate, based on the validation examples if they match the reward."""
        folder, parent = self._brief.folder, max(history, key=worth)
        candidates = read_candidates(folder, history)
        examples: Sequence[ExampleResult] = ()
        if folder.author.exists() and folder.trial.exists():
            written = read_record(folder.author, Composition)
            if structure_text(candidates[parent.number], parent.variant) == written.reward:
                examples = read_record(folder.trial, JudgeValidation).examples
        checkpoints = list(read_json_lines(folder.iteration(parent.number).checkpoints))
        rises = self._config.steps is None and is_improving(checkpoints, parent.score)
        return next_candidate(history, candidates, examples=examples, rises=rises)
