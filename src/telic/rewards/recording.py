"""Recorded transitions on which a reward is tried before training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from telic.core.seeds import uniform
from telic.envs.info import Info
from telic.envs.vector import VecEnv

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
        values = {name: change(self.info.exact(name)) for name in self.info}
        return Transition(
            change(self.obs),
            change(self.action),
            change(self.next_obs),
            Info.of(values, self.info.schema),
            change(self.ended),
            change(self.env_reward),
        )


@dataclass(frozen=True, slots=True)
class Recording:
    """Consecutive transitions of the same environments."""

    transitions: list[Transition]

    @property
    def num_envs(self) -> int:
        """Number of environments."""
        return len(self.transitions[0].obs)

    @property
    def device(self) -> torch.device:
        """Where the tensors live."""
        return self.transitions[0].obs.device

    def rows(self, first: int, end: int) -> Recording:
        """Return the recording of some of the environments."""
        return Recording([each.map(lambda x: x[first:end]) for each in self.transitions])

    def widened(self, num_envs: int, steps: int) -> Recording:
        """Return the first steps with environments repeated up to `num_envs`, to measure speed."""
        index = torch.arange(num_envs, device=self.device) % self.num_envs
        return Recording([each.map(lambda x: x[index]) for each in self.transitions[:steps]])

    def folded(self, pieces: int) -> Recording:
        """Return a long recording cut into pieces, laid side by side as further environments."""
        steps = len(self.transitions) // pieces
        if pieces == 1 or steps == 0:
            return self
        return Recording(
            [
                _side_by_side(
                    self.transitions[t::steps][:pieces], first=t == 0, last=t == steps - 1
                )
                for t in range(steps)
            ]
        )

    @classmethod
    def of_step(cls, obs: Tensor, action: Tensor, next_obs: Tensor, info: Info) -> Recording:
        """Return a recording of a single step, of at least two different environments."""
        never = torch.zeros(len(obs), dtype=torch.bool, device=obs.device)
        step = Transition(
            obs.clone(), action.clone(), next_obs.clone(), keep(info), never, never.float()
        )
        if len(obs) == 1:
            # One environment cannot show whether rows are kept apart; a changed copy of it can.
            other = step.map(lambda x: x * 1.1 + 0.01 if x.is_floating_point() else x)
            step = _side_by_side([step, other])
        return cls([step])


def keep(info: Info) -> Info:
    """Return an info with every value computed and copied, readable for ever."""
    return Info.of({name: info.exact(name).clone() for name in info}, info.schema)


def collect(env: VecEnv, transitions: int = 256, seed: int = 0) -> Recording:
    """Record transitions: random actions from the start and from later on, then no action at all.

    Give an environment of its own, with few copies (8 are plenty): it is reset and moved on, and
    every info value is asked for, which a simulation has to keep up to date from then on.
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
        moment = Transition(
            obs[:rows], action[:rows], step.final_obs[:rows], info, ended[:rows], step.reward[:rows]
        )
        kept.append(_beginning(moment) if t == late else moment)
        obs = step.obs
    return Recording(kept).folded(max(1, min(8 // rows, steps // 4)))


def _action(env: VecEnv, seed: int, counter: int) -> Tensor:
    """Return actions drawn evenly from the action range, (N, act_dim) or (N,)."""
    place = torch.arange(env.num_envs, device=env.device)
    draw = uniform(place + seed * 7919, torch.full_like(place, counter), env.act_dim).float()
    if env.num_actions is not None:
        return (draw[:, 0] * env.num_actions).long()
    low, high = env.action_low.clamp(min=-10.0), env.action_high.clamp(max=10.0)
    return low + (high - low) * draw


def _beginning(moment: Transition) -> Transition:
    """Return a transition marked as the first of its episode, as its memory will be fresh."""
    if "episode_start" not in moment.info:
        return moment
    values = {name: moment.info.exact(name) for name in moment.info}
    values["episode_start"] = torch.ones_like(values["episode_start"])
    return moment._replace(info=Info.of(values, moment.info.schema))


def _side_by_side(
    moments: list[Transition], *, first: bool = False, last: bool = False
) -> Transition:
    def join(part: Callable[[Transition], Tensor]) -> Tensor:
        return torch.cat([part(each) for each in moments])

    if first:
        moments = [_beginning(each) for each in moments]
    schema = moments[0].info.schema
    values = {name: join(lambda each, name=name: each.info.exact(name)) for name in moments[0].info}
    joined = Transition(
        join(lambda x: x.obs),
        join(lambda x: x.action),
        join(lambda x: x.next_obs),
        Info.of(values, schema),
        join(lambda x: x.ended),
        join(lambda x: x.env_reward),
    )
    return joined._replace(ended=torch.ones_like(joined.ended)) if last else joined
