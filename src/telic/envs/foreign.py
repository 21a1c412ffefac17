"""Find, build and examine an environment we did not write."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import io
import re
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Literal, NamedTuple, cast

import gymnasium
import mujoco
import numpy as np
from gymnasium.wrappers import OrderEnforcing
from torch import Tensor

from telic.core.text import is_row
from telic.envs.anatomy import (
    action_names,
    position_names,
    robot_fields,
    robot_of,
    velocity_names,
)
from telic.envs.catalogue import known_ids
from telic.envs.spaces import CLASSIC, action_codec, observation_codec
from telic.envs.spec import EnvSpec
from telic.envs.task import FIELDS
from telic.errors import BadEnvironment, UnknownName
from telic.sim.cpu import library

_Build = Callable[[], gymnasium.Env]
_Reader = Callable[[Any], Any]

# Fields of MuJoCo that info offers where the environment is built on it.
_OFFERED = ("qpos", "qvel", "xpos", "xquat", "cvel", "subtree_com", "cfrc_ext", "time")
_FIELDS = {name: FIELDS[name] for name in _OFFERED}
_TRIAL_STEPS = 8


class Probe(NamedTuple):
    """What a few steps of one environment showed."""

    spec: EnvSpec
    flatten: Callable[[Any], Any]
    native: Callable[[Tensor], list[Any]]
    own_keys: dict[str, tuple[int, ...]]  # numeric values of the environment's own info: shape
    readers: dict[str, _Reader]  # values read off the environment itself
    resumable: bool


def builder(env_id: str, arguments: Mapping[str, Any]) -> _Build:
    """Return a function that makes one environment, without a time limit of its own."""
    if ":" in env_id:
        made_by = _import(env_id)
        if made_by is not None:
            return lambda: _call(env_id, made_by, arguments)
    return lambda: _call(env_id, _make_registered(env_id), arguments)


def _make_registered(env_id: str) -> Callable[..., gymnasium.Env]:
    def make(**arguments: Any) -> gymnasium.Env:
        library()  # keeps MuJoCo's remarks on old models out of the terminal and of the folder
        register_package(env_id)
        try:
            with warnings.catch_warnings():
                # Asking for an older version is the user's choice, not a mistake to point out.
                warnings.simplefilter("ignore", DeprecationWarning)
                env = gymnasium.make(
                    env_id, max_episode_steps=-1, disable_env_checker=True, **arguments
                )
        except gymnasium.error.DependencyNotInstalled as error:
            raise BadEnvironment(f"{env_id} cannot be made: {error}.") from error
        except (gymnasium.error.UnregisteredEnv, gymnasium.error.DeprecatedEnv) as error:
            raise UnknownName("environment", env_id, known_ids(), see="telic envs") from error
        except gymnasium.error.Error as error:
            if env_id in gymnasium.registry:
                raise
            raise UnknownName("environment", env_id, known_ids(), see="telic envs") from error
        return env.env if isinstance(env, OrderEnforcing) else env

    return make


def _import(name: str) -> Callable[..., Any] | None:
    """Return the class or factory "module:Class" names; None: it names a registered id."""
    place, _, attribute = name.rpartition(":")
    try:
        module = _load_file(Path(place)) if place.endswith(".py") else _load_module(place)
    except (ImportError, OSError, ValueError, SyntaxError) as error:
        raise BadEnvironment(
            f'Cannot import "{place}" for the environment "{name}": {error}.',
            hint="Give package.module:Class (importable from here) or path/to/file.py:Class.",
        ) from error
    maker = getattr(module, attribute, None)
    if callable(maker):
        return maker
    if name in known_ids() or attribute in known_ids():
        return None
    makers = [key for key, value in vars(module).items() if inspect.isclass(value)]
    raise UnknownName(f"class or factory in {place}", attribute, makers)


def _load_module(name: str) -> ModuleType:
    # A module beside the user's files is found whatever started this process.
    sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(Path.cwd()))


def _load_file(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ImportError(f"there is no file {path}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _call(env_id: str, make: Callable[..., Any], arguments: Mapping[str, Any]) -> gymnasium.Env:
    try:
        env = make(**arguments)
    except TypeError as error:
        raise BadEnvironment(
            f"{env_id} cannot be made with {dict(arguments)}: {error}.",
            hint="The arguments go to the environment's constructor as they are.",
        ) from error
    for needed in ("reset", "step", "observation_space", "action_space"):
        if not hasattr(env, needed):
            raise BadEnvironment(
                f'{env_id} gave a {type(env).__name__} without "{needed}".',
                hint="Derive from gymnasium.Env; see gymnasium.farama.org.",
            )
    return env


def examine_env(
    env_id: str,
    build: _Build,
    max_episode_steps: int | Literal["registered"] | None,
    arguments: Mapping[str, Any],
) -> Probe:
    """Make one environment, try it for a few steps and say what it is."""
    env = build()
    core = env.unwrapped
    observation = observation_codec(env.observation_space, env_id)
    action = action_codec(env.action_space, env_id)
    own_keys = _try(env_id, env, observation.flatten, observation.size)
    model = getattr(core, "model", None)
    model = model if isinstance(model, mujoco.MjModel) else None
    body: dict[str, Any] = {}
    if model is not None:
        rest = getattr(core, "init_qpos", None)
        body = robot_fields(model, robot_of(model, rest, env_id.rpartition("-v")[0]))
    readers = _readers(core, model)
    is_repeatable = _is_repeatable(build, observation.flatten)
    dt = _seconds_per_step(core)
    registered = gymnasium.registry.get(env_id)
    if max_episode_steps == "registered":
        max_episode_steps = registered.max_episode_steps if registered else None
    classic = CLASSIC.get(env_id.rpartition("-v")[0])
    notes: list[str] = []
    if action.unbounded:
        notes.append("The action space has no limits; actions are scaled to [-1, 1].")
    if classic is not None and classic.choices:
        notes.append(
            "Actions: " + ", ".join(f"{k} {s}" for k, s in enumerate(classic.choices)) + "."
        )
    if not is_repeatable:
        notes.append("A resumed run continues with new episodes: equal seeds give other episodes.")
    spec = EnvSpec(
        id=env_id,
        description=classic.description if classic else _description(core),
        obs_names=_mujoco_names(model, observation.names) if model else observation.names,
        action_names=action_names(model)
        if model is not None and model.nu == len(action.names)
        else action.names,
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
    return Probe(spec, observation.flatten, action.native, own_keys, readers, is_repeatable)


def _try(
    env_id: str, env: gymnasium.Env, flatten: Callable[[Any], Any], size: int
) -> dict[str, tuple[int, ...]]:
    """Reset and step once; return the numeric info values with their shapes."""
    started: Any = env.reset(seed=0)
    env.action_space.seed(0)
    stepped: Any = env.step(env.action_space.sample())
    is_pair = is_row(started) and isinstance(cast("object", started), tuple)
    if not is_pair or len(started) != 2 or len(stepped) != 5:
        raise BadEnvironment(
            f"{env_id} does not follow Gymnasium's interface: reset must return (obs, info) "
            "and step (obs, reward, terminated, truncated, info).",
            hint="It may be written for the old gym package; wrap or port it.",
        )
    got = np.shape(flatten(stepped[0]))
    if got != (size,):
        raise BadEnvironment(
            f"{env_id} returned an observation of shape {got}, but its observation_space has "
            f"{size} values: {env.observation_space}.",
            hint="Make observation_space and the returned observations agree.",
        )
    shapes: dict[str, tuple[int, ...]] = {}
    for name, value in stepped[4].items():
        array = (
            np.asarray(value) if isinstance(value, int | float | np.ndarray | np.generic) else None
        )
        if array is not None and array.dtype.kind in "biuf":
            shapes[name] = array.shape
    return shapes


def _is_repeatable(build: _Build, flatten: Callable[[Any], Any]) -> bool:
    """Say whether equal seeds and actions give equal episodes: a resumed run plays them again."""
    seen: list[list[bytes]] = []
    for env in (build(), build()):
        env.action_space.seed(1)
        rows = [env.reset(seed=1)[0]]
        for _ in range(_TRIAL_STEPS):
            obs, _, terminated, truncated, _ = env.step(env.action_space.sample())
            rows.append(obs)
            if terminated or truncated:
                break
        seen.append([np.asarray(flatten(row)).tobytes() for row in rows])
        env.close()
    return seen[0] == seen[1]


def _readers(core: Any, model: mujoco.MjModel | None) -> dict[str, _Reader]:
    if model is not None:
        return {
            **{name: lambda env, name=name: getattr(env.data, name) for name in _FIELDS},
            "contacts": lambda env: np.linalg.norm(env.data.cfrc_ext[:, 3:], axis=1),
        }
    state = getattr(core, "state", None)
    numeric = state is not None and np.asarray(state).dtype.kind in "iuf"
    return {"state": lambda env: env.state} if numeric else {}


def _meanings(
    own_keys: Mapping[str, Any], readers: Mapping[str, _Reader], dt: float | None
) -> dict[str, str]:
    meanings = dict.fromkeys(own_keys, "as the environment gives it")
    words = {
        **_FIELDS,
        "contacts": "size of the net external force on each body (N, nbody), newtons",
        "state": "the environment's own state (N, ...)",
    }
    meanings |= {name: words[name] for name in readers}
    if dt is not None:
        meanings["dt"] = "simulated seconds per step (N,)"
        meanings.setdefault("time", "simulated time since the episode began (N,), s")
    meanings["action"] = "action as given"
    meanings["env_reward"] = "the environment's own reward (N,)"
    meanings["episode_start"] = "whether this was the first step of its episode (N,)"
    return meanings


def _seconds_per_step(core: Any) -> float | None:
    for name in ("dt", "tau"):
        value = getattr(core, name, None)
        if isinstance(value, int | float) and value > 0:
            return float(value)
    return None


def _description(core: object) -> str:
    lines = [line.strip() for line in (inspect.getdoc(type(core)) or "").splitlines()]
    prose = [line for line in lines if line and not line.startswith(("#", "|", "-", ">", "<", "!"))]
    return prose[0] if prose else type(core).__name__


def _mujoco_names(model: mujoco.MjModel, plain: tuple[str, ...]) -> tuple[str, ...]:
    """Name observations that are joint positions (perhaps without x and y) and velocities."""
    hidden = model.nq + model.nv - len(plain)
    if hidden not in (0, 1, 2):
        return plain
    return position_names(model)[hidden:] + velocity_names(model)


# ---- packages

_ROBOTICS = "gymnasium_robotics"
_ROBOTICS_IDS = r"Fetch|Hand|AdroitHand|FrankaKitchen|PointMaze|AntMaze|MaMuJoCo"


def register_package(env_id: str) -> None:
    """Import Gymnasium-Robotics for an id of it, so that Gymnasium knows the id.

    Raises:
        BadEnvironment: it is not installed, or lacks a package of its own.
    """
    name = env_id.rpartition(":")[2]
    if not re.match(_ROBOTICS_IDS, name):
        return
    if importlib.util.find_spec(_ROBOTICS) is None:
        raise BadEnvironment(
            f"{name} belongs to the package {_ROBOTICS}, which is not installed.",
            hint="Install it with: pip install 'telic[robotics]'",
        )
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")  # remarks on versions
        try:
            module = importlib.import_module(_ROBOTICS)
        except ModuleNotFoundError as error:  # unpacked without what it needs: glfw, pettingzoo
            raise BadEnvironment(
                f"{name} belongs to the package {_ROBOTICS}, which needs {error.name}, "
                "and that is not installed.",
                hint=f"Install it with: pip install {error.name}",
            ) from error
    gymnasium.register_envs(module)
    _compare_numbers(f"{_ROBOTICS}.utils.mujoco_utils")


def _compare_numbers(name: str) -> None:
    """Let a module compare a model's numbers with MuJoCo's names for them.

    Gymnasium-Robotics 1.4.2 writes `model.jnt_type[i] == mjtJoint.mjJNT_FREE`, which has never been
    true since MuJoCo 4.0.
    """
    module: Any = importlib.import_module(name)
    if isinstance(getattr(module, "mujoco", None), ModuleType):
        module.mujoco = _PlainNumbers()


class _PlainNumbers:
    """MuJoCo, with plain numbers for its enumerations."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(mujoco, name)
        if not name.startswith("mjt"):
            return found
        members = {key: int(getattr(found, key)) for key in dir(found) if key.startswith("mj")}
        numbers = SimpleNamespace(**members)
        setattr(self, name, numbers)
        return numbers
