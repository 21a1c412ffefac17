"""Recorded transitions for checking a reward before training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from telic.core.seeds import uniform
from telic.envs.vector import Info, VecEnv

_ROWS = 16
_UNRECORDED = 60
"""steps between the two parts of a recording that move the environments away from the start"""


class Transition(NamedTuple):
    """One recorded step of N environments."""

    obs: Tensor
    action: Tensor
    next_obs: Tensor
    info: Info
    ended: Tensor
    """whether the episode or its recording ends at this step, (N,) bool"""
    env_reward: Tensor
    """reward of the environment, (N,)"""

    def map(self, change: Callable[[Tensor], Tensor]) -> Transition:
        """Return a transition with `change` applied to every tensor along its rows."""
        return _combined([self], lambda tensors: change(tensors[0]))


@dataclass(frozen=True, slots=True)
class TransitionRecording:
    """Consecutive transitions of the same environments."""

    transitions: list[Transition]

    @property
    def num_envs(self) -> int:
        """Number of environments."""
        return len(self.transitions[0].obs)

    @property
    def device(self) -> torch.device:
        """Device of the tensors."""
        return self.transitions[0].obs.device

    def rows(self, first: int, end: int) -> TransitionRecording:
        """Return the recording of a range of environments."""
        return TransitionRecording([each.map(lambda x: x[first:end]) for each in self.transitions])


def keep(info: Info) -> Info:
    """Return a copy of an info with all values computed. Later steps do not affect the copy."""
    return Info.of({name: info.exact(name).clone() for name in info}, info.schema)


def collect(env: VecEnv, transitions: int = 256, seed: int = 0) -> TransitionRecording:
    """Record transitions with random actions early and late in the episode, then zero actions.

    Use a separate environment with few copies (8 are enough), because it is reset and stepped. All
    info values are read, so the simulation must keep computing all of them.
    """
    rows = min(env.num_envs, _ROWS)
    steps = max(4, -(-transitions // rows))
    late, still = steps // 2, steps - steps // 4
    kept: list[Transition] = []
    obs = env.reset(seed)
    for t in range(steps):
        if t == late:
            for extra in range(_UNRECORDED):
                obs = env.step(_action(env, seed, steps + extra)).obs
        if t == still:
            obs = env.reset()
        action = _action(env, seed, t)
        action = torch.zeros_like(action) if t >= still else action
        step = env.step(action)
        info = keep(step.info.slice(slice(0, rows)))
        ended = step.terminated | step.truncated
        if t + 1 in (late, still, steps):
            ended = torch.ones_like(ended)
        if t == late and "episode_start" in info:  # its memory starts fresh here
            info.exact("episode_start").fill_(True)
        kept.append(
            Transition(
                *(obs[:rows], action[:rows], step.final_obs[:rows], info),
                *(ended[:rows], step.reward[:rows]),
            )
        )
        obs = step.obs
    if rows == 1:  # use the later parts as a second environment
        kept = [concatenated([*pair]) for pair in zip(kept, kept[late:] + kept[:late], strict=True)]
    return TransitionRecording(kept)


def _action(env: VecEnv, seed: int, counter: int) -> Tensor:
    place = torch.arange(env.num_envs, device=env.device)
    draw = uniform(place + seed * 7919, torch.full_like(place, counter), env.act_dim).float()
    if env.num_actions is not None:
        return (draw[:, 0] * env.num_actions).long()
    return env.action_low + (env.action_high - env.action_low) * draw


def _combined(moments: list[Transition], combine: Callable[[list[Tensor]], Tensor]) -> Transition:

    def part(name: str) -> Tensor:
        return combine([getattr(moment, name) for moment in moments])

    info = moments[0].info
    values = {name: combine([each.info.exact(name) for each in moments]) for name in info}
    return Transition(
        *(part("obs"), part("action"), part("next_obs")),
        *(Info.of(values, info.schema), part("ended"), part("env_reward")),
    )


def concatenated(moments: list[Transition]) -> Transition:
    """Concatenate the rows of several transitions."""
    return _combined(moments, torch.cat)
