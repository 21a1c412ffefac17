"""Reward interface: the base class with its episode memory, and records that describe a reward."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Self, cast

import torch
from torch import Tensor

from telic.envs.vector import Info
from telic.errors import RewardError

Device = torch.device | str


class RewardFunction:
    """Base class for rewards. `compute` returns the rewards of N environments.

    Class attributes, all optional:

        weights      tunable numbers by name, available as self.weights["speed"]
        memory       values by name that persist for an episode; compute reads and replaces them as
                     self.memory["turns"]. A number is the initial value of a tensor (N,), a
                     tuple of floats that of (N, k). A tuple of ints is a shape of zeros.
        memory_to    networks that observe the memory in addition to the observation: "critic",
                     "actor" (both), or the names that the policy observes, such as ("turns",)
        phase_hz     frequency of a phase variable that the policy observes, e.g. for gaits
        terms        dict of descriptions by term
        latex        formula in LaTeX
        description  one or two sentences
    """

    # Inherited defaults are read-only because all rewards share them. Subclasses use plain dicts.
    weights: dict[str, float] = cast("dict[str, float]", MappingProxyType({}))
    memory: dict[str, Any] = cast("dict[str, Any]", MappingProxyType({}))
    memory_to: Literal["critic", "actor"] | tuple[str, ...] = "critic"
    phase_hz: float | None = None
    terms: dict[str, str] = cast("dict[str, str]", MappingProxyType({}))
    latex: str = ""
    description: str = ""
    _initial_memory: dict[str, Tensor] = cast("dict[str, Tensor]", MappingProxyType({}))
    """buffer that the trainer sets together with `memory`"""

    def __new__(cls, *_args: Any, **_kwargs: Any) -> Self:
        """Copy the weights to each instance, even if a subclass does not call super().__init__."""
        instance = super().__new__(cls)
        instance.weights = dict(cls.weights)
        return instance

    def compute(
        self, obs: Tensor, action: Tensor, next_obs: Tensor, info: Info
    ) -> tuple[Any, dict[str, Any]]:
        """Return the total, shape (N,), and its terms, whose sum is the total.

        Args:
            obs: (N, obs_dim) float32, the policy's observation.
            action: (N, act_dim) float32, as applied; (N,) int64 for discrete actions.
            next_obs: (N, obs_dim) float32, the resulting observation, before any reset.
            info: named tensors (N, ...) of this transition, e.g. info["x_velocity"].
        """
        raise NotImplementedError

    def described_terms(self) -> Any:
        """Return the descriptions of the terms in any format that `terms` accepts."""
        return self.terms

    def reset(self, mask: Tensor) -> None:
        """Reset the memory of ended episodes, selected by `mask` (N,), to the initial values."""
        reset_memory(self.memory, self._initial_memory, mask)


class RewardStep(NamedTuple):
    """Rewards of one step."""

    total: Tensor  # (N,) float32
    terms: dict[str, Tensor]  # each (N,) float32; the same names in the same order at every step


def initial_memory(declared: Mapping[str, Any]) -> dict[str, Tensor]:
    """Return the initial values of declared memory as rows (1, ...) of float32."""
    rows: dict[str, Tensor] = {}
    for name, start in declared.items():
        numbers = cast("tuple[Any, ...]", start) if isinstance(start, tuple) else ()
        if isinstance(start, int | float):
            rows[name] = torch.tensor([float(start)])
        elif numbers and all(type(each) is int for each in numbers):
            rows[name] = torch.zeros(1, *numbers)
        elif numbers and all(isinstance(each, int | float) for each in numbers):
            rows[name] = torch.tensor([numbers], dtype=torch.float32)
        else:
            raise RewardError(
                f'The memory "{name}" has an invalid declaration, {start!r}.',
                hint="Use a number, its initial value, or a shape such as (3,).",
            )
    return rows


def reset_memory(memory: dict[str, Tensor], initial: dict[str, Tensor], mask: Tensor) -> None:
    """Reset the rows selected by `mask`, (N,) bool, to their initial values."""
    for name, row in initial.items():
        memory[name] = torch.where(mask.view(-1, *(1,) * (row.ndim - 1)), row, memory[name])
