"""Records that define the answers of the model roles.

Names, docstrings and descriptions are part of the answer's JSON schema, which is hashed into the
cache key of a reply. Changing them invalidates the cached replies of interrupted sessions.
"""

from __future__ import annotations

from typing import Literal

from pydantic import AliasChoices, Field

from telic.authors.candidate import Lesson
from telic.core.config import Record
from telic.judges.criteria import CoveredPhrase, Criterion, EpisodePhase, Motion
from telic.robots.terrain import TerrainKind

_Setting = float | int | bool | str

SETTINGS = "changes of trainer settings by name, within the given bounds (usually none)"


class Elicited(Record):
    """Measurable form of an intent."""

    criteria: tuple[Criterion, ...] = Field(min_length=1, max_length=10)
    phases: tuple[EpisodePhase, ...] = Field(
        default=(), max_length=6, description="phases of a sequence, to which criteria refer"
    )
    covered: tuple[CoveredPhrase, ...] = Field(
        default=(), description="mapping of words of the intent to criteria"
    )
    seconds: float = Field(ge=0.5, le=60, description="episode length in seconds")
    ends_when_it_falls: bool = Field(default=True)
    terrain: TerrainKind = Field(
        default="flat", description="terrain, if the environment offers a choice"
    )
    terrain_start: Literal["top", "foot"] = Field(
        default="top", description="start on slopes and stairs (foot for climbing up)"
    )
    ambiguous: tuple[str, ...] = Field(
        default=(), description="ambiguities with their chosen interpretations"
    )
    not_understood: tuple[str, ...] = Field(
        default=(), description="quoted words of the intent that no criterion measures"
    )
    demonstration: tuple[Motion, ...] = Field(
        default=(),
        validation_alias=AliasChoices("demonstration", "puppet"),  # language: quoted
        description="torso motions of a scripted demonstration in order, or empty if the behavior "
        "does not involve the torso",
    )
    fine: tuple[str, ...] = Field(
        default=(), description="behaviors that are normally failures but satisfy this intent"
    )


class WrittenReward(Record):
    """Reward file."""

    reasoning: str = Field(description="expected optimizer behavior, in a few sentences")
    source: str = Field(description="complete Python file")
    steps: int = Field(ge=10_000, le=20_000_000, description="environment steps per policy")
    settings: dict[str, _Setting] = Field(default={}, description=SETTINGS)


class WrittenJudge(Record):
    """Judge file."""

    reasoning: str = Field(description="explanation of how look-alikes are ruled out")
    source: str = Field(description="complete Python file")


class Withdrawal(Record):
    """Earlier objection that no longer applies."""

    objection: int = Field(description="number of the objection")
    why: str = Field(min_length=10, description="the part of the current file that resolves it")


class Review(Record):
    """Problems found by a reviewer. Files without problems and open objections are approved."""

    reasoning: str = Field(description="checks that were made, in a few sentences")
    reward_problems: tuple[str, ...] = Field(
        default=(), description="bugs and exploits of the reward, each with its line and a fix"
    )
    judge_problems: tuple[str, ...] = Field(
        default=(), description="faults of the judge, each with its criterion and a fix"
    )
    weights: dict[str, float] = Field(
        default={}, description="changed weights of the reward by term, applied without a rewrite"
    )
    withdrawn: tuple[Withdrawal, ...] = Field(
        default=(), description="open objections that no longer apply (all others remain open)"
    )


class Revision(Record):
    """Revision that proposes the next reward."""

    diagnosis: str = Field(description="actual behavior of the policy, and the responsible term")
    change: str = Field(description="the change, in one sentence")
    based_on: int = Field(ge=0, description="iteration whose reward is edited")
    source: str | None = Field(default=None, description="complete new file, or null to keep it")
    weights: tuple[dict[str, float], ...] = Field(
        default=(),
        max_length=4,
        description="sets of new weights by term to compare in screening runs, or empty to keep "
        "those in the file",
    )
    settings: dict[str, _Setting] = Field(default={}, description=SETTINGS)
    steps: int | None = Field(default=None, ge=10_000, le=20_000_000, description="None: unchanged")
    seconds: float | None = Field(
        default=None, ge=0.5, le=60, description="longer episodes in seconds, or null to keep them"
    )
    ends_when_it_falls: bool | None = Field(default=None, description="None: unchanged")
    warm: bool = Field(
        default=False,
        description="whether to start from the policies of `based_on`; useful if the behavior is "
        "nearly correct and the change is small",
    )
    lessons: tuple[Lesson, ...] = ()


class Analysis(Record):
    """Analysis of a session in words."""

    schema_version: Literal[1] = 1
    story: str = Field(description="three to six sentences on the attempts and the best one")
    findings: tuple[str, ...] = Field(min_length=1, max_length=6)
    recommendations: tuple[str, ...] = Field(default=(), max_length=4)
