"""What to train: one record that is the run's config.json, the worker's order and its identity."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from telic.core.config import Config, Record
from telic.training.request import JobRequest
from telic.training.settings import MEMBER_FIELDS, PpoSettings


class RewardSource(Record):
    """A reward as text, or the environment's own."""

    name: str = Field(description="short name, used in folder names")
    source: str | None = Field(
        default=None, description="Python source; None: the environment's own reward"
    )
    weights: dict[str, float] = Field(default={}, description="weights that replace the file's own")
    trusted: bool = Field(
        default=False, description="written by the user: skip the code allow-list"
    )


class Member(Record):
    """One policy of the population."""

    name: str = Field(description="<config>_seed_<seed>: its folder")
    config: str = Field(description="reward and settings in one short name")
    seed: int
    reward: int = Field(description="index into the job's rewards")
    settings: PpoSettings
    start: str | None = Field(
        default=None, description="path of the policy it goes on from; None: it begins anew"
    )


class TrainJob(Config):
    """A population to train on one environment."""

    schema_version: Literal[1] = 1
    env: str = Field(description="environment id, module:Class, or path of an MJCF file")
    env_args: dict[str, Any] = Field(
        default={}, description="constructor arguments of the environment"
    )
    steps: int = Field(ge=1, description="environment steps per member")
    rewards: tuple[RewardSource, ...] = Field(min_length=1)
    members: tuple[Member, ...] = Field(min_length=1)
    device: str = JobRequest.device
    threads: int | None = JobRequest.threads
    evaluations: int = Field(default=JobRequest.evaluations, ge=1)
    eval_episodes: int = Field(default=JobRequest.eval_episodes, ge=1)
    save_every_s: float = Field(default=JobRequest.save_every_s, gt=0)
    tensorboard: bool = JobRequest.tensorboard

    @model_validator(mode="after")
    def _members_fit_together(self) -> TrainJob:
        names = [member.name for member in self.members]
        if len(set(names)) != len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f'Two members are named "{twice}"; give each config and seed once.')
        order = [member.reward for member in self.members]
        if order != sorted(order) or max(order) >= len(self.rewards):
            raise ValueError("Members must be listed in the order of their rewards.")
        own: set[str] = set(MEMBER_FIELDS)
        common = [member.settings.model_dump(exclude=own) for member in self.members]
        for name in common[0]:
            if any(each[name] != common[0][name] for each in common):
                raise ValueError(
                    f"{name} differs between members; in one population only "
                    f"{', '.join(MEMBER_FIELDS)} may. Train them in separate runs."
                )
        return self

    @property
    def settings(self) -> PpoSettings:
        """Settings that all members share."""
        return self.members[0].settings

    @property
    def iterations(self) -> int:
        """Batches each member collects and learns from."""
        return -(-self.steps // self.settings.batch_size)

    @property
    def key(self) -> str:
        """A hash of everything that decides the numbers: the same command gives the same key."""
        # A folder that was moved holds the same policies to go on from.
        members = tuple(
            each.model_copy(update={"start": _place(each.start)}) for each in self.members
        )
        moved = self.model_copy(update={"members": members})
        text = moved.model_dump_json(exclude={"save_every_s", "tensorboard", "threads"})
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def evaluation_iterations(self) -> list[int]:
        """Iterations (counted from 1) after which to evaluate; the last one always is."""
        parts = min(self.evaluations, self.iterations)
        return [round(self.iterations * (i + 1) / parts) for i in range(parts)]


def _place(start: str | None) -> str | None:
    """Return where a policy is inside of its session: iteration, run, member, folder and file."""
    return None if start is None else "/".join(Path(start).parts[-5:])
