"""Save and restore a Python environment bit for bit, without pickling its code.

The data inside the environment (numbers, arrays, random generators, MuJoCo states, plain containers
and the attributes of its own objects) is copied out and written back into an equal environment.
What is not data (spaces, functions, models) is left alone; what is neither raises `CannotSave`.
"""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Callable, Collection, Iterable
from typing import Any, TypeGuard, cast

import gymnasium
import mujoco
import numpy as np
from gymnasium.envs.registration import EnvSpec as GymnasiumSpec

from telic.core.tensors import from_numpy
from telic.core.text import is_dict

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


def restore(env: gymnasium.Env, state: dict[str, Any]) -> None:
    """Write the data that `capture` gave back into an environment built the same way."""
    _read_attributes(env, state)


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
            items = [self.value(each, where) for each in value]
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


def _read_attributes(holder: object, state: dict[str, Any]) -> None:
    for name, value in state.items():
        setattr(holder, name, _read(value, getattr(holder, name, None)))


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
        return deque((_read(each, None) for each in value["items"]), maxlen=value["limit"])
    if kind in _SEQUENCES:
        return _SEQUENCES[kind](_read(each, None) for each in value["items"])
    if kind == "generator":
        present.bit_generator.state = _read(value["state"], None)
    elif kind == "mujoco":
        _read_mujoco(present, value)
    else:
        _read_attributes(present, value["attributes"])
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
