"""A library of motions: clips of one robot, by name, one by one or frames of many at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Self

import numpy as np
import torch

from telic.core.tensors import from_numpy
from telic.errors import BadFile, UnknownName, UsageError
from telic.motions.clip import HumanTrack, MotionClip, Split
from telic.motions.robot import MotionRobot, motion_robot
from telic.motions.shelf import ClipLine, LibraryHead, Shard, head_for, line_of, read_shard
from telic.motions.table import HumanFrames, MotionFrames, MotionTable, body_states

_BEYONDMIMIC_FPS = 50


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


def beyondmimic_arrays(robot: MotionRobot, clip: MotionClip) -> dict[str, np.ndarray]:
    """Return a clip as mjlab and BeyondMimic read it: joints and all bodies, 50 frames a second."""
    clip = clip.resampled(_BEYONDMIMIC_FPS)
    table = MotionLibrary.of(robot, [clip]).table()
    times = torch.arange(clip.frames) / _BEYONDMIMIC_FPS
    frames = table.frames(torch.zeros(clip.frames, dtype=torch.long), times)
    bodies = body_states(robot.kinematics(), frames)
    return {
        "fps": np.array([_BEYONDMIMIC_FPS]),
        "joint_pos": frames.joint_pos.numpy(),
        "joint_vel": frames.joint_vel.numpy(),
        "body_pos_w": bodies.pos.numpy(),
        "body_quat_w": bodies.quat.numpy(),
        "body_lin_vel_w": bodies.lin_vel.numpy(),
        "body_ang_vel_w": bodies.ang_vel.numpy(),
        "joint_names": np.array(robot.joint_names),
        "body_names": np.array(robot.body_names),
    }
