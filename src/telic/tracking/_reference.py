"""Reference motions resampled at the control rate, in flat tensors on a device.

Body states are stored one physics step before each frame, because simulated body states lag by one
physics step after a control step. One gather of rows reads all future frames.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from telic.core.rotations import conjugate, rotate
from telic.core.tensors import integers, split
from telic.errors import UsageError
from telic.motions.clip import MotionFrames
from telic.motions.kinematics import BodyStates, Kinematics
from telic.motions.library import MotionLibrary
from telic.tracking._parts import TrackedParts


class HumanFrames(NamedTuple):
    """Frames of a person or a stick figure that performs the motion."""

    points: Tensor
    """points (..., K, 3) in the root frame, in m"""
    root_quat: Tensor
    """orientation of the root (..., 4)"""


class ReferenceTable:
    """Clips of a library as tensors on a device."""

    def __init__(
        self,
        library: MotionLibrary,
        clips: Sequence[int],
        parts: TrackedParts,
        *,
        dt: float,
        lag_s: float,
        proportions: tuple[float, float] = (1.0, 1.0),
        least_points: int = 0,
        device: torch.device | str = "cpu",
    ) -> None:
        """Load the given clips of a library.

        Args:
            library: library of motions.
            clips: indices of the clips.
            parts: tracked parts of the robot.
            dt: seconds between frames.
            lag_s: lag of body states behind their frame in s.
            proportions: bone scales of the stick figure for clips without a person.
            least_points: minimum number of human points, padded with zeros.
            device: device of the tensors.
        """
        if not clips:
            raise UsageError("No motion to track.", hint="See: telic motions show")
        self.parts, self._lag_s, self._proportions = parts, lag_s, proportions
        self._sizes = [3, 4, parts.joints, 3, 3, parts.joints]
        lines = [library.clips[place] for place in clips]
        seconds = torch.tensor([x.frames - 1 for x in lines]) / torch.tensor([x.fps for x in lines])
        counts = (seconds.double() / dt + 1e-6).floor().long() + 1
        has_person = [line.human_first >= 0 for line in lines]
        points = len(library.head.point_names) if any(has_person) else 0
        pieces = [
            self._piece(library, place, torch.arange(count) * dt, points)
            for place, count in zip(clips, integers(counts), strict=True)
        ]
        pose, bodies, person = (torch.cat(column) for column in zip(*pieces, strict=True))
        filler = person.new_zeros(len(person), max(0, 3 * least_points + 4 - person.shape[1]))
        person = torch.cat((person[:, :-4], filler, person[:, -4:]), 1)
        self.names = [line.name for line in lines]
        self.frames = counts.to(device)
        """number of frames in each clip, (C,)"""
        self.first = self.frames.cumsum(0) - self.frames
        """row of the first frame of each clip, (C,)"""
        self.has_person = torch.tensor(has_person, device=device)
        """whether a clip has a recorded person, (C,) bool"""
        self._pose, self._bodies, self._person = (x.to(device) for x in (pose, bodies, person))
        self.person_points = (person.shape[1] - 4) // 3

    def _piece(
        self, library: MotionLibrary, place: int, time: Tensor, points: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the pose, tracked bodies and person of one clip at times (n,).

        Clips without a person get `points` zeros, or a stick figure if `points` is 0.
        """
        robot = self.parts.robot
        kinematics = robot.kinematics
        now = library.frames(place, time)
        states = kinematics.states(*library.frames(place, (time - self._lag_s).clamp_min(0.0)))
        places = [kinematics.bodies.index(body) for body in self.parts.bodies]
        bodies = torch.cat([part[:, places].flatten(1) for part in states], dim=-1)
        person, root = library.person(place, time), now.root_quat
        if person is not None:
            root = person[1]
            figure = rotate(conjugate(root)[:, None], person[0])
        elif points:
            figure = now.root_pos.new_zeros(len(time), points, 3)
        else:
            figure = _stick_figure(robot.model.body_parentid, kinematics, self._proportions, now)
        return torch.cat(now, dim=-1), bodies, torch.cat((figure.flatten(1), root), dim=-1)

    @property
    def clips(self) -> int:
        """Number of clips."""
        return len(self.names)

    def rows(self, clip: Tensor, frame: Tensor) -> Tensor:
        """Return the rows of frames, clamped to the last frame of each clip."""
        return self.first[clip] + torch.minimum(frame, self.frames[clip] - 1).clamp_min(0)

    def pose(self, rows: Tensor) -> MotionFrames:
        """Return the root and joint states of the given rows."""
        return MotionFrames._make(split(self._pose[rows], self._sizes, dim=-1))

    def bodies(self, rows: Tensor) -> BodyStates:
        """Return the tracked body states of the given rows, one physics step earlier."""
        count = len(self.parts.bodies)
        sizes = [3 * count, 4 * count, 3 * count, 3 * count]
        parts = split(self._bodies[rows], sizes, dim=-1)
        return BodyStates._make(part.view(*rows.shape, count, -1) for part in parts)

    def person(self, rows: Tensor) -> HumanFrames:
        """Return the person frames of the given rows."""
        both = self._person[rows]
        points = both[..., :-4].reshape(*rows.shape, self.person_points, 3)
        return HumanFrames(points, both[..., -4:])


def _stick_figure(
    parents: Sequence[int],
    kinematics: Kinematics,
    proportions: tuple[float, float],
    now: MotionFrames,
) -> Tensor:
    """Return body positions (n, B, 3) in the root frame, with bones scaled alternately by depth."""
    pos, _ = kinematics.poses(now.root_pos, now.root_quat, now.joint_pos)
    local = rotate(conjugate(now.root_quat)[:, None], pos - now.root_pos[:, None])
    place = {body: i for i, body in enumerate(kinematics.bodies)}
    figure, depth = [local[:, 0]], [0]
    for i, body in enumerate(kinematics.bodies[1:], start=1):
        above = place[int(parents[body])]
        depth.append(depth[above] + 1)
        figure.append(figure[above] + (local[:, i] - local[:, above]) * proportions[depth[i] % 2])
    return torch.stack(figure, dim=1)
