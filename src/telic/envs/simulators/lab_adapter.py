"""mjlab and Isaac Lab, in the simulator's process: manager-based environments in batched torch.

Both give (observations by group, reward, terminated, truncated, extras) and start ended episodes
within the step. Imports numpy, torch and the simulator, never telic.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import importlib.util
import math
from typing import Any

import numpy as np

ACTOR_GROUPS = ("actor", "policy")
"""what the policy observes, as mjlab and Isaac Lab call it"""
ACTION_LIMIT = 3.0
"""half the range of actions that have no limits: three deviations of their usual policies"""


class NotInstalled(Exception):
    """The simulator is not in this Python environment."""

    def __init__(self, package: str, hint: str) -> None:
        import sys

        super().__init__(f"{package} is not installed for {sys.executable}")
        self.hint = hint


class UnknownTask(Exception):
    """The simulator has no task of this name."""

    def __init__(self, task: str, known: list[str]) -> None:
        import difflib

        super().__init__(f'there is no task "{task}"')
        near = difflib.get_close_matches(task, known, 3, 0.3) or known[:5]
        self.hint = f"Closest: {', '.join(near)}."


def open_simulator(order: dict[str, Any]) -> LabSimulator:
    """Make the environments that an order asks for."""
    make = {"mjlab": _make_mjlab, "isaaclab": _make_isaaclab}[order["simulator"]]
    return make(order)


def _make_mjlab(order: dict[str, Any]) -> LabSimulator:
    _require(
        "mjlab", "Name the Python that has it: --python path/to/bin/python (pip install mjlab)."
    )
    importlib.import_module(
        "mujoco"
    )  # before mjlab, which asks for EGL that a machine may not have
    importlib.import_module("mjlab.tasks")  # registers the tasks
    registry = importlib.import_module("mjlab.tasks.registry")
    if order["task"] not in registry.list_tasks():
        raise UnknownTask(order["task"], sorted(registry.list_tasks()))
    config = registry.load_env_cfg(order["task"])
    config.scene.num_envs, config.seed = order["num_envs"], order["seed"]
    _configure(config, order["arguments"])
    device = _cuda_index(order["device"])
    env = importlib.import_module("mjlab.envs").ManagerBasedRlEnv(cfg=config, device=device)
    return LabSimulator(env, config, order, f"mjlab {_version('mjlab')}")


def _make_isaaclab(order: dict[str, Any]) -> LabSimulator:
    _require(
        "isaaclab",
        "Isaac Lab needs Isaac Sim and an NVIDIA RTX GPU; see isaac-sim.github.io/IsaacLab. Then "
        "name its Python: --python path/to/bin/python, or isaaclab.sh as a script of its own.",
    )
    device = _cuda_index(order["device"])
    # Isaac Sim must run before anything else of it can be imported.
    launcher = importlib.import_module("isaaclab.app").AppLauncher(headless=True, device=device)
    importlib.import_module("isaaclab_tasks")  # registers the tasks with Gymnasium
    gymnasium = importlib.import_module("gymnasium")
    known = sorted(name for name in gymnasium.registry if name.startswith("Isaac-"))
    if order["task"] not in known:
        raise UnknownTask(order["task"], known)
    parse = importlib.import_module("isaaclab_tasks.utils").parse_env_cfg
    config = parse(order["task"], device=device, num_envs=order["num_envs"])
    config.seed = order["seed"]
    _configure(config, order["arguments"])
    env = gymnasium.make(order["task"], cfg=config).unwrapped
    return LabSimulator(env, config, order, f"Isaac Lab {_version('isaaclab')}", launcher.app)


def _require(package: str, hint: str) -> None:
    if importlib.util.find_spec(package) is None:
        raise NotInstalled(package, hint)


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "of unknown version"


def _cuda_index(device: str) -> str:
    return "cuda:0" if device == "cuda" else device


def _configure(config: Any, arguments: dict[str, Any]) -> None:
    """Change the task's configuration: arguments are its attributes, with dots between them."""
    for name, value in arguments.items():
        *path, last = name.split(".")
        place: Any = config
        for part in path:
            place = place[part] if _is_mapping(place) else getattr(place, part)
        if not (last in place if _is_mapping(place) else hasattr(place, last)):
            raise AttributeError(f'the task\'s configuration has no "{name}"')
        if _is_mapping(place):
            place[last] = value
        else:
            setattr(place, last, value)


def _is_mapping(place: Any) -> bool:
    return isinstance(place, dict)


class LabSimulator:
    """A manager-based environment; its tensors are copied to and from shared memory."""

    def __init__(
        self, env: Any, config: Any, order: dict[str, Any], version: str, app: Any = None
    ) -> None:
        import torch

        self._torch: Any = torch
        torch.set_grad_enabled(False)
        self._env = env
        self._app = app
        self._finite = bool(getattr(config, "is_finite_horizon", False))
        obs = self._observe(env.reset(seed=order["seed"]))
        named = [name for name in ACTOR_GROUPS if name in obs]
        if not named:
            raise TypeError(f"No group of observations is the policy's: {', '.join(obs)}.")
        self._actor = named[0]
        self._groups = [name for name in obs if name != self._actor]
        width = int(math.prod(env.single_action_space.shape[-1:]))
        # Whatever is compiled at the first step is compiled before the host hears of us.
        env.step(torch.zeros(order["num_envs"], width, device=env.device))
        self.facts = self._facts(order, obs, version, width)

    def _observe(self, returned: Any) -> dict[str, Any]:
        """Return the groups of observations that are rows of numbers."""
        groups = returned[0]
        return {name: rows for name, rows in groups.items() if getattr(rows, "ndim", 0) == 2}

    def _facts(
        self, order: dict[str, Any], obs: dict[str, Any], version: str, width: int
    ) -> dict[str, Any]:
        env = self._env
        space = env.single_action_space
        low, high = _bounds(space, width)
        notes = [
            "The last observation of an episode is not shown by this simulator: where the time "
            "limit ends one, the value of the observation before it stands in."
        ]
        if low is None or high is None:
            low, high = [-ACTION_LIMIT] * width, [ACTION_LIMIT] * width
            notes.append(
                f"The action space has no limits; telic uses [-{ACTION_LIMIT:g}, {ACTION_LIMIT:g}]."
            )
        if self._finite:
            notes.append("The task has a finite horizon: its time limit is an end like any other.")
        return {
            "simulator": version,
            "description": f"The task {order['task']} of {version}, with its own reward.",
            "obs_names": self._names(self._actor, obs[self._actor].shape[1]),
            "action_names": [f"action_{column}" for column in range(width)],
            "action_low": low,
            "action_high": high,
            "num_actions": None,
            "dt_s": float(env.step_dt),
            "max_episode_steps": int(env.max_episode_length),
            "seeding": "batch",
            "shows_final": False,
            "can_stagger": hasattr(env, "episode_length_buf"),
            "groups": {name: int(obs[name].shape[1]) for name in self._groups},
            "notes": notes,
        }

    def _names(self, group: str, width: int) -> list[str]:
        """Return a name for every column of a group, by the terms it is made of."""
        manager: Any = getattr(self._env, "observation_manager", None)
        terms: list[str] = []
        sizes: list[int] = []
        if manager is not None:
            terms = list(manager.active_terms[group])
            sizes = [math.prod(shape) for shape in manager.group_obs_term_dim[group]]
        names = [
            term if size == 1 else f"{term}_{column}"
            for term, size in zip(terms, sizes)  # noqa: B905  Isaac Lab runs older Pythons
            for column in range(size)
        ]
        return names if len(names) == width else [f"obs_{column}" for column in range(width)]

    def attach(self, arrays: dict[str, np.ndarray]) -> str:
        """Take the shared arrays; on a GPU their memory is pinned, so that copies are direct."""
        torch = self._torch
        self._shared = {name: torch.from_numpy(array) for name, array in arrays.items()}
        self._on_gpu = torch.device(self._env.device).type == "cuda"
        if not self._on_gpu:
            return "shared memory"
        codes = {
            int(torch.cuda.cudart().cudaHostRegister(array.ctypes.data, array.nbytes, 0))
            for array in arrays.values()
        }
        if codes == {0}:
            return "pinned shared memory"
        with contextlib.suppress(RuntimeError):  # a refusal is raised once more by what comes next
            torch.zeros(1, device=self._env.device)
        return "shared memory that cannot be pinned"

    def reset(self, seeds: list[int]) -> None:
        """Start new episodes; the first seed decides them all."""
        self._show(self._observe(self._env.reset(seed=seeds[0])))
        self._wait()

    def stagger(self) -> None:
        """Set the episodes' ages."""
        buffer = self._env.episode_length_buf
        buffer[:] = self._shared["age"].to(buffer.device, buffer.dtype)

    def step(self) -> None:
        """Step; what has ended starts anew within."""
        env, shared = self._env, self._shared
        action = shared["action"].to(env.device)
        returned = env.step(action)
        _, reward, terminated, truncated, _ = returned
        if self._finite:
            terminated, truncated = terminated | truncated, self._torch.zeros_like(truncated)
        self._show(self._observe(returned))
        self._copy("reward", reward)
        self._copy("terminated", terminated)
        self._copy("truncated", truncated & ~terminated)
        self._wait()

    def close(self) -> None:
        """Close the environments, and Isaac Sim."""
        self._env.close()
        if self._app is not None:
            self._app.close()

    def _show(self, obs: dict[str, Any]) -> None:
        self._copy("obs", obs[self._actor])
        for name in self._groups:
            self._copy(f"group:{name}", obs[name])

    def _copy(self, name: str, tensor: Any) -> None:
        place = self._shared[name]
        place.copy_(tensor.to(place.dtype).view(place.shape), non_blocking=True)

    def _wait(self) -> None:
        if self._on_gpu:
            self._torch.cuda.synchronize()


def _bounds(space: Any, width: int) -> tuple[list[float] | None, list[float] | None]:
    """Return the limits of actions; None where they have none."""
    try:
        low = np.broadcast_to(np.asarray(space.low, dtype=float), (width,))
        high = np.broadcast_to(np.asarray(space.high, dtype=float), (width,))
    except (AttributeError, ValueError):
        return None, None
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        return None, None
    return low.tolist(), high.tolist()
