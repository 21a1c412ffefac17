"""A library of motions: clips of one robot in a folder; frames are mapped into memory, not read.

    library.json    whose motions: robot, joints, feet, points of the human side
    clips.jsonl     a line per clip: name, first row, frames, fps, licence, source, split, hash
    frames.f32      rows of all clips, one after the other
    human.f32       rows of the human side

Rows are written before the line that names them, so a crash costs the last clip and nothing else:
rows that no line names are written over. Opening reads the lines only.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from pydantic import Field, ValidationError

from telic.core.config import Record
from telic.core.tensors import from_numpy
from telic.errors import BadEnvironment, BadFile, UnknownName, UsageError
from telic.motions.clip import (
    HumanFrames,
    HumanTrack,
    MotionClip,
    MotionFrames,
    MotionOrigin,
    MotionTable,
    RowLayout,
    Split,
)
from telic.motions.figure import RobotFigure, person_points
from telic.motions.robot import MotionRobot, motion_robot
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


class MotionLibrary:
    """Clips of one robot."""

    def __init__(self, robot: MotionRobot, head: LibraryHead, shards: Sequence[Shard]) -> None:
        self.robot, self.head = robot, head
        self._shards = list(shards)
        self.clips: list[ClipLine] = [line for shard in shards for line in shard.lines]
        self._places = {line.name: place for place, line in enumerate(self.clips)}
        counts = [len(shard.lines) for shard in shards]
        self._shard_of = np.repeat(np.arange(len(shards)), counts)
        self._table: MotionTable | None = None

    # ---- opening and making

    @classmethod
    def open(cls, *places: Path | str) -> Self:
        """Return the library in one or more folders, all of one robot."""
        if not places:
            raise UsageError("No library of motions was named.", hint="Give a folder.")
        shards = [read_shard(Path(place).expanduser()) for place in places]
        head = shards[0].head
        for shard in shards[1:]:
            if shard.head != head:
                raise BadFile(
                    f"{shard.path} and {shards[0].path} are of different robots or rows.",
                    hint="Open them one by one.",
                )
        library = cls(motion_robot(head.robot), head, shards)
        if head.joint_names != library.robot.joint_names:
            raise BadFile(
                f"{places[0]} has other joints than the robot {head.robot} has now.",
                hint="Import its motions again.",
            )
        library._check_names()
        return library

    @classmethod
    def of(cls, robot: MotionRobot, clips: Iterable[MotionClip]) -> Self:
        """Return a library of clips that are at hand, in memory only."""
        taken = list(clips)
        head = head_for(robot, taken)
        layout, lines, first, human_first = head.layout, list[ClipLine](), 0, 0
        rows, human_rows = list[np.ndarray](), list[np.ndarray]()
        for clip in taken:
            line, own, human = line_of(clip, head, first, human_first)
            lines.append(line)
            rows.append(own)
            human_rows.append(human)
            first, human_first = first + len(own), human_first + len(human)
        block = np.concatenate(rows) if rows else np.zeros((0, sum(layout.robot)), np.float32)
        human = np.concatenate(human_rows) if rows else np.zeros((0, 0), np.float32)
        shard = Shard(Path("memory"), head, lines, block, human)
        library = cls(robot, head, [shard])
        library._check_names()
        return library

    def _check_names(self) -> None:
        if len(self._places) < len(self.clips):
            seen = set[str]()
            twice = next(x.name for x in self.clips if x.name in seen or seen.add(x.name))
            raise BadFile(f'Two clips of the library are called "{twice}".')

    # ---- what is in it

    @property
    def names(self) -> list[str]:
        """The names of all clips, in order."""
        return [line.name for line in self.clips]

    def place(self, name: str) -> int:
        """Return the number of a clip; raises UnknownName."""
        if name not in self._places:
            raise UnknownName("clip", name, self.names, see="telic motions show")
        return self._places[name]

    def chosen(self, split: Split) -> list[int]:
        """Return the numbers of the clips of one split."""
        return [place for place, line in enumerate(self.clips) if line.split == split]

    def clip(self, which: int | str) -> MotionClip:
        """Return one clip, read from its rows."""
        place = self.place(which) if isinstance(which, str) else which
        line, shard = self.clips[place], self._shards[int(self._shard_of[place])]
        rows = np.array(shard.rows[line.first : line.first + line.frames])
        joints, feet = len(self.head.joint_names), len(self.head.foot_names)
        human = None
        if line.human_first >= 0:
            block = shard.human_rows[line.human_first : line.human_first + line.frames]
            points = np.array(block[:, :-4]).reshape(line.frames, -1, 3)
            human = HumanTrack(self.head.point_names, points, np.array(block[:, -4:]))
        return MotionClip(
            name=line.name,
            robot=self.head.robot,
            fps=line.fps,
            root_pos=rows[:, :3],
            root_quat=rows[:, 3:7],
            joint_pos=rows[:, 7 : 7 + joints],
            joint_names=self.head.joint_names,
            contacts=rows[:, -feet:] > 0.5 if feet and line.has_contacts else None,
            human=human,
            origin=line.origin,
            split=line.split,
        )

    # ---- frames, in batches

    def table(self, clips: Sequence[int] | None = None, device: str = "cpu") -> MotionTable:
        """Return some clips (None: all) as one block on a device, numbered as they are given.

        On the CPU all clips of one folder are used where they lie; else they are copied.
        """
        lines = self.clips if clips is None else [self.clips[place] for place in clips]
        if clips is None and len(self._shards) == 1:
            shard = self._shards[0]
            block, human = from_numpy(shard.rows), from_numpy(shard.human_rows)
            first = np.array([line.first for line in lines], dtype=np.int64)
            human_first = np.array([line.human_first for line in lines], dtype=np.int64)
        else:
            places = np.arange(len(lines)) if clips is None else np.asarray(clips)
            block, first = self._gathered(places, lines, human=False)
            human, human_first = self._gathered(places, lines, human=True)
        return MotionTable(
            self.head.layout,
            block.to(device),
            from_numpy(first),
            torch.tensor([line.frames for line in lines], dtype=torch.long),
            torch.tensor([line.fps for line in lines], dtype=torch.float32),
            human.to(device),
            from_numpy(human_first),
        )

    def _gathered(
        self, places: np.ndarray, lines: list[ClipLine], *, human: bool
    ) -> tuple[torch.Tensor, np.ndarray]:
        """Return the rows of some clips one after the other, and where each begins."""
        starts = [line.human_first if human else line.first for line in lines]
        old = np.array(starts, dtype=np.int64)
        counts = np.where(old >= 0, np.array([line.frames for line in lines], dtype=np.int64), 0)
        new = np.concatenate(([0], np.cumsum(counts)[:-1])) if len(counts) else counts
        width = sum(self.head.layout.human if human else self.head.layout.robot)
        out = np.empty((int(counts.sum()), width), dtype=np.float32)
        for number, shard in enumerate(self._shards):
            own = (self._shard_of[places] == number) & (counts > 0)
            length = counts[own]
            steps = np.arange(int(length.sum())) - np.repeat(np.cumsum(length) - length, length)
            rows = shard.human_rows if human else shard.rows
            out[np.repeat(new[own], length) + steps] = rows[np.repeat(old[own], length) + steps]
        return from_numpy(out), np.where(old >= 0, new, -1)

    def frames(self, clips: torch.Tensor, times_s: torch.Tensor) -> MotionFrames:
        """Return frames of clips (...) at times (...), from where they lie."""
        return self._whole().frames(clips, times_s)

    def human(self, clips: torch.Tensor, times_s: torch.Tensor) -> HumanFrames | None:
        """Return the human side of the same; None: no clip has one."""
        return self._whole().human(clips, times_s)

    def _whole(self) -> MotionTable:
        self._table = self._table or self.table()
        return self._table
