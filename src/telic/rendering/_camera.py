"""Camera placement for each frame of an episode."""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np

from telic.rendering.job import View
from telic.robots.structure import geom_bounds

FOV_DEG = 45.0  # vertical; MuJoCo's default
# azimuth and elevation of the viewing direction, in degrees; +x is to the right in all but "front"
_DIRECTIONS: dict[View, tuple[float, float]] = {
    "side": (90.0, -14.0),
    "front": (180.0, -14.0),
    "top": (90.0, -89.9),
    "three-quarter": (125.0, -20.0),
    "rear-quarter": (55.0, -20.0),
}
# A sphere of radius R fills the height at R / sin(fov / 2) = 2.6 R; the rest is margin.
_DISTANCE_PER_RADIUS = 3.2
_AIR, _LITTLE_AIR = 1.3, 1.12  # margins for stationary and for moving robots
_NEAR_PER_RADIUS = 2.7
_SMOOTH_ACROSS_S = 0.35
_SMOOTH_HEIGHT_S = 1.0
_MAX_RISE = 8.0  # in robot radii; beyond this, vertical motion is followed
_BELOW = 0.15  # fraction of the image kept free at the bottom for the caption
_MARKS_M = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_MAX_MARKS = 6


@dataclass(frozen=True, slots=True)
class Camera:
    """Camera pose, with look-at point, distance and viewing direction."""

    look_at: np.ndarray  # (3,) meters
    distance_m: float
    azimuth_deg: float
    elevation_deg: float

    def axes(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return the position and the unit vectors forward, right and up, each of shape (3,)."""
        azimuth, elevation = np.radians((self.azimuth_deg, self.elevation_deg))
        level = np.cos(elevation)
        forward = np.array([level * np.cos(azimuth), level * np.sin(azimuth), np.sin(elevation)])
        right = np.array([np.sin(azimuth), -np.cos(azimuth), 0.0])
        up = np.cross(right, forward)
        return self.look_at - self.distance_m * forward, forward, right, up


def place_cameras(
    model: mujoco.MjModel,
    poses: np.ndarray,
    frame_s: float,
    view: View | None = None,
    aspect: float = 4 / 3,
    *,
    near: bool = False,
) -> list[Camera]:
    """Return a camera for each of `poses` (frames, nq), which are `frame_s` seconds apart.

    A mobile robot is followed horizontally but not vertically, so that jumps remain visible and the
    whole robot stays in view. With `near`, it is followed closely in all directions. The camera of
    a robot that cannot travel is fixed. The default `view` is "top" for robots that move in a
    horizontal plane, and "side" for all others.
    """
    if view is None:
        view = "top" if _moves_flat(model) else "side"
    boxes = _boxes(model, poses)  # (frames, 2, 3)
    if _travels(model):
        look_at, distance = _followed(model, boxes, frame_s, view, aspect, near)
    else:
        box = np.array((boxes[:, 0].min(0), boxes[:, 1].max(0)))
        distance = _distance_to_see(np.ptp(box, axis=0) / 2, view, aspect, _AIR)
        look_at = np.broadcast_to(box.mean(0), (len(poses), 3))
    return [Camera(point, max(distance, 1e-3), *_DIRECTIONS[view]) for point in look_at]


def _followed(
    model: mujoco.MjModel,
    boxes: np.ndarray,
    frame_s: float,
    view: View,
    aspect: float,
    near: bool,
) -> tuple[np.ndarray, float]:
    """Return the look-at points, (frames, 3), and the distance that keeps `boxes` in view."""
    centers, radius = boxes.mean(1), radius_m(model)
    across = _smooth(centers[:, :2], 0.0 if near else _SMOOTH_ACROSS_S / frame_s)
    floor = floor_height(model)
    low, high = boxes[:, 0, 2].min(), boxes[:, 1, 2].max()
    low = low if floor is None else min(low, floor)
    if near or high - low > _MAX_RISE * radius:
        usual = _NEAR_PER_RADIUS if near else _DISTANCE_PER_RADIUS
        height = _smooth(centers[:, 2:], 0.0 if near else _SMOOTH_HEIGHT_S / frame_s)
    else:
        usual = _DISTANCE_PER_RADIUS
        height = np.full((len(boxes), 1), ((1 + _BELOW) * low + (1 - _BELOW) * high) / 2)
    look_at = np.column_stack((across, height))
    away = np.abs(boxes - look_at[:, None]).max((0, 1))  # (3,), farthest point per axis
    seen = _distance_to_see(away, view, aspect, _LITTLE_AIR)
    return look_at, max(seen, 0.0 if near else usual * radius)


def height_marks(camera: Camera, model: mujoco.MjModel, pixels: int) -> list[tuple[float, int]]:
    """Return round heights above the floor with the pixel row of each.

    Heights apply at the distance of the look-at point. The result is empty without a level floor,
    for views from above, and for robots that cannot travel (their floor may have been added).
    """
    floor = floor_height(model)
    if floor is None or camera.elevation_deg < -45.0 or not _travels(model):
        return []
    scale = pixels / (2 * np.tan(np.radians(FOV_DEG / 2)))
    position, forward, _, up = camera.axes()

    def line(height: float) -> float:
        offset = np.array([*camera.look_at[:2], floor + height]) - position
        return pixels / 2 - scale * float(offset @ up) / float(offset @ forward)

    seen_m = 2 * camera.distance_m * np.tan(np.radians(FOV_DEG / 2))
    step = next((mark for mark in _MARKS_M if seen_m / mark <= _MAX_MARKS), _MARKS_M[-1])
    marks = [(n * step, round(line(n * step))) for n in range(2 * _MAX_MARKS)]
    return [(height, row) for height, row in marks if 0 <= row < pixels]


def radius_m(model: mujoco.MjModel) -> float:
    """Return half the diagonal of the robot's bounding box in its default pose."""
    return float(np.linalg.norm(np.ptp(first_box(model), axis=0))) / 2


def first_box(model: mujoco.MjModel) -> np.ndarray:
    """Return the robot's bounding box in its default pose, (2, 3)."""
    return _boxes(model, model.qpos0[None])[0]


def _distance_to_see(half: np.ndarray, view: View, aspect: float, air: float) -> float:
    """Return the camera distance at which a box of half sides (3,) fits with a margin."""
    _, forward, right, up = Camera(np.zeros(3), 1.0, *_DIRECTIONS[view]).axes()
    deep, wide, high = (float(np.abs(axis) @ half) for axis in (forward, right, up))
    return deep + air * max(high, wide / aspect) / np.tan(np.radians(FOV_DEG / 2))


def _boxes(model: mujoco.MjModel, poses: np.ndarray) -> np.ndarray:
    """Return the bounding box of the moving geoms for each pose, (frames, 2, 3)."""
    moving = np.flatnonzero((model.geom_bodyid > 0) & (model.geom_group < 3))
    if not len(moving):
        moving = np.flatnonzero(model.geom_type != mujoco.mjtGeom.mjGEOM_PLANE)
    if not len(moving):
        return np.tile(np.array([[-1.0] * 3, [1.0] * 3]), (len(poses), 1, 1))
    data = mujoco.MjData(model)
    boxes = np.empty((len(poses), 2, 3))
    for frame, pose in enumerate(poses):
        data.qpos[:] = pose
        mujoco.mj_kinematics(model, data)
        bounds = geom_bounds(model, data, moving)
        boxes[frame] = bounds[:, 0].min(0), bounds[:, 1].max(0)
    return boxes


def _smooth(track: np.ndarray, sigma: float) -> np.ndarray:
    """Smooth a (frames, n) track with a Gaussian filter of `sigma` frames."""
    reach = int(min(3 * sigma, len(track) - 1))
    if reach < 1:
        return track
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2)
    kernel /= kernel.sum()
    # Odd reflection preserves constant velocity at both ends.
    padded = np.pad(track, ((reach, reach), (0, 0)), mode="reflect", reflect_type="odd")
    return np.column_stack([np.convolve(column, kernel, mode="valid") for column in padded.T])


def _travels(model: mujoco.MjModel) -> bool:
    """Return whether the base has a free joint or an unlimited slide joint."""
    joints = np.flatnonzero(model.body_parentid[model.jnt_bodyid] == 0)
    kinds = model.jnt_type[joints]
    endless = (kinds == mujoco.mjtJoint.mjJNT_SLIDE) & (model.jnt_limited[joints] == 0)
    return bool(np.any((kinds == mujoco.mjtJoint.mjJNT_FREE) | endless))


def _moves_flat(model: mujoco.MjModel) -> bool:
    """Return whether every joint moves within a horizontal plane."""
    if not model.njnt:
        return False
    upright = np.abs(model.jnt_axis[:, 2])
    hinges = (model.jnt_type == mujoco.mjtJoint.mjJNT_HINGE) & (upright > 0.99)
    slides = (model.jnt_type == mujoco.mjtJoint.mjJNT_SLIDE) & (upright < 0.01)
    return bool(np.all(hinges | slides))


def floor_height(model: mujoco.MjModel) -> float | None:
    """Return the height of the only plane if it is a static level floor, or None."""
    planes = np.flatnonzero(model.geom_type == mujoco.mjtGeom.mjGEOM_PLANE)
    level = [
        float(model.geom_pos[i, 2])
        for i in planes
        # The quaternion of a level plane turns about z only.
        if model.geom_bodyid[i] == 0 and np.allclose(model.geom_quat[i, 1:3], 0, atol=1e-6)
    ]
    return level[0] if len(level) == 1 and len(planes) == 1 else None
