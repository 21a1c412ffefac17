"""Bring a person's motion to a robot: its own proportions, its limits, and feet that stand still.

Limbs keep their directions and get the robot's lengths; the pelvis' way is scaled by the legs.
While a foot of the person stands, the robot's stands in one place: the feet are found first and
locked, and inverse kinematics of all frames at once does the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from scipy.spatial.transform import Rotation
from torch import Tensor

from telic.core.rotations import about, from_euler, multiply, slerp
from telic.core.tensors import from_numpy
from telic.motions.checks import slide_of
from telic.motions.clip import HumanTrack, MotionClip, MotionOrigin
from telic.motions.figure import SIDES, RobotFigure, Side, person_points
from telic.motions.formats.track import SkeletonTrack, moved
from telic.motions.kinematics import PointGoal, PoseBatch, TurnGoal, Wishes, solve_smoothly
from telic.motions.robot import MotionRobot

_FPS = 50.0
_LOW, _SLOW = 0.06, 0.4
"""m above its resting height and m/s below which a person's foot stands"""
_SHORT_S, _EASE_S = 0.08, 0.1


class Retargeted(NamedTuple):
    """A person's motion as a robot's, and what became of its feet."""

    clip: MotionClip
    slid_before_m_s: float | None
    """how fast the person's ankles, scaled, slide while they stand"""
    slid_after_m_s: float | None
    """how fast the robot's soles do"""


@dataclass(slots=True)
class _Person:
    """A person at the robot's rate and size, on the ground."""

    points: dict[str, np.ndarray]
    root_quat: np.ndarray
    ankle_m: float
    """height of an ankle that stands"""
    stands: dict[Side, np.ndarray]
    original: dict[str, np.ndarray]

    @property
    def frames(self) -> int:
        """How many frames there are."""
        return len(self.root_quat)


def retarget(track: SkeletonTrack, robot: MotionRobot, origin: MotionOrigin) -> Retargeted:
    """Return a person's motion as the robot's; raises BadEnvironment for one without two legs."""
    figure = RobotFigure(robot)
    person = _person(track, figure)
    feet: dict[Side, _FootGoal] = {side: _foot(person, figure, side) for side in SIDES}
    goals, turns = _goals(person, figure, feet)
    start = _start(person, robot, figure)
    wishes = Wishes(tuple(goals), tuple(turns), near=start.joint_pos, near_weight=0.03, margin=0.01)
    poses = solve_smoothly(robot, start, wishes, _FPS, 25)
    order = sorted(SIDES, key=lambda side: robot.facts.feet.index(figure.feet[side]))
    human = _human(person, person_points(figure.has_arms))
    clip = MotionClip(
        name=track.name,
        robot=robot.name,
        fps=_FPS,
        root_pos=poses.root_pos.numpy(),
        root_quat=poses.root_quat.numpy(),
        joint_pos=poses.joint_pos.numpy(),
        joint_names=robot.joint_names,
        contacts=np.stack([person.stands[side] for side in order], axis=1),
        human=human,
        origin=origin.model_copy(
            update={"steps": (*origin.steps, *track.steps, f"retargeted to {robot.name}")}
        ),
    )
    clip = _on_ground(clip, robot)
    return Retargeted(clip, _slid(person), slide_of(robot, clip))


def _human(person: _Person, names: tuple[str, ...]) -> HumanTrack | None:
    """Return the person beside the robot; None: some of its points are not known."""
    if not set(names) <= set(person.original):
        return None
    points = np.stack([person.original[name] for name in names], axis=1)
    return HumanTrack(names, points, person.root_quat)


# ---- the person


def _person(track: SkeletonTrack, figure: RobotFigure) -> _Person:
    """Return the person at our rate, scaled to the robot's legs, standing on the ground."""
    frames = max(2, int((len(track.root_quat) - 1) / track.fps * _FPS + 1e-6) + 1)
    at = np.clip(np.arange(frames) / _FPS * track.fps, 0, len(track.root_quat) - 1)
    low = np.minimum(at.astype(int), len(track.root_quat) - 2)
    share = (at - low)[:, None]
    points = {
        name: way[low] + share * (way[low + 1] - way[low]) for name, way in track.points.items()
    }
    a, b = (from_numpy(np.ascontiguousarray(track.root_quat[low + i])) for i in (0, 1))
    quat = slerp(a, b, from_numpy(share)).numpy()
    for side in SIDES:
        if f"{side}_toe" not in points:  # a foot points where the pelvis does
            ahead = moved(quat, np.tile([0.15, 0.0, -0.05], (frames, 1)))
            points[f"{side}_toe"] = points[f"{side}_ankle"] + ahead
    legs = [
        np.linalg.norm(points[f"{side}_{b}"] - points[f"{side}_{a}"], axis=-1).mean()
        for side in SIDES
        for a, b in (("hip", "knee"), ("knee", "ankle"))
    ]
    scale = figure.leg_length / max(float(np.sum(legs)) / 2, 1e-3)
    feet = np.stack([points[f"{side}_ankle"][:, 2] for side in SIDES])
    toes = np.stack([points[f"{side}_toe"][:, 2] for side in SIDES])
    floor = float(np.percentile(np.minimum(feet, toes), 3))
    ankle = float(np.percentile(feet.min(axis=0), 10)) - floor
    original = {name: way - [0, 0, floor] for name, way in points.items()}
    sized = {name: way * scale for name, way in original.items()}
    person = _Person(sized, quat, ankle * scale, {}, original)
    person.stands = {side: _stands(person, side, scale) for side in SIDES}
    return person


def _stands(person: _Person, side: Side, scale: float) -> np.ndarray:
    """Return when a foot stands: low and slow for more than a moment."""
    ankle, toe = person.points[f"{side}_ankle"], person.points[f"{side}_toe"]
    slow = np.minimum(_speed(ankle), _speed(toe)) < _SLOW * scale
    low = ankle[:, 2] < person.ankle_m + _LOW * scale
    return _without_blinks(slow & low, round(_SHORT_S * _FPS))


def _speed(way: np.ndarray) -> np.ndarray:
    return np.linalg.norm(np.gradient(way, 1 / _FPS, axis=0), axis=-1)


def _without_blinks(flags: np.ndarray, short: int) -> np.ndarray:
    """Return flags without runs, of either kind, that are shorter than `short`."""
    out = flags.copy()
    for kind in (False, True):
        for start, end in _runs(out == kind):
            if end - start < short and start > 0 and end < len(out):
                out[start:end] = not kind
    return out


def _runs(flags: np.ndarray) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate(([0], flags.astype(int), [0]))))
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def _slid(person: _Person) -> float | None:
    """Return how fast the scaled ankles move over the ground while they stand, m/s."""
    found = [
        np.linalg.norm(np.diff(person.points[f"{side}_ankle"][:, :2], axis=0), axis=-1)[
            person.stands[side][1:] & person.stands[side][:-1]
        ]
        * _FPS
        for side in SIDES
    ]
    speeds = np.concatenate(found)
    return float(speeds.mean()) if len(speeds) else None


# ---- what the robot should do


class _FootGoal(NamedTuple):
    place: np.ndarray
    """(T, 3) of the ankle"""
    yaw: np.ndarray
    pitch: np.ndarray


def _foot(person: _Person, figure: RobotFigure, side: Side) -> _FootGoal:
    """Return where a foot should be; while it stands it is flat and stays where it is."""
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
    for start, end in _runs(stands):
        middle = slice(start, end)
        place[middle, :2] = np.median(place[middle, :2], axis=0)
        place[middle, 2] = rest
        yaw[middle], pitch[middle] = np.median(yaw[middle]), 0.0
    for values in (place, yaw[:, None], pitch[:, None]):
        _ease(values, stands)
    return _FootGoal(place, yaw, pitch)


def _ease(values: np.ndarray, stands: np.ndarray) -> None:
    """Take out the jumps where a foot begins or ends to stand, in frames in which it does not."""
    wide = round(_EASE_S * _FPS)
    for start, end in _runs(~stands):
        reach = min(wide, (end - start) // 2)
        if not reach:
            continue
        fall = 0.5 + 0.5 * np.cos(np.pi * np.arange(reach) / reach)
        if start:
            values[start : start + reach] += fall[:, None] * (values[start - 1] - values[start])
        if end < len(stands):
            values[end - reach : end] += fall[::-1, None] * (values[end] - values[end - 1])


def _goals(
    person: _Person, figure: RobotFigure, feet: dict[Side, _FootGoal]
) -> tuple[list[PointGoal], list[TurnGoal]]:
    goals, turns = list[PointGoal](), list[TurnGoal]()
    pelvis = person.points["pelvis"].copy()
    goals.append(_goal(figure, "pelvis", pelvis, 0.4))
    for side, foot in feet.items():
        stands = _tensor(person.stands[side].astype(float))
        point, _ = figure.stands_on(side)
        offset = torch.tensor(point.offset)
        goals.append(PointGoal(point.body, offset, _tensor(foot.place), 2.0 + 6.0 * stands))
        thigh = figure.length(f"{side}_hip", f"{side}_knee")
        hip = pelvis + moved(
            person.root_quat,
            np.tile(figure.at_rest(f"{side}_hip") - figure.at_rest("pelvis"), (person.frames, 1)),
        )
        knee = hip + thigh * _direction(person, f"{side}_hip", f"{side}_knee")
        goals.append(_goal(figure, f"{side}_knee", knee, 0.25))
        if figure.has_ankle(side):
            angles = _tensor(np.stack([foot.yaw, foot.pitch], axis=1))
            flat = _tensor(figure.foot_rest_quat(side)).expand(person.frames, 4)
            body = figure.points[f"{side}_ankle"].body
            turns.append(TurnGoal(body, multiply(from_euler("ZY", angles), flat), 0.3 + stands))
    turns.append(_turn(figure, "pelvis", person.root_quat, 0.4))
    if figure.has_arms and {"left_hand", "right_hand", "left_elbow"} <= set(person.points):
        _add_arms(person, figure, pelvis, goals, turns)
    return goals, turns


def _add_arms(
    person: _Person,
    figure: RobotFigure,
    pelvis: np.ndarray,
    goals: list[PointGoal],
    turns: list[TurnGoal],
) -> None:
    chest = _chest(person)
    turns.append(_turn(figure, "left_shoulder", chest, 0.3))
    for side in SIDES:
        rest = figure.at_rest(f"{side}_shoulder") - figure.at_rest("pelvis")
        shoulder = pelvis + moved(chest, np.tile(rest, (person.frames, 1)))
        upper = figure.length(f"{side}_shoulder", f"{side}_elbow")
        fore = figure.length(f"{side}_elbow", f"{side}_hand")
        elbow = shoulder + upper * _direction(person, f"{side}_shoulder", f"{side}_elbow")
        hand = elbow + fore * _direction(person, f"{side}_elbow", f"{side}_hand")
        goals.append(_goal(figure, f"{side}_elbow", elbow, 0.3))
        goals.append(_goal(figure, f"{side}_hand", hand, 0.4))


def _chest(person: _Person) -> np.ndarray:
    """Return how the chest is turned: its left from the shoulders, its up from the pelvis."""
    left = person.points["left_shoulder"] - person.points["right_shoulder"]
    middle = (person.points["left_shoulder"] + person.points["right_shoulder"]) / 2
    up = middle - person.points["pelvis"]
    ahead = np.cross(left, up)
    axes = [ahead, np.cross(up, ahead), up]
    matrix = np.stack(
        [each / np.maximum(np.linalg.norm(each, axis=-1, keepdims=True), 1e-6) for each in axes], -1
    )
    return Rotation.from_matrix(matrix).as_quat(scalar_first=True)


def _direction(person: _Person, start: str, end: str) -> np.ndarray:
    way = person.points[end] - person.points[start]
    return way / np.maximum(np.linalg.norm(way, axis=-1, keepdims=True), 1e-6)


def _goal(figure: RobotFigure, name: str, place: np.ndarray, weight: float | Tensor) -> PointGoal:
    point = figure.points[name]
    strong = weight if isinstance(weight, Tensor) else torch.tensor(weight)
    return PointGoal(point.body, torch.tensor(point.offset), _tensor(place), strong)


def _turn(figure: RobotFigure, name: str, quat: np.ndarray, weight: float) -> TurnGoal:
    rest = _tensor(figure.rest_quat(name)).expand(len(quat), 4)
    turned = multiply(_tensor(quat), rest)
    return TurnGoal(figure.points[name].body, turned, torch.tensor(weight))


def _start(person: _Person, robot: MotionRobot, figure: RobotFigure) -> PoseBatch:
    """Return the resting pose, carried along with the person's pelvis and heading."""
    root = _tensor(person.points["pelvis"]) + _tensor(
        robot.home.root_pos - figure.at_rest("pelvis")
    )
    rest = from_numpy(robot.home.root_quat).expand(person.frames, 4)
    if robot.facts.root.kind != "free":
        root[:, 1] = float(robot.home.root_pos[1])
        return PoseBatch(root, rest.clone(), figure.bent().expand(person.frames, -1))
    x, y = (moved(person.root_quat, np.tile([1.0, 0, 0], (person.frames, 1)))[:, i] for i in (0, 1))
    quat = multiply(about(2, _tensor(np.arctan2(y, x))), rest)
    return PoseBatch(root, quat, figure.bent().expand(person.frames, -1))


def _on_ground(clip: MotionClip, robot: MotionRobot) -> MotionClip:
    """Return a clip whose first frame is at the origin's side and faces as it did."""
    moved_root = clip.root_pos.copy()
    if "y" in robot.facts.root.moves:
        moved_root[:, :2] -= clip.root_pos[0, :2]
    else:
        moved_root[:, 0] -= clip.root_pos[0, 0]
    return clip.replace(root_pos=moved_root)


def _tensor(values: np.ndarray) -> Tensor:
    return torch.as_tensor(np.asarray(values), dtype=torch.float32)
