"""Settings that learn well in wall-clock time on a few cores, per environment.

A preset is a named choice of PpoSettings and of how long to train. "default" is tuned by us for two
cores (see docs/explanation/training.md); "zoo" carries over the settings that RL Baselines3 Zoo
found for Stable-Baselines3 on one environment at a time, for people who want those.
"""

from __future__ import annotations

from typing import Any

from telic.core.config import Record
from telic.errors import UnknownName
from telic.training.settings import PpoSettings


class Preset(Record):
    """Settings and training length for one environment."""

    steps: int
    settings: PpoSettings


_COMMON: dict[str, Any] = {}

_DEFAULT: dict[str, tuple[int, dict[str, Any]]] = {
    "HalfCheetah-v5": (1_000_000, {}),
    "Ant-v5": (2_000_000, {}),
    "Hopper-v5": (1_000_000, {}),
    "Walker2d-v5": (1_500_000, {}),
    "Humanoid-v5": (3_000_000, {}),
    "HumanoidStandup-v5": (1_000_000, {}),
    "Swimmer-v5": (1_000_000, {"gamma": 0.9999, "gae_lambda": 0.98}),
    "Reacher-v5": (500_000, {}),
    "InvertedPendulum-v5": (200_000, {}),
    "InvertedDoublePendulum-v5": (500_000, {}),
}

_ZOO: dict[str, tuple[int, dict[str, Any]]] = {}

PRESETS = {"default": _DEFAULT, "zoo": _ZOO}


def preset(name: str, env: str) -> Preset:
    """Return a preset; an environment without one of its own gets the common one."""
    if name not in PRESETS:
        raise UnknownName("preset", name, list(PRESETS), see="telic presets")
    steps, changes = PRESETS[name].get(env, (1_000_000, {}))
    return Preset(steps=steps, settings=PpoSettings.parse({**_COMMON, **changes}))
