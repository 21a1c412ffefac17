"""List, show and describe environments and robots."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from telic.core.config import Record
from telic.core.request import VerbRequest, argument, option
from telic.core.verb import VerbResult, verb
from telic.envs.catalogue import EnvSummary, catalogue, describe
from telic.envs.robot_facts import robot_facts
from telic.envs.simulators.names import permit_env
from telic.envs.spec import EnvSpec
from telic.errors import UsageError
from telic.rendering import draw_portrait
from telic.robots import OWN, robot_path
from telic.robots.build import build_robot, complete, named_record
from telic.robots.catalogue import (
    cache_folder,
    fetched_model,
    is_fetched,
    license_texts,
    named_robot,
    robot_names,
)
from telic.robots.record import RobotRecord, as_toml
from telic.search.task import SearchTask
from telic.storage.files import write_text
from telic.storage.reading import read_text
from telic.training.plan import PRESETS, preset_for
from telic.verbs.search import search_methods, search_tasks

_Presets = dict[str, dict[str, Any]]
_ENV_COLUMNS = ("id", "obs_dim", "act_dim", "max_episode_steps", "description")
_ENVS_HINT = (
    "Describe one: telic envs Ant-v5. Gymnasium ids (--all), module:Class and robot.xml work too"
)


class EnvsRequest(VerbRequest):
    """Request for all environments, for one environment, or for the tasks of `telic search`."""

    env: str | None = argument(
        "Environment to describe: an id, module:Class or an MJCF path.", default=None
    )
    every: bool = option("Also list other Gymnasium ids.", "--all", default=False)
    search: bool = option("List the tasks of telic search instead.", default=False)
    presets: bool = option(
        "Show the settings of training, or the methods of search.", default=False
    )


@verb(EnvsRequest)
def envs(
    request: EnvsRequest,
) -> VerbResult[list[EnvSummary]] | EnvSpec | VerbResult[list[SearchTask]] | VerbResult[_Presets]:
    """List environments, or show one with its observations, actions, info values and reward."""
    if request.presets and not request.search:
        every = sorted({env for by_env in PRESETS.values() for env in by_env})
        envs = [request.env] if request.env else every
        return VerbResult({name: {env: preset_for(name, env) for env in envs} for name in PRESETS})
    if request.search:
        return search_methods() if request.presets else search_tasks()
    if request.env is not None:
        permit_env(request.env)
        return describe(request.env)
    found = [env for env in catalogue() if request.every or env.fast]
    return VerbResult(found, _ENV_COLUMNS, _ENVS_HINT)


# ---- robots

_ROBOT_EXAMPLES = """
telic robots                                              all robots
telic robots spot                                         details and a picture of one robot
telic run "walk forward at 0.8 m/s" --env unitree-go1     files are downloaded on first use
telic robots my.xml --describe > my.toml                  description of your own robot, for editing
telic run "stand still" --env my.toml
"""


class _RobotsRequest(VerbRequest):
    """All robots, or one."""

    robot: str | None = argument(
        "Robot name, MJCF or URDF file, or description (.toml).", default=None
    )
    describe: bool = option("Print the robot's description in TOML, for editing.", default=False)
    output: str | None = option(
        "Image file. Default: in the cache.", "--output", "-o", default=None
    )


class RobotSummary(Record):
    """A robot in a list."""

    robot: str
    title: str
    kind: str
    license: str
    package: str
    model: str | None
    """path of its model file, or None if it is not downloaded"""
    mass_kg: float
    joints: int
    actuators: int
    height_m: float | None
    """height of the base when the robot stands, or None for a fixed base"""


_ROBOT_COLUMNS = ("robot", "title", "kind", "mass_kg", "joints", "actuators", "height_m", "license")
_ROBOT_HINT = (
    'Use one: telic run "walk forward" --env unitree-go1. Its files are downloaded on first '
    "use. Show one: telic robots spot"
)


def _robot_line(name: str) -> RobotSummary:
    robot = named_robot(name)
    mass_kg, joints, actuators, height_m = robot.numbers
    return RobotSummary(
        robot=name,
        title=robot.title,
        kind=robot.kind,
        license=robot.license,
        package=f"{robot.package.name} {robot.package.version}",
        model=str(fetched_model(robot)) if is_fetched(robot) else None,
        mass_kg=mass_kg,
        joints=joints,
        actuators=actuators,
        height_m=height_m,
    )


class RobotText(Record):
    """A robot description as an editable file."""

    toml: str


@verb(VerbRequest)
def list_robots(request: VerbRequest) -> VerbResult[list[RobotSummary]]:
    """List the robots that can be selected by name."""
    return VerbResult([_robot_line(name) for name in robot_names()], _ROBOT_COLUMNS, _ROBOT_HINT)


@verb(_RobotsRequest, examples=_ROBOT_EXAMPLES)
def robots(request: _RobotsRequest) -> VerbResult[list[RobotSummary]] | dict[str, Any] | RobotText:
    """List robots, show one with an image, or print its description."""
    if request.robot is None:
        return list_robots()
    if request.describe:
        return _describe(request.robot)

    name = request.robot
    path = _simulated(name)
    picture = Path(request.output).expanduser() if request.output else path.with_suffix(".png")
    if picture.suffix != ".png":
        raise UsageError(f"{picture} must end in .png.")
    draw_portrait(path, picture)
    robot = named_robot(name) if name in robot_names() else None
    known = robot_facts(path).model_dump()
    facts = {key: value for key, value in known.items() if value not in (None, (), {}, [])}
    return {
        "robot": name,
        "picture": str(picture),
        "simulated": str(path),
        "facts": {**facts, "kind": robot.kind} if robot else facts,
        "license": robot.license if robot else None,
        "license_files": [str(file) for file in license_texts(robot)] if robot else [],
    }


def _describe(name: str) -> RobotText:
    """Return a robot's description as TOML, with estimates for values that the model lacks."""
    if name in robot_names():
        record = named_record(name)
    elif name.endswith(".toml"):
        record = RobotRecord.read(_model_file(name))
    else:
        model = _model_file(str(OWN.get(name, name)))
        record = RobotRecord.parse({"model": str(model.absolute())})
    record, _ = complete(record)
    return RobotText(toml=as_toml(record, robot_facts(_simulated(name)).model_dump()))


def _simulated(name: str) -> Path:
    """Return the simulated model for a robot name, a description file, or a model file."""
    if name in OWN:  # a copy, because pictures and facts are stored next to the model
        copy = cache_folder() / "robots" / "own" / OWN[name].name
        copy.parent.mkdir(parents=True, exist_ok=True)
        write_text(copy, read_text(OWN[name]))
        return copy
    if (path := robot_path(name)) is not None:
        return path
    model = _model_file(name)
    record = RobotRecord.parse({"model": str(model.absolute())})
    return build_robot(record, cache_folder() / "robots" / "driven", model.stem)


def _model_file(name: str) -> Path:
    path = Path(name).expanduser()
    if not path.is_file():
        raise UsageError(
            f"{name} is neither a file nor the name of a robot.", hint="See: telic robots"
        )
    return path
