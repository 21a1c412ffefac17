"""What draws a frame, whatever the backend."""

from __future__ import annotations

from typing import Protocol

import mujoco
import numpy as np

from telic.rendering.camera import Camera


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


def floor_height(model: mujoco.MjModel) -> float | None:
    """Return the height of the one level floor of a model, or None when there is no such floor."""
    planes = np.flatnonzero(model.geom_type == mujoco.mjtGeom.mjGEOM_PLANE)
    level = [
        float(model.geom_pos[i, 2])
        for i in planes
        # The quaternion of a level plane turns about z only.
        if model.geom_bodyid[i] == 0 and np.allclose(model.geom_quat[i, 1:3], 0, atol=1e-6)
    ]
    return level[0] if len(level) == 1 and len(planes) == 1 else None
