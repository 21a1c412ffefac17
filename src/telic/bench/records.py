"""What a benchmark of intents is asked for and comes to: the records behind its files."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from telic.bench.suite import Case
from telic.core.config import Config, Record

Outcome = Literal["passed", "unconfirmed", "not_passed", "refused", "error", "stopped"]
"""unconfirmed: its own judge passed it, the suite's checks did not. stopped: not finished"""

FINAL: tuple[Outcome, ...] = ("passed", "unconfirmed", "not_passed", "refused")
"""outcomes that are not tried again; an error is"""


class BenchConfig(Config):
    """Everything that decides the results of a case; the choice of cases is not part of it."""

    schema_version: Literal[1] = 1
    suite: str = Field(description="name of the suite")
    telic: str = Field(description="version that measured")
    options: dict[str, Any] = Field(description="options of each session, defaults included")


class Measured(Record):
    """One criterion as the best policy met it."""

    title: str
    credit: float
    """mean share earned, 0 to 1"""
    value: float | None
    """median as measured"""
    unit: str = ""


class CaseResult(Record):
    """What became of a case."""

    schema_version: Literal[1] = 1
    case: Case
    outcome: Outcome
    reason: str | None = None
    """why it did not pass"""
    tags: tuple[str, ...] = ()
    score: float | None = None
    low: float | None = None
    """score that is proven with 95 % confidence"""
    iterations: int | None = None
    env_steps: int | None = None
    """steps of all policies of all iterations together"""
    seconds: float = 0.0
    usd: float | None = None
    """None: unknown"""
    criteria: tuple[Measured, ...] = ()
    checks: dict[str, float] = Field(
        default={}, description="share of the judged episodes in which each check of the suite held"
    )
    not_understood: tuple[str, ...] = ()
    session: str | None = None
    """folder of the session, seen from the benchmark's, as all paths here"""
    strip: str | None = None
    video: str | None = None
    finished_at: str
    """UTC, ISO 8601"""
