"""Writes a robot of many files, as public robots are: includes, meshes, textures, height fields."""

import struct
from pathlib import Path

import numpy as np

from telic.rendering.media import write_png

SECRET = "secret.txt"
_CORNERS = np.array([(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], dtype=float)
_FACES = ((0, 1, 3), (0, 3, 2), (4, 6, 7), (4, 7, 5), (0, 4, 5), (0, 5, 1))
_FACES += ((2, 3, 7), (2, 7, 6), (0, 2, 6), (0, 6, 4), (1, 5, 7), (1, 7, 3))

_MAIN = """<mujoco model="many files">
  <include file="{parts}/settings.xml"/>
  <asset>
    <texture name="skin" type="2d" file="grünes blech.png"/>
    <material name="skin" texture="skin"/>
    <hfield name="hills" file="hills.png" size="20 20 0.05 0.1"/>
  </asset>
  <worldbody>
    <geom type="hfield" hfield="hills"/>
    <body name="trunk" pos="0 0 0.45">
      <freejoint/>
      <geom type="mesh" mesh="box" material="skin" mass="4"/>
      <include file="{parts}/legs.xml"/>
    </body>
  </worldbody>
  <include file="{parts}/motors.xml"/>
</mujoco>"""
_SETTINGS = """<mujoco>
  <compiler meshdir="../{meshes}" texturedir="looks" autolimits="true"/>
  <asset><mesh name="box" file="a box.obj" scale="0.2 0.1 0.05"/>
  <mesh name="shin" file="sub/shin.stl" scale="0.02 0.02 0.1"/></asset>
</mujoco>"""
_LEG = """<body name="{name}" pos="{x} {y} 0"><joint name="{name}_hip" axis="0 1 0" range="-60 60"/>
  <geom type="capsule" fromto="0 0 0 0 0 -0.2" size="0.02" mass="0.3"/>
  <body name="{name}_shin" pos="0 0 -0.2"><joint name="{name}_knee" axis="0 1 0" range="-100 10"/>
    <geom type="mesh" mesh="shin" pos="0 0 -0.1" mass="0.2"/></body></body>"""


def write_robot(folder: Path) -> Path:
    """Write the robot of several files below a folder, and return the model's path."""
    home, parts, meshes = folder / "my robot ü", "the parts", "shared meshes"
    for each in (home / parts, home / "looks", folder / meshes / "sub", folder / "elsewhere"):
        each.mkdir(parents=True)
    (home / "robot.xml").write_text(_MAIN.format(parts=parts), encoding="utf-8")
    (home / parts / "settings.xml").write_text(_SETTINGS.format(meshes=meshes))
    legs = [(x, y) for x in (-0.2, 0.2) for y in (-0.1, 0.1)]
    bodies = [_LEG.format(name=f"leg{i}", x=x, y=y) for i, (x, y) in enumerate(legs)]
    (home / parts / "legs.xml").write_text(f"<mujocoinclude>{''.join(bodies)}</mujocoinclude>")
    motors = [
        f'<motor joint="leg{i}_{joint}" ctrlrange="-35 35"/>'
        for i in range(4)
        for joint in ("hip", "knee")
    ]
    (home / parts / "motors.xml").write_text(
        f"<mujoco><actuator>{''.join(motors)}</actuator></mujoco>"
    )
    write_obj(folder / meshes / "a box.obj")
    write_stl(folder / "elsewhere" / "shin.stl")
    (folder / meshes / "sub" / "shin.stl").symlink_to(folder / "elsewhere" / "shin.stl")
    hills = np.repeat(np.arange(64).reshape(8, 8, 1) % 3, 3, axis=2).astype(np.uint8)
    write_png(folder / meshes / "hills.png", hills)
    write_png(home / "looks" / "grünes blech.png", np.full((8, 8, 3), 120, np.uint8))
    for each in (folder, home, folder / meshes, folder / "elsewhere"):
        (each / SECRET).write_text("not the robot's")
    return home / "robot.xml"


def write_obj(path: Path) -> None:
    """Write a cube as text."""
    lines = [f"v {x} {y} {z}" for x, y, z in _CORNERS]
    lines += [f"f {a + 1} {b + 1} {c + 1}" for a, b, c in _FACES]
    path.write_text("\n".join(lines))


def write_stl(path: Path) -> None:
    """Write a cube as a binary file."""
    data = b"\0" * 80 + struct.pack("<I", len(_FACES))
    for face in _FACES:
        data += struct.pack("<12fH", 0, 0, 0, *_CORNERS[list(face)].ravel(), 0)
    path.write_bytes(data)
