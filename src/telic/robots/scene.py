"""Copy a robot's scene into a folder: the simulated model, its meshes, its licence."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import mujoco
import numpy as np

from telic.errors import BadFile, TelicError
from telic.robots.catalogue import licence_texts, named_robot, robot_names
from telic.sim.files import is_hidden
from telic.storage.files import write_text

ASSETS = "assets"
_SAME = (
    *("qpos0", "key_qpos", "body_mass", "body_inertia", "body_ipos", "jnt_range", "dof_armature"),
    *("geom_friction", "geom_size", "actuator_gainprm", "actuator_biasprm", "actuator_forcerange"),
)
"""fields in which the copied scene must equal the simulated model"""
_LICENCES = ("license", "licence", "copying", "notice")


def write_scene(model_file: Path, simulated: mujoco.MjModel, folder: Path) -> None:
    """Copy the model with everything that it names, and compile what was written."""
    tree = ElementTree.parse(model_file)
    root = tree.getroot()
    if next(root.iter("include"), None) is not None:
        raise BadFile(f"{model_file} includes other files; a built robot is one file.")
    taken = _take_assets(root, model_file.parent)
    for custom in root.iter("custom"):
        for text in custom.findall("text"):  # annotations for telic, unused in a simulation
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


def _take_assets(root: ElementTree.Element, home: Path) -> dict[Path, str]:
    """Give the files of assets unique names in the model, and return the names by file."""
    folders, taken = _asset_folders(root, home), dict[Path, str]()
    for element in root.iter():
        is_generated = element.attrib.get("builtin", "none") != "none"
        for key, value in list(element.attrib.items()):
            if not key.startswith("file") or element.tag not in folders:
                continue
            if is_generated:  # MuJoCo makes it, and reads no file that it names
                del element.attrib[key]
                continue
            source = _asset(folders[element.tag], value, home)
            if source not in taken:
                used = {other.lower() for other in taken.values()}
                names = (source.name, *(f"{n}_{source.name}" for n in range(2, len(taken) + 3)))
                taken[source] = next(name for name in names if name.lower() not in used)
            element.set(key, taken[source])
    return taken


def _asset(folder: Path, name: str, home: Path) -> Path:
    """Return the file of an asset that is shared with the policy.

    Raises BadFile for one outside of the folder of assets and of the model's, links followed: the
    model may be anybody's, and the file one of the user's own.
    """
    source = (folder / name).resolve()
    for place in (folder, home):
        if source.is_relative_to(place.resolve()) and not is_hidden(source, place):
            return source
    raise BadFile(
        f"{name}, which the model names, lies outside of its folder of assets, {folder}.",
        hint="Copy it there, and name it in the model as it is called there.",
    )


def _asset_folders(root: ElementTree.Element, home: Path) -> dict[str, Path]:
    """Return the folder of each kind of asset."""
    named: dict[str, str] = {}
    for compiler in root.iter("compiler"):
        named |= {key: compiler.attrib[key] for key in compiler.attrib if key.endswith("dir")}
    meshes = home / named.get("meshdir", named.get("assetdir", ""))
    textures = home / named.get("texturedir", named.get("assetdir", ""))
    return {"mesh": meshes, "hfield": meshes, "skin": meshes, "texture": textures}


def write_licence(model_file: Path, folder: Path) -> None:
    """Write the origin and the licence of the robot; copy its licence texts."""
    lines = model_origin(model_file)
    texts: set[Path] = set()
    folders = _asset_folders(ElementTree.parse(model_file).getroot(), model_file.parent)
    for assets in {path.resolve() for path in folders.values()}:
        for place in (assets, assets.parent):
            if place.is_dir() and place != model_file.parent.resolve():
                texts |= {file for file in place.iterdir() if file.stem.lower() in _LICENCES}
    files = [file for file in sorted(texts) if file.is_file() and not file.is_symlink()][:4]
    if model_file.stem in robot_names():
        files += licence_texts(named_robot(model_file.stem))
    for number, file in enumerate(dict.fromkeys(files)):
        name = "LICENSE-robot" + (f"-{number + 1}" if number else "")
        (folder / name).write_bytes(file.read_bytes())
        lines.append(f"Its licence text: {name}")
    lines += ["", "run.py is part of telic, MIT licence. policy.onnx is its author's."]
    write_text(folder / "LICENCE.txt", "\n".join(lines) + "\n")


def model_origin(model_file: Path) -> list[str]:
    """Return the origin and the licence of a built robot, in sentences."""
    if model_file.stem not in robot_names():
        return [
            "The model is a robot of the author's own.",
            "Its licence is unknown here: state it before sharing.",
        ]
    robot = named_robot(model_file.stem)
    package = robot.package
    return [
        f"The model is the {robot.title}, under {robot.licence}.",
        f"It is {robot.model} of the Python package {package.name} {package.version} "
        f"(SHA-256 {package.sha256}).",
        "Its meshes are unchanged; drives, floor and pose of scene.xml are by telic.",
    ]
