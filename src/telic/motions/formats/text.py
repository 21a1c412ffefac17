"""Motions as text: tables of comma-separated values, and DeepMimic's JSON.

a head        Bones-SEED: root in cm and degrees, a column <joint>_dof in degrees for each joint
no head       LAFAN1 as retargeted: x y z, quaternion x y z w, then joints in radians, 30 a second
JSON          DeepMimic: frames of a duration and 43 numbers, y up
"""

from __future__ import annotations

import math
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
