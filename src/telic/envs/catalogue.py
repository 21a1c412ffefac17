"""List, find and describe environments for users and language models."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

import gymnasium
from pydantic import Field

from telic.core.config import Record
from telic.core.plugins import plugin_names
from telic.envs.factory import make
from telic.envs.spec import EnvSpec
from telic.envs.tasks import RULES, TASKS

_EXTRAS = {
    "gymnasium.envs.box2d": ("Box2D", "pip install 'gymnasium[box2d]'"),
    "gymnasium.envs.phys2d": ("jax", "pip install 'gymnasium[jax]'"),
    "gymnasium.envs.tabular": ("jax", "pip install 'gymnasium[jax]'"),
}


class Classic(NamedTuple):
    """Description and column names of a classic control task."""

    description: str
    obs_names: tuple[str, ...]
    choices: tuple[str, ...] = ()


_WALKER = Classic(
    "A walker with two legs and a lidar; the default task is to walk forward without falling.",
    (
        *("hull_angle", "hull_angular_velocity", "x_velocity", "y_velocity"),
        *(
            f"{joint}_{leg}_{value}"
            for leg in (1, 2)
            for joint, value in (
                *(("hip", "angle"), ("hip", "speed"), ("knee", "angle"), ("knee", "speed")),
                ("leg", "contact"),
            )
        ),
        *(f"lidar_{number}" for number in range(10)),
    ),
)

CLASSIC = {
    "CartPole": Classic(
        "A pole on a cart; the default task is to keep the pole upright by pushing the cart.",
        ("cart_position", "cart_velocity", "pole_angle", "pole_angular_velocity"),
        ("push left", "push right"),
    ),
    "Pendulum": Classic(
        "A pendulum with a weak motor; the default task is to swing it up and keep it upright.",
        ("cos_angle", "sin_angle", "angular_velocity"),
    ),
    "Acrobot": Classic(
        "Two links hanging from a pivot; the default task is to swing the tip above a line.",
        ("cos_angle_1", "sin_angle_1", "cos_angle_2", "sin_angle_2", "velocity_1", "velocity_2"),
        ("torque -1", "torque 0", "torque +1"),
    ),
    "MountainCar": Classic(
        "A car in a valley, too weak to climb; the default task is to reach the flag on the hill.",
        ("position", "velocity"),
        ("push left", "coast", "push right"),
    ),
    "MountainCarContinuous": Classic(
        "A car in a valley, too weak to climb; the default task is to reach the flag on the hill.",
        ("position", "velocity"),
    ),
    "LunarLander": Classic(
        "A lander with three engines; the default task is to come to rest on the pad at (0, 0).",
        (
            *("x_position", "y_position", "x_velocity", "y_velocity", "angle", "angular_velocity"),
            *("left_leg_contact", "right_leg_contact"),
        ),
        ("no engine", "left engine", "main engine", "right engine"),
    ),
    **dict.fromkeys(("BipedalWalker", "BipedalWalkerHardcore"), _WALKER),
}

_SHOWN = ("id", "description", "max_episode_steps", "obs_dim", "act_dim", "dt_s")


class EnvSummary(Record):
    """Summary of an environment in the catalogue."""

    id: str
    description: str
    fast: bool = Field(description="whether telic simulates it in batches")
    max_episode_steps: int | None = Field(description="time limit in steps, or None if unlimited")
    obs_dim: int | None = Field(
        default=None, description="observation size, or None if not inspected yet"
    )
    act_dim: int | None = Field(default=None, description="action size, or None if not inspected")
    dt_s: float | None = Field(default=None, description="simulated seconds per step")
    install: str | None = Field(
        default=None, description="command to install missing packages, or None"
    )


def _registered() -> tuple[str, ...]:
    """Return the usable Gymnasium ids, without the gym bridges and the mujoco-py tasks."""
    return tuple(
        name
        for name, entry in sorted(gymnasium.registry.items())
        if name not in TASKS
        and not name.startswith("GymV")
        and "mujoco_py" not in getattr(entry.entry_point, "__name__", "")
    )


def known_ids() -> list[str]:
    """Return the ids of all environments: batched tasks, other Gymnasium ids, and plugins."""
    return [*TASKS, *_registered(), *_from_plugins()]


def catalogue() -> list[EnvSummary]:
    """Return a summary of each environment. Only the batched tasks are instantiated."""
    lines: list[EnvSummary] = []
    for spec in map(describe, TASKS):
        shown = {name: getattr(spec, name) for name in EnvSummary.model_fields if name in _SHOWN}
        lines.append(EnvSummary(fast=True, **shown))
    for name in _registered():
        entry = gymnasium.registry[name]
        classic = CLASSIC.get(name.rpartition("-v")[0])
        place = str(entry.entry_point)
        extra = next((_EXTRAS[module] for module in _EXTRAS if place.startswith(module)), None)
        is_missing = extra is not None and importlib.util.find_spec(extra[0]) is None
        family = place.partition(":")[0].removeprefix("gymnasium.envs.").partition(".")[0]
        line = EnvSummary(
            id=name,
            description=classic.description if classic else f"Gymnasium's {name} ({family}).",
            fast=False,
            max_episode_steps=entry.max_episode_steps,
            install=extra[1] if extra is not None and is_missing else None,
        )
        lines.append(line)
    about = "Provided by an installed package."
    for name in _from_plugins():
        line = EnvSummary(id=name, description=about, fast=True, max_episode_steps=None)
        lines.append(line)
    return lines


def _from_plugins() -> list[str]:
    """Return the environment ids provided by plugins."""
    return plugin_names("environments", {*TASKS, *gymnasium.registry})


def describe(env_id: str) -> EnvSpec:
    """Return the specification of an environment by id, "module:Class" or model file."""
    # Do not cache files and classes, which may change between calls.
    return _describe(env_id) if env_id in known_ids() else _describe.__wrapped__(env_id)


@lru_cache(maxsize=128)
def _describe(env_id: str) -> EnvSpec:
    env = make(env_id, num_envs=1)
    env.close()
    return env.spec


def describe_text(env: str | EnvSpec) -> str:
    """Return a Markdown description of an environment, with all values that rewards may use."""
    spec = describe(env) if isinstance(env, str) else env
    step = "no clock" if spec.dt_s is None else f"{spec.dt_s:g} s"
    limit = spec.max_episode_steps
    length = "no time limit" if limit is None else f"at most {limit} steps"
    if limit is not None and spec.dt_s is not None:
        length += f" ({limit * spec.dt_s:g} s)"
    height = spec.robot.rest_height if spec.robot else None
    pose = "" if height is None else f" At rest the torso is {height:g} m high."
    facts = f"One step: {step}. One episode: {length}.{pose}"
    sections = [
        f"# {spec.id}\n\n{spec.description}\n\n{facts}",
        _table(f"Observation ({spec.obs_dim})", ("index", "name", "unit"), _observations(spec)),
    ]
    if spec.num_actions is not None:
        last = spec.num_actions - 1
        sections.append(f"## Action\n\nDiscrete, 0 to {last}.")
    else:
        limits = zip(spec.action_names, spec.action_low, spec.action_high, strict=True)
        rows = [(k, name, f"{low:g}", f"{high:g}") for k, (name, low, high) in enumerate(limits)]
        head = ("index", "name", "lowest", "highest")
        sections.append(_table(f"Action ({spec.act_dim})", head, rows))
    if rules := RULES.get(spec.id):
        named = " ".join(rules)
        numbers = [f"{k}={v}" for k, v in spec.arguments.items() if k in named]
        where = f"\n\nHere {', '.join(numbers)}." if numbers else ""
        ends = f"Episodes end: {rules.ends}.{where}"
        sections.append(f"## Built-in reward\n\n{rules.reward}\n\n{ends}")
    sections.append(_table("info", ("name", "meaning"), spec.info_keys.items()))
    rest = spec.robot.rest_qpos if spec.robot else ()
    if spec.robot is not None:
        roles = {spec.torso: "torso"} | dict.fromkeys(spec.feet, "foot")
        bodies = enumerate(zip(spec.body_names, spec.robot.body_mass, strict=True))
        rows = [(k, name, f"{mass:.4g}", roles.get(name, "")) for k, (name, mass) in bodies]
        sections.append(_table("Bodies", ("index", "name", "mass, kg", "is"), rows))
    if spec.joints:
        rows = []
        for joint in spec.joints:
            limits = "free" if joint.low is None else f"{joint.low:.4g} .. {joint.high:.4g}"
            is_one = bool(rest) and joint.kind in ("hinge", "slide")
            at = f"{rest[joint.qpos_address]:.4g}" if is_one else ""
            rows.append((joint.name, joint.kind, limits, at, joint.qpos_address, joint.dof_address))
        head = ("name", "kind", "range", "at rest", "qpos", "qvel")
        sections.append(_table("Joints (radians, meters)", head, rows))
    if spec.notes:
        sections.append("\n".join(["## Notes", "", *(f"- {note}" for note in spec.notes)]))
    return "\n\n".join(sections) + "\n"


def _table(title: str, head: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> str:
    first, *rest = ["| " + " | ".join(map(str, row)) + " |" for row in (head, *rows)]
    return "\n".join([f"## {title}", "", first, "|" + "---|" * len(head), *rest])


def _observations(spec: EnvSpec) -> Iterator[tuple[str, str, str]]:
    """Yield one row per value, merging per-body blocks ("cinert/torso/…") into one row."""
    units = _units(spec)
    for block, group in groupby(enumerate(spec.obs_names), lambda pair: pair[1].partition("/")[0]):
        members = list(group)
        if len(members) > 1:
            (first, start), (last, end) = members[0], members[-1]
            yield f"{first}..{last}", f"{start} .. {end}", units.get(block, "")
        else:
            index, name = members[0]
            yield str(index), name, units.get(name, "")


_FREE_UNITS = {
    **dict.fromkeys(("_x", "_y", "_z"), "m"),
    **dict.fromkeys(("_qw", "_qx", "_qy", "_qz"), "quaternion"),
    **dict.fromkeys(("_vx", "_vy", "_vz"), "m/s"),
    **dict.fromkeys(("_wx", "_wy", "_wz"), "rad/s"),
}


def _units(spec: EnvSpec) -> dict[str, str]:
    units = {"cfrc_ext": "N m, N", "qfrc_actuator": "N m"}
    for joint in spec.joints:
        if joint.kind in ("free", "ball"):
            units |= {joint.name + part: unit for part, unit in _FREE_UNITS.items()}
        else:
            unit = "rad" if joint.kind == "hinge" else "m"
            units |= {joint.name: unit, f"{joint.name}_velocity": f"{unit}/s"}
    return units
