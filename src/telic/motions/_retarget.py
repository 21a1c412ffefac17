"""Retarget human motions to a robot's proportions and joint limits, without foot skating.

Limbs keep their directions but get the robot's lengths, and the pelvis path is scaled by leg
length. Foot contacts are detected first, and feet in contact are fixed in place. Then inverse
kinematics is solved for the whole trajectory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from scipy.spatial.transform import Rotation, Slerp
from torch import Tensor

from telic.core.rotations import about, from_euler, multiply
from telic.core.tensors import from_numpy
from telic.errors import BadFile
from telic.motions._figure import SIDES, RobotFigure, Side, person_points
from telic.motions.checks import frame_jump, runs
from telic.motions.clip import HumanTrack, MotionClip, MotionOrigin
from telic.motions.formats._track import SkeletonTrack
from telic.motions.kinematics import (
    KinematicGoals,
    PointGoal,
    PoseBatch,
    TurnGoal,
    solve_trajectory,
)
from telic.motions.robot import MotionRobot

_FPS = 50.0
_LOW_M, _SLOW_M_S = 0.06, 0.4
"""height above the resting height, and speed, below which a person's foot is in contact"""
_SHORT_S, _EASE_S = 0.08, 0.1
_POINT_JUMP_M = 0.35
"""largest deviation of a point in one frame from its neighbors"""


@dataclass(slots=True)
class _Person:
    """Human motion, resampled to 50 Hz, scaled to the robot and placed on the ground."""

    points: dict[str, np.ndarray]
    pelvis: Rotation
    ankle_m: float
    """ankle height of a foot in contact"""
    stands: dict[Side, np.ndarray]
    original: dict[str, np.ndarray]

    def direction(self, start: str, end: str) -> np.ndarray:
        way = self.points[end] - self.points[start]
        return way / np.maximum(np.linalg.norm(way, axis=-1, keepdims=True), 1e-6)


def retarget(
    track: SkeletonTrack, robot: MotionRobot, origin: MotionOrigin
) -> tuple[MotionClip, float | None]:
    """Retarget a human motion and return the clip and the original foot sliding speed in m/s.

    Raises BadEnvironment if the robot is not a biped.
    """
    figure = RobotFigure(robot)
    _require_continuous(track)
    person = _person(track, figure)
    frames = len(person.pelvis)
    rest_root = robot.home.root_pos - figure.at_rest("pelvis")
    root = _tensor(person.points["pelvis"] + rest_root)
    quat = from_numpy(robot.home.root_quat).expand(frames, 4)
    if robot.facts.root.kind == "free":
        ahead = person.pelvis.apply([1.0, 0.0, 0.0])
        quat = multiply(about(2, _tensor(np.arctan2(ahead[:, 1], ahead[:, 0]))), quat)
    else:
        root[:, 1] = float(robot.home.root_pos[1])
    start = PoseBatch(root, quat.clone(), figure.bent().expand(frames, -1).clone())
    goals, turns = _goals(person, figure)
    wishes = KinematicGoals(tuple(goals), tuple(turns), near_weight=0.03, margin=0.01)
    poses = solve_trajectory(robot, start, wishes, _FPS)
    root_pos = poses.root_pos.numpy()
    shift = root_pos[0] * (1, "y" in robot.facts.root.moves, 0)
    names = person_points(figure.has_arms)
    human = None
    if set(names) <= set(person.original):
        points = np.stack([person.original[name] for name in names], axis=1)
        human = HumanTrack(names, points, person.pelvis.as_quat(scalar_first=True))
    clip = MotionClip(
        name=track.name,
        robot=robot.name,
        fps=_FPS,
        root_pos=root_pos - shift,
        root_quat=poses.root_quat.numpy(),
        joint_pos=poses.joint_pos.numpy(),
        joint_names=robot.joint_names,
        contacts=np.stack([person.stands[side] for side in figure.sides], axis=1),
        human=human,
        origin=origin.model_copy(
            update={"steps": (*origin.steps, *track.steps, f"retargeted to {robot.name}")}
        ),
    )
    slid = [
        np.linalg.norm(np.diff(person.points[f"{side}_ankle"][:, :2], axis=0), axis=-1)[
            person.stands[side][1:] & person.stands[side][:-1]
        ]
        for side in SIDES
    ]
    speeds = np.concatenate(slid) * _FPS
    return clip, float(speeds.mean()) if len(speeds) else None


def _require_continuous(track: SkeletonTrack) -> None:
    """Raise BadFile for jumps in a single frame, which inverse kinematics would smooth out."""
    for name, way in track.points.items():
        off = frame_jump(way)
        frame = int(np.argmax(off))
        if off[frame] > _POINT_JUMP_M * max(1.0, 30.0 / track.fps):
            raise BadFile(
                f"{track.name}: {name} jumps by {off[frame]:.2f} m at {frame / track.fps:.2f} s."
            )


# ---- human motion


def _person(track: SkeletonTrack, figure: RobotFigure) -> _Person:
    """Resample a human motion, scale it to the robot's legs, and place it on the ground."""
    count = len(track.root_quat)
    frames = max(2, int((count - 1) / track.fps * _FPS + 1e-6) + 1)
    at = np.clip(np.arange(frames) / _FPS * track.fps, 0, count - 1)
    low = np.minimum(at.astype(int), count - 2)
    share = (at - low)[:, None]
    points = {k: way[low] + share * (way[low + 1] - way[low]) for k, way in track.points.items()}
    pelvis = Slerp(np.arange(count), Rotation.from_quat(track.root_quat, scalar_first=True))(at)
    ankles = np.stack([points[f"{side}_ankle"][:, 2] for side in SIDES])
    for side in SIDES:
        if f"{side}_toe" not in points:  # in front of the ankle, on the ground if within reach
            toe = points[f"{side}_ankle"] + pelvis.apply([0.15, 0.0, 0.0])
            ground = float(np.percentile(ankles, 3)) - 0.08
            toe[:, 2] = np.maximum(ground, points[f"{side}_ankle"][:, 2] - 0.1)
            points[f"{side}_toe"] = toe
    legs = [
        np.linalg.norm(points[f"{side}_{b}"] - points[f"{side}_{a}"], axis=-1).mean()
        for side in SIDES
        for a, b in (("hip", "knee"), ("knee", "ankle"))
    ]
    scale = figure.leg_length / max(float(np.sum(legs)) / 2, 1e-3)
    toes = np.stack([points[f"{side}_toe"][:, 2] for side in SIDES])
    floor = float(np.percentile(np.minimum(ankles, toes), 3))
    ankle = float(np.percentile(ankles.min(axis=0), 10)) - floor
    original = {name: way - [0, 0, floor] for name, way in points.items()}
    sized = {name: way * scale for name, way in original.items()}
    person = _Person(sized, pelvis, ankle * scale, {}, original)
    for side in SIDES:
        place = sized[f"{side}_ankle"]
        ways = (place, sized[f"{side}_toe"])
        speed = [np.linalg.norm(np.gradient(way, 1 / _FPS, axis=0), axis=-1) for way in ways]
        slow = np.minimum(*speed) < _SLOW_M_S * scale
        near = place[:, 2] < person.ankle_m + _LOW_M * scale
        person.stands[side] = _without_blinks(slow & near, round(_SHORT_S * _FPS))
    return person


def _without_blinks(flags: np.ndarray, short: int) -> np.ndarray:
    """Remove runs of True or False that are shorter than `short`."""
    out = flags.copy()
    for kind in (False, True):
        for start, end in runs(out == kind):
            if end - start < short and start > 0 and end < len(out):
                out[start:end] = not kind
    return out


# ---- inverse kinematics goals


class _FootGoal(NamedTuple):
    place: np.ndarray
    """positions of the ankle (T, 3)"""
    yaw: np.ndarray
    pitch: np.ndarray


def _foot(person: _Person, figure: RobotFigure, side: Side) -> _FootGoal:
    """Return the goal of a foot. A foot in contact is flat and fixed in place."""
    ankle, toe = person.points[f"{side}_ankle"], person.points[f"{side}_toe"]
    stands = person.stands[side]
    _, rest = figure.stands_on(side)
    place = ankle.copy()
    place[:, 2] = np.maximum(ankle[:, 2] - person.ankle_m, 0.0) + rest
    way = toe - ankle
    yaw = np.unwrap(np.arctan2(way[:, 1], way[:, 0]))
    pitch = -np.arctan2(way[:, 2], np.linalg.norm(way[:, :2], axis=-1))
    usual = float(np.median(pitch[stands])) if stands.any() else float(np.median(pitch))
    pitch = np.clip(pitch - usual, -0.9, 0.9)
    if "y" not in figure.robot.facts.root.moves:
        place[:, 1] = figure.at_rest(f"{side}_ankle")[1]
        yaw = np.zeros_like(yaw)
    for start, end in runs(stands):
        middle = slice(start, end)
        place[middle, :2] = np.median(place[middle, :2], axis=0)
        place[middle, 2] = rest
        yaw[middle], pitch[middle] = np.median(yaw[middle]), 0.0
    for values in (place, yaw[:, None], pitch[:, None]):
        _ease(values, stands)
    if figure.has_ankle(side):  # keep toe and heel of a tilted foot above the ground
        for end in ("toe", "heel"):
            arm = figure.at_rest(f"{side}_{end}") - figure.at_rest(f"{side}_ankle")
            under = place[:, 2] + arm[2] * np.cos(pitch) - arm[0] * np.sin(pitch)
            place[:, 2] -= np.minimum(under, 0.0)
    return _FootGoal(place, yaw, pitch)


def _ease(values: np.ndarray, stands: np.ndarray) -> None:
    """Smooth discontinuities at contact changes in place, by editing frames without contact."""
    wide = round(_EASE_S * _FPS)
    for start, end in runs(~stands):
        reach = min(wide, (end - start) // 2)
        if not reach:
            continue
        fall = 0.5 + 0.5 * np.cos(np.pi * np.arange(reach) / reach)
        if start:
            values[start : start + reach] += fall[:, None] * (values[start - 1] - values[start])
        if end < len(stands):
            values[end - reach : end] += fall[::-1, None] * (values[end] - values[end - 1])


def _goals(person: _Person, figure: RobotFigure) -> tuple[list[PointGoal], list[TurnGoal]]:
    frames, pelvis = len(person.pelvis), person.points["pelvis"]
    goals, turns = list[PointGoal](), list[TurnGoal]()

    def reach(name: str, place: np.ndarray, weight: float) -> None:
        point = figure.points[name]
        offset = torch.tensor(point.offset)
        goals.append(PointGoal(point.body, offset, _tensor(place), torch.tensor(weight)))

    def face(name: str, turn: Rotation, weight: float) -> None:
        rest = _tensor(figure.rest_quat(name)).expand(frames, 4)
        quat = multiply(_tensor(turn.as_quat(scalar_first=True)), rest)
        turns.append(TurnGoal(figure.points[name].body, quat, torch.tensor(weight)))

    reach("pelvis", pelvis, 0.4)
    face("pelvis", person.pelvis, 0.4)
    for side in SIDES:
        foot, stands = _foot(person, figure, side), _tensor(person.stands[side].astype(float))
        point, _ = figure.stands_on(side)
        offset = torch.tensor(point.offset)
        goals.append(PointGoal(point.body, offset, _tensor(foot.place), 2.0 + 6.0 * stands))
        rest = figure.at_rest(f"{side}_hip") - figure.at_rest("pelvis")
        thigh = figure.length(f"{side}_hip", f"{side}_knee")
        hip = pelvis + person.pelvis.apply(rest)
        reach(f"{side}_knee", hip + thigh * person.direction(f"{side}_hip", f"{side}_knee"), 0.25)
        if figure.has_ankle(side):
            angles = _tensor(np.stack([foot.yaw, foot.pitch], axis=1))
            flat = _tensor(figure.foot_rest_quat(side)).expand(frames, 4)
            body = figure.points[f"{side}_ankle"].body
            turns.append(TurnGoal(body, multiply(from_euler("ZY", angles), flat), 0.3 + stands))
    if not figure.has_arms or not {"left_hand", "right_hand", "left_elbow"} <= set(person.points):
        return goals, turns
    left = person.points["left_shoulder"] - person.points["right_shoulder"]
    up = (person.points["left_shoulder"] + person.points["right_shoulder"]) / 2 - pelvis
    axes = [np.cross(left, up), np.cross(up, np.cross(left, up)), up]
    sizes = [np.maximum(np.linalg.norm(axis, axis=-1, keepdims=True), 1e-6) for axis in axes]
    chest = Rotation.from_matrix(np.stack([a / n for a, n in zip(axes, sizes, strict=True)], -1))
    face("left_shoulder", chest, 0.3)
    for side in SIDES:
        rest = figure.at_rest(f"{side}_shoulder") - figure.at_rest("pelvis")
        upper = figure.length(f"{side}_shoulder", f"{side}_elbow")
        fore = figure.length(f"{side}_elbow", f"{side}_hand")
        shoulder = pelvis + chest.apply(rest)
        elbow = shoulder + upper * person.direction(f"{side}_shoulder", f"{side}_elbow")
        reach(f"{side}_elbow", elbow, 0.3)
        reach(f"{side}_hand", elbow + fore * person.direction(f"{side}_elbow", f"{side}_hand"), 0.4)
    return goals, turns


def _tensor(values: np.ndarray) -> Tensor:
    return torch.as_tensor(np.asarray(values), dtype=torch.float32)
