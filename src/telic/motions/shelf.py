"""A folder of motions: whose frames are mapped into memory, not read.

    library.json    whose motions: robot, joints, feet, points of the human side
    clips.jsonl     a line per clip: name, first row, frames, fps, licence, source, split, hash
    frames.f32      rows of all clips, one after the other
    human.f32       rows of the human side

Rows are written before the line that names them, so a crash costs the last clip and nothing else:
rows that no line names are written over. Opening reads the lines only.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from pydantic import Field, ValidationError

from telic.core.config import Record
from telic.errors import BadEnvironment, BadFile
from telic.motions.clip import MotionClip, MotionOrigin, Split
from telic.motions.figure import RobotFigure, person_points
from telic.motions.robot import MotionRobot
from telic.motions.table import RowLayout
from telic.storage.files import (
    JsonLines,
    disk_errors,
    make_folder,
    read_json_lines,
    read_record,
    write_json,
)
from telic.storage.locks import RunLock

_HEAD, _LINES, _ROWS, _HUMAN = "library.json", "clips.jsonl", "frames.f32", "human.f32"
_BYTES = 4


class LibraryHead(Record):
    """Whose motions a folder holds."""

    schema_version: int = 1
    robot: str
    joint_names: tuple[str, ...]
    foot_names: tuple[str, ...] = ()
    point_names: tuple[str, ...] = Field(default=(), description="of the human side")

    @property
    def layout(self) -> RowLayout:
        """The columns of its rows."""
        return RowLayout(len(self.joint_names), len(self.foot_names), len(self.point_names))


class ClipLine(Record):
    """What a library says of one clip without reading its frames."""

    name: str
    first: int = Field(ge=0, description="row of its first frame")
    frames: int = Field(ge=2)
    fps: float = Field(gt=0)
    sha256: str = ""
    split: Split = "train"
    human_first: int = Field(default=-1, ge=-1, description="-1: it has no human side")
    has_contacts: bool = False
    origin: MotionOrigin = MotionOrigin()
    report: dict[str, float] = Field(default={}, description="measured when it was added")

    @property
    def duration_s(self) -> float:
        """Seconds from the first frame to the last."""
        return (self.frames - 1) / self.fps


@dataclass(frozen=True, eq=False, slots=True)
class Shard:
    """One folder: its lines, and its rows as they lie in memory or in the file."""

    path: Path
    head: LibraryHead
    lines: list[ClipLine]
    rows: Any
    human_rows: Any

    def __post_init__(self) -> None:
        """Raise BadFile when a line names rows that are not there."""
        for line in self.lines:
            end, human = line.first + line.frames, line.human_first + line.frames
            if end > len(self.rows) or (line.human_first >= 0 and human > len(self.human_rows)):
                raise BadFile(
                    f'{self.path} ends before the clip "{line.name}": frames were cut off from '
                    "outside.",
                    hint="Import it again, or take the clip's line out of clips.jsonl.",
                )


# ---- writing


def head_for(robot: MotionRobot, clips: Sequence[MotionClip]) -> LibraryHead:
    """Return what a library of these clips of a robot says of itself."""
    humans = {clip.human.names for clip in clips if clip.human is not None}
    if len(humans) > 1:
        raise BadFile("The human sides of these clips have different skeletons.")
    feet = tuple(robot.model.body(foot).name for foot in robot.facts.feet)
    points = next(iter(humans), _usual_points(robot))
    return LibraryHead(
        robot=robot.name, joint_names=robot.joint_names, foot_names=feet, point_names=points
    )


def _usual_points(robot: MotionRobot) -> tuple[str, ...]:
    """Return the points of a person beside a robot, for clips that are still to come."""
    try:
        return person_points(RobotFigure(robot).has_arms)
    except BadEnvironment:  # no two legs: nobody's motion is like its own
        return ()


class LibraryWriter:
    """Adds clips to a folder; one process at a time."""

    def __init__(self, path: Path, head: LibraryHead) -> None:
        self.path = path
        with disk_errors(path):
            make_folder(path)
        self._lock = RunLock(path / "lock", name=f"the library {path}")
        self._lock.acquire()
        if (path / _HEAD).is_file():
            self.head = read_record(path / _HEAD, LibraryHead)
            _require_same(self.head, head, path)
        else:
            self.head = head
            write_json(path / _HEAD, head.model_dump())
        lines = _read_lines(path)
        self.names = {line.name for line in lines}
        self.hashes = {line.sha256: line.name for line in lines}
        layout = self.head.layout
        self._first = max((line.first + line.frames for line in lines), default=0)
        ends = [line.human_first + line.frames for line in lines if line.human_first >= 0]
        self._human_first = max(ends, default=0)
        self._rows = _appending(path / _ROWS, self._first * sum(layout.robot) * _BYTES)
        human_bytes = self._human_first * sum(layout.human) * _BYTES
        self._human = _appending(path / _HUMAN, human_bytes)
        self._lines = JsonLines(path / _LINES)

    def add(self, clip: MotionClip, report: dict[str, float] | None = None) -> ClipLine:
        """Add one clip; raises BadFile when it does not belong here or its name is taken."""
        if clip.name in self.names:
            raise BadFile(f'The library {self.path} already has a clip "{clip.name}".')
        line, rows, human = line_of(clip, self.head, self._first, self._human_first)
        line = line.model_copy(update={"report": report or {}})
        with disk_errors(self.path):
            for handle, block in ((self._rows, rows), (self._human, human)):
                content = memoryview(block.tobytes())
                while content:
                    content = content[os.write(handle, content) :]
        self._lines.append(line.model_dump(exclude_defaults=True))
        self.names.add(clip.name)
        self.hashes[line.sha256] = clip.name
        self._first += len(rows)
        self._human_first += len(human)
        return line

    def close(self) -> None:
        """Let everything survive a power cut, and others write."""
        with disk_errors(self.path):
            for handle in (self._rows, self._human):
                os.fsync(handle)
                os.close(handle)
            self._lines.sync()
        self._lines.close()
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def line_of(
    clip: MotionClip, head: LibraryHead, first: int, human_first: int
) -> tuple[ClipLine, np.ndarray, np.ndarray]:
    """Return a clip's line and rows; raises BadFile when it is not one of this library's robot."""
    feet = len(head.foot_names)
    if clip.joint_names != head.joint_names:
        raise BadFile(
            f'The clip "{clip.name}" has other joints than {head.robot}.',
            hint=f"Retarget it: telic motions import FILE --robot {head.robot}",
        )
    if clip.contacts is not None and clip.contacts.shape[1] != feet:
        raise BadFile(f'The clip "{clip.name}" has contacts of {clip.contacts.shape[1]} feet.')
    if clip.human is not None and head.point_names and clip.human.names != head.point_names:
        raise BadFile(f'The human side of "{clip.name}" has another skeleton than the library.')
    rows, human = head.layout.rows_of(clip), head.layout.human_rows_of(clip)
    line = ClipLine(
        name=clip.name,
        first=first,
        frames=clip.frames,
        fps=clip.fps,
        sha256=clip.content_hash(),
        split=clip.split,
        human_first=human_first if len(human) else -1,
        has_contacts=clip.contacts is not None,
        origin=clip.origin,
    )
    return line, rows, human


def _require_same(old: LibraryHead, new: LibraryHead, path: Path) -> None:
    if (old.robot, old.joint_names) != (new.robot, new.joint_names):
        raise BadFile(
            f"{path} holds motions of {old.robot}, not of {new.robot}.", hint="Use another folder."
        )


def _appending(path: Path, length: int) -> int:
    """Open a file for writing at the end of what lines name; what a crash left is cut off."""
    with disk_errors(path):
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        os.ftruncate(handle, length)
        os.lseek(handle, length, os.SEEK_SET)
        return handle


# ---- reading


def read_shard(path: Path) -> Shard:
    """Return what is in a folder; raises BadFile when it is no library, or a damaged one."""
    if not (path / _HEAD).is_file():
        raise BadFile(
            f"{path} is no library of motions.",
            hint="Make one: telic motions generate --robot planar-biped --out FOLDER",
        )
    head = read_record(path / _HEAD, LibraryHead)
    rows = _mapped(path / _ROWS, sum(head.layout.robot))
    return Shard(
        path, head, _read_lines(path), rows, _mapped(path / _HUMAN, sum(head.layout.human))
    )


def _read_lines(path: Path) -> list[ClipLine]:
    lines: list[ClipLine] = []
    for number, row in enumerate(read_json_lines(path / _LINES), start=1):
        try:
            lines.append(ClipLine.model_validate(row))
        except ValidationError as error:
            raise BadFile(f"{path / _LINES}, line {number}: {error.errors()[0]['msg']}.") from None
    return lines


def _mapped(path: Path, width: int) -> Any:
    """Return the rows of a file, mapped into memory; writing to them would not reach the file."""
    size = path.stat().st_size if path.is_file() else 0
    rows = size // (width * _BYTES) if width else 0
    if not rows:
        return np.zeros((0, width), dtype=np.float32)
    return np.memmap(path, dtype=np.float32, mode="c", shape=(rows, width))
