"""Any Gymnasium vector environment, in the simulator's process.

A registered id, a vector environment's class, or a class of one environment, of which as many are
made as are asked for. Imports numpy and gymnasium, never telic.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from pathlib import Path
from typing import Any

import gymnasium as _gymnasium
import numpy as np
from gymnasium import spaces as _spaces
from gymnasium import vector as _vector

# Its generics mean nothing here, and an older release has others.
gymnasium: Any = _gymnasium
spaces: Any = _spaces
vector: Any = _vector

_UNBOUNDED = 1e6
"""width from which an action range counts as unlimited"""


def open_simulator(order: dict[str, Any]) -> VectorSimulator:
    """Make the environments that an order asks for."""
    task, count, arguments = order["task"], order["num_envs"], order["arguments"]
    same_step = {"autoreset_mode": vector.AutoresetMode.SAME_STEP}
    place, colon, name = task.rpartition(":")
    if not colon or not (place.endswith(".py") or not _is_registered(task)):
        if "vectorization_mode" not in arguments:
            arguments = {**arguments, "vectorization_mode": "sync", "vector_kwargs": same_step}
        return VectorSimulator(gymnasium.make_vec(task, num_envs=count, **arguments), order)
    maker = getattr(_module(place), name)
    if inspect.isclass(maker) and issubclass(maker, gymnasium.Env):
        env = vector.SyncVectorEnv([lambda: maker(**arguments)] * count, **same_step)
        return VectorSimulator(env, order)
    env = maker(num_envs=count, **arguments)
    if not isinstance(env, vector.VectorEnv):
        raise TypeError(
            f"{maker} gave a {type(env).__name__}; it must be a gymnasium.vector.VectorEnv, or a "
            "class that derives from gymnasium.Env."
        )
    return VectorSimulator(env, order)


def _is_registered(task: str) -> bool:
    try:
        gymnasium.spec(task)
    except (gymnasium.error.Error, ImportError):
        return False
    return True


def _module(place: str) -> Any:
    if not place.endswith(".py"):
        return importlib.import_module(place)
    spec = importlib.util.spec_from_file_location(Path(place).stem, place)
    if spec is None or spec.loader is None or not Path(place).is_file():
        raise FileNotFoundError(f"file not found: {place}")
    sys.path.insert(0, str(Path(place).resolve().parent))  # its neighbours can be imported
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class VectorSimulator:
    """A vector environment that starts ended episodes within the step, or lets itself be reset."""

    arrays: dict[str, np.ndarray]

    def __init__(self, env: Any, order: dict[str, Any]) -> None:
        self._env = env
        self._mode = env.metadata.get("autoreset_mode")
        if self._mode not in (vector.AutoresetMode.SAME_STEP, vector.AutoresetMode.DISABLED):
            raise ValueError(
                f"The vector environment {order['task']} starts ended episodes with the step after "
                f"(autoreset mode {getattr(self._mode, 'value', self._mode)}), so that some steps "
                "are none. Make it with AutoresetMode.SAME_STEP or DISABLED, and say so in its "
                'metadata["autoreset_mode"].'
            )
        self._obs_space, self._action = env.single_observation_space, env.single_action_space
        self._discrete = isinstance(self._action, spaces.Discrete)
        if not (self._discrete or isinstance(self._action, spaces.Box)):
            raise TypeError(f"Actions of a {type(self._action).__name__} space are not supported.")
        notes: list[str] = []
        if self._discrete:
            low, high, names = [0.0], [float(self._action.n - 1)], ["choice"]
        else:
            low, high = self._action.low.ravel().tolist(), self._action.high.ravel().tolist()
            if any(abs(number) > _UNBOUNDED for number in (*low, *high)):
                low, high = [-1.0] * len(low), [1.0] * len(high)
                notes.append("The action space has no limits; actions are scaled to [-1, 1].")
            names = [f"action_{column}" for column in range(len(low))]
        # One environment of the batch, or the batch where it is not made of any.
        envs = getattr(env, "envs", None)
        one = envs[0].unwrapped if envs else env.unwrapped
        lines = (line.strip() for line in (one.__doc__ or "").splitlines())
        seconds = getattr(one, "dt", None) or getattr(one, "tau", None)
        self.facts = {
            "simulator": f"gymnasium {gymnasium.__version__}",
            "description": next((line for line in lines if line and line[0] != "#"), ""),
            "obs_names": _names(self._obs_space, "obs"),
            "action_names": names,
            "action_low": low,
            "action_high": high,
            "num_actions": int(self._action.n) if self._discrete else None,
            "dt_s": float(seconds) if isinstance(seconds, (int, float)) else None,
            "max_episode_steps": getattr(getattr(env, "spec", None), "max_episode_steps", None),
            "shows_final": True,
            "can_stagger": False,
            "groups": {},
            "notes": notes,
        }

    def reset(self, seeds: list[int]) -> None:
        """Start new episodes; afterwards the environments use their own generators."""
        obs, _ = self._env.reset(seed=seeds)
        self.arrays["obs"][:] = _rows(self._obs_space, obs)

    def step(self) -> None:
        """Step, and start new episodes where one has ended."""
        arrays, action = self.arrays, self.arrays["action"]
        if self._discrete:
            native = action + self._action.start
        else:
            native = action.reshape(-1, *self._action.shape).astype(self._action.dtype)
        obs, reward, terminated, truncated, info = self._env.step(native)
        rows = _rows(self._obs_space, obs)
        final, done = rows.copy(), np.asarray(terminated) | np.asarray(truncated)
        if done.any():
            if self._mode == vector.AutoresetMode.SAME_STEP:
                for row in np.flatnonzero(done):
                    final[row] = spaces.flatten(self._obs_space, info["final_obs"][row])
            else:
                obs, _ = self._env.reset(options={"reset_mask": done})
                rows = _rows(self._obs_space, obs)
        arrays["obs"][:] = rows
        arrays["final_obs"][:] = final
        arrays["reward"][:] = reward
        arrays["terminated"][:] = terminated
        arrays["truncated"][:] = truncated

    def close(self) -> None:
        """Close the environments."""
        self._env.close()


def _parts(space: Any) -> dict[Any, Any] | None:
    """Return the spaces of a Dict or a Tuple, by key; None: it is one space."""
    if isinstance(space, spaces.Dict):
        return dict(space.spaces)
    return dict(enumerate(space.spaces)) if isinstance(space, spaces.Tuple) else None


def _names(space: Any, stem: str) -> list[str]:
    parts = _parts(space)
    if parts is not None:
        return [name for key, part in parts.items() for name in _names(part, str(key))]
    size = spaces.flatdim(space)
    return [stem] if size == 1 else [f"{stem}_{column}" for column in range(size)]


def _rows(space: Any, batch: Any) -> np.ndarray:
    """Return a batch of observations as rows of numbers, (N, columns)."""
    parts = _parts(space)
    if parts is not None:
        return np.concatenate([_rows(part, batch[key]) for key, part in parts.items()], axis=1)
    batch = np.asarray(batch)
    if isinstance(space, spaces.Discrete):
        return np.eye(int(space.n), dtype=np.float32)[batch - space.start]
    if isinstance(space, (spaces.Box, spaces.MultiBinary)):
        return batch.reshape(len(batch), -1).astype(np.float32)
    raise TypeError(f"Observations of a {type(space).__name__} space are not supported.")
