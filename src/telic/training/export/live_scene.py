"""The scene of a policy that runs elsewhere: small enough to travel, readable by older MuJoCos.

A mesh that touches nothing is only seen, and whoever shows the robot has its shapes already: a
tetrahedron of the same name takes its place. The numbers of the model travel beside the scene, so
nothing of the simulation follows from what was left out.
"""

from __future__ import annotations

import struct
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from telic.errors import TelicError, UsageError
from telic.robots.scene import ASSETS, write_scene
from telic.robots.terrain import COLUMNS, FIELD_M, NAME, ROWS, TerrainKind, standing_m, terrain

SCENE = "scene.xml"
Row = tuple[float, ...]
_MESH = int(mujoco.mjtGeom.mjGEOM_MESH)
_MOST_NUMBERS = 200_000
_UNFELT = "unfelt.stl"
_LOOKS = (
    *("mesh_", "tex_", "mat_", "skin_", "cam_", "light_", "bvh_", "oct_", "name", "text_"),
    *("hfield_", "flex", "key_", "tuple_", "numeric_", "geom_rgba", "site_rgba", "tendon_rgba"),
)
"""numbers of a model that matter for its looks, or that each version lays out as it likes"""


def travelling_scene(
    source: Path, flat: mujoco.MjModel, ground: TerrainKind = "flat"
) -> dict[str, bytes]:
    """Return the scene of a model and its assets, by the names by which the scene finds them.

    Args:
        source: the model's file.
        flat: what telic made of it, on flat ground; the written scene is compared with it.
        ground: what is laid over its floor.

    Raises:
        UsageError: the file alone does not make the model.
    """
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        (place / ASSETS).mkdir()
        try:
            write_scene(source, flat, place)
        except TelicError as error:
            raise UsageError(f"The scene cannot be sent to a browser: {error.message}") from error
        tree = ElementTree.parse(place / SCENE)
        root = tree.getroot()
        _let_older_read(root)
        for mesh in _unfelt(root, flat):
            _shrink(mesh, place / ASSETS)
        if ground != "flat":
            _lay(root, flat, ground, place / ASSETS)
        tree.write(place / SCENE, encoding="unicode")
        used = {element.get("file") for element in root.iter() if element.get("file")}
        files = [path for path in sorted((place / ASSETS).iterdir()) if path.name in used]
        return {path.relative_to(place).as_posix(): path.read_bytes() for path in files} | {
            SCENE: (place / SCENE).read_bytes()
        }


def _let_older_read(root: ElementTree.Element) -> None:
    """Leave out what versions before 4 do not know: that a drive's input is a position.

    They take it from the drive's gain and bias, which are numbers of the model like all others.
    Textures are looks, too, and large.
    """
    for actuators in root.iter("actuator"):
        for drive in actuators:
            drive.attrib.pop("input", None)
    for assets in root.iter("asset"):
        for element in [*assets.findall("texture"), *assets.findall("material")]:
            element.attrib.pop("texture", None)
            if element.tag == "texture":
                assets.remove(element)


def _unfelt(root: ElementTree.Element, model: mujoco.MjModel) -> list[ElementTree.Element]:
    """Return the meshes that no geom of the model collides with."""
    collides = (model.geom_contype | model.geom_conaffinity) != 0
    collides[model.pair_geom1] = True
    collides[model.pair_geom2] = True
    felt = {int(each) for each in model.geom_dataid[collides & (model.geom_type == _MESH)]}
    # A geom may be named as a mesh to take its size from; then its shape is another, and felt.
    felt |= {int(each) for each in model.geom_dataid[collides & (model.geom_dataid >= 0)]}
    found: list[ElementTree.Element] = []
    for mesh in root.iter("mesh"):
        file = mesh.get("file")
        if file is not None and model.mesh(mesh.get("name") or Path(file).stem).id not in felt:
            found.append(mesh)
    return found


def _shrink(mesh: ElementTree.Element, assets: Path) -> None:
    mesh.set("name", mesh.get("name") or Path(mesh.get("file") or "").stem)
    mesh.set("file", _UNFELT)
    mesh.set("scale", "1 1 1")
    (assets / _UNFELT).write_bytes(_TETRAHEDRON)


def _tetrahedron() -> bytes:
    """Return a solid of a tenth of a metre, as a binary STL file."""
    corners = 0.1 * np.array([(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)], dtype="<f4")
    faces = ((0, 2, 1), (0, 1, 3), (0, 3, 2), (1, 2, 3))
    rows = [bytes(12) + corners[list(face)].tobytes() + bytes(2) for face in faces]
    return bytes(80) + struct.pack("<I", len(rows)) + b"".join(rows)


_TETRAHEDRON = _tetrahedron()


def _lay(
    root: ElementTree.Element, flat: mujoco.MjModel, ground: TerrainKind, assets: Path
) -> None:
    """Add the ground as `telic.robots.terrain.lay` does; where the floor is, the numbers say."""
    board = terrain(ground, standing_m(flat)).heights
    highest = max(float(board.max()), 1e-3)
    content = struct.pack("<2i", *board.shape) + (board / highest).astype("<f4").tobytes()
    (assets / f"{NAME}.bin").write_bytes(content)
    size = (ROWS * FIELD_M / 2.0, COLUMNS * FIELD_M / 2.0, highest, 0.1)
    facts = {"name": NAME, "file": f"{NAME}.bin", "size": " ".join(map(repr, size))}
    ElementTree.SubElement(ElementTree.SubElement(root, "asset"), "hfield", facts)
    world = next(root.iter("worldbody"))
    ElementTree.SubElement(world, "geom", {"name": NAME, "type": "hfield", "hfield": NAME})


def simulated_numbers(model: mujoco.MjModel) -> dict[str, Row]:
    """Return the numbers of a model that its simulation depends on, by field."""
    found: dict[str, Row] = {}
    for name in dir(model):
        if name.startswith(("_", *_LOOKS)):
            continue
        value: Any = getattr(model, name)
        if getattr(value, "dtype", None) == np.float64 and 0 < value.size <= _MOST_NUMBERS:
            found[name] = tuple(map(float, value.ravel()))
    return found
