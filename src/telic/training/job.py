"""What to train: settings, members, and the job that follows from a request.

A `TrainJob` is one record: the run's config.json, the worker's order and its identity.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from telic.core.config import Config, Record
<<<<<<< HEAD
from telic.training.request import JobRequest
=======
from telic.core.request import PlacedRequest, VerbRequest, argument, inner, option
from telic.core.text import crossed, integers, pairs, read_count

Reward = str | Path | type | None
"""a file, a name of the library, source text or a RewardFunction class; None: the task's own"""
Videos = Literal["best", "last", "all", "none"]


class JobRequest(VerbRequest):
    """A population to train: every combination of rewards, variants and seeds is a member."""

    env: str = argument("Environment id, module:Class, or path of an MJCF file.")
    reward: Reward | Sequence[Reward] = argument(
        "Reward file; repeat to compare. None: the task's own.",
        "--reward",
        "-r",
        default=None,
        many=True,
    )
    steps: int | None = option("Steps per member, e.g. 500k, 2M.", default=None, read=read_count)
    seeds: Sequence[int] = option(
        "Training seeds: 1,2,3 or 1-3.", default=(1,), read=integers, shown="1"
    )
    preset: str = option("Settings to start from; see: telic presets", default="default")
    settings: Mapping[str, Any] | Sequence[str] = option(
        "Change a setting: --set gamma=0.98; repeatable.", "--set", default=(), many=True
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
    evaluations: int = option("Evaluations during training.", default=4, minimum=1)
    eval_episodes: int = option("Episodes per evaluation.", default=10, minimum=1)
    device: str = option("cpu or cuda.", default="cpu")
    threads: int | None = option("Physics threads; default all cores.", default=None)
    trusted: bool = option(
        "The reward is yours: skip the code allow-list.", "--trust", default=False
    )
    ours: bool = inner(
        "The rewards are telic's own templates: they may share a process.", default=False
    )
    tensorboard: bool = option("Also write TensorBoard files.", default=False)
    save_every_s: float = inner("Seconds between resumable saves.", default=10.0)
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
    trainer: Literal["telic", "sb3"] = option(
        "telic, or sb3 (Stable-Baselines3 PPO, for comparison).", default="telic"
    )
    name: str | None = option("Name of the run folder.", default=None)
    fresh: bool = option("Start anew instead of going on.", default=False)
    confined: bool = inner("Train in the confined worker; False: in this process.", default=True)
    command: str | None = inner("The command line that asked for it.", default=None)

>>>>>>> 91a8bcb (Work goes to other machines and comes home: --on for run, train, search, track and bench, telic jobs, Ray, Slurm, retries with reasons)

MEMBER_FIELDS = (
    *("learning_rate", "gamma", "gae_lambda", "clip"),
    *("entropy_coef", "value_coef", "max_grad_norm", "target_kl"),
)
"""Settings that may differ between the members of one population."""


class PpoSettings(Config):
    """Proximal policy optimisation for a population of policies."""

    num_envs: int = Field(default=64, ge=1, description="parallel environments per member")
    horizon: int = Field(default=32, ge=1, description="steps per environment between updates")
    minibatch_size: int = Field(
        default=256, ge=1, description="samples per gradient step and member"
    )
    epochs: int = Field(default=10, ge=1, description="passes over each batch")
    learning_rate: float = Field(default=7e-4, gt=0, description="Adam step size at the start")
    schedule: Literal["constant", "linear", "adaptive"] = Field(
        default="constant",
        description="learning rate over time: fixed, annealed to 0, or steered by KL",
    )
    gamma: float = Field(default=0.99, ge=0, le=1, description="discount per control step")
    gae_lambda: float = Field(
        default=0.95, ge=0, le=1, description="bias-variance trade of the advantages"
    )
    clip: float = Field(default=0.2, gt=0, description="PPO ratio clip")
    entropy_coef: float = Field(default=0.0, ge=0, description="weight of the entropy bonus")
    value_coef: float = Field(default=0.5, ge=0, description="weight of the value loss")
    max_grad_norm: float = Field(default=0.5, gt=0, description="gradient norm limit per member")
    target_kl: float = Field(
        default=0.02,
        gt=0,
        description="KL per batch that ends its epochs, or that `adaptive` aims at",
    )
    hidden: tuple[int, ...] = Field(
        default=(64, 64), min_length=1, description="hidden layer sizes"
    )
    activation: Literal["tanh", "elu", "relu"] = Field(
        default="tanh", description="hidden activation"
    )
    shared_value: bool = Field(
        default=False,
        description="actor and critic share the hidden layers instead of having their own",
    )
    log_std: float = Field(default=-1.0, description="initial log standard deviation of actions")
    normalise_obs: bool = Field(
        default=True, description="scale observations by running mean and deviation"
    )
    scale_reward: bool = Field(
        default=True, description="scale rewards by the deviation of the return"
    )
    stagger: bool = Field(
        default=True, description="start episodes at random clocks to avoid lock-step resets"
    )
    overlap: bool = Field(
        default=True,
        description="collect the next batch while learning from this one (one update behind)",
    )
    critic_sees: tuple[str, ...] = Field(
        default=(), description="info fields the critic sees beside the observation"
    )

    @property
    def batch_size(self) -> int:
        """Samples per member and iteration."""
        return self.num_envs * self.horizon

    @property
    def minibatches(self) -> int:
        """Gradient steps per epoch."""
        return self.batch_size // self.minibatch_size

    @model_validator(mode="after")
    def _divides(self) -> PpoSettings:
        if self.batch_size % self.minibatch_size:
            fits = max(d for d in range(1, self.minibatch_size + 1) if self.batch_size % d == 0)
            raise ValueError(
                f"minibatch_size={self.minibatch_size} does not divide the batch of "
                f"{self.batch_size} (num_envs {self.num_envs} x horizon {self.horizon}). "
                f"Try minibatch_size={fits}."
            )
        return self


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
    ours: bool = Field(
        default=False, description="written by telic itself: may share a process with others of it"
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
            if any(settings[name] != common[0][name] for settings in common):
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
            member.model_copy(update={"start": _place(member.start)}) for member in self.members
        )
        moved = self.model_copy(update={"members": members})
        decides_nothing: Any = dict.fromkeys(("save_every_s", "tensorboard", "threads"), True)
        decides_nothing["rewards"] = {"__all__": {"ours"}}
        text = moved.model_dump_json(exclude=decides_nothing)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def evaluation_iterations(self) -> list[int]:
        """Iterations (counted from 1) after which to evaluate; the last one always is."""
        parts = min(self.evaluations, self.iterations)
        return [round(self.iterations * (i + 1) / parts) for i in range(parts)]


def settings_page() -> str:
    """Return the reference page of all settings, as Markdown."""
    lines = [
        "# Settings",
        "",
        "Change them with `--set name=value` or `name=value` after the environment;",
        "`telic presets` shows what each environment starts from. Those marked with * may differ",
        "between the members of one run (`--vary`).",
        "",
        "| setting | default | meaning |",
        "|---|---|---|",
    ]
    for name, field in PpoSettings.model_fields.items():
        mark = " *" if name in MEMBER_FIELDS else ""
        lines.append(f"| `{name}`{mark} | `{field.default}` | {field.description} |")
    return "\n".join(lines) + "\n"


def _place(start: str | None) -> str | None:
    """Return where a policy is inside of its session: iteration, run, member, folder and file."""
    return None if start is None else "/".join(Path(start).parts[-5:])
