"""What a session asks for, tries, and comes to: the records behind its files."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from telic.authors.candidate import MemberScore
from telic.core.config import Config, Record
from telic.judges.criteria import Criterion

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
    judge: str | None = Field(
        default=None,
        description="a judge of an installed package, whose score counts where it is the lower one",
    )
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


SHORT = 0.3
"""share of a training's steps that the short trial of a variant takes"""


class Selection(Record):
    """How short trials of several variants went, and which one was trained on."""

    schema_version: Literal[1] = 1
    kept: int
    members: tuple[MemberScore, ...]
    training_s: float
    judging_s: float


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
