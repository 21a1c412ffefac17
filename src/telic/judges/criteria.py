"""Criteria, which are the measurable parts of an intent, and scores for episodes.

People read, edit and approve criteria. A judge file returns one `CriterionScore` per criterion:
no credit up to `zero`, full credit from `goal` on, linear in between. It passes at the goal. The
score of an episode is the weighted mean credit. If the worst criterion of a stated phrase earned
less, the score is halfway between the two, so that an episode cannot pass without every stated
phrase. A criterion with `after` counts only if that criterion earned more than half. Constraints
rule out look-alikes: the episode's score is multiplied by their credit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from pydantic import Field, FiniteFloat

from telic.core.config import Record
from telic.errors import UsageError

CriterionKind = Literal["sustained", "cumulative", "phased"]
_Way = Literal["at_least", "at_most", "about"]


class Criterion(Record):
    """One measurable part of an intent."""

    title: str = Field(min_length=1, description="short plain title, also of the judge's score")
    quantity: str = Field(description="description of the measured value")
    measure: str = Field(
        default="",
        description="expression of quantities to measure: mean(forward_velocity), "
        "share(uprightness > 0.8); empty only if no quantity expresses it",
    )
    phase: int = Field(
        default=0, ge=0, description="phase in which it is measured, from 1; 0: the whole episode"
    )
    kind: CriterionKind = Field(
        default="sustained",
        description="sustained over time, accumulated over the episode, or at the end of a phase",
    )
    direction: _Way = Field(default="at_least", description="correct side of the goal")
    zero: float | None = Field(
        default=None, description="value that earns nothing; None if known only to the judge's code"
    )
    goal: float | None = Field(
        default=None, description="value that earns full credit; for `about`, the target value"
    )
    unit: str = ""
    weight: float = Field(default=1.0, ge=0, description="weight in the score; 0 for a constraint")
    is_guard: bool = Field(default=False, description="multiply the whole score by its credit")
    is_stated: bool = Field(
        default=False, description="represents a stated phrase, without which nothing passes"
    )
    tag: str | None = Field(default=None, description="one-word failure tag")
    source: str = Field(default="", description="source of its numbers, if known")
    is_open: bool = Field(default=False, description='more is better, as in "as fast as possible"')
    best: float | None = Field(default=None, description="best known value if open-ended")
    best_source: str = Field(default="", description="source of the best value")


class EpisodePhase(Record):
    """Phase of a sequence. The next phase begins when its end condition is met."""

    until: str = Field(
        default="", description="end condition, such as height > 1.5; empty for the last"
    )
    seconds: float = Field(default=0.0, ge=0, description="total time the condition must hold, s")


class Motion(Record):
    """Segment of a scripted demonstration. By default, the robot stands still."""

    seconds: float = Field(gt=0, le=60)
    forward_mps: float = Field(
        default=0.0, description="velocity along +x, or along the heading, see circle"
    )
    left_mps: float = Field(default=0.0, description="along +y")
    turn_rps: float = Field(default=0.0, description="yaw rate, rad/s, left positive")
    circle: bool = Field(default=False, description="forward velocity follows the heading")
    jumps: int = Field(default=0, ge=0, le=50, description="number of flights, evenly spaced")
    height_m: float = Field(default=0.0, ge=0, le=5, description="height of each jump")
    pitch_turns: float = Field(
        default=0.0, description="pitch turns, negative backward; in the air if it jumps"
    )
    roll_turns: float = Field(default=0.0, description="roll in turns, positive to the right")
    stride_hz: float = Field(default=0.0, ge=0, description="stride frequency of the legs")
    feet: tuple[tuple[float, ...], ...] = Field(
        default=(),
        description="gait: landing phases in a stride for each foot, 0 to 1; a trot of four "
        "feet is ((0,), (0.5,), (0.5,), (0,)). Empty: feet hover and legs only swing",
    )
    told: tuple[float, float, float] | None = Field(
        default=None,
        description="commands: velocity forward and to the left, yaw rate; by default those of the "
        "environment",
    )
    duty: float = Field(
        default=0.6, gt=0, lt=1, description="stance duration per landing, relative to a stride"
    )


class JointCourse(Record):
    """Periodic joint motion, as the mean and the Fourier coefficients of each harmonic."""

    joint: str
    terms: tuple[FiniteFloat, ...] = Field(min_length=1, description="radians or metres")


class PrescribedMotion(Record):
    """Motion with prescribed joint positions, for a reference motion or a look-alike."""

    name: str
    motion: Motion
    joints: tuple[JointCourse, ...] = Field(description="in phase with the motion's stride_hz")
    is_good: bool = False


_GATE = 0.5


class Covered(Record):
    """Words of an intent, and the criteria that cover them."""

    words: str
    criteria: tuple[str, ...] = Field(
        default=(), description="titles; empty if any motion of this robot satisfies it"
    )


def scope_words(covered: Sequence[str], left_out: Sequence[str]) -> str:
    """Describe which parts of an intent are judged, e.g. "judged: run; not judged: “skip”"."""
    judged = f"judged: {', '.join(dict.fromkeys(covered))}" if covered else ""
    left = ", ".join(f"“{words}”" for words in dict.fromkeys(left_out))
    return "; ".join(filter(None, (judged, f"not judged: {left}" if left else "")))


class Objection(Record):
    """Objection of a reviewer to a reward or a judge, which is open until withdrawn."""

    number: int
    about: Literal["reward", "judge"]
    text: str
    file: str = Field(description="hash of the criticized program")
    withdrawn: str | None = Field(default=None, description="reason; None while it is open")


class Composition(Record):
    """Implementation of an intent: criteria, a reward, a judge and demonstrations."""

    intent: str
    env: str
    criteria: tuple[Criterion, ...]
    phases: tuple[EpisodePhase, ...] = ()
    """phases of a sequence, which criteria refer to"""
    reward: str
    judge: str
    env_args: dict[str, Any]
    settings: dict[str, Any] = Field(default={}, description="changed trainer settings")
    steps: int
    """environment steps per policy"""
    doubts: tuple[str, ...]
    not_understood: tuple[str, ...]
    dropped: tuple[str, ...] = ()
    """numbers, units and modifiers that no criterion covers"""
    covered: tuple[Covered, ...] = ()
    """words covered by each criterion; empty if the author gives none"""
    motions: tuple[Motion, ...] = ()
    """scripted demonstration for validating reward and judge; empty if there is none"""
    shown: tuple[PrescribedMotion, ...] = ()
    """reference motion and look-alikes, demonstrated instead of `motions`"""
    fine: tuple[str, ...] = ()
    """failure modes that are acceptable for this intent, such as standing still"""
    objections: tuple[Objection, ...] = ()
    """objections of reviewers, including withdrawn ones"""


class CriterionScore(Record):
    """One measured criterion in a verdict."""

    __offered__: ClassVar[str] = "a score"
    title: str = Field(max_length=500)
    value: FiniteFloat | None
    """measured value; None if it could not be measured in this episode"""
    unit: str = Field(default="", max_length=100)
    zero: FiniteFloat
    goal: FiniteFloat
    weight: FiniteFloat = Field(default=1.0, ge=0.0)
    credit: float = Field(ge=0.0, le=1.0)
    """credit earned, 0 to 1, before gates"""
    counted: float = Field(ge=0.0, le=1.0)
    """credit that counts: 0 behind a closed gate"""
    passed: bool
    tag: str | None = Field(default=None, max_length=100)
    """failure tag if it is not passed"""
    is_guard: bool = False
    is_stated: bool = False

    @property
    def waits(self) -> bool:
        """True if its credit does not count because an earlier criterion is not met."""
        return self.counted < self.credit


def score(
    title: str,
    value: float,
    *,
    zero: float,
    goal: float,
    weight: float = 1.0,
    unit: str = "",
    tag: str | None = None,
    after: CriterionScore | None = None,
    stated: bool = False,
) -> CriterionScore:
    """Score a value with no credit at `zero` and full credit at `goal`, which may be lower."""
    credit = _credit(value, zero, goal)
    is_open = after is None or after.counted > _GATE
    return CriterionScore(
        title=title,
        value=float(value) if math.isfinite(value) else None,
        unit=unit,
        zero=zero,
        goal=goal,
        weight=weight,
        credit=credit,
        counted=credit if is_open else 0.0,
        passed=is_open and credit >= 1.0,
        tag=tag,
        is_stated=stated,
    )


def require(
    title: str,
    value: float,
    *,
    zero: float,
    goal: float,
    after: CriterionScore | None = None,
    **options: Any,
) -> CriterionScore:
    """Score a constraint, by which the total score is multiplied. `options` are as in `score`.

    Behind a closed gate there is nothing to constrain, and the score is unchanged.
    """
    made = score(title, value, zero=zero, goal=goal, weight=0.0, **options)
    changes: dict[str, Any] = {"is_guard": True}
    if after is not None and after.counted <= _GATE:
        changes |= {"value": None, "credit": 1.0, "counted": 1.0, "passed": False, "tag": None}
    return made.model_copy(update=changes)


def score_near(
    title: str,
    value: float,
    target: float,
    tolerance: float,
    *,
    unit: str = "",
    **options: Any,
) -> CriterionScore:
    """Score closeness to a target, with full credit within the tolerance and none at four times.

    The measured value is the distance to the target, with the unit "m/s off".
    """
    return score(
        f"{title} (within {tolerance:g} of {target:g})",
        abs(value - target),
        zero=4.0 * tolerance,
        goal=tolerance,
        unit=f"{unit} off".strip(),
        **options,
    )


leaf, near, guard = score, score_near, require
"""names in judge files of earlier versions"""


def total_score(scores: Sequence[CriterionScore]) -> float:
    """Return the score of an episode from 0 to 1, as defined in the module docstring."""
    weights = sum(each.weight for each in scores)
    if weights <= 0.0:
        raise UsageError("A judge must return at least one score with a weight.")
    if not math.isfinite(weights):
        raise UsageError("The sum of the judge's score weights is too large.")
    mean = sum(each.weight * each.counted for each in scores) / weights
    worst = min((each.counted for each in scores if each.is_stated), default=mean)
    mean = (mean + min(mean, worst)) / 2.0
    return math.prod((each.credit for each in scores if each.is_guard), start=mean)


def is_consistent(made: CriterionScore) -> bool:
    """Check that a score matches its measured value, as it may come from untrusted code."""
    if made.value is None:  # earns nothing, except a constraint behind a closed gate
        earned = float(made.is_guard and made.credit == 1.0)
        return not made.passed and made.credit == made.counted == earned
    earned = _credit(made.value, made.zero, made.goal)
    is_passed_rightly = not made.passed or made.counted == 1.0
    return made.credit == earned and made.counted in (0.0, earned) and is_passed_rightly


def _credit(value: float, zero: float, goal: float) -> float:
    if zero == goal:
        raise UsageError(
            f"zero and goal of a score are both {zero:g}: partial credit needs a range."
        )
    if not math.isfinite(value):
        return 0.0
    return min(max((value - zero) / (goal - zero), 0.0), 1.0)
