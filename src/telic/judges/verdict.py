"""Verdicts on episodes, their summary per policy, and calibration with human labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal

from pydantic import AliasChoices, Field

from telic.core.confidence import ALPHA, proven_mean
from telic.core.config import Record
from telic.core.text import count
from telic.judges.criteria import CriterionScore

WHOLE = "the whole intent"
"""name used in place of a criterion for the episode as a whole"""
Source = Literal["code", "vision", "fused", "human"]
CRITERIA = AliasChoices("criteria", "leaves")  # `leaves` in earlier versions


class VisionScore(Record):
    """Score of one criterion in one episode by the vision judge."""

    criterion: str
    score: float | None
    """median of the answers, from 0 to 1 in steps of 0.1, or None if it is not visible"""
    answers: tuple[float | None, ...]
    """all answers if the query was repeated"""
    start_s: float | None
    end_s: float | None
    """end of the evidence in the episode, or None if it is not specific or time is not known"""
    evidence: str


class Disagreement(Record):
    """Criterion on which code and vision differ by more than the margin."""

    criterion: str
    code: float
    vision: float
    margin: float
    start_s: float | None
    end_s: float | None
    """end of the disputed part of the episode according to the vision judge"""
    measured: str
    """evidence from the code judge"""
    seen: str
    """evidence from the vision judge"""
    check: dict[str, Any] | None = None
    """written by earlier versions"""
    asked_again: float | None = None
    """vision's score after a second look, or None if not repeated or not visible"""
    resolved: bool = False
    """whether the judges agree after the second look"""

    @property
    def last_seen(self) -> float:
        """Latest score of the vision judge."""
        return self.vision if self.asked_again is None else self.asked_again


class Verdict(Record):
    """Verdict on one episode. The score is None if the judge could not decide."""

    schema_version: Literal[1] = 1
    source: Source
    score: float | None
    criteria: tuple[CriterionScore, ...] = Field((), validation_alias=CRITERIA)
    """scores by criterion"""
    tags: tuple[str, ...] = ()
    """failure tags, most serious first"""
    reason: str | None = None
    """why the score, or the score of one of two judges, is missing"""
    recording: str | None = None
    """SHA-256 of the episode's file when it was recorded, or None if not known"""
    seen: tuple[VisionScore, ...] = ()
    """scores of the vision judge by criterion, with the overall score last"""
    spread: float | None = None
    """range of repeated scores of the vision judge, or None if not repeated"""
    by_judge: dict[Source, float | None] = Field(default={})
    """scores of the judges that were combined"""
    disagreements: tuple[Disagreement, ...] = ()
    """differences between the combined judges, whether resolved or not"""


class Judgment(Record):
    """Judgment of a policy on several fresh episodes."""

    schema_version: Literal[1] = 1
    score: float | None
    """mean score over the episodes, or None if no episode could be judged"""
    low: float | None
    """lower confidence bound of the mean, with unknown episodes counted as 0"""
    alpha: float | None = None
    """error probability of `low`, a share of the session's error rate, or None if not known"""
    passing: int | None = None
    """number of episodes that reach the threshold, or None if not counted"""
    episodes: int
    unknown: int
    """number of episodes without a score"""
    tags: tuple[str, ...]
    criteria: dict[str, tuple[float, float | None]] = Field(validation_alias=CRITERIA)
    """mean credit and median measured value of each criterion"""
    verdicts: tuple[Verdict, ...]


def judged(scores: Sequence[CriterionScore], score: float) -> Verdict:
    """Create the verdict of a code judge."""
    failed = sorted(
        (each for each in scores if not each.passed and each.tag),
        key=lambda each: (not each.is_guard, -(each.weight * (1.0 - each.counted))),
    )
    tags = tuple(dict.fromkeys(each.tag for each in failed if each.tag))
    return Verdict(source="code", score=score, criteria=tuple(scores), tags=tags)


def unknown(source: Source, reason: str) -> Verdict:
    """Create the verdict of a judge that could not decide."""
    return Verdict(source=source, score=None, reason=reason)


def together(
    verdicts: Sequence[Verdict], *, alpha: float = ALPHA, threshold: float | None = None
) -> Judgment:
    """Summarize the verdicts on a policy's episodes.

    Unknown scores are excluded from the mean but count as 0 in the lower bound, because a judge
    that fails only on bad episodes could otherwise prove any score.
    """
    scores = [verdict.score for verdict in verdicts if verdict.score is not None]
    missing = len(verdicts) - len(scores)
    tags = Counter(tag for verdict in verdicts for tag in verdict.tags)
    by_title: dict[str, list[CriterionScore]] = {}
    for verdict in verdicts:
        for each in verdict.criteria if verdict.score is not None else ():
            by_title.setdefault(each.title, []).append(each)
    criteria: dict[str, tuple[float, float | None]] = {}
    for title, own in by_title.items():
        values = sorted(each.value for each in own if each.value is not None)
        median = values[len(values) // 2] if values else None
        criteria[title] = sum(each.counted for each in own) / len(own), median
    return Judgment(
        score=sum(scores) / len(scores) if scores else None,
        low=proven_mean([*scores, *[0.0] * missing], alpha) if scores else None,
        alpha=alpha,
        passing=None if threshold is None else sum(score >= threshold for score in scores),
        episodes=len(verdicts),
        unknown=missing,
        tags=tuple(tag for tag, _ in tags.most_common()),
        criteria=criteria,
        verdicts=tuple(verdicts),
    )


def at_quantiles(ranked: Sequence[int]) -> dict[str, int]:
    """Return the 10th, 50th and 90th percentile episodes of a ranking, worst first."""
    shares = {"p10": 0.1, "median": 0.5, "p90": 0.9} if ranked else {}
    return {name: ranked[round(share * (len(ranked) - 1))] for name, share in shares.items()}


# ---- calibration with human labels
# People label episodes as wanted or not. If a cut above the threshold agrees with clearly more
# labels than the threshold does, later scores are lowered by the difference. Labels never raise a
# score, because otherwise users could label until a policy passes.

HANDFUL = 6
"""minimum number of labels for calibration"""
_CLEARLY = 2
"""number of additional labels with which a higher threshold must agree"""
_ABOVE_ALL = 0.01


class PersonCalibration(Record):
    """Effect of human labels on the scores of one judge."""

    labels: int
    """number of labeled episodes that the judge could score"""
    agreeing: int
    """number of episodes on which judge and label agree"""
    threshold: float
    shift: float = 0.0
    """amount by which scores are lowered"""
    agreeing_after: int | None = None
    """number of labels that agree after the shift, or None without a shift"""

    @property
    def words(self) -> str:
        """Describe the effect of the labels."""
        if not self.labels:
            return "No labeled episode was scored by this judge."
        text = (
            f"People and judge agree on {self.agreeing} of {count(self.labels, 'labeled episode')}"
        )
        if self.labels < HANDFUL:
            return f"{text}; scores are only adjusted with at least {HANDFUL} labels."
        if not self.shift:
            return f"{text}; no higher threshold is much better, so scores are unchanged."
        return (
            f"{text}. Scores are now lowered by {self.shift:.2f}, with which "
            f"{self.agreeing_after} would have agreed."
        )


def calibrate(labeled: Sequence[tuple[float, bool]], threshold: float) -> PersonCalibration:
    """Return the shift that makes scores agree best with labels, given pairs (score, is_wanted)."""

    def agreeing(cut: float) -> int:
        return sum((score >= cut) == is_wanted for score, is_wanted in labeled)

    now = agreeing(threshold)
    plain = PersonCalibration(labels=len(labeled), agreeing=now, threshold=threshold)
    above = sorted({score for score, _ in labeled if score >= threshold})
    if len(labeled) < HANDFUL or not above:
        return plain
    cuts = [*((low + high) / 2 for low, high in pairwise(above)), above[-1] + _ABOVE_ALL]
    best = max(cuts, key=lambda cut: (agreeing(cut), -cut))
    if agreeing(best) < now + _CLEARLY:
        return plain
    return plain.model_copy(update={"shift": best - threshold, "agreeing_after": agreeing(best)})


def lowered(verdicts: Sequence[Verdict], calibration: PersonCalibration) -> list[Verdict]:
    """Return verdicts with scores lowered by the calibration. Unknown scores remain unknown."""
    if not calibration.shift:
        return list(verdicts)
    why = (
        f"lowered by {calibration.shift:.2f}: {count(calibration.labels, 'label')} are stricter "
        "than this judge"
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
