"""Draw with OpenGL. Import only in a process whose MUJOCO_GL names a backend that works."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import mujoco
import numpy as np

from telic.rendering.camera import Camera, radius_m
from telic.rendering.look import FLOOR_SHADOW, LIGHT_DIRECTION, tile_size_m
from telic.rendering.painter import PainterBroken, floor_height

_FLAT = 1e-3  # height that is left of a geom in its shadow: keeps its faces turned outwards
_SHADOW = np.array((*FLOOR_SHADOW, 1), dtype=np.float32)
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
        with _broken_by_drivers():
            self._renderer = mujoco.Renderer(model, height * (1 + fine), width * (1 + fine))
        flags = self._renderer.scene.flags
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
        self._renderer.update_scene(data, self._camera, self._option)
        if self._floor is not None:
            self._move_floor()
            self._add_shadows(self._floor)
        with _broken_by_drivers():
            picture = self._renderer.render()
        return _halve(picture) if self._fine else picture

    def close(self) -> None:
        """Free the OpenGL context."""
        self._renderer.close()

    def _move_floor(self) -> None:
        """Put the floor under what is looked at, by whole periods of its tiles.

        MuJoCo's own endless planes do the same, for a third of the time of a frame.
        """
        scene = self._renderer.scene
        for i in range(scene.ngeom):
            if scene.geoms[i].type == mujoco.mjtGeom.mjGEOM_PLANE:
                offset = self._camera.lookat[:2] - scene.geoms[i].pos[:2]
                scene.geoms[i].pos[:2] += self._period * np.round(offset / self._period)

    def _add_shadows(self, floor: float) -> None:
        scene = self._renderer.scene
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


@contextlib.contextmanager
def _broken_by_drivers() -> Iterator[None]:
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
