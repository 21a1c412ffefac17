"""When a phase was good enough for the next one: rules over plain numbers, all pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Literal, NamedTuple

from telic.studies.documents.base import Part
from telic.studies.documents.contract import PHASES, Phase
from telic.studies.documents.metrics import Direction

GainOutcome = Literal["holds", "lost", "cannot_tell"]
MOST_LOST_GAIN = 0.5
"""share of a claimed gain that a check of the incumbent may lose"""


class RunFact(NamedTuple):
    """What is known of a planned run of a phase."""

    run: str
    is_finished: bool
    score: float | None
    """the primary metric; None when it could not be read"""
    fatal: tuple[str, ...] = ()
    """fatal signatures of the monitor"""


class Advance(Part):
    """Whether a candidate goes on; `wait` when that cannot be said yet."""

    verdict: Literal["advance", "hold", "wait"]
    why: str


def next_phase(phase: Phase, planned: Sequence[Phase]) -> Phase | None:
    """Return the planned phase after this one."""
    for each in planned:
        if PHASES.index(each) > PHASES.index(phase):
            return each
    return None


def after_smoke(runs: Sequence[RunFact]) -> Advance:
    """It started, logged, and ended as it should; how good it is does not matter."""
    if not runs:
        return Advance(verdict="wait", why="no run of smoke has ended")
    for each in runs:
        if not each.is_finished:
            return Advance(verdict="hold", why=f"{each.run} did not finish")
        if each.fatal:
            return Advance(verdict="hold", why=f"{each.run} showed {', '.join(each.fatal)}")
        if each.score is None:
            return Advance(verdict="wait", why=f"the metric of {each.run} has not been read")
    return Advance(verdict="advance", why="it starts, logs and ends as it should")


def after_short_trial(
    own: str,
    scores: Mapping[str, float | None],
    incumbent: float | None,
    direction: Direction,
    eta: int,
) -> Advance:
    """Better than the incumbent's median, or among the best 1/eta of its batch.

    Args:
        own: the candidate.
        scores: median score of each candidate of the batch, itself too; None while unknown.
        incumbent: the incumbent's median at the same step, where it was measured.
        direction: of the metric.
        eta: one in so many goes on.
    """
    mine = scores[own]
    if mine is None:
        return Advance(verdict="wait", why="its metric has not been read")
    sign = 1.0 if direction == "max" else -1.0
    if incumbent is not None and sign * (mine - incumbent) > 0:
        return Advance(verdict="advance", why=f"{mine:g} beats the incumbent's {incumbent:g}")
    missing = [name for name, score in scores.items() if score is None]
    if missing:
        return Advance(verdict="wait", why=f"{', '.join(missing)} of its batch are not measured")
    known = [score for score in scores.values() if score is not None]
    rank = 1 + sum(sign * (score - mine) > 0 for score in known)
    places = math.ceil(len(known) / eta)
    if rank <= places:
        return Advance(verdict="advance", why=f"number {rank} of {len(known)} in its batch")
    return Advance(
        verdict="hold",
        why=f"number {rank} of {len(known)} in its batch, of which {places} go on",
    )


def median_score(runs: Sequence[RunFact]) -> float | None:
    """Return the median of the scores; None unless every run has one."""
    scores = [each.score for each in runs if each.score is not None]
    return median(scores) if scores and len(scores) == len(runs) else None


def gain_outcome(claimed: float, low: float, high: float) -> GainOutcome:
    """Say what fresh seeds make of a claimed gain: all of their interval has to speak one way.

    Args:
        claimed: the gain that was accepted; above 0, larger is better.
        low: lower end of the interval of the gain that the fresh seeds give.
        high: its upper end.
    """
    least = (1 - MOST_LOST_GAIN) * claimed
    if low > least:
        return "holds"
    return "lost" if high < least else "cannot_tell"
