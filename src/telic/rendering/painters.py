"""What draws a model: OpenGL, or MuJoCo's own ray caster, slower and plainer, which needs nothing.

The first works only in a process whose MUJOCO_GL names a backend that works.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
from collections.abc import Generator
from typing import NamedTuple, Protocol

import mujoco
import numpy as np

from telic.rendering import look
from telic.rendering.camera import FOV_DEG, Camera, floor_height, radius_m

_FLAT = 1e-3  # height that is left of a geom in its shadow: keeps its faces turned outwards
_SHADOW_RGBA = np.array((*look.FLOOR_SHADOW, 1), dtype=np.float32)
_MOST_GEOMS = 10_000  # with their shadows; what is beyond is not drawn
_NOWHERE, _STRAIGHT = np.zeros(3), np.eye(3).ravel()
_SHADOW_LIFT = 2e-3  # of the robot's radius, above the floor
# of the ray caster
_LIGHT = look.LIGHT_DIRECTION / np.linalg.norm(look.LIGHT_DIRECTION)
_DARK, _BRIGHT, _SHADOW, _HORIZON, _ZENITH = (
    np.array(colour, dtype=np.float32)
    for colour in (look.FLOOR_DARK, look.FLOOR_LIGHT, look.FLOOR_SHADOW, look.HORIZON, look.ZENITH)
)
_FLOOR_LIGHT = np.float32(look.LIGHT_AMBIENT - look.LIGHT_DIFFUSE * _LIGHT[2])
_NOTHING = -1
_FLOOR_GROUP = 5  # a group that rays leave out: the floor is computed, not cast
_SUBPIXELS = np.array(((-0.25, -0.25), (0.25, -0.25), (-0.25, 0.25), (0.25, 0.25)))


class PainterBroken(Exception):
    """The backend failed to draw; another one may do."""


class Painter(Protocol):
    """Draws one model at one size."""

    def paint(self, data: mujoco.MjData, camera: Camera) -> np.ndarray:
        """Return a new (H, W, 3) uint8 picture of `data`, whose kinematics are up to date.

        Raises PainterBroken when the backend fails.
        """
        ...

    def close(self) -> None:
        """Free what the painter holds; it cannot paint afterwards."""
        ...


class GlPainter:
    """Draws with MuJoCo's own renderer.

    Shadow maps and multisampling cost a software renderer two to four times the frame. Shadows are
    therefore the geoms themselves, flattened onto the floor along the light, and `fine` draws four
    pixels for one.
    """

    def __init__(
        self, model: mujoco.MjModel, width: int, height: int, *, fine: bool = False
    ) -> None:
        self._fine = fine
        self._floor = floor_height(model)
        self._period = 2 * look.tile_size_m(model)
        self._lift = _SHADOW_LIFT * radius_m(model)
        # No larger buffer than the picture: MuJoCo clears all of it.
        self._height, self._width = height * (1 + fine), width * (1 + fine)
        model.vis.global_.offheight, model.vis.global_.offwidth = self._height, self._width
        self._model = model
        with _broken_by_drivers():
            _context_of_process()
            self._context = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_50.value)
            mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN.value, self._context)
        self._scene = mujoco.MjvScene(model, _MOST_GEOMS)
        for effect in ("SHADOW", "REFLECTION", "FOG", "HAZE"):
            self._scene.flags[getattr(mujoco.mjtRndFlag, f"mjRND_{effect}")] = False
        self._option = mujoco.MjvOption()
        self._option.sitegroup[:] = 0
        self._camera = mujoco.MjvCamera()
        # p - L (n.p) / (n.L) with n = z: along the light L onto the floor
        self._flatten = (
            np.eye(3) - np.outer(look.LIGHT_DIRECTION, (0, 0, 1)) / look.LIGHT_DIRECTION[2]
        )
        self._flatten[2] = 0, 0, _FLAT

    def paint(self, data: mujoco.MjData, camera: Camera) -> np.ndarray:
        """Return a new (H, W, 3) uint8 picture."""
        self._camera.lookat[:] = camera.look_at
        self._camera.distance = camera.distance_m
        self._camera.azimuth = camera.azimuth_deg
        self._camera.elevation = camera.elevation_deg
        everything = mujoco.mjtCatBit.mjCAT_ALL.value
        mujoco.mjv_updateScene(
            self._model, data, self._option, None, self._camera, everything, self._scene
        )
        if self._floor is not None:
            self._move_floor()
            self._add_shadows(self._floor)
        with _broken_by_drivers():
            picture = self._render()
        return _halve(picture) if self._fine else picture

    def close(self) -> None:
        """Free the model's textures and buffers."""
        self._context.free()

    def _render(self) -> np.ndarray:
        box = mujoco.MjrRect(0, 0, self._width, self._height)
        mujoco.mjr_render(box, self._scene, self._context)
        picture = np.empty((self._height, self._width, 3), np.uint8)
        mujoco.mjr_readPixels(picture, None, box, self._context)
        return picture[::-1]  # OpenGL counts lines from below

    def _move_floor(self) -> None:
        """Put the floor under what is looked at, by whole periods of its tiles.

        MuJoCo's own endless planes do the same, for a third of the time of a frame.
        """
        scene = self._scene
        for i in range(scene.ngeom):
            if scene.geoms[i].type == mujoco.mjtGeom.mjGEOM_PLANE:
                offset = self._camera.lookat[:2] - scene.geoms[i].pos[:2]
                scene.geoms[i].pos[:2] += self._period * np.round(offset / self._period)

    def _add_shadows(self, floor: float) -> None:
        scene = self._scene
        for i in range(scene.ngeom):
            geom = scene.geoms[i]
            if geom.category != mujoco.mjtCatBit.mjCAT_DYNAMIC or geom.rgba[3] < 0.5:
                continue
            if scene.ngeom == scene.maxgeom:
                return
            shadow = scene.geoms[scene.ngeom]
            mujoco.mjv_initGeom(shadow, geom.type, _NOWHERE, _NOWHERE, _STRAIGHT, _SHADOW_RGBA)
            shadow.size[:] = geom.size
            shadow.dataid = geom.dataid
            above = geom.pos - (0, 0, floor)
            shadow.pos[:] = self._flatten @ above + (0, 0, floor + self._lift)
            shadow.mat[:] = self._flatten @ geom.mat
            shadow.specular = shadow.shininess = shadow.reflectance = 0
            scene.ngeom += 1


@functools.cache
def _context_of_process() -> mujoco.GLContext:
    """Return an OpenGL context, one for all painters: opening it takes as long as forty frames."""
    context = mujoco.GLContext(64, 48)  # its own buffer is never drawn to
    context.make_current()
    atexit.register(context.free)  # OSMesa's own clean-up comes too late and complains
    return context


@contextlib.contextmanager
def _broken_by_drivers() -> Generator[None]:
    try:
        yield
    except Exception as error:  # drivers and their loaders raise anything
        raise PainterBroken(f"{type(error).__name__}: {error}") from error


def _halve(picture: np.ndarray) -> np.ndarray:
    """Return the picture at half its size, each pixel the mean of four."""
    height, width, _ = picture.shape
    blocks = picture.reshape(height // 2, 2, width // 2, 2, 3)
    total = blocks[:, 0].astype(np.uint16) + blocks[:, 1]
    return ((total[:, :, 0] + total[:, :, 1] + 2) >> 2).astype(np.uint8)


class _Rays(NamedTuple):
    """Directions of n rays and what they see when nothing is in the way."""

    directions: np.ndarray  # (n, 3) unit vectors
    sky: np.ndarray  # (n, 3) colour
    down: np.ndarray  # (k,) indices of the rays that meet the floor
    reach: np.ndarray  # (k,) distance to the floor per metre of the camera's height
    step: np.ndarray  # (k, 2) the same distance in x and y
    blur: np.ndarray  # (k, 2) width of a pixel on the floor in x and y, likewise


class RayPainter:
    """Casts a ray per pixel that may see a geom, four where geoms meet; the rest is arithmetic."""

    def __init__(self, model: mujoco.MjModel, width: int, height: int) -> None:
        self._model = model
        self._size = (height, width)
        self._floor = floor_height(model)
        self._tile = look.tile_size_m(model)
        self._radius = radius_m(model)
        planes = model.geom_type == mujoco.mjtGeom.mjGEOM_PLANE
        if self._floor is not None:
            model.geom_group[planes] = _FLOOR_GROUP
        self._groups = np.array([1, 1, 1, 0, 0, 0], dtype=np.uint8)  # those MuJoCo shows
        self._colours = _geom_colours(model)
        self._colours[planes, :3] = (_DARK + _BRIGHT) / 2
        self._has_ramps = self._floor is None and bool(planes.any())
        self._solid = np.flatnonzero((model.geom_group < 3) & (self._colours[:, 3] > 0.1))
        self._view: tuple[tuple[float, float], _Rays] | None = None  # of the last direction

    def paint(self, data: mujoco.MjData, camera: Camera) -> np.ndarray:
        """Return a new (H, W, 3) uint8 picture."""
        direction = (camera.azimuth_deg, camera.elevation_deg)
        if self._view is None or self._view[0] != direction:
            pixels = np.indices(self._size).reshape(2, -1).T
            self._view = (direction, self._rays(camera, pixels))
        origin = camera.axes()[0]
        picture, seen = self._look(data, origin, self._view[1], self._may_hit(data, camera))
        edges = self._edges(seen)
        pixels = np.column_stack(np.unravel_index(edges, self._size))[:, None] + _SUBPIXELS
        finer, _ = self._look(data, origin, self._rays(camera, pixels.reshape(-1, 2)), None)
        picture[edges] = finer.reshape(-1, len(_SUBPIXELS), 3).mean(1)
        np.clip(picture, 0, 1, out=picture)
        return (picture * np.float32(255)).astype(np.uint8).reshape(*self._size, 3)

    def close(self) -> None:
        """Free the cached rays."""
        self._view = None

    def _rays(self, camera: Camera, pixels: np.ndarray) -> _Rays:
        """Return the rays through `pixels` (n, 2): rows and columns, whole ones at their centre."""
        height, width = self._size
        _, forward, right, up = camera.axes()
        pixel = 2 * np.tan(np.radians(FOV_DEG / 2)) / height
        from_centre = (pixels + 0.5 - (height / 2, width / 2)) * pixel
        directions = forward - from_centre[:, :1] * up + from_centre[:, 1:] * right
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        blend = np.clip(directions[:, 2:], 0, 1).astype(np.float32) ** np.float32(0.6)
        sky = _HORIZON * (1 - blend) + _ZENITH * blend
        down = np.flatnonzero(directions[:, 2] < -1e-4)
        reach = (-1 / directions[down, 2:]).astype(np.float32)  # (k, 1)
        level = directions[down, :2].astype(np.float32)
        # A pixel covers reach * pixel across the ray, and that again times reach along it.
        along = level / np.maximum(np.linalg.norm(level, axis=1, keepdims=True), 1e-9)
        blur = np.hypot(along[:, ::-1], along * reach) * reach * np.float32(pixel)
        return _Rays(directions, sky, down, reach[:, 0], level * reach, blur)

    def _look(
        self, data: mujoco.MjData, origin: np.ndarray, rays: _Rays, candidates: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the colour (n, 3) and the number of the geom or shadow (n,) that each ray sees.

        Geoms are looked for along the rays `candidates`, or along every one.
        """
        picture = rays.sky.copy()
        seen = np.full(len(picture), _NOTHING, dtype=np.int32)
        if self._floor is not None and origin[2] > self._floor:
            points, colours = self._floor_colours(origin, rays)
            shaded = self._shadowed(data, points)
            colours[shaded] = _SHADOW * _FLOOR_LIGHT
            picture[rays.down] = colours
            seen[rays.down[shaded]] = len(self._colours)
        if candidates is None:
            candidates = np.arange(len(picture))
        geoms, normals = self._cast(data, origin, rays.directions[candidates])
        hit = geoms >= 0
        facing = -(normals[hit] @ _LIGHT)
        light = look.LIGHT_AMBIENT + look.LIGHT_DIFFUSE * np.clip(facing, 0, 1)
        picture[candidates[hit]] = self._colours[geoms[hit], :3] * light[:, None]
        seen[candidates[hit]] = geoms[hit]
        return picture, seen

    def _cast(
        self, data: mujoco.MjData, origin: np.ndarray, directions: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the geom hit by each ray (n,), -1 for none, and the normals there (n, 3)."""
        count = len(directions)
        geoms = np.full(count, _NOTHING, dtype=np.int32)
        distances, normals = np.empty(count), np.zeros(3 * count)
        if count:
            flat = np.ascontiguousarray(directions).ravel()
            static, without = True, -1  # with geoms that stand still, and of every body
            seen = (geoms, distances, normals, count, mujoco.mjMAXVAL)
            mujoco.mj_multiRay(
                self._model, data, origin, flat, self._groups, static, without, *seen
            )
        return geoms, normals.reshape(-1, 3)

    def _floor_colours(self, origin: np.ndarray, rays: _Rays) -> tuple[np.ndarray, np.ndarray]:
        """Return where rays meet the floor (k, 2), and the tiles' colours there (k, 3)."""
        assert self._floor is not None
        height = np.float32(origin[2] - self._floor)
        points = origin[:2].astype(np.float32) + rays.step * height
        tile = np.float32(self._tile)
        bright = _checker(points / tile, rays.blur * (height / tile) + np.float32(1e-3))[:, None]
        colours = (_DARK + (_BRIGHT - _DARK) * bright) * _FLOOR_LIGHT
        clear = np.exp(-((rays.reach * height / np.float32(60 * self._radius)) ** 2))[:, None]
        return points, _HORIZON + (colours - _HORIZON) * clear

    def _shadowed(self, data: mujoco.MjData, points: np.ndarray) -> np.ndarray:
        """Return which floor points (k, 2) lie in the shadow of a moving geom."""
        assert self._floor is not None
        moving = self._solid[self._model.geom_bodyid[self._solid] > 0]
        if not len(moving):
            return np.empty(0, dtype=np.intp)
        radius = self._model.geom_rbound[moving, None] / abs(_LIGHT[2])
        fall = (data.geom_xpos[moving, 2:] - self._floor) / -_LIGHT[2]
        spots = data.geom_xpos[moving, :2] + fall * _LIGHT[:2]
        low, high = (spots - radius).min(0), (spots + radius).max(0)
        near = np.flatnonzero(np.all((points > low) & (points < high), axis=1))
        # One far lamp instead of parallel light: then all these rays start at one point.
        middle = np.array([*((low + high) / 2), self._floor])
        lamp = middle - _LIGHT * 200 * self._radius
        targets = np.column_stack((points[near], np.full(len(near), self._floor))) - lamp
        targets /= np.linalg.norm(targets, axis=1, keepdims=True)
        return near[self._cast(data, lamp, targets)[0] >= 0]

    def _may_hit(self, data: mujoco.MjData, camera: Camera) -> np.ndarray:
        """Return the pixels (n,) inside the bounding rectangle of some geom."""
        height, width = self._size
        origin, forward, right, up = camera.axes()
        mask = np.zeros(self._size, dtype=bool)
        offset = data.geom_xpos[self._solid] - origin
        bound = self._model.geom_rbound[self._solid]
        depth = offset @ forward
        # A plane has no bounds, and a camera inside a bounding sphere may see the geom anywhere.
        if self._has_ramps or np.any(np.abs(depth) < 1.05 * bound):
            return np.arange(mask.size)
        for i in np.flatnonzero(depth > 0):
            scale = height / (2 * np.tan(np.radians(FOV_DEG / 2)))
            # tangents to the sphere lie within r / sqrt(d^2 - r^2) of its centre's direction
            spread = bound[i] / np.sqrt(depth[i] ** 2 - bound[i] ** 2)
            x, y = (offset[i] @ axis / depth[i] for axis in (right, up))
            wide_x, wide_y = spread * (1 + x * x) * scale + 1, spread * (1 + y * y) * scale + 1
            column, row = width / 2 + x * scale, height / 2 - y * scale
            rows = slice(max(0, int(row - wide_y)), max(0, int(row + wide_y) + 1))
            columns = slice(max(0, int(column - wide_x)), max(0, int(column + wide_x) + 1))
            mask[rows, columns] = True
        return np.flatnonzero(mask)

    def _edges(self, seen: np.ndarray) -> np.ndarray:
        """Return the pixels whose right or lower neighbour sees something else, and that one."""
        grid = seen.reshape(self._size)
        edge = np.zeros(self._size, dtype=bool)
        across, down = grid[:, 1:] != grid[:, :-1], grid[1:] != grid[:-1]
        edge[:, 1:] |= across
        edge[:, :-1] |= across
        edge[1:] |= down
        edge[:-1] |= down
        return np.flatnonzero(edge.ravel())


def _checker(points: np.ndarray, width: np.ndarray) -> np.ndarray:
    """Return the mean of a 0/1 checkerboard of unit tiles over boxes of `width` at `points`.

    The integral of the square wave is a triangle wave, so the mean is a difference of two of them
    over the width (Quilez, "filtering the checkerboard pattern").
    """

    def triangle(x: np.ndarray) -> np.ndarray:
        half = x * np.float32(0.5)
        return np.abs(half - np.floor(half) - np.float32(0.5))

    wave = 2 * (triangle(points - width / 2) - triangle(points + width / 2)) / width
    return np.float32(0.5) - np.float32(0.5) * wave[:, 0] * wave[:, 1]


def _geom_colours(model: mujoco.MjModel) -> np.ndarray:
    """Return what colour each geom is drawn in, (geoms, 4); its own, else its material's."""
    colours = model.geom_rgba.copy()
    plain = np.all(colours == np.float32(0.5), axis=1, where=[True, True, True, False])
    from_material = plain & (model.geom_matid >= 0)
    colours[from_material] = model.mat_rgba[model.geom_matid[from_material]]
    return colours
