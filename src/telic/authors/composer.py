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

_CLEAR, _NOTICED = 0.8, 0.1
"""agreement from which the author's own weights are trained alone, and a gain worth training"""
_FEWEST, _MOST = 4, 4
"""examples below which a ranking says nothing, and structures that are tried on them"""
_WORSE = 0.1
"""by how much a structure may rank worse than the present reward and still be offered"""


class RewardView(NamedTuple):
    """Examples as a reward pays them, under the weights in its file."""

    own: _Weights
    examples: Sequence[ExampleResult] = ()
    """failure modes and good examples"""
    problems: Sequence[str] = ()
    """failure modes that it pays more than the good example"""

    def agreement(self, weights: _Weights | None = None) -> float | None:
        """Return how far pay under some weights ranks examples as the judge does, from -1 to 1.

        Pairs that are paid in the judge's order, less those in the opposite one; equal pay is half
        of each. A pair counts by the difference of its scores, and only with a good example: which
        of two failure modes is worse does not matter. None: unknown, or all scores are equal.
        """
        known = [each for each in self.examples if each.score is not None and each.pay is not None]
        if len(known) < _FEWEST:
            return None
        # A term without a weight, or of weight 0, stays.
        factors = {
            term: (weights or self.own).get(term, weight) / weight - 1.0
            for term, weight in self.own.items()
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


def reward_view(
    brief: Brief, written: Composition, text: str, env_args: dict[str, object]
) -> RewardView:
    """Return how a reward pays the examples; the first one was tried already."""
    first = read_record(brief.folder.trial, Trial) if brief.folder.trial.exists() else None
    is_first = first is not None and (
        (first.reward_hash == text_hash(text) and first.env_args == env_args)
        or (text == written.reward and first.reward_hash is None)
    )
    if first is None or not is_first:
        changes = {"reward": text, "env_args": env_args}
        first = try_written(brief, written.model_copy(update=changes))
    return RewardView(weights_in(text), first.examples, first.reward_problems)


def other_structures(
    brief: Brief,
    written: Composition,
    base: tuple[str, dict[str, object], tuple[str, ...]],
    shapes: Iterable[RewardShape] = tuple(SHAPES.values()),
    tried: Collection[str] = (),
) -> tuple[RewardView, list[TriedReward]]:
    """Return the view of a reward, and others that the examples speak for: one more shape each.

    `base` is the reward, its environment's arguments and its shapes; `tried` were trained before.
    """
    text, env_args, have = base
    now = reward_view(brief, written, text, env_args)
    given = brief.config.intent, brief.spec
    present = reshaped(*given, have, brief.reference)
    if present is None or program_text(present) != program_text(text):
        return now, []  # a note, a person or an earlier version changed it
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
        view = reward_view(brief, written, other, env_args)
        value = view.agreement()
        is_worse = least is not None and value is not None and value < least - _WORSE
        if view.examples and not is_worse and len(view.problems) <= len(now.problems):
            variant = Variant(reward=other, structure=(*have, shape.name))
            found.append(TriedReward(variant, value, f"a reward that {shape.words}"))
    return now, found


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


def next_candidate(
    history: Sequence[SessionIteration],
    candidates: Mapping[int, RewardCandidate],
    *,
    view: RewardView | None = None,
    structures: Sequence[TriedReward] = (),
    rises: bool = False,
) -> RewardCandidate:
    """Return what to try next from the best iteration: the same, other structures, other weights.

    `view` is its reward on the examples, `rises` whether its score was still rising.
    """
    parent = max(history, key=worth)
    base = candidates[parent.number]
    text, chosen = structure_text(base, parent.variant), base.variants[parent.variant]
    own, program = weights_in(text), program_text(text)
    kept = Variant(
        weights={**own, **chosen.weights},
        warm=_continues(parent, rises),
        structure=chosen.structure,
    )
    variants, words = [kept], ["the same for longer"]
    for other in structures[:_STRUCTURES]:
        variants.append(other.variant)
        words.append(other.words)
    tried = {
        (program_text(each), _rounded(weights_in(each)))
        for each in reward_texts(candidates.values())
    }
    drawn = draw_weights(kept.weights, derive("weights", len(history), parent.number), 0.5, 16)
    order = (view or RewardView(own)).ranked(drawn)
    wild = dict(order[0][1]) if order else drawn[0]
    proposals = _proposals(history, parent, kept.weights)
    for name, weights in (*proposals, ("varied at random", wild)):
        key = (program, _rounded(weights))
        if key not in tried and len(variants) < VARIANTS:
            tried.add(key)
            variants.append(kept.model_copy(update={"weights": weights}))
            words.append(name)
    words += ["more steps, as its score was still rising"] if rises else []
    return base.model_copy(
        update={
            "reward": text,
            "variants": tuple(variants),
            "rungs": (),
            "steps": int(base.steps * (LONGEST if rises else LONGER)),
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
    tags = parent.tags[: VARIANTS - 2]
    against = (
        (f"against {tag}", _against(start, tags[:place])) for place, tag in enumerate(tags, 1)
    )
    return [*found, *against]


def _against(start: _Weights, tags: Iterable[str]) -> dict[str, float]:
    """Return weights with the terms against some failures raised, and the opposed ones lowered."""
    up: set[str] = set()
    down: set[str] = set()
    for tag in tags:
        raised, lowered = _EDITS.get(tag, ((), ()))
        up, down = up | {*raised}, down | {*lowered}
    factors = dict.fromkeys(down, _DOWN) | dict.fromkeys(up, _UP)
    return {name: round(value * factors.get(_term(name), 1.0), 4) for name, value in start.items()}


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
    rows = [[each for each in row["scores"].values() if each is not None] for row in checkpoints]
    means = [sum(scores) / len(scores) for scores in rows if scores]
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
    tags = [tag for wish in wishes for tag in wish.tags]
    variants: list[Variant] = []
    for variant in revision.variants:
        if reward is not None and variant.reward is not None:
            continue  # of another structure than what is wished for
        own = weights_in(reward or variant.reward or revision.reward)
        kept = {name: value for name, value in variant.weights.items() if name in own}
        update: dict[str, Any] = {"weights": _against({**own, **kept}, tags)}
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


def _term(name: str) -> str:
    """Return a term's name; those of a sequence are numbered by phase."""
    return re.sub(r"_\d+$", "", name)


def _rounded(weights: _Weights) -> tuple[tuple[str, float], ...]:
    return tuple(sorted((name, round(value, 3)) for name, value in weights.items()))


class ComposerAuthor:
    """Writes by rules; see `telic.composer`."""

    def __init__(self, brief: Brief) -> None:
        self._brief, self._config = brief, brief.config

    def read(self) -> MeasurableIntent:
        """Read the intent by the composer's grammar."""
        return MeasurableIntent.of(self._composed(self._config.criteria))

    def write(self, wanted: MeasurableIntent) -> Composition:
        """Write both files from the words and the agreed criteria."""
        composed = self._composed(wanted.criteria)
        steps = composed.steps * steps_factor(self._config.device)
        return composed.model_copy(update={"steps": steps})

    def _composed(self, criteria: Sequence[Criterion] | None) -> Composition:
        return compose(self._config.intent, self._brief.spec, criteria, self._brief.reference)

    def review(
        self, written: Composition, trial: Trial, may_rewrite: bool = True
    ) -> Composition | None:
        """Change nothing: rules do not depend on findings, which the report lists."""
        return None

    def first_structures(self, written: Composition) -> Sequence[TriedReward]:
        """Return other structures of the first reward, tried on the same examples."""
        return other_structures(self._brief, written, (written.reward, written.env_args, ()))[1]

    def revise(self, history: list[SessionIteration], notes: Sequence[str]) -> RewardCandidate:
        """Search structures and weights; notes change terms and weights, or are not understood."""
        revision = self._revision(history)
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
        return apply_wishes(revision, wishes, changes) if notes else revision

    def _revision(self, history: list[SessionIteration]) -> RewardCandidate:
        """Return what follows from the best iteration; less without the first reward's trial."""
        folder, parent = self._brief.folder, max(history, key=worth)
        candidates = read_candidates(folder, history)
        if not folder.author.exists() or not folder.trial.exists():
            return next_candidate(history, candidates)
        written, base = read_record(folder.author, Composition), candidates[parent.number]
        text, chosen = structure_text(base, parent.variant), base.variants[parent.variant]
        tags = lacks(parent, written.criteria)[:_LACKS]
        shapes = [shape for tag in tags for shape in SHAPES.values() if tag in shape.against]
        tried = set(map(program_text, reward_texts(candidates.values())))
        present = text, base.env_args, chosen.structure
        view, found = other_structures(self._brief, written, present, dict.fromkeys(shapes), tried)
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
        return next_candidate(history, candidates, view=view, structures=structures, rises=rises)

    def watch(self, episodes: list[Path], verdicts: list[Verdict]) -> list[Verdict]:
        """Return the verdicts of code: it has no vision."""
        return verdicts

    def analyse(
        self, history: list[SessionIteration], outcome: str = "", reasons: Sequence[str] = ()
    ) -> None:
        """Add nothing to the report."""
