"""Names that skeletons of different makers have for the same joints, and SMPL's own.

A motion of a person is a set of points by our names. What is missing but can be told from the
others (a toe ahead of an ankle) is made; what cannot is an error that says so.
"""

from __future__ import annotations

import re

import numpy as np

from telic.errors import BadFile
from telic.motions.formats.track import SkeletonTrack, from_axis_angle, moved, turned

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
