"""Find, build and inspect third-party environments."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import io
import os
import re
import sys
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Literal, NamedTuple

import gymnasium
import mujoco
import numpy as np
import torch
from gymnasium import spaces
from gymnasium.wrappers import OrderEnforcing
from torch import Tensor

from telic.core.tensors import from_numpy, integers
from telic.envs.anatomy import action_names, position_names, robot_fields, robot_of, velocity_names
from telic.envs.catalogue import CLASSIC, known_ids
from telic.envs.simulators.names import named_code
from telic.envs.spec import EnvSpec
from telic.envs.task import FIELDS
from telic.errors import BadEnvironment, UnknownName
from telic.sim.cpu import library
from telic.sim.files import MODEL_FILES, USD_FILES, require_compilable, unreadable
from telic.storage.keys import require_permitted

# MuJoCo fields available in info for environments based on MuJoCo.
_OFFERED = ("qpos", "qvel", "xpos", "xquat", "cvel", "subtree_com", "cfrc_ext", "time")
_FIELDS = {name: FIELDS[name] for name in _OFFERED}


class Probe(NamedTuple):
    """Properties of an environment, found by taking one step."""

    spec: EnvSpec
    flatten: Callable[[Any], Any]
    native: Callable[[Tensor], list[Any]]
    own_keys: dict[str, tuple[int, ...]]  # shapes of the numeric values in the environment's info
    readers: dict[str, Callable[[Any], Any]]  # values read from the environment object


def builder(env_id: str, arguments: Mapping[str, Any]) -> Callable[[], gymnasium.Env]:
    """Return a function that creates one environment without a time limit wrapper."""
    make: Callable[..., Any] = _import(env_id) or partial(_make_registered, env_id)

    def build() -> gymnasium.Env:
        try:
            env = make(**arguments)
        except TypeError as error:
            raise BadEnvironment(
                f"{env_id} cannot be created with {dict(arguments)}: {error}.",
                hint="The arguments are passed to the environment's constructor.",
            ) from error
        for needed in ("reset", "step", "observation_space", "action_space"):
            if not hasattr(env, needed):
                raise BadEnvironment(
                    f'{env_id} returned a {type(env).__name__} without "{needed}".',
                    hint="Derive it from gymnasium.Env (see gymnasium.farama.org).",
                )
        return env

    return build


def _make_registered(env_id: str, **arguments: Any) -> gymnasium.Env:
    library()  # prevents MuJoCo from logging to the terminal and the working directory
    _register_package(env_id)
    for value in arguments.values():
        if isinstance(value, str) and value.endswith(MODEL_FILES) and os.path.isfile(value):
            require_compilable(Path(value))
    try:
        with warnings.catch_warnings():
            # The user may choose an older version; do not warn about it.
            warnings.simplefilter("ignore", DeprecationWarning)
            env = gymnasium.make(
                env_id, max_episode_steps=-1, disable_env_checker=True, **arguments
            )
    except gymnasium.error.DependencyNotInstalled as error:
        raise BadEnvironment(f"{env_id} cannot be created: {error}.") from error
    except gymnasium.error.Error as error:
        unknown = (gymnasium.error.UnregisteredEnv, gymnasium.error.DeprecatedEnv)
        if env_id in gymnasium.registry and not isinstance(error, unknown):
            raise
        if env_id.endswith(USD_FILES):
            raise unreadable(env_id, error) from error
        raise UnknownName("environment", env_id, known_ids(), see="telic envs") from error
    return env.env if isinstance(env, OrderEnforcing) else env


def _import(name: str) -> Callable[..., Any] | None:
    """Import the class or factory "module:Class". Returns None for a registered id."""
    if ":" not in name:
        return None
    require_permitted(*named_code(name))
    place, _, attribute = name.rpartition(":")
    here = str(Path.cwd())
    sys.path.insert(0, here)  # makes the user's modules importable from any entry point
    try:
        if place.endswith(".py"):
            spec = importlib.util.spec_from_file_location(Path(place).stem, place)
            if spec is None or spec.loader is None or not Path(place).is_file():
                raise ImportError(f"file not found: {place}")
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        else:
            module = importlib.import_module(place)
    except (ImportError, OSError, ValueError, SyntaxError) as error:
        raise BadEnvironment(
            f'Cannot import "{place}" for the environment "{name}": {error}.',
            hint="Pass package.module:Class (importable from here) or path/to/file.py:Class.",
        ) from error
    finally:
        sys.path.remove(here)
    maker = getattr(module, attribute, None)
    if callable(maker):
        return maker
    if name in known_ids() or attribute in known_ids():
        return None
    makers = [key for key, value in vars(module).items() if inspect.isclass(value)]
    raise UnknownName(f"class or factory in {place}", attribute, makers)


def examine_env(
    env_id: str,
    build: Callable[[], gymnasium.Env],
    max_episode_steps: int | Literal["registered"] | None,
    arguments: Mapping[str, Any],
) -> Probe:
    """Create one environment, take one step and describe it."""
    env = build()
    core: Any = env.unwrapped
    observation = observation_codec(env.observation_space, env_id)
    action = action_codec(env.action_space, env_id)
    own_keys = _try(env_id, env, observation)
    model = getattr(core, "model", None)
    model = model if isinstance(model, mujoco.MjModel) else None
    body: dict[str, Any] = {}
    obs_names, actions = observation.names, action.names
    readers: dict[str, Callable[[Any], Any]] = {}
    if model is not None:
        rest = getattr(core, "init_qpos", None)
        body = robot_fields(model, robot_of(model, rest, env_id.rpartition("-v")[0]))
        # Assume joint positions (possibly without x and y) and velocities if the size matches.
        hidden = model.nq + model.nv - len(obs_names)
        if hidden in (0, 1, 2):
            obs_names = position_names(model)[hidden:] + velocity_names(model)
        actions = action_names(model) if model.nu == len(actions) else actions
        readers = {name: lambda env, name=name: getattr(env.data, name) for name in _FIELDS}
        readers["contacts"] = lambda env: np.linalg.norm(env.data.cfrc_ext[:, 3:], axis=1)
    elif np.asarray(getattr(core, "state", None)).dtype.kind in "iuf":
        readers = {"state": lambda env: env.state}
    times = [getattr(core, name, None) for name in ("dt", "tau")]
    dt = next((float(each) for each in times if isinstance(each, int | float) and each > 0), None)
    registered = gymnasium.registry.get(env_id)
    if max_episode_steps == "registered":
        max_episode_steps = registered.max_episode_steps if registered else None
    classic = CLASSIC.get(env_id.rpartition("-v")[0])
    notes: list[str] = []
    if action.unbounded:
        notes.append("The action space has no bounds, so actions are in [-1, 1].")
    if classic is not None and classic.choices:
        choices = ", ".join(f"{number} {words}" for number, words in enumerate(classic.choices))
        notes.append(f"Actions: {choices}.")
    spec = EnvSpec(
        id=env_id,
        description=classic.description if classic else _description(core),
        obs_names=obs_names,
        action_names=actions,
        action_low=action.low,
        action_high=action.high,
        num_actions=action.num_actions,
        dt_s=dt,
        max_episode_steps=max_episode_steps,
        info_keys=_meanings(own_keys, readers, dt),
        solved_return=registered.reward_threshold if registered else None,
        notes=tuple(notes),
        arguments=dict(arguments),
        **body,
    )
    env.close()
    return Probe(spec, observation.flatten, action.native, own_keys, readers)


def _try(
    env_id: str, env: gymnasium.Env, observation: ObservationCodec
) -> dict[str, tuple[int, ...]]:
    """Reset and step once and return the shapes of the numeric info values."""
    started: Any = env.reset(seed=0)
    env.action_space.seed(0)
    stepped: Any = env.step(env.action_space.sample())
    if not isinstance(started, tuple) or len(started) != 2 or len(stepped) != 5:
        raise BadEnvironment(
            f"{env_id} does not follow Gymnasium's interface: reset must return (obs, info) "
            "and step (obs, reward, terminated, truncated, info).",
            hint="It may have been written for the old gym package. Wrap or port it.",
        )
    got, size = np.shape(observation.flatten(stepped[0])), len(observation.names)
    if got != (size,):
        raise BadEnvironment(
            f"{env_id} returned an observation of shape {got}, but its observation_space has "
            f"{size} values: {env.observation_space}.",
            hint="Make observation_space and the returned observations agree.",
        )
    numeric = (int, float, np.ndarray, np.generic)
    arrays = {k: np.asarray(v) for k, v in stepped[4].items() if isinstance(v, numeric)}
    return {name: array.shape for name, array in arrays.items() if array.dtype.kind in "biuf"}


def _meanings(
    own_keys: Mapping[str, Any], readers: Mapping[str, object], dt: float | None
) -> dict[str, str]:
    meanings = dict.fromkeys(own_keys, "value from the environment's info")
    words = {
        **_FIELDS,
        "contacts": "magnitude of the net external force on each body (N, nbody), newtons",
        "state": "state of the environment (N, ...)",
    }
    meanings |= {name: words[name] for name in readers}
    if dt is not None:
        meanings["dt"] = "simulated seconds per step (N,)"
        meanings.setdefault("time", "simulated time since the start of the episode (N,), s")
    meanings["action"] = "action as passed to step"
    meanings["env_reward"] = "the environment's reward (N,)"
    meanings["episode_start"] = "whether this was the first step of its episode (N,)"
    return meanings


def _description(core: object) -> str:
    lines = [line.strip() for line in (inspect.getdoc(type(core)) or "").splitlines()]
    prose = [line for line in lines if line and not line.startswith(("#", "|", "-", ">", "<", "!"))]
    return prose[0] if prose else type(core).__name__


# ---- packages

_ROBOTICS = "gymnasium_robotics"
_ROBOTICS_IDS = r"Fetch|Hand|AdroitHand|FrankaKitchen|PointMaze|AntMaze|MaMuJoCo"


def _register_package(env_id: str) -> None:
    """Import Gymnasium-Robotics to register its ids, if `env_id` is one of its ids.

    Raises:
        BadEnvironment: the package or one of its dependencies is not installed.
    """
    name = env_id.rpartition(":")[2]
    if not re.match(_ROBOTICS_IDS, name):
        return
    if importlib.util.find_spec(_ROBOTICS) is None:
        raise BadEnvironment(
            f"{name} requires the package {_ROBOTICS}, which is not installed.",
            hint="Install it with: pip install 'telic[robotics]'",
        )
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")  # version warnings
        try:
            module = importlib.import_module(_ROBOTICS)
        except ModuleNotFoundError as error:  # missing dependencies: glfw, pettingzoo
            raise BadEnvironment(
                f"{name} requires {error.name} (a dependency of {_ROBOTICS}), which is not "
                "installed.",
                hint=f"Install it with: pip install {error.name}",
            ) from error
    gymnasium.register_envs(module)
    # Gymnasium-Robotics 1.4.2 tests `model.jnt_type[i] == mjtJoint.mjJNT_FREE`, which is always
    # false since MuJoCo 4.0.
    utilities: Any = importlib.import_module(f"{_ROBOTICS}.utils.mujoco_utils")
    if isinstance(getattr(utilities, "mujoco", None), ModuleType):
        utilities.mujoco = _PlainNumbers()


class _PlainNumbers:
    """Proxy for the mujoco module that returns enumeration values as integers."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(mujoco, name)
        if not name.startswith("mjt"):
            return found
        members = {key: int(getattr(found, key)) for key in dir(found) if key.startswith("mj")}
        numbers = SimpleNamespace(**members)
        setattr(self, name, numbers)
        return numbers


# ---- spaces: rows of numbers with named columns


class ObservationCodec(NamedTuple):
    """Column names of an observation space, and its flattening function."""

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
    return ObservationCodec(names, flatten)


def _names(space: Any, stem: str, env_id: str) -> list[str]:
    """Return the column names of a space, or raise BadEnvironment for images and unsized spaces."""
    if isinstance(space, spaces.Dict):
        return [n for key, part in space.items() for n in _names(part, str(key), env_id)]
    if isinstance(space, spaces.Tuple):
        parts = enumerate(space.spaces)
        return [n for k, part in parts for n in _names(part, f"{stem}_{k}", env_id)]
    if isinstance(space, spaces.Box) and space.dtype == np.uint8 and len(space.shape) >= 2:
        raise BadEnvironment(
            f"{env_id} has image observations {space.shape}, but policies require vectors.",
            hint="Use an environment or a wrapper with state observations.",
        )
    sized = spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary
    if not isinstance(space, sized):
        raise BadEnvironment(
            f"The observation space of {env_id} ({type(space).__name__}) has no fixed size.",
            hint="Use Box, Discrete, MultiDiscrete, MultiBinary, or Dict and Tuple of these.",
        )
    size = spaces.flatdim(space)
    return [stem] if size == 1 else [f"{stem}_{k}" for k in range(size)]


_MAX_ACTION = 1e6
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
            f"The action space of {env_id} is {type(space).__name__}, but only Discrete and Box "
            "are supported.",
            hint="Wrap the environment so that its action_space is Discrete or Box.",
        )
    shape, dtype = space.shape, space.dtype

    def hand_over(action: Tensor) -> list[np.ndarray]:
        rows = action.detach().cpu().numpy().astype(dtype)  # a copy: the environment may keep it
        return list(rows.reshape(len(rows), *shape))

    low, high = (limit.ravel().astype(float) for limit in (space.low, space.high))
    is_open = (low < -_MAX_ACTION) | (high > _MAX_ACTION)
    unbounded = bool(is_open.any())
    low, high = np.where(is_open, -1.0, low), np.where(is_open, 1.0, high)
    names = tuple(_names(space, "action", env_id))
    return ActionCodec(names, tuple(low.tolist()), tuple(high.tolist()), None, unbounded, hand_over)


def stack(rows: list[Any], device: torch.device) -> Tensor:
    """Stack values of equal shape to (N, ...), converting floating-point values to float64."""
    array = np.array(rows)
    if array.dtype.kind == "f":
        array = array.astype(np.float64, copy=False)
    return from_numpy(array).to(device)
