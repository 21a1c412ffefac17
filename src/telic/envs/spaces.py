"""Python environments in terms of the contract: their spaces as rows of numbers, and their state.

A snapshot holds the plain data of all their attributes; whether that is all there is, is tried out.
"""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Any, NamedTuple, TypeGuard, cast

import gymnasium
import mujoco
import numpy as np
import torch
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec as GymnasiumSpec
from torch import Tensor

from telic.core.tensors import from_numpy, integers
from telic.core.text import is_dict
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


class Observation(NamedTuple):
    """How to flatten an observation."""

    size: int
    names: tuple[str, ...]
    flatten: Callable[[Any], Any]


def observation_codec(space: AnySpace, env_id: str) -> Observation:
    """Return how the observations of a space become one row of numbers, with a name for each."""
    _refuse_images(space, env_id)
    names = _names(space, "obs")
    flatten: Callable[[Any], Any] = partial(spaces.flatten, space)
    if isinstance(space, spaces.Box):
        flatten = np.asarray if len(space.shape) == 1 else np.ravel
    classic = CLASSIC.get(env_id.rpartition("-v")[0])
    if classic is not None and len(classic.obs_names) == len(names):
        names = classic.obs_names
    return Observation(len(names), names, flatten)


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


class Action(NamedTuple):
    """How an action of the contract becomes the environment's own."""

    names: tuple[str, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    num_actions: int | None
    unbounded: bool  # the space had no limits; they were taken as -1 and 1
    native: Callable[[Tensor], list[Any]]  # batch -> one native action per environment


def action_codec(space: AnySpace, env_id: str) -> Action:
    """Return how to give actions to an environment."""
    if isinstance(space, spaces.Discrete):
        first, count = _choices(space)

        def choose(action: Tensor) -> list[int]:
            return integers(action.cpu() + first)

        return Action(("action",), (0.0,), (count - 1.0,), count, False, choose)
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
    return Action(names, tuple(low.tolist()), tuple(high.tolist()), None, unbounded, hand_over)


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


# ---- snapshots

_PLAIN = (type(None), bool, int, float, str, bytes)
_FIXED = (
    gymnasium.Space,
    GymnasiumSpec,
    mujoco.MjModel,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.ModuleType,
    type,
)
_SEQUENCES: dict[str, Callable[[Iterable[Any]], Any]] = {
    "tuple": tuple,
    "list": list,
    "deque": deque,
    "set": set,
}
# What environments read between steps; it lags one substep behind and cannot be recomputed.
_DERIVED = (
    *("xpos", "xquat", "xmat", "xipos", "ximat", "geom_xpos", "geom_xmat", "site_xpos"),
    *("site_xmat", "cam_xpos", "subtree_com", "cinert", "cvel", "cacc", "cfrc_int", "cfrc_ext"),
    *("qacc", "qfrc_actuator", "qfrc_constraint", "actuator_force", "actuator_length"),
    *("actuator_velocity", "sensordata"),
)
_STATE = mujoco.mjtState.mjSTATE_INTEGRATION


class CannotSave(Exception):
    """Something in the environment is neither plain data nor fixed."""


def capture(env: gymnasium.Env) -> dict[str, Any]:
    """Return the data inside an environment: tensors, numbers, strings, containers of those."""
    return _Writer().attributes(env)


def restore(env: object, state: dict[str, Any]) -> None:
    """Write the data that `capture` gave back into an environment built the same way."""
    for name, value in state.items():
        setattr(env, name, _read(value, getattr(env, name, None)))


class _Writer:
    """Walks through an environment; an object met a second time is written once."""

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def attributes(self, holder: object) -> dict[str, Any]:
        """Return the data of an object's attributes."""
        self._seen.add(id(holder))
        data: dict[str, Any] = {}
        for name, value in vars(holder).items():
            if not isinstance(value, _FIXED) and id(value) not in self._seen:
                data[name] = self.value(value, name)
        return data

    def value(self, value: Any, where: str) -> Any:
        """Return one value in the form that `_read` understands."""
        if isinstance(value, np.ndarray | np.generic):  # before floats: np.float64 is one
            return _write_array(cast("Any", value), where)
        if isinstance(value, _PLAIN):
            return value
        if _is_sequence(value):
            items = [self.value(item, where) for item in value]
            limit = value.maxlen if isinstance(value, deque) else None
            return {"kind": type(value).__name__, "items": items, "limit": limit}
        if is_dict(value):
            pairs = [(self.value(k, where), self.value(v, where)) for k, v in value.items()]
            return {"kind": "dict", "items": pairs}
        if isinstance(value, np.random.Generator):
            return {"kind": "generator", "state": self.value(value.bit_generator.state, where)}
        if isinstance(value, mujoco.MjData):
            self._seen.add(id(value))  # renderers hold it too
            return _write_mujoco(value)
        if hasattr(value, "__dict__") and type(value).__module__ != "builtins":
            return {"kind": "object", "attributes": self.attributes(value)}
        raise CannotSave(f"{where} is a {type(value).__name__}")


def _is_sequence(value: object) -> TypeGuard[Collection[Any]]:
    return isinstance(value, tuple | list | set | deque)


def _write_array(value: np.ndarray | np.generic, where: str) -> dict[str, Any]:
    if value.dtype.kind not in "biufcSU":
        raise CannotSave(f"{where} is an array of {value.dtype}")
    data = from_numpy(np.frombuffer(value.tobytes(), np.uint8).copy())
    kind = "array" if isinstance(value, np.ndarray) else "scalar"
    return {"kind": kind, "dtype": value.dtype.str, "shape": tuple(value.shape), "data": data}


def _write_mujoco(data: mujoco.MjData) -> dict[str, Any]:
    state = np.empty(mujoco.mj_stateSize(data.model, _STATE))
    mujoco.mj_getState(data.model, data, state, _STATE)
    derived = {name: from_numpy(getattr(data, name).copy()) for name in _DERIVED}
    return {"kind": "mujoco", "state": from_numpy(state), "derived": derived}


def _read(value: Any, present: Any) -> Any:
    """Return a value; objects that exist already are filled in place."""
    if not is_dict(value):
        return value
    kind: str = value["kind"]
    if kind in ("array", "scalar"):
        flat = np.frombuffer(value["data"].numpy().tobytes(), np.dtype(value["dtype"])).copy()
        return flat.reshape(value["shape"]) if kind == "array" else flat[0]
    if kind == "dict":
        return {_read(k, None): _read(v, None) for k, v in value["items"]}
    if kind == "deque":
        return deque((_read(item, None) for item in value["items"]), maxlen=value["limit"])
    if kind in _SEQUENCES:
        return _SEQUENCES[kind](_read(item, None) for item in value["items"])
    if kind == "generator":
        present.bit_generator.state = _read(value["state"], None)
    elif kind == "mujoco":
        _read_mujoco(present, value)
    else:
        restore(present, value["attributes"])
    return present


def _read_mujoco(data: mujoco.MjData, value: dict[str, Any]) -> None:
    state = value["state"].numpy()
    mujoco.mj_setState(data.model, data, state, _STATE)
    mujoco.mj_forward(data.model, data)
    mujoco.mj_setState(data.model, data, state, _STATE)
    for name, array in value["derived"].items():
        getattr(data, name)[...] = array.numpy()


def resume_problem(build: Callable[[], gymnasium.Env]) -> str | None:
    """Say why a saved environment does not go on bit for bit; None: it was tried and does."""
    original, copy = build(), build()
    original.action_space.seed(1)
    actions = [original.action_space.sample() for _ in range(12)]
    try:
        original.reset(seed=1)
        for action in actions[:4]:
            original.step(action)
        state = capture(original)
        expected = _play(original, actions[4:])
        copy.reset(seed=2)
        restore(copy, state)
        same = _play(copy, actions[4:]) == expected
    except (CannotSave, AttributeError, TypeError, ValueError) as error:
        return str(error)
    finally:
        original.close()
        copy.close()
    return None if same else "its state is not all in its attributes"


def _play(env: gymnasium.Env, actions: list[Any]) -> list[bytes]:
    """Return what some steps and a reset gave, to the last bit."""
    seen: list[bytes] = []
    for action in actions:
        observation, reward, terminated, truncated, _ = env.step(action)
        seen += [_bits(observation), _bits(reward), _bits((terminated, truncated))]
        if terminated or truncated:
            break
    return [*seen, _bits(env.reset()[0])]


def _bits(value: Any) -> bytes:
    if is_dict(value):
        return b"".join(map(_bits, value.values()))
    if isinstance(value, tuple):
        return b"".join(map(_bits, cast("tuple[Any, ...]", value)))
    return np.asarray(value).tobytes()
