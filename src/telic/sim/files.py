"""Find the files of a model, and test its compilation in a sandbox.

The files of a model are the model itself, included files, and the meshes, textures and height
fields it references, in any folder. Folders are not listed, because a model may be in a home
directory.

A model may require unbounded time and memory (replicated bodies, generated textures, huge meshes),
and MuJoCo handles no signals during compilation. Models of unknown origin are therefore first
compiled in a sandbox with limits. Successes are cached by a hash of the model's files.
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
from telic.storage.reading import MAX_TEXT_BYTES, check_file, file_hash

TOKENS = "telic_tokens"
"""Text element that names the file of a model's token decoder."""
MODEL_FILES = (".xml", ".mjcf", ".urdf", ".mjb")
USD_FILES = (".usd", ".usda", ".usdc", ".usdz")
"""model files of Isaac Sim that MuJoCo cannot read"""
_READABLE_MODELS = (".xml", ".mjcf", ".urdf")
_FOLDERS = ("meshdir", "texturedir", "assetdir")
_MAX_DOCUMENTS, _MAX_BYTES = 1000, 4 * MAX_TEXT_BYTES
"""Maximum number and total size of a model's XML files, in case of recursive includes."""
_LIMITS = Limits(memory_bytes=4 * GIBIBYTE, cpu_s=30, wall_s=120.0)
"""Resource limits of a trial compilation."""


class ModelDocument:
    """File references of one XML file of a model, parsed incrementally."""

    def __init__(self, path: Path, home: Path) -> None:
        self.path, self.home = path, home
        """Path of the file, and base of relative names (the folder of the including model)."""
        self.names: list[tuple[str, str]] = []
        """Element tag and file name of each reference."""
        self.folders: list[Path] = []
        """Asset folders set by the compiler element."""
        check_file(path, MAX_TEXT_BYTES)
        parser = ElementTree.XMLParser(target=self)
        with path.open("rb") as file:
            while block := file.read(1 << 16):
                parser.feed(block)
        parser.close()

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """Process an element. Called by the parser."""
        for key, value in attributes.items():
            if tag == "compiler" and key in _FOLDERS:
                self.folders += [self.home / value, self.path.parent / value]
            name = value.removeprefix("file://").removeprefix("package://")
            is_file = key.startswith("file") or (key, attributes.get("name")) == ("data", TOKENS)
            # MuJoCo ignores the file of a builtin texture.
            if is_file and name and attributes.get("builtin", "none") == "none":
                self.names.append((tag, name))

    def close(self) -> None:
        """Finish parsing. Called by the parser."""


def model_files(model: Path) -> list[Path]:
    """Return the resolved paths of a model and all files it references."""
    model = model.expanduser().absolute()
    documents = model_documents(model)
    # A mesh may be relative to an asset folder set in another file.
    folders = [folder for each in documents for folder in each.folders]
    found = {model.resolve(), *(each.path.resolve() for each in documents)}
    for each in documents:
        places = [each.home, each.path.parent, *folders]
        for _, name in each.names:
            found.update(file.resolve() for file in _existing(name, places))
    return sorted(found)


def is_hidden(file: Path, home: Path) -> bool:
    """Return whether a file or a folder on the path from `home` to it is hidden."""
    way = os.path.relpath(file.resolve(), home.resolve())
    return any(part.startswith(".") for part in Path(way).parts if part != "..")


def model_documents(model: Path) -> list[ModelDocument]:
    """Return the XML files of a model: the model file, included files and attached models."""
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
        if sum(each.path.stat().st_size for each in documents.values()) > _MAX_BYTES:
            raise BadFile(f"{model} includes more than {_MAX_BYTES / 1e6:,.0f} MB of XML.")
        for tag, name in found.names:
            # MuJoCo reads what a model includes relative to the model itself, older versions also
            # relative to the including file; what it attaches is a model of its own.
            if tag in ("include", "model"):
                files = list(_existing(name, (home, path.parent)))
                waiting += [(file, file.parent if tag == "model" else home) for file in files]
    return list(documents.values())


def _existing(name: str, places: Sequence[Path]) -> Iterator[Path]:
    """Yield the files with a name. For meshes of a URDF, only the last path component may match."""
    for place in dict.fromkeys(places):
        for file in (place / name, place / Path(name).name):
            if os.path.isfile(file):
                if not is_hidden(file, place):  # no hidden files, even through links
                    yield file
            elif os.path.exists(file) and not os.path.isdir(file):
                check_file(file)  # raises for pipes and devices


# ---- trial compilation


def cache_folder() -> Path:
    """Return the cache folder: TELIC_CACHE_DIR, or the XDG cache directory."""
    if folder := os.environ.get("TELIC_CACHE_DIR"):
        return Path(folder)
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "telic"


@functools.cache
def assets_dir() -> Path:
    """Return the folder of Gymnasium's MuJoCo models."""
    # Avoid importing Gymnasium, which is slow.
    package = importlib.util.find_spec("gymnasium")
    if package is None or not package.submodule_search_locations:
        raise BadEnvironment("The models are provided by Gymnasium, which is not installed.")
    return Path(package.submodule_search_locations[0]) / "envs" / "mujoco" / "assets"


def require_compilable(model: Path) -> None:
    """Compile a model of unknown origin in a sandbox, unless an earlier success is cached.

    Models of Gymnasium, telic and the catalogue are trusted. Raises BadFile for references to pipes
    or devices, and BadEnvironment if compilation fails or exceeds the limits.
    """
    files = model_files(model) if checks_code() else []  # in a sandbox, the host has checked
    if are_known(files) or (known := _mark(files)).exists():
        return
    with in_limits(model), tempfile.TemporaryDirectory() as folder:
        order = {"model": str(model.expanduser().absolute())}
        done = run_worker(f"{__name__}:compile_model", order, **trial_options(Path(folder), files))
    if "error" in done:
        raise unreadable(model, bounded_text(done["error"]))
    write_text(known, f"{model}\n")


def unreadable(model: Path | str, reason: object) -> BadEnvironment:
    """Return the error of a model that MuJoCo cannot compile."""
    hint = None
    if str(model).endswith(".mjb"):
        hint = "A compiled model requires the same version of MuJoCo. Pass the XML file instead."
    elif str(model).endswith(USD_FILES):
        reason, hint = "USD is not supported.", "Export the robot as MJCF or URDF."
    return BadEnvironment(f'MuJoCo cannot read "{model}": {reason}', hint=hint)


def are_known(files: Sequence[Path]) -> bool:
    """Return whether files belong to Gymnasium, telic or the catalogue, or were checked before."""
    ours = Path(__file__).resolve().parents[1], (cache_folder() / "robots").resolve(), assets_dir()
    is_ours = (any(file.is_relative_to(place) for place in ours) for file in files)
    return not checks_code() or all(is_ours)


def _mark(files: Sequence[Path]) -> Path:
    total = hashlib.sha256(importlib.metadata.version("mujoco").encode())
    for file in files:
        total.update(f"{file}\0{file_hash(file)}\n".encode())
    return cache_folder() / "models" / total.hexdigest()[:32]


def trial_options(folder: Path, files: Sequence[Path]) -> dict[str, Any]:
    """Return the sandbox options of a trial compilation."""
    return {"writable": [folder], "readable": files, "limits": _LIMITS, "needs_confinement": False}


@contextmanager
def in_limits(model: Path) -> Generator[None]:
    """Convert errors about exceeded limits to BadEnvironment."""
    try:
        yield
    except (ResourceError, WorkerDied) as error:
        raise BadEnvironment(
            f"{model} was not compiled: {error.message}",
            hint="Check it for replicated bodies, large textures and large meshes.",
        ) from error


def prepare(payload: dict[str, Any], channel: HostChannel) -> None:
    """Import MuJoCo before the process enters the sandbox."""
    importlib.import_module("mujoco")


def compile_model(state: None, payload: dict[str, Any], channel: HostChannel) -> dict[str, Any]:
    """Compile and try out a model in the sandboxed process."""
    import mujoco

    try:
        if payload["model"].endswith(".mjb"):
            model = mujoco.MjModel.from_binary_path(payload["model"])
        else:
            model = mujoco.MjSpec.from_file(payload["model"]).compile()
        simulate_briefly(model)
    except (ValueError, mujoco.FatalError) as error:
        return {"error": str(error)}
    return {}


def simulate_briefly(model: Any) -> None:
    """Simulate a few steps in a sandbox, because a fatal error of MuJoCo would end the host."""
    import mujoco

    data = mujoco.MjData(model)
    mujoco.mj_step(model, data, 5)
    if model.nkey:
        mujoco.mj_resetDataKeyframe(model, data, 0)
        mujoco.mj_step(model, data, 5)
