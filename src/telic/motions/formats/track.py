"""What a file of motions holds before a robot is chosen: joints of some robot, or a skeleton.

A motion of a person is a set of points by our names. What is missing but follows from the others (a
toe ahead of an ankle) is made; what does not is an error that says so.
"""

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


# The first pattern that fits a joint of the skeleton is taken; case and marks do not count.
_PATTERNS: dict[str, tuple[str, ...]] = {
    "pelvis": ("hips?", "pelvis", "root", "hip(s)?joint"),
    "head": ("endofhead", "headend", "headtop", "head", "skull", "neck1", "neck"),
    "hip": ("upleg", "upperleg", "thigh", "hip", "femur"),
    "knee": ("leg", "lowleg", "lowerleg", "shin", "knee", "calf", "tibia"),
    "ankle": ("foot", "ankle"),
    "toe": (
        "endoftoebase",
        "toebase",
        "toe",
        "toes",
        "ball",
        "toeend",
        "endofankle",
        "endoffoot",
        "foot_end",
    ),
    "shoulder": ("arm", "uparm", "upperarm", "shoulder", "humerus"),
    "elbow": ("forearm", "lowarm", "lowerarm", "elbow", "radius"),
    "hand": ("hand", "wrist"),
}
_SIDES = {"left": ("left", "l"), "right": ("right", "r")}
_NEEDED = ("pelvis", *(f"{s}_{p}" for s in _SIDES for p in ("hip", "knee", "ankle")))

# SMPL's joints, each with the one above and where it is on it in an adult of ours, y up, z ahead
_SMPL: tuple[tuple[str, int, tuple[float, float, float]], ...] = (
    ("pelvis", -1, (0.0, 0.0, 0.0)),
    ("left_hip", 0, (0.07, -0.09, 0.0)),
    ("right_hip", 0, (-0.07, -0.09, 0.0)),
    ("spine1", 0, (0.0, 0.12, -0.02)),
    ("left_knee", 1, (0.03, -0.38, 0.0)),
    ("right_knee", 2, (-0.03, -0.38, 0.0)),
    ("spine2", 3, (0.0, 0.14, 0.02)),
    ("left_ankle", 4, (-0.01, -0.41, -0.04)),
    ("right_ankle", 5, (0.01, -0.41, -0.04)),
    ("spine3", 6, (0.0, 0.06, 0.0)),
    ("left_toe", 7, (0.04, -0.06, 0.13)),
    ("right_toe", 8, (-0.04, -0.06, 0.13)),
    ("neck", 9, (0.0, 0.22, -0.03)),
    ("left_collar", 9, (0.08, 0.12, -0.02)),
    ("right_collar", 9, (-0.08, 0.12, -0.02)),
    ("head", 12, (0.0, 0.09, 0.05)),
    ("left_shoulder", 13, (0.10, 0.04, -0.02)),
    ("right_shoulder", 14, (-0.10, 0.04, -0.02)),
    ("left_elbow", 16, (0.26, -0.02, -0.02)),
    ("right_elbow", 17, (-0.26, -0.02, -0.02)),
    ("left_hand", 18, (0.25, 0.01, 0.0)),
    ("right_hand", 19, (-0.25, 0.01, 0.0)),
    ("left_fingers", 20, (0.08, -0.01, -0.01)),
    ("right_fingers", 21, (-0.08, -0.01, -0.01)),
)
SMPL_JOINTS = len(_SMPL)
# z ahead, x left, y up becomes x ahead, y left, z up
_TO_WORLD = np.array([0.5, 0.5, 0.5, 0.5])


def named_points(points: dict[str, np.ndarray], where: str) -> dict[str, np.ndarray]:
    """Return a skeleton's points by our names; raises BadFile when legs or hips are not found."""
    plain = {re.sub(r"[^a-z0-9]", "", name.lower().split(":")[-1]): name for name in points}
    found: dict[str, np.ndarray] = {}
    for part, patterns in _PATTERNS.items():
        if part in ("pelvis", "head"):
            if own := _first(plain, patterns):
                found[part] = points[own]
            continue
        for side, marks in _SIDES.items():
            sided = tuple(p for mark in marks for each in patterns for p in _both(mark, each))
            if own := _first(plain, sided):
                found[f"{side}_{part}"] = points[own]
    missing = [name for name in _NEEDED if name not in found]
    if missing:
        raise BadFile(
            f"{where}: no joint of this skeleton is the {missing[0].replace('_', ' ')}; it has "
            f"{', '.join(list(points)[:8])}…."
        )
    return found


def _both(mark: str, part: str) -> tuple[str, str]:
    if part.startswith("endof"):
        return f"endof{mark}{part[5:]}", f"endof{part[5:]}{mark}"
    return f"{mark}{part}", f"{part}{mark}"


def _first(plain: dict[str, str], patterns: tuple[str, ...]) -> str | None:
    for pattern in patterns:
        for name, own in plain.items():
            if re.fullmatch(pattern, name):
                return own
    return None


def smpl_track(
    name: str, fps: float, pose: np.ndarray, place: np.ndarray, *, z_is_up: bool
) -> SkeletonTrack:
    """Return the motion of SMPL's rotations on a skeleton of an adult.

    Args:
        name: of the clip.
        fps: frames a second.
        pose: (T, 24, 3) rotation vectors, each against the joint above.
        place: (T, 3) of the pelvis, m.
        z_is_up: whether the file's world has z up; else y.
    """
    turns: list[np.ndarray] = []
    places: list[np.ndarray] = []
    own = from_axis_angle(pose)
    for number, (_, above, offset) in enumerate(_SMPL):
        if above < 0:
            turns.append(own[:, number])
            places.append(place)
        else:
            places.append(places[above] + moved(turns[above], np.tile(offset, (len(pose), 1))))
            turns.append(turned(turns[above], own[:, number]))
    points = {joint: way for (joint, *_), way in zip(_SMPL, places, strict=True)}
    return _in_world(name, fps, points, turns[0], z_is_up=z_is_up)


def smpl_points_track(
    name: str, fps: float, points: np.ndarray, root_quat: np.ndarray, *, z_is_up: bool
) -> SkeletonTrack:
    """Return the motion of SMPL's 24 points (T, 24, 3) in the world."""
    by_name = {joint: points[:, i] for i, (joint, *_) in enumerate(_SMPL)}
    return _in_world(name, fps, by_name, root_quat, z_is_up=z_is_up)


def _in_world(
    name: str, fps: float, points: dict[str, np.ndarray], root: np.ndarray, *, z_is_up: bool
) -> SkeletonTrack:
    frames = len(root)
    known = {
        key: way for key, way in points.items() if not re.search("spine|neck|collar|fingers", key)
    }
    back = np.tile(_TO_WORLD * [1, -1, -1, -1], (frames, 1))
    if z_is_up:
        # The body's own axes stay y up and z ahead: only they are renamed.
        return SkeletonTrack(name, fps, known, turned(root, back))
    world = np.tile(_TO_WORLD, (frames, 1))
    turned_points = {key: moved(world, way) for key, way in known.items()}
    steps = ("y up and z ahead became z up and x ahead",)
    return SkeletonTrack(name, fps, turned_points, turned(turned(world, root), back), steps)
