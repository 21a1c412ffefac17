"""A person beside the robot: the points of a human skeleton that tracks, files and plans share.

The names are those of `RobotFigure.points`. A person who moves as a robot does has limbs of the
same directions and of other lengths: a second way to say the same motion.
"""

from __future__ import annotations

import numpy as np
import torch

from telic.core.rotations import rotate
from telic.core.tensors import from_numpy
from telic.motions.clip import HumanTrack, MotionClip
from telic.motions.figure import RobotFigure

# from, to, metres: lengths of an adult of 1.75 m
_LEGS = (
    ("pelvis", "left_hip", 0.09),
    ("left_hip", "left_knee", 0.42),
    ("left_knee", "left_ankle", 0.42),
    ("left_ankle", "left_toe", 0.19),
    ("pelvis", "right_hip", 0.09),
    ("right_hip", "right_knee", 0.42),
    ("right_knee", "right_ankle", 0.42),
    ("right_ankle", "right_toe", 0.19),
    ("pelvis", "head", 0.78),
)
_ARMS = (
    ("pelvis", "left_shoulder", 0.52),
    ("left_shoulder", "left_elbow", 0.29),
    ("left_elbow", "left_hand", 0.33),
    ("pelvis", "right_shoulder", 0.52),
    ("right_shoulder", "right_elbow", 0.29),
    ("right_elbow", "right_hand", 0.33),
)
LEG_M = 0.84


def person_points(has_arms: bool) -> tuple[str, ...]:
    """Return the points of a person beside a robot with, or without, arms."""
    return ("pelvis", *(end for _, end, _ in (*_LEGS, *(_ARMS if has_arms else ()))))


def figure_points(figure: RobotFigure, clip: MotionClip) -> dict[str, np.ndarray]:
    """Return the robot's own points (T, 3) in the world, frame by frame."""
    columns = (from_numpy(each) for each in (clip.root_pos, clip.root_quat, clip.joint_pos))
    pos, quat = figure.robot.kinematics().poses(*columns)
    found: dict[str, np.ndarray] = {}
    for name, point in figure.points.items():
        offset = torch.tensor(point.offset).expand(clip.frames, 3)
        found[name] = (pos[:, point.body] + rotate(quat[:, point.body], offset)).numpy()
    return found


def person_like(figure: RobotFigure, clip: MotionClip) -> HumanTrack:
    """Return an adult who does what the robot does in a clip."""
    points = figure_points(figure, clip)
    scale = LEG_M / figure.leg_length
    person = {"pelvis": points["pelvis"] * scale}
    for start, end, length in (*_LEGS, *(_ARMS if figure.has_arms else ())):
        way = points[end] - points[start]
        size = np.linalg.norm(way, axis=-1, keepdims=True)
        person[end] = person[start] + length * way / np.maximum(size, 1e-6)
    names = tuple(person)
    stacked = np.stack([person[name] for name in names], axis=1)
    return HumanTrack(names, stacked.astype(np.float32), clip.root_quat)
