"""List, find and describe environments, for people and for language models."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import groupby

import gymnasium
from pydantic import Field

from telic.core.config import Record
from telic.core.plugins import plugin_names
from telic.envs.make import make
from telic.envs.spaces import CLASSIC
from telic.envs.spec import EnvSpec
from telic.envs.tasks import RULES, TASKS

_EXTRAS = {
    "gymnasium.envs.box2d": ("Box2D", "pip install 'gymnasium[box2d]'"),
    "gymnasium.envs.phys2d": ("jax", "pip install 'gymnasium[jax]'"),
    "gymnasium.envs.tabular": ("jax", "pip install 'gymnasium[jax]'"),
}


class EnvSummary(Record):
    """One line of the list of environments."""

    id: str
    description: str
    fast: bool = Field(description="simulated in batches; else one Python object each")
    max_episode_steps: int | None = Field(description="time limit; None: unlimited")
    obs_dim: int | None = Field(
        default=None, description="values observed; None: not looked at yet"
    )
    act_dim: int | None = Field(
        default=None, description="values of an action; None: not looked at yet"
    )
    dt_s: float | None = Field(default=None, description="simulated seconds per step")
    install: str | None = Field(
        default=None, description="what to install first; None: nothing is missing"
    )


def _registered() -> tuple[str, ...]:
    """Return the Gymnasium ids that can work: not the gym bridges, nor the tasks of mujoco-py."""
    return tuple(
        name
        for name, entry in sorted(gymnasium.registry.items())
        if name not in TASKS
        and not name.startswith("GymV")
        and "mujoco_py" not in getattr(entry.entry_point, "__name__", "")
    )


def known_ids() -> list[str]:
    """Return every environment id: the batched tasks, the rest of Gymnasium, those of packages."""
    return [*TASKS, *_registered(), *_brought()]


def catalogue() -> list[EnvSummary]:
    """Return one line per environment; looks inside only those that are cheap to build."""
    about = "Brought by an installed package."
    return [
        *(_summary_of_task(describe(name)) for name in TASKS),
        *(_summary(name) for name in _registered()),
        *(
            EnvSummary(id=name, description=about, fast=True, max_episode_steps=None)
            for name in _brought()
        ),
    ]


def _brought() -> list[str]:
    """Return the ids that other packages bring."""
    return plugin_names("environments", {*TASKS, *gymnasium.registry})


def _summary_of_task(spec: EnvSpec) -> EnvSummary:
    return EnvSummary(
        id=spec.id,
        description=spec.description,
        fast=True,
        max_episode_steps=spec.max_episode_steps,
        obs_dim=spec.obs_dim,
        act_dim=spec.act_dim,
        dt_s=spec.dt_s,
    )


def _summary(name: str) -> EnvSummary:
    entry = gymnasium.registry[name]
    classic = CLASSIC.get(name.rpartition("-v")[0])
    place = str(entry.entry_point)
    extra = next((_EXTRAS[module] for module in _EXTRAS if place.startswith(module)), None)
    missing = extra is not None and importlib.util.find_spec(extra[0]) is None
    family = place.partition(":")[0].removeprefix("gymnasium.envs.").partition(".")[0]
    return EnvSummary(
        id=name,
        description=classic.description if classic else f"Gymnasium's {name} ({family}).",
        fast=False,
        max_episode_steps=entry.max_episode_steps,
        install=extra[1] if extra is not None and missing else None,
    )


def describe(env_id: str) -> EnvSpec:
    """Return what an environment is, by building one; raises UnknownName with the closest names.

    Args:
        env_id: an id, "module:Class", or the path of a model file.
    """
    return _describe_registered(env_id) if env_id in known_ids() else _build(env_id)


@lru_cache(maxsize=128)
def _describe_registered(env_id: str) -> EnvSpec:
    return _build(env_id)


def _build(env_id: str) -> EnvSpec:
    env = make(env_id, num_envs=1)
    env.close()
    return env.spec


def describe_text(env: str | EnvSpec) -> str:
    """Return the description of an environment as Markdown: everything a reward author may use.

    Args:
        env: as for `describe`, or what `describe` returned.
    """
    spec = describe(env) if isinstance(env, str) else env
    sections = [
        f"# {spec.id}\n\n{spec.description}\n\n{_facts(spec)}",
        _table(f"Observation ({spec.obs_dim})", ("index", "name", "unit"), _observations(spec)),
        _actions(spec),
        _rules(spec),
        _table("info", ("name", "meaning"), spec.info_keys.items()),
        _bodies(spec),
        _joints(spec),
        "\n".join(["## Notes", "", *(f"- {note}" for note in spec.notes)]) if spec.notes else "",
    ]
    return "\n\n".join(filter(None, sections)) + "\n"


def _facts(spec: EnvSpec) -> str:
    step = "no clock" if spec.dt_s is None else f"{spec.dt_s:g} s"
    limit = spec.max_episode_steps
    length = "no time limit" if limit is None else f"at most {limit} steps"
    if limit is not None and spec.dt_s is not None:
        length += f" ({limit * spec.dt_s:g} s)"
    rest = spec.robot.rest_height if spec.robot else None
    pose = "" if rest is None else f" At rest the torso is {rest:g} m high."
    return f"One step: {step}. One episode: {length}.{pose}"


def _table(title: str, head: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> str:
    lines = [f"## {title}", "", _row(head), "|" + "---|" * len(head)]
    return "\n".join(lines + [_row(row) for row in rows])


def _row(cells: Iterable[object]) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


def _observations(spec: EnvSpec) -> Iterator[tuple[str, str, str]]:
    """Yield one row per value; the blocks by body ("cinert/torso/…") become one row each."""
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


def _actions(spec: EnvSpec) -> str:
    if spec.num_actions is not None:
        return f"## Action\n\nOne of {spec.num_actions} choices, 0 to {spec.num_actions - 1}."
    rows = zip(spec.action_names, spec.action_low, spec.action_high, strict=True)
    numbered = ((k, name, f"{low:g}", f"{high:g}") for k, (name, low, high) in enumerate(rows))
    return _table(f"Action ({spec.act_dim})", ("index", "name", "lowest", "highest"), numbered)


def _rules(spec: EnvSpec) -> str:
    rules = RULES.get(spec.id)
    if rules is None:
        return ""
    named = " ".join(rules)
    numbers = [f"{k}={v}" for k, v in spec.arguments.items() if k in named]
    where = f"\n\nHere {', '.join(numbers)}." if numbers else ""
    return f"## Its own reward\n\n{rules.reward}\n\nEpisodes end: {rules.ends}.{where}"


def _bodies(spec: EnvSpec) -> str:
    if spec.robot is None:
        return ""
    roles = {spec.torso: "torso"} | dict.fromkeys(spec.feet, "foot")
    rows = zip(spec.body_names, spec.robot.body_mass, strict=True)
    return _table(
        "Bodies",
        ("index", "name", "mass, kg", "is"),
        ((k, name, f"{mass:.4g}", roles.get(name, "")) for k, (name, mass) in enumerate(rows)),
    )


def _joints(spec: EnvSpec) -> str:
    if not spec.joints:
        return ""
    rest = spec.robot.rest_qpos if spec.robot else ()
    rows: list[tuple[object, ...]] = []
    for joint in spec.joints:
        limits = "free" if joint.low is None else f"{joint.low:.4g} .. {joint.high:.4g}"
        at = f"{rest[joint.qpos_address]:.4g}" if rest and joint.kind in ("hinge", "slide") else ""
        rows.append((joint.name, joint.kind, limits, at, joint.qpos_address, joint.dof_address))
    head = ("name", "kind", "range", "at rest", "qpos", "qvel")
    return _table("Joints (radians, metres)", head, rows)
