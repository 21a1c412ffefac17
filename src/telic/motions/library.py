"""Motion library: clips of one robot in a folder, with memory-mapped frames.

    library.json    robot, joints, feet and points of the human motion
    clips.jsonl     one line per clip with name, rows, fps, license, source, split and hash
    frames.f32      concatenated rows of all clips
    human.f32       concatenated rows of the human motions

Rows are written before their line in clips.jsonl, so a crash loses at most the last clip. Rows
without a line are overwritten. Opening a library reads only clips.jsonl.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from pydantic import Field, ValidationError
from torch import Tensor

from telic.core.config import Record
from telic.core.rotations import slerp
from telic.core.tensors import from_numpy, norm, split
from telic.errors import BadEnvironment, BadFile, UnknownName
from telic.motions._figure import RobotFigure, person_points
from telic.motions.clip import HumanTrack, MotionClip, MotionFrames, MotionOrigin, Split
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
_BYTES, _UNIT_WITHIN = 4, 0.05


class LibraryHead(Record):
    """Names of a library's robot and columns."""

    schema_version: int = 1
    robot: str
    joint_names: tuple[str, ...]
    foot_names: tuple[str, ...] = ()
    point_names: tuple[str, ...] = Field(default=(), description="names of the human points")

    @property
    def widths(self) -> list[int]:
        """Column widths of a row: the fields of `MotionFrames` and the contact of each foot."""
        joints = len(self.joint_names)
        return [3, 4, joints, 3, 3, joints, len(self.foot_names)]

    @property
    def human_width(self) -> int:
        """Width of a row of the human motion: the points and the root quaternion."""
        return 3 * len(self.point_names) + 4 if self.point_names else 0

    def rows_of(self, clip: MotionClip) -> np.ndarray:
        """Return the rows (T, width) of a clip."""
        stands = np.zeros((clip.frames, len(self.foot_names)), dtype=np.float32)
        if clip.contacts is not None:
            stands[:] = clip.contacts
        columns = (clip.root_pos, clip.root_quat, clip.joint_pos, *clip.velocities(), stands)
        return np.concatenate(columns, axis=1, dtype=np.float32)

    def human_rows_of(self, clip: MotionClip) -> np.ndarray:
        """Return the human motion rows of a clip. A clip without human motion has no rows."""
        if clip.human is None or not self.point_names:
            return np.zeros((0, self.human_width), dtype=np.float32)
        points = clip.human.points.reshape(clip.frames, -1)
        return np.concatenate((points, clip.human.root_quat), axis=1, dtype=np.float32)


class ClipEntry(Record):
    """Metadata of a clip, stored in clips.jsonl."""

    name: str
    first: int = Field(ge=0, description="index of the first row")
    frames: int = Field(ge=2, le=1_000_000)
    fps: float = Field(ge=1.0, le=10_000.0)
    sha256: str = ""
    split: Split = "train"
    human_first: int = Field(default=-1, ge=-1, description="first row of the human motion, or -1")
    has_contacts: bool = False
    origin: MotionOrigin = MotionOrigin()
    report: dict[str, float] = Field(default={}, description="values measured on import")

    @property
    def duration_s(self) -> float:
        """Duration from the first to the last frame, in s."""
        return (self.frames - 1) / self.fps


# ---- writing


def head_for(robot: MotionRobot, clips: Sequence[MotionClip]) -> LibraryHead:
    """Return the header of a library for the given clips."""
    humans = {clip.human.names for clip in clips if clip.human is not None}
    if len(humans) > 1:
        raise BadFile("The human motions of these clips have different skeletons.")
    feet = tuple(robot.model.body(foot).name for foot in robot.facts.feet)
    points = next(iter(humans), ())
    if not humans:
        with contextlib.suppress(BadEnvironment):  # no human motions without two legs
            points = person_points(RobotFigure(robot).has_arms)
    return LibraryHead(
        robot=robot.name, joint_names=robot.joint_names, foot_names=feet, point_names=points
    )


class LibraryWriter:
    """Writer of clips to a library folder. Locks the folder against other processes."""

    def __init__(self, path: Path, head: LibraryHead) -> None:
        self.path = path
        with disk_errors(path):
            make_folder(path)
        self._lock = RunLock(path / "lock", name=f"the library {path}")
        self._lock.acquire()
        self.head = head
        if (path / _HEAD).is_file():
            self.head = read_record(path / _HEAD, LibraryHead)
            if (self.head.robot, self.head.joint_names) != (head.robot, head.joint_names):
                raise BadFile(
                    f"{path} contains motions of {self.head.robot}, not of {head.robot}.",
                    hint="Use another folder.",
                )
        else:
            write_json(path / _HEAD, head.model_dump())
        lines = _read_lines(path)
        self.names = {line.name for line in lines}
        self.hashes = {line.sha256: line.name for line in lines}
        self._first = max((line.first + line.frames for line in lines), default=0)
        ends = [line.human_first + line.frames for line in lines if line.human_first >= 0]
        self._human_first = max(ends, default=0)
        self._rows = _appending(path / _ROWS, self._first * sum(self.head.widths) * _BYTES)
        human_bytes = self._human_first * self.head.human_width * _BYTES
        self._human = _appending(path / _HUMAN, human_bytes)
        self._lines = JsonLines(path / _LINES)

    def add(self, clip: MotionClip, report: dict[str, float] | None = None) -> ClipEntry:
        """Append a clip. Raises BadFile for a duplicate name or a different robot."""
        if clip.name in self.names:
            raise BadFile(f'The library {self.path} already has a clip "{clip.name}".')
        feet = len(self.head.foot_names)
        if clip.joint_names != self.head.joint_names:
            raise BadFile(
                f'The clip "{clip.name}" does not have the joints of {self.head.robot}.',
                hint=f"Retarget it with: telic motions import FILE --robot {self.head.robot}",
            )
        if clip.contacts is not None and clip.contacts.shape[1] != feet:
            raise BadFile(f'The clip "{clip.name}" has {clip.contacts.shape[1]} feet, not {feet}.')
        points = self.head.point_names
        if clip.human is not None and points and clip.human.names != points:
            raise BadFile(
                f'The human motion of "{clip.name}" and the library have different skeletons.'
            )
        rows, human = self.head.rows_of(clip), self.head.human_rows_of(clip)
        line = ClipEntry(
            name=clip.name,
            first=self._first,
            frames=clip.frames,
            fps=clip.fps,
            sha256=clip.content_hash(),
            split=clip.split,
            human_first=self._human_first if len(human) else -1,
            has_contacts=clip.contacts is not None,
            origin=clip.origin,
            report=report or {},
        )
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
        """Sync all files to disk and release the lock."""
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


def _appending(path: Path, length: int) -> int:
    """Open a file for appending, truncated to a length to discard partial writes after a crash."""
    with disk_errors(path):
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        os.ftruncate(handle, length)
        os.lseek(handle, length, os.SEEK_SET)
        return handle


# ---- reading


def _read_lines(path: Path) -> list[ClipEntry]:
    lines: list[ClipEntry] = []
    for number, row in enumerate(read_json_lines(path / _LINES), start=1):
        try:
            lines.append(ClipEntry.model_validate(row))
        except ValidationError as error:
            raise BadFile(f"{path / _LINES}, line {number}: {error.errors()[0]['msg']}.") from None
    return lines


def _mapped(path: Path, width: int) -> Any:
    """Return the memory-mapped rows of a file, copy-on-write."""
    size = path.stat().st_size if path.is_file() else 0
    rows = size // (width * _BYTES) if width else 0
    if not rows:
        return np.zeros((0, width), dtype=np.float32)
    return np.memmap(path, dtype=np.float32, mode="c", shape=(rows, width))


class MotionLibrary:
    """Read-only library of the clips of one robot."""

    def __init__(
        self,
        robot: MotionRobot,
        head: LibraryHead,
        lines: list[ClipEntry],
        rows: Any,
        human_rows: Any,
        where: str,
    ) -> None:
        """Initialize the library. Raises BadFile for duplicate names or missing rows."""
        self.robot, self.head, self.clips = robot, head, lines
        self._rows, self._human_rows = rows, human_rows
        self._places = {line.name: place for place, line in enumerate(lines)}
        if len(self._places) < len(lines):
            raise BadFile(f"Two clips of {where} have the same name.")
        for line in lines:
            end, human = line.first + line.frames, line.human_first + line.frames
            if end > len(rows) or (line.human_first >= 0 and human > len(human_rows)):
                raise BadFile(
                    f'{where} is truncated: the frames of "{line.name}" are missing.',
                    hint="Import it again, or remove the clip's line from clips.jsonl.",
                )

    @classmethod
    def open(cls, place: Path | str) -> Self:
        """Open the library in a folder."""
        path = Path(place).expanduser()
        if not (path / _HEAD).is_file():
            raise BadFile(
                f"{path} is not a motion library.",
                hint="Generate one with: telic motions generate --robot planar-biped --out FOLDER",
            )
        head = read_record(path / _HEAD, LibraryHead)
        robot = motion_robot(head.robot)
        if head.joint_names != robot.joint_names:
            raise BadFile(
                f"The joints in {path} differ from the current joints of {head.robot}.",
                hint="Import its motions again.",
            )
        rows = _mapped(path / _ROWS, sum(head.widths))
        human = _mapped(path / _HUMAN, head.human_width)
        return cls(robot, head, _read_lines(path), rows, human, str(path))

    @property
    def names(self) -> list[str]:
        """Names of all clips, in order."""
        return [line.name for line in self.clips]

    def place(self, name: str) -> int:
        """Return the index of a clip, or raise UnknownName."""
        if name not in self._places:
            raise UnknownName("clip", name, self.names, see="telic motions show")
        return self._places[name]

    def chosen(self, split: Split) -> list[int]:
        """Return the indices of the clips of a split."""
        return [place for place, line in enumerate(self.clips) if line.split == split]

    def first_split(self, *wanted: Split) -> Split:
        """Return the first of these splits that has clips, or else "train"."""
        return next((split for split in wanted if self.chosen(split)), "train")

    def clip(self, which: int | str) -> MotionClip:
        """Load a clip by index or name."""
        line = self.clips[self.place(which) if isinstance(which, str) else which]
        rows = np.array(self._rows[line.first : line.first + line.frames])
        joints, feet = len(self.head.joint_names), len(self.head.foot_names)
        human = None
        if line.human_first >= 0:
            block = self._human_rows[line.human_first : line.human_first + line.frames]
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

    def frames(self, place: int, times_s: Tensor) -> MotionFrames:
        """Return the frames of a clip at times (n,), clamped to the duration of the clip."""
        line = self.clips[place]
        rows = self._rows[line.first : line.first + line.frames]
        parts = split(_between(rows, line, times_s, slice(3, 7)), self.head.widths, dim=1)
        return MotionFrames(*parts[:6])

    def person(self, place: int, times_s: Tensor) -> tuple[Tensor, Tensor] | None:
        """Return human points (n, K, 3) and root quaternions (n, 4) at times, or None if missing.

        Points are world positions in m.
        """
        line = self.clips[place]
        if line.human_first < 0:
            return None
        rows = self._human_rows[line.human_first : line.human_first + line.frames]
        mixed = _between(rows, line, times_s, slice(-4, None))
        return mixed[:, :-4].unflatten(1, (-1, 3)), mixed[:, -4:]


def _between(rows: np.ndarray, line: ClipEntry, times_s: Tensor, quat: slice) -> Tensor:
    """Interpolate the rows of a clip at times (n,), clamped to its duration, to shape (n, width).

    Interpolation is linear, with slerp for the columns in `quat`. Raises BadFile for damaged rows.
    """
    block, last = from_numpy(np.array(rows)), len(rows) - 1
    if not bool(((norm(block[:, quat]) - 1.0).abs() < _UNIT_WITHIN).all() & block.isfinite().all()):
        raise BadFile(f'The frames of "{line.name}" are corrupted.', hint="Import it again.")
    exact = (times_s * line.fps).clamp(0.0, last)
    low = exact.floor().long()
    share = (exact - low)[:, None]
    a, b = block[low], block[(low + 1).clamp_max(last)]
    mixed = a + share * (b - a)
    mixed[:, quat] = slerp(a[:, quat], b[:, quat], share)
    return mixed
