"""Build everything a job needs: environment, rewards, population, collector."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import NamedTuple

from telic.envs import make
from telic.envs.vector import VecEnv
from telic.rewards.load import load_reward
from telic.rewards.reward import Reward
from telic.training.evaluate import Evaluator
from telic.training.health import Health
from telic.training.job import TrainJob
from telic.training.networks import Shape
from telic.training.population import Population
from telic.training.rollout import Collector, EpisodeTracker
from telic.training.scoring import Group, Scoring

PROBE_ENVS = 8


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
    training: VecEnv
    evaluation: VecEnv


def make_environments(job: TrainJob) -> Environments:
    """Make all environments of a run."""
    seeds = [member.seed for member in job.members]
    return Environments(
        make_env(job, PROBE_ENVS, [0]),
        make_env(job, job.settings.num_envs, seeds),
        make_env(job, job.eval_episodes, Evaluator.seeds(job)),
    )


def build(job: TrainJob, rewards: list[Reward], env: VecEnv) -> Setup:
    """Make all parts around rewards that were loaded and probed."""
    settings = job.settings
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
        [member.settings for member in job.members],
        seeds,
        shape,
        masks=scoring.input_masks(),
        device=env.device,
    )
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
