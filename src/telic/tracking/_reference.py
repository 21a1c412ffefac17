"""The motions as the environment reads them: frames at the rate of control, in flat tensors.

Bodies are held as they are one physics step before each frame, for that is the moment that the
bodies of a simulation describe after a step. A frame ahead is then one gather of whole rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from telic.core.rotations import conjugate, rotate
from telic.core.tensors import split
from telic.errors import UsageError
from telic.motions.clip import MotionFrames, MotionTable, body_states
from telic.motions.kinematics import Kinematics
from telic.motions.library import MotionLibrary
from telic.tracking._parts import TrackedParts

_CHUNK = 100_000
"""frames that are computed at a time"""


class PoseFrames(NamedTuple):
    """Root and joints of frames, (..., k)."""

    root_pos: Tensor
    root_quat: Tensor
    root_lin_vel: Tensor
    root_ang_vel: Tensor
    joint_pos: Tensor
    joint_vel: Tensor


class BodyFrames(NamedTuple):
    """Tracked bodies in the world, (..., B, 3) and (..., B, 4)."""

    pos: Tensor
    quat: Tensor
    lin_vel: Tensor
    ang_vel: Tensor


class PersonFrames(NamedTuple):
    """The same motion as a person, or a stick figure, does it."""

    points: Tensor
    """(..., K, 3) seen from the root, m"""
    root_quat: Tensor
    """(..., 4)"""


class _ReadClips(NamedTuple):
    """Clips as they were read, one after the other."""

    names: list[str]
    frames: Tensor
    has_person: Tensor
    pose: Tensor
    bodies: Tensor
    person: Tensor


def _first_rows(frames: Tensor) -> Tensor:
    return frames.cumsum(0) - frames


class ReferenceTable:
    """Some clips of a library on a device."""

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
        spare: float = 0.0,
    ) -> None:
        """Read the clips.

        Args:
            library: where they are.
            clips: their numbers.
            parts: what is tracked.
            dt: seconds between frames.
            lag_s: how long before a frame bodies are taken.
            proportions: of the stick figure that stands in where a clip has no person.
            least_points: points of a person; missing ones are 0.
            device: where tensors live.
            spare: room for more frames than these clips have, as a share: others may be longer.
        """
        if not clips:
            raise UsageError("There is no motion to follow.", hint="See: telic motions show")
        self.parts, self.dt = parts, dt
        self._lag_s, self._proportions, self._least_points = lag_s, proportions, least_points
        self._sizes = [3, 4, 3, 3, parts.joints, parts.joints]
        read = self._read(library, clips)
        self.names = read.names
        self.frames = read.frames.to(device)
        """(C,) frames of each clip"""
        self.first = _first_rows(read.frames).to(device)
        """(C,) row of its first one"""
        self.has_person = read.has_person.to(device)
        """(C,) whether somebody was recorded doing it"""
        self.room = round(len(read.pose) * (1.0 + spare))
        """frames that it can hold"""
        self._pose, self._bodies, self._person = (
            torch.zeros(self.room, block.shape[1], device=device)
            for block in (read.pose, read.bodies, read.person)
        )
        self.person_points = (read.person.shape[1] - 4) // 3
        self._fill(read)

    def renew(self, library: MotionLibrary, clips: Sequence[int]) -> None:
        """Hold as many other clips from now on, at the same place in memory.

        Raises UsageError where they do not fit; see `room`.
        """
        read = self._read(library, clips)
        if len(clips) != self.clips or len(read.pose) > self.room:
            raise UsageError(
                f"{len(clips)} clips of {len(read.pose)} frames cannot take the place of "
                f"{self.clips} clips with room for {self.room} frames."
            )
        if read.person.shape[1] != self._person.shape[1]:
            raise UsageError("The other clips show another number of points of a person.")
        self.names = read.names
        self.frames.copy_(read.frames)
        self.first.copy_(_first_rows(read.frames))
        self.has_person.copy_(read.has_person)
        self._fill(read)

    def _fill(self, read: _ReadClips) -> None:
        for held, block in zip(
            (self._pose, self._bodies, self._person),
            (read.pose, read.bodies, read.person),
            strict=True,
        ):
            held[: len(block)].copy_(block)

    def _read(self, library: MotionLibrary, clips: Sequence[int]) -> _ReadClips:
        table = library.table(list(clips))
        counts = (table.duration_s.double() / self.dt + 1e-6).floor().long() + 1
        first = _first_rows(counts)
        clip = torch.repeat_interleave(torch.arange(len(counts)), counts)
        time = (torch.arange(len(clip)) - first[clip]) * self.dt
        parts = (slice(at, at + _CHUNK) for at in range(0, len(clip), _CHUNK))
        pieces = [self._piece(table, clip[part], time[part]) for part in parts]
        pose, bodies, person = (torch.cat(column) for column in zip(*pieces, strict=True))
        missing = max(0, 3 * self._least_points + 4 - person.shape[1])
        person = torch.cat(
            (person[:, :-4], person.new_zeros(len(person), missing), person[:, -4:]), 1
        )
        names = [library.clips[place].name for place in clips]
        return _ReadClips(names, counts, table.has_human, pose, bodies, person)

    def _piece(
        self, table: MotionTable, clip: Tensor, time: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        robot = self.parts.robot
        kinematics = robot.kinematics()
        now = table.frames(clip, time)
        pose = torch.cat(
            (
                *(now.root_pos, now.root_quat, now.root_lin_vel),
                *(now.root_ang_vel, now.joint_pos, now.joint_vel),
            ),
            dim=-1,
        )
        before = table.frames(clip, (time - self._lag_s).clamp_min(0.0))
        states = body_states(kinematics, before)
        places = [kinematics.bodies.index(body) for body in self.parts.bodies]
        bodies = torch.cat([part[:, places].flatten(1) for part in states], dim=-1)
        stick = _stick_figure(robot.model.body_parentid, kinematics, self._proportions, now)
        root = now.root_quat
        human = table.human(clip, time)
        if human is not None:
            own = table.has_human[clip]
            local = rotate(conjugate(human.root_quat)[:, None], human.points)
            root = torch.where(own[:, None], human.root_quat, root)
            stick = local * own[:, None, None]
        return pose, bodies, torch.cat((stick.flatten(1), root), dim=-1)

    @property
    def clips(self) -> int:
        """How many clips there are."""
        return len(self.names)

    def rows(self, clip: Tensor, frame: Tensor) -> Tensor:
        """Return the rows of frames; after its end a clip's last frame repeats."""
        return self.first[clip] + torch.minimum(frame, self.frames[clip] - 1).clamp_min(0)

    def pose(self, rows: Tensor) -> PoseFrames:
        """Return root and joints of rows (...)."""
        return PoseFrames._make(split(self._pose[rows], self._sizes, dim=-1))

    def bodies(self, rows: Tensor) -> BodyFrames:
        """Return the tracked bodies of rows (...), one physics step earlier."""
        count = len(self.parts.bodies)
        sizes = [3 * count, 4 * count, 3 * count, 3 * count]
        parts = split(self._bodies[rows], sizes, dim=-1)
        return BodyFrames._make(part.view(*rows.shape, count, -1) for part in parts)

    def person(self, rows: Tensor) -> PersonFrames:
        """Return the human side of rows (...)."""
        both = self._person[rows]
        points = both[..., :-4].reshape(*rows.shape, self.person_points, 3)
        return PersonFrames(points, both[..., -4:])


def _stick_figure(
    parents: Sequence[int],
    kinematics: Kinematics,
    proportions: tuple[float, float],
    now: MotionFrames,
) -> Tensor:
    """Return the bodies seen from the root with bones by turns longer and shorter, (n, B, 3)."""
    pos, _ = kinematics.poses(now.root_pos, now.root_quat, now.joint_pos)
    local = rotate(conjugate(now.root_quat)[:, None], pos - now.root_pos[:, None])
    place = {body: i for i, body in enumerate(kinematics.bodies)}
    figure, depth = [local[:, 0]], [0]
    for i, body in enumerate(kinematics.bodies[1:], start=1):
        above = place[int(parents[body])]
        depth.append(depth[above] + 1)
        bone = (local[:, i] - local[:, above]) * proportions[depth[i] % 2]
        figure.append(figure[above] + bone)
    return torch.stack(figure, dim=1)
