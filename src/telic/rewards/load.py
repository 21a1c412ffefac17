"""Read a reward from a file, a text or an object."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from telic.rewards.reward import EnvironmentReward, FunctionReward, Reward

from telic.core.suggest import closest
from telic.errors import ConfigError

LIBRARY = Path(__file__).parent / "library"


def load_reward(
    source: Any, *, trusted: bool = False, weights: Mapping[str, float] | None = None
) -> Reward:
    """Return a reward, ready to be probed and started.

    Args:
        source: a path, the text of a file, the name of a library reward ("run_forward"), a class, an
            object or a function; None or "default": the environment's own reward.
        trusted: run a file as ordinary Python instead of checking it against the allow-list.
            Objects are trusted: their code has run already.
        weights: new values for some of the reward's weights.

    Raises:
        RewardError: the source is missing, not Python, or defines no reward.
        RefusedCode: the source uses something foreign code may not.
        ConfigError: there is no weight of that name.
    """
    if source is None or (isinstance(source, str) and source == "default"):
        if weights:
            raise ConfigError("The environment's own reward has no weights.")
        return EnvironmentReward()
    definition = _define(source, trusted)
    reward = FunctionReward(definition)
    return reward.with_weights(weights) if weights else reward


def checked_weights(
    given: Mapping[str, float], known: Mapping[str, float], name: str
) -> dict[str, float]:
    """Return weights as floats; raises ConfigError for unknown names and impossible values."""
    for key, value in given.items():
        if key not in known:
            near = closest(key, known)
            raise ConfigError(
                f'{name} has no weight named "{key}".',
                hint=f"Closest: {', '.join(near)}."
                if near
                else f"Known: {', '.join(known) or 'none'}.",
            )
        if not math.isfinite(value):
            raise ConfigError(f"The weight {key}={value} is not a finite number.")
    return {key: float(value) for key, value in given.items()}
