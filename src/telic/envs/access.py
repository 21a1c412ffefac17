"""What a confined process must be able to read to make an environment, and nothing else."""

from __future__ import annotations

import os
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from telic.core.plugins import plugin_home

_MODELS = (".xml", ".mjcf", ".urdf")
_FOLDERS = ("meshdir", "texturedir", "assetdir")
_MAX_FILES = 1000
"""files of one model; a model that includes itself would never end"""


class EnvAccess(NamedTuple):
    """Folders of an environment outside the installed packages."""

    readable: list[Path]
    """of its model, and of everything that the model includes"""
    python_path: list[Path]
    """to import it from"""


def env_access(env: str, env_args: dict[str, Any]) -> EnvAccess:
    """Return what a confined process needs besides its own packages."""
    model = env if env.endswith(_MODELS) else env_args.get("xml_file")
    folders: set[Path] = set()
    if isinstance(model, str) and os.path.isfile(Path(model).expanduser()):
        folders = set(_model_folders(Path(model).expanduser().absolute()))
    return EnvAccess(sorted(_outermost(folders)), import_folders(env))


def import_folders(env: str) -> list[Path]:
    """Return what a confined process must import an environment from, besides its own packages."""
    if is_class(env):
        return [Path.cwd()]
    home = plugin_home("environments", env)
    return [] if home is None else [home]


def is_class(env: str) -> bool:
    """Say whether an environment is given as module:Class."""
    return ":" in env and not os.path.exists(env)


def _model_folders(model: Path) -> Iterator[Path]:
    """Yield the folders of a model's own files: the model, what it includes, meshes, textures."""
    seen: set[Path] = set()
    waiting = [model]
    while waiting and len(seen) < _MAX_FILES:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        yield path.parent
        try:
            root = ElementTree.parse(path).getroot()
        except (OSError, ElementTree.ParseError):
            continue  # whoever builds the model says what is wrong with it
        # MuJoCo reads includes relative to the main model, and assets relative to their folders.
        waiting += [model.parent / each.get("file", "") for each in root.iter("include")]
        folders = [model.parent]
        for compiler in root.iter("compiler"):
            folders += [model.parent / compiler.get(name, "") for name in _FOLDERS]
        yield from (folder.resolve() for folder in folders if folder.is_dir())
        for each in root.iter():
            file = each.get("file") or each.get("filename")
            if file and each.tag != "include":
                names = [folder / file for folder in folders]
                yield from (name.resolve().parent for name in names if name.is_file())


def _outermost(folders: set[Path]) -> set[Path]:
    """Leave out the folders that lie in another one."""
    return {path for path in folders if not folders.intersection(path.parents)}
