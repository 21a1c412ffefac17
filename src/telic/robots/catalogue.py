"""The robots that are known by name, and the packages that hold their files.

The files lie in packages of the public index. They are downloaded without being installed, compared
with a hash on record, and unpacked into the user's cache. Changed files are fetched again.
"""

from __future__ import annotations

import functools
import hashlib
import tempfile
import tomllib
from pathlib import Path, PurePosixPath
from typing import Any, Literal, NamedTuple

from telic.errors import BadFile, UnknownName
from telic.sim.files import cache_folder
from telic.storage.files import make_folder
from telic.storage.reading import file_hash, files_below

RobotKind = Literal["biped", "humanoid", "quadruped", "hexapod", "arm", "hand", "other"]


class RobotPackage(NamedTuple):
    """A package that holds robots: a wheel, or a source archive (.tar.gz)."""

    name: str
    version: str
    sha256: str
    file: str
    licence_files: tuple[str, ...] = ()
    """paths of its licence texts"""


class RobotNumbers(NamedTuple):
    """Numbers for the list of robots, known before the model is fetched."""

    mass_kg: float
    joints: int
    actuators: int
    height_m: float | None = None
    """of its base when it stands; None: it is fixed to the ground"""


class NamedRobot(NamedTuple):
    """A robot that is known by name."""

    name: str
    title: str
    kind: RobotKind
    package: RobotPackage
    model: str
    """path of its model in the package"""
    licence: str
    numbers: RobotNumbers
    says: dict[str, Any]
    """what the model leaves out, as in `RobotRecord`"""
    files: tuple[str, ...] = ()
    """files and folders of the package that it is made of; none: the folder of its model"""
    content: str | None = None
    """hash of all of them, with their names; None: it is not on record"""

    @property
    def parts(self) -> tuple[str, ...]:
        """Files and folders taken out of the package."""
        own = self.files or (str(PurePosixPath(self.model).parent),)
        return (*own, *self.package.licence_files)


@functools.cache
def _table() -> dict[str, NamedRobot]:
    with (Path(__file__).parent / "robots.toml").open("rb") as file:
        table = tomllib.load(file)
    packages = {
        name: RobotPackage(name, licence_files=tuple(each.pop("licence_files", ())), **each)
        for name, each in table["packages"].items()
    }
    own = ("title", "kind", "model", "licence", "content")
    return {
        name: NamedRobot(
            name=name,
            package=packages[each.pop("package")],
            numbers=RobotNumbers(**each.pop("numbers")),
            files=tuple(each.pop("files", ())),
            **{key: each.pop(key) for key in own},
            says=each,  # the rest
        )
        for name, each in table["robots"].items()
    }


def robot_names() -> tuple[str, ...]:
    """Return the names of all robots."""
    return tuple(_table())


def named_robot(name: str) -> NamedRobot:
    """Return a robot by its name."""
    if name not in _table():
        raise UnknownName("robot", name, list(_table()), see="telic robots")
    return _table()[name]


def _home(robot: NamedRobot) -> Path:
    """Return the folder of a package's robots; the hash in it lets versions stand side by side."""
    package = robot.package
    return cache_folder() / "robots" / f"{package.name}-{package.version}-{package.sha256[:12]}"


def fetched_model(robot: NamedRobot) -> Path:
    """Return the path of a robot's model once it is fetched."""
    return _home(robot) / robot.model


def is_fetched(robot: NamedRobot) -> bool:
    """Return whether the files of a robot are in the cache."""
    return fetched_model(robot).is_file()


_known: set[tuple[str, str]] = set()
"""robots whose files this process has compared with their hash"""


def fetch(robot: NamedRobot) -> Path:
    """Return the model of a robot, downloaded on first use, and again if it was changed.

    Raises:
        ResourceError: the package cannot be downloaded.
        BadFile: what was downloaded is not what is on record.
    """
    home = _home(robot)
    key = (robot.name, str(home))
    is_there = (home / robot.model).is_file()
    if is_there and (key in _known or robot.content in (None, content_of(robot, home))):
        _known.add(key)
        return home / robot.model
    from telic.robots._archive import download, unpack  # needed once, and slow to import

    make_folder(home.parent)
    with tempfile.TemporaryDirectory(dir=home.parent, prefix=".fetching-") as place:
        archive = download(robot.package, Path(place))
        unpacked = Path(place) / "unpacked"
        unpack(archive, unpacked, robot.parts)
        if robot.content not in (None, content_of(robot, unpacked)):
            raise BadFile(f"The files of {robot.name} are not those on record.")
        # The model comes last: if it exists, so does the rest. Another process may fetch the same.
        for part in sorted(robot.parts, key=lambda part: robot.model.startswith(part)):
            make_folder((home / part).parent)
            if (home / part).is_dir():
                (home / part).replace(Path(place) / f"before-{robot.parts.index(part)}")
            (unpacked / part).replace(home / part)
    _known.add(key)
    return home / robot.model


def content_of(robot: NamedRobot, home: Path) -> str:
    """Return the hash of a robot's files and their names, independent of other files there."""
    total = hashlib.sha256()
    for part in sorted(robot.parts):
        files = files_below(home / part) if (home / part).is_dir() else [home / part]
        for file in files:
            digest = file_hash(file) if file.is_file() else "missing"
            total.update(f"{file.relative_to(home).as_posix()}\0{digest}\n".encode())
    return total.hexdigest()[:16]


def licence_texts(robot: NamedRobot) -> list[Path]:
    """Return the licence texts of a fetched robot."""
    files = [_home(robot) / name for name in robot.package.licence_files]
    return [file for file in files if file.is_file()]
