"""Files out of packages of the public index, without installing or running anything of them.

An archive is compared with the hash on record before it is opened. Of its members only those asked
for are written, and each must be a plain file that stays within the folder it is unpacked into.
"""

from __future__ import annotations

import os
import shutil
import ssl
import stat
import subprocess
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple
from urllib.request import urlopen

from telic.errors import BadFile, ResourceError, TelicError
from telic.robots.catalogue import RobotPackage
from telic.storage.files import make_folder
from telic.storage.reading import file_hash

_DOWNLOAD_S = 600.0
_ANSWER_S = 60.0
_SOURCES = "https://files.pythonhosted.org/packages/source"
_BLOCK = 1 << 20
_MOST_BYTES = 1 << 30
"""of one archive, and of what is unpacked from it"""
_MOST_FILES = 10_000
_UNREADABLE = (OSError, EOFError, ValueError, zlib.error, zipfile.BadZipFile, tarfile.TarError)


def download(package: RobotPackage, place: Path) -> Path:
    """Return the archive of a package, downloaded into a folder.

    Raises:
        ResourceError: it cannot be downloaded.
        BadFile: what was downloaded is not what is on record.
    """
    wanted = f"{package.name}=={package.version}"
    try:
        if package.file.endswith(".whl"):
            _download_wheel(package, place)
        else:
            _download_source(package, place)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise ResourceError(
            f"{wanted} could not be downloaded: {error}",
            hint=f"Or download {package.file} elsewhere, and name the folder it is in: "
            "PIP_FIND_LINKS=FOLDER telic robots NAME.",
        ) from error
    archive = place / package.file
    if (digest := file_hash(archive)) != package.sha256:
        raise BadFile(
            f"{package.file} is not the file on record: its SHA-256 is {digest}, not "
            f"{package.sha256}. Nothing of it was used."
        )
    return archive


def _download_wheel(package: RobotPackage, place: Path) -> None:
    """Let pip download a wheel: it knows the user's index, and a wheel has nothing to run."""
    wanted = f"{package.name}=={package.version}"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet"]
    done = subprocess.run(
        [*pip, "--no-deps", "--only-binary=:all:", "-d", str(place), wanted],
        capture_output=True,
        text=True,
        timeout=_DOWNLOAD_S,
        check=False,
    )
    if done.returncode or not (place / package.file).is_file():
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise OSError(lines[-1] if lines else "the index has no such file")


def _download_source(package: RobotPackage, place: Path) -> None:
    """Fetch a source archive ourselves, for pip would run its setup."""
    for folder in os.environ.get("PIP_FIND_LINKS", "").split():
        file = Path(folder.removeprefix("file://")) / package.file
        if file.is_file():
            shutil.copyfile(file, place / package.file)
            return
    if os.environ.get("PIP_NO_INDEX"):
        raise OSError("PIP_NO_INDEX forbids to ask an index")
    address = f"{_SOURCES}/{package.name[0]}/{package.name}/{package.file}"
    context = ssl.create_default_context(cafile=os.environ.get("PIP_CERT"))
    with (
        urlopen(address, timeout=_ANSWER_S, context=context) as answer,
        (place / package.file).open("wb") as file,
    ):
        _copy(answer, file, _MOST_BYTES)


def _copy(source: IO[bytes], target: IO[bytes], most: int) -> int:
    """Copy all of a file; return its bytes. More than `most` is an error."""
    copied = 0
    while block := source.read(min(_BLOCK, most - copied + 1)):
        copied += len(block)
        if copied > most:
            raise OSError(f"it is larger than {most} bytes")
        target.write(block)
    return copied


# ---- taking files out


def unpack(archive: Path, target: Path, wanted: Sequence[str]) -> list[str]:
    """Write the wanted files and folders of an archive into a folder; return the files' names.

    Raises BadFile for a wanted member that is no plain file or leads out of the folder, for an
    archive that cannot be read, and for more than is sensible.
    """
    written: list[str] = []
    left = _MOST_BYTES
    try:
        for member in _members(archive):
            if not any(_is_within(member.name, each) for each in wanted):
                continue
            _check_member(member, archive)
            file = target / member.name
            make_folder(file.parent)
            content = member.opened()
            assert content is not None  # a plain file has content
            with content as source, file.open("wb") as out:
                left -= _copy(source, out, left)
            written.append(member.name)
            if len(written) > _MOST_FILES:
                raise BadFile(f"{archive.name} holds more than {_MOST_FILES} files of the robot.")
    except TelicError:
        raise
    except _UNREADABLE as error:
        raise BadFile(f"{archive.name} cannot be unpacked: {error}") from error
    missing = [each for each in wanted if not any(_is_within(name, each) for name in written)]
    if missing:
        raise BadFile(f"{archive.name} has no {', '.join(missing)}.")
    return written


def _is_within(name: str, wanted: str) -> bool:
    return name == wanted or name.startswith(f"{wanted}/")


class _Member(NamedTuple):
    """A file in an archive, of either kind."""

    name: str
    is_plain: bool
    opened: Callable[[], IO[bytes] | None]


def _members(archive: Path) -> Iterator[_Member]:
    """Yield what an archive holds, in its order, without folders."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as wheel:
            for each in wheel.infolist():
                if not each.is_dir():
                    is_plain = stat.S_IFMT(each.external_attr >> 16) in (0, stat.S_IFREG)
                    yield _Member(each.filename, is_plain, partial(wheel.open, each))
        return
    with tarfile.open(archive, "r:gz") as source:
        for each in source:
            if not each.isdir():
                yield _Member(each.name, each.isreg(), partial(source.extractfile, each))


def _check_member(member: _Member, archive: Path) -> None:
    path = PurePosixPath(member.name)
    leads_out = path.is_absolute() or ".." in path.parts or set(member.name) & set("\\:\0")
    if leads_out or not member.is_plain:
        what = "leads out of its folder" if leads_out else "is a link, not a file"
        raise BadFile(f"{archive.name} is not to be trusted: {member.name!r} {what}.")
