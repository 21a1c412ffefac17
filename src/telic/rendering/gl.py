"""Draw with OpenGL. Import only in a process whose MUJOCO_GL names a backend that works."""

from __future__ import annotations

import atexit
import contextlib
import functools
from collections.abc import Generator

import mujoco
import numpy as np

from telic.rendering.camera import Camera, PainterBroken, floor_height, radius_m
from telic.rendering.look import FLOOR_SHADOW, LIGHT_DIRECTION, tile_size_m

_FLAT = 1e-3  # height that is left of a geom in its shadow: keeps its faces turned outwards
_SHADOW = np.array((*FLOOR_SHADOW, 1), dtype=np.float32)
_MOST_GEOMS = 10_000  # with their shadows; what is beyond is not drawn
_NOWHERE, _STRAIGHT = np.zeros(3), np.eye(3).ravel()
_SHADOW_LIFT = 2e-3  # of the robot's radius, above the floor


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
        self._period = 2 * tile_size_m(model)
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
        flags = self._scene.flags
        flags[mujoco.mjtRndFlag.mjRND_SHADOW] = False
        flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = False
        flags[mujoco.mjtRndFlag.mjRND_FOG] = False
        flags[mujoco.mjtRndFlag.mjRND_HAZE] = False
        self._option = mujoco.MjvOption()
        self._option.sitegroup[:] = 0
        self._camera = mujoco.MjvCamera()
        # p - L (n.p) / (n.L) with n = z: along the light L onto the floor
        self._flatten = np.eye(3) - np.outer(LIGHT_DIRECTION, (0, 0, 1)) / LIGHT_DIRECTION[2]
        self._flatten[2] = 0, 0, _FLAT

    def paint(self, data: mujoco.MjData, camera: Camera) -> np.ndarray:
        """Return a new (H, W, 3) uint8 picture."""
        self._camera.lookat[:] = camera.look_at
        self._camera.distance = camera.distance_m
        self._camera.azimuth = camera.azimuth_deg
        self._camera.elevation = camera.elevation_deg
        mujoco.mjv_updateScene(
            self._model,
            data,
            self._option,
            None,
            self._camera,
            mujoco.mjtCatBit.mjCAT_ALL.value,
            self._scene,
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
            mujoco.mjv_initGeom(shadow, geom.type, _NOWHERE, _NOWHERE, _STRAIGHT, _SHADOW)
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
