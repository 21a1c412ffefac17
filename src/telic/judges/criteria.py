"""Criteria: measurable parts of an intent that are scored in every episode.

People read, edit and approve criteria. A judge file returns one `CriterionScore` per criterion:
no credit up to `zero`, full credit from `goal` on, and linear in between. A criterion passes if it
reaches `goal`. The score of an episode is the weighted mean credit. If the worst criterion for a
phrase of the intent earned less, the score is halfway between the two, so an episode cannot pass
unless all phrases are satisfied. A criterion with `after` counts if that one earned more than half.
Constraints rule out look-alikes: the score of the episode is multiplied by their credit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from pydantic import AliasChoices, Field, FiniteFloat

from telic.core.config import Record
from telic.errors import UsageError

CriterionKind = Literal["sustained", "cumulative", "phased"]
_Way = Literal["at_least", "at_most", "about"]


class Criterion(Record):
    """One measurable part of an intent."""

    title: str = Field(min_length=1, description="short title of the criterion and its score")
    quantity: str = Field(description="description of the measured value")
    measure: str = Field(
        default="",
        description="expression to measure, such as mean(forward_velocity) or "
        "share(uprightness > 0.8). Empty only if no quantity expresses it.",
    )
    phase: int = Field(
        default=0, ge=0, description="phase in which it is measured, or 0 for the whole episode"
    )
    kind: CriterionKind = Field(
        default="sustained",
        description="whether the value is sustained, accumulated, or reached at the end",
    )
    direction: _Way = Field(default="at_least", description="correct side of the goal")
    zero: float | None = Field(
        default=None, description="value that earns no credit, or None if only code knows it"
    )
    goal: float | None = Field(
        default=None, description="value that earns full credit, which is the target for `about`"
    )
    unit: str = ""
    weight: float = Field(default=1.0, ge=0, description="weight in the score, 0 for a constraint")
    is_guard: bool = Field(default=False, description="whether its credit scales the total score")
    is_stated: bool = Field(
        default=False, description="required for a pass, because the intent states it"
    )
    tag: str | None = Field(default=None, description="one-word tag for failures")
    source: str = Field(default="", description="source of the numbers, if known")
    is_open: bool = Field(default=False, description='open-ended goal, as in "as fast as possible"')
    best: float | None = Field(default=None, description="best known value of an open-ended goal")
    best_source: str = Field(default="", description="source of the best value")


class EpisodePhase(Record):
    """Phase of a sequence. The next phase begins when its end condition is met."""

    until: str = Field(
        default="", description="end condition, such as height > 1.5, or empty for the last phase"
    )
    seconds: float = Field(default=0.0, ge=0, description="time the condition must hold, in s")


class Motion(Record):
    """Segment of a scripted demonstration. By default, the robot stands still."""

    seconds: float = Field(gt=0, le=60)
    forward_mps: float = Field(
        default=0.0, description="velocity along +x, or along the heading (see `circle`)"
    )
    left_mps: float = Field(default=0.0, description="along +y")
    turn_rps: float = Field(default=0.0, description="yaw rate in rad/s, positive to the left")
    circle: bool = Field(default=False, description="move along the heading, not along +x")
    jumps: int = Field(default=0, ge=0, le=50, description="number of evenly spaced jumps")
    height_m: float = Field(default=0.0, ge=0, le=5, description="height of each jump")
    pitch_turns: float = Field(
        default=0.0, description="pitch in turns, negative for backward, airborne if it jumps"
    )
    roll_turns: float = Field(default=0.0, description="roll in turns, positive to the right")
    stride_hz: float = Field(default=0.0, ge=0, description="stride frequency of the legs")
    feet: tuple[tuple[float, ...], ...] = Field(
        default=(),
        description="touchdown phases (0 to 1) of each foot in a stride. A trot on four "
        "feet is ((0,), (0.5,), (0.5,), (0,)). If empty, the legs swing without contact.",
    )
    command: tuple[float, float, float] | None = Field(
        default=None,
        validation_alias=AliasChoices("command", "told"),  # language: quoted
        description="commanded forward, leftward and yaw velocity, by default of the environment",
    )
    duty: float = Field(
        default=0.6, gt=0, lt=1, description="stance duration per landing, relative to a stride"
    )


class JointWave(Record):
    """Periodic motion of a joint, as its mean and the Fourier coefficients of each harmonic."""

    joint: str
    terms: tuple[FiniteFloat, ...] = Field(min_length=1, description="coefficients in rad or m")


class PrescribedMotion(Record):
    """Motion with prescribed joint positions, for a reference motion or a look-alike."""

    name: str
    motion: Motion
    joints: tuple[JointWave, ...] = Field(description="joint motions in phase with the stride")
    is_good: bool = False


_GATE = 0.5


class CoveredPhrase(Record):
    """Words of an intent with the criteria that cover them."""

    words: str
    criteria: tuple[str, ...] = Field(
        default=(), description="titles of criteria, or empty if any motion satisfies the words"
    )


def scope_words(covered: Sequence[str], left_out: Sequence[str]) -> str:
    """Describe which parts of an intent are judged, e.g. "judged: run; not judged: “skip”"."""
    judged = f"judged: {', '.join(dict.fromkeys(covered))}" if covered else ""
    left = ", ".join(f"“{words}”" for words in dict.fromkeys(left_out))
    return "; ".join(filter(None, (judged, f"not judged: {left}" if left else "")))


class Objection(Record):
    """Objection of a reviewer to a reward or a judge, which remains open until withdrawn."""

    number: int
    about: Literal["reward", "judge"]
    text: str
    file: str = Field(description="hash of the criticized program")
    withdrawn: str | None = Field(default=None, description="reason, or None while it is open")


class Composition(Record):
    """Implementation of an intent: criteria, a reward, a judge and demonstrations."""

    intent: str
    env: str
    criteria: tuple[Criterion, ...]
    phases: tuple[EpisodePhase, ...] = ()
    """phases of a sequence that criteria refer to"""
    reward: str
    judge: str
    env_args: dict[str, Any]
    settings: dict[str, Any] = Field(default={}, description="non-default trainer settings")
    steps: int
    """number of environment steps to train each policy"""
    doubts: tuple[str, ...]
    not_understood: tuple[str, ...]
    dropped: tuple[str, ...] = ()
    """numbers, units and modifiers that no criterion covers"""
    covered: tuple[CoveredPhrase, ...] = ()
    """words covered by each criterion, or empty if the author provides none"""
    motions: tuple[Motion, ...] = ()
    """scripted demonstration for validating reward and judge, or empty"""
    shown: tuple[PrescribedMotion, ...] = ()
    """reference motion and look-alikes to demonstrate instead of `motions`"""
    fine: tuple[str, ...] = ()
    """failure modes that satisfy this intent, such as standing still"""
    objections: tuple[Objection, ...] = ()
    """objections of reviewers, including withdrawn ones"""


class CriterionScore(Record):
    """One measured criterion in a verdict."""

    __offered__: ClassVar[str] = "a score"
    title: str = Field(max_length=500)
    value: FiniteFloat | None
    """measured value, or None if it could not be measured in this episode"""
    unit: str = Field(default="", max_length=100)
    zero: FiniteFloat
    goal: FiniteFloat
    weight: FiniteFloat = Field(default=1.0, ge=0.0)
    credit: float = Field(ge=0.0, le=1.0)
    """credit earned, from 0 to 1, before gates are applied"""
    counted: float = Field(ge=0.0, le=1.0)
    """credit that counts (0 behind a closed gate)"""
    passed: bool
    tag: str | None = Field(default=None, max_length=100)
    """failure tag if the criterion is not passed"""
    is_guard: bool = False
    is_stated: bool = False

    @property
    def waits(self) -> bool:
        """True if the credit does not count because an earlier criterion is not met."""
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
    """Score a value: no credit at `zero`, full credit at `goal`, which may be below `zero`."""
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
    """Score a constraint, whose credit multiplies the total score. `options` are as in `score`.

    While its gate is closed, the constraint has no effect.
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
    """Score the distance to a target: full credit within the tolerance, none beyond four times it.

    The measured value is the distance, with the unit "m/s off" for "m/s".
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
"""aliases for judge files of earlier versions"""


def total_score(scores: Sequence[CriterionScore]) -> float:
    """Return the score of an episode, from 0 to 1, as defined in the module docstring."""
    weights = sum(each.weight for each in scores)
    if weights <= 0.0:
        raise UsageError("A judge must return at least one score with a positive weight.")
    if not math.isfinite(weights):
        raise UsageError("The sum of the judge's score weights is too large.")
    mean = sum(each.weight * each.counted for each in scores) / weights
    worst = min((each.counted for each in scores if each.is_stated), default=mean)
    mean = (mean + min(mean, worst)) / 2.0
    return math.prod((each.credit for each in scores if each.is_guard), start=mean)


def is_consistent(made: CriterionScore) -> bool:
    """Return whether a score from untrusted code matches its measured value."""
    if made.value is None:  # earns nothing, except a constraint behind a closed gate
        earned = float(made.is_guard and made.credit == 1.0)
        return not made.passed and made.credit == made.counted == earned
    earned = _credit(made.value, made.zero, made.goal)
    is_passed_rightly = not made.passed or made.counted == 1.0
    return made.credit == earned and made.counted in (0.0, earned) and is_passed_rightly


def _credit(value: float, zero: float, goal: float) -> float:
    if zero == goal:
        raise UsageError(
            f"zero and goal of a score are both {zero:g}, but partial credit requires a range."
        )
    if not math.isfinite(value):
        return 0.0
    return min(max((value - zero) / (goal - zero), 0.0), 1.0)
