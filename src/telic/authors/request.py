"""Session configuration: the intent, and settings for training, evaluation and cost limits."""

from __future__ import annotations

from typing import Any, Literal, Self, cast

from pydantic import Field, ValidationError, ValidationInfo, field_validator, model_validator

from telic.core.config import Config
from telic.core.request import FieldHelp
from telic.core.text import is_dict, is_mapping, is_row, read_count, texts
from telic.errors import UnknownName, UsageError
from telic.judges.criteria import Criterion
from telic.storage.reading import given_text, parse_json

ENV = "HalfCheetah-v5"
ITERATIONS, SEEDS = 4, (1, 2, 3)
THRESHOLD, EPISODES, FIRST_REWARDS = 0.8, 64, 3
ROLES = ("elicitor", "reward_author", "judge_author", "reviewer", "reviser", "vision", "analyst")
"""model roles in requests, work orders and traces"""
_OLD_ROLES = {"reader": "elicitor", "reward": "reward_author", "judge": "judge_author"}
"""role names used in session.json by earlier versions"""
_EFFORTS = ("minimal", "low", "medium", "high", "xhigh", "max")
LIMITS = ("max_calls", "max_usd", "max_hours", "max_steps")
"""cost limits that may be changed while a session runs"""


def parse_criteria(data: Any) -> tuple[Criterion, ...]:
    """Parse edited criteria, given as a list or as data in the format of criteria.json."""
    rows: Any = cast("dict[str, Any]", data).get("criteria") if isinstance(data, dict) else data
    if not isinstance(rows, list) or not rows:
        raise UsageError(
            "No criteria were given.", hint="Edit a copy of the session's criteria.json."
        )
    try:
        return tuple(Criterion.model_validate(row) for row in cast("list[Any]", rows))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "a criterion"
        raise UsageError(
            f"Invalid criterion: {where}: {first['msg']}.",
            hint="Edit a copy of the session's criteria.json.",
        ) from None


def read_criteria(path: str, option: str) -> tuple[Criterion, ...]:
    """Read criteria from the file given by a command-line option."""
    return parse_criteria(parse_json(given_text(path, option), path))


class SessionConfig(Config):
    """Intent of a session with its settings and limits."""

    schema_version: Literal[1] = 1
    intent: str = Field(
        description="What the robot should do, in words.",
        json_schema_extra=FieldHelp(scope="argument", is_positional=True),
    )
    env: str = Field(default=ENV, description="Environment id or path of an MJCF file.")
    iterations: int = Field(default=ITERATIONS, ge=1, description="Maximum number of iterations.")
    seeds: tuple[int, ...] = Field(
        default=SEEDS, description="Training seeds per reward, e.g. 1,2,3 or 1-3."
    )
    first_rewards: int = Field(
        default=FIRST_REWARDS,
        ge=1,
        description="Number of initial reward candidates, compared in screening runs.",
    )
    threshold: float = Field(
        default=THRESHOLD, ge=0, le=1, description="Required lower confidence bound of the score."
    )
    episodes: int = Field(
        default=EPISODES,
        ge=4,
        description="New evaluation episodes per policy, increased if a pass requires more.",
    )
    start_seed: int | None = Field(
        default=None,
        description="Seed of the evaluation episodes. Default: random for each session.",
    )
    steps: int | None = Field(
        default=None,
        description="Environment steps per policy, e.g. 300k.",
        json_schema_extra=FieldHelp(read=read_count),
    )
    motion: str | None = Field(
        default=None,
        description="Reference motion for the reward: a family (walk, wave, bow, ...), a library "
        "folder, FOLDER/CLIP, or none. Default: generated if the prompt needs one.",
    )
    device: str = Field(default="cpu", description="Device: cpu or cuda.")
    devices: tuple[str, ...] = Field(
        default=(),
        description="Devices for parallel training, e.g. cuda:0,cuda:1 or cpu,cpu. "
        "Policies are distributed over them.",
    )
    model: str | None = Field(
        default=None,
        description="Author of the reward and the judge: provider:model, or host (work orders). "
        "Default: the composer (no model).",
    )
    model_for: dict[str, str] = Field(
        default={},
        description="Model for one role, e.g. vision=google:gemini-2.5-pro. Roles: "
        f"{', '.join(ROLES)}.",
        json_schema_extra=FieldHelp(many=True, read=texts, metavar="ROLE=MODEL"),
    )
    effort_for: dict[str, str] = Field(
        default={},
        description="Reasoning effort for one role, e.g. reviewer=high: minimal, low, medium, "
        "high, xhigh, max.",
        json_schema_extra=FieldHelp(many=True, read=texts, metavar="ROLE=EFFORT"),
    )
    vision: bool = Field(default=True, description="Also judge episodes with the vision model.")
    judge: str | None = Field(
        default=None,
        description="Additional judge from an installed package. The lower of both scores is used.",
    )
    criteria: tuple[Criterion, ...] | None = Field(
        default=None,
        description="File with criteria to use instead of those derived from the prompt.",
        json_schema_extra=FieldHelp(read=read_criteria),
    )
    approve: bool = Field(default=False, description="Wait for telic approve before training.")
    accept_partial: bool = Field(
        default=False, description="Accept a pass even if parts of the prompt are not measured."
    )
    robustness: bool = Field(
        default=True,
        description="Evaluate robustness (pushes, noise, changed dynamics) after a pass.",
    )
    max_calls: int | None = Field(default=None, ge=1, description="Maximum number of model calls.")
    max_usd: float | None = Field(default=None, gt=0, description="Maximum model cost in USD.")
    max_hours: float | None = Field(default=None, gt=0, description="Maximum duration in hours.")
    max_steps: int | None = Field(
        default=None,
        ge=1,
        description="Maximum environment steps over all policies, e.g. 5M.",
        json_schema_extra=FieldHelp(read=read_count),
    )

    @field_validator("model_for", "effort_for", mode="before")
    @classmethod
    def _check_roles(cls, value: Any, info: ValidationInfo) -> Any:
        if not is_mapping(value or {}):
            return value
        given = {_OLD_ROLES.get(role, role): word for role, word in dict(value or {}).items()}
        for role, word in given.items():
            if role not in ROLES:
                raise UsageError(f'Unknown role "{role}".', hint=f"Roles: {', '.join(ROLES)}.")
            if info.field_name == "effort_for" and word not in _EFFORTS:
                raise UnknownName("reasoning effort", word, list(_EFFORTS))
        return given

    @model_validator(mode="before")
    @classmethod
    def _has_the_device_of_devices(cls, given: Any) -> Any:
        devices = given.get("devices") if is_dict(given) else None
        first = devices[0] if devices and is_row(devices) else None
        return {**given, "device": first.partition(":")[0]} if isinstance(first, str) else given

    @model_validator(mode="after")
    def _has_a_model_to_vary(self) -> Self:
        if self.model is None and (self.model_for or self.effort_for):
            raise ValueError(
                "--model-for and --effort-for require a model for the other roles; set one with "
                "--model"
            )
        if self.model is not None and self.motion not in (None, "none"):
            raise ValueError("reference motions cannot be combined with --model")
        return self

    @field_validator("intent")
    @classmethod
    def _says_something(cls, intent: str) -> str:
        if not any(map(str.isalnum, intent)):
            raise ValueError('What should the robot do? For example: "run forward fast".')
        return intent

    @field_validator("seeds")
    @classmethod
    def _seeds_differ(cls, seeds: tuple[int, ...]) -> tuple[int, ...]:
        if not seeds or len(set(seeds)) < len(seeds):
            raise ValueError("seeds must be one or more distinct integers, such as 1-3.")
        return seeds

    @property
    def terms(self) -> str:
        """Configuration as JSON, without the cost limits."""
        # Exclude defaults so that fields added by later versions do not change the result.
        return self.model_dump_json(exclude=set(LIMITS), exclude_defaults=True)

    @property
    def needed(self) -> int:
        """Number of training seeds that must pass: two thirds of all seeds, rounded up."""
        return -(-2 * len(self.seeds) // 3)
