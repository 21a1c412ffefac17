"""What judges say: one verdict per episode, and what several of them amount to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

from pydantic import Field

from telic.core.confidence import ALPHA, proven_mean
from telic.core.config import Record
from telic.core.text import count
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


# ---- labels of people
# People label episodes as wanted or not. Where a cut above the threshold agrees with
# clearly more labels than the threshold does, scores are lowered by the difference from then on.
# Labels never raise a score: anybody who wants a pass could label until there is one.

HANDFUL = 6
"""labels below which they change nothing"""
_CLEARLY = 2
"""labels that a higher cut must agree with more"""
_ABOVE_ALL = 0.01


class LabelledScore(NamedTuple):
    """An episode that a judge scored and a person labelled."""

    score: float
    is_wanted: bool


class PersonCalibration(Record):
    """What labels make of the scores of one judge."""

    labels: int
    """episodes that people labelled and the judge could score"""
    agreeing: int
    """those on which judge and person agree"""
    threshold: float
    shift: float = 0.0
    """what scores are lowered by"""
    agreeing_after: int | None = None
    """labels that agree once it is; None: nothing is lowered"""

    @property
    def words(self) -> str:
        """Describe the effect of the labels."""
        if not self.labels:
            return "No episode that this judge scored has a label."
        said = (
            f"People and judge agree on {self.agreeing} of {count(self.labels, 'labelled episode')}"
        )
        if self.labels < HANDFUL:
            return f"{said}; below {HANDFUL} labels change no score."
        if not self.shift:
            return f"{said}; no higher bar agrees with clearly more, so scores stay as they are."
        return (
            f"{said}. Scores are lowered by {self.shift:.2f} from now on, with which "
            f"{self.agreeing_after} would have agreed."
        )


def calibrate(labelled: Sequence[LabelledScore], threshold: float) -> PersonCalibration:
    """Return what labelled scores say of the bar that a score must reach."""
    now = _agreeing(labelled, threshold)
    plain = PersonCalibration(labels=len(labelled), agreeing=now, threshold=threshold)
    if len(labelled) < HANDFUL:
        return plain
    above = sorted({row.score for row in labelled if row.score >= threshold})
    between = [(low + high) / 2 for low, high in pairwise(above)]
    cuts = [*between, above[-1] + _ABOVE_ALL] if above else []
    best = max(cuts, key=lambda cut: (_agreeing(labelled, cut), -cut), default=threshold)
    after = _agreeing(labelled, best)
    if after < now + _CLEARLY:
        return plain
    return plain.model_copy(update={"shift": best - threshold, "agreeing_after": after})


def lowered(verdicts: Sequence[Verdict], calibration: PersonCalibration) -> list[Verdict]:
    """Return verdicts with the scores that people's labels leave of them; unknown stays unknown."""
    if not calibration.shift:
        return list(verdicts)
    why = (
        f"lowered by {calibration.shift:.2f}: {count(calibration.labels, 'label')} of people ask "
        "more than this judge"
    )
    return [
        verdict
        if verdict.score is None
        else verdict.model_copy(
            update={
                "score": max(0.0, verdict.score - calibration.shift),
                "reason": f"{verdict.reason}; {why}" if verdict.reason else why,
            }
        )
        for verdict in verdicts
    ]


def _agreeing(labelled: Sequence[LabelledScore], cut: float) -> int:
    return sum((row.score >= cut) == row.is_wanted for row in labelled)
