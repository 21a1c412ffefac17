"""Export a robot's scene: the simulated model, its meshes and its license."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import mujoco
import numpy as np

from telic.errors import BadFile, TelicError
from telic.robots.catalogue import license_texts, named_robot, robot_names
from telic.robots.structure import HOME, model_text
from telic.sim.files import cache_folder, is_hidden
from telic.storage.files import write_text

ASSETS = "assets"
_SAME = (
    *("qpos0", "key_qpos", "body_mass", "body_inertia", "body_ipos", "jnt_range", "dof_armature"),
    *("geom_friction", "geom_size", "actuator_gainprm", "actuator_biasprm", "actuator_forcerange"),
)
"""Model fields that must match between the exported scene and the simulated model."""
_OF_PACKAGES = ("mjcf", "urdf", "xml")
"""folders of models, next to which packages of robots have their meshes"""
_LICENSES = ("license", "licence", "copying", "notice")  # language: quoted


def write_scene(model_file: Path, simulated: mujoco.MjModel, folder: Path) -> None:
    """Copy a model with its assets, and compile the copy to verify it."""
    tree = ElementTree.parse(model_file)
    root = tree.getroot()
    if next(root.iter("include"), None) is not None:
        raise BadFile(f"{model_file} includes other files, but must be a single file.")
    taken = _take_assets(root, model_file.parent, _shared_folders(model_file, simulated))
    for custom in root.iter("custom"):
        for text in custom.findall("text"):  # telic annotations, unused by MuJoCo
            custom.remove(text)
    for compiler in root.iter("compiler"):
        compiler.attrib.pop("assetdir", None)
        compiler.set("meshdir", ASSETS)
        compiler.set("texturedir", ASSETS)
    for source, name in taken.items():
        (folder / ASSETS / name).write_bytes(source.read_bytes())
    scene = folder / "scene.xml"
    tree.write(scene, encoding="unicode")
    copied = mujoco.MjModel.from_xml_path(str(scene))
    for name in _SAME:
        own, other = getattr(copied, name), getattr(simulated, name)
        if own.shape != other.shape or not np.allclose(own, other, rtol=1e-9, atol=1e-12):
            raise TelicError(f"The copied scene differs from the simulated model in {name}.")


def _shared_folders(model_file: Path, model: mujoco.MjModel) -> list[Path]:
    """Return the folders whose files may be copied: of the robot, and of installed packages."""
    home, robots = model_file.parent, cache_folder() / "robots"
    if home.is_relative_to(robots / "driven"):  # built from a model in another folder
        home = Path(*json.loads(model_text(model, HOME) or "[]"))
    whole = home.parent if home.name in _OF_PACKAGES else home
    installed = [Path(each) for each in sys.path if each.endswith("-packages")]
    return [whole, robots, Path(__file__).parents[1], *installed]


def _take_assets(root: ElementTree.Element, home: Path, shared: Sequence[Path]) -> dict[Path, str]:
    """Give the asset files of a model unique names and return the name of each file."""
    folders, taken = _asset_folders(root, home), dict[Path, str]()
    for element in root.iter():
        is_generated = element.attrib.get("builtin", "none") != "none"
        is_single = element.get("type") == "2d" or bool(element.get("file"))
        for key, value in list(element.attrib.items()):
            if not key.startswith("file") or element.tag not in folders:
                continue
            if is_generated or (is_single and key != "file"):  # MuJoCo ignores the file
                del element.attrib[key]
                continue
            source = _asset(folders[element.tag], value, shared)
            if source not in taken:
                used = {other.lower() for other in taken.values()}
                names = (source.name, *(f"{n}_{source.name}" for n in range(2, len(taken) + 3)))
                taken[source] = next(name for name in names if name.lower() not in used)
            element.set(key, taken[source])
    return taken


def _asset(folder: Path, name: str, shared: Sequence[Path]) -> Path:
    """Return the resolved path of an asset to export.

    Raises BadFile for hidden files and, after resolving links, for files of other folders, because
    an untrusted model could refer to any picture or mesh of the user.
    """
    source = (folder / name).resolve()
    for place in shared:
        if source.is_relative_to(place.resolve()) and not is_hidden(source, place):
            return source
    raise BadFile(
        f"The model refers to {source}, which is outside its folder, {shared[0]}.",
        hint="To share it, copy it to a folder there, and name that folder as meshdir or "
        "texturedir in the model.",
    )


def _asset_folders(root: ElementTree.Element, home: Path) -> dict[str, Path]:
    """Return the folder of each asset type."""
    named = {key: text for each in root.iter("compiler") for key, text in each.attrib.items()}
    meshes = home / named.get("meshdir", named.get("assetdir", ""))
    textures = home / named.get("texturedir", named.get("assetdir", ""))
    return {"mesh": meshes, "hfield": meshes, "skin": meshes, "texture": textures}


def write_license(model_file: Path, folder: Path) -> None:
    """Write the origin and license of the robot and copy its license texts."""
    lines = model_origin(model_file)
    texts: set[Path] = set()
    folders = _asset_folders(ElementTree.parse(model_file).getroot(), model_file.parent)
    for assets in {path.resolve() for path in folders.values()}:
        for place in (assets, assets.parent):
            if place.is_dir() and place != model_file.parent.resolve():
                texts |= {file for file in place.iterdir() if file.stem.lower() in _LICENSES}
    files = [file for file in sorted(texts) if file.is_file() and not file.is_symlink()][:4]
    if model_file.stem in robot_names():
        files += license_texts(named_robot(model_file.stem))
    for number, file in enumerate(dict.fromkeys(files)):
        name = "LICENSE-robot" + (f"-{number + 1}" if number else "")
        (folder / name).write_bytes(file.read_bytes())
        lines.append(f"Its license text: {name}")
    lines += ["", "run.py is part of telic, MIT license. policy.onnx is its author's."]
    write_text(folder / "LICENSE.txt", "\n".join(lines) + "\n")


def model_origin(model_file: Path) -> list[str]:
    """Return sentences on the origin and license of a built robot."""
    if model_file.stem not in robot_names():
        return [
            "The robot model was provided by the author.",
            "Its license is unknown. Add it before sharing.",
        ]
    robot = named_robot(model_file.stem)
    package = robot.package
    return [
        f"The model is the {robot.title}, licensed under {robot.license}.",
        f"Its source is {robot.model} of the Python package {package.name} {package.version} "
        f"(SHA-256 {package.sha256}).",
        "Its meshes are unchanged. Actuators, floor and initial pose were added in scene.xml.",
    ]
