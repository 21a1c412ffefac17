"""The composer as a session's author: no model, no vision, the same answer every time.

Before training, rewards are ranked on examples whose worth is known. A reward that ranks them as
the judge does is worth training; where the author's own does not, better ones are trained with it.
A reward of another structure is offered if it runs, pays no failure mode more than the good example
unless the present reward does so as well, and ranks the examples not clearly worse.

A revision follows from what failed. The best iteration so far is the parent. It is tried again
(longer where its score still rose), with other weights against its worst failures, and with other
structures (`telic.composer.shapes`). Screening runs choose among them. Nothing is tried twice.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from telic.authors.author import Author, Brief, MeasurableIntent, try_written
from telic.authors.candidate import (
    RewardCandidate,
    SessionIteration,
    Variant,
    program_text,
    read_candidates,
    reward_texts,
    same_memory,
    structure_text,
    weights_in,
    worth,
)
from telic.composer.compose import compose, reshaped
from telic.composer.notes import Wish, read_wish
from telic.composer.shapes import SHAPES, RewardShape
from telic.core.seeds import derive
from telic.errors import NotUnderstood
from telic.judges.criteria import Composition, Criterion
from telic.judges.validation import ExampleResult, Trial, text_hash
from telic.judges.verdict import Verdict
from telic.storage.files import read_json_lines, read_record
from telic.training.plan import steps_factor

_Weights = Mapping[str, float]

# ---- ranking rewards on examples

_CLEAR = 0.8
"""agreement from which the author's own weights are trained alone"""
_NOTICED = 0.1
"""by how much others must agree better to be worth training"""
_FEWEST = 4
"""examples below which a ranking says nothing"""
_MOST = 4
"""structures that are tried on the examples"""
_WORSE = 0.1
"""by how much a structure may rank worse than the present reward and still be offered"""


def agreement(
    pays: Sequence[float], scores: Sequence[float], good: Sequence[bool] = ()
) -> float | None:
    """Return how far pay ranks examples as the judge does, from -1 to 1.

    Pairs that are paid in the judge's order, less those in the opposite one; equal pay is half of
    each. A pair counts by the difference of its scores. None: all scores are equal.

    Args:
        pays: what each example was paid.
        scores: what the judge gave it.
        good: which ones are good examples; then only pairs with one of them count, because which
            of two failure modes is worse does not matter.
    """
    pay, score = np.asarray(pays, dtype=float), np.asarray(scores, dtype=float)
    gap = score[:, None] - score[None, :]
    if any(good):
        flags = np.asarray(good, dtype=bool)
        gap = gap * (flags[:, None] | flags[None, :])
    whole = np.abs(gap).sum()
    return float((gap * np.sign(pay[:, None] - pay[None, :])).sum() / whole) if whole else None


class RewardView(NamedTuple):
    """Examples as a reward pays them, under the weights in its file."""

    own: _Weights
    """those weights"""
    examples: Sequence[ExampleResult] = ()
    """failure modes and good examples"""
    problems: Sequence[str] = ()
    """failure modes that it pays more than the good example"""

    def agreement(self, weights: _Weights | None = None) -> float | None:
        """Return the agreement with the judge under other weights; None: unknown."""
        known = [each for each in self.examples if each.score is not None and each.pay is not None]
        if len(known) < _FEWEST:
            return None
        pays = [self._pay(each, weights or self.own) for each in known]
        scores = [each.score for each in known if each.score is not None]
        return agreement(pays, scores, [each.is_good for each in known])

    def _pay(self, example: ExampleResult, weights: _Weights) -> float:
        """Return the pay under other weights; a term without a weight, or of weight 0, stays."""
        return (example.pay or 0.0) + sum(
            paid * (weights.get(term, self.own[term]) / self.own[term] - 1.0)
            for term, paid in example.terms.items()
            if self.own.get(term)
        )

    def ranked(self, proposals: Iterable[_Weights]) -> list[tuple[float, _Weights]]:
        """Return sets of weights with their agreement, the best first; none where it is unknown."""
        rated = [(self.agreement(weights), weights) for weights in proposals]
        known = [(found, weights) for found, weights in rated if found is not None]
        return sorted(known, key=lambda row: -row[0])


class TriedReward(NamedTuple):
    """A reward of another structure, tried on the examples."""

    variant: Variant
    """with its reward"""
    agreement: float | None
    """None: unknown"""
    words: str = ""
    """what it is, for people"""


def first_rewards(
    author: Author, written: Composition, examples: Sequence[ExampleResult], most: int
) -> tuple[Variant, ...]:
    """Return the initial reward candidates, `most` at most.

    The author's reward is trained alone where it ranks the examples as the judge does.
    """
    own = weights_in(written.reward)
    view = RewardView(own, examples)
    mine = view.agreement()
    if most < 2 or mine is None or mine >= _CLEAR:
        return (Variant(),)
    others = author.first_structures(written) if isinstance(author, ComposerAuthor) else ()
    known = [each for each in others if (each.agreement or -math.inf) >= mine + _NOTICED]
    known.sort(key=lambda each: -(each.agreement or 0.0))
    chosen = [Variant(), *(each.variant for each in known[: most - 1])]
    drawn = draw_weights(own, derive("first weights", *sorted(own)), 0.7, 200)
    rated = view.ranked(drawn) if len(own) > 1 else []
    better = [Variant(weights=dict(each)) for found, each in rated if found >= mine + _NOTICED]
    return (*chosen, *better[: most - len(chosen)])


def draw_weights(around: _Weights, seed: int, spread: float, count: int) -> list[dict[str, float]]:
    """Return sets of weights drawn around others; `spread` is that of their logarithms."""
    random = np.random.default_rng(seed)
    return [
        {
            name: round(weight * math.exp(spread * random.standard_normal()), 4)
            for name, weight in around.items()
        }
        for _ in range(count)
    ]


class StructureSearch:
    """Finds rewards of another structure that the examples speak for."""

    def __init__(self, brief: Brief, written: Composition) -> None:
        self._brief, self._written = brief, written

    def view(self, text: str, env_args: dict[str, object]) -> RewardView:
        """Return how a reward pays the examples."""
        path, trial = self._brief.folder.trial, None
        if path.exists():  # the first reward was tried already
            first = read_record(path, Trial)
            is_first = first.reward_hash == text_hash(text) and first.env_args == env_args
            if is_first or (text == self._written.reward and first.reward_hash is None):
                trial = first
        if trial is None:
            changes = {"reward": text, "env_args": env_args}
            trial = try_written(self._brief, self._written.model_copy(update=changes))
        return RewardView(weights_in(text), trial.examples, trial.reward_problems)

    def others(
        self,
        text: str,
        now: RewardView,
        env_args: dict[str, object],
        have: tuple[str, ...] = (),
        shapes: Iterable[RewardShape] = tuple(SHAPES.values()),
        tried: Collection[str] = (),
    ) -> list[TriedReward]:
        """Return other structures than a reward's: those it has with one more shape each.

        `now` is its view, `have` are its shapes, and `tried` are programs trained before.
        """
        brief = self._brief
        given = brief.config.intent, brief.spec
        present = reshaped(*given, have, brief.reference)
        if present is None or program_text(present) != program_text(text):
            return []  # a note, a person or an earlier version changed it
        least = now.agreement()
        found: list[TriedReward] = []
        seen = {program_text(text), *tried}
        for shape in shapes:
            other = reshaped(*given, (*have, shape.name), brief.reference)
            if shape.name in have or other is None or program_text(other) in seen:
                continue
            if len(found) == _MOST:
                break
            seen.add(program_text(other))
            view = self.view(other, env_args)
            value = view.agreement()
            is_worse = least is not None and value is not None and value < least - _WORSE
            if view.examples and not is_worse and len(view.problems) <= len(now.problems):
                variant = Variant(reward=other, structure=(*have, shape.name))
                found.append(TriedReward(variant, value, f"a reward that {shape.words}"))
        return found


# ---- revisions

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
    "falls": (("upright", "alive", "posture", "tall", "body", "down"), ("speed", "rise", "turn")),
    "drifts": (("still", "stay", "straight", "near", "there", "home", "brake"), ("rise",)),
    "too_low": (("height", "rise", "hop", "raise", "tall", "off", "airborne", "clear"), _CALM),
    "too_high": (("low", "flat", "squat", "grounded"), ("rise", "height")),
    "too_far": (("near", "way", "there", "brake"), _CALM),
    "under_rotates": (("turn", "spin"), ("rest", *_CALM)),
    "over_rotates": (("rest", "calm"), ("spin",)),
    "no_landing": (("land", "rest"), ("spin",)),
    "one_sided": (("symmetric", "alternate", "legs", "step", "pattern"), ("speed",)),
    "drags": (("step", "legs", "off", "hop", "clear", "airborne"), ("speed",)),
    "ends_early": (("upright", "alive", "down"), ("speed", "rise")),
    "jitters": (_CALM, ()),
    "wrong_gait": (("rhythm", "flight", "alternate", "pattern", "together"), ("speed",)),
}
"""for each failure tag, the terms of composed rewards to raise and to lower"""
_UP, _DOWN = 2.0, 0.5
LONGER, LONGEST = 1.3, 1.5
"""how much longer a revision is trained, and one whose parent was still improving"""
VARIANTS, _STRUCTURES, _LACKS = 4, 2, 3
"""rewards of a revision, those of another structure among them, tags that these are against"""
_GOOD, _PROMISING = 0.6, 0.2
"""score from which training continues from policies, and from which while it still rises"""
_RISING = 0.05
"""gain of score over the second half of a training that was not finished"""


class ParentEvidence(NamedTuple):
    """Evidence about the parent, besides its record."""

    view: RewardView | None = None
    """its reward on the examples"""
    structures: Sequence[TriedReward] = ()
    """other rewards against its failures, the worst first, none of them tried before"""
    rises: bool = False
    """whether its score was still rising at the end"""


def next_candidate(
    history: Sequence[SessionIteration],
    candidates: Mapping[int, RewardCandidate],
    evidence: ParentEvidence | None = None,
) -> RewardCandidate:
    """Return what to try next: the same, other structures, other weights.

    `candidates` are what the finished iterations tried, by number.
    """
    evidence, parent = evidence or ParentEvidence(), max(history, key=worth)
    base = candidates[parent.number]
    text, chosen = structure_text(base, parent.variant), base.variants[parent.variant]
    own, program = weights_in(text), program_text(text)
    kept = Variant(
        weights={**own, **chosen.weights},
        warm=_continues(parent, evidence.rises),
        structure=chosen.structure,
    )
    variants, words = [kept], ["the same for longer"]
    for other in evidence.structures[:_STRUCTURES]:
        variants.append(other.variant)
        words.append(other.words)
    texts = reward_texts(candidates.values())
    tried = {(program_text(each), _rounded(weights_in(each))) for each in texts}
    seed = derive("weights", len(history), parent.number)
    drawn = draw_weights(kept.weights, seed, 0.5, 16)
    order = (evidence.view or RewardView(own)).ranked(drawn)
    wild = dict(order[0][1]) if order else drawn[0]
    proposals = _proposals(history, parent, kept.weights)
    for name, weights in (*proposals, ("varied at random", wild)):
        key = (program, _rounded(weights))
        if key not in tried and len(variants) < VARIANTS:
            tried.add(key)
            variants.append(kept.model_copy(update={"weights": weights}))
            words.append(name)
    words += ["more steps, as its score was still rising"] if evidence.rises else []
    return base.model_copy(
        update={
            "reward": text,
            "variants": tuple(variants),
            "rungs": (),
            "steps": int(base.steps * (LONGEST if evidence.rises else LONGER)),
            "parent": parent.number,
            "change": f"from iteration {parent.number}: {', '.join(words)}",
            "diagnosis": f"failed: {', '.join(parent.tags) or 'nothing that has a name'}",
            "lessons": (),
        }
    )


def _proposals(
    history: Sequence[SessionIteration], parent: SessionIteration, start: dict[str, float]
) -> list[tuple[str, dict[str, float]]]:
    """Return weights against the worst failures, with words."""
    found: list[tuple[str, dict[str, float]]] = []
    worst = next(iter(parent.tags), "")
    if any(worst in each.tags for each in history if each is not parent):
        # Another iteration could not mend it either: leave out what half of was not enough.
        opposed = _EDITS.get(worst, ((), ()))[1]
        without = [name for name, value in start.items() if value and _term(name) in opposed]
        if without and len(without) < len(start):
            left = {**start, **dict.fromkeys(without, 0.0)}
            found.append((f"without {' and '.join(without)}", left))
    raised: set[str] = set()
    lowered: set[str] = set()
    for tag in parent.tags[: VARIANTS - 2]:
        up, down = _EDITS.get(tag, ((), ()))
        raised, lowered = raised | set(up), (lowered | set(down)) - raised
        found.append((f"against {tag}", _scaled(start, raised, lowered)))
    return found


def lacks(parent: SessionIteration, criteria: Sequence[Criterion]) -> tuple[str, ...]:
    """Return the tags of what the best policy did not earn, constraints first, then the worst."""
    best = parent.best_member
    if best is None or not criteria:
        return parent.tags
    missing: dict[str, float] = {}
    for criterion in criteria:
        earned = best.judgement.leaves.get(criterion.title)
        if criterion.tag is None or earned is None or earned[0] >= 1.0:
            continue
        loss = (1.0 - earned[0]) * (math.inf if criterion.is_guard else criterion.weight)
        missing[criterion.tag] = missing.get(criterion.tag, 0.0) + loss
    found = sorted(missing, key=lambda tag: -missing[tag])
    return tuple(dict.fromkeys((*found, *parent.tags)))


def still_rises(checkpoints: Sequence[Mapping[str, Any]], end: float | None) -> bool:
    """Return whether the score rose over the second half of a training, to a mean of `end`."""
    means: list[float] = []
    for row in checkpoints:
        scores = [score for score in row["scores"].values() if score is not None]
        means += [sum(scores) / len(scores)] if scores else []
    if end is None or len(means) < 2:
        return False
    return end - means[len(means) // 2] >= _RISING and end >= max(means) - _RISING


def _continues(parent: SessionIteration, rises: bool) -> bool:
    """Return whether a revision continues from its parent's policies or starts from scratch."""
    return (parent.score or 0.0) >= (_PROMISING if rises else _GOOD)


def apply_wishes(
    revision: RewardCandidate, wishes: Sequence[Wish], changes: Sequence[str]
) -> RewardCandidate:
    """Return a revision whose reward and weights follow wishes."""
    reward = next((wish.reward for wish in wishes[::-1] if wish.reward), None)
    up: set[str] = set()
    down: set[str] = set()
    for tag in (tag for wish in wishes for tag in wish.tags):
        raised, lowered = _EDITS.get(tag, ((), ()))
        up, down = up | set(raised), (down | set(lowered)) - set(raised)
    variants: list[Variant] = []
    for variant in revision.variants:
        if reward is not None and variant.reward is not None:
            continue  # of another structure than what is wished for
        own = weights_in(reward or variant.reward or revision.reward)
        kept = {name: value for name, value in variant.weights.items() if name in own}
        update: dict[str, Any] = {"weights": _scaled({**own, **kept}, up, down - up)}
        if reward is not None:  # other memory needs another network
            update |= {"warm": False, "structure": ()}
        variants.append(variant.model_copy(update=update))
    return revision.model_copy(
        update={
            "reward": reward or revision.reward,
            "variants": tuple(variants),
            "change": "; ".join((revision.change, *changes)),
        }
    )


def _scaled(start: dict[str, float], up: set[str], down: set[str]) -> dict[str, float]:
    scaled: dict[str, float] = {}
    for name, value in start.items():
        factor = _UP if _term(name) in up else _DOWN if _term(name) in down else 1.0
        scaled[name] = round(value * factor, 4)
    return scaled


def _term(name: str) -> str:
    """Return a term's name; those of a sequence are numbered by phase."""
    return re.sub(r"_\d+$", "", name)


def _rounded(weights: _Weights) -> tuple[tuple[str, float], ...]:
    return tuple(sorted((name, round(value, 3)) for name, value in weights.items()))


class ComposerAuthor:
    """Writes by rules; see `telic.composer`."""

    def __init__(self, brief: Brief) -> None:
        self._brief, self._config = brief, brief.config

    def _composed(self, criteria: Sequence[Criterion] | None) -> Composition:
        brief = self._brief
        return compose(brief.config.intent, brief.spec, criteria, brief.reference)

    def read(self) -> MeasurableIntent:
        """Read the intent by the composer's grammar."""
        composed = self._composed(self._config.criteria)
        return MeasurableIntent(
            criteria=composed.criteria,
            doubts=composed.doubts,
            not_understood=composed.not_understood,
            dropped=composed.dropped,
            covered=composed.covered,
        )

    def write(self, wanted: MeasurableIntent) -> Composition:
        """Write both files from the words and the agreed criteria."""
        composed = self._composed(wanted.criteria)
        steps = composed.steps * steps_factor(self._config.device)
        return composed.model_copy(update={"steps": steps})

    def review(
        self, written: Composition, trial: Trial, may_rewrite: bool = True
    ) -> Composition | None:
        """Change nothing: rules do not depend on findings, which the report lists."""
        return None

    def first_structures(self, written: Composition) -> Sequence[TriedReward]:
        """Return other structures of the first reward, tried on the same examples."""
        search, args = StructureSearch(self._brief, written), written.env_args
        return search.others(written.reward, search.view(written.reward, args), args)

    def revise(self, history: list[SessionIteration], notes: Sequence[str]) -> RewardCandidate:
        """Search structures and weights; notes change terms and weights, or are not understood."""
        candidates = read_candidates(self._brief.folder, history)
        revision = next_candidate(history, candidates, self._evidence(history, candidates))
        if not notes:
            return revision
        wishes: list[Wish] = []
        changes: list[str] = []
        intent = self._config.intent
        for note in notes:
            try:
                wish = read_wish(note, intent, self._brief.spec, self._brief.reference)
            except NotUnderstood as error:
                changes.append(error.message)
                continue
            wishes.append(wish)
            changes.append(f"follows “{note}”")
            intent = f"{intent.rstrip(' .!')}, {wish.words}" if wish.reward else intent
        return apply_wishes(revision, wishes, changes)

    def _evidence(
        self, history: list[SessionIteration], candidates: dict[int, RewardCandidate]
    ) -> ParentEvidence:
        """Return what is known about the best iteration; nothing without the first reward."""
        folder, parent = self._brief.folder, max(history, key=worth)
        if not folder.author.exists() or not folder.trial.exists():
            return ParentEvidence()
        written = read_record(folder.author, Composition)
        base = candidates[parent.number]
        text, chosen = structure_text(base, parent.variant), base.variants[parent.variant]
        search = StructureSearch(self._brief, written)
        tags = lacks(parent, written.criteria)[:_LACKS]
        shapes = [shape for tag in tags for shape in SHAPES.values() if tag in shape.against]
        tried = set(map(program_text, reward_texts(candidates.values())))
        now, args = search.view(text, base.env_args), base.env_args
        found = search.others(text, now, args, chosen.structure, dict.fromkeys(shapes), tried)
        checkpoints = list(read_json_lines(folder.iteration(parent.number).checkpoints))
        rises = self._config.steps is None and still_rises(checkpoints, parent.score)
        is_warm, is_stuck = _continues(parent, rises), parent is not history[-1]
        structures: list[TriedReward] = []
        for each in found:
            other = each.variant.reward or text
            has_same_memory = same_memory(other, text)
            # A policy from scratch cannot keep up with a continued one, unless that is stuck.
            if not is_warm or is_stuck or has_same_memory:
                own = weights_in(other)
                kept = {name: value for name, value in chosen.weights.items() if name in own}
                update = {"weights": {**own, **kept}, "warm": is_warm and has_same_memory}
                structures.append(each._replace(variant=each.variant.model_copy(update=update)))
        return ParentEvidence(now, structures, rises)

    def watch(self, episodes: list[Path], verdicts: list[Verdict]) -> list[Verdict]:
        """Return the verdicts of code: it has no vision."""
        return verdicts

    def analyse(
        self, history: list[SessionIteration], outcome: str = "", reasons: Sequence[str] = ()
    ) -> None:
        """Add nothing to the report."""
