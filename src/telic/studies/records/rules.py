"""When a study stops, and which rules a person set aside."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from telic.studies.records.base import Part

StopName = Literal[
    "target_reached",
    "budget_exhausted",
    "max_candidates",
    "max_iterations",
    "no_progress",
    "wallclock_deadline",
    "failure_streak",
    "guardrail_breach",
    "hacking_high",
    "integrity",
    "human_stop",
]


class StopRule(Part):
    """When to stop; which of the numbers counts depends on the rule."""

    rule: StopName
    value: float | None = None
    """target_reached: the target; max_candidates, max_iterations: how many"""
    k: int | None = Field(default=None, ge=1)
    """no_progress: promotions in a row; failure_streak: debugs in a row"""
    m: int | None = Field(default=None, ge=1)
    """no_progress: accepts looked at"""
    min_gain: float | None = Field(default=None, ge=0)
    """no_progress: relative gain over the last m accepts"""
    at: str | None = None
    """wallclock_deadline"""
    action: Literal["close", "stop", "pause", "ask"] | None = None
    kill_running: bool = False


class ContractException(Part):
    """A rule that a person set aside, for a reason and a time."""

    rule: Literal["reflection_required", "dr_probe_required", "worktree_required"]
    reason: str = Field(min_length=1)
    approved_by: str
    expires: str | None = None
