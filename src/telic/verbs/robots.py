"""Robots by name: list them, fetch their files, see them, describe one's own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from telic.core.request import VerbRequest, argument, option
from telic.core.verb import Wrapped, verb
from telic.errors import UsageError

_EXAMPLES = """
telic robots                                              what there is

telic robots show spot                                    what is known of one, and its picture

telic run "walk forward at 0.8 m/s" --env unitree-go1     fetched at the first need

telic robots describe my.xml > my.toml                    pose and drives of your own, to edit

telic run "stand still" --env my.toml
"""


class RobotsRequest(VerbRequest):
    """All robots."""


class RobotLine(NamedTuple):
    """What a list of robots says of one."""

    robot: str
    title: str
    kind: str
    licence: str
    package: str
    model: str | None
    """its file; None: not fetched yet"""
    mass_kg: float
    joints: int
    actuators: int
    height_m: float | None
    """of its base when it stands; None: it is fixed to the ground"""


@dataclass(frozen=True)
class RobotList(Wrapped):
    """Robots that are known by name."""

    robots: list[RobotLine]


@verb(RobotsRequest, examples=_EXAMPLES)
def robots(request: RobotsRequest) -> RobotList:
    """List robots that can be named as an environment: kind, mass, joints, licence, origin."""
    from telic.robots.catalogue import robot_names

    return RobotList([_line(name) for name in robot_names()])


def _line(name: str) -> RobotLine:
    from telic.robots.catalogue import is_fetched, model_file, named_robot

    robot = named_robot(name)
    origin = f"{robot.package.name} {robot.package.version}"
    model = str(model_file(robot)) if is_fetched(robot) else None
    return RobotLine(name, robot.title, robot.kind, robot.licence, origin, model, *robot.numbers)


class RobotRequest(VerbRequest):
    """One robot."""

    robot: str = argument("Its name: see telic robots.")


@verb(RobotRequest, examples=_EXAMPLES)
def fetch(request: RobotRequest) -> RobotLine:
    """Download the files of a robot into the cache, without installing the package they are in."""
    from telic.robots.catalogue import fetch as fetch_files
    from telic.robots.catalogue import named_robot

    fetch_files(named_robot(request.robot))
    return _line(request.robot)


class ShowRobotRequest(VerbRequest):
    """A robot to look at."""

    robot: str = argument("A robot's name, an MJCF or URDF file, or a description (.toml).")
    output: str | None = option(
        "Write the picture here; by default into the cache.", "--output", "-o", default=None
    )


class RobotPage(NamedTuple):
    """What is known of a robot, with its picture."""

    robot: str
    picture: str
    """PNG file"""
    simulated: str
    """the model that is simulated: the robot's own with drives, floor and pose"""
    facts: dict[str, object]
    licence: str | None
    licence_files: list[str]


@verb(ShowRobotRequest, examples=_EXAMPLES)
def show(request: ShowRobotRequest) -> RobotPage:
    """Draw a robot in the pose it starts in, and tell what is known of it."""
    from telic.envs.robot_facts import known_facts
    from telic.rendering.portrait import draw_portraits
    from telic.robots.catalogue import licence_texts, named_robot, robot_names

    path = _simulated(request.robot)
    picture = Path(request.output).expanduser() if request.output else path.with_suffix(".png")
    if picture.suffix != ".png":
        raise UsageError(f"{picture} is no name of a PNG.", hint="It ends in .png.")
    draw_portraits([path], [picture])
    robot = named_robot(request.robot) if request.robot in robot_names() else None
    facts = known_facts(path).model_dump()
    return RobotPage(
        robot=request.robot,
        picture=str(picture),
        simulated=str(path),
        facts={**facts, "kind": robot.kind} if robot else facts,
        licence=robot.licence if robot else None,
        licence_files=[str(file) for file in licence_texts(robot)] if robot else [],
    )


def _simulated(name: str) -> Path:
    """Return the model that is simulated for a name, a description, or a model as it is found."""
    from telic.robots import OWN, robot_path
    from telic.robots.build import build
    from telic.robots.catalogue import cache_folder
    from telic.robots.record import RobotRecord
    from telic.storage.files import write_text
    from telic.storage.reading import read_text

    if name in OWN:  # pictures and facts are kept beside a model, and not among the programs
        copy = cache_folder() / "robots" / "own" / OWN[name].name
        copy.parent.mkdir(parents=True, exist_ok=True)
        write_text(copy, read_text(OWN[name]))
        return copy
    if (path := robot_path(name)) is not None:
        return path
    model = _model_file(name)
    record = RobotRecord.parse({"model": str(model.absolute())})
    return build(record, cache_folder() / "robots" / "driven", model.stem)


def _model_file(name: str) -> Path:
    path = Path(name).expanduser()
    if not path.is_file():
        raise UsageError(
            f"{name} is neither a file nor the name of a robot.", hint="See: telic robots"
        )
    return path


class SheetRequest(VerbRequest):
    """Robots on one picture."""

    output: str = option("Write the picture here.", "--output", "-o", default="robots.png")
    every: bool = option("Fetch those that are not there yet.", "--all", default=False)


class RobotSheet(NamedTuple):
    """Robots on one picture."""

    picture: str
    robots: list[str]


@verb(SheetRequest, examples=_EXAMPLES)
def sheet(request: SheetRequest) -> RobotSheet:
    """Draw all robots whose files are there onto one picture."""
    from telic.rendering.portrait import draw_portraits, draw_sheet
    from telic.robots.catalogue import is_fetched, named_robot, robot_names

    output = Path(request.output).expanduser()
    if output.suffix != ".png":
        raise UsageError(f"{output} is no name of a PNG.", hint="It ends in .png.")
    names = [name for name in robot_names() if request.every or is_fetched(named_robot(name))]
    if not names:
        raise UsageError(
            "No robot is fetched yet.", hint="Fetch all of them: telic robots sheet --all"
        )
    paths = [_simulated(name) for name in names]
    pictures = [path.with_suffix(".png") for path in paths]
    draw_portraits(paths, pictures)
    draw_sheet(dict(zip(names, pictures, strict=True)), output)
    return RobotSheet(str(output), names)


class DescribeRequest(VerbRequest):
    """A model, or a robot by name."""

    robot: str = argument("An MJCF or URDF file, or a robot's name.")


class RobotText(NamedTuple):
    """A robot as a file to edit."""

    toml: str


@verb(DescribeRequest, examples=_EXAMPLES)
def describe(request: DescribeRequest) -> RobotText:
    """Print all that is known of a robot, guessed where its model does not say, as a TOML file."""
    from telic.envs.robot_facts import known_facts
    from telic.robots import OWN
    from telic.robots.build import named_record
    from telic.robots.catalogue import robot_names
    from telic.robots.described import as_toml
    from telic.robots.record import RobotRecord, guessed

    if request.robot in robot_names():
        record = named_record(request.robot)
    elif request.robot.endswith(".toml"):
        record = RobotRecord.read(_model_file(request.robot))
    else:
        model = _model_file(str(OWN.get(request.robot, request.robot)))
        record = RobotRecord.parse({"model": str(model.absolute())})
    record = guessed(Path(record.model), record.model_dump(exclude={"model"}))
    facts = known_facts(_simulated(request.robot))
    return RobotText(as_toml(record, facts.model_dump()))
