"""What a file of motions holds before a robot is chosen: joints of some robot, or a skeleton."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from telic.core.rotations import from_rotation_vector, multiply, rotate
from telic.core.tensors import broadcast, from_numpy
from telic.errors import BadFile
from telic.motions.clip import MotionClip, MotionOrigin
from telic.motions.robot import MotionRobot

MOST_VALUES = 200_000_000
"""numbers that one file may hold"""
_SUFFIXES = re.compile(r"(_joint|_dof|_actuator)$")


@dataclass(frozen=True, eq=False)
class RobotTrack:
    """Joints of a robot that may or may not be named."""

    name: str
    fps: float | None
    """None: the file does not say"""
    root_pos: np.ndarray
    root_quat: np.ndarray
    """w first"""
    joint_pos: np.ndarray
    joint_names: tuple[str, ...] | None
    steps: tuple[str, ...] = ()
    usual_fps: float = 30.0
    """what files of this kind have, where this one does not say"""


@dataclass(frozen=True, eq=False)
class SkeletonTrack:
    """Points of a skeleton: somebody's motion, not yet a robot's."""

    name: str
    fps: float
    points: dict[str, np.ndarray]
    """(T, 3) in the world, z up, m; by the names of `RobotFigure.points`"""
    root_quat: np.ndarray
    """(T, 4) of its pelvis, x ahead and z up when it stands"""
    steps: tuple[str, ...] = ()
    source: dict[str, Any] = field(default_factory=dict[str, Any])


Track = RobotTrack | SkeletonTrack


def numbers(values: Any, where: str, shape: tuple[int | None, ...]) -> np.ndarray:
    """Return an array of finite numbers; raises BadFile that says what and where else.

    Args:
        values: what the file holds.
        where: the file and the column, for errors.
        shape: what is expected; None: any length.
    """
    try:
        array: Any = np.asarray(values)
    except ValueError:
        raise BadFile(f"{where} is no table of numbers: its rows differ in length.") from None
    if array.dtype.kind not in "fiub":
        raise BadFile(f"{where} holds {array.dtype}, not numbers.")
    shown = ", ".join("any" if each is None else str(each) for each in shape)
    fits = array.ndim == len(shape) and all(
        b in (None, a) for a, b in zip(array.shape, shape, strict=True)
    )
    if not fits:
        raise BadFile(f"{where} has the shape {array.shape}; ({shown}) was expected.")
    array = array.astype(np.float64)
    bad = ~np.isfinite(array) | (np.abs(array) > 1e9)
    if bad.any():
        place = tuple(int(each) for each in np.argwhere(bad)[0])
        raise BadFile(f"{where}, frame {place[0]}: {array[place]} at {place} is no number to use.")
    return array


def frame_rate(value: Any, where: str) -> float:
    """Return frames a second; raises BadFile when they make no sense."""
    array = np.asarray(value)
    if array.size != 1 or array.dtype.kind not in "fiu":
        raise BadFile(f"{where} is {str(value)[:40]}; one number of frames a second was expected.")
    rate = float(array.reshape(-1)[0])
    if not 1.0 <= rate <= 2000.0:
        raise BadFile(f"{where} is {rate:g} frames a second; 1 to 2000 make sense.")
    return rate


def scalar_first(quat: np.ndarray) -> np.ndarray:
    """Return quaternions that have their scalar last (x, y, z, w) with it first."""
    return quat[..., [3, 0, 1, 2]]


def from_axis_angle(vectors: np.ndarray) -> np.ndarray:
    """Return the quaternions of rotation vectors (..., 3)."""
    return from_rotation_vector(from_numpy(np.ascontiguousarray(vectors))).numpy()


def turned(quat: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return the product of quaternions of arrays."""
    a, b = (from_numpy(np.ascontiguousarray(each, dtype=np.float64)) for each in (quat, other))
    return multiply(*broadcast(a, b)).numpy()


def moved(quat: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Return vectors turned by quaternions of arrays."""
    a, b = (from_numpy(np.ascontiguousarray(each, dtype=np.float64)) for each in (quat, vectors))
    return rotate(a, b).numpy()


def robot_clip(track: RobotTrack, robot: MotionRobot, origin: MotionOrigin) -> MotionClip:
    """Return a track as a clip of a robot; raises BadFile when its joints are others."""
    joints, steps = _in_order(track, robot), list(track.steps)
    fps = track.fps
    if fps is None:
        fps = track.usual_fps
        steps.append(f"{fps:g} frames a second were assumed")
    return MotionClip(
        name=track.name,
        robot=robot.name,
        fps=fps,
        root_pos=track.root_pos,
        root_quat=track.root_quat,
        joint_pos=joints,
        joint_names=robot.joint_names,
        origin=origin.model_copy(update={"steps": (*origin.steps, *steps)}),
    )


def _in_order(track: RobotTrack, robot: MotionRobot) -> np.ndarray:
    """Return the joints in the robot's order."""
    count = track.joint_pos.shape[1]
    if track.joint_names is None:
        if count != len(robot.joint_names):
            raise BadFile(
                f"{track.name} has {count} joints without names, and {robot.name} has "
                f"{len(robot.joint_names)}.",
                hint="Name the robot that it is of with --robot.",
            )
        return track.joint_pos
    places = {_SUFFIXES.sub("", name): place for place, name in enumerate(track.joint_names)}
    missing = [name for name in robot.joint_names if _SUFFIXES.sub("", name) not in places]
    if missing:
        raise BadFile(
            f"{track.name} has no joint {', '.join(missing[:5])} of {robot.name}; its own are "
            f"{', '.join(track.joint_names[:5])}….",
            hint="Name the robot that it is of with --robot, or retarget a human motion.",
        )
    return track.joint_pos[:, [places[_SUFFIXES.sub("", name)] for name in robot.joint_names]]
