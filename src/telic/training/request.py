"""What is asked of a training: options, help and defaults; the job that follows is in `job.py`.

Nothing here is heavy: a command line that only lists its verbs reads it, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from telic.core.config import Config
from telic.core.request import FieldHelp, PlacedRequest, VerbRequest, argument, inner, option
from telic.core.text import crossed, integers, pairs, read_count

Reward = str | Path | type | None
"""a file, a name of the library, source text or a RewardFunction class; None: the task's own"""
Videos = Literal["best", "last", "all", "none"]


class TrainOptions(Config):
    """Options that a request and the job made from it share."""

    evaluations: int = Field(default=4, ge=1, description="Evaluations during training.")
    eval_episodes: int = Field(default=10, ge=1, description="Episodes per evaluation.")
    device: str = Field(default="cpu", description="cpu or cuda.")
    devices: tuple[str, ...] = Field(
        default=(),
        description="Train on several devices at once: cuda:0,cuda:1 or cpu,cpu. Members are "
        "spread over them; with more devices than members, several share one member's "
        "environments.",
    )
    threads: int | None = Field(default=None, description="Physics threads; default: all cores.")
    tensorboard: bool = Field(
        default=False, description="Also write TensorBoard files (extra tensorboard)."
    )
    save_every_s: float = Field(
        default=10.0,
        gt=0,
        description="Seconds between resumable saves.",
        json_schema_extra=FieldHelp(scope="inner"),
    )


class JobRequest(TrainOptions, VerbRequest):
    """A population to train: every combination of rewards, variants and seeds is a member."""

    env: str = argument(
        "Environment id, module:Class, path of an MJCF file, or SIMULATOR:TASK (mjlab, isaaclab)."
    )
    reward: Reward | Sequence[Reward] = argument(
        "Reward file; repeat to compare. None: the task's own.",
        "--reward",
        "-r",
        default=None,
        many=True,
    )
    steps: int | None = option("Steps per member, e.g. 500k, 2M.", default=None, read=read_count)
    seeds: Sequence[int] = option("Training seeds: 1,2,3 or 1-3.", default=(1,), read=integers)
    preset: str = option("Settings to start from; see: telic presets", default="default")
    settings: Mapping[str, Any] | Sequence[str] = argument(
        "Settings to change.", default=(), many=True, metavar="KEY=VALUE"
    )
    weights: Mapping[str, float] | None = option(
        "Change a reward weight: --weight speed=2; repeatable.",
        "--weight",
        default=None,
        many=True,
        read=pairs,
    )
    variants: Sequence[Mapping[str, Any]] = option(
        "Train each value as its own member: --vary gamma=0.98,0.99; repeatable.",
        "--vary",
        default=({},),
        many=True,
        read=crossed,
    )
    env_args: Mapping[str, Any] | None = option(
        "Constructor argument: --env-arg max_episode_steps=200; repeatable.",
        "--env-arg",
        default=None,
        many=True,
        read=pairs,
    )
    python: str | None = option(
        "Python of the simulator's own environment, for mjlab:TASK, isaaclab:TASK or vector:ID.",
        default=None,
    )
    trusted: bool = option(
        "The reward is yours: skip the code allow-list.", "--trust", default=False
    )
    ours: bool = inner(
        "The rewards are telic's own templates: they may share a process.", default=False
    )
    starts: Mapping[tuple[int, int], Path] | None = inner(
        "By reward's index and seed, the policy that a member goes on from.", default=None
    )

    @property
    def rewards(self) -> list[Reward]:
        """What was asked for as a list."""
        if isinstance(self.reward, Sequence) and not isinstance(self.reward, str):
            return list(self.reward)
        return [self.reward]


class TrainRequest(JobRequest, PlacedRequest):
    """A population to train, and the run folder for it."""

    videos: Videos = option(
        "best: p10, median, p90 of the best evaluation; last; all; none.", default="best"
    )
    name: str | None = option("Name of the run folder.", default=None)
    fresh: bool = option("Start from scratch instead of resuming.", default=False)
    dry_run: bool = option("Print the plan and stop.", default=False)
    confined: bool = inner("Train in the confined worker; False: in this process.", default=True)
    command: str | None = inner("The command line that asked for it.", default=None)
