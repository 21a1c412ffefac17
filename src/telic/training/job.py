"""Training jobs: requests, settings, members and their assignment to processes.

A `TrainJob` is stored as the run's config.json, sent to the worker, and hashed to identify the run.
This module must import quickly, because the list of CLI commands depends on it.
"""

from __future__ import annotations

import ast
import hashlib
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import AliasChoices, Field, field_validator, model_validator

from telic.core.config import Config, Record
from telic.core.request import FieldHelp, PlacedRequest, VerbRequest, argument, inner, option
from telic.core.text import crossed, integer_list, pairs, parse_python, read_count
from telic.errors import BadFile
from telic.storage.files import read_fields
from telic.storage.layout import RunFolder
from telic.storage.resources import usable_cores

RewardLike = str | Path | type | None
"""file, library name, source text or RewardFunction class, or None for the built-in reward"""
Videos = Literal["best", "last", "all", "none"]


class TrainOptions(Config):
    """Options that training requests and jobs share."""

    evaluations: int = Field(default=4, ge=1, description="Number of evaluations during training.")
    eval_episodes: int = Field(default=10, ge=1, description="Episodes per evaluation.")
    device: str = Field(default="cpu", description="Device: cpu or cuda.")
    devices: tuple[str, ...] = Field(
        default=(),
        description="Devices for parallel training, e.g. cuda:0,cuda:1 or cpu,cpu. Members "
        "are distributed over the devices.",
    )
    threads: int | None = Field(default=None, description="Physics threads. Default: all cores.")
    tensorboard: bool = Field(
        default=False,
        description="Written by earlier versions.",
        json_schema_extra=FieldHelp(scope="inner"),
    )
    save_every_s: float = Field(
        default=10.0,
        gt=0,
        description="Seconds between resumable saves.",
        json_schema_extra=FieldHelp(scope="inner"),
    )


class JobRequest(TrainOptions, VerbRequest):
    """Request to train a population with one member per reward, variant and seed."""

    env: str = argument(
        "Environment id, module:Class, path of an MJCF file, or SIMULATOR:TASK (mjlab, isaaclab)."
    )
    reward: RewardLike | Sequence[RewardLike] = argument(
        "Reward file. Repeat to compare. Default: the task's built-in reward.",
        "--reward",
        "-r",
        default=None,
        many=True,
    )
    steps: int | None = option("Steps per member, e.g. 500k, 2M.", default=None, read=read_count)
    seeds: Sequence[int] = option("Training seeds: 1,2,3 or 1-3.", default=(1,), read=integer_list)
    preset: str = option(
        "Preset to start from, as listed by telic envs --presets.", default="default"
    )
    learner: Literal["auto", "ppo", "reppo", "flashsac"] = option(
        "Learning algorithm: ppo, reppo, flashsac, or auto (best known choice).", default="auto"
    )
    settings: Mapping[str, Any] | Sequence[str] = argument(
        "Settings to override.", default=(), many=True, metavar="KEY=VALUE"
    )
    weights: Mapping[str, float] | None = option(
        "Override a reward weight: --weight speed=2. Repeatable.",
        "--weight",
        default=None,
        many=True,
        read=pairs,
    )
    variants: Sequence[Mapping[str, Any]] = option(
        "Train one member per value, or sample from a range: --vary gamma=0.98,0.99 --vary "
        "learning_rate=1e-4..1e-2. Repeatable.",
        "--vary",
        default=({},),
        many=True,
        read=crossed,
    )
    env_args: Mapping[str, Any] | None = option(
        "Constructor argument: --env-arg max_episode_steps=200. Repeatable.",
        "--env-arg",
        default=None,
        many=True,
        read=pairs,
    )
    python: str | None = option(
        "Python interpreter of the simulator's environment, for mjlab:TASK or isaaclab:TASK.",
        default=None,
    )
    trusted: bool = option(
        "Trust the reward code and skip the code allow-list.", "--trust", default=False
    )
    ours: bool = inner(
        "Whether all rewards are written by telic and may share a process.", default=False
    )
    starts: Mapping[tuple[int, int], Path] | None = inner(
        "Initial policies of members, by reward index and seed.", default=None
    )

    @property
    def rewards(self) -> list[RewardLike]:
        """Requested rewards as a list."""
        if isinstance(self.reward, Sequence) and not isinstance(self.reward, str):
            return list(self.reward)
        return [self.reward]


class TrainRequest(JobRequest, PlacedRequest):
    """Request to train a population in a run folder."""

    videos: Videos = option(
        "Videos: best (p10, median, p90 of the best evaluation), last, all or none.", default="best"
    )
    sampler: Literal["grid", "random", "optuna"] = option(
        "Sampler of varied settings: grid, random, or optuna (proposes values from earlier "
        "returns).",
        default="grid",
    )
    samples: int | None = option(
        "Combinations to sample. Default: 12; for a grid, 3 values per range.",
        default=None,
        minimum=1,
        maximum=1000,
    )
    name: str | None = option("Name of the run folder.", default=None)
    fresh: bool = option("Start from scratch instead of resuming.", default=False)
    dry_run: bool = option("Print the plan and exit.", default=False)
    confined: bool = inner("Train in a sandboxed worker rather than in this process.", default=True)
    command: str | None = inner("Command line of the request.", default=None)


MEMBER_FIELDS = (
    *("learning_rate", "gamma", "gae_lambda", "clip"),
    *("entropy_coef", "value_coef", "max_grad_norm", "target_kl", "critic_rate"),
)
"""Settings that may differ between the members of one population."""


class PpoSettings(Config):
    """Hyperparameters of a learner for a population of policies."""

    learner: Literal["ppo", "reppo", "flashsac"] = Field(
        default="ppo", description="learning algorithm, set by --learner"
    )
    num_envs: int = Field(default=64, ge=1, description="parallel environments per member")
    horizon: int = Field(default=32, ge=1, description="steps per environment between updates")
    minibatch_size: int = Field(
        default=256, ge=1, description="samples per gradient step and member"
    )
    epochs: int = Field(default=10, ge=1, description="passes over each batch")
    learning_rate: float = Field(default=7e-4, gt=0, description="initial Adam step size")
    schedule: Literal["constant", "linear", "adaptive", "per_minibatch"] = Field(
        default="constant",
        description="PPO's learning rate schedule: fixed, linearly annealed to 0, or adapted to "
        "the KL divergence after each batch (adaptive) or each minibatch",
    )
    critic_rate: float = Field(
        default=1.0, gt=0, description="ratio of PPO's critic learning rate to the actor's"
    )
    gamma: float = Field(default=0.99, ge=0, le=1, description="discount per control step")
    gae_lambda: float = Field(
        default=0.95, ge=0, le=1, description="lambda of generalized advantage estimates"
    )
    clip: float = Field(default=0.2, gt=0, description="clipping range of PPO's probability ratio")
    entropy_coef: float = Field(default=0.0, ge=0, description="weight of the entropy bonus")
    value_coef: float = Field(default=0.5, ge=0, description="weight of the value loss")
    max_grad_norm: float = Field(default=0.5, gt=0, description="maximum gradient norm per member")
    target_kl: float = Field(
        default=0.02,
        gt=0,
        description="KL divergence at which epochs stop, and target of the `adaptive` schedule",
    )
    hidden: tuple[int, ...] = Field(
        default=(64, 64), min_length=1, description="hidden layer sizes"
    )
    critic_hidden: tuple[int, ...] = Field(
        default=(),
        description="hidden layer sizes of REPPO and FlashSAC critics (default: `hidden`)",
    )
    updates: int = Field(default=32, ge=1, description="gradient steps per batch (FlashSAC)")
    replay_size: int = Field(
        default=1_000_000, ge=1, description="replay buffer size per member in samples (FlashSAC)"
    )
    learning_starts: int = Field(
        default=10_000, ge=0, description="samples collected before the first update (FlashSAC)"
    )
    noise_hold: int = Field(
        default=1, ge=1, description="maximum number of steps with the same action noise"
    )
    mirror: bool = Field(
        default=False,
        description="whether to also learn from mirrored samples (PPO); robot and reward must be "
        "symmetric",
    )
    activation: Literal["tanh", "elu", "relu"] = Field(
        default="tanh", description="activation function of hidden layers"
    )
    log_std: float = Field(default=-1.0, description="initial log standard deviation of actions")
    normalize_obs: bool = Field(
        default=True,
        description="whether to normalize observations by running mean and std",
        validation_alias=AliasChoices("normalize_obs", "normalise_obs"),  # language: quoted
    )
    scale_reward: bool = Field(
        default=True, description="whether to scale rewards by the std of the return"
    )
    stagger: bool = Field(
        default=True, description="whether to stagger first episodes to avoid simultaneous resets"
    )
    overlap: bool = Field(
        default=True,
        description="whether to collect the next batch while learning (policies lag by one update)",
    )
    critic_sees: tuple[str, ...] = Field(
        default=(), description="`info` fields that only the critic observes"
    )

    @property
    def batch_size(self) -> int:
        """Samples per member per iteration."""
        return self.num_envs * self.horizon

    @model_validator(mode="before")
    @classmethod
    def _earlier(cls, given: Any) -> Any:
        """Drop `shared_value`, a setting of earlier versions."""
        if isinstance(given, dict) and given.get("shared_value") is False:
            return {name: value for name, value in given.items() if name != "shared_value"}
        return given

    @field_validator("hidden", "critic_hidden", mode="before")
    @classmethod
    def _one_layer(cls, sizes: object) -> object:
        return (sizes,) if isinstance(sizes, int) else sizes

    @model_validator(mode="after")
    def _divides(self) -> PpoSettings:
        if self.mirror and self.learner != "ppo":
            raise ValueError(f"mirror=true is only supported by PPO, not by {self.learner}.")
        if self.learner != "flashsac" and self.batch_size % self.minibatch_size:
            fits = max(d for d in range(1, self.minibatch_size + 1) if self.batch_size % d == 0)
            raise ValueError(
                f"minibatch_size={self.minibatch_size} does not divide the batch of "
                f"{self.batch_size} (num_envs {self.num_envs} x horizon {self.horizon}). "
                f"Try minibatch_size={fits}."
            )
        return self


class RewardSource(Record):
    """Source code of a reward, or the environment's built-in reward."""

    name: str = Field(description="short name used in folder names")
    source: str | None = Field(
        default=None, description="Python source, or None for the environment's built-in reward"
    )
    weights: dict[str, float] = Field(default={}, description="weights overriding the file's")
    trusted: bool = Field(
        default=False, description="whether the user trusts the code (no allow-list check)"
    )
    ours: bool = Field(
        default=False, description="whether telic wrote the code, so that it may share a process"
    )

    @property
    def code(self) -> str:
        """Description of the reward, including its hash, for the trust prompt."""
        digest = hashlib.sha256((self.source or "").encode()).hexdigest()
        return f"the reward {self.name} without the code allow-list (SHA-256 {digest})"


class Member(Record):
    """One policy of the population."""

    name: str = Field(description="name of the folder, <config>_seed_<seed>")
    config: str = Field(description="short name of reward and settings")
    seed: int
    reward: int = Field(description="index of the reward in the job")
    settings: PpoSettings
    start: str | None = Field(
        default=None, description="path of the initial policy, or None to train from scratch"
    )


class TrainJob(TrainOptions):
    """Training of a population on one environment."""

    schema_version: Literal[1] = 1
    env: str = Field(description="environment id, module:Class, or path of an MJCF file")
    env_args: dict[str, Any] = Field(
        default={}, description="constructor arguments of the environment"
    )
    steps: int = Field(ge=1, description="environment steps per member")
    rewards: tuple[RewardSource, ...] = Field(min_length=1)
    members: tuple[Member, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _members_fit_together(self) -> TrainJob:
        names = [member.name for member in self.members]
        if len(set(names)) != len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(
                f'Two members are named "{twice}". Use each config and seed only once.'
            )
        order = [member.reward for member in self.members]
        if order != sorted(order) or max(order) >= len(self.rewards):
            raise ValueError("Members must be sorted by the index of their reward.")
        own: set[str] = set(MEMBER_FIELDS)
        common = [member.settings.model_dump(exclude=own) for member in self.members]
        for name in common[0]:
            if any(settings[name] != common[0][name] for settings in common):
                raise ValueError(
                    f"{name} differs between members. Only {', '.join(MEMBER_FIELDS)} may differ "
                    "within a population. Train them in separate runs."
                )
        return self

    @property
    def settings(self) -> PpoSettings:
        """Settings shared by all members."""
        return self.members[0].settings

    @property
    def on_gpu(self) -> bool:
        """True if the job trains on a GPU."""
        return self.device != "cpu"

    @property
    def iterations(self) -> int:
        """Number of batches per member."""
        return -(-self.steps // self.settings.batch_size)

    @property
    def key(self) -> str:
        """Hash of all inputs that affect the results. Identical commands have equal hashes."""
        # The last five path components (iteration, run, member, folder, file) identify a start
        # policy, so moving the session does not change the key.
        members = tuple(
            one.model_copy(update={"start": one.start and "/".join(Path(one.start).parts[-5:])})
            for one in self.members
        )
        moved = self.model_copy(update={"members": members})
        decides_nothing: Any = dict.fromkeys(
            ("save_every_s", "tensorboard", "threads", "devices"), True
        )
        decides_nothing["rewards"] = {"__all__": {"ours"}}
        text = moved.model_dump_json(exclude=decides_nothing)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def evaluation_iterations(self) -> list[int]:
        """Return the iterations, counted from 1, that end with an evaluation. The last one does."""
        parts = min(self.evaluations, self.iterations)
        return [round(self.iterations * (i + 1) / parts) for i in range(parts)]


# ---- partition of members into processes
#
# Reward code that evades the allow-list controls its process, including the training of the other
# members in it. Rewards that differ in more than their weights therefore train in separate
# processes. telic's templates and built-in rewards share one; the host marks them in the job, and
# the reward's source cannot. Members on different devices also train in separate processes. On a
# GPU, one CUDA graph contains policies, physics and all rewards, so the population stays in one
# process, and the manifest records that it is shared.

_OWN = ""
"""canonical program of rewards that may share a process"""


class MemberGroup(NamedTuple):
    """Members trained by one process."""

    job: TrainJob
    """job restricted to these members"""
    state: Path
    """file of the resumable state"""
    result: Path
    """file of the group's summary"""


def processes(job: TrainJob, *, confined: bool = True) -> list[list[str]]:
    """Return the member names of each process, as recorded in the manifest.

    Members of a group are split into contiguous, nearly equal parts, one for each device.
    """
    apart, places = not job.on_gpu and confined, len(job.devices) or 1
    groups: dict[str, list[str]] = {}
    for member in job.members:
        program = program_of(job.rewards[member.reward]) if apart else _OWN
        groups.setdefault(program, []).append(member.name)
    parts: list[list[str]] = []
    for names in groups.values():
        cuts = [round(len(names) * place / places) for place in range(places + 1)]
        parts += [names[start:end] for start, end in itertools.pairwise(cuts) if end > start]
    return parts


def is_shared(job: TrainJob, groups: list[list[str]]) -> bool:
    """Return True if a process trains rewards that differ in more than weights."""
    programs = {member.name: program_of(job.rewards[member.reward]) for member in job.members}
    return any(len({programs[name] for name in group}) > 1 for group in groups)


def declared_phase(source: str | None) -> float | None:
    """Return the `phase_hz` declared in a reward's source, or None."""
    for node in ast.walk(parse_python(source or "")):
        match node:
            case ast.Assign(
                [ast.Name("phase_hz")], ast.Constant(int() | float() as turns)
            ) | ast.AnnAssign(ast.Name("phase_hz"), _, ast.Constant(int() | float() as turns)):
                return float(turns)
            case _:
                pass
    return None


def program_of(reward: RewardSource) -> str:
    """Return a canonical form of the source. Rewards that differ only in weights share it."""
    if reward.source is None or reward.ours:
        return _OWN
    try:
        tree = parse_python(reward.source)
        for statement in (
            each for node in tree.body if isinstance(node, ast.ClassDef) for each in node.body
        ):
            match statement:
                case ast.Assign(targets=[ast.Name(id="weights")], value=ast.Dict() as weights):
                    weights.values = [_without_number(value) for value in weights.values]
                case _:
                    pass
        return ast.dump(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return reward.source  # unparseable source, compared verbatim


def _without_number(value: ast.expr) -> ast.expr:
    """Replace a (signed) numeric literal with 0, and return other expressions unchanged."""
    inner = value
    if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub | ast.UAdd):
        inner = value.operand
    is_number = isinstance(inner, ast.Constant) and type(inner.value) in (int, float)
    return ast.Constant(0) if is_number else value


def member_groups(job: TrainJob, run: RunFolder) -> list[MemberGroup]:
    """Return the groups of a run, read from its manifest."""
    names = [member.name for member in job.members]
    groups = read_fields(run.manifest, processes=list[list[str]])["processes"]
    if sorted(name for group in groups for name in group) != sorted(names) or [] in groups:
        raise BadFile(
            f"The members listed in {run.manifest} are not those of this run.",
            hint="The file was modified. Start from scratch with --fresh.",
        )
    found: list[MemberGroup] = []
    for number, group in enumerate(groups):
        update: dict[str, Any] = {}
        if len(groups) > 1:
            members = [member for member in job.members if member.name in group]
            used = sorted({member.reward for member in members})
            update["rewards"] = tuple(job.rewards[index] for index in used)
            update["members"] = tuple(
                one.model_copy(update={"reward": used.index(one.reward)}) for one in members
            )
        if job.devices:
            cores = max(1, len(usable_cores()) // len(job.devices))
            update["device"] = job.devices[number % len(job.devices)]
            update |= {"devices": (), "threads": job.threads or cores}
        files = run.state, run.summary
        if len(groups) > 1:
            files = run.cell_state(number + 1), run.cell_result(number + 1)
        found.append(MemberGroup(job.model_copy(update=update), *files))
    return found
