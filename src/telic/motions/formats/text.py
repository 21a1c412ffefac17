"""Motions as text: tables of comma-separated values, DeepMimic's JSON, and BVH.

a head        Bones-SEED: root in cm and degrees, a column <joint>_dof in degrees for each joint
no head       LAFAN1 as retargeted: x y z, quaternion x y z w, then joints in radians, 30 a second
JSON          DeepMimic: frames of a duration and 43 numbers, y up
BVH           angles in degrees about turned axes in the order of the channels, y up, facing z;
              the unit of length is the one that makes the skeleton nearest to an adult
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from telic.core.rotations import from_euler
from telic.core.text import is_dict, is_row
from telic.errors import BadFile
from telic.motions.formats.track import (
    MOST_VALUES,
    RobotTrack,
    SkeletonTrack,
    frame_rate,
    moved,
    named_points,
    numbers,
    scalar_first,
    turned,
)
from telic.storage.reading import parse_json

_BONES_ROOT = tuple(f"root_{kind}{axis}" for kind in ("translate", "rotate") for axis in "XYZ")
_BONES_FPS = 120.0
_ROOT_COLUMNS = 7


def read_csv(text: str, where: str, name: str) -> RobotTrack:
    """Return the motion of a table; raises BadFile that names line and column."""
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) < 2:
        raise BadFile(f"{where} has {len(lines)} lines; a motion has a line for every frame.")
    head = [cell.strip() for cell in lines[0].split(",")]
    if _is_number(head[0]):
        return _lafan(_table(lines, 0, len(head), where), where, name)
    if not set(_BONES_ROOT) <= set(head):
        missing = next(each for each in _BONES_ROOT if each not in head)
        raise BadFile(
            f"{where}, line 1: there is no column {missing}.",
            hint="A table has the columns root_translateX … root_rotateZ and <joint>_dof, or no "
            "head and x, y, z, quaternion and joints.",
        )
    return _bones(_table(lines, 1, len(head), where), head, where, name)


def _is_number(cell: str) -> bool:
    try:
        return math.isfinite(float(cell))
    except ValueError:
        return False


def _table(lines: list[str], first: int, width: int, where: str) -> np.ndarray:
    """Return the cells of lines as numbers."""
    if width * len(lines) > MOST_VALUES:
        raise BadFile(f"{where} has {width * len(lines):,} cells, which is too much.")
    rows: list[list[float]] = []
    for number, line in enumerate(lines[first:], start=first + 1):
        cells = line.split(",")
        if len(cells) != width:
            raise BadFile(f"{where}, line {number}: {len(cells)} cells, and line 1 has {width}.")
        try:
            rows.append([float(cell) for cell in cells])
        except ValueError:
            column = next(i for i, cell in enumerate(cells, start=1) if not _is_number(cell))
            shown = cells[column - 1].strip()[:40]
            raise BadFile(
                f"{where}, line {number}, column {column}: {shown!r} is no number."
            ) from None
    return numbers(rows, where, (None, width))


def _lafan(table: np.ndarray, where: str, name: str) -> RobotTrack:
    if table.shape[1] <= _ROOT_COLUMNS:
        raise BadFile(
            f"{where} has {table.shape[1]} columns; x, y, z, a quaternion and joints are more."
        )
    quat = _rotations(scalar_first(table[:, 3:7]), where)
    return RobotTrack(name, None, table[:, :3], quat, table[:, 7:], None)


def _rotations(quat: np.ndarray, where: str) -> np.ndarray:
    size = np.linalg.norm(quat, axis=-1)
    off = np.abs(size - 1.0) > 0.05
    if off.any():
        frame = int(np.argmax(off))
        raise BadFile(
            f"{where}, frame {frame}: a quaternion has the length {size[frame]:.3g}, not 1."
        )
    return quat / size[:, None]


def _bones(table: np.ndarray, head: list[str], where: str, name: str) -> RobotTrack:
    if len(set(head)) != len(head):
        raise BadFile(f"{where}, line 1: a column is named twice.")
    columns = dict(zip(head, table.T, strict=True))
    names = tuple(cell.removesuffix("_dof") for cell in head if cell.endswith("_dof"))
    if not names:
        raise BadFile(f"{where}, line 1: no column ends in _dof, so there are no joints.")
    root_pos = np.stack([columns[each] for each in _BONES_ROOT[:3]], axis=1) / 100.0
    angles = np.radians(np.stack([columns[each] for each in _BONES_ROOT[3:]], axis=1))
    # About the fixed axes x, then y, then z: about turned axes that is z, y, x.
    quat = from_euler("ZYX", torch.as_tensor(angles[:, ::-1].copy())).numpy()
    joints = np.radians(np.stack([columns[f"{each}_dof"] for each in names], axis=1))
    steps = ("centimetres and degrees became metres and radians",)
    return RobotTrack(name, None, root_pos, quat, joints, names, steps, _BONES_FPS)


# ---- DeepMimic

# joint, where it is on the one above (x ahead, y up, z right, m), width of its columns
_HUMANOID: tuple[tuple[str, str, tuple[float, float, float], int], ...] = (
    ("chest", "root", (0.0, 0.236, 0.0), 4),
    ("neck", "chest", (0.0, 0.224, 0.0), 4),
    ("right_hip", "root", (0.0, 0.0, 0.085), 4),
    ("right_knee", "right_hip", (0.0, -0.422, 0.0), 1),
    ("right_ankle", "right_knee", (0.0, -0.410, 0.0), 4),
    ("right_shoulder", "chest", (-0.024, 0.244, 0.183), 4),
    ("right_elbow", "right_shoulder", (0.0, -0.275, 0.0), 1),
    ("left_hip", "root", (0.0, 0.0, -0.085), 4),
    ("left_knee", "left_hip", (0.0, -0.422, 0.0), 1),
    ("left_ankle", "left_knee", (0.0, -0.410, 0.0), 4),
    ("left_shoulder", "chest", (-0.024, 0.244, -0.183), 4),
    ("left_elbow", "left_shoulder", (0.0, -0.275, 0.0), 1),
)
_ENDS = {
    "head": ("neck", (0.0, 0.26, 0.0)),
    "right_toe": ("right_ankle", (0.16, -0.04, 0.0)),
    "left_toe": ("left_ankle", (0.16, -0.04, 0.0)),
    "right_hand": ("right_elbow", (0.0, -0.26, 0.0)),
    "left_hand": ("left_elbow", (0.0, -0.26, 0.0)),
}
_ROW = 1 + 3 + 4 + sum(width for *_, width in _HUMANOID)
# x ahead, y up, z right becomes x ahead, y left, z up: a quarter turn about x
_UP = np.array([math.sqrt(0.5), math.sqrt(0.5), 0.0, 0.0])


def read_deepmimic(content: bytes, where: str, name: str) -> SkeletonTrack:
    """Return the motion of a JSON file of frames; raises BadFile that names the frame."""
    value: Any = parse_json(content, where)
    if not is_dict(value) or "Frames" not in value:
        raise BadFile(f"{where} is JSON without Frames, so it is no motion of DeepMimic's kind.")
    frames: Any = value["Frames"]
    if not is_row(frames) or len(frames) < 2:
        raise BadFile(f"{where} has no list of two or more Frames.")
    for number, frame in enumerate(frames):
        found = len(frame) if is_row(frame) else "no"
        if found != _ROW:
            raise BadFile(f"{where}, frame {number}: {found} numbers; {_ROW} were expected.")
    table = numbers(frames, where, (None, _ROW))
    durations = table[:-1, 0]
    if (durations <= 0).any():
        raise BadFile(f"{where}, frame {int(np.argmin(durations))} lasts no time.")
    fps = frame_rate(1.0 / float(np.median(durations)), f"{where}, the duration of its frames,")
    points, root_quat = _humanoid(table, where)
    return SkeletonTrack(name, fps, points, root_quat, ("y up became z up",))


def _humanoid(table: np.ndarray, where: str) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return the points of the 43 numbers, and how the root is turned."""
    place = {"root": table[:, 1:4]}
    turn = {"root": _rotations(table[:, 4:8], where)}
    column = 8
    for joint, above, offset, width in _HUMANOID:
        if width == 1:
            own = np.zeros((len(table), 4))
            own[:, 0], own[:, 3] = np.cos(table[:, column] / 2), np.sin(table[:, column] / 2)
        else:
            own = _rotations(table[:, column : column + 4], where)
        place[joint] = place[above] + moved(turn[above], np.tile(offset, (len(table), 1)))
        turn[joint] = turned(turn[above], own)
        column += width
    for end, (above, offset) in _ENDS.items():
        place[end] = place[above] + moved(turn[above], np.tile(offset, (len(table), 1)))
    up = np.tile(_UP, (len(table), 1))
    points = {("pelvis" if key == "root" else key): moved(up, way) for key, way in place.items()}
    points = {key: way for key, way in points.items() if key not in ("chest", "neck")}
    down = _UP * [1, -1, -1, -1]
    return points, turned(turned(up, turn["root"]), np.tile(down, (len(table), 1)))


_CHANNEL = re.compile(r"([XYZ])(position|rotation)", re.IGNORECASE)
_UNITS = {"m": 1.0, "cm": 0.01, "inch": 0.0254, "CMU's own": 0.056444, "mm": 0.001, "dm": 0.1}
_ADULT_M = 1.45
"""from ankle to head of an adult"""
_DEEPEST = 200
# z ahead, x left, y up becomes x ahead, y left, z up
_TO_WORLD = np.array([0.5, 0.5, 0.5, 0.5])


@dataclass(slots=True)
class _Bone:
    name: str
    parent: int
    offset: tuple[float, ...]
    channels: list[str]
    first: int
    """its first column"""


class _Words:
    """The words of a file, with the lines they are in."""

    def __init__(self, text: str, where: str) -> None:
        self.where, self.place = where, 0
        self.words: list[tuple[str, int]] = []
        for number, line in enumerate(text.splitlines(), start=1):
            self.words += [(word, number) for word in line.split()]
            if line.strip().upper() == "MOTION":
                break

    def next(self, expected: str | None = None) -> str:
        if self.place >= len(self.words):
            raise BadFile(f"{self.where} ends in the middle of its skeleton.")
        word, line = self.words[self.place]
        self.place += 1
        if expected is not None and word.upper() != expected.upper():
            raise BadFile(f"{self.where}, line {line}: {word[:40]!r}, and {expected} was expected.")
        return word

    def number(self) -> float:
        word = self.next()
        line = self.words[self.place - 1][1]
        try:
            value = float(word)
        except ValueError:
            value = float("nan")
        if not abs(value) < 1e9:
            raise BadFile(f"{self.where}, line {line}: {word[:40]!r} is no number to use.")
        return value

    @property
    def line(self) -> int:
        return self.words[max(0, self.place - 1)][1]


def read_bvh(text: str, where: str, name: str) -> SkeletonTrack:
    """Return the motion of a BVH file; raises BadFile that names the line."""
    words = _Words(text, where)
    words.next("HIERARCHY")
    bones = _skeleton(words)
    table, fps = _motion(text, where, sum(len(bone.channels) for bone in bones))
    place, turn = _pose(bones, table)
    unit, scale = _unit(bones)
    world = np.tile(_TO_WORLD, (len(table), 1))
    points = {
        bone.name if bone.name else f"end of {bones[bone.parent].name}": moved(world, way * scale)
        for bone, way in zip(bones, place, strict=True)
    }
    back = _TO_WORLD * [1, -1, -1, -1]
    root = turned(turned(world, turn[0]), np.tile(back, (len(table), 1)))
    steps = (f"lengths taken for {unit}", "y up and z ahead became z up and x ahead")
    return SkeletonTrack(name, fps, named_points(points, where), root, steps)


def _skeleton(words: _Words) -> list[_Bone]:
    """Return the skeleton; ends of chains have no name and no channels."""
    bones: list[_Bone] = []
    open_bones: list[int] = []
    columns = 0
    words.next("ROOT")
    waiting = " ".join(_rest_of_line(words))
    while True:
        words.next("{")
        words.next("OFFSET")
        offset = tuple(words.number() for _ in range(3))
        channels: list[str] = []
        if waiting:
            words.next("CHANNELS")
            channels = _channels(words)
        parent = open_bones[-1] if open_bones else -1
        bones.append(_Bone(waiting, parent, offset, channels, columns))
        columns += len(channels)
        open_bones.append(len(bones) - 1)
        if len(open_bones) > _DEEPEST or len(bones) > 2000:
            raise BadFile(f"{words.where}, line {words.line}: this skeleton has no end.")
        while (word := words.next().upper()) == "}":
            open_bones.pop()
            if not open_bones:
                return bones
        if word not in ("JOINT", "END"):
            raise BadFile(
                f"{words.where}, line {words.line}: {word[:40]!r}; JOINT, End or }} was expected."
            )
        waiting = " ".join(_rest_of_line(words)) if word == "JOINT" else words.next("Site") and ""
        if waiting and waiting in {bone.name for bone in bones}:
            raise BadFile(f"{words.where}, line {words.line}: the joint {waiting} is there twice.")


def _rest_of_line(words: _Words) -> list[str]:
    """Return the words of a name, which may have blanks."""
    line, found = words.line, list[str]()
    while words.place < len(words.words):
        word, number = words.words[words.place]
        if number != line or word == "{":
            break
        found.append(words.next())
    if not found:
        raise BadFile(f"{words.where}, line {line}: a joint has no name.")
    return found


def _channels(words: _Words) -> list[str]:
    count = words.number()
    if count not in (0, 1, 2, 3, 4, 5, 6):
        raise BadFile(f"{words.where}, line {words.line}: a joint has {count:g} channels.")
    found = [words.next() for _ in range(int(count))]
    for word in found:
        if not _CHANNEL.fullmatch(word):
            raise BadFile(f"{words.where}, line {words.line}: {word[:40]!r} is no channel.")
    return [word.capitalize() for word in found]


def _motion(text: str, where: str, columns: int) -> tuple[np.ndarray, float]:
    """Return the frames (T, columns) and how many a second."""
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.strip().upper() == "MOTION"), None)
    if start is None:
        raise BadFile(f"{where} has no line MOTION after its skeleton.")
    rest = [(i, line) for i, line in enumerate(lines[start + 1 :], start + 2) if line.strip()]
    if len(rest) < 2:
        raise BadFile(f"{where} ends after the line MOTION.")
    frames = _labelled(rest[0], "Frames:", where)
    seconds = _labelled(rest[1], "Frame Time:", where)
    if not seconds > 0:
        raise BadFile(f"{where}, line {rest[1][0]}: a frame lasts {seconds:g} s.")
    fps = frame_rate(1.0 / seconds, f"{where}, line {rest[1][0]}, the time of a frame,")
    rows = rest[2:]
    # Writers leave lines behind; what is missing cannot be made up.
    if not 2 <= frames <= len(rows):
        raise BadFile(f"{where} says that it has {frames:g} frames, and {len(rows)} lines follow.")
    rows = rows[: int(frames)]
    if columns * len(rows) > MOST_VALUES:
        raise BadFile(f"{where} has {columns * len(rows):,} numbers, which is too much.")
    table: list[list[float]] = []
    for number, line in rows:
        cells = line.split()
        if len(cells) != columns:
            raise BadFile(f"{where}, line {number}: {len(cells)} numbers for {columns} channels.")
        try:
            table.append([float(cell) for cell in cells])
        except ValueError:
            raise BadFile(f"{where}, line {number}: not all of it are numbers.") from None
    return numbers(table, where, (None, columns)), fps


def _labelled(line: tuple[int, str], label: str, where: str) -> float:
    number, text = line
    words = " ".join(text.split())
    if not words.lower().startswith(label.lower()):
        raise BadFile(f"{where}, line {number}: {words[:40]!r}, and {label} was expected.")
    try:
        return float(words[len(label) :])
    except ValueError:
        raise BadFile(f"{where}, line {number}: {words[:40]!r} has no number.") from None


def _pose(bones: list[_Bone], table: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return where all bones are and how they are turned, in the units and axes of the file."""
    places: list[np.ndarray] = []
    turns: list[np.ndarray] = []
    for bone in bones:
        own = np.tile(bone.offset, (len(table), 1)).astype(float)
        order, angles = "", list[np.ndarray]()
        has_place = [word for word in bone.channels if word.endswith("position")]
        for column, word in enumerate(bone.channels, start=bone.first):
            if word.endswith("position"):
                axis = "XYZ".index(word[0])
                # A position is instead of the offset; of a root the two are the same thing.
                own[:, axis] = (
                    table[:, column] if len(has_place) == 3 else own[:, axis] + table[:, column]
                )
            else:
                order += word[0]
                angles.append(np.radians(table[:, column]))
        turn = np.tile([1.0, 0.0, 0.0, 0.0], (len(table), 1))
        if order:
            turn = from_euler(order, torch.as_tensor(np.stack(angles, axis=1))).numpy()
        if bone.parent < 0:
            places.append(own)
            turns.append(turn)
        else:
            places.append(places[bone.parent] + moved(turns[bone.parent], own))
            turns.append(turned(turns[bone.parent], turn))
    return places, turns


def _unit(bones: list[_Bone]) -> tuple[str, float]:
    """Return the unit in which the skeleton, stretched out, is nearest to an adult."""
    reach: list[float] = []
    for bone in bones:
        own = float(np.linalg.norm(bone.offset))
        reach.append(own + (reach[bone.parent] if bone.parent >= 0 else -own))
    names = {bone.name: i for i, bone in enumerate(bones)}
    feet = [reach[i] for name, i in names.items() if "foot" in name.lower()]
    heads = [reach[i] for name, i in names.items() if "head" in name.lower()]
    tall = max(max(feet, default=0.0) + max(heads, default=0.0), max(reach, default=0.0))
    if tall <= 0:
        return "m", 1.0
    return min(_UNITS.items(), key=lambda each: abs(np.log(tall * each[1] / _ADULT_M)))
