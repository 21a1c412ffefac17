"""The environment's own reward, in the form of any other."""

from __future__ import annotations

import torch
from torch import Tensor

from telic.envs.info import Info
from telic.errors import RewardError
from telic.rewards.contract import Device, RewardStep
from telic.rewards.recording import Recording
from telic.rewards.runner import Stateless

_PREFIX = "reward_"
_ROUNDING = 1e-4


def parts(info: Info) -> tuple[str, ...]:
    """Return the names of the environment's reward parts, without their common prefix."""
    return tuple(name.removeprefix(_PREFIX) for name in info if name.startswith(_PREFIX))


def parts_are_all(recording: Recording) -> bool:
    """Say whether the parts in the infos sum to the environment's reward."""
    return all(
        torch.allclose(_sum(moment.info), moment.env_reward, rtol=_ROUNDING, atol=_ROUNDING)
        for moment in recording.transitions
        if parts(moment.info)
    ) and bool(parts(recording.transitions[0].info))


class EnvironmentRunner(Stateless):
    """Passes the environment's own reward on. Implements `Runner`.

    The total is what the caller gives, else info["reward"], else the sum of the parts where they
    are known to be all of it.
    """

    def __init__(self, term_names: tuple[str, ...], *, parts_are_all: bool) -> None:
        self._term_names = term_names
        self._parts_are_all = parts_are_all

    def start(self, num_envs: int, device: Device) -> None:
        """Do nothing."""

    def run(self, obs: Tensor, action: Tensor, next_obs: Tensor, info: Info) -> RewardStep:
        """Reward one step; see `Runner.run`."""
        if "reward" in info:
            return self.split(info["reward"], info)
        if self._parts_are_all:
            return self.split(_sum(info), info)
        raise RewardError(
            "The environment's own reward is not in its infos, nor do its parts sum to it.",
            hint="Give it to the call: reward(obs, action, next_obs, info, step.reward).",
        )

    def split(self, total: Tensor, info: Info) -> RewardStep:
        """Return a known total with its parts as terms."""
        return RewardStep(total.float(), {name: info[_PREFIX + name] for name in self._term_names})


def _sum(info: Info) -> Tensor:
    return torch.stack([info[_PREFIX + name] for name in parts(info)]).sum(0)
