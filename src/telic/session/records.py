"""What a session asks for, tries, and comes to: the records behind its files."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from pydantic import Field

from telic.agents.lessons import Lesson
from telic.core.config import Config, Record
from telic.judges.criteria import Criterion
from telic.judges.verdict import Judgement

Outcome = Literal["passed", "not_passed", "stopped"]


class SessionConfig(Config):
    """An intent and how much to spend on it."""

    schema_version: Literal[1] = 1
    intent: str = Field(min_length=1, description="what the robot should do, in words")
    env: str = Field(description="environment id or path of an MJCF file")
    iterations: int = Field(default=4, ge=1, description="rewards to try at most")
    seeds: tuple[int, ...] = Field(default=(1, 2, 3), description="training seeds per reward")
    threshold: float = Field(default=0.8, ge=0, le=1, description="score a policy must prove")
    episodes: int = Field(default=12, ge=4, description="fresh episodes each policy is judged on")
    steps: int | None = Field(default=None, description="steps per policy; None: the author's")
    device: str = Field(default="cpu", description="cpu or cuda")
    model: str | None = Field(
        default=None,
        description="who writes: provider:model, host for work orders; None: the composer",
    )
    vision: bool = Field(default=True, description="let the model watch the episodes too")
    criteria: tuple[Criterion, ...] | None = Field(
        default=None, description="what to aim for; None: read from the intent"
    )
    approve: bool = Field(default=False, description="wait until a person agrees to the criteria")
    max_calls: int | None = Field(default=None, ge=1, description="model calls at most")
    max_usd: float | None = Field(default=None, gt=0, description="dollars for the model at most")
    max_hours: float | None = Field(default=None, gt=0, description="hours of work at most")
    max_steps: int | None = Field(
        default=None, ge=1, description="environment steps of all policies at most"
    )

    @property
    def needed(self) -> int:
        """Training seeds that must pass: two of three."""
        return -(-2 * len(self.seeds) // 3)


class Variant(Record):
    """One way to train a candidate's reward."""

    weights: dict[str, float] = Field(default={}, description="changes of the reward's weights")
    warm: bool = Field(default=False, description="goes on from the parent's policies")


class Candidate(Record):
    """A reward to try, with the settings that belong to it."""

    schema_version: Literal[1] = 1
    reward: str
    variants: tuple[Variant, ...] = Field(default=(Variant(),), min_length=1)
    """tried for a short while each; the best one is trained in full"""
    env_args: dict[str, Any]
    settings: dict[str, Any] = Field(default={}, description="changes of the trainer's settings")
    steps: int
    parent: int | None = None
    """iteration it was made from"""
    change: str = "first try"
    diagnosis: str = ""
    """why the parent failed, as the reviser sees it"""
    lessons: tuple[Lesson, ...] = ()
    """learned from what came before; a later text that is equal but for its tier replaces it"""


def latest_lessons(candidates: Iterable[Candidate]) -> tuple[Lesson, ...]:
    """Return the lessons of candidates in their order; of equal texts the latest tier holds."""
    found = {each.text: each for candidate in candidates for each in candidate.lessons}
    return tuple(found.values())


class MemberScore(Record):
    """How one trained policy was judged."""

    member: str
    variant: int
    seed: int
    step: int
    judgement: Judgement

    @property
    def low(self) -> float:
        """Score it proves: the lower end of the interval; -1 when it could not be judged."""
        return -1.0 if self.judgement.low is None else self.judgement.low


class Selection(Record):
    """How short trials of several variants went, and which one was trained on."""

    schema_version: Literal[1] = 1
    kept: int
    members: tuple[MemberScore, ...]
    training_s: float
    judging_s: float


class Iteration(Record):
    """One candidate, trained and judged."""

    schema_version: Literal[1] = 1
    number: int
    parent: int | None
    change: str
    passed: bool
    score: float | None
    """mean score of the policies"""
    variant: int
    """the variant that was trained in full"""
    best: str | None
    """its best policy; None: it has none"""
    tags: tuple[str, ...]
    members: tuple[MemberScore, ...]
    """empty when the candidate could not be trained"""
    trials: tuple[MemberScore, ...] = ()
    """the short trials of all variants"""
    steps: int = 0
    """environment steps of all policies, trials included"""
    training_s: float
    judging_s: float
    failure: str | None = None
    """why the candidate could not be trained"""
    alarms: tuple[str, ...] = ()
    """policies whose return rose while their score fell"""

    @property
    def best_member(self) -> MemberScore | None:
        """The best policy as it was judged; None if there is no policy."""
        return next((each for each in self.members if each.member == self.best), None)


class SessionSummary(Record):
    """What a session came to."""

    schema_version: Literal[1] = 1
    session: str
    intent: str
    env: str
    outcome: Outcome
    reason: str | None = None
    """why it stopped before it passed or had tried everything"""
    out_of_budget: bool = False
    """whether it stopped because nothing more may be spent"""
    iterations: int
    best_iteration: int | None
    best_member: str | None
    best_step: int | None = None
    """its checkpoint that was judged, which need not be the one with the highest return"""
    score: float | None
    low: float | None
    steps: int = 0
    """environment steps of all policies"""
    seconds: float
    not_understood: tuple[str, ...]
    doubts: tuple[str, ...]
