"""The composer as a session's author: no model, no eyes, the same answer every time.

What to try next is decided by what failed. The best iteration so far is the parent. It is tried
again (longer where its score still rose), with other weights against its worst failures, and with
other structures: terms that serve what failed, or that pay for it otherwise. Screening runs on the
judge's score choose among them. Nothing is tried twice.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from telic.authors.author import Brief, MeasurableIntent
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
from telic.authors.ranking import (
    StructureSearch,
    TriedReward,
    draw_weights,
    played_episodes,
    ranked,
)
from telic.composer.compose import compose
from telic.composer.notes import Wish, read_wish
from telic.composer.observed import is_observed
from telic.composer.parse import parse
from telic.composer.shapes import SHAPES
from telic.core.seeds import derive
from telic.envs.spec import EnvSpec
from telic.errors import NotUnderstood
from telic.judges.criteria import Composition, Criterion
from telic.judges.validation import ExampleResult, Trial
from telic.judges.verdict import Verdict
from telic.storage.files import read_json_lines, read_record
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
_UP, _DOWN = 2.0, 0.5
_SPREAD = 0.5
"""of the logarithm of a weight that is varied at random"""
LONGER, LONGEST = 1.3, 1.5
"""how much longer a revision is trained, and one whose parent was still getting better"""
VARIANTS = 4
"""rewards that a revision tries side by side at most"""
_STRUCTURES = 2
"""of these, of another structure"""
_DRAWN = 16
"""sets of weights that are drawn to try one of them"""
_GOOD, _PROMISING = 0.6, 0.2
"""score from which policies are worth going on from, and from which while it still rises"""
_RISING = 0.05
"""gain of score over the second half of a training that says it was not over"""
_PART = 0.25
"""share of a way below which more time is not what is missing"""
_SPARE = 1.15
_UNHURRIED = (None, "walk", "march", "crawl", "step")
"""ways of going that any speed will do for"""
_NUMBER = re.compile(r"\d+(?:[.,]\d+)?")
_LONGEST_S = 40.0


class ParentEvidence(NamedTuple):
    """What is known about the parent, besides its record."""

    examples: Sequence[ExampleResult] = ()
    """bad habits and good examples under the parent's reward, with the weights in its file"""
    played: Sequence[ExampleResult] = ()
    """the same of episodes that policies of this session played"""
    criteria: Sequence[Criterion] = ()
    structures: Sequence[TriedReward] = ()
    """other rewards against what is lacking, the worst lack first, none of them tried before"""
    rises: bool = False
    """whether the parent's score was still rising at the end"""
    seconds: float | None = None
    """length of an episode that may be lengthened; None: it is the user's, or has no clock"""


NOTHING = ParentEvidence()


def next_candidate(
    history: Sequence[SessionIteration],
    candidates: Mapping[int, RewardCandidate],
    evidence: ParentEvidence = NOTHING,
) -> RewardCandidate:
    """Return what to try next.

    Args:
        history: finished iterations, the latest last.
        candidates: what each of them tried, by number.
        evidence: what is known about the best of them.
    """
    parent = max(history, key=worth)
    base = candidates[parent.number]
    text = structure_text(base, parent.variant)
    start = {**weights_in(text), **base.variants[parent.variant].weights}
    kept = Variant(
        weights=start,
        warm=goes_on(parent, evidence.rises),
        structure=base.variants[parent.variant].structure,
    )
    seed = derive("weights", len(history), parent.number)
    stuck_on = _persistent(history, parent)
    variants, words = _beside(parent, text, kept, candidates, evidence, seed, stuck_on)
    env_args, more = _lengthened(parent, base.env_args, evidence)
    longer = LONGEST if evidence.rises else LONGER
    words += [more] if more else []
    words += ["more steps, as its score was still rising"] if evidence.rises else []
    return base.model_copy(
        update={
            "reward": text,
            "variants": tuple(variants),
            "rungs": (),
            "env_args": env_args,
            "steps": int(base.steps * longer),
            "parent": parent.number,
            "change": f"from iteration {parent.number}: {', '.join(words)}",
            "diagnosis": f"lacking: {', '.join(parent.tags) or 'nothing that has a name'}",
            "lessons": (),
        }
    )


def _beside(
    parent: SessionIteration,
    text: str,
    kept: Variant,
    candidates: Mapping[int, RewardCandidate],
    evidence: ParentEvidence,
    seed: int,
    stuck_on: str | None,
) -> tuple[list[Variant], list[str]]:
    """Return what to try side by side: the same, other structures, other weights; with words."""
    variants, words = [kept], ["the same for longer"]
    for other in evidence.structures[:_STRUCTURES]:
        variants.append(other.variant)
        words.append(other.words)
    texts = reward_texts(candidates.values())
    tried = {(program_text(each), _rounded(weights_in(each))) for each in texts}
    own, program = weights_in(text), program_text(text)
    drawn = draw_weights(kept.weights, seed, _SPREAD, _DRAWN)
    order = ranked(drawn, evidence.examples, own, evidence.played)
    wild = next((dict(weights) for _, weights in order), drawn[0])
    proposals = [*_left_out(stuck_on, kept.weights), *_proposals(parent, kept.weights)]
    for name, weights in (*proposals, ("varied at random", wild)):
        key = (program, _rounded(weights))
        if key not in tried and len(variants) < VARIANTS:
            tried.add(key)
            variants.append(kept.model_copy(update={"weights": weights}))
            words.append(name)
    return variants, words


# ------------------------------------------------------------------------------- what was lacking


def lacks(parent: SessionIteration, criteria: Sequence[Criterion]) -> tuple[str, ...]:
    """Return the tags of what the best policy did not earn, the worst first; guards before all."""
    best = parent.best_member
    if best is None or not criteria:
        return parent.tags
    earned = best.judgement.leaves
    missing: dict[str, float] = {}
    for criterion in criteria:
        leaf = earned.get(criterion.title)
        if criterion.tag is None or leaf is None or leaf[0] >= 1.0:
            continue
        loss = (1.0 - leaf[0]) * (math.inf if criterion.is_guard else criterion.weight)
        missing[criterion.tag] = missing.get(criterion.tag, 0.0) + loss
    found = sorted(missing, key=lambda tag: -missing[tag])
    return tuple(dict.fromkeys((*found, *parent.tags)))


def still_rises(checkpoints: Sequence[Mapping[str, Any]], end: float | None) -> bool:
    """Return whether the judge's score rose over the second half of a training.

    Args:
        checkpoints: rows of checkpoints.jsonl, in their order.
        end: mean score at the end; None: unknown.
    """
    means: list[float] = []
    for row in checkpoints:
        scores = [score for score in row["scores"].values() if score is not None]
        means += [sum(scores) / len(scores)] if scores else []
    if end is None or len(means) < 2:
        return False
    return end - means[len(means) // 2] >= _RISING and end >= max(means) - _RISING


def goes_on(parent: SessionIteration, rises: bool) -> bool:
    """Return whether a revision continues from its parent's policies or starts from scratch.

    Args:
        parent: what was tried.
        rises: whether its score was still rising at the end.
    """
    return (parent.score or 0.0) >= (_PROMISING if rises else _GOOD)


def has_free_length(intent: str, spec: EnvSpec) -> bool:
    """Return whether no word of an intent decides how long an episode is, or how soon one is there.

    More time would turn "run 5 m" into walking them.
    """
    if is_observed(intent, spec):
        return False
    frames = parse(intent, spec).frames
    ways = [frame for frame in frames if frame.amount is not None and frame.amount.unit == "m"]
    is_hurried = any(frame.degree or frame.gait not in _UNHURRIED for frame in frames)
    is_timed = any(frame.duration_s or frame.period_s for frame in frames)
    return not is_hurried and not is_timed and len(_NUMBER.findall(intent)) <= len(ways)


def _lengthened(
    parent: SessionIteration, env_args: dict[str, Any], evidence: ParentEvidence
) -> tuple[dict[str, Any], str]:
    """Return the environment's arguments, with more time where a way was made only in part."""
    steps, best = env_args.get("max_episode_steps"), parent.best_member
    if evidence.seconds is None or not isinstance(steps, int) or best is None:
        return env_args, ""
    factor, why = 1.0, ""
    for criterion in evidence.criteria:
        value = best.judgement.leaves.get(criterion.title, (0.0, None))[1]
        is_way = criterion.kind == "cumulative" and criterion.tag == "too_slow"
        if not is_way or criterion.unit != "m" or criterion.goal is None or value is None:
            continue
        made = value / criterion.goal if criterion.goal > 0.0 else 0.0
        if _PART <= made < 1.0 and _SPARE / made > factor:
            factor, why = _SPARE / made, f"{value:.2g} of {criterion.goal:.2g} m were made"
    seconds = min(factor * evidence.seconds, _LONGEST_S)
    if seconds <= evidence.seconds:
        return env_args, ""
    more = round(steps * seconds / evidence.seconds)
    words = f"episodes of {seconds:.2g} s instead of {evidence.seconds:.2g} s ({why})"
    return {**env_args, "max_episode_steps": more}, words


# ---------------------------------------------------------------------------------------- weights


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


def _persistent(history: Sequence[SessionIteration], parent: SessionIteration) -> str | None:
    """Return the worst lack of the parent, if another iteration could not mend it either."""
    tag = next(iter(parent.tags), None)
    others = [each for each in history if each is not parent]
    return tag if tag is not None and any(tag in each.tags for each in others) else None


def _left_out(tag: str | None, start: dict[str, float]) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield weights without the terms that stand in the way of what is lacking: half was not it."""
    terms = set(_EDITS.get(tag or "", ((), ()))[1])
    without = [name for name, value in start.items() if value and _term(name) in terms]
    if without and len(without) < len(start):
        yield f"without {' and '.join(without)}", {**start, **dict.fromkeys(without, 0.0)}


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


def _scaled(start: dict[str, float], up: set[str], down: set[str]) -> dict[str, float]:
    scaled: dict[str, float] = {}
    for name, value in start.items():
        term = _term(name)
        factor = _UP if term in up else _DOWN if term in down else 1.0
        scaled[name] = round(value * factor, 4)
    return scaled


def _term(name: str) -> str:
    """Return a term's name; those of a sequence are numbered by phase."""
    return re.sub(r"_\d+$", "", name)


def _rounded(weights: Mapping[str, float]) -> tuple[tuple[str, float], ...]:
    return tuple(sorted((name, round(value, 3)) for name, value in weights.items()))


_LACKS = 3
"""failure tags against which other structures are looked for"""


class ComposerAuthor:
    """Writes by rules; see `telic.composer`."""

    def __init__(self, brief: Brief) -> None:
        self._brief, self._config = brief, brief.config

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

    def _composed(self, criteria: Sequence[Criterion] | None) -> Composition:
        brief = self._brief
        return compose(brief.config.intent, brief.spec, criteria, brief.reference)

    def review(self, written: Composition, trial: Trial) -> Composition | None:
        """Change nothing: rules do not depend on findings, which the report lists."""
        return None

    def first_structures(self, written: Composition) -> Sequence[TriedReward]:
        """Return other structures of the first reward, tried on the same examples."""
        first = RewardCandidate(reward=written.reward, env_args=written.env_args, steps=1)
        search = StructureSearch(self._brief, written)
        now = search.view(written.reward, written.env_args)
        return search.others(written.reward, now, first, (), SHAPES.values())

    def revise(self, history: list[SessionIteration], notes: Sequence[str]) -> RewardCandidate:
        """Search structures and weights; notes change terms and weights, or are not understood."""
        candidates = read_candidates(self._brief.folder, history)
        evidence = self._evidence(history, candidates)
        revision = next_candidate(history, candidates, evidence)
        return self._with_notes(revision, notes) if notes else revision

    def _evidence(
        self, history: list[SessionIteration], candidates: dict[int, RewardCandidate]
    ) -> ParentEvidence:
        """Return what is known about the best iteration; nothing without what was first written."""
        folder, parent = self._brief.folder, max(history, key=worth)
        if not folder.author.exists() or not folder.trial.exists():
            return ParentEvidence()
        written = read_record(folder.author, Composition)
        base = candidates[parent.number]
        text, chosen = structure_text(base, parent.variant), base.variants[parent.variant]
        played = played_episodes(self._brief, history, candidates)
        search = StructureSearch(self._brief, written, played)
        now = search.view(text, base.env_args)
        tags = lacks(parent, written.criteria)[:_LACKS]
        shapes = [shape for tag in tags for shape in SHAPES.values() if tag in shape.against]
        tried = set(map(program_text, reward_texts(candidates.values())))
        found = search.others(text, now, base, chosen.structure, dict.fromkeys(shapes), tried)
        checkpoints = list(read_json_lines(folder.iteration(parent.number).checkpoints))
        rises = self._config.steps is None and still_rises(checkpoints, parent.score)
        is_warm, is_stuck = goes_on(parent, rises), parent is not history[-1]
        return ParentEvidence(
            examples=now.examples,
            played=now.played,
            criteria=written.criteria,
            structures=[
                _carried(each, text, chosen, is_warm)
                for each in found
                # A policy from scratch cannot keep up with a continued one, unless that is stuck.
                if not is_warm or is_stuck or same_memory(each.variant.reward or text, text)
            ],
            rises=rises,
            seconds=self._free_seconds(base),
        )

    def _free_seconds(self, base: RewardCandidate) -> float | None:
        """Return the length of an episode where no word of the intent decides it."""
        dt, steps = self._brief.spec.dt_s, base.env_args.get("max_episode_steps")
        if dt is None or not isinstance(steps, int):
            return None
        return steps * dt if has_free_length(self._config.intent, self._brief.spec) else None

    def _with_notes(self, revision: RewardCandidate, notes: Sequence[str]) -> RewardCandidate:
        """Return a revision that follows notes, in every one of its variants."""
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

    def watch(self, episodes: list[Path], verdicts: list[Verdict]) -> list[Verdict]:
        """It has no eyes: what code says stands."""
        return verdicts

    def analyse(self, history: list[SessionIteration]) -> None:
        """It has no words beyond the report's own."""


def _carried(found: TriedReward, text: str, chosen: Variant, is_warm: bool) -> TriedReward:
    """Return a structure with the weights that its parent was trained with, and its policies."""
    other = found.variant.reward or text
    own = weights_in(other)
    kept = {name: value for name, value in chosen.weights.items() if name in own}
    warm = is_warm and same_memory(other, text)
    return found._replace(
        variant=found.variant.model_copy(update={"weights": {**own, **kept}, "warm": warm})
    )
