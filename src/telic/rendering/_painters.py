"""Render a model with OpenGL, or with MuJoCo's ray casting, which is slower but needs no driver.

OpenGL works only in a process whose MUJOCO_GL names a working backend.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
from collections.abc import Generator

import mujoco
import numpy as np

from telic.rendering import look
from telic.rendering._camera import FOV_DEG, Camera, floor_height, radius_m

_FLAT = 1e-3  # remaining height of a geom in its shadow: keeps its faces turned outwards
_SHADOW_RGBA = np.array((*look.FLOOR_SHADOW, 1), dtype=np.float32)
_MAX_GEOMS = 10_000  # including shadows; further geoms are not drawn
_NOWHERE, _STRAIGHT = np.zeros(3), np.eye(3).ravel()
_SHADOW_LIFT = 2e-3  # height above the floor, in robot radii
_LIGHT = look.LIGHT_DIRECTION / np.linalg.norm(look.LIGHT_DIRECTION)


class RenderBackendError(Exception):
    """Raised if the rendering backend fails, while another backend may work."""


class GlPainter:
    """Render images with MuJoCo's OpenGL renderer.

    Shadow maps and multisampling would take a software renderer two to four times as long.
    Therefore, shadows are copies of the geoms projected onto the floor along the light direction.
    """

    def __init__(self, model: mujoco.MjModel, width: int, height: int) -> None:
        self._floor = floor_height(model)
        self._period = 2 * look.tile_size_m(model)
        self._lift = _SHADOW_LIFT * radius_m(model)
        # Limit the buffer to the image size: MuJoCo clears all of it.
        self._height, self._width = height, width
        model.vis.global_.offheight, model.vis.global_.offwidth = height, width
        self._model = model
        with _broken_by_drivers():
            _context_of_process()
            self._context = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_50.value)
            mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN.value, self._context)
        self._scene = mujoco.MjvScene(model, _MAX_GEOMS)
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
        """Render `data`, whose kinematics must be up to date, to a new (H, W, 3) uint8 image."""
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
            box = mujoco.MjrRect(0, 0, self._width, self._height)
            mujoco.mjr_render(box, self._scene, self._context)
            picture = np.empty((self._height, self._width, 3), np.uint8)
            mujoco.mjr_readPixels(picture, None, box, self._context)
        return picture[::-1]  # OpenGL rows start at the bottom

    def close(self) -> None:
        """Free the model's textures and buffers."""
        self._context.free()

    def _move_floor(self) -> None:
        """Move the floor below the look-at point by whole tile periods.

        MuJoCo's infinite planes have the same effect, but take a third of the frame time.
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
    """Return the shared OpenGL context. Creating a context takes as long as forty frames."""
    context = mujoco.GLContext(64, 48)  # its buffer is not used
    context.make_current()
    atexit.register(context.free)  # OSMesa's own cleanup is too late and prints errors
    return context


@contextlib.contextmanager
def _broken_by_drivers() -> Generator[None]:
    try:
        yield
    except Exception as error:  # drivers may raise any exception
        raise RenderBackendError(f"{type(error).__name__}: {error}") from error


class RayPainter:
    """Render images by casting one ray per pixel, without OpenGL."""

    def __init__(self, model: mujoco.MjModel, width: int, height: int) -> None:
        self._model = model
        planes = model.geom_type == mujoco.mjtGeom.mjGEOM_PLANE
        model.geom_size[planes, :2] = 0  # without an edge
        self._is_plane = np.append(planes, False)  # the last row is for rays that hit nothing
        self._tile = look.tile_size_m(model)
        self._radius = radius_m(model)
        self._groups = np.array([1, 1, 1, 0, 0, 0], dtype=np.uint8)  # the groups MuJoCo shows
        colors = model.geom_rgba.copy()
        plain = np.all(colors[:, :3] == np.float32(0.5), axis=1) & (model.geom_matid >= 0)
        colors[plain] = model.mat_rgba[model.geom_matid[plain]]
        self._colors = colors[:, :3]
        self._pixel = 2 * np.tan(np.radians(FOV_DEG / 2)) / height
        rows, columns = np.indices((height, width)).reshape(2, -1) + 0.5
        self._offsets = np.column_stack((height / 2 - rows, columns - width / 2)) * self._pixel
        self._shape = (height, width, 3)

    def paint(self, data: mujoco.MjData, camera: Camera) -> np.ndarray:
        """Render `data` to a new (H, W, 3) uint8 image."""
        origin, forward, right, up = camera.axes()
        rays = forward + self._offsets[:, :1] * up + self._offsets[:, 1:] * right
        rays /= np.linalg.norm(rays, axis=1, keepdims=True)
        blend = np.clip(rays[:, 2:], 0, 1) ** 0.6
        picture = np.array(look.HORIZON) * (1 - blend) + np.array(look.ZENITH) * blend
        geoms, distances, normals = self._cast(data, origin, rays)
        light = look.LIGHT_AMBIENT - look.LIGHT_DIFFUSE * np.clip(normals @ _LIGHT, -1, 0)
        body = np.flatnonzero((geoms >= 0) & ~self._is_plane[geoms])
        picture[body] = self._colors[geoms[body]] * light[body, None]
        floor = np.flatnonzero(self._is_plane[geoms])
        if len(floor):
            away = distances[floor, None]
            points = origin + away * rays[floor]
            width = away * self._pixel / np.maximum(-rays[floor, 2:], 0.02) / self._tile
            tiles = _checker(points[:, :2] / self._tile, width + 1e-3)[:, None]
            colors = np.array(look.FLOOR_DARK) * (1 - tiles) + np.array(look.FLOOR_LIGHT) * tiles
            # One far lamp instead of parallel light: all rays to the floor start at one point.
            lamp = camera.look_at - 200 * self._radius * _LIGHT
            near = np.flatnonzero(
                np.linalg.norm(points - camera.look_at, axis=1) < 4 * self._radius
            )
            beams = points[near] - lamp
            beams /= np.linalg.norm(beams, axis=1, keepdims=True)
            shaded = near[~self._is_plane[self._cast(data, lamp, beams)[0]]]
            colors[shaded] = look.FLOOR_SHADOW
            clear = np.exp(-((away / (60 * self._radius)) ** 2))
            picture[floor] = picture[floor] * (1 - clear) + colors * light[floor, None] * clear
        return (np.clip(picture, 0, 1) * 255).astype(np.uint8).reshape(self._shape)

    def close(self) -> None:
        """Do nothing, because no resources are held."""

    def _cast(
        self, data: mujoco.MjData, origin: np.ndarray, rays: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the geom that each ray hits (-1 for none), the distances and the normals."""
        count = len(rays)
        geoms = np.full(count, -1, dtype=np.int32)
        distances, normals = np.zeros(count), np.zeros(3 * count)
        if count:
            static, without, most = True, -1, mujoco.mjMAXVAL
            mujoco.mj_multiRay(
                *(self._model, data, origin, rays.ravel(), self._groups, static, without),
                *(geoms, distances, normals, count, most),
            )
        return geoms, distances, normals.reshape(-1, 3)


def _checker(points: np.ndarray, width: np.ndarray) -> np.ndarray:
    """Return the mean of a 0/1 checkerboard of unit tiles over boxes of `width` at `points`.

    The integral of the square wave is a triangle wave, so the mean is the difference of two
    triangle waves divided by the width (Quilez, "filtering the checkerboard pattern").
    """

    def triangle(x: np.ndarray) -> np.ndarray:
        return np.abs(x / 2 - np.floor(x / 2) - 0.5)

    wave = 2 * (triangle(points - width / 2) - triangle(points + width / 2)) / width
    return 0.5 - 0.5 * wave[:, 0] * wave[:, 1]
