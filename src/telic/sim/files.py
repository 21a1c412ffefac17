"""Find the files that a model is made of, and try to compile it where that can do no harm.

A model is read file by file: the model, what it includes, the meshes, textures and height fields
that it names, wherever they lie. Their folders are not listed, for a model may lie in a home
folder.

A model may ask for any time and memory: replicated bodies, generated textures, meshes without end.
MuJoCo handles no signals while it compiles, so a model of unknown origin is compiled in a confined
process with limits first. One that compiled is known by the hash of its files.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import importlib.util
import os
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from telic.errors import BadEnvironment, BadFile, ResourceError, WorkerDied
from telic.sandbox.host import run_worker
from telic.sandbox.limits import GIBIBYTE, Limits
from telic.sandbox.wire import bounded_text
from telic.sandbox.worker import HostChannel
from telic.storage.files import write_text
from telic.storage.keys import checks_code
from telic.storage.reading import LARGEST_TEXT, check_file, file_hash

TOKENS = "telic_tokens"
"""the text of a model that names the file of the decoder by which it is moved"""
MODEL_FILES = (".xml", ".mjcf", ".urdf", ".mjb")
_READABLE_MODELS = (".xml", ".mjcf", ".urdf")
_FOLDERS = ("meshdir", "texturedir", "assetdir")
_MAX_DOCUMENTS, _MOST_BYTES = 1000, 4 * LARGEST_TEXT
"""XML files of one model; one that includes itself would never end"""
_LIMITS = Limits(memory_bytes=4 * GIBIBYTE, cpu_s=100, wall_s=120.0)
"""of a trial"""


class ModelDocument:
    """One XML file of a model, without what would fill the memory: only the files that it names."""

    def __init__(self, path: Path, home: Path) -> None:
        self.path, self.home = path, home
        """`home` is what its names are relative to: the folder of the model that includes it"""
        self.names: list[tuple[str, str]] = []
        """kind of element and file"""
        self.folders: list[Path] = []
        """where it says that assets lie"""
        check_file(path, LARGEST_TEXT)
        parser = ElementTree.XMLParser(target=self)
        with path.open("rb") as file:
            while block := file.read(1 << 16):
                parser.feed(block)
        parser.close()

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """Note an element; called by the parser."""
        for key, value in attributes.items():
            if tag == "compiler" and key in _FOLDERS:
                self.folders += [self.home / value, self.path.parent / value]
            name = value.removeprefix("file://").removeprefix("package://")
            is_file = key.startswith("file") or (key, attributes.get("name")) == ("data", TOKENS)
            # MuJoCo reads no file of a texture that it makes itself.
            if is_file and name and attributes.get("builtin", "none") == "none":
                self.names.append((tag, name))

    def close(self) -> None:
        """Finish; called by the parser."""


def model_files(model: Path) -> list[Path]:
    """Return the model and all files that it is made of, links followed."""
    model = model.expanduser().absolute()
    documents = model_documents(model)
    # An included file may name a mesh by the folder that another one sets.
    folders = [folder for each in documents for folder in each.folders]
    found = {model.resolve(), *(each.path.resolve() for each in documents)}
    for each in documents:
        places = [each.home, each.path.parent, *folders]
        for _, name in each.names:
            found.update(file.resolve() for file in _existing(name, places))
    return sorted(found)


def is_hidden(file: Path, home: Path) -> bool:
    """Return whether a file, or a folder on the way to it from another one, is hidden."""
    way = os.path.relpath(file.resolve(), home.resolve())
    return any(part.startswith(".") for part in Path(way).parts if part != "..")


def model_documents(model: Path) -> list[ModelDocument]:
    """Return the XML files of a model: itself, what it includes, the models that it attaches."""
    documents: dict[tuple[Path, Path], ModelDocument] = {}
    waiting = [(model, model.parent)]
    while waiting and len(documents) < _MAX_DOCUMENTS:
        path, home = waiting.pop()
        is_readable = path.suffix in _READABLE_MODELS and os.path.isfile(path)
        if (path, home) in documents or not is_readable:
            continue
        try:
            found = documents[path, home] = ModelDocument(path, home)
        except (OSError, ElementTree.ParseError):
            continue  # building the model reports the error
        if sum(each.path.stat().st_size for each in documents.values()) > _MOST_BYTES:
            raise BadFile(f"{model} includes more than {_MOST_BYTES / 1e6:,.0f} MB of XML.")
        for tag, name in found.names:
            # MuJoCo reads what a model includes relative to the model itself, older versions also
            # relative to the including file; what it attaches is a model of its own.
            if tag in ("include", "model"):
                files = list(_existing(name, (home, path.parent)))
                waiting += [(file, file.parent if tag == "model" else home) for file in files]
    return list(documents.values())


def _existing(name: str, places: Sequence[Path]) -> Iterator[Path]:
    """Yield the files of a name; of a URDF's mesh, perhaps only the last part counts."""
    for place in dict.fromkeys(places):
        for file in (place / name, place / Path(name).name):
            if os.path.isfile(file):
                if not is_hidden(file, place):  # a mesh is not one of them, also not by a link
                    yield file
            elif os.path.exists(file) and not os.path.isdir(file):
                check_file(file)  # a pipe or a device is refused in words


# ---- a trial


def cache_folder() -> Path:
    """Return the folder of robots: TELIC_CACHE_DIR, or the usual place."""
    if folder := os.environ.get("TELIC_CACHE_DIR"):
        return Path(folder)
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "telic"


@functools.cache
def assets_dir() -> Path:
    """Return the folder of the models of Gymnasium's tasks."""
    # Found without importing Gymnasium, which takes longer than drawing a short video.
    package = importlib.util.find_spec("gymnasium")
    if package is None or not package.submodule_search_locations:
        raise BadEnvironment("Gymnasium, which brings the models, is not installed.")
    return Path(package.submodule_search_locations[0]) / "envs" / "mujoco" / "assets"


def require_compilable(model: Path) -> None:
    """Compile a model of unknown origin in a confined process, unless that was done before.

    Models of Gymnasium, of telic and of the catalogue are known. Raises BadFile for one that names
    a pipe or a device, BadEnvironment for one that MuJoCo refuses or that exceeds the limits.
    """
    files = model_files(model) if checks_code() else []  # the host of a confined process has tried
    if are_known(files) or (known := _mark(files)).exists():
        return
    with in_limits(model), tempfile.TemporaryDirectory() as folder:
        order = {"model": str(model.expanduser().absolute())}
        done = run_worker(__name__, order, **trial_options(Path(folder), files))
    if "error" in done:
        hint = "A compiled model fits one version of MuJoCo only; give the XML file."
        raise BadEnvironment(
            f'MuJoCo cannot read "{model}": {bounded_text(done["error"])}',
            hint=hint if model.suffix == ".mjb" else None,
        )
    write_text(known, f"{model}\n")


def are_known(files: Sequence[Path]) -> bool:
    """Return whether files are Gymnasium's, telic's or the catalogue's, or need no trial here."""
    ours = Path(__file__).resolve().parents[1], (cache_folder() / "robots").resolve(), assets_dir()
    is_ours = (any(file.is_relative_to(place) for place in ours) for file in files)
    return not checks_code() or all(is_ours)


def note_compiled(model: Path) -> None:
    """Remember that a model was compiled in a confined process."""
    write_text(_mark(model_files(model)), f"{model}\n")


def _mark(files: Sequence[Path]) -> Path:
    total = hashlib.sha256(importlib.metadata.version("mujoco").encode())
    for file in files:
        total.update(f"{file}\0{file_hash(file)}\n".encode())
    return cache_folder() / "models" / total.hexdigest()[:32]


def trial_options(folder: Path, files: Sequence[Path]) -> dict[str, Any]:
    """Return the resources of a process that compiles a model; walls are not needed for data."""
    return {"writable": [folder], "readable": files, "limits": _LIMITS, "needs_walls": False}


@contextmanager
def in_limits(model: Path) -> Generator[None]:
    """Say of a model that exceeded its limits that it did."""
    try:
        yield
    except (ResourceError, WorkerDied) as error:
        raise BadEnvironment(
            f"{model} was not compiled: {error.message}",
            hint="Look for replicated bodies, large textures and meshes in it.",
        ) from error


def prepare(payload: dict[str, Any], channel: HostChannel) -> None:
    """Import the compiler, before the process is confined."""
    importlib.import_module("mujoco")


def run(state: None, payload: dict[str, Any], channel: HostChannel) -> dict[str, Any]:
    """Compile a model; the entry of the confined process."""
    import mujoco

    try:
        if payload["model"].endswith(".mjb"):
            mujoco.MjModel.from_binary_path(payload["model"])
        else:
            mujoco.MjSpec.from_file(payload["model"]).compile()
    except (ValueError, mujoco.FatalError) as error:
        return {"error": str(error)}
    return {}
