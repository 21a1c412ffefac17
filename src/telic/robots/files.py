"""Find the files that a model is made of.

A model is read file by file: the model, what it includes, the meshes, textures and height fields
that it names, wherever they lie. Their folders are not listed, for a model may lie in a home
folder.
"""

from __future__ import annotations

import os
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from telic.robots import TOKENS

MODEL_FILES = (".xml", ".mjcf", ".urdf", ".mjb")
_READABLE_MODELS = (".xml", ".mjcf", ".urdf")
_FOLDERS = ("meshdir", "texturedir", "assetdir")
_MAX_DOCUMENTS = 1000
"""XML files of one model; one that includes itself would never end"""


class ModelDocument(NamedTuple):
    """One XML file of a model."""

    path: Path
    home: Path
    """the folder that its names are relative to: that of the model which includes it"""
    root: ElementTree.Element


def model_files(model: Path) -> list[Path]:
    """Return the model and all files that it is made of, links followed."""
    model = model.expanduser().absolute()
    documents = model_documents(model)
    # An included file may name a mesh by the folder that another one sets.
    folders = [folder for each in documents for folder in _asset_folders(each)]
    found = {model.resolve(), *(each.path.resolve() for each in documents)}
    for each in documents:
        places = [each.home, each.path.parent, *folders]
        for _, name in _names(each.root):
            found.update(file.resolve() for file in _existing(name, places))
    return sorted(found)


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
            root = ElementTree.parse(path).getroot()
        except (OSError, ElementTree.ParseError):
            continue  # building the model reports the error
        documents[path, home] = ModelDocument(path, home, root)
        for tag, name in _names(root):
            # MuJoCo reads what a model includes relative to the model itself, older versions also
            # relative to the including file; what it attaches is a model of its own.
            if tag in ("include", "model"):
                files = list(_existing(name, (home, path.parent)))
                waiting += [(file, file.parent if tag == "model" else home) for file in files]
    return list(documents.values())


def _asset_folders(document: ModelDocument) -> list[Path]:
    named = [each.get(key) for each in document.root.iter("compiler") for key in _FOLDERS]
    return [home / name for home in (document.home, document.path.parent) for name in named if name]


def _names(root: ElementTree.Element) -> Iterator[tuple[str, str]]:
    """Yield the kind of every element and each of its attributes that is a file's name."""
    for each in root.iter():
        for key, value in each.attrib.items():
            name = value.removeprefix("file://").removeprefix("package://")
            # What a model has no business with: a mesh is not a hidden file.
            is_hidden = any(part.startswith(".") for part in Path(name).parts if part != "..")
            is_file = key.startswith("file") or (key, each.get("name")) == ("data", TOKENS)
            if is_file and name and not is_hidden:
                yield each.tag, name


def _existing(name: str, places: Sequence[Path]) -> Iterator[Path]:
    """Yield the files of a name; of a URDF's mesh, perhaps only the last part counts."""
    for place in dict.fromkeys(places):
        for file in (place / name, place / Path(name).name):
            if os.path.isfile(file):
                yield file
