"""Contents of motion files before retargeting: robot joints, or points of a skeleton."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from telic.errors import BadFile

MAX_VALUES = 200_000_000
"""maximum number of values per file"""


def most_bytes(content: bytes) -> int:
    """Return the maximum size of the data in a file, so that a small file stays small."""
    return min(8 * MAX_VALUES, max(1 << 26, 50 * len(content)))


class ReadOptions(NamedTuple):
    """Values that replace missing or wrong values of a file, or None to detect a value."""

    fps: float | None = None
    up: Literal["y", "z"] | None = None
    """vertical axis of the file's world"""
    scale: float | None = None
    """meters per unit of length"""
    joints: str | None = None
    """name of the order of unnamed joint columns (see `robots.JOINT_ORDERS`)"""
    cut: tuple[float, float] | None = None
    """start and end of the part to read, in s"""


class BodyPositions(NamedTuple):
    """Body positions in a file, used to verify its joints by forward kinematics."""

    points: np.ndarray
    """body positions (T, B, 3), in m"""
    names: tuple[str, ...] | None
    """body names, or None for all bodies in an unknown order"""
    is_local: bool = False
    """whether points are in the root frame rather than in the world frame"""


@dataclass(frozen=True, eq=False)
class RobotTrack:
    """Motion of a robot, as root poses and joint positions."""

    name: str
    fps: float | None
    """frames per second, or None if missing in the file"""
    root_pos: np.ndarray
    root_quat: np.ndarray
    """root orientations (T, 4), w first"""
    joint_pos: np.ndarray
    joint_names: tuple[str, ...] | None
    steps: tuple[str, ...] = ()
    bodies: BodyPositions | None = None
    joint_vel: np.ndarray | None = None
    axes: np.ndarray | None = None
    """axis of each unnamed column (J, 3), if the file has rotation vectors"""


@dataclass(frozen=True, eq=False)
class SkeletonTrack:
    """Motion of a skeleton, as named points."""

    name: str
    fps: float
    points: dict[str, np.ndarray]
    """world positions (T, 3) in m with z up, with the names of `RobotFigure.points`"""
    root_quat: np.ndarray
    """pelvis orientations (T, 4), with x forward and z up when standing"""
    steps: tuple[str, ...] = ()


MotionTrack = RobotTrack | SkeletonTrack


def finite(values: Any, where: str, shape: tuple[int | None, ...]) -> np.ndarray:
    """Return an array of finite numbers, or raise BadFile with the location of the error."""
    try:
        array: Any = np.asarray(values)
    except ValueError:
        raise BadFile(f"{where}: rows have different lengths.") from None
    if array.dtype.kind not in "fiub":
        raise BadFile(f"{where} contains {array.dtype} instead of numbers.")
    fits = array.ndim == len(shape) and all(
        b in (None, a) for a, b in zip(array.shape, shape, strict=True)
    )
    if not fits:
        shown = ", ".join("any" if each is None else str(each) for each in shape)
        raise BadFile(f"{where} has shape {array.shape} instead of ({shown}).")
    if array.size > MAX_VALUES:
        raise BadFile(f"{where} has {array.size:,} values, more than {MAX_VALUES:,}.")
    array = array.astype(np.float64)
    bad = ~np.isfinite(array) | (np.abs(array) > 1e9)
    if bad.any():
        place = tuple(int(each) for each in np.argwhere(bad)[0])
        raise BadFile(f"{where}, frame {place[0]}: invalid value {array[place]} at {place}.")
    return array


def frame_rate(value: Any, where: str) -> float:
    """Return a frame rate, or raise BadFile if it is not between 1 and 2000."""
    array = np.asarray(value)
    if array.size != 1 or array.dtype.kind not in "fiu":
        raise BadFile(f"{where} is {str(value)[:40]} instead of a number of frames per second.")
    rate = float(array.reshape(-1)[0])
    if not 1.0 <= rate <= 2000.0:
        raise BadFile(f"{where} is {rate:g} frames per second, but must be between 1 and 2000.")
    return rate


def required_rate(stated: float | None, options: ReadOptions, where: str) -> float:
    """Return the frame rate from the options or the file. Raises BadFile if neither has one.

    The rate has no default, because a 60 fps file read at 30 fps would play at half speed.
    """
    fps = options.fps or stated
    if fps is None:
        raise BadFile(
            f"{where} does not specify a frame rate.",
            hint="Pass --fps 30 for LAFAN1 as retargeted by Unitree, or 50 for most trackers.",
        )
    return fps


def cut_frames(frames: int, fps: float, options: ReadOptions, where: str) -> slice:
    """Return the frames within `options.cut`. Raises BadFile if `options.cut` contains none."""
    if options.cut is None:
        return slice(0, frames)
    first, last = (round(each * fps) for each in (options.cut[0], min(options.cut[1], frames)))
    if last - first < 1 or first >= frames - 1:
        raise BadFile(
            f"{where} lasts {frames / fps:.2f} s and has no frames between {options.cut[0]:g} "
            f"and {options.cut[1]:g} s."
        )
    return slice(max(first, 0), last + 1)


_RATES = ("fps", "mocap_framerate", "mocap_frame_rate", "frame_rate", "framerate")


class Arrays(NamedTuple):
    """Named arrays of a motion."""

    values: Mapping[str, Any]
    where: str
    name: str

    def __contains__(self, key: object) -> bool:
        return self.values.get(str(key)) is not None

    def numbers(self, key: str, *shape: int | None) -> np.ndarray:
        """Return an array of the given shape, or raise BadFile."""
        if key not in self:
            raise BadFile(f"{self.where} has no {key}.")
        return finite(self.values[key], f"{self.where}, {key}", shape)

    def first(self, *keys: str) -> str:
        """Return the first key present in the file, or the last key if all are missing."""
        return next((key for key in keys if key in self), keys[-1])

    def words(self, key: str) -> tuple[str, ...] | None:
        """Return a list of names, or None if missing."""
        if key not in self:
            return None
        array: Any = np.asarray(self.values[key])
        if array.dtype.kind not in "US" or array.ndim != 1:
            raise BadFile(f"{self.where}, {key}: expected a list of names.")
        return tuple(x.decode(errors="replace") if isinstance(x, bytes) else str(x) for x in array)

    def rate(self) -> float | None:
        """Return the frame rate of the file, or None if missing."""
        key = self.first(*_RATES)
        return frame_rate(self.values[key], f"{self.where}, {key},") if key in self else None
