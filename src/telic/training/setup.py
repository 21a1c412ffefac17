"""Everything a job needs: build environment, rewards, population and collector; save and restore.

A restored run goes on so exactly that nothing tells it was interrupted.
"""

from __future__ import annotations

import itertools
import pickle
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch

from telic.envs import make
from telic.envs.simulators.names import simulated
from telic.envs.vector import VecEnv
from telic.errors import TrainingFailed
from telic.rewards.load import load_reward
from telic.rewards.reward import Reward
from telic.storage.files import replacing
from telic.training.evaluate import Evaluator
from telic.training.group import TrainingGroup, process_seed
from telic.training.health import Health
from telic.training.job import TrainJob
from telic.training.networks import Shape
from telic.training.population import Actor, Population
from telic.training.rollout import Batch, Collector, EpisodeTracker
from telic.training.scoring import Group, Scoring

PROBE_ENVS = 8
FORMAT = 1
_DAMAGE = (
    *(ValueError, TypeError, LookupError, AttributeError, EOFError, OSError, OverflowError),
    *(RuntimeError, MemoryError, AssertionError, pickle.UnpicklingError, struct.error),
)
"""what reading a file that is no state raises; torch raises RuntimeError for most of it"""


@dataclass(frozen=True, slots=True)
class Setup:
    """The moving parts of one training run."""

    job: TrainJob
    env: VecEnv
    scoring: Scoring
    population: Population
    collector: Collector
    tracker: EpisodeTracker
    health: list[Health]


class Environments(NamedTuple):
    """All environments of a run."""

    probe: VecEnv
    """where rewards are tried; of a simulator, those of the evaluation"""
    training: VecEnv
    evaluation: VecEnv


def make_environments(job: TrainJob, group: TrainingGroup | None = None) -> Environments:
    """Make all environments of a run, or of one of the processes that share them."""
    rank, size = (0, 1) if group is None else (group.rank, group.size)
    seeds = [process_seed(member.seed, rank) for member in job.members]
    num_envs = job.settings.num_envs // size
    if simulated(job.env):
        # Simulators take their time to start: both at once, and rewards are probed on the second.
        training = start_env(job, num_envs, seeds)
        evaluation = start_env(job, job.eval_episodes, Evaluator.seeds(job))
        opened = training(), evaluation()
        return Environments(opened[1], *opened)
    probe = make_env(job, PROBE_ENVS, [0])
    training = make_env(job, num_envs, seeds)
    if rank:  # the first one evaluates
        return Environments(probe, training, probe)
    return Environments(probe, training, make_env(job, job.eval_episodes, Evaluator.seeds(job)))


def build(
    job: TrainJob, rewards: list[Reward], env: VecEnv, group: TrainingGroup | None = None
) -> Setup:
    """Make all parts around rewards that were loaded and probed.

    Args:
        job: the whole training.
        rewards: one each of its rewards.
        env: the members' environments, or one process's share of them.
        group: of processes that this one trains with.
    """
    size = 1 if group is None else group.size
    settings = job.settings.shared_by(size)
    seeds = [member.seed for member in job.members]
    scoring = make_scoring(job, env, rewards)
    discrete = env.num_actions is not None
    shape = Shape.of(
        settings,
        scoring.actor_inputs,
        scoring.critic_inputs,
        env.num_actions or env.act_dim,
        discrete,
    )
    population = Population(
        [member.settings.shared_by(size) for member in job.members],
        seeds,
        shape,
        masks=scoring.input_masks(),
        device=env.device,
    )
    if group is not None:
        population.join(group)
    collector = Collector(
        env, scoring, population.networks, population.distribution, settings.horizon
    )
    tracker = EpisodeTracker(population.size, settings.num_envs, scoring.term_count, env.device)
    health = [
        # Nobody can change the terms of an environment's own reward, so they are not judged.
        Health(names if job.rewards[member.reward].source else [], member.settings.target_kl)
        for names, member in zip(scoring.term_names, job.members, strict=True)
    ]
    return Setup(job, env, scoring, population, collector, tracker, health)


def make_env(job: TrainJob, per_member: int, seeds: list[int]) -> VecEnv:
    """Make the members' environments as slices of one batch."""
    args = dict(job.env_args)
    if job.threads is not None:
        args["num_threads"] = job.threads
    return make(job.env, num_envs=per_member * len(seeds), device=job.device, seed=seeds, **args)


def start_env(job: TrainJob, per_member: int, seeds: list[int]) -> Callable[[], VecEnv]:
    """Start a simulator for the members' environments; the result waits until it is ready."""
    from telic.envs.simulators.env import start_simulated

    return start_simulated(
        job.env, num_envs=per_member * len(seeds), device=job.device, seed=seeds, **job.env_args
    )


def make_scoring(job: TrainJob, env: VecEnv, rewards: list[Reward]) -> Scoring:
    """Give each reward, with memory of its own, to the members that share it."""
    groups: list[Group] = []
    first = 0
    for index, members in itertools.groupby(job.members, key=lambda member: member.reward):
        count = len(list(members))
        groups.append(Group(rewards[index].copy(), first, count))
        first += count
    return Scoring(env, groups, job.settings.critic_sees)


def load_rewards(job: TrainJob) -> list[Reward]:
    """Load the job's rewards. Their code runs from here on, so only inside the confined worker."""
    return [
        load_reward(
            reward.source,
            trusted=reward.trusted,
            weights=reward.weights or None,
            label=f"{reward.name}.py" if reward.source else None,
        )
        for reward in job.rewards
    ]


# ---- saving


class Progress(NamedTuple):
    """Where a run is: batches learned from, and the one collected but not yet learned from."""

    iteration: int
    seconds: float
    """training time so far, over all sessions"""
    pending: Batch | None
    """None: it is yet to be collected"""


def save(path: Path, setup: Setup, progress: Progress) -> None:
    """Write everything in one stroke; a reader finds the old state or the new one.

    Of several processes each writes its own. The first does so when all others have, and theirs
    from before are kept until then: so there is always one of each that belong together.
    """
    group = setup.population.group
    if group is None:
        _save(path, setup, progress)
    elif group.leads:
        group.meet()
        _save(path, setup, progress)
    else:
        _save(_own(path, group, progress.iteration), setup, progress)
        group.meet()
        for older in _saved(path, group)[:-2]:
            older.unlink(missing_ok=True)


def _own(path: Path, group: TrainingGroup, iteration: int) -> Path:
    """Return where another process than the first keeps its state after an iteration."""
    return path.with_name(f"{path.stem}-{group.rank}-{iteration:09}{path.suffix}")


def _saved(path: Path, group: TrainingGroup) -> list[Path]:
    """Return all states that such a process has, the oldest first."""
    return sorted(path.parent.glob(f"{path.stem}-{group.rank}-*{path.suffix}"))


def _save(path: Path, setup: Setup, progress: Progress) -> None:
    state = {
        "format": FORMAT,
        "key": setup.job.key,
        "iteration": progress.iteration,
        "seconds": progress.seconds,
        "pending": _batch_state(progress.pending) if progress.pending else None,
        "population": setup.population.state_dict(),
        "collector": setup.collector.state_dict(),
        "tracker": setup.tracker.state_dict(),
        "health": [health.state_dict() for health in setup.health],
    }
    with replacing(path) as temporary:
        torch.save(state, temporary)


def restore(path: Path, setup: Setup) -> Progress | None:
    """Put a saved state into a freshly built set-up; None when there is nothing saved.

    Of several processes, all go on from where the first one is.
    """
    group = setup.population.group
    if group is None:
        return _restore(path, setup)
    if group.leads:
        progress = _restore(path, setup)
        group.from_first(-1 if progress is None else progress.iteration)
        return progress
    iteration = group.from_first(0)
    own = _own(path, group, iteration)
    for other in _saved(path, group):
        if other != own:
            other.unlink(missing_ok=True)
    if iteration >= 0 and not own.exists():
        raise TrainingFailed(
            f"{own} is missing: what one of several processes goes on from.",
            hint="Start anew with --fresh.",
        )
    return _restore(own, setup)


def _restore(path: Path, setup: Setup) -> Progress | None:
    if not path.exists():
        return None
    try:
        return _restored(path, setup)
    except _DAMAGE as error:
        if "CUDA" in str(error):  # the device's fault, not the file's
            raise
        said = (str(error).splitlines() or [""])[0][:300]
        raise TrainingFailed(
            f"{path} is damaged and cannot be continued: {type(error).__name__} {said}.",
            hint="Start anew with --fresh.",
        ) from error


def _restored(path: Path, setup: Setup) -> Progress:
    device = setup.env.device
    state: dict[str, Any] = torch.load(path, map_location=device, weights_only=True)
    if state["format"] != FORMAT or state["key"] != setup.job.key:
        raise TrainingFailed(
            f"{path} belongs to another job or version and cannot be continued.",
            hint="Start anew with --fresh.",
        )
    setup.population.load_state_dict(state["population"])
    setup.collector.load_state_dict(state["collector"])
    setup.tracker.load_state_dict(state["tracker"])
    for health, saved in zip(setup.health, state["health"], strict=True):
        health.load_state_dict(saved)
    pending = _batch_of(state["pending"], setup) if state["pending"] else None
    return Progress(state["iteration"], state["seconds"], pending)


def warm_start(setup: Setup) -> list[str]:
    """Let members go on from policies trained before; return the names of those that could not.

    A policy fits when its networks have the same sizes and it sees the same.
    """
    return [
        member.name
        for place, member in enumerate(setup.job.members)
        if member.start is not None
        and not setup.population.take_over(
            place,
            torch.load(member.start, map_location=setup.env.device, weights_only=True),
            setup.scoring.extra_size,
        )
    ]


def _batch_state(batch: Batch) -> dict[str, Any]:
    actor = batch.actor
    layers = (*actor.views.actor, *actor.views.critic)
    weights, biases = ([part.flatten(1) for part in kind] for kind in zip(*layers, strict=True))
    flat = torch.cat([*weights, *biases, actor.views.log_std], dim=1)
    tensors = {name: value for name, value in batch._asdict().items() if name != "actor"}
    return {**tensors, "flat": flat, "shift": actor.scaling.shift, "scale": actor.scaling.scale}


def _batch_of(state: dict[str, Any], setup: Setup) -> Batch:
    population = setup.population
    now = population.actor()
    actor = Actor(
        population.networks.views(state.pop("flat")),
        now.scaling._replace(shift=state.pop("shift"), scale=state.pop("scale")),
        now.actor_inputs,
        now.mask,
    )
    return Batch(**state, actor=actor)
