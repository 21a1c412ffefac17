"""Robots by name: list them, fetch their files, describe one's own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from telic.core.request import VerbRequest, argument
from telic.core.verb import Wrapped, verb
from telic.errors import UsageError

_EXAMPLES = """
telic robots                                              what there is

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
    mass_kg: float | None = None
    joints: int | None = None


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
    from telic.robots.catalogue import fetch, is_fetched, named_robot

    robot = named_robot(name)
    origin = f"{robot.package.name} {robot.package.version}"
    line = RobotLine(name, robot.title, robot.kind, robot.licence, origin, None)
    if not is_fetched(robot):
        return line
    from telic.robots.record import RobotRecord, moving_joints

    model = RobotRecord(model=str(fetch(robot))).spec().compile()
    return line._replace(
        model=str(fetch(robot)),
        mass_kg=round(float(model.body_mass.sum()), 2),
        joints=len(moving_joints(model)),
    )


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


class DescribeRequest(VerbRequest):
    """A model, or a robot by name."""

    robot: str = argument("An MJCF or URDF file, or a robot's name.")


class RobotText(NamedTuple):
    """A robot as a file to edit."""

    toml: str


@verb(DescribeRequest, examples=_EXAMPLES)
def describe(request: DescribeRequest) -> RobotText:
    """Print pose and drives of a robot, guessed where its model does not say, as a TOML file."""
    from telic.robots.catalogue import fetch, named_robot, robot_names
    from telic.robots.described import as_toml
    from telic.robots.record import guessed

    path = Path(request.robot).expanduser()
    if request.robot in robot_names():
        robot = named_robot(request.robot)
        return RobotText(as_toml(guessed(fetch(robot), robot.says)))
    if not path.is_file():
        raise UsageError(
            f"{request.robot} is neither a file nor the name of a robot.", hint="See: telic robots"
        )
    return RobotText(as_toml(guessed(path)))
