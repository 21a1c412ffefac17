"""Settings for Stable-Baselines3, and its policies in our form."""

from __future__ import annotations

from typing import Any

import torch
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.utils import LinearSchedule
from stable_baselines3.common.vec_env import VecEnv, VecNormalize
from torch import Tensor, nn

from telic.training.job import PpoSettings
from telic.training.networks import Layer
from telic.training.population import Population

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
    normalise_obs=False,
    scale_reward=False,
    stagger=False,
    overlap=False,
)
"""Stable-Baselines3's own defaults in our words; it has no KL limit, so ours is out of reach"""

_ACTIVATIONS: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "elu": nn.ELU, "relu": nn.ReLU}
_HUGE = 2.0**64


def ppo_arguments(settings: PpoSettings) -> dict[str, Any]:
    """Return the keyword arguments of Stable-Baselines3's PPO for our settings."""
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


def normalised(env: VecEnv, settings: PpoSettings) -> VecEnv:
    """Wrap an environment as the settings ask, with the limits that our normaliser has."""
    if not (settings.normalise_obs or settings.scale_reward):
        return env
    return VecNormalize(
        env,
        norm_obs=settings.normalise_obs,
        norm_reward=settings.scale_reward,
        gamma=settings.gamma,
        clip_obs=10.0,
        clip_reward=10.0,
    )


def not_honoured(settings: PpoSettings) -> list[str]:
    """Return what the settings ask for and Stable-Baselines3 does not have."""
    missing = {
        "schedule=adaptive (the rate is constant)": settings.schedule == "adaptive",
        "shared_value (actor and critic have layers of their own)": settings.shared_value,
        "critic_sees": bool(settings.critic_sees),
    }
    return [name for name, is_asked in missing.items() if is_asked]


@torch.no_grad()
def adopt(population: Population, model: PPO) -> None:
    """Copy a model's networks and normaliser into a population of one.

    The population must be set to normalise observations. Where the model does not, the scale is a
    power of two so small that our limits are never reached, and the first layers undo it: exact.
    """
    inputs = population.shape.actor_inputs
    moments = population.moments
    normaliser = model.get_vec_normalize_env()
    moments.mean.zero_()
    if normaliser is not None and normaliser.norm_obs:
        statistics: Any = normaliser.obs_rms
        moments.mean[0, :inputs] = torch.from_numpy(statistics.mean)
        moments.var[0, :inputs] = torch.from_numpy(statistics.var)
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
    if isinstance(model.action_space, spaces.Box):
        views.log_std[0].copy_(policy.log_std)
        _rescale(views.actor[-1], views.log_std, model.action_space)


def _linear(network: nn.Module) -> list[nn.Module]:
    return [each for each in network if isinstance(each, nn.Linear)]  # type: ignore[union-attr]


def _fill(layers: list[Layer], modules: list[Any], factor: float) -> None:
    """Write linear modules into layers; inputs the modules do not have get zero weights."""
    for index, (layer, module) in enumerate(zip(layers, modules, strict=True)):
        layer.weight.zero_()
        weight = module.weight.T * (factor if index == 0 else 1.0)
        layer.weight[0, : len(weight)] = weight
        layer.bias[0, 0] = module.bias


def _rescale(last: Layer, log_std: Tensor, space: spaces.Box) -> None:
    """Turn outputs in the action space's range into outputs where the range is [-1, 1]."""
    low, high = torch.from_numpy(space.low), torch.from_numpy(space.high)
    middle, half = (high + low) / 2.0, (high - low) / 2.0
    last.weight.div_(half)
    last.bias.sub_(middle).div_(half)
    log_std.sub_(half.log())
