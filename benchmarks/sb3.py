"""Train with Stable-Baselines3's PPO on a telic environment and reward, for a comparison.

    python benchmarks/sb3.py HalfCheetah-v5 --reward reward.py --steps 1M --out policy.pt

The settings are those of telic's preset, or with --defaults those of Stable-Baselines3. Prints the
mean return of evaluation episodes, and writes a policy file for `telic.load_policy`.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.utils import LinearSchedule
from stable_baselines3.common.vec_env import VecEnv as Sb3VecEnv
from stable_baselines3.common.vec_env import VecNormalize
from torch import Tensor, nn

from telic.core.tensors import from_numpy, integers
from telic.core.text import read_count
from telic.envs.vector import VecEnv
from telic.rewards.probe import probe
from telic.rewards.reward import Reward
from telic.training.evaluate import Evaluator
from telic.training.job import PpoSettings, TrainJob
from telic.training.networks import Layer
from telic.training.plan import plan
from telic.training.policy import save_policy
from telic.training.population import Population
from telic.training.rollout import ActionMap, Episode, EpisodeTracker, Scoring
from telic.training.setup import PROBE_ENVS, build_setup, load_rewards, make_env, make_scoring


class BatchedEnv(Sb3VecEnv):
    """Environments of one member with its reward, stepped in a batch.

    Finished episodes are passed to the member's tracker, as in telic's trainer.
    """

    def __init__(
        self, env: VecEnv, scoring: Scoring, tracker: EpisodeTracker, *, native: bool, stagger: bool
    ) -> None:
        """Wrap an environment made for one member.

        Args:
            env: environments to wrap.
            scoring: reward of the environments.
            tracker: tracker of finished episodes.
            native: whether actions are in the environment's range, as in Gymnasium, instead of
                in [-1, 1], as in telic's trainer.
            stagger: whether to start episodes at random ages.
        """
        self.env = env
        self.scoring = scoring
        self.tracker = tracker
        self._native = native
        self._stagger = stagger
        self._to_env = ActionMap(env)
        self._obs = torch.empty(0)
        self._action = torch.empty(0)
        # columns: return, length, then each term
        self._sums = np.zeros((env.num_envs, 2 + scoring.term_count))
        wide = np.full(scoring.actor_inputs, np.inf, dtype=np.float32)
        # SB3 leaves open what its spaces hold.
        cast(Any, super()).__init__(env.num_envs, spaces.Box(-wide, wide), self._actions())

    def _actions(self) -> spaces.Space[Any]:
        if self.env.num_actions is not None:
            return spaces.Discrete(self.env.num_actions)
        low, high = self.env.action_low.cpu().numpy(), self.env.action_high.cpu().numpy()
        if not self._native:
            low, high = np.full_like(low, -1.0), np.full_like(high, 1.0)
        return spaces.Box(low, high)

    def reset(self) -> np.ndarray:
        """Start new episodes in all environments."""
        self._obs = self.env.reset()
        if self._stagger:
            self.env.stagger()
        self.scoring.reset(torch.ones(1, self.num_envs, dtype=torch.bool))
        self._sums[:] = 0.0
        return self._seen(self._obs)

    def step_async(self, actions: np.ndarray) -> None:
        """Store the actions of the next step."""
        action = torch.as_tensor(actions, device=self.env.device)
        self._action = action if self._native else self._to_env(action)

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Take the step. A finished episode restarts, with its last observation in the info."""
        step = self.env.step(self._action)
        score = self.scoring.score(self._obs, self._action, step)
        done = step.terminated | step.truncated
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        rewards = score.total[0].cpu().numpy().copy()
        self._sums[:, 0] += rewards
        self._sums[:, 1] += 1.0
        self._sums[:, 2:] += score.terms[0].cpu().numpy()
        if bool(done.any()):
            last = self._seen(step.final_obs)  # before the reward forgets the episode
            cut = (step.truncated & ~step.terminated).cpu().numpy()
            for row in integers(done.nonzero()[:, 0]):
                infos[row] = {
                    "terminal_observation": last[row],
                    "TimeLimit.truncated": bool(cut[row]),
                }
                self._end(row)
        self.scoring.reset(done.view(1, -1))
        self._obs = step.obs
        return self._seen(step.obs), rewards, done.cpu().numpy(), infos

    def _seen(self, obs: Tensor) -> np.ndarray:
        """Return the policy's input: the observation, and the reward's memory if it is observed."""
        if self.scoring.actor_inputs == self.scoring.obs_dim:
            return obs.cpu().numpy().copy()
        inputs = torch.empty(1, self.num_envs, self.scoring.critic_inputs, device=obs.device)
        self.scoring.inputs(obs, None, out=inputs)
        return inputs[0, :, : self.scoring.actor_inputs].cpu().numpy()

    def _end(self, row: int) -> None:
        total, length, *terms = self._sums[row].tolist()
        self.tracker.recent[0].append(Episode(total, round(length), tuple(terms)))
        self.tracker.finished[0] += 1
        self._sums[row] = 0.0

    def close(self) -> None:
        """Do nothing, because the caller closes the environments."""

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Return an attribute once per environment, because the batch shares all attributes."""
        if attr_name == "render_mode":
            return [None] * self.num_envs
        raise AttributeError(attr_name)

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Raise an error, because the environments are one batch."""
        raise AttributeError(attr_name)

    def env_method(
        self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any
    ) -> list[Any]:
        """Raise an error, because the environments are one batch."""
        raise AttributeError(method_name)

    def env_is_wrapped(self, wrapper_class: type, indices: Any = None) -> list[bool]:
        """Return that no environment is wrapped."""
        return [False] * self.num_envs


DEFAULTS = PpoSettings(
    num_envs=1,
    horizon=2048,
    minibatch_size=64,
    epochs=10,
    learning_rate=3e-4,
    gamma=0.99,
    gae_lambda=0.95,
    clip=0.2,
    entropy_coef=0.0,
    value_coef=0.5,
    max_grad_norm=0.5,
    target_kl=1e9,
    hidden=(64, 64),
    activation="tanh",
    log_std=0.0,
    normalize_obs=False,
    scale_reward=False,
    stagger=False,
    overlap=False,
)
"""Stable-Baselines3's defaults as telic settings (it has no KL limit, so the limit is infinite)"""

_ACTIVATIONS: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "elu": nn.ELU, "relu": nn.ReLU}
_HUGE = 2.0**64


def ppo_arguments(settings: PpoSettings) -> dict[str, Any]:
    """Return the keyword arguments of Stable-Baselines3's PPO for telic settings."""
    rate: Any = settings.learning_rate
    if settings.schedule == "linear":
        rate = LinearSchedule(settings.learning_rate, 0.0, 1.0)
    hidden = list(settings.hidden)
    return {
        "learning_rate": rate,
        "n_steps": settings.horizon,
        "batch_size": settings.minibatch_size,
        "n_epochs": settings.epochs,
        "gamma": settings.gamma,
        "gae_lambda": settings.gae_lambda,
        "clip_range": settings.clip,
        "ent_coef": settings.entropy_coef,
        "vf_coef": settings.value_coef,
        "max_grad_norm": settings.max_grad_norm,
        "target_kl": settings.target_kl,
        "policy_kwargs": {
            "net_arch": {"pi": hidden, "vf": hidden},
            "activation_fn": _ACTIVATIONS[settings.activation],
            "log_std_init": settings.log_std,
        },
    }


def normalized(env: Sb3VecEnv, settings: PpoSettings) -> Sb3VecEnv:
    """Wrap an environment as the settings require, with the limits of telic's normalization."""
    if not (settings.normalize_obs or settings.scale_reward):
        return env
    return VecNormalize(
        env,
        norm_obs=settings.normalize_obs,
        norm_reward=settings.scale_reward,
        gamma=settings.gamma,
        clip_obs=10.0,
        clip_reward=10.0,
    )


def not_honored(settings: PpoSettings) -> list[str]:
    """Return the requested settings that Stable-Baselines3 does not support."""
    missing = {
        "schedule=adaptive (the rate is constant)": settings.schedule == "adaptive",
        "critic_sees": bool(settings.critic_sees),
    }
    return [name for name, is_asked in missing.items() if is_asked]


@torch.no_grad()
def adopt(population: Population, model: PPO) -> None:
    """Copy a model's networks and normalization into a population of one.

    The population must normalize observations. If the model does not, the scale is a power of two
    so small that clipping never occurs, and the first layers undo it exactly.
    """
    inputs = population.shape.actor_inputs
    moments = population.moments
    normalizer = model.get_vec_normalize_env()
    moments.mean.zero_()
    if normalizer is not None and normalizer.norm_obs:
        statistics: Any = normalizer.obs_rms
        moments.mean[0, :inputs] = from_numpy(statistics.mean)
        moments.var[0, :inputs] = from_numpy(statistics.var)
        factor = 1.0
    else:
        moments.var.fill_(_HUGE**2)
        factor = _HUGE
    policy = model.policy
    views = population.networks.views(population.flat)
    heads = policy.action_net, policy.value_net
    extractor = policy.mlp_extractor
    _fill(views.actor, [*_linear(extractor.policy_net), heads[0]], factor)
    _fill(views.critic, [*_linear(extractor.value_net), heads[1]], factor)
    space = cast(Any, model).action_space
    if isinstance(space, spaces.Box):
        views.log_std[0].copy_(policy.log_std)
        _rescale(views.actor[-1], views.log_std, cast(Any, space))


def _linear(network: nn.Module) -> list[nn.Module]:
    return [layer for layer in network if isinstance(layer, nn.Linear)]  # type: ignore[union-attr]


def _fill(layers: list[Layer], modules: list[Any], factor: float) -> None:
    """Copy linear modules to layers, with zero weights for inputs that the modules lack."""
    for index, (layer, module) in enumerate(zip(layers, modules, strict=True)):
        layer.weight.zero_()
        weight = module.weight.T * (factor if index == 0 else 1.0)
        layer.weight[0, : len(weight)] = weight
        layer.bias[0, 0] = module.bias


def _rescale(last: Layer, log_std: Tensor, space: spaces.Box) -> None:
    """Transform outputs in the action space's range to outputs in [-1, 1]."""
    low, high = from_numpy(space.low), from_numpy(space.high)
    middle, half = (high + low) / 2.0, (high - low) / 2.0
    last.weight.div_(half)
    last.bias.sub_(middle).div_(half)
    log_std.sub_(half.log())


# ---- one training


def solo(job: TrainJob) -> TrainJob:
    """Return the job with settings that describe a converted policy.

    It always has normalization, separate layers and no privileged critic.
    """
    (member,) = job.members
    settings = member.settings.replace(normalize_obs=True, critic_sees=())
    return job.model_copy(update={"members": (member.model_copy(update={"settings": settings}),)})


def probed_rewards(job: TrainJob) -> list[Reward]:
    """Return the loaded and probed rewards of a job."""
    rewards, env = load_rewards(job), make_env(job, PROBE_ENVS, [0])
    for reward in rewards:
        probe(reward, env)
    env.close()
    return rewards


def train(job: TrainJob, out: Path, *, native: bool) -> float | None:
    """Train a job of one member, write its policy, and return the mean return if it is finite."""
    alone, settings = solo(job), job.settings
    rewards = probed_rewards(alone)
    env = make_env(alone, settings.num_envs, [alone.members[0].seed])
    setup = build_setup(alone, rewards, env)
    batched = BatchedEnv(env, setup.scoring, setup.tracker, native=native, stagger=settings.stagger)
    model = PPO(
        "MlpPolicy",
        normalized(batched, settings),
        seed=alone.members[0].seed,
        device="cpu",
        **ppo_arguments(settings),
    )
    model.learn(job.steps)
    adopt(setup.population, model)
    facts: dict[str, Any] = {"env": job.env, "env_args": job.env_args, "step": job.steps}
    facts["obs_names"] = list(env.spec.obs_names)
    save_policy(out, setup.population, 0, env.action_low, env.action_high, facts)
    episodes = make_env(alone, alone.eval_episodes, Evaluator.seeds(alone))
    scoring = make_scoring(alone, episodes, rewards)
    evaluator = Evaluator(alone, episodes, scoring, setup.population.networks)
    evaluation = evaluator.evaluate(setup.population.actor(), job.steps)
    (record,) = evaluation.records
    return record.mean_return


def main() -> None:
    """Train once, and print the result."""
    parser = argparse.ArgumentParser(description="Stable-Baselines3's PPO on our environments.")
    parser.add_argument("env")
    parser.add_argument("--reward", default=None)
    parser.add_argument("--steps", type=lambda text: read_count(text, "--steps"), default=None)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--defaults", action="store_true", help="use the peer's settings")
    parser.add_argument("--out", type=Path, default=Path("policy.pt"))
    given = parser.parse_args()
    job = plan(given.env, reward=given.reward, steps=given.steps, seeds=(given.seed,))
    if given.defaults:
        member = job.members[0].model_copy(update={"settings": DEFAULTS})
        job = job.model_copy(update={"members": (member,)})
    elif missing := not_honored(job.settings):
        print(f"not supported by Stable-Baselines3: {', '.join(missing)}")
    mean = train(job, given.out, native=given.defaults)
    shown = "is not finite" if mean is None else f"{mean:.1f}"
    print(f"mean return {shown} over {job.eval_episodes} episodes; {given.out}")


if __name__ == "__main__":
    main()
