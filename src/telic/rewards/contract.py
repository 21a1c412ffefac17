"""What a reward file defines: the base class, its memory, and the record of its formula."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, Self

import torch
from pydantic import Field
from torch import Tensor

from telic.core.config import Record
from telic.envs.info import Info
from telic.errors import RewardError

Device = torch.device | str


class RewardFunction:
    """Rewards N environments at once; derive from it and write `compute`.

    Class attributes, all optional:

        weights      named numbers that may be tuned; read them as self.weights["speed"]
        memory       named values that last for one episode, read and replaced by compute as
                     self.memory["turns"]. A number is the initial value of a tensor (N,), a
                     tuple of floats that of (N, k); ints such as (3,) are a shape: zeros (N, 3)
        memory_to    who sees the memory beside the observation: "critic", or "actor" for both
        terms        {name: what it rewards}
        latex        the formula
        description  one or two sentences
    """

    weights: dict[str, float] = {}  # noqa: RUF012 - the plain form is the one people write
    memory: dict[str, Any] = {}  # noqa: RUF012
    memory_to: Literal["critic", "actor"] = "critic"
    terms: dict[str, str] = {}  # noqa: RUF012
    latex: str = ""
    description: str = ""
    _initial_memory: dict[str, Tensor] = {}  # noqa: RUF012 - set by the trainer with `memory`

    def __new__(cls, *_args: Any, **_kwargs: Any) -> Self:
        """Give every instance weights of its own, even where a subclass's __init__ forgets to."""
        instance = super().__new__(cls)
        instance.weights = dict(cls.weights)
        return instance

    def compute(
        self, obs: Tensor, action: Tensor, next_obs: Tensor, info: Info
    ) -> tuple[Any, dict[str, Any]]:
        """Return the total (N,) and its terms, each (N,), which sum to the total.

        Args:
            obs: (N, obs_dim) float32, what the policy acted on.
            action: (N, act_dim) float32, as applied; (N,) int64 where actions are discrete.
            next_obs: (N, obs_dim) float32, what it led to, before any reset.
            info: named tensors (N, ...) of this transition, e.g. info["x_velocity"].
        """
        raise NotImplementedError

    def reset(self, mask: Tensor) -> None:
        """Put the memory back to its initial values where an episode ended, mask (N,) bool."""
        reset_memory(self.memory, self._initial_memory, mask)


class RewardStep(NamedTuple):
    """What one step was worth."""

    total: Tensor  # (N,) float32
    terms: dict[str, Tensor]  # each (N,) float32; always the same names, in the same order


class TermSpec(Record):
    """One summand of a reward."""

    name: str
    description: str = ""
    latex: str | None = None
    weight: float | None = Field(default=None, description="the tunable weight of the same name")


class RewardSpec(Record):
    """A reward in words and formula; written as reward_spec.json."""

    latex: str = ""
    description: str = ""
    terms: tuple[TermSpec, ...] = ()


def initial_memory(declared: Mapping[str, Any], device: Device) -> dict[str, Tensor]:
    """Return the initial values of declared memory, one row each: (1, ...) float32."""
    return {name: _initial_row(name, start).to(device) for name, start in declared.items()}


def reset_memory(memory: dict[str, Tensor], initial: dict[str, Tensor], mask: Tensor) -> None:
    """Put rows back to their initial values where `mask`, (N,) bool."""
    for name, row in initial.items():
        memory[name] = torch.where(mask.view(-1, *(1,) * (row.ndim - 1)), row, memory[name])


def _initial_row(name: str, start: Any) -> Tensor:
    if isinstance(start, int | float):
        return torch.tensor([float(start)])
    if isinstance(start, tuple) and start and all(type(each) is int for each in start):
        return torch.zeros(1, *start)
    if isinstance(start, tuple) and start and all(isinstance(x, int | float) for x in start):
        return torch.tensor([start], dtype=torch.float32)
    raise RewardError(
        f'The memory "{name}" is declared as {start!r}.',
        hint="Write a number, its initial value, or a shape such as (3,).",
    )
