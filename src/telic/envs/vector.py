"""The contract of every environment: N of them, stepped together, in batched tensors."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from telic.core.seeds import derive
from telic.envs.info import Info
from telic.envs.spec import EnvSpec
from telic.errors import ConfigError


class Step(NamedTuple):
    """What one control step of N environments gave.

    All tensors are the caller's to keep; treat them as read-only, for `obs` and `final_obs` are one
    tensor whenever no episode ended.
    """

    obs: Tensor  # (N, obs_dim) float32, after the autoreset: what to act on next
    reward: Tensor  # (N,) float32, the environment's own
    terminated: Tensor  # (N,) bool, the task ended: no value follows
    truncated: Tensor  # (N,) bool, the time limit ended it: bootstrap from final_obs
    info: Info  # of the transition, before the autoreset
    final_obs: Tensor  # (N, obs_dim) float32, before the autoreset; equals obs where not done


class VecEnv(Protocol):
    """N environments in lock-step; those that end start anew inside `step`."""

    spec: EnvSpec
    num_envs: int
    obs_dim: int
    act_dim: int
    num_actions: int | None  # None: actions are (N, act_dim) float32; else (N,) int64 below it
    device: torch.device
    action_low: Tensor  # (act_dim,) float32
    action_high: Tensor  # (act_dim,) float32
    dt: float | None  # simulated seconds per step
    max_episode_steps: int | None

    def reset(self, seed: int | Sequence[int] | None = None) -> Tensor:
        """Start new episodes everywhere and return their observations, (N, obs_dim) float32.

        With a seed, episodes are counted from the start again; without, they go on counting.
        """
        ...

    def step(self, action: Tensor) -> Step:
        """Make one control step in every environment; actions are used as given."""
        ...

    def present(self) -> Info:
        """Return an info of the present state, after any autoreset: what a critic may see more of.

        It offers the fields of the simulation, not what belongs to a transition.
        """
        ...

    def stagger(self) -> None:
        """Set each episode clock to a random age, so that time limits do not come in lock-step.

        For training, after `reset`; never in evaluation. No effect without a time limit.
        """
        ...

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to go on bit for bit."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up a state that `state_dict` of an equal environment gave."""
        ...

    def foreseeing(self) -> AbstractContextManager[None]:
        """Return a context for a few dozen steps in a row, in which a GPU draws starts only once.

        An environment that starts more than four episodes within repeats the fourth start.
        """
        ...

    def carried(self) -> dict[str, Tensor]:
        """Return the tensors that live from step to step and are replaced at each, by name.

        For recordings of steps on a GPU: what a recording leaves in new memory must be copied to
        where it began. Empty where steps cannot be recorded.
        """
        ...

    def carry(self, tensors: dict[str, Tensor]) -> None:
        """Go on with these tensors instead."""
        ...

    def compile(self) -> None:
        """Compile what is compiled on demand, before a process confines itself; takes its time."""
        ...

    def complaints(self) -> dict[str, int]:
        """Return how often something could not be computed exactly since the last ask, by kind."""
        ...

    def close(self) -> None:
        """Free threads and memory."""
        ...


def seed_rows(seed: int | Sequence[int], num_envs: int, device: torch.device) -> Tensor:
    """Return one seed per environment, (N,) int64.

    A sequence gives each member of a population an equal slice of the batch. Environment i of a
    slice is seeded by (its member's seed, i) alone, so neighbours do not matter.
    """
    seeds = [seed] if isinstance(seed, int) else list(seed)
    if not seeds or num_envs % len(seeds):
        raise ConfigError(
            f"num_envs={num_envs} cannot be cut into {len(seeds)} equal slices, one per seed.",
            hint="Give a multiple of the number of seeds.",
        )
    share = num_envs // len(seeds)
    rows = [derive(each, "env", i) for each in seeds for i in range(share)]
    return torch.tensor(rows, dtype=torch.int64, device=device)
