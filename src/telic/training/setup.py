"""Create the components of training: environments, rewards, population and learner."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from telic.envs.factory import make
from telic.envs.simulators.env import make_simulated
from telic.envs.simulators.names import simulated
from telic.envs.vector import VecEnv
from telic.errors import ConfigError
from telic.rewards.reward import Reward, load_reward
from telic.training.evaluate import Evaluator
from telic.training.flashsac import FlashSac, FlashSacActor
from telic.training.job import TrainJob
from telic.training.mirror import STATES, Mirror, SignedOrder, find_mirror
from telic.training.networks import InputMask, Networks, PolicyNetworks, Shape
from telic.training.pathwise import SquashedActor
from telic.training.population import Learner, Population
from telic.training.ppo import PpoLearner
from telic.training.reppo import Reppo, ReppoActor
from telic.training.results import Health
from telic.training.rollout import Collector, EpisodeTracker, Group, Scoring

PROBE_ENVS = 8


class LearnerKind(NamedTuple):
    """Learner class and its actor networks."""

    learner: type[Learner]
    actor: Callable[[Shape], Networks | SquashedActor]


LEARNERS = {
    "ppo": LearnerKind(PpoLearner, Networks),
    "reppo": LearnerKind(Reppo, ReppoActor),
    "flashsac": LearnerKind(FlashSac, FlashSacActor),
}
"""learners by name"""


@dataclass(frozen=True, slots=True)
class Setup:
    """Components of a training run."""

    job: TrainJob
    env: VecEnv
    scoring: Scoring
    population: Population
    learner: Learner
    collector: Collector
    tracker: EpisodeTracker
    health: list[Health]


class Environments(NamedTuple):
    """Environments of a run."""

    probe: VecEnv
    """environments for probing rewards, or the evaluation environments of an external simulator"""
    training: VecEnv
    evaluation: VecEnv


def make_environments(job: TrainJob) -> Environments:
    """Create all environments of a run."""
    seeds = [member.seed for member in job.members]
    num_envs = job.settings.num_envs
    if simulated(job.env):
        # External simulators start slowly, so start both in parallel and probe on the second.
        counts = (num_envs, seeds), (job.eval_episodes, Evaluator.seeds(job))
        options: dict[str, Any] = {"device": job.device, **job.env_args}
        with ThreadPoolExecutor() as pool:
            opened: list[Any] = list(
                pool.map(
                    lambda count: make_simulated(
                        job.env, num_envs=count[0] * len(count[1]), seed=count[1], **options
                    ),
                    counts,
                )
            )
        return Environments(opened[1], *opened)
    probe = make_env(job, PROBE_ENVS, [0])
    training = make_env(job, num_envs, seeds)
    return Environments(probe, training, make_env(job, job.eval_episodes, Evaluator.seeds(job)))


def build_setup(job: TrainJob, rewards: list[Reward], env: VecEnv) -> Setup:
    """Build the training components for rewards that have been loaded and probed.

    Args:
        job: training job.
        rewards: instances of the job's rewards.
        env: environments that train all members.
    """
    settings, scoring = job.settings, make_scoring(job, env, rewards)
    discrete = env.num_actions is not None
    if settings.learner != "ppo" and discrete:
        raise ConfigError(
            f"{settings.learner} requires continuous actions, but this environment's are discrete.",
            hint="Use --learner ppo.",
        )
    shape = Shape(
        scoring.actor_inputs,
        scoring.critic_inputs,
        env.num_actions or env.act_dim,
        discrete,
        settings.hidden,
        settings.activation,
        learner=settings.learner,
    )
    networks = LEARNERS[settings.learner].actor(shape)
    setup = assemble(job, env, scoring, networks, scoring.input_masks())
    if settings.mirror:
        setup.population.mirror = Mirror.of(_mirrors(job, rewards, scoring), scoring.device)
    return setup


def assemble(
    job: TrainJob,
    env: VecEnv,
    scoring: Scoring,
    networks: PolicyNetworks,
    masks: list[InputMask] | None = None,
) -> Setup:
    """Create the population, learner and collector for an environment, rewards and networks."""
    settings, seeds = job.settings, [member.seed for member in job.members]
    members = [member.settings for member in job.members]
    population = Population(members, seeds, networks, masks=masks, device=env.device)
    collector = Collector(env, scoring, networks, population.distribution, settings.horizon)
    tracker = EpisodeTracker(population.size, settings.num_envs, scoring.term_count, env.device)
    health = [
        # Terms of built-in rewards are not checked, because they cannot be changed.
        Health(names if job.rewards[member.reward].source else [], member.settings.target_kl)
        for names, member in zip(scoring.term_names, job.members, strict=True)
    ]
    learner = LEARNERS[settings.learner].learner(population, job.iterations)
    return Setup(job, env, scoring, population, learner, collector, tracker, health)


def _mirrors(job: TrainJob, rewards: list[Reward], scoring: Scoring) -> list[Mirror]:
    """Find the mirror symmetry of every member's samples. Raises BadEnvironment if there is none.

    The inputs of a population are the observation, padded reward memory, and extra fields.
    """
    plain = {name: value for name, value in job.env_args.items() if not name.startswith("terrain")}
    plain |= {"variation": "none"} if "variation" in plain else {}
    alone = job.model_copy(update={"env_args": plain, "device": "cpu"})
    found: list[Mirror] = []
    for reward in rewards:
        env = make_env(alone, 2 * STATES, [0])
        mirror = find_mirror(env, Scoring(env, [Group(reward.copy(), 0, 1)], scoring.critic_sees))
        env.close()
        own, gap = scoring.obs_dim + reward.memory_size, scoring.memory_size - reward.memory_size
        places = torch.arange(scoring.critic_inputs - gap)
        places[own:] += gap
        index, sign = torch.arange(scoring.critic_inputs), torch.zeros(scoring.critic_inputs)
        index[places], sign[places] = places[mirror.inputs.index], mirror.inputs.sign
        found.append(mirror._replace(inputs=SignedOrder(index, sign)))
    return [found[member.reward] for member in job.members]


def make_env(job: TrainJob, per_member: int, seeds: list[int]) -> VecEnv:
    """Create the environments of all members as one batch."""
    args = dict(job.env_args)
    if job.threads is not None:
        args["num_threads"] = job.threads
    return make(job.env, num_envs=per_member * len(seeds), device=job.device, seed=seeds, **args)


def make_scoring(job: TrainJob, env: VecEnv, rewards: list[Reward]) -> Scoring:
    """Create the scoring. Members that are trained on one reward share one copy of it."""
    groups: list[Group] = []
    first = 0
    for index, members in itertools.groupby(job.members, key=lambda member: member.reward):
        count = len(list(members))
        groups.append(Group(rewards[index].copy(), first, count))
        first += count
    return Scoring(env, groups, job.settings.critic_sees)


def load_rewards(job: TrainJob) -> list[Reward]:
    """Load the job's rewards, which runs their code. Only the sandboxed worker may call this."""
    return [
        load_reward(
            reward.source,
            trusted=reward.trusted,
            weights=reward.weights or None,
            label=f"{reward.name}.py" if reward.source else None,
        )
        for reward in job.rewards
    ]


def warm_start(setup: Setup) -> list[str]:
    """Initialize members from saved policies and return the names of incompatible ones.

    A policy is compatible if it has the same network sizes and observations.
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
