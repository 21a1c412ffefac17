"""BVH: a skeleton and its channels, frame by frame, as text.

Angles are in degrees about turned axes in the order of the channels; y is up and the skeleton faces
z, as in nearly all such files. Lengths are in whatever the writer liked: the unit is the one that
makes the skeleton nearest to an adult.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import torch

from telic.core.rotations import from_euler
from telic.errors import BadFile
from telic.motions.formats.skeleton import named_points
from telic.motions.formats.track import (
    MOST_VALUES,
    SkeletonTrack,
    frame_rate,
    moved,
    numbers,
    turned,
)

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
    bones = _bones(words)
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


def _bones(words: _Words) -> list[_Bone]:
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
