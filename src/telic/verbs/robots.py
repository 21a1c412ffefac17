"""Robots by name or by file: list them, show one, describe one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from telic.core.config import Record
from telic.core.request import VerbRequest, argument, option
from telic.core.verb import Wrapped, verb
from telic.robots.catalogue import (
    is_fetched,
    model_file,
    named_robot,
    robot_names,
)

_EXAMPLES = """
telic robots                                              all robots

telic robots spot                                         facts and a picture of one

telic run "walk forward at 0.8 m/s" --env unitree-go1     files are downloaded on first use

telic robots my.xml --describe > my.toml                  pose and actuators of your own, to edit

telic run "stand still" --env my.toml
"""


class RobotsRequest(VerbRequest):
    """All robots, or one."""

    robot: str | None = argument(
        "A robot's name, an MJCF or URDF file, or a description (.toml).", default=None
    )
    describe: bool = option("Print its description as a TOML file to edit.", default=False)
    output: str | None = option(
        "File of the picture; default: in the cache.", "--output", "-o", default=None
    )


class RobotLine(Record):
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
    columns = ("robot", "title", "kind", "mass_kg", "joints", "actuators", "height_m", "licence")
    hint = (
        'Use one: telic run "walk forward" --env unitree-go1. Its files are downloaded on first '
        "use. Show one: telic robots spot"
    )


def _line(name: str) -> RobotLine:
    robot = named_robot(name)
    origin = f"{robot.package.name} {robot.package.version}"
    model = str(model_file(robot)) if is_fetched(robot) else None
    mass_kg, joints, actuators, height_m = robot.numbers
    return RobotLine(
        robot=name,
        title=robot.title,
        kind=robot.kind,
        licence=robot.licence,
        package=origin,
        model=model,
        mass_kg=mass_kg,
        joints=joints,
        actuators=actuators,
        height_m=height_m,
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


class RobotText(NamedTuple):
    """A robot as a file to edit."""

    toml: str


@verb(VerbRequest)
def list_robots(request: VerbRequest) -> RobotList:
    """List the robots that are known by name."""
    return RobotList([_line(name) for name in robot_names()])


@verb(RobotsRequest, examples=_EXAMPLES)
def robots(request: RobotsRequest) -> RobotList | RobotPage | RobotText:
    """List robots, show one with its picture, or print its description."""
    if request.robot is None:
        return list_robots()
    from telic.verbs import _robots

    if request.describe:
        return _robots.describe(request.robot)
    return _robots.show(request.robot, request.output)
