"""Configuration of a search: the request, and the independent switches of a method.

This module imports no numerical libraries, so that listing commands stays fast.
"""

from __future__ import annotations

import re
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from telic.core.config import Config
from telic.core.request import FieldHelp
from telic.core.text import is_dict, pairs

_EvidenceKind = Literal[
    "none", "mean_trace", "median_trace", "three_traces", "stats", "stats+median", "last_trace"
]
_Context = Literal["history", "env_text", "trajectories"]
Thinning = Literal["turns", "ends"]

NUMERIC = ("cma", "ars", "climb", "random", "tabular")
"""proposers that do not use a language model"""
PROPOSERS = ("llm", "hybrid", *NUMERIC, "none")
_VIEW = re.compile(r"full|(best|recent|best\+recent):([1-9]\d*)")


class MethodSettings(Config):
    """Independent choices that together define a search method."""

    proposer: str = Field(
        default="llm",
        description=f"proposer of the first candidate ({', '.join(PROPOSERS)}, or from a plugin)",
    )
    context: tuple[_Context, ...] = Field(
        default=("history",), description="information that the proposer receives"
    )
    candidates: int = Field(default=1, ge=1, description="candidates requested per model call")
    history_view: str = Field(
        default="best+recent:15",
        description="history entries to show (full, best:K, recent:K or best+recent:K)",
    )
    uncertainty: bool = Field(
        default=True, description="whether to show episode count and standard error"
    )
    excerpts: int = Field(
        default=0, ge=0, description="number of latest entries shown with an excerpt of eight steps"
    )
    second: Literal["none", "critic", "propose_again"] = Field(
        default="none", description="method that proposes the second candidate"
    )
    second_sees_first: bool = Field(
        default=True, description="whether the second call sees the first candidate's result"
    )
    evidence: _EvidenceKind = Field(default="none", description="behavior that the critic receives")
    trace_steps: int = Field(
        default=60, ge=4, description="maximum number of steps shown per trace"
    )
    thinning: Thinning = Field(
        default="turns",
        description="whether to keep action changes of a long trace, or its first and last steps",
    )
    allow_no_change: bool = Field(
        default=False, description="whether the second candidate may repeat an earlier one"
    )
    gate: Literal["off", "advise", "skip"] = Field(
        default="off",
        description="whether to state the threshold, or skip the revision above it",
    )
    gate_at: float | None = Field(default=None, description="threshold (default: that of the task)")
    select: Literal["single", "keep_best", "always_second", "race"] = Field(
        default="single",
        description="selection rule (race evaluates similar candidates again)",
    )
    ties_to_second: bool = Field(default=False, description="whether a revision wins a tie")
    keeps_losers: bool = Field(
        default=True, description="whether the history keeps rejected candidates"
    )
    rollouts: int = Field(default=20, ge=1, description="number of episodes per candidate")
    common_seeds: bool = Field(
        default=True, description="whether all candidates of an iteration start in the same states"
    )
    confirm: int = Field(
        default=20, ge=0, description="number of episodes before a policy can become the incumbent"
    )
    clip_actions: bool = Field(
        default=True, description="whether continuous actions are clipped to their range before use"
    )
    temperature: float | None = Field(
        default=None, ge=0, description="sampling temperature of the model (default: its own)"
    )
    report: Literal["selected", "all_candidates", "better_of_two", "incumbent"] = Field(
        default="all_candidates", description="candidates over which the main result is averaged"
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if not _VIEW.fullmatch(self.history_view):
            raise ValueError(
                f'history_view="{self.history_view}" must be full, best:K, recent:K or '
                "best+recent:K."
            )
        if self.proposer == "none" and self.second != "none":
            raise ValueError("proposer=none creates a single candidate, so `second` must be none.")
        return self

    @property
    def asks_a_model(self) -> bool:
        """Return whether the switches require a language model."""
        return self.proposer in ("llm", "hybrid", "none")

    @property
    def evaluations(self) -> int:
        """Minimum number of candidates in an iteration with model proposals."""
        return self.candidates + (self.second != "none") + (self.proposer == "hybrid")


class SearchConfig(Config):
    """Task, method and budget of a search."""

    schema_version: Literal[1] = 1
    env: str = Field(
        description="Task (see `telic envs --search`), Gymnasium id, or module:Class.",
        json_schema_extra=FieldHelp(flags=("--env",), is_positional=True),
    )
    method: str = Field(default="r2po", description="Method (see `telic envs --search --presets`).")
    switches: dict[str, Any] = Field(
        default={},
        description="Override a switch of the method with name=value.",
        json_schema_extra=FieldHelp(flags=("--switch",), many=True, read=pairs),
    )
    model: str | None = Field(
        default=None, description="provider:model, or host (requests as files). Default: none."
    )
    runs: int = Field(default=1, ge=1, description="Number of independent runs.")
    first_run: int = Field(default=1, ge=1, description="Number of the first run.")
    seed: int = Field(default=0, ge=0, description="Random seed.")
    episodes: int = Field(default=4000, ge=1, description="Number of episodes per run.")
    fresh_episodes: int = Field(
        default=200, ge=1, description="Number of new episodes for evaluating the best policy."
    )
    target: float | None = Field(default=None, description="Return to reach. Default: the task's.")
    policy: str | None = Field(
        default=None,
        description="Policy class: linear, linear-without-bias, table, projected-mlp or "
        "random-features.",
    )
    faithful: bool = Field(
        default=False,
        description="Use the published budget accounting, thresholds, success rule and step sizes.",
    )
    raw: bool = Field(
        default=False, description="Use raw instead of scaled observations, as in the publications."
    )
    stop_when_solved: bool = Field(
        default=False,
        description="Stop a run once the lower bound of its best policy reaches the goal.",
    )
    max_calls: int | None = Field(default=None, ge=1, description="Maximum number of model calls.")
    max_usd: float | None = Field(default=None, gt=0, description="Maximum model cost in USD.")

    @model_validator(mode="before")
    @classmethod
    def _drop_old_fields(cls, values: Any) -> Any:
        """Drop the step budget of baselines, which earlier versions wrote."""
        if is_dict(values):
            return {name: value for name, value in values.items() if name != "steps"}
        return values
