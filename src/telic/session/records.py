"""What a session asks for, tries, and comes to: the records behind its files."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from telic.core.config import Config, Record
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
    max_calls: int | None = Field(default=None, ge=1, description="model calls at most")
    max_usd: float | None = Field(default=None, gt=0, description="dollars for the model at most")

    @property
    def needed(self) -> int:
        """Training seeds that must pass: two of three."""
        return -(-2 * len(self.seeds) // 3)


class Candidate(Record):
    """A reward to try, with the settings that belong to it."""

    schema_version: Literal[1] = 1
    reward: str
    weights: tuple[dict[str, float], ...] = ({},)
    """variants of the reward's weights, each trained with every seed"""
    env_args: dict[str, Any]
    settings: dict[str, Any] = Field(default={}, description="changes of the trainer's settings")
    steps: int
    parent: int | None = None
    """iteration it was made from"""
    change: str = "first try"


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


class Iteration(Record):
    """One candidate, trained and judged."""

    schema_version: Literal[1] = 1
    number: int
    parent: int | None
    change: str
    passed: bool
    score: float | None
    """mean score of the best variant's policies"""
    variant: int
    """the best variant"""
    best: str
    """its best policy"""
    tags: tuple[str, ...]
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
    iterations: int
    best_iteration: int | None
    best_member: str | None
    score: float | None
    low: float | None
    seconds: float
    not_understood: tuple[str, ...]
    doubts: tuple[str, ...]
