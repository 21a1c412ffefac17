"""Answer records of the model roles.

Names, docstrings and descriptions are part of the answer's JSON schema, which is hashed into the
cache key of a reply. Changing them invalidates the cached replies of interrupted sessions.
"""

from __future__ import annotations

from typing import Literal

from pydantic import AliasChoices, Field

from telic.authors.candidate import Lesson
from telic.core.config import Record
from telic.judges.criteria import Covered, Criterion, EpisodePhase, Motion
from telic.robots.terrain import TerrainKind

_Setting = float | int | bool | str

SETTINGS = "changes of the trainer's settings by name, within the bounds given; usually none"


class Elicited(Record):
    """An intent made measurable."""

    criteria: tuple[Criterion, ...] = Field(min_length=1, max_length=10)
    phases: tuple[EpisodePhase, ...] = Field(
        default=(), max_length=6, description="of what is done in sequence; criteria name them"
    )
    covered: tuple[Covered, ...] = Field(
        default=(), description="which criteria stand for which words of the intent"
    )
    seconds: float = Field(ge=0.5, le=60, description="length of an episode")
    ends_when_it_falls: bool = Field(default=True)
    terrain: TerrainKind = Field(
        default="flat", description="the terrain, where the environment has a choice"
    )
    terrain_start: Literal["top", "foot"] = Field(
        default="top", description="start of slopes and stairs: foot, if the robot is to go up"
    )
    ambiguous: tuple[str, ...] = Field(
        default=(), description="what is ambiguous, and how it is taken"
    )
    not_understood: tuple[str, ...] = Field(
        default=(), description="words of the intent, quoted, that no criterion measures"
    )
    demonstration: tuple[Motion, ...] = Field(
        default=(),
        validation_alias=AliasChoices("demonstration", "puppet"),  # language: quoted
        description="motion of the torso in a scripted demonstration, one after another; "
        "empty if the behaviour is not one of the torso",
    )
    fine: tuple[str, ...] = Field(
        default=(), description="which of the named failure modes would be right here"
    )


class WrittenReward(Record):
    """A reward file."""

    reasoning: str = Field(description="what an optimiser would do with it, in a few sentences")
    source: str = Field(description="the whole Python file")
    steps: int = Field(ge=10_000, le=20_000_000, description="environment steps per policy")
    settings: dict[str, _Setting] = Field(default={}, description=SETTINGS)


class WrittenJudge(Record):
    """A judge file."""

    reasoning: str = Field(description="how look-alikes are ruled out, in a few sentences")
    source: str = Field(description="the whole Python file")


class Withdrawal(Record):
    """An earlier objection that no longer holds."""

    objection: int = Field(description="its number")
    why: str = Field(min_length=10, description="what in the present file settles it, in words")


class Review(Record):
    """The problems a reviewer finds; none is an approval, if no objection is open."""

    reasoning: str = Field(description="what you checked, in a few sentences")
    reward_problems: tuple[str, ...] = Field(
        default=(), description="bugs and exploits of the reward, each with the line and the fix"
    )
    judge_problems: tuple[str, ...] = Field(
        default=(), description="what the judge gets wrong, each with the criterion and the fix"
    )
    withdrawn: tuple[Withdrawal, ...] = Field(
        default=(), description="open objections that no longer hold; all others stay open"
    )


class Revision(Record):
    """A revision: the next reward to try."""

    diagnosis: str = Field(description="what the policy does instead, and which term is to blame")
    change: str = Field(description="what is changed, in one sentence")
    based_on: int = Field(ge=0, description="the iteration whose reward is edited")
    source: str | None = Field(default=None, description="the whole new file; None: the same code")
    weights: tuple[dict[str, float], ...] = Field(
        default=(),
        max_length=4,
        description="sets of new weights by term, compared in screening runs; "
        "empty: those in the file",
    )
    settings: dict[str, _Setting] = Field(default={}, description=SETTINGS)
    steps: int | None = Field(default=None, ge=10_000, le=20_000_000, description="None: as before")
    seconds: float | None = Field(
        default=None, ge=0.5, le=60, description="length of an episode; None: as before"
    )
    ends_when_it_falls: bool | None = Field(default=None, description="None: as before")
    warm: bool = Field(
        default=False,
        description="start from the policies of `based_on` instead of from scratch; right when "
        "the behaviour is nearly there and the change is small",
    )
    lessons: tuple[Lesson, ...] = ()


class Analysis(Record):
    """The analysis of a session, in words."""

    schema_version: Literal[1] = 1
    story: str = Field(description="three to six sentences: what was tried, why the best is best")
    findings: tuple[str, ...] = Field(min_length=1, max_length=6)
    recommendations: tuple[str, ...] = Field(default=(), max_length=4)
