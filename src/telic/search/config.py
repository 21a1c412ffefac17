"""Configuration of a search: the request, and the independent switches of a method.

Imports no numerical libraries, so that listing commands stay fast.
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


class Switches(Config):
    """Independent choices that together define a search method."""

    proposer: str = Field(
        default="llm",
        description=f"proposer of the first candidate: {', '.join(PROPOSERS)}, or a package's",
    )
    context: tuple[_Context, ...] = Field(
        default=("history",), description="what the proposer is shown"
    )
    candidates: int = Field(
        default=1, ge=1, description="candidates asked for in one call of a model"
    )
    history_view: str = Field(
        default="best+recent:15",
        description="entries shown: full, best:K, recent:K or best+recent:K",
    )
    uncertainty: bool = Field(
        default=True, description="show episodes and standard error of every entry"
    )
    excerpts: int = Field(
        default=0, ge=0, description="latest entries that carry an excerpt of eight steps"
    )
    second: Literal["none", "critic", "propose_again"] = Field(
        default="none", description="reviser that makes the second candidate"
    )
    second_sees_first: bool = Field(
        default=True, description="whether the second call knows the first one's result"
    )
    evidence: _EvidenceKind = Field(default="none", description="behaviour the critic is shown")
    trace_steps: int = Field(
        default=60, ge=4, description="most steps of a trace that are written out"
    )
    thinning: Thinning = Field(
        default="turns",
        description="steps of a long trace that are kept: where the action changes, or both ends",
    )
    allow_no_change: bool = Field(
        default=False, description="whether the second candidate may equal an earlier one"
    )
    gate: Literal["off", "advise", "skip", "limit"] = Field(
        default="off",
        description="from the threshold on: say so, skip the revision, or limit its size",
    )
    gate_at: Literal["default", "half", "learned"] | float = Field(
        default="default", description="threshold: the task's, half of it, learned, or a number"
    )
    max_edit: float = Field(
        default=1.0, gt=0, description="largest change of a number under gate=limit"
    )
    select: Literal["single", "keep_best", "always_second", "race"] = Field(
        default="single",
        description="which candidate counts; race plays both again while they look alike",
    )
    ties_to_second: bool = Field(default=False, description="whether an equal revision wins")
    keeps_losers: bool = Field(
        default=True, description="whether the history also holds the candidate that lost"
    )
    rollouts: int = Field(default=20, ge=1, description="episodes per candidate")
    common_seeds: bool = Field(
        default=True, description="whether candidates of an iteration meet the same starts"
    )
    confirm: int = Field(
        default=20, ge=0, description="episodes a candidate needs to become the incumbent; 0: none"
    )
    clip_actions: bool = Field(
        default=True, description="whether continuous actions are cut to their range first"
    )
    report: Literal["selected", "all_candidates", "better_of_two", "incumbent"] = Field(
        default="all_candidates", description="candidates whose mean is the headline"
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if not _VIEW.fullmatch(self.history_view):
            raise ValueError(
                f'history_view="{self.history_view}" is not full, best:K, recent:K or '
                "best+recent:K."
            )
        if self.proposer == "none" and self.second != "none":
            raise ValueError("proposer=none makes one candidate, so second must be none.")
        return self

    @property
    def asks_a_model(self) -> bool:
        """Return whether these switches require a language model."""
        return self.proposer in ("llm", "hybrid", "none")

    @property
    def evaluations(self) -> int:
        """Minimum number of candidates in an iteration with model proposals."""
        return self.candidates + (self.second != "none") + (self.proposer == "hybrid")


class SearchConfig(Config):
    """A task, a method and how much to spend."""

    schema_version: Literal[1] = 1
    env: str = Field(
        description="Task: see telic envs --search.",
        json_schema_extra=FieldHelp(flags=("--env",), is_positional=True),
    )
    method: str = Field(default="r2po", description="Method: see telic presets --search.")
    switches: dict[str, Any] = Field(
        default={},
        description="Change one choice of the method: name=value.",
        json_schema_extra=FieldHelp(flags=("--switch",), many=True, read=pairs),
    )
    model: str | None = Field(
        default=None, description="provider:model, or host (work orders). Default: no model."
    )
    runs: int = Field(default=1, ge=1, description="Independent repetitions.")
    seed: int = Field(default=0, ge=0, description="Random seed.")
    episodes: int = Field(default=4000, ge=1, description="Episode budget per run.")
    fresh_episodes: int = Field(
        default=200, ge=1, description="Fresh episodes on which the best policy is evaluated."
    )
    policy: str | None = Field(
        default=None,
        description="Policy class: linear, linear-without-bias, table, projected-mlp or "
        "random-features.",
    )
    faithful: bool = Field(
        default=False,
        description="Reproduce the published setup: accounting, thresholds, success, steps.",
    )
    raw: bool = Field(
        default=False, description="Use raw instead of scaled observations, as published."
    )
    stop_when_solved: bool = Field(
        default=False,
        description="Stop a run once its best policy is proven good.",
    )
    max_calls: int | None = Field(default=None, ge=1, description="Maximum model calls.")
    max_usd: float | None = Field(default=None, gt=0, description="Maximum model cost in USD.")

    @model_validator(mode="before")
    @classmethod
    def _drop_old_fields(cls, values: Any) -> Any:
        """Drop the step budget of baselines, which earlier versions wrote."""
        if is_dict(values):
            return {name: value for name, value in values.items() if name != "steps"}
        return values
