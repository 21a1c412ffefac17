"""Search tasks from any Gymnasium id, or from a class or factory "module:Class" of the user."""

from __future__ import annotations

from functools import cache

import numpy as np

from telic.envs.catalogue import CLASSIC
from telic.envs.factory import make
from telic.envs.vector import VecEnv
from telic.errors import ConfigError
from telic.search.task import Floats, SearchTask

_EPISODES, _STEPS, _LONGEST = 16, 200, 1000
"""random episodes and their steps that determine scales, and the limit of episodes without one"""


@cache
def gymnasium_task(env_id: str, target: float | None) -> SearchTask:
    """Describe an environment as a task. Random episodes determine scales and the worst return.

    Raises ConfigError if neither the request nor the environment has a target return.
    """
    env = make(env_id, num_envs=_EPISODES, seed=0)
    spec, classic = env.spec, CLASSIC.get(env_id.rpartition("-v")[0])
    target = spec.solved_return if target is None else target
    if target is None:
        raise ConfigError(
            f"{env_id} does not define a return at which it counts as solved.",
            hint="Specify the return to reach, e.g. --target 200.",
        )
    seen, worst = _random_steps(env)
    env.close()
    ends = np.quantile(seen, (0.01, 0.99), axis=0)
    rows = zip(spec.obs_names, ends.mean(0), np.ptp(ends, axis=0) / 2, strict=True)
    numbered = tuple(f"action {number}" for number in range(spec.num_actions or 0))
    task = {
        "id": env_id,
        "story": spec.description,
        "rewards": "As the environment defines them.",
        "observations": [(name, float(f"{c:.2g}"), float(f"{h or 1:.2g}")) for name, c, h in rows],
        "actions": (classic and classic.choices) or numbered or spec.action_names,
        # The world scales continuous actions.
        **({"action_low": -1.0, "action_high": 1.0} if spec.num_actions is None else {}),
        "time_limit": spec.max_episode_steps or _LONGEST,
        **dict.fromkeys(("target", "good", "solved"), target),
        "worst": min(worst, target),
    }
    return SearchTask.model_validate(task)


def _random_steps(env: VecEnv) -> tuple[Floats, float]:
    """Return observations after random actions, and the lowest return of an episode."""
    import torch

    generator, seen, total, worst = torch.Generator().manual_seed(0), [env.reset()], 0.0, 0.0
    for _ in range(_STEPS):
        share = torch.rand((env.num_envs, env.act_dim), generator=generator)
        action = env.action_low + (env.action_high - env.action_low) * share
        if env.spec.num_actions is not None:
            action = (share[:, 0] * env.spec.num_actions).long()
        step = env.step(action)
        seen.append(step.obs)
        total = total + step.reward
        worst = min(worst, float(total.min()))
        total = total * ~(step.terminated | step.truncated)
    return torch.cat(seen).double().numpy(), worst
