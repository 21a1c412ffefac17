"""What is read of our own files where only some of their fields are used.

Any file may have been damaged or written by another version; `read_facts` checks the fields named
here and keeps the others as they are. A field that may be missing is `NotRequired`.
"""

from __future__ import annotations

from typing import Annotated, Any, NotRequired

from annotated_types import Len
from typing_extensions import TypedDict  # pydantic asks for it before Python 3.12

Numbers = dict[str, float | None]


class RunRequestFacts(TypedDict):
    """config.json of a run."""

    env: str
    env_args: NotRequired[dict[str, Any]]
    steps: int
    evaluations: NotRequired[int]


class MemberRequestFacts(TypedDict):
    """config.json of a member."""

    env: str
    env_args: NotRequired[dict[str, Any]]
    seed: int
    reward: str
    weights: NotRequired[Numbers]
    steps: NotRequired[int]
    settings: dict[str, Any]


class ManifestFacts(TypedDict):
    """manifest.json of a run."""

    key: NotRequired[str]
    command: NotRequired[str | None]
    trainer: NotRequired[str | None]
    processes: NotRequired[list[list[str]]]
    created_at: NotRequired[str | None]
    versions: NotRequired[dict[str, str | None]]
    rewards: NotRequired[dict[str, str | None]]
    processors: NotRequired[int | None]
    platform: NotRequired[str | None]
    python: NotRequired[str | None]


class RunResultFacts(TypedDict):
    """summary.json of a run."""

    status: NotRequired[str]
    total_timesteps: NotRequired[int]
    training_time_s: NotRequired[float]
    steps_per_second: NotRequired[float | None]
    best_member: NotRequired[str | None]
    best_return: NotRequired[float | None]


class EvaluationFacts(TypedDict):
    """An evaluation of a member: a line of its metrics, or its best one."""

    global_step: int
    mean_return: NotRequired[float | None]
    interval: NotRequired[Annotated[list[float], Len(2, 2)] | None]
    episodes: NotRequired[int]
    p10_return: NotRequired[float | None]
    median_return: NotRequired[float | None]
    p90_return: NotRequired[float | None]
    env_return: NotRequired[float | None]
    episode_length: NotRequired[float | None]
    terminated_share: NotRequired[float | None]
    reward_terms: NotRequired[Numbers]


class MemberResultFacts(TypedDict):
    """summary.json of a member."""

    best_step: NotRequired[int | None]
    best: NotRequired[EvaluationFacts | None]
    last: NotRequired[EvaluationFacts | None]
    findings: NotRequired[list[dict[str, Any]]]
    total_timesteps: NotRequired[int]
    training_time_s: NotRequired[float]


class TermFacts(TypedDict):
    """A term of a reward."""

    name: str
    description: NotRequired[str | None]


class RewardFacts(TypedDict):
    """reward_spec.json of a member."""

    latex: NotRequired[str | None]
    terms: NotRequired[list[TermFacts]]


class JudgedFacts(TypedDict):
    """judgment.json of an iteration."""

    number: NotRequired[int]
    change: NotRequired[str | None]
    score: float | None
    passed: NotRequired[bool | int]
    best: NotRequired[str | int | None]
    tags: NotRequired[list[str] | None]
    steps: NotRequired[int | None]
    failure: NotRequired[str | None]
