"""Settings that learn well in wall-clock time on a few cores, per environment.

A preset is a named choice of PpoSettings and of how long to train. "default" is tuned by us for two
cores (see docs/explanation/training.md); "zoo" carries over the settings that RL Baselines3 Zoo
found for Stable-Baselines3 on one environment at a time, for people who want those.
"""

from __future__ import annotations

from typing import Any

from telic.core.config import Record
from telic.errors import UnknownName
from telic.training.job import PpoSettings


class Preset(Record):
    """Settings and training length for one environment."""

    steps: int
    settings: PpoSettings


_DEFAULT: dict[str, tuple[int, dict[str, Any]]] = {
    "HalfCheetah-v5": (1_000_000, {"gae_lambda": 0.9, "target_kl": 0.03}),
    "Ant-v5": (2_000_000, {"horizon": 64, "minibatch_size": 512}),
    "Hopper-v5": (1_000_000, {}),
    "Walker2d-v5": (1_500_000, {"learning_rate": 3e-4}),
    "Humanoid-v5": (3_000_000, {"horizon": 64, "minibatch_size": 512, "learning_rate": 3e-4}),
    "HumanoidStandup-v5": (1_000_000, {"horizon": 64, "minibatch_size": 512}),
    "Swimmer-v5": (1_000_000, {"gamma": 0.9999, "gae_lambda": 0.98, "horizon": 128}),
    "Reacher-v5": (500_000, {}),
    "InvertedPendulum-v5": (200_000, {}),
    # Once it balances, normalised observations would stretch until rare starts look like noise.
    "InvertedDoublePendulum-v5": (150_000, {"normalise_obs": False}),
}

# RL Baselines3 Zoo's settings, as published for one environment at a time.
_ZOO_COMMON: dict[str, Any] = {
    "num_envs": 1,
    "horizon": 512,
    "minibatch_size": 64,
    "log_std": 0.0,
    "hidden": (256, 256),
    "activation": "relu",
    "stagger": False,
    "overlap": False,
    "target_kl": 1e6,
}
_ZOO_FIELDS = (
    "learning_rate",
    "gamma",
    "gae_lambda",
    "epochs",
    "clip",
    "entropy_coef",
    "value_coef",
    "max_grad_norm",
)
_ZOO_VALUES: dict[str, tuple[float, ...]] = {
    "HalfCheetah-v5": (2.0633e-5, 0.98, 0.92, 20, 0.1, 4.01762e-4, 0.58096, 0.8),
    "Ant-v5": (1.90609e-5, 0.98, 0.8, 10, 0.1, 4.9646e-7, 0.677239, 0.6),
    "Hopper-v5": (9.80828e-5, 0.999, 0.99, 5, 0.2, 2.29519e-3, 0.835671, 0.7),
    "Walker2d-v5": (5.05041e-5, 0.99, 0.95, 20, 0.1, 5.85045e-4, 0.871923, 1.0),
    "Humanoid-v5": (3.56987e-5, 0.95, 0.9, 5, 0.3, 2.38306e-3, 0.431892, 2.0),
    "HumanoidStandup-v5": (2.55673e-5, 0.99, 0.9, 20, 0.3, 3.62109e-6, 0.430793, 0.7),
}
_ZOO: dict[str, tuple[int, dict[str, Any]]] = {
    env: (1_000_000, {**_ZOO_COMMON, **dict(zip(_ZOO_FIELDS, values, strict=True))})
    for env, values in _ZOO_VALUES.items()
}

# On a GPU. One policy: many environments, short batches, few passes.
_GPU_COMMON: dict[str, Any] = {
    "num_envs": 8_192,
    "horizon": 16,
    "minibatch_size": 16_384,
    "epochs": 4,
    "learning_rate": 1e-3,
    "schedule": "adaptive",
    "target_kl": 0.01,
    "hidden": (128, 128),
    "activation": "elu",
    "log_std": -0.5,
    "max_grad_norm": 1.0,
    "overlap": False,
}
# A population: each member has few environments, so it learns more from each sample.
_GPU_SHARED: dict[str, Any] = {
    "epochs": 5,
    "target_kl": 0.02,
    "gae_lambda": 0.9,
    "hidden": (64, 64),
    "activation": "tanh",
    "log_std": -1.0,
}
# Hopper falls at once while it holds back; only who tries more finds out that one can go on.
_GPU_SHARED_OWN: dict[str, dict[str, Any]] = {"Hopper-v5": {"log_std": 0.0}}
GPU_ENVS = 32_768
"""environments of a whole population at most"""
_GPU_STEPS = 20
_FEWEST_ENVS, _MOST_ENVS = 256, 4_096
_SHARED_MINIBATCHES = 8
_GPU: dict[str, tuple[int, dict[str, Any]]] = dict.fromkeys(_DEFAULT, (50000000, _GPU_COMMON))

PRESETS = {"default": _DEFAULT, "gpu": _GPU, "zoo": _ZOO}
_COMMON_TO: dict[str, tuple[int, dict[str, Any]]] = {
    "default": (1_000_000, {}),
    "gpu": (50_000_000, _GPU_COMMON),
    "zoo": (1_000_000, {}),
}


def preset(name: str, env: str) -> Preset:
    """Return a preset; an environment without one of its own gets the common one."""
    if name not in PRESETS:
        raise UnknownName("preset", name, list(PRESETS), see="telic presets")
    steps, changes = PRESETS[name].get(env, _COMMON_TO[name])
    return Preset(steps=steps, settings=PpoSettings.parse(changes))


def for_device(name: str, device: str) -> str:
    """Return the preset that is meant: on a GPU, the default is another one."""
    return "gpu" if name == "default" and device != "cpu" else name


def steps_factor(device: str) -> int:
    """Return how many times the steps of the CPU training takes: large batches learn less each."""
    return 1 if device == "cpu" else _GPU_STEPS


def share(settings: PpoSettings, members: int, env: str) -> PpoSettings:
    """Let the members of a population share the environments of a GPU."""
    if members == 1:
        return settings
    num_envs = _FEWEST_ENVS
    while num_envs < _MOST_ENVS and num_envs * 2 * members <= GPU_ENVS:
        num_envs *= 2
    minibatch = num_envs * settings.horizon // _SHARED_MINIBATCHES
    changes = {**_GPU_SHARED, **_GPU_SHARED_OWN.get(env, {})}
    return settings.replace(num_envs=num_envs, minibatch_size=minibatch, **changes)
