"""Conversion between Gymnasium spaces and rows of numbers with named columns."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from telic.core.tensors import from_numpy, integers
from telic.errors import BadEnvironment


class Classic(NamedTuple):
    """Description and column names of a classic control task."""

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
    """Column names of an observation space, and its flattening function."""

    size: int
    names: tuple[str, ...]
    flatten: Callable[[Any], Any]


def observation_codec(space: Any, env_id: str) -> ObservationCodec:
    """Return the codec that flattens the observations of a space."""
    names = tuple(_names(space, "obs", env_id))
    flatten: Callable[[Any], Any] = partial(spaces.flatten, space)
    if isinstance(space, spaces.Box):
        flatten = np.asarray if len(space.shape) == 1 else np.ravel
    classic = CLASSIC.get(env_id.rpartition("-v")[0])
    if classic is not None and len(classic.obs_names) == len(names):
        names = classic.obs_names
    return ObservationCodec(len(names), names, flatten)


def _names(space: Any, stem: str, env_id: str) -> list[str]:
    """Name the columns of a space; raise BadEnvironment for images and unsized spaces."""
    if isinstance(space, spaces.Dict):
        return [n for key, part in space.items() for n in _names(part, str(key), env_id)]
    if isinstance(space, spaces.Tuple):
        parts = enumerate(space.spaces)
        return [n for k, part in parts for n in _names(part, f"{stem}_{k}", env_id)]
    if isinstance(space, spaces.Box) and space.dtype == np.uint8 and len(space.shape) >= 2:
        raise BadEnvironment(
            f"{env_id} observes images {space.shape}, and policies here read rows of numbers.",
            hint="Use an environment (or a wrapper) that observes the state.",
        )
    sized = spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary
    if not isinstance(space, sized):
        raise BadEnvironment(
            f"{env_id} observes a {type(space).__name__} space, whose size is not fixed.",
            hint="Observe Box, Discrete, MultiDiscrete, MultiBinary, or Dict and Tuple of those.",
        )
    size = spaces.flatdim(space)
    return [stem] if size == 1 else [f"{stem}_{k}" for k in range(size)]


_LARGEST = 1e6
"""Magnitude above which an action limit counts as unbounded."""


class ActionCodec(NamedTuple):
    """Names and limits of actions, and their conversion to native actions."""

    names: tuple[str, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    num_actions: int | None
    unbounded: bool  # the space has no limits; [-1, 1] is used instead
    native: Callable[[Tensor], list[Any]]  # batch -> one native action per environment


def action_codec(space: Any, env_id: str) -> ActionCodec:
    """Return the codec that converts actions to those of a space."""
    if isinstance(space, spaces.Discrete):
        first, count = int(space.start), int(space.n)

        def choose(action: Tensor) -> list[int]:
            return integers(action.cpu() + first)

        return ActionCodec(("action",), (0.0,), (count - 1.0,), count, False, choose)
    if not isinstance(space, spaces.Box):
        raise BadEnvironment(
            f"{env_id} takes actions of a {type(space).__name__} space; "
            "policies here choose one of n (Discrete) or give numbers (Box).",
            hint="Wrap the environment so that its action_space is Discrete or Box.",
        )
    shape, dtype = space.shape, space.dtype

    def hand_over(action: Tensor) -> list[np.ndarray]:
        rows = action.detach().cpu().numpy().astype(dtype)  # a copy: the environment may keep it
        return list(rows.reshape(len(rows), *shape))

    low, high = (limit.ravel().astype(float) for limit in (space.low, space.high))
    is_open = (low < -_LARGEST) | (high > _LARGEST)
    unbounded = bool(is_open.any())
    low, high = np.where(is_open, -1.0, low), np.where(is_open, 1.0, high)
    names = tuple(_names(space, "action", env_id))
    return ActionCodec(names, tuple(low.tolist()), tuple(high.tolist()), None, unbounded, hand_over)


def stack(rows: list[Any], device: torch.device) -> Tensor:
    """Stack equally shaped values, (N, ...), as float64, or with their bool or integer type."""
    array = np.array(rows)
    if array.dtype.kind == "f":
        array = array.astype(np.float64, copy=False)
    return from_numpy(array).to(device)
