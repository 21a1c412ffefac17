"""Readers for human motions: BVH, SMPL parameters and body points, all as one skeleton.

Readers return named points in the axes and units of the file. `skeleton` converts them to meters
with z up, removes a T-pose at either end, and computes the pelvis orientation from hips and
shoulders, because formats differ in the axes of the root joint.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from scipy.spatial.transform import Rotation

from telic.errors import BadFile
from telic.motions.formats._track import (
    Arrays,
    ReadOptions,
    RobotTrack,
    SkeletonTrack,
    cut_frames,
    finite,
    frame_rate,
    required_rate,
)

# The first matching pattern is used. Case and punctuation of joint names are ignored.
_PATTERNS: dict[str, tuple[str, ...]] = {
    "pelvis": ("hips?", "pelvis", "root", "hips?joint"),
    "head": ("endofhead", "headend", "headtop", "headtopend", "head", "skull", "neck1", "neck"),
    "hip": ("upleg", "upperleg", "thigh", "hip", "femur", "leg"),
    "knee": ("shin", "leg", "lowleg", "lowerleg", "knee", "calf", "tibia"),
    "ankle": ("foot", "ankle"),
    "toe": ("endoftoebase", "toebase", "toe", "toes", "ball", "toeend", "endofankle", "endoffoot"),
    "shoulder": ("arm", "uparm", "upperarm", "shoulder", "humerus"),
    "elbow": ("forearm", "lowarm", "lowerarm", "elbow", "radius"),
    "hand": ("hand", "wrist"),
}
_SIDES = {"left": ("left", "l"), "right": ("right", "r")}
_NEEDED = ("pelvis", *(f"{s}_{p}" for s in _SIDES for p in ("hip", "knee", "ankle")))
_UNITS = {"m": 1.0, "cm": 0.01, "inch": 0.0254, "CMU's own": 0.056444, "mm": 0.001, "dm": 0.1}
_ADULT_LEG_M = 0.84
_TRIM_S, _STILL_M_S, _JUMP_M_S = 2.0, 0.5, 10.0
"""longest T-pose in s, its maximum speed, and the minimum speed of the jump after it in m/s"""
# from z forward, x left, y up to x forward, y left, z up
_Y_UP = Rotation.from_quat([0.5, 0.5, 0.5, 0.5])


def joint_points(names: list[str], where: str) -> dict[str, str]:
    """Map each named point to a skeleton joint, or raise BadFile that names the missing point."""
    plain = {re.sub(r"[^a-z0-9]", "", name.lower().split(":")[-1]): name for name in names}
    found: dict[str, str] = {}
    for part, patterns in _PATTERNS.items():
        sides = _SIDES if part not in ("pelvis", "head") else {"": ("",)}
        for side, marks in sides.items():
            for pattern in (
                f"endof{order}" if each.startswith("endof") else order
                for mark in marks
                for each in patterns
                for order in (
                    f"{mark}{each.removeprefix('endof')}",
                    f"{each.removeprefix('endof')}{mark}",
                )
            ):
                own = next((n for n in plain if re.fullmatch(pattern, n)), None)
                if own is not None:
                    found[f"{side}_{part}" if side else part] = plain[own]
                    break
    same = [side for side in _SIDES if found.get(f"{side}_hip") == found.get(f"{side}_knee")]
    missing = [name for name in _NEEDED if name not in found] + [f"{side}_hip" for side in same]
    if missing:
        raise BadFile(
            f"{where}: the skeleton has no {missing[0].replace('_', ' ')} joint, only "
            f"{', '.join(names[:8])}…."
        )
    return found


def skeleton(
    name: str,
    where: str,
    fps: float,
    points: dict[str, np.ndarray],
    pelvis: Rotation | None,
    options: ReadOptions,
    *,
    usual_up: Literal["y", "z"],
    detects_unit: bool = False,
) -> SkeletonTrack:
    """Convert points (T, 3) in the axes and units of a file to a track.

    Args:
        name: name of the clip.
        where: file name for error messages.
        fps: number of frames per second.
        points: positions by name, as in `RobotFigure.points`.
        pelvis: pelvis orientation in the file's axes, or None to compute it from points only.
        options: values that override detected properties.
        usual_up: default vertical axis if it cannot be detected.
        detects_unit: whether to detect the unit by comparing leg lengths with an adult's.
    """
    frames = cut_frames(len(points["pelvis"]), fps, options, where)
    points = {key: way[frames] for key, way in points.items()}
    steps: list[str] = []
    scale = options.scale or 1.0
    if detects_unit and options.scale is None:
        legs = [("hip", "knee"), ("knee", "ankle")]
        length = 0.5 * sum(
            float(np.median(np.linalg.norm(points[f"{s}_{b}"] - points[f"{s}_{a}"], axis=-1)))
            for s in _SIDES
            for a, b in legs
        )
        fit = {
            unit: abs(np.log(max(length, 1e-9) * m / _ADULT_LEG_M)) for unit, m in _UNITS.items()
        }
        unit = min(fit, key=lambda each: fit[each])
        scale = _UNITS[unit]
        steps.append(f"unit of length detected: {unit}")
    up = options.up or _vertical(points, usual_up)
    world = _Y_UP if up == "y" else Rotation.identity()
    points = {key: world.apply(way * scale) for key, way in points.items()}
    turn = None if pelvis is None else world * pelvis[frames]
    if up == "y":
        steps.append("converted from y up to z up")
    kept = _without_t_pose(points, fps)
    if kept != slice(0, len(points["pelvis"])):
        trimmed = len(points["pelvis"]) - (kept.stop - kept.start)
        steps.append(f"removed {trimmed} frames of an initial or final T-pose")
    points = {key: way[kept] for key, way in points.items()}
    quat = _pelvis_rotation(points, None if turn is None else turn[kept])
    return SkeletonTrack(name, fps, points, quat.as_quat(scalar_first=True), tuple(steps))


def _vertical(points: dict[str, np.ndarray], usual: Literal["y", "z"]) -> Literal["y", "z"]:
    """Return the vertical axis: the usual axis, unless the body extends along another axis.

    A crawling person is also extended along a horizontal axis, but moves along that axis.
    """
    other: Literal["y", "z"] = "z" if usual == "y" else "y"
    body = _top(points) - (points["left_ankle"] + points["right_ankle"]) / 2
    lowest = np.min(list(points.values()), axis=0)
    a, b = "xyz".index(usual), "xyz".index(other)
    along = np.abs(body[:, b]) > 0.8 * np.linalg.norm(body, axis=-1)
    stays = np.std(lowest[:, b]) <= np.std(lowest[:, a]) + 0.02 * np.abs(body[:, b]).mean()
    return other if along.mean() > 0.7 and stays else usual


def _top(points: dict[str, np.ndarray]) -> np.ndarray:
    """Return the midpoint of the shoulders, or the head or pelvis of a skeleton without arms."""
    if {"left_shoulder", "right_shoulder"} <= set(points):
        return (points["left_shoulder"] + points["right_shoulder"]) / 2
    return points.get("head", points["pelvis"])


def _without_t_pose(points: dict[str, np.ndarray], fps: float) -> slice:
    """Return the frames without a still pose before an initial jump or after a final jump."""
    ways = np.stack(list(points.values()), axis=1)
    if len(ways) < 4:
        return slice(0, len(ways))
    speed = np.linalg.norm(np.diff(ways, axis=0), axis=-1).max(axis=1) * fps

    def leading(speeds: np.ndarray) -> int:
        still = 0
        for frame, each in enumerate(speeds[: min(round(_TRIM_S * fps), len(speeds) // 2)]):
            if each > _JUMP_M_S and each > 3.0 * speeds[frame + 1 : frame + 11].max():
                still = frame + 1
            if each > _STILL_M_S:
                break
        return still

    return slice(leading(speed), len(ways) - leading(speed[::-1]))


def _pelvis_rotation(points: dict[str, np.ndarray], turn: Rotation | None) -> Rotation:
    """Return the pelvis orientation, with x forward, y left and z up.

    The shoulders move relative to the pelvis. Therefore, rotation over time is taken from the root
    joint, and the constant offset of its axes is averaged over upright frames.
    """
    left = points["left_hip"] - points["right_hip"]
    up = _top(points) - (points["left_hip"] + points["right_hip"]) / 2
    ahead = np.cross(left, up)
    axes = np.stack([ahead, left, np.cross(ahead, left)], axis=-1)
    size = np.linalg.norm(axes, axis=1, keepdims=True)
    if (size < 1e-6).any():
        raise BadFile("The hips and shoulders of the skeleton are collinear.")
    seen = Rotation.from_matrix(axes / size)
    if turn is None:
        return seen
    own = turn.inv().apply(left / np.linalg.norm(left, axis=-1, keepdims=True))
    if np.linalg.norm(own - own.mean(axis=0), axis=-1).max() > 0.1:
        return seen  # the joint does not turn with the hips
    upright = np.clip(up[:, 2] / np.linalg.norm(up, axis=-1), 0.0, 1.0) ** 8
    return turn * (turn.inv() * seen).mean(upright + 1e-6)


# ---- BVH

_CHANNEL = re.compile(r"([XYZ])(position|rotation)", re.IGNORECASE)


@dataclass(slots=True)
class _Bone:
    name: str
    parent: int
    offset: tuple[float, ...] = (0.0, 0.0, 0.0)
    channels: list[str] = field(default_factory=list[str])
    first: int = 0
    """index of the first column"""


def read_bvh(content: bytes, where: str, name: str, options: ReadOptions) -> SkeletonTrack:
    """Read a BVH file (CMU, LAFAN1, SOMA, Mixamo, …)."""
    text = as_text(content, where)
    head, *rest = re.split(r"^[ \t]*MOTION[ \t]*\r?$", text, maxsplit=1, flags=re.M | re.I)
    if not rest:
        raise BadFile(f"{where} has no MOTION section after its skeleton.")
    bones = _hierarchy(head, where)
    table, fps = _frames(rest[0], where, head.count("\n") + 1, sum(len(b.channels) for b in bones))
    places: list[np.ndarray] = []
    turns: list[Rotation] = []
    for bone in bones:
        own = np.tile(bone.offset, (len(table), 1))
        moved = [c for c in bone.channels if c.endswith("position")]
        order, angles = "", list[np.ndarray]()
        for column, channel in enumerate(bone.channels, start=bone.first):
            if channel.endswith("position"):
                axis = "XYZ".index(channel[0])
                # Three position channels replace the offset, fewer are added to it.
                base = 0.0 if len(moved) == 3 else own[:, axis]
                own[:, axis] = base + table[:, column]
            else:
                order, angles = order + channel[0], [*angles, table[:, column]]
        turn = Rotation.identity(len(table))
        if order:
            columns = np.stack(angles, axis=1) if len(order) > 1 else angles[0]
            turn = Rotation.from_euler(order, columns, degrees=True)
        if bone.parent >= 0:
            own = places[bone.parent] + turns[bone.parent].apply(own)
            turn = turns[bone.parent] * turn
        places.append(own)
        turns.append(turn)
    labels = [b.name or f"end of {bones[b.parent].name}" for b in bones]
    joints = joint_points(labels, where)
    points = {key: places[labels.index(label)] for key, label in joints.items()}
    pelvis = turns[labels.index(joints["pelvis"])]
    fps = options.fps or fps
    return skeleton(name, where, fps, points, pelvis, options, usual_up="y", detects_unit=True)


def _hierarchy(head: str, where: str) -> list[_Bone]:
    """Parse the skeleton. End sites have no name and no channels."""
    bones: list[_Bone] = []
    stack: list[int] = []
    for number, line in enumerate(head.splitlines(), start=1):
        for statement in re.findall(r"[{}]|[^{}]+", line):
            try:
                if words := statement.split():
                    _read_statement(words, bones, stack)
            except (ValueError, IndexError) as error:
                raise BadFile(f"{where}, line {number}: {error}.") from None
            if len(stack) > 200 or len(bones) > 2000:
                raise BadFile(f"{where}, line {number}: the skeleton is too large.")
    if not bones or stack:
        raise BadFile(f"{where} ends within its skeleton.")
    return bones


def _read_statement(words: list[str], bones: list[_Bone], stack: list[int]) -> None:
    key = words[0].upper()
    if key in ("ROOT", "JOINT", "END"):
        label = "" if key == "END" else " ".join(words[1:])
        if (key == "ROOT") != (not bones) or (bones and not stack):
            raise ValueError(f"unexpected {words[0]}")
        if key != "END" and (not label or label in {bone.name for bone in bones}):
            raise ValueError(f"the name of joint {label!r} is missing or not unique")
        bones.append(_Bone(label, stack[-1] if stack else -1))
    elif key == "{":
        stack.append(len(bones) - 1)
    elif key == "}":
        stack.pop()
    elif key == "OFFSET":
        bones[-1].offset = tuple(float(word) for word in words[1:4])
        if len(words) != 4 or not all(abs(x) < 1e9 for x in bones[-1].offset):
            raise ValueError("OFFSET needs three finite numbers")
    elif key == "CHANNELS":
        found = [word.capitalize() for word in words[2:]]
        if len(found) != int(words[1]) or not all(map(_CHANNEL.fullmatch, found)):
            raise ValueError(f"invalid channels {' '.join(words[1:])[:60]!r}")
        bones[-1].first = sum(len(bone.channels) for bone in bones)
        bones[-1].channels = found
    elif key != "HIERARCHY":
        raise ValueError(f"unexpected {words[0][:40]!r}")


def _frames(text: str, where: str, before: int, columns: int) -> tuple[np.ndarray, float]:
    """Parse the frames (T, columns) and the frame rate."""
    rows = [(i, line) for i, line in enumerate(text.splitlines(), before) if line.strip()]
    values: list[float] = []
    for (number, line), label in zip(rows[:2], ("Frames:", "Frame Time:"), strict=False):
        words = " ".join(line.split())
        try:
            if not words.lower().startswith(label.lower()):
                raise ValueError
            values.append(float(words[len(label) :]))
        except ValueError:
            message = f"{where}, line {number}: expected {label} and a number."
            raise BadFile(message) from None
    if len(values) < 2 or not values[1] > 0:
        raise BadFile(f"The frame time in {where} must be positive.")
    fps = frame_rate(1.0 / values[1], f"{where}, the frame rate")
    # Extra lines are ignored, as some writers append them.
    if not 2 <= values[0] <= len(rows) - 2:
        raise BadFile(f"{where} declares {values[0]:g} frames but contains {len(rows) - 2}.")
    return table_of(rows[2 : 2 + int(values[0])], columns, where, None), fps


def table_of(
    rows: list[tuple[int, str]], columns: int, where: str, separator: str | None
) -> np.ndarray:
    """Parse numbered lines to an array (T, columns). Errors name the line and the column."""
    cells = [line.split(separator) for _, line in rows]
    for (number, _), row in zip(rows, cells, strict=True):
        if len(row) != columns:
            raise BadFile(f"{where}, line {number}: {len(row)} values instead of {columns}.")
    try:
        return finite(np.array(cells, dtype=np.float64), where, (None, columns))
    except (ValueError, OverflowError):
        for (number, _), row in zip(rows, cells, strict=True):
            for column, cell in enumerate(row, start=1):
                try:
                    float(cell)
                except ValueError:
                    raise BadFile(
                        f"{where}, line {number}, column {column}: {cell.strip()[:40]!r} is not a "
                        "number."
                    ) from None
        raise


def as_text(content: bytes, where: str) -> str:
    """Decode UTF-8, or raise BadFile with the location of the first invalid byte."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadFile(f"{where} is not UTF-8 text: invalid byte at {error.start}.") from None


# ---- SMPL and SMPL-X

# joint names, parents and offsets of an average adult, y up, z forward, m
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
)
_INNER = ("spine", "neck", "collar")


def read_smpl(arrays: Arrays, options: ReadOptions) -> SkeletonTrack:
    """Read SMPL, SMPL-H or SMPL-X parameters (AMASS and others).

    The first 22 joints are equal in all models and precede the joints of hands and face.
    """
    key = arrays.first("pose_aa", "poses", "fullpose", "pose_body", "body_pose")
    parts: list[np.ndarray] = []
    if key in ("pose_body", "body_pose"):
        root = arrays.first("root_orient", "global_orient")
        parts.append(arrays.numbers(root, None, 3))
    given: Any = np.asarray(arrays.values[key])
    flat = given.reshape(len(given), -1) if given.ndim > 1 and len(given) else given
    parts.append(finite(flat, f"{arrays.where}, {key}", (None, None)))
    if len({len(part) for part in parts}) > 1:
        raise BadFile(f"{arrays.where}: root and body differ in their number of frames.")
    pose = np.concatenate(parts, axis=1)
    if pose.shape[1] < 66:
        raise BadFile(f"{arrays.where}, {key}: {pose.shape[1]} values, but 22 joints have 66.")
    place = arrays.numbers(arrays.first("transl", "trans"), len(pose), 3)
    fps = required_rate(arrays.rate(), options, arrays.where)
    places: list[np.ndarray] = []
    turns: list[Rotation] = []
    for number, (_, parent, offset) in enumerate(_SMPL):
        own = Rotation.from_rotvec(pose[:, 3 * number : 3 * number + 3])
        places.append(place if parent < 0 else places[parent] + turns[parent].apply(offset))
        turns.append(own if parent < 0 else turns[parent] * own)
    points = {joint: way for (joint, *_), way in zip(_SMPL, places, strict=True)}
    if "smpl_joints" in arrays and np.any(np.asarray(arrays.values["smpl_joints"])):
        own = arrays.numbers("smpl_joints", len(pose), None, 3)
        if own.shape[1] < len(_SMPL):
            raise BadFile(f"{arrays.where}, smpl_joints: {own.shape[1]} joints instead of 24.")
        own = own - own[:, :1] + place[:, None]
        points = {joint: own[:, i] for i, (joint, *_) in enumerate(_SMPL)}
    points = {k: way for k, way in points.items() if not k.split("_")[-1].startswith(_INNER)}
    # The mean body axis y shows the vertical even if the person lies down half of the time.
    tall = turns[0].apply([0.0, 1.0, 0.0]).mean(axis=0)
    usual: Literal["y", "z"] = "y" if tall[1] > tall[2] else "z"
    return skeleton(arrays.name, arrays.where, fps, points, turns[0], options, usual_up=usual)


def body_skeleton(track: RobotTrack, options: ReadOptions) -> SkeletonTrack:
    """Convert named bodies of another robot or character to a skeleton for retargeting."""
    bodies, where = track.bodies, track.name
    if bodies is None or bodies.names is None or bodies.is_local:
        raise BadFile(f"{where} has no named body positions.")
    if len(bodies.names) != bodies.points.shape[1]:
        raise BadFile(f"{where}: {len(bodies.names)} names for {bodies.points.shape[1]} bodies.")
    fps = required_rate(track.fps, options, where)
    joints = joint_points(list(bodies.names), where)
    points = {key: bodies.points[:, bodies.names.index(own)] for key, own in joints.items()}
    return skeleton(track.name, where, fps, points, None, options, usual_up="z")


def rotations(quat: np.ndarray, where: str) -> Rotation:
    """Convert quaternions (T, 4), w first, to rotations, or raise BadFile if not normalized."""
    size = np.linalg.norm(quat, axis=-1)
    off = np.abs(size - 1.0) > 0.05
    if off.any():
        frame = int(np.argmax(off))
        raise BadFile(f"{where}, frame {frame}: a quaternion has norm {size[frame]:.3g}.")
    return Rotation.from_quat(quat, scalar_first=True)
