"""Many clips as one block of memory: frames of any clips at any times, gathered at once.

A row is a frame: root position and rotation, joints, their velocities, feet that stand. Rows may
lie in a file that is mapped into memory, or on a GPU. Nothing here loops over clips, and nothing
looks at values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from telic.core.rotations import slerp
from telic.core.tensors import split
from telic.motions.clip import MotionClip
from telic.motions.kinematics import BodyStates, Kinematics


class MotionFrames(NamedTuple):
    """Frames of clips; every leading shape is that of the clips and times asked for."""

    root_pos: Tensor
    """(..., 3) m"""
    root_quat: Tensor
    """(..., 4) w first"""
    joint_pos: Tensor
    """(..., J)"""
    root_lin_vel: Tensor
    """(..., 3) m/s in the world"""
    root_ang_vel: Tensor
    """(..., 3) rad/s in the world"""
    joint_vel: Tensor
    """(..., J)"""
    contacts: Tensor
    """(..., feet) how much each foot stands, 0 to 1; none: nothing is known of its feet"""


class HumanFrames(NamedTuple):
    """The human side of frames; nought where a clip has none (see `MotionTable.has_human`)."""

    points: Tensor
    """(..., K, 3) places of the skeleton's joints in the world, m"""
    root_quat: Tensor
    """(..., 4) w first"""


@dataclass(frozen=True, slots=True)
class RowLayout:
    """What the columns of a row are."""

    joints: int
    feet: int = 0
    points: int = 0

    @property
    def robot(self) -> list[int]:
        """Widths of a row of the robot's block."""
        return [3, 4, self.joints, 3, 3, self.joints, self.feet]

    @property
    def human(self) -> list[int]:
        """Widths of a row of the human block."""
        return [3 * self.points, 4] if self.points else []

    def rows_of(self, clip: MotionClip) -> np.ndarray:
        """Return a clip's rows (T, width)."""
        speed = clip.velocities()
        stands = np.zeros((clip.frames, self.feet), dtype=np.float32)
        if clip.contacts is not None:
            stands[:] = clip.contacts
        columns = (clip.root_pos, clip.root_quat, clip.joint_pos, *speed, stands)
        return np.concatenate(columns, axis=1, dtype=np.float32)

    def human_rows_of(self, clip: MotionClip) -> np.ndarray:
        """Return the rows of a clip's human side; none if it has none."""
        if clip.human is None or not self.points:
            return np.zeros((0, sum(self.human)), dtype=np.float32)
        points = clip.human.points.reshape(clip.frames, -1)
        return np.concatenate((points, clip.human.root_quat), axis=1, dtype=np.float32)


class MotionTable:
    """Clips whose frames lie in one block on one device."""

    def __init__(
        self,
        layout: RowLayout,
        rows: Tensor,
        first: Tensor,
        frames: Tensor,
        fps: Tensor,
        human_rows: Tensor | None = None,
        human_first: Tensor | None = None,
    ) -> None:
        """Hold the block.

        Args:
            layout: what its columns are.
            rows: (all frames, width) of the robot.
            first: (clips,) the first row of each clip.
            frames: (clips,) how many rows it has.
            fps: (clips,) frames a second.
            human_rows: (frames, width) of the human side.
            human_first: (clips,) the first of them of each clip; -1: it has none.
        """
        self.layout, self.rows, self.device = layout, rows, rows.device
        self.first, self.frame_count = first.to(self.device), frames.to(self.device)
        self.fps = fps.to(self.device, torch.float32)
        self._human_rows = human_rows
        missing = torch.full_like(self.first, -1)
        self._human_first = missing if human_first is None else human_first.to(self.device)
        self.has_human = self._human_first >= 0
        """(clips,) whether there is a human side"""
        self.duration_s = (self.frame_count - 1) / self.fps
        """(clips,) seconds from the first frame to the last"""

    @property
    def clips(self) -> int:
        """How many clips there are."""
        return len(self.first)

    def frames(self, clips: Tensor, times_s: Tensor) -> MotionFrames:
        """Return frames of clips (...) at times (...); before and after, the ends repeat."""
        low, high, share = self._places(clips, times_s)
        first = self.first[clips]
        a, b = self.rows[first + low], self.rows[first + high]
        parts = split(a + share * (b - a), self.layout.robot, dim=-1)
        quat = slerp(a[..., 3:7], b[..., 3:7], share)
        return MotionFrames(parts[0], quat, *parts[2:])

    def human(self, clips: Tensor, times_s: Tensor) -> HumanFrames | None:
        """Return the human side of frames; None when no clip has one."""
        if self._human_rows is None or not len(self._human_rows):
            return None
        low, high, share = self._places(clips, times_s)
        here = self.has_human[clips]
        first = self._human_first[clips].clamp_min(0)
        zero = torch.zeros_like(low)
        a = self._human_rows[first + torch.where(here, low, zero)]
        b = self._human_rows[first + torch.where(here, high, zero)]
        points, _ = split(a + share * (b - a), self.layout.human, dim=-1)
        quat = slerp(a[..., -4:], b[..., -4:], share)
        points = points * here[..., None]
        return HumanFrames(points.unflatten(-1, (self.layout.points, 3)), quat)

    def _places(self, clips: Tensor, times_s: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the frames around the times and how far between them these are."""
        last = self.frame_count[clips] - 1
        exact = torch.minimum((times_s * self.fps[clips]).clamp_min(0.0), last.to(self.fps.dtype))
        low = torch.minimum(exact.floor().long(), last)
        high = torch.minimum(low + 1, last)
        return low, high, (exact - low)[..., None]


def body_states(kinematics: Kinematics, frames: MotionFrames) -> BodyStates:
    """Return where all bodies of the robot are in frames, and how fast."""
    return kinematics.states(
        frames.root_pos,
        frames.root_quat,
        frames.joint_pos,
        frames.root_lin_vel,
        frames.root_ang_vel,
        frames.joint_vel,
    )
