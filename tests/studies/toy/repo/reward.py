"""Five terms of the reward; what each counts is in weights.json and on the command line."""

import json
from pathlib import Path

import numpy as np

WEIGHTS = json.loads((Path(__file__).parent / "weights.json").read_text())


def _reward_near(env, before):
    """It is close to the middle."""
    return np.exp(-((env.distance() / 0.3) ** 2))


def _reward_still(env, before):
    """It does not move fast."""
    return -(env.pace() ** 2)


def _reward_effort(env, before):
    """It does not push hard."""
    return -(env.push**2).sum(-1)


def _reward_smooth(env, before):
    """It does not jerk."""
    return -((env.push - before) ** 2).sum(-1)


def _reward_pace(env, before):
    """It gets going. With too large a weight, racing around pays more than arriving."""
    return env.pace()


TERMS = {
    "near": _reward_near,
    "still": _reward_still,
    "effort": _reward_effort,
    "smooth": _reward_smooth,
    "pace": _reward_pace,
}


def compute_reward(env, before, weights):
    """Return the weighted terms, each (count,)."""
    return {name: weights[name] * term(env, before) for name, term in TERMS.items()}
