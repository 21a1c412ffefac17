"""Adapter for mjlab and Isaac Lab, whose manager-based environments use batched torch.

Steps return (observations by group, reward, terminated, truncated, extras) after an autoreset. The
adapter runs in the simulator's process and imports numpy, torch and the simulator, but not telic.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.metadata
import importlib.util
import math
import sys
from typing import Any

import numpy as np

_ACTOR_GROUPS = ("actor", "policy")
"""Names of the policy's observation group in mjlab and Isaac Lab."""
_ACTION_LIMIT = 3.0
"""Limit for unbounded actions: three standard deviations of a typical policy."""
_HINTS = {
    "mjlab": "Pass a Python that has it (pip install mjlab): --python path/to/bin/python.",
    "isaaclab": "Isaac Lab requires Isaac Sim and an NVIDIA RTX GPU (see "
    "isaac-sim.github.io/IsaacLab). Then pass its Python: --python "
    "path/to/bin/python, or a script that calls isaaclab.sh.",
}


class Unavailable(Exception):
    """Raised if the simulator or its task is not available."""

    def __init__(self, text: str, hint: str) -> None:
        super().__init__(text)
        self.hint = hint


def open_simulator(order: dict[str, Any]) -> LabSimulator:
    """Create the environments described by a request."""
    package, task = order["simulator"], order["task"]
    if importlib.util.find_spec(package) is None:
        raise Unavailable(f"{package} is not installed for {sys.executable}", _HINTS[package])
    device = "cuda:0" if order["device"] == "cuda" else order["device"]
    app: Any = None
    gymnasium: Any = None
    registry: Any = None
    if package == "mjlab":
        # Import mujoco before mjlab, which requests EGL even where it is not available.
        importlib.import_module("mujoco")
        importlib.import_module("mjlab.tasks")  # registers the tasks
        registry = importlib.import_module("mjlab.tasks.registry")
        known = sorted(registry.list_tasks())
    else:
        # Isaac Sim must be running before its other modules can be imported.
        app = importlib.import_module("isaaclab.app").AppLauncher(headless=True, device=device).app
        importlib.import_module("isaaclab_tasks")  # registers the tasks with Gymnasium
        gymnasium = importlib.import_module("gymnasium")
        known = sorted(name for name in gymnasium.registry if name.startswith("Isaac-"))
    if task not in known:
        near = difflib.get_close_matches(task, known, 3, 0.3) or known[:5]
        raise Unavailable(f'no task "{task}"', f"Closest: {', '.join(near)}.")
    if package == "mjlab":
        config = registry.load_env_cfg(task)
        config.scene.num_envs = order["num_envs"]
        _configure(config, order)
        env = importlib.import_module("mjlab.envs").ManagerBasedRlEnv(cfg=config, device=device)
    else:
        parse = importlib.import_module("isaaclab_tasks.utils").parse_env_cfg
        config = parse(task, device=device, num_envs=order["num_envs"])
        _configure(config, order)
        env = gymnasium.make(task, cfg=config).unwrapped
    try:
        version = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        version = "of unknown version"
    name = {"mjlab": "mjlab", "isaaclab": "Isaac Lab"}[package]
    return LabSimulator(env, config, order, f"{name} {version}", app)


def _configure(config: Any, order: dict[str, Any]) -> None:
    """Set the seed and the arguments, given as dotted attribute paths."""
    config.seed = order["seed"]
    for name, value in order["arguments"].items():
        *path, last = name.split(".")
        place: Any = config
        for part in path:
            place = place[part] if isinstance(place, dict) else getattr(place, part)
        if not (last in place if isinstance(place, dict) else hasattr(place, last)):
            raise AttributeError(f'the task\'s configuration has no "{name}"')
        if isinstance(place, dict):
            place[last] = value
        else:
            setattr(place, last, value)


class LabSimulator:
    """Manager-based environment whose tensors are copied to and from shared memory."""

    arrays: dict[str, np.ndarray]

    def __init__(
        self, env: Any, config: Any, order: dict[str, Any], version: str, app: Any
    ) -> None:
        import torch

        self._torch: Any = torch
        torch.set_grad_enabled(False)
        self._env, self._app = env, app
        self._finite = bool(getattr(config, "is_finite_horizon", False))
        obs = _groups(env.reset(seed=order["seed"]))
        named = [name for name in _ACTOR_GROUPS if name in obs]
        if not named:
            raise TypeError(f"No observation group belongs to the policy: {', '.join(obs)}.")
        self._actor = named[0]
        width = int(math.prod(env.single_action_space.shape[-1:]))
        # The first step compiles kernels; do so before the host's step timeout applies.
        env.step(torch.zeros(order["num_envs"], width, device=env.device))
        notes = [
            "This simulator does not return the last observation of an episode. At time limits, "
            "the value of the previous observation is used."
        ]
        bounds = _bounds(env.single_action_space, width)
        if bounds is None:
            bounds = [-_ACTION_LIMIT] * width, [_ACTION_LIMIT] * width
            limit = f"{_ACTION_LIMIT:g}"
            notes.append(f"The action space has no bounds, so telic uses [-{limit}, {limit}].")
        if self._finite:
            notes.append("The task has a finite horizon, so its time limit is a termination.")
        self.facts = {
            "simulator": version,
            "description": f"The task {order['task']} of {version}, with its built-in reward.",
            "obs_names": self._names(obs[self._actor].shape[1]),
            "action_names": [f"action_{column}" for column in range(width)],
            "action_low": bounds[0],
            "action_high": bounds[1],
            "dt_s": float(env.step_dt),
            "max_episode_steps": int(env.max_episode_length),
            "shows_final": False,
            "can_stagger": hasattr(env, "episode_length_buf"),
            "groups": {name: int(obs[name].shape[1]) for name in obs if name != self._actor},
            "notes": notes,
        }

    def _names(self, width: int) -> list[str]:
        """Return the names of the policy's observation columns, from the observation terms."""
        manager: Any = getattr(self._env, "observation_manager", None)
        names: list[str] = []
        if manager is not None:
            sizes = [math.prod(shape) for shape in manager.group_obs_term_dim[self._actor]]
            terms = manager.active_terms[self._actor]
            for term, size in zip(terms, sizes):  # noqa: B905  older Pythons
                names += [term] if size == 1 else [f"{term}_{column}" for column in range(size)]
        return names if len(names) == width else [f"obs_{column}" for column in range(width)]

    def reset(self, seeds: list[int]) -> None:
        """Start new episodes. Only the first seed is used."""
        self._show(self._env.reset(seed=seeds[0]))

    def stagger(self) -> None:
        """Set the age of each episode."""
        buffer = self._env.episode_length_buf
        ages = self._torch.from_numpy(self.arrays["age"])
        buffer[:] = ages.to(buffer.device, buffer.dtype)

    def step(self) -> None:
        """Take one step, with autoreset of ended episodes."""
        action = self._torch.from_numpy(self.arrays["action"]).to(self._env.device)
        returned = self._env.step(action)
        _, reward, terminated, truncated, _ = returned
        if self._finite:
            terminated, truncated = terminated | truncated, self._torch.zeros_like(truncated)
        self._show(returned)
        self._copy("reward", reward)
        self._copy("terminated", terminated)
        self._copy("truncated", truncated & ~terminated)

    def close(self) -> None:
        """Close the environments and Isaac Sim."""
        self._env.close()
        if self._app is not None:
            self._app.close()

    def _show(self, returned: Any) -> None:
        for name, rows in _groups(returned).items():
            self._copy("obs" if name == self._actor else f"group:{name}", rows)

    def _copy(self, name: str, tensor: Any) -> None:
        place = self._torch.from_numpy(self.arrays[name])
        place.copy_(tensor.to(place.dtype).view(place.shape))


def _groups(returned: Any) -> dict[str, Any]:
    """Return the two-dimensional observation groups."""
    return {name: rows for name, rows in returned[0].items() if getattr(rows, "ndim", 0) == 2}


def _bounds(space: Any, width: int) -> tuple[list[float], list[float]] | None:
    """Return the action limits, or None if they are not finite."""
    try:
        low = np.broadcast_to(np.asarray(space.low, dtype=float), (width,))
        high = np.broadcast_to(np.asarray(space.high, dtype=float), (width,))
    except (AttributeError, ValueError):
        return None
    is_finite = bool(np.isfinite(low).all() and np.isfinite(high).all())
    return (low.tolist(), high.tolist()) if is_finite else None
