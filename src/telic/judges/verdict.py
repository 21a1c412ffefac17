"""What judges say: one verdict per episode, and what several of them amount to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from telic.core.confidence import ALPHA, proven_mean
from telic.core.config import Record
from telic.judges.criteria import Leaf

WHOLE = "the whole intent"
"""stands for the episode as such where a criterion is named"""


class Seen(Record):
    """What the vision judge saw of one criterion in one episode."""

    criterion: str
    score: float | None
    """median of the answers, 0 to 1 in steps of 0.1; None: it cannot be seen"""
    answers: tuple[float | None, ...]
    """every answer, when it was asked repeatedly"""
    start_s: float | None
    end_s: float | None
    """where in the episode it was seen; None: nowhere in particular, or there is no clock"""
    evidence: str


class EpisodeMeasure(Record):
    """A quantity over a part of an episode, computed from the recording."""

    quantity: str
    unit: str
    start_s: float
    end_s: float
    first: float
    last: float
    mean: float
    lowest: float
    highest: float


class Disagreement(Record):
    """A criterion on which code and vision differ by more than the margin."""

    criterion: str
    code: float
    vision: float
    margin: float
    start_s: float | None
    end_s: float | None
    """part of the episode in dispute, as the vision judge gave it"""
    measured: str
    """what the code judge rests on"""
    seen: str
    """what the vision judge rests on"""
    check: EpisodeMeasure | None = None
    """a quantity over the disputed part"""
    asked_again: float | None = None
    """vision's score after a second, closer look; None: not asked, or it could not be seen"""
    resolved: bool = False
    """whether they agree after that look"""


Source = Literal["code", "vision", "fused", "human"]


class Verdict(Record):
    """The judgement of one episode; score None means that the judge could not tell."""

    schema_version: Literal[1] = 1
    source: Source
    score: float | None
    leaves: tuple[Leaf, ...] = ()
    tags: tuple[str, ...] = ()
    """what is lacking, the worst first"""
    reason: str | None = None
    """why there is no score, or why one of two judges is missing from it"""
    recording: str | None = None
    """SHA-256 of the episode's file, as its recorder wrote it; None: not known"""
    seen: tuple[Seen, ...] = ()
    """what the vision judge saw, by criterion; the whole comes last"""
    spread: float | None = None
    """range of the vision judge's repeated scores for one episode; None: not repeated"""
    by_judge: dict[Source, float | None] = Field(default={})
    """scores that a fused one was made from"""
    disagreements: tuple[Disagreement, ...] = ()
    """where the judges of a fused score differ, resolved or not"""


class Judgement(Record):
    """The judgement of a policy: several fresh episodes."""

    schema_version: Literal[1] = 1
    score: float | None
    """mean over the episodes; None when no episode could be judged"""
    low: float | None
    """what the mean is proven to be at least, with nothing for unknown episodes"""
    alpha: float | None = None
    """chance that `low` is wrong, its share of what a session may be wrong; None: not known"""
    passing: int | None = None
    """episodes whose score reaches the threshold; None: not counted"""
    episodes: int
    unknown: int
    """episodes without a score"""
    tags: tuple[str, ...]
    leaves: dict[str, tuple[float, float | None]]
    """by title: mean credit, and the median measured value"""
    verdicts: tuple[Verdict, ...]


def judged(leaves: Sequence[Leaf], score: float) -> Verdict:
    """Return the verdict of a code judge."""
    lacking = sorted(
        (leaf for leaf in leaves if not leaf.passed and leaf.tag),
        key=lambda leaf: (not leaf.is_guard, -(leaf.weight * (1.0 - leaf.counted))),
    )
    tags = tuple(dict.fromkeys(leaf.tag for leaf in lacking if leaf.tag))
    return Verdict(source="code", score=score, leaves=tuple(leaves), tags=tags)


def unknown(source: Source, reason: str) -> Verdict:
    """Return the verdict of a judge that could not tell."""
    return Verdict(source=source, score=None, reason=reason)


def together(
    verdicts: Sequence[Verdict], *, alpha: float = ALPHA, threshold: float | None = None
) -> Judgement:
    """Sum up the verdicts on a policy's episodes.

    Those without a score do not count in the mean. What is proven must hold whatever they were
    worth, though, so they count as 0 there: a judge that fails on bad episodes alone would prove
    anything.

    Args:
        verdicts: one per episode.
        alpha: chance that what is proven is wrong.
        threshold: score that an episode must reach to be counted as passing.
    """
    scores = [verdict.score for verdict in verdicts if verdict.score is not None]
    tags = Counter(tag for verdict in verdicts for tag in verdict.tags)
    scored = [verdict for verdict in verdicts if verdict.score is not None]
    nothing = [0.0] * (len(verdicts) - len(scores))
    return Judgement(
        score=sum(scores) / len(scores) if scores else None,
        low=proven_mean([*scores, *nothing], alpha) if scores else None,
        alpha=alpha,
        passing=None if threshold is None else sum(score >= threshold for score in scores),
        episodes=len(verdicts),
        unknown=len(verdicts) - len(scores),
        tags=tuple(tag for tag, _ in tags.most_common()),
        leaves=_leaves(scored),
        verdicts=tuple(verdicts),
    )


def _leaves(verdicts: Sequence[Verdict]) -> dict[str, tuple[float, float | None]]:
    by_title: dict[str, list[Leaf]] = {}
    for verdict in verdicts:
        for leaf in verdict.leaves:
            by_title.setdefault(leaf.title, []).append(leaf)
    out: dict[str, tuple[float, float | None]] = {}
    for title, leaves in by_title.items():
        values = sorted(leaf.value for leaf in leaves if leaf.value is not None)
        middle = values[len(values) // 2] if values else None
        out[title] = sum(leaf.counted for leaf in leaves) / len(leaves), middle
    return out
