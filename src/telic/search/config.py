"""The configuration of a search; light, so that listing commands loads nothing numerical."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from telic.core.config import Config
from telic.core.request import FieldHelp
from telic.core.text import is_dict, pairs


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
        """Ignore the step budget of baselines, which earlier versions wrote."""
        if is_dict(values):
            return {name: value for name, value in values.items() if name != "steps"}
        return values
