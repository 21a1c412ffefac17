"""Train trackers: the population trainer with token networks, schedules and evaluation.

    train_tracker         find or create the run folder, and run the loop in it
      TrackingParts       steps of `telic.loop`: train, then evaluate on held-out clips
      _build              environment, token networks, population, collector
      training.loop       collect, learn, record, evaluate, save
        TokenNetworks     adds the token losses to the gradient (`Networks.descend`)
        _apply_schedules  updates scheduled values before every batch (`Population.on_anneal`)
        TrackRecorder     writes trackers, reports, and metrics of tokens and sampling

Training runs no user code, so workers are not sandboxed.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from telic.core.events import Listener, LogMessage, ignore
from telic.core.tensors import integers, use_simulation_threads
from telic.errors import ConfigError, UnknownName, UsageError
from telic.loop import Loop
from telic.motions.library import MotionLibrary
from telic.rewards._run import RunnerChoice
from telic.rewards.reward import load_reward
from telic.storage.files import read_record, remove_unfinished, write_json
from telic.storage.journal import Journal
from telic.storage.keys import usable_key
from telic.storage.layout import RunFolder
from telic.tracking._token_phases import warm_up
from telic.tracking._tokens import LOSSES, TokenNetworks
from telic.tracking.config import Schedule, TrackingConfig
from telic.tracking.evaluate import ClipPlayer, TrackEvaluator, TrackRecorder, played_clips
from telic.tracking.reports import TrackingReport, TrackingVerdict, latest_reports, verdict_of
from telic.tracking.task import (
    CURRICULUM,
    TrackingTask,
    clips_of,
    make_tracking,
    open_motions,
    tracking_task,
)
from telic.training import loop
from telic.training.folder import (
    create_run,
    find_unfinished,
    new_run,
    read_result,
    set_status,
    working_on,
)
from telic.training.job import Member, RewardSource, TrainJob, member_groups
from telic.training.population import Population
from telic.training.recorder import summarize_run
from telic.training.results import RunWriter
from telic.training.rollout import Group, Scoring
from telic.training.run import Run, prepare_folders
from telic.training.setup import Setup, assemble

CONFIG, JOURNAL = "tracking.json", "journal.jsonl"
"""names of the files in the run folder with the resolved configuration and the loop journal"""
_REWARD = "tracking"


class TrackingOptions(NamedTuple):
    """Options of a training run other than its configuration."""

    seeds: Sequence[int] = (1,)
    name: str | None = None
    found: RunFolder | None = None
    """run to resume, which may be of another user"""
    fresh: bool = False
    device: str = "cpu"
    threads: int | None = None
    evaluations: int = 4
    on_event: Listener = ignore
    should_stop: Callable[[], bool] = lambda: False
    save_every_s: float = 10.0


def tracking_job(config: TrackingConfig, options: TrackingOptions) -> TrainJob:
    """Return the training job. Its key is a hash of all inputs that determine the results."""
    return TrainJob(
        env=f"track {config.robot.name}",
        env_args=config.model_dump(mode="json"),
        steps=config.trainer.steps,
        rewards=(RewardSource(name=_REWARD),),
        members=tuple(
            Member(
                name=f"tracker_seed_{seed}",
                config="tracker",
                seed=seed,
                reward=0,
                settings=config.trainer.ppo,
            )
            for seed in options.seeds
        ),
        device=options.device,
        threads=options.threads,
        evaluations=options.evaluations,
        save_every_s=options.save_every_s,
    )


def _build(
    job: TrainJob,
    config: TrackingConfig,
    library: MotionLibrary,
) -> Setup:
    """Create the environment, networks, population and collector of a training run."""
    seeds = [member.seed for member in job.members]
    env = make_tracking(
        config,
        library,
        _training_clips(config, library),
        num_envs=job.settings.num_envs * len(seeds),
        seeds=seeds,
        device=job.device,
        threads=job.threads,
    )
    task = tracking_task(env)
    reward = load_reward(None)
    reward.adopt(RunnerChoice("environment", tuple(config.rewards.terms)))
    scoring = Scoring(env, [Group(reward, 0, len(seeds))])
    shape = task.columns.token_shape(config)
    networks = TokenNetworks(shape, config.losses, env.device)
    setup = assemble(job, env, scoring, networks)
    population = setup.population
    population.on_anneal = partial(_apply_schedules, population, networks, task, config)
    return setup


# ---- schedules


def scheduled(schedule: Schedule, progress: float) -> float:
    """Return the value of a schedule at a training progress in [0, 1]."""
    span = schedule.ends - schedule.begins
    share = (progress - schedule.begins) / span if span > 0 else float(progress >= schedule.ends)
    share = min(max(share, 0.0), 1.0)
    if schedule.kind == "constant":
        share = 0.0
    elif schedule.kind == "step":
        share = float(progress >= schedule.ends)
    elif schedule.kind == "cosine":
        share = 0.5 - 0.5 * math.cos(math.pi * share)
    return schedule.start + (schedule.end - schedule.start) * share


_ADAPTED = "learning_rate"
_PPO = (_ADAPTED, "entropy_coef", "clip", "value_coef", "max_grad_norm", "target_kl")
SCHEDULED = (*_PPO, *LOSSES, *CURRICULUM)


def check_schedules(config: TrackingConfig) -> None:
    """Raise UnknownName or ConfigError for invalid schedules."""
    for name in config.trainer.schedules:
        if name not in SCHEDULED:
            raise UnknownName("schedulable value", name, list(SCHEDULED))
        if name == _ADAPTED and config.trainer.ppo.schedule == "adaptive":
            raise ConfigError(
                "The KL divergence controls the learning rate, so it cannot also have a schedule.",
                hint="Set trainer.ppo.schedule=constant.",
            )
        if name in LOSSES and not getattr(config.losses, name):
            raise ConfigError(
                f"losses.{name} is 0, so its schedule has no effect.",
                hint=f"Set losses.{name} to the maximum of the schedule.",
            )


def _apply_schedules(
    population: Population,
    networks: TokenNetworks,
    task: TrackingTask,
    config: TrackingConfig,
    progress: float,
) -> None:
    """Update scheduled values and clamp the action noise to its bounds, in place."""
    for name, schedule in config.trainer.schedules.items():
        value = scheduled(schedule, progress)
        if name in LOSSES:
            networks.weights[LOSSES.index(name)] = value
        elif name in CURRICULUM:
            task.curriculum[CURRICULUM.index(name)] = value
        else:
            number: Tensor = getattr(population, name)
            number.fill_(value)
    low, high = config.trainer.noise
    population.views.log_std.clamp_(math.log(low), math.log(high))


# ---- training


class _Stopped(Exception):
    """Raised when training was interrupted before its verdict."""


class TrackingParts:
    """Steps of `telic.loop` for tracking: train and evaluate trackers of one configuration."""

    candidate_type, verdict_type = TrackingConfig, TrackingVerdict

    def __init__(
        self,
        job: TrainJob,
        config: TrackingConfig,
        folder: RunFolder,
        keeper: RunWriter,
        should_stop: Callable[[], bool],
    ) -> None:
        self.job, self.config, self.folder, self.keeper = job, config, folder, keeper
        self._should_stop = should_stop

    def propose(self, number: int) -> TrackingConfig | None:
        """Return the configuration in the first iteration, and None after that."""
        return self.config if number == 1 else None

    def check(self, number: int, candidate: TrackingConfig) -> TrackingVerdict | None:
        """Validate the schedules of the configuration."""
        check_schedules(candidate)
        return None

    def run(self, number: int, candidate: TrackingConfig) -> list[TrackingReport]:
        """Start or resume training and return the last report of every member."""
        job, folder, keeper = self.job, self.folder, self.keeper
        library = open_motions(candidate)
        cell = member_groups(job, folder)[0]
        prepare_folders(cell, folder)
        if job.device == "cpu":
            use_simulation_threads()
        else:
            torch.backends.cuda.matmul.allow_tf32 = True
        train, trained_on = clips_of(library, "train"), _training_clips(candidate, library)
        part = f"all {len(train)}" if trained_on == train else f"{len(trained_on)} of {len(train)}"
        keeper.emit(LogMessage(message=f"training on {part} clips"))
        setup = _build(job, candidate, library)
        split = library.first_split("validation", "test")
        clips = played_clips(candidate, library, split)
        player = ClipPlayer(candidate, library, clips, device=job.device, threads=job.threads)
        evaluator = TrackEvaluator(setup, candidate, player, split, keeper.emit)
        recorder = TrackRecorder(job, folder, keeper.emit, setup, evaluator)
        try:
            if not cell.state.exists():
                warm_up(setup, candidate, keeper.emit)
            monitor = loop.Monitor(evaluator, recorder)
            stops = lambda: self._should_stop() or folder.stop.exists()  # noqa: E731
            finished = loop.run_training(setup, monitor, cell.state, stops)
            summary, members = summarize_run(setup, recorder, finished, recorder.seconds, [None])
            for own, result in zip(recorder.folders, members, strict=True):
                write_json(own.summary, result)
            write_json(folder.summary, summary)
            recorder.emit(summary)
        finally:
            recorder.close()
            setup.env.close()
            player.close()
        if not finished:
            raise _Stopped
        return latest_reports(folder)

    def judge(
        self, number: int, candidate: TrackingConfig, result: list[TrackingReport]
    ) -> TrackingVerdict:
        """Return the members' success on held-out clips."""
        return verdict_of(result)

    def decide(self, number: int, candidate: TrackingConfig, verdict: TrackingVerdict) -> str:
        """End the loop after one iteration."""
        return "completed"


def train_tracker(config: TrackingConfig, runs_dir: Path, options: TrackingOptions) -> Run:
    """Train trackers, or resume an unfinished run of the same job."""
    check_schedules(config)
    job = tracking_job(config, options)
    found = options.found
    if found is None and not options.fresh:
        found = find_unfinished(job, runs_dir, options.name)
    folder = found or new_run(runs_dir, options.name)
    with working_on(folder, is_new=found is None):
        if found is None:
            create_run(job, folder, None, confined=False)
            write_json(folder.path / CONFIG, config)
        remove_unfinished(folder.path)
        folder.stop.unlink(missing_ok=True)
        journal = Journal(folder.path / JOURNAL, f"tracking {job.key}", usable_key(runs_dir))
        with RunWriter(job, folder, options.on_event) as keeper, contextlib.suppress(_Stopped):
            Loop(journal, TrackingParts(job, config, folder, keeper, options.should_stop)).run()
        summary = read_result(folder)
        set_status(folder, summary["status"])
    return Run(folder.path, summary)


def read_config(run: RunFolder) -> TrackingConfig:
    """Return the configuration of a tracking run, or raise UsageError for other kinds of runs."""
    if not (run.path / CONFIG).is_file():
        raise UsageError(f"{run.path} is not a tracking run.", hint="Start one: telic track train")
    return read_record(run.path / CONFIG, TrackingConfig)


def resume_tracker(run: RunFolder, on_event: Listener, should_stop: Callable[[], bool]) -> Run:
    """Resume an interrupted training run with its original options."""
    job = read_record(run.config, TrainJob)
    options = TrackingOptions(
        seeds=[member.seed for member in job.members],
        found=run,
        device=job.device,
        threads=job.threads,
        evaluations=job.evaluations,
        on_event=on_event,
        should_stop=should_stop,
        save_every_s=job.save_every_s,
    )
    return train_tracker(read_config(run), run.path.parent, options)


def _training_clips(config: TrackingConfig, library: MotionLibrary) -> list[int]:
    """Return the training clips, or a fixed random subset of `motions.at_once` clips."""
    clips, most = clips_of(library, "train"), config.motions.at_once
    if most is None or len(clips) <= most:
        return clips
    generator = torch.Generator().manual_seed(config.motions.seed)
    order = integers(torch.randperm(len(clips), generator=generator))
    return sorted(clips[place] for place in order[:most])
