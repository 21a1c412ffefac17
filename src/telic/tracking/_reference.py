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
        """
        if not clips:
            raise UsageError("There is no motion to follow.", hint="See: telic motions show")
        self.parts, self._lag_s, self._proportions = parts, lag_s, proportions
        self._sizes = [3, 4, 3, 3, parts.joints, parts.joints]
        table = library.table(list(clips))
        counts = (table.duration_s.double() / dt + 1e-6).floor().long() + 1
        first = counts.cumsum(0) - counts
        clip = torch.repeat_interleave(torch.arange(len(counts)), counts)
        time = (torch.arange(len(clip)) - first[clip]) * dt
        chunks = (slice(at, at + _CHUNK) for at in range(0, len(clip), _CHUNK))
        pieces = [self._piece(table, clip[part], time[part]) for part in chunks]
        pose, bodies, person = (torch.cat(column) for column in zip(*pieces, strict=True))
        missing = max(0, 3 * least_points + 4 - person.shape[1])
        filler = person.new_zeros(len(person), missing)
        person = torch.cat((person[:, :-4], filler, person[:, -4:]), 1)
        self.names = [library.clips[place].name for place in clips]
        self.frames = counts.to(device)
        """(C,) frames of each clip"""
        self.first = first.to(device)
        """(C,) row of its first one"""
        self.has_person = table.has_human.to(device)
        """(C,) whether somebody was recorded doing it"""
        self._pose, self._bodies, self._person = (x.to(device) for x in (pose, bodies, person))
        self.person_points = (person.shape[1] - 4) // 3

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
