"""The content of a motion file before a robot is chosen: joints of some robot, or a skeleton."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from telic.errors import BadFile

MOST_VALUES = 200_000_000
"""numbers that one file may hold"""


class ReadOptions(NamedTuple):
    """Properties of a file that its content does not state, or states wrongly; None: detect."""

    fps: float | None = None
    up: Literal["y", "z"] | None = None
    """vertical axis of the file's world"""
    scale: float | None = None
    """meters per unit of length"""
    joints: str | None = None
    """name of the order of unnamed joint columns; see `robots.JOINT_ORDERS`"""
    cut: tuple[float, float] | None = None
    """first and last second to read"""


class BodyPositions(NamedTuple):
    """Body positions that a file carries, to verify its joints by forward kinematics."""

    points: np.ndarray
    """(T, B, 3) m"""
    names: tuple[str, ...] | None
    """None: all bodies, in an order that the file does not state"""
    is_local: bool = False
    """whether points are in the frame of the root; otherwise in the world"""


@dataclass(frozen=True, eq=False)
class RobotTrack:
    """Joint positions of a robot."""

    name: str
    fps: float | None
    """None: the file does not state it"""
    root_pos: np.ndarray
    root_quat: np.ndarray
    """(T, 4) w first"""
    joint_pos: np.ndarray
    joint_names: tuple[str, ...] | None
    steps: tuple[str, ...] = ()
    bodies: BodyPositions | None = None
    joint_vel: np.ndarray | None = None
    axes: np.ndarray | None = None
    """(J, 3) axis of each unnamed column, where the file carries rotation vectors"""


@dataclass(frozen=True, eq=False)
class SkeletonTrack:
    """Points of a skeleton."""

    name: str
    fps: float
    points: dict[str, np.ndarray]
    """(T, 3) in the world, z up, m; by the names of `RobotFigure.points`"""
    root_quat: np.ndarray
    """(T, 4) of the pelvis, x ahead and z up when it stands"""
    steps: tuple[str, ...] = ()


MotionTrack = RobotTrack | SkeletonTrack


def finite(values: Any, where: str, shape: tuple[int | None, ...]) -> np.ndarray:
    """Return an array of finite numbers, or raise BadFile with the place of the fault."""
    try:
        array: Any = np.asarray(values)
    except ValueError:
        raise BadFile(f"{where}: rows differ in length.") from None
    if array.dtype.kind not in "fiub":
        raise BadFile(f"{where} holds {array.dtype} instead of numbers.")
    fits = array.ndim == len(shape) and all(
        b in (None, a) for a, b in zip(array.shape, shape, strict=True)
    )
    if not fits:
        shown = ", ".join("any" if each is None else str(each) for each in shape)
        raise BadFile(f"{where} has the shape {array.shape}; ({shown}) was expected.")
    if array.size > MOST_VALUES:
        raise BadFile(f"{where} has {array.size:,} numbers; at most {MOST_VALUES:,} are read.")
    array = array.astype(np.float64)
    bad = ~np.isfinite(array) | (np.abs(array) > 1e9)
    if bad.any():
        place = tuple(int(each) for each in np.argwhere(bad)[0])
        raise BadFile(f"{where}, frame {place[0]}: invalid value {array[place]} at {place}.")
    return array


def frame_rate(value: Any, where: str) -> float:
    """Return frames per second, or raise BadFile for a value outside of 1 to 2000."""
    array = np.asarray(value)
    if array.size != 1 or array.dtype.kind not in "fiu":
        raise BadFile(f"{where} is {str(value)[:40]}; one number of frames per second is expected.")
    rate = float(array.reshape(-1)[0])
    if not 1.0 <= rate <= 2000.0:
        raise BadFile(f"{where} is {rate:g} frames per second; 1 to 2000 are valid.")
    return rate


def required_rate(stated: float | None, options: ReadOptions, where: str) -> float:
    """Return the frame rate: the option's, else the file's; raise BadFile where both are missing.

    A rate is never assumed: a 60 fps file read at 30 is a motion at half speed.
    """
    fps = options.fps or stated
    if fps is None:
        raise BadFile(
            f"{where} does not state its frame rate.",
            hint="Pass it: --fps 30 for LAFAN1 as retargeted by Unitree, 50 for most trackers.",
        )
    return fps


def cut_frames(frames: int, fps: float, options: ReadOptions, where: str) -> slice:
    """Return the frames between the seconds of `options.cut`; raise BadFile where none are left."""
    if options.cut is None:
        return slice(0, frames)
    first, last = (round(each * fps) for each in (options.cut[0], min(options.cut[1], frames)))
    if last - first < 1 or first >= frames - 1:
        raise BadFile(
            f"{where} has {frames / fps:.2f} s; nothing is left between "
            f"{options.cut[0]:g} and {options.cut[1]:g} s."
        )
    return slice(max(first, 0), last + 1)


_RATES = ("fps", "mocap_framerate", "mocap_frame_rate", "frame_rate", "framerate")


class Arrays(NamedTuple):
    """Named arrays of one motion."""

    values: Mapping[str, Any]
    where: str
    name: str

    def __contains__(self, key: object) -> bool:
        return self.values.get(str(key)) is not None

    def numbers(self, key: str, *shape: int | None) -> np.ndarray:
        """Return an array of a given shape, or raise BadFile."""
        if key not in self:
            raise BadFile(f"{self.where} has no {key}.")
        return finite(self.values[key], f"{self.where}, {key}", shape)

    def first(self, *keys: str) -> str:
        """Return the first of some keys that the file has; the last one where it has none."""
        return next((key for key in keys if key in self), keys[-1])

    def words(self, key: str) -> tuple[str, ...] | None:
        """Return a list of names; None where it is missing."""
        if key not in self:
            return None
        array: Any = np.asarray(self.values[key])
        if array.dtype.kind not in "US" or array.ndim != 1:
            raise BadFile(f"{self.where}, {key}: a list of names is expected.")
        return tuple(x.decode(errors="replace") if isinstance(x, bytes) else str(x) for x in array)

    def rate(self) -> float | None:
        """Return the frame rate that the file states, if any."""
        key = self.first(*_RATES)
        return frame_rate(self.values[key], f"{self.where}, {key},") if key in self else None
