"""The seam between a reward's code and the trainer: ways to run it on N environments."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from telic.envs.info import Info
from telic.errors import RewardError
from telic.rewards.contract import Device, RewardStep
from telic.rewards.definition import Source
from telic.rewards.mistakes import place


class Runner(Protocol):
    """One way to run a reward on N environments; owns what is kept between steps."""

    def start(self, num_envs: int, device: Device) -> None:
        """Begin anew with N environments, all at the start of an episode."""
        ...

    def run(self, obs: Tensor, action: Tensor, next_obs: Tensor, info: Info) -> RewardStep:
        """Reward one step. Raises RewardError with the line; changes none of its arguments."""
        ...

    def reset(self, mask: Tensor) -> None:
        """Forget the episodes that ended, (N,) bool."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Return what is kept between steps, as plain data and tensors."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put it back, after `start`."""
        ...


class Stateless:
    """The part of a runner that has nothing to do when nothing is kept."""

    def reset(self, mask: Tensor) -> None:
        """Do nothing."""

    def state_dict(self) -> dict[str, Any]:
        """Return nothing."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Do nothing."""


def unpack(result: Any, source: Source | None) -> tuple[Any, dict[str, Any]]:
    """Return total and terms; raises RewardError for anything but a pair of them."""
    if isinstance(result, tuple | list) and len(result) == 2 and isinstance(result[1], dict):
        return result[0], result[1]
    got = type(result).__name__
    if isinstance(result, tuple | list):
        got = f"{len(result)} values ({', '.join(type(each).__name__ for each in result)})"
    raise RewardError(
        f"{place(source, None)} returned {got}.",
        hint='Return the total and a dictionary of its terms, e.g. total, {"speed": speed}.',
    )


def as_column(
    value: Any, num_envs: int, device: Device, term: str, source: Source | None
) -> Tensor:
    """Return a batched value as (N,) float32; a single number serves every environment.

    `term` is its name, or "" for the total. Raises RewardError for other shapes.
    """
    if isinstance(value, Tensor) and value.shape == (num_envs,):
        return value if value.dtype is torch.float32 else value.float()
    if isinstance(value, np.ndarray | np.generic):
        value = torch.as_tensor(np.asarray(value), device=device)
    if isinstance(value, bool | int | float):  # made there: nothing to send to the device
        return torch.full((num_envs,), float(value), device=device)
    if isinstance(value, Tensor) and value.ndim == 0:
        return value.to(device, torch.float32).expand(num_envs)
    if isinstance(value, Tensor) and value.shape == (num_envs,):
        return value.float()
    raise _wrong_shape(value, num_envs, term, source)


def _wrong_shape(value: Any, num_envs: int, term: str, source: Source | None) -> RewardError:
    line = source.scan.term_line(term) if source and term else None
    what = f'term "{term}"' if term else "the total"
    if not isinstance(value, Tensor):
        return RewardError(
            f"{place(source, line)}, {what} is a {type(value).__name__}, not a tensor.",
            hint="Return one number per environment: a tensor of shape (N,).",
            line=line,
            term=term or None,
        )
    shape = tuple(value.shape)
    if shape == (num_envs, 1):
        hint = "Drop keepdim=True, or take [:, 0]."
    elif len(shape) > 1 and shape[0] == num_envs:
        hint = "Reduce the last dimension, e.g. with .sum(-1)."
    else:
        hint = "Index columns with x[:, 3]: the first dimension counts environments."
    return RewardError(
        f"{place(source, line)}, {what} has shape {shape} for {num_envs} environments; "
        f"it must be ({num_envs},).",
        hint=hint,
        line=line,
        term=term or None,
    )
