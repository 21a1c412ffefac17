"""Whether an environment we did not write ends its episodes by a clock of its own."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium
import numpy as np

_LIMIT_STEPS, _LIMIT_S = 1_000, 10.0
"""steps of random actions and seconds, at most, that an environment is tried for"""


def own_limit(env: gymnasium.Env) -> int | None:
    """Return after how many steps an environment cuts off its episodes itself; None: not found.

    Two episodes of random actions that are cut off at the same step look like a clock. So does a
    rule that whatever moves breaks at once, which whoever learns may come to break or to keep: a
    clock cuts off who rests and who does the same all the time, too, at that very step. An episode
    that fails before tells nothing, but one of those two must have come that far.
    """
    until = time.monotonic() + _LIMIT_S
    limit, left, seed = None, _LIMIT_STEPS, 0
    while left > 0:
        end = _play(env, seed, env.action_space.sample, left, until)
        if end.is_cut_off and limit is not None:
            return limit if end.steps == limit and _is_clock(env, limit, until) else None
        if end.is_cut_off:
            limit = end.steps
        left, seed = left - end.steps, seed + 1
        if time.monotonic() > until:
            return None
    return None


class _EpisodeEnd(NamedTuple):
    """How an episode ended; neither: it was still going on."""

    steps: int
    has_failed: bool
    is_cut_off: bool


def _play(
    env: gymnasium.Env, seed: int, act: Callable[[], Any], most: int, until: float
) -> _EpisodeEnd:
    env.reset(seed=seed)
    env.action_space.seed(seed)
    steps, has_failed, is_cut_off = 0, False, False
    while not (has_failed or is_cut_off) and steps < most and time.monotonic() <= until:
        _, _, failed, cut_off, _ = env.step(act())
        steps, has_failed, is_cut_off = steps + 1, bool(failed), bool(cut_off)
    return _EpisodeEnd(steps, has_failed, is_cut_off)


def _is_clock(env: gymnasium.Env, limit: int, until: float) -> bool:
    """Say whether episodes at rest, and of one action held, are cut off at that step as well."""
    rest, held = _rest(env.action_space), env.action_space.sample()
    ends = [_play(env, 0, act, limit, until) for act in (lambda: rest, lambda: held)]
    agreeing = [end for end in ends if end.is_cut_off and end.steps == limit]
    silent = [end for end in ends if end.has_failed and not end.is_cut_off]
    return bool(agreeing) and len(agreeing) + len(silent) == len(ends)


def _rest(space: Any) -> Any:
    """Return the action nearest to none: zeros, or the first of several."""
    first = getattr(space, "start", None)  # of choices; numbers have none
    if first is not None:
        return int(first)
    return np.clip(np.zeros(space.shape), space.low, space.high).astype(space.dtype)
