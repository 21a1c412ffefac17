"""Verdicts of judges: one per episode, their summary for a policy, and calibration by people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

from pydantic import Field

from telic.core.confidence import ALPHA, proven_mean
from telic.core.config import Record
from telic.core.text import count
from telic.judges.criteria import CriterionScore

WHOLE = "the whole intent"
"""stands for the episode as such where a criterion is named"""
Source = Literal["code", "vision", "fused", "human"]


class Seen(Record):
    """The vision judge's score of one criterion in one episode."""

    criterion: str
    score: float | None
    """median of the answers, 0 to 1 in steps of 0.1; None: it cannot be seen"""
    answers: tuple[float | None, ...]
    """every answer, when it was asked repeatedly"""
    start_s: float | None
    end_s: float | None
    """where in the episode it was seen; None: nowhere in particular, or time is not known"""
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
    """evidence of the code judge"""
    seen: str
    """evidence of the vision judge"""
    check: EpisodeMeasure | None = None
    """a quantity over the disputed part"""
    asked_again: float | None = None
    """vision's score after a second, closer look; None: not asked, or it could not be seen"""
    resolved: bool = False
    """whether they agree after that look"""

    @property
    def last_seen(self) -> float:
        """The vision judge's latest score."""
        return self.vision if self.asked_again is None else self.asked_again


class Verdict(Record):
    """The verdict on one episode; score None means that the judge could not decide."""

    schema_version: Literal[1] = 1
    source: Source
    score: float | None
    leaves: tuple[CriterionScore, ...] = ()
    """scores by criterion"""
    tags: tuple[str, ...] = ()
    """failure tags, the worst first"""
    reason: str | None = None
    """why the score, or one of two judges, is missing"""
    recording: str | None = None
    """SHA-256 of the episode's file, as its recorder wrote it; None: not known"""
    seen: tuple[Seen, ...] = ()
    """scores of the vision judge, by criterion; the whole comes last"""
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
    """lower confidence bound of the mean, unknown episodes counted as 0"""
    alpha: float | None = None
    """chance that `low` is wrong, its share of a session's error rate; None: not known"""
    passing: int | None = None
    """episodes whose score reaches the threshold; None: not counted"""
    episodes: int
    unknown: int
    """episodes without a score"""
    tags: tuple[str, ...]
    leaves: dict[str, tuple[float, float | None]]
    """by criterion: mean credit, and the median measured value"""
    verdicts: tuple[Verdict, ...]


def judged(scores: Sequence[CriterionScore], score: float) -> Verdict:
    """Return the verdict of a code judge."""
    failed = sorted(
        (each for each in scores if not each.passed and each.tag),
        key=lambda each: (not each.is_guard, -(each.weight * (1.0 - each.counted))),
    )
    tags = tuple(dict.fromkeys(each.tag for each in failed if each.tag))
    return Verdict(source="code", score=score, leaves=tuple(scores), tags=tags)


def unknown(source: Source, reason: str) -> Verdict:
    """Return the verdict of a judge that could not decide."""
    return Verdict(source=source, score=None, reason=reason)


def together(
    verdicts: Sequence[Verdict], *, alpha: float = ALPHA, threshold: float | None = None
) -> Judgement:
    """Summarize the verdicts on a policy's episodes.

    Those without a score do not count in the mean. In the lower bound they count as 0: a judge that
    fails on bad episodes alone would otherwise prove anything.
    """
    scores = [verdict.score for verdict in verdicts if verdict.score is not None]
    missing = len(verdicts) - len(scores)
    tags = Counter(tag for verdict in verdicts for tag in verdict.tags)
    by_title: dict[str, list[CriterionScore]] = {}
    for verdict in verdicts:
        for each in verdict.leaves if verdict.score is not None else ():
            by_title.setdefault(each.title, []).append(each)
    criteria: dict[str, tuple[float, float | None]] = {}
    for title, own in by_title.items():
        values = sorted(each.value for each in own if each.value is not None)
        median = values[len(values) // 2] if values else None
        criteria[title] = sum(each.counted for each in own) / len(own), median
    return Judgement(
        score=sum(scores) / len(scores) if scores else None,
        low=proven_mean([*scores, *[0.0] * missing], alpha) if scores else None,
        alpha=alpha,
        passing=None if threshold is None else sum(score >= threshold for score in scores),
        episodes=len(verdicts),
        unknown=missing,
        tags=tuple(tag for tag, _ in tags.most_common()),
        leaves=criteria,
        verdicts=tuple(verdicts),
    )


# ---- calibration by people
# People label episodes as wanted or not. Where a cut above the threshold agrees with clearly more
# labels than the threshold does, scores are lowered by the difference from then on. Labels never
# raise a score: otherwise labelling until there is a pass would be possible.

HANDFUL = 6
"""fewer labels change nothing"""
_CLEARLY = 2
"""labels that a higher cut must agree with more"""
_ABOVE_ALL = 0.01


class PersonCalibration(Record):
    """Effect of labels on the scores of one judge."""

    labels: int
    """episodes that people labelled and the judge could score"""
    agreeing: int
    """those on which judge and person agree"""
    threshold: float
    shift: float = 0.0
    """amount by which scores are lowered"""
    agreeing_after: int | None = None
    """labels that agree once it is; None: nothing is lowered"""

    @property
    def words(self) -> str:
        """Describe the effect of the labels."""
        if not self.labels:
            return "No episode that this judge scored has a label."
        text = (
            f"People and judge agree on {self.agreeing} of {count(self.labels, 'labelled episode')}"
        )
        if self.labels < HANDFUL:
            return f"{text}; fewer than {HANDFUL} labels change no score."
        if not self.shift:
            return f"{text}; no higher threshold agrees with clearly more: scores are unchanged."
        return (
            f"{text}. Scores are lowered by {self.shift:.2f} from now on, with which "
            f"{self.agreeing_after} would have agreed."
        )


def calibrate(labelled: Sequence[tuple[float, bool]], threshold: float) -> PersonCalibration:
    """Return the shift with which scores of episodes and labels (is it wanted?) agree best."""

    def agreeing(cut: float) -> int:
        return sum((score >= cut) == is_wanted for score, is_wanted in labelled)

    now = agreeing(threshold)
    plain = PersonCalibration(labels=len(labelled), agreeing=now, threshold=threshold)
    above = sorted({score for score, _ in labelled if score >= threshold})
    if len(labelled) < HANDFUL or not above:
        return plain
    cuts = [*((low + high) / 2 for low, high in pairwise(above)), above[-1] + _ABOVE_ALL]
    best = max(cuts, key=lambda cut: (agreeing(cut), -cut))
    if agreeing(best) < now + _CLEARLY:
        return plain
    return plain.model_copy(update={"shift": best - threshold, "agreeing_after": agreeing(best)})


def lowered(verdicts: Sequence[Verdict], calibration: PersonCalibration) -> list[Verdict]:
    """Return verdicts with scores lowered as labels require; unknown stays unknown."""
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
