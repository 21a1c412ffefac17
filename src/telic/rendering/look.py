"""Style a model for rendering with sky, floor, light and limb colors.

Only the appearance changes. Bodies, joints and the order of qpos are those of the model file.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import mujoco
import numpy as np

from telic.errors import BadEnvironment
from telic.rendering._camera import first_box, radius_m
from telic.robots.structure import missing_floor
from telic.robots.terrain import Ground, lay
from telic.sim.files import require_compilable

_Color = tuple[float, float, float]

HORIZON: _Color = (0.90, 0.93, 0.96)
ZENITH: _Color = (0.38, 0.58, 0.82)
FLOOR_DARK: _Color = (0.62, 0.68, 0.73)
FLOOR_LIGHT: _Color = (0.74, 0.79, 0.83)
FLOOR_LINE: _Color = (0.84, 0.88, 0.91)
FLOOR_SHADOW: _Color = (0.44, 0.49, 0.54)
FLOOR_REACH = 80.0  # visible extent of the floor, in robot radii
LIGHT_DIRECTION = np.array([0.35, 0.55, -1.0])
LIGHT_AMBIENT = 0.44
LIGHT_DIFFUSE = 0.62

_FLAT = Ground()
_BODY: _Color = (0.92, 0.93, 0.94)
_STILL: _Color = (0.50, 0.55, 0.60)
_LEFT: _Color = (0.18, 0.50, 0.77)
_RIGHT: _Color = (0.95, 0.49, 0.20)
_BRANCHES: tuple[_Color, ...] = (_RIGHT, _LEFT, (0.27, 0.64, 0.42), (0.60, 0.42, 0.74))
_DEFAULT_GRAY = (0.5, 0.5, 0.5, 1.0)
_GYMNASIUM_TAN = (0.8, 0.6, 0.4, 1.0)
_HIDDEN = 3  # first group of geoms that is not drawn
_VEIL = 0.5  # opacity below which a geom is a veil
_TILES_M = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


def load_dressed(path: Path, *, repaint: bool = False, ground: Ground = _FLAT) -> mujoco.MjModel:
    """Load a model file, styled for rendering and placed on `ground`.

    With `repaint`, all limbs are colored, and not only geoms with default colors. Raises
    BadEnvironment if MuJoCo cannot load the file.
    """
    require_compilable(path)
    try:
        if path.suffix == ".mjb":  # compiled models cannot be styled
            return mujoco.MjModel.from_binary_path(str(path))
        with warnings.catch_warnings():
            # warnings about deprecated attributes in Gymnasium's model files
            warnings.simplefilter("ignore")
            spec = mujoco.MjSpec.from_file(str(path))
            _dress(spec, lay(spec, ground), repaint)
            return spec.compile()
    except ValueError as error:
        raise BadEnvironment(f"MuJoCo could not load {path}: {error}") from None


def _dress(spec: mujoco.MjSpec, plain: mujoco.MjModel, repaint: bool) -> None:
    """Set the sky, floor, light and colors of a model. `plain` is the compiled model."""
    _hang_sky(spec)
    _lay_floor(spec, plain)
    for light in list(spec.lights):
        spec.delete(light)
    headlight = spec.visual.headlight
    headlight.ambient, headlight.diffuse = [LIGHT_AMBIENT] * 3, [0.0] * 3
    headlight.specular = [0.0] * 3
    spec.worldbody.add_light(
        type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL,
        dir=LIGHT_DIRECTION,
        pos=(0, 0, 10),
        diffuse=[LIGHT_DIFFUSE] * 3,
        specular=[0.2] * 3,
        castshadow=False,
    )
    for geom in spec.worldbody.geoms:
        if repaint and geom.type != mujoco.mjtGeom.mjGEOM_PLANE:
            geom.rgba, geom.material = (*_STILL, 1), ""
    # MuJoCo measures the far clipping distance in model extents.
    spec.visual.map.zfar = 2 * FLOOR_REACH * radius_m(plain) / float(plain.stat.extent)
    _show_what_is_hidden(spec)
    for body in spec.worldbody.bodies:
        _paint(body, _BODY, repaint, is_chain=not _branches(body))
    if repaint:  # a software renderer compiles code for every texture, used or not
        worn = {geom.material for geom in spec.geoms}
        for material in [each for each in spec.materials if each.name not in worn]:
            spec.delete(material)
        used = {name for material in spec.materials for name in material.textures}
        for texture in list(spec.textures):
            if texture.name not in used and texture.type != mujoco.mjtTexture.mjTEXTURE_SKYBOX:
                spec.delete(texture)
    spec.visual.quality.offsamples = 0
    spec.visual.quality.shadowsize = 0  # the painter draws shadows itself; shadow maps are slow
    spec.visual.quality.numslices = 20
    spec.visual.quality.numstacks = 12


def _hang_sky(spec: mujoco.MjSpec) -> None:
    for texture in list(spec.textures):
        if texture.type == mujoco.mjtTexture.mjTEXTURE_SKYBOX:
            spec.delete(texture)
    size = 32
    across, down = np.meshgrid(*(np.linspace(-1, 1, size),) * 2)
    sides = -down / np.sqrt(1 + across**2 + down**2)
    top = 1 / np.sqrt(1 + across**2 + down**2)
    # MuJoCo's order of the faces: right, left, up, down, front, back
    sine = np.concatenate((sides, sides, top, -top, sides, sides))  # (6 size, size), of elevation
    blend = np.clip(sine, 0, 1)[..., None] ** 0.6
    picture = 255 * (np.array(HORIZON) * (1 - blend) + np.array(ZENITH) * blend)
    texture = spec.add_texture(
        name="telic_sky",
        type=mujoco.mjtTexture.mjTEXTURE_SKYBOX,
        width=size,
        height=6 * size,
        nchannel=3,
    )
    texture.data = picture.round().astype(np.uint8).tobytes()


def tile_size_m(model: mujoco.MjModel) -> float:
    """Return the size of floor tiles for a robot, at most two thirds of its radius if possible."""
    wanted = 0.67 * radius_m(model)
    return max((side for side in _TILES_M if side <= wanted), default=_TILES_M[0])


def _lay_floor(spec: mujoco.MjSpec, plain: mujoco.MjModel) -> None:
    spec.add_texture(
        name="telic_floor",
        type=mujoco.mjtTexture.mjTEXTURE_2D,
        builtin=mujoco.mjtBuiltin.mjBUILTIN_CHECKER,
        mark=mujoco.mjtMark.mjMARK_EDGE,
        rgb1=FLOOR_LIGHT,
        rgb2=FLOOR_DARK,
        markrgb=FLOOR_LINE,
        width=256,
        height=256,
    )
    # The picture is two tiles wide, and MuJoCo counts repetitions per two meters.
    repeats = [1 / tile_size_m(plain)] * 2
    material = spec.add_material(
        name="telic_floor", texrepeat=repeats, texuniform=True, specular=0, shininess=0
    )
    textures = [""] * len(material.textures)
    textures[int(mujoco.mjtTextureRole.mjTEXROLE_RGB)] = "telic_floor"
    material.textures = textures
    planes = [g for g in spec.worldbody.geoms if g.type == mujoco.mjtGeom.mjGEOM_PLANE]
    if not planes:
        # Walking robots without a floor were given one; other robots are shown in the air.
        added = missing_floor(plain)
        below = float(first_box(plain)[0, 2] - 1.5 * radius_m(plain)) if added is None else added
        planes = [spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, pos=(0, 0, below))]
    for plane in planes:
        plane.material = "telic_floor"
        plane.rgba = _DEFAULT_GRAY
    if len(planes) == 1:
        # The painter moves the floor with the robot. A size of whole pattern periods keeps its
        # lines at multiples of the tile size from the origin.
        period = 2 * tile_size_m(plain)
        reach = period * round(FLOOR_REACH * radius_m(plain) / period)
        planes[0].size = (reach, reach, 1)


def _show_what_is_hidden(spec: mujoco.MjSpec) -> None:
    """Hide translucent collision geoms and show geoms that a skin covers.

    MuJoCo does not draw geoms of high groups. If most bodies have no other geoms, for example
    because a skin covers them, the geoms of their lowest group are shown.
    """
    shaped = [list(body.geoms) for body in spec.bodies[1:] if list(body.geoms)]
    bare = [geoms for geoms in shaped if not any(geom.group < _HIDDEN for geom in geoms)]
    if len(bare) > len(shaped) / 2:
        for geoms in bare:
            lowest = min(geom.group for geom in geoms)
            for geom in geoms:
                geom.group = 0 if geom.group == lowest else geom.group
    for geoms in shaped:
        solid = [geom for geom in geoms if geom.group < _HIDDEN and _is_solid(geom)]
        for geom in geoms:
            if solid and not _is_solid(geom) and (geom.contype or geom.conaffinity):
                geom.group = _HIDDEN


def _is_solid(geom: mujoco.MjsGeom) -> bool:
    return bool(geom.material) or float(geom.rgba[3]) > _VEIL


def _paint(
    body: mujoco.MjsBody, color: _Color, repaint: bool, is_chain: bool, level: int = 0
) -> None:
    """Color a body and its descendants by limb and side, or by link for a serial chain."""
    for geom in body.geoms:
        rgba = tuple(np.asarray(geom.rgba, dtype=np.float64).round(3).tolist())
        is_gray = not geom.material and rgba == _DEFAULT_GRAY
        is_plain = is_gray or geom.material == "geom" or rgba == _GYMNASIUM_TAN
        if is_plain or (repaint and "target" not in geom.name):
            own = _side(geom.name, color) if color == _BODY else color
            geom.rgba, geom.material = (*own, 1), ""
            # Neighbors that share a radius and a joint would flicker where they coincide.
            geom.size = (geom.size[0] * (1 + 0.012 * (level % 3)), *geom.size[1:])
    children, taken = list(body.bodies), set[_Color]()
    for i, child in enumerate(children):
        if is_chain:
            shade = _BRANCHES[level % len(_BRANCHES)]
        elif len(children) > 1 and not _branches(child):
            shade = _BRANCHES[i % len(_BRANCHES)]
        else:
            shade = color
        named = _side(child.name, shade)
        shade = shade if named in taken else named  # a second limb on a side differs from the first
        taken.add(shade)
        _paint(child, shade, repaint, is_chain, level + 1 + i)


def _branches(body: mujoco.MjsBody) -> bool:
    children = list(body.bodies)
    return len(children) > 1 or any(_branches(child) for child in children)


def _side(name: str, otherwise: _Color) -> _Color:
    lowered = name.lower()
    return _LEFT if "left" in lowered else _RIGHT if "right" in lowered else otherwise
