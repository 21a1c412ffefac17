"""What people's labels say of a judge: how often they agree, and whether its bar lies too low.

People label episodes (this is, or is not, what I meant). The judge's score of the same episodes,
cut at the threshold, agrees with some of them. Where another, higher cut agrees with clearly more,
scores are lowered by the difference from then on:

    shift = cut - threshold

Three rules keep it honest. Below a handful of labels nothing happens. The higher cut must agree
with two labels more: a single slip moves nothing. And labels never raise a score: whoever wants a
pass could label until there is one, so a person's yes counts against raising the bar and no
further.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from telic.core.config import Record
from telic.core.text import count
from telic.judges.verdict import Verdict

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
        """Say what the labels come to."""
        if not self.labels:
            return "Nobody has labelled an episode that this judge scored."
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
