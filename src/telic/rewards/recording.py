"""Recorded transitions on which a reward is tried before training."""

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
"""steps between the first part of a recording and the second, to get away from the start"""


class Transition(NamedTuple):
    """One step of N environments, kept."""

    obs: Tensor
    action: Tensor
    next_obs: Tensor
    info: Info
    ended: Tensor
    """(N,) bool: the episode ends here, or the recording of it does"""
    env_reward: Tensor
    """(N,) the environment's own reward"""

    def map(self, change: Callable[[Tensor], Tensor]) -> Transition:
        """Return a transition with every tensor changed in the same way along its rows."""
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
        """Return the recording of some of the environments."""
        return TransitionRecording([each.map(lambda x: x[first:end]) for each in self.transitions])


def keep(info: Info) -> Info:
    """Return an info with every value computed and copied, readable for ever."""
    return Info.of({name: info.exact(name).clone() for name in info}, info.schema)


def collect(env: VecEnv, transitions: int = 256, seed: int = 0) -> TransitionRecording:
    """Record transitions: random actions from the start and from later on, then no action at all.

    Give an environment of its own, with few copies (8 are plenty): it is reset and stepped, and
    every info value is read, which a simulation has to keep up to date from then on.
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
        if t == late and "episode_start" in info:  # its memory will be fresh
            info.exact("episode_start").fill_(True)
        kept.append(
            Transition(
                *(obs[:rows], action[:rows], step.final_obs[:rows], info),
                *(ended[:rows], step.reward[:rows]),
            )
        )
        obs = step.obs
    if rows == 1:  # the later parts serve as a second environment
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
    """Return the rows of several transitions one after the other."""
    return _combined(moments, torch.cat)
