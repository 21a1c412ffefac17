"""A robot's scene as a folder of its own: the model that was simulated, its meshes, its licence."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import mujoco
import numpy as np

from telic.errors import BadFile, TelicError
from telic.robots.catalogue import NamedRobot, licence_texts, named_robot, robot_names
from telic.storage.files import write_text

ASSETS = "assets"
_SAME = (
    *("qpos0", "key_qpos", "body_mass", "body_inertia", "body_ipos", "jnt_range", "dof_armature"),
    *("geom_friction", "geom_size", "actuator_gainprm", "actuator_biasprm", "actuator_forcerange"),
)
"""fields by which the copied scene must equal what was simulated"""


def write_scene(model_file: Path, simulated: mujoco.MjModel, folder: Path) -> None:
    """Copy the model with everything that it names, and compile what was written."""
    tree = ElementTree.parse(model_file)
    root = tree.getroot()
    if next(root.iter("include"), None) is not None:
        raise BadFile(f"{model_file} includes other files; a driven robot is one file.")
    folders = _asset_folders(root, model_file.parent)
    taken: dict[Path, str] = {}
    for element in root.iter():
        for key, value in element.attrib.items():
            if key.startswith("file") and element.tag in folders:
                source = (folders[element.tag] / value).resolve()
                taken.setdefault(source, _unused(source.name, taken))
                element.set(key, taken[source])
    for custom in root.iter("custom"):
        for text in custom.findall("text"):  # notes to telic, of no weight in a simulation
            custom.remove(text)
    for compiler in root.iter("compiler"):
        compiler.attrib.pop("assetdir", None)
        compiler.set("meshdir", ASSETS)
        compiler.set("texturedir", ASSETS)
    for source, name in taken.items():
        (folder / ASSETS / name).write_bytes(source.read_bytes())
    scene = folder / "scene.xml"
    tree.write(scene, encoding="unicode")
    _require_same(mujoco.MjModel.from_xml_path(str(scene)), simulated)


def _asset_folders(root: ElementTree.Element, home: Path) -> dict[str, Path]:
    """Return where files of each kind of asset are looked for."""
    named: dict[str, str] = {}
    for compiler in root.iter("compiler"):
        named |= {key: compiler.attrib[key] for key in compiler.attrib if key.endswith("dir")}
    meshes = home / named.get("meshdir", named.get("assetdir", ""))
    textures = home / named.get("texturedir", named.get("assetdir", ""))
    return {"mesh": meshes, "hfield": meshes, "skin": meshes, "texture": textures}


def _unused(name: str, taken: dict[Path, str]) -> str:
    used = {other.lower() for other in taken.values()}
    found, number = name, 1
    while found.lower() in used:
        number += 1
        found = f"{number}_{name}"
    return found


def _require_same(copied: mujoco.MjModel, simulated: mujoco.MjModel) -> None:
    """Raise if the copied scene is not the model that was simulated."""
    for name in _SAME:
        own, other = getattr(copied, name), getattr(simulated, name)
        if own.shape != other.shape or not np.allclose(own, other, rtol=1e-9, atol=1e-12):
            raise TelicError(f"The copied scene differs from the simulated model in {name}.")


# ----------------------------------------------------------------------------- origin and licence


def write_licence(model_file: Path, folder: Path) -> None:
    """Say where the robot comes from and under which licence; copy the licence where it is."""
    robot, lines = _named(model_file), origin_of(model_file)
    texts = _licence_files(model_file) + (licence_texts(robot) if robot else [])
    for number, file in enumerate(dict.fromkeys(texts)):
        name = "LICENSE-robot" + (f"-{number + 1}" if number else "")
        (folder / name).write_bytes(file.read_bytes())
        lines.append(f"Its licence text: {name}")
    lines += ["", "run.py is part of telic, MIT licence. policy.onnx is its author's."]
    write_text(folder / "LICENCE.txt", "\n".join(lines) + "\n")


def _named(model_file: Path) -> NamedRobot | None:
    return named_robot(model_file.stem) if model_file.stem in robot_names() else None


def origin_of(model_file: Path) -> list[str]:
    """Say where the model of a driven robot comes from, and under which licence."""
    robot = _named(model_file)
    if robot is None:
        return [
            "The model is a robot of the author's own.",
            "Its licence is unknown here: state it before sharing.",
        ]
    package = robot.package
    return [
        f"The model is the {robot.title}, under {robot.licence}.",
        f"It is {robot.model} of the Python package {package.name} {package.version} "
        f"(SHA-256 {package.sha256}).",
        "Its meshes are unchanged; drives, floor and pose of scene.xml are by telic.",
    ]


def _licence_files(model_file: Path) -> list[Path]:
    """Return the licence texts that lie beside the robot's own files."""
    found: list[Path] = []
    folders = _asset_folders(ElementTree.parse(model_file).getroot(), model_file.parent)
    for folder in dict.fromkeys(path.resolve() for path in folders.values()):
        for place in (folder, folder.parent):
            if place.is_dir() and place != model_file.parent.resolve():
                found += [file for file in place.iterdir() if _is_licence(file)]
    return sorted(set(found))[:4]


def _is_licence(file: Path) -> bool:
    stem = file.stem.lower()
    return file.is_file() and stem in ("license", "licence", "copying", "notice")
