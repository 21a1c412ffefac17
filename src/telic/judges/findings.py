"""What a trial's results say: problems of a judge and of a reward, each a sentence for its author.

A judge is wrong when it takes a bad habit for the real thing, does not recognise a good example,
measures something else than the agreed criteria, says another thing of the same episode when asked
again, or changes its mind over the last digits of a recording. A reward invites gaming when it pays
a bad habit more than a good example that the judge prefers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from pydantic import Field

from telic.core.config import Record
from telic.core.text import few_digits
from telic.judges.criteria import Criterion, Leaf

RECOGNISED = 0.6
"""a good example led by hand must score this much: it is not perfect either"""
_CLEARLY = 0.25
"""the judge must prefer the good example by this much for the reward to be blamed"""
_STEADY = 0.1
"""how much a score may change with the last digits of a recording: a threshold may lie there"""
_FEWEST = 2
"""bad habits that must be left to tell a judge from one that passes everything"""
_ALIKE = 1e-3
_HALF = 0.5
OTHER_WAY = "goes the other way"
_WAYS = {"forward", "forwards", "backward", "backwards", "ahead", "left", "right", "sideways"}
NEVER_FINE = ("ends at once",)
"""what no author may call right: an episode that is over shows nothing"""


class ExampleResult(Record):
    """One example as the judge and the reward see it."""

    name: str
    is_good: bool
    score: float | None
    reason: str | None = None
    """why there is no score, or which leaves earned little"""
    pay: float | None = None
    """sum of the reward over its episode; None: it is not a finite number"""
    terms: dict[str, float] = Field(default={})
    """the same by term"""
    own_return: float | None = None
    """sum of the environment's own reward over its episode"""
    leaves: tuple[Leaf, ...] = ()
    again: float | None = None
    """score of the same episode, asked again after all others"""
    nudged: float | None = None
    """score of the same episode with other last digits"""


def good_example(examples: Sequence[ExampleResult]) -> ExampleResult | None:
    """Return the example led by hand, if the judge recognises it."""
    led = next((example for example in examples if example.is_good), None)
    return led if led and led.score is not None and led.score >= RECOGNISED else None


def bad_examples(examples: Sequence[ExampleResult], fine: Sequence[str]) -> Iterator[ExampleResult]:
    """Yield the bad habits that are not just what was asked for."""
    for example in examples:
        is_fine = example.name in fine and example.name not in NEVER_FINE
        if not example.is_good and not is_fine:
            yield example


# --------------------------------------------------------------------------------------- judges


def judge_problems(
    examples: Sequence[ExampleResult],
    fine: Sequence[str],
    threshold: float,
    criteria: Sequence[Criterion] = (),
) -> tuple[str, ...]:
    """Return what is wrong with a judge."""
    problems: list[str] = []
    for example in examples:
        if example.score is None:
            problems.append(f'The judge cannot judge "{example.name}": {example.reason}')
        elif example.is_good and example.score < RECOGNISED:
            problems.append(
                f"The judge gives a {example.name}, led by hand through what was asked, only "
                f"{example.score:.2f}. {example.reason}"
            )
    if not _names_a_way(criteria):
        fine = (*fine, OTHER_WAY)
    bad = list(bad_examples(examples, fine))
    passing = [
        f'"{example.name}" {example.score:.2f}'
        for example in bad
        if example.score is not None and example.score >= threshold
    ]
    if passing:
        problems.append(
            f"The judge gives a robot that only {', '.join(passing)}; {threshold:g} passes."
        )
    if examples and len(bad) < _FEWEST:
        problems.append(
            f"All bad habits but {len(bad)} are called right here, so nothing shows that the judge "
            "rejects anything."
        )
    problems += _unsteady(examples)
    sticks = [example.leaves for example in examples if example.leaves]
    if sticks:
        problems += _changing(sticks)
        problems += unlike_criteria(sticks[0], criteria)
        problems += _no_shares(sticks, criteria)
    return tuple(problems)


def _names_a_way(criteria: Sequence[Criterion]) -> bool:
    """Say whether it was agreed which way to go: else the other way is as good."""
    said = " ".join(f"{criterion.title} {criterion.quantity}" for criterion in criteria).lower()
    return not _WAYS.isdisjoint(re.findall("[a-z]+", said))


def _no_shares(sticks: Sequence[Sequence[Leaf]], criteria: Sequence[Criterion]) -> Iterator[str]:
    """Yield where what was agreed to be a share is measured as something else, such as steps."""
    for criterion in criteria:
        if not criterion.quantity.lower().startswith("share"):
            continue
        leaves = (leaf_of(leaves, criterion) for leaves in sticks)
        values = [leaf.value for leaf in leaves if leaf is not None and leaf.value is not None]
        wrong = next((value for value in values if not -_ALIKE <= value <= 1.0 + _ALIKE), None)
        if wrong is not None:
            yield (
                f'"{criterion.title}" is a share, from 0 to 1; the judge measures '
                f"{few_digits(wrong)} of an example."
            )


def _unsteady(examples: Sequence[ExampleResult]) -> Iterator[str]:
    known = [example for example in examples if example.score is not None]
    for example in known:
        if example.again is not None and example.again != example.score:
            yield (
                f'The judge gives "{example.name}" {example.score:.2f}, and {example.again:.2f} '
                "when it is asked again: it must depend on the episode alone."
            )
            return
    for example in known:
        if example.nudged is not None and abs(example.nudged - (example.score or 0.0)) > _STEADY:
            yield (
                f'The judge gives "{example.name}" {example.score:.2f}, and {example.nudged:.2f} '
                "when nothing but the last digits of the recording are others: it must measure."
            )
            return


def _changing(sticks: Sequence[Sequence[Leaf]]) -> Iterator[str]:
    if any(not same_stick(sticks[0], other) for other in sticks[1:]):
        yield (
            "The judge measures with another stick from episode to episode: titles, zero, goal "
            "and weight of its leaves must be the same for every episode."
        )


def same_stick(first: Sequence[Leaf], second: Sequence[Leaf]) -> bool:
    """Say whether two episodes were measured alike: only what was measured may differ."""
    return [_stick(leaf) for leaf in first] == [_stick(leaf) for leaf in second]


def _stick(leaf: Leaf) -> tuple[str, float, float, float, bool]:
    return leaf.title, leaf.zero, leaf.goal, leaf.weight, leaf.is_guard


def unlike_criteria(leaves: Sequence[Leaf], criteria: Sequence[Criterion]) -> Iterator[str]:
    """Yield where a judge measures less, or more kindly, than the criteria that were agreed on."""
    agreed = sum(criterion.weight for criterion in criteria) or 1.0
    given = sum(leaf.weight for leaf in leaves) or 1.0
    for criterion in criteria:
        leaf = leaf_of(leaves, criterion)
        if leaf is None:
            yield f'The judge has no leaf for the criterion "{criterion.title}".'
        elif criterion.is_guard and not leaf.is_guard:
            yield f'"{criterion.title}" is a guard, and the judge does not multiply by it.'
        elif is_kinder(leaf, criterion):
            yield _kinder_words(leaf, criterion)
        elif leaf.weight / given < _HALF * criterion.weight / agreed:
            yield (
                f'"{criterion.title}" has {leaf.weight / given:.0%} of the judge\'s weight; '
                f"agreed are {criterion.weight / agreed:.0%}."
            )


def _kinder_words(leaf: Leaf, criterion: Criterion) -> str:
    zero, goal = criterion.zero or 0.0, criterion.goal or 0.0
    if criterion.direction == "about":
        return (
            f'The judge gives something for "{criterion.title}" up to '
            f"{max(leaf.goal, leaf.zero):g} away from {goal:g}; agreed is nothing at {zero:g}, "
            f"which is {abs(goal - zero):g} away."
        )
    return (
        f'The judge gives everything for "{criterion.title}" from {leaf.goal:g} on and '
        f"nothing up to {leaf.zero:g}; agreed are {goal:g} and {zero:g}."
    )


def leaf_of(leaves: Sequence[Leaf], criterion: Criterion) -> Leaf | None:
    """Return the leaf of a criterion; that of a value to be close to says more in its title."""
    title = criterion.title.strip().lower()
    return next((leaf for leaf in leaves if leaf.title.strip().lower().startswith(title)), None)


def is_kinder(leaf: Leaf, criterion: Criterion) -> bool:
    """Say whether a leaf earns everything sooner, or something sooner, than was agreed."""
    zero, goal = criterion.zero, criterion.goal
    if zero is None or goal is None or zero == goal or not math.isfinite(zero + goal):
        return False
    slack = _ALIKE * abs(goal - zero)
    if criterion.direction == "about":  # its leaf is about the distance to the goal
        full, none = leaf.goal, leaf.zero
        return min(full, none) >= 0.0 and max(full, none) > abs(goal - zero) + slack
    if (leaf.goal > leaf.zero) != (goal > zero):
        return True
    sign = 1.0 if goal > zero else -1.0
    return sign * (goal - leaf.goal) > slack or sign * (zero - leaf.zero) > slack


# -------------------------------------------------------------------------------------- rewards


def reward_problems(examples: Sequence[ExampleResult], fine: Sequence[str]) -> tuple[str, ...]:
    """Return which bad habits a reward pays more than what was asked for."""
    strange = [example.name for example in examples if example.pay is None]
    if strange:
        return (f'The reward pays "{strange[0]}" what is not a finite number.',)
    good = good_example(examples)
    if good is None or good.score is None or good.pay is None:
        return ()
    problems: list[str] = []
    for example in bad_examples(examples, fine):
        if example.score is None or example.pay is None:
            continue
        if good.score - example.score >= _CLEARLY and example.pay >= good.pay:
            problems.append(
                f'The reward pays a robot that only "{example.name}" {example.pay:.4g}, more than '
                f"the {good.pay:.4g} of the good example (the judge gives them {example.score:.2f} "
                f"and {good.score:.2f}). By term: {_terms(example)} against {_terms(good)}."
            )
    return tuple(problems)


def _terms(example: ExampleResult) -> str:
    return ", ".join(f"{name} {few_digits(value)}" for name, value in example.terms.items())
