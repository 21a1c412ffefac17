"""Spaces of Python environments as rows of numbers, with a name for every column."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, cast

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from telic.core.tensors import from_numpy, integers
from telic.errors import BadEnvironment

AnySpace = gymnasium.Space[Any]


class Classic(NamedTuple):
    """What the arrays of a classic control task mean."""

    description: str
    obs_names: tuple[str, ...]
    choices: tuple[str, ...] = ()


CLASSIC = {
    "CartPole": Classic(
        "A pole on a cart; its own task is to keep the pole upright by pushing the cart.",
        ("cart_position", "cart_velocity", "pole_angle", "pole_angular_velocity"),
        ("push left", "push right"),
    ),
    "Pendulum": Classic(
        "A pendulum with a weak motor; its own task is to swing up and stay upright.",
        ("cos_angle", "sin_angle", "angular_velocity"),
    ),
    "Acrobot": Classic(
        "Two links hanging from a pivot; its own task is to swing the end above a line.",
        ("cos_angle_1", "sin_angle_1", "cos_angle_2", "sin_angle_2", "velocity_1", "velocity_2"),
        ("torque -1", "torque 0", "torque +1"),
    ),
    "MountainCar": Classic(
        "A car in a valley, too weak to climb; its own task is to reach the flag on the hill.",
        ("position", "velocity"),
        ("push left", "coast", "push right"),
    ),
    "MountainCarContinuous": Classic(
        "A car in a valley, too weak to climb; its own task is to reach the flag on the hill.",
        ("position", "velocity"),
    ),
}


class ObservationCodec(NamedTuple):
    """How to flatten an observation."""

    size: int
    names: tuple[str, ...]
    flatten: Callable[[Any], Any]


def observation_codec(space: AnySpace, env_id: str) -> ObservationCodec:
    """Return how the observations of a space become one row of numbers, with a name for each."""
    _refuse_images(space, env_id)
    names = _names(space, "obs")
    flatten: Callable[[Any], Any] = partial(spaces.flatten, space)
    if isinstance(space, spaces.Box):
        flatten = np.asarray if len(space.shape) == 1 else np.ravel
    classic = CLASSIC.get(env_id.rpartition("-v")[0])
    if classic is not None and len(classic.obs_names) == len(names):
        names = classic.obs_names
    return ObservationCodec(len(names), names, flatten)


def _parts(space: Any) -> dict[str, AnySpace]:
    """Return the spaces that a Dict or a Tuple is made of, by name or number; else nothing."""
    if isinstance(space, spaces.Dict):
        return {str(key): part for key, part in cast("Any", space).items()}
    if isinstance(space, spaces.Tuple):
        return {str(k): part for k, part in enumerate(cast("Any", space).spaces)}
    return {}


def _refuse_images(space: AnySpace, env_id: str) -> None:
    if isinstance(space, spaces.Dict | spaces.Tuple):
        for part in _parts(space).values():
            _refuse_images(part, env_id)
    elif isinstance(space, spaces.Box) and _dtype(space) == np.uint8 and len(space.shape) >= 2:
        raise BadEnvironment(
            f"{env_id} observes images {space.shape}, and policies here read rows of numbers.",
            hint="Use an environment (or a wrapper) that observes the state.",
        )
    elif not isinstance(
        space, spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary
    ):
        raise BadEnvironment(
            f"{env_id} observes a {_kind(space)} space, whose size is not fixed.",
            hint="Observe Box, Discrete, MultiDiscrete, MultiBinary, or Dict and Tuple of those.",
        )


def _dtype(space: Any) -> Any:
    return space.dtype


def _kind(space: object) -> str:
    return type(space).__name__


def _names(space: AnySpace, stem: str) -> tuple[str, ...]:
    parts = _parts(space)
    if isinstance(space, spaces.Dict):
        return tuple(name for key, part in parts.items() for name in _names(part, key))
    if isinstance(space, spaces.Tuple):
        return tuple(n for key, part in parts.items() for n in _names(part, f"{stem}_{key}"))
    size = spaces.flatdim(space)
    return (stem,) if size == 1 else tuple(f"{stem}_{k}" for k in range(size))


_LARGEST = 1e6
"""an action range wider than this is none"""


class ActionCodec(NamedTuple):
    """How an action of the contract becomes the environment's own."""

    names: tuple[str, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    num_actions: int | None
    unbounded: bool  # the space had no limits; they were taken as -1 and 1
    native: Callable[[Tensor], list[Any]]  # batch -> one native action per environment


def action_codec(space: AnySpace, env_id: str) -> ActionCodec:
    """Return how to give actions to an environment."""
    if isinstance(space, spaces.Discrete):
        first, count = _choices(space)

        def choose(action: Tensor) -> list[int]:
            return integers(action.cpu() + first)

        return ActionCodec(("action",), (0.0,), (count - 1.0,), count, False, choose)
    if not isinstance(space, spaces.Box):
        raise BadEnvironment(
            f"{env_id} takes actions of a {_kind(space)} space; "
            "policies here choose one of n (Discrete) or give numbers (Box).",
            hint="Wrap the environment so that its action_space is Discrete or Box.",
        )
    shape, dtype = space.shape, _dtype(space)

    def hand_over(action: Tensor) -> list[np.ndarray]:
        rows = action.detach().cpu().numpy().astype(dtype)  # a copy: the environment may keep it
        return list(rows.reshape(len(rows), *shape))

    low, high = _limits(space)
    is_open = (low < -_LARGEST) | (high > _LARGEST)
    unbounded = bool(is_open.any())
    low, high = np.where(is_open, -1.0, low), np.where(is_open, 1.0, high)
    names = _names(cast("AnySpace", space), "action")
    return ActionCodec(names, tuple(low.tolist()), tuple(high.tolist()), None, unbounded, hand_over)


def _limits(space: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the lowest and highest numbers of a box, in one row each."""
    return space.low.ravel().astype(float), space.high.ravel().astype(float)


def _choices(space: Any) -> tuple[int, int]:
    """Return the first action of a discrete space, and how many there are."""
    return int(space.start), int(space.n)


def stack(rows: list[Any], device: torch.device) -> Tensor:
    """Return equal-shaped values as one tensor, (N, ...): float64, or bool or integer as it is."""
    array = np.array(rows)
    if array.dtype.kind == "f":
        array = array.astype(np.float64, copy=False)
    return from_numpy(array).to(device)
