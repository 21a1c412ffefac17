"""Reference motion clips and their frames.

Units are meters, radians and seconds. The z axis is up, x is forward, and quaternions have w first.
The constructor checks shapes, finite values and normalized quaternions.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import AliasChoices, Field
from torch import Tensor

from telic.core.config import Record
from telic.core.rotations import angular_velocity, continuous, rate
from telic.core.tensors import from_numpy
from telic.errors import BadFile

Split = Literal["train", "validation", "test"]
_MIN_FRAMES, _MAX_FRAMES = 2, 10_000_000
_MAX_FPS = 10_000.0
_UNIT_WITHIN = 0.05
"""largest deviation of a quaternion norm from 1 that is normalized rather than rejected"""
_MAX_NAME = 200


class MotionOrigin(Record):
    """Source of a clip and its processing steps."""

    source: str = Field(default="", description="file, data set or generator")
    license: str | None = Field(
        default=None,
        description="license of the clip, or None if unknown",
        validation_alias=AliasChoices("license", "licence"),  # language: quoted
    )
    steps: tuple[str, ...] = Field(default=(), description="processing steps, in order")
    parameters: dict[str, float | str] = Field(
        default={}, description="generator parameters by name"
    )

    def then(self, step: str) -> MotionOrigin:
        """Return the origin with an additional processing step."""
        return self.model_copy(update={"steps": (*self.steps, step)})


@dataclass(frozen=True, slots=True, eq=False)
class HumanTrack:
    """Human motion of a clip, as skeleton points for the same frames."""

    names: tuple[str, ...]
    points: np.ndarray
    """world positions (T, K, 3) of the skeleton joints, in m"""
    root_quat: np.ndarray
    """root orientations (T, 4), w first"""


class ClipVelocities(NamedTuple):
    """World-frame velocities for each frame of a clip."""

    root_linear: np.ndarray
    root_angular: np.ndarray
    joints: np.ndarray


@dataclass(frozen=True, slots=True, eq=False)
class MotionClip:
    """Reference motion of one robot or skeleton."""

    name: str
    robot: str
    """name of the robot"""
    fps: float
    root_pos: np.ndarray
    """root positions (T, 3), in m"""
    root_quat: np.ndarray
    """root orientations (T, 4), w first"""
    joint_pos: np.ndarray
    """joint positions (T, J), in rad, or in m for slide joints"""
    joint_names: tuple[str, ...]
    contacts: np.ndarray | None = None
    """whether each foot is in contact with the ground (T, feet), or None if unknown"""
    human: HumanTrack | None = None
    origin: MotionOrigin = field(default_factory=MotionOrigin)
    split: Split = "train"

    def __post_init__(self) -> None:
        """Validate and convert all columns. Raises BadFile with the frame and the joint."""
        if not self.name or len(self.name) > _MAX_NAME or not self.name.isprintable():
            raise BadFile(f"{self.name[:60]!r} is not a valid clip name.", hint="Use a short name.")
        if not 0.0 < self.fps <= _MAX_FPS:
            raise BadFile(f"{self.name}: invalid frame rate {self.fps}.")
        twice = [name for name in self.joint_names if self.joint_names.count(name) > 1]
        if twice:
            raise BadFile(f"{self.name} lists the joint {twice[0]} twice.")
        frames = len(self.root_pos) if np.ndim(self.root_pos) else 0
        if not _MIN_FRAMES <= frames <= _MAX_FRAMES:
            raise BadFile(f"{self.name} has {frames:,} frames, but at least two are required.")

        def column(name: str, values: Any, *shape: int, joints: Sequence[str] = ()) -> np.ndarray:
            array: Any = np.asarray(values)
            if array.dtype.kind not in "fiub" or array.shape != (frames, *shape):
                raise BadFile(
                    f"{name} of {self.name} has dtype {array.dtype} and shape {array.shape}, "
                    f"but must be numeric with shape {(frames, *shape)}."
                )
            with np.errstate(over="ignore"):  # overflow in float32 becomes inf
                bad = ~np.isfinite(np.asarray(array, dtype=np.float32))
            if bad.any():
                place = tuple(int(each) for each in np.argwhere(bad)[0])
                of = f" of {joints[place[1]]}" if joints else f", column {place[1]}"
                raise BadFile(f"{self.name}, frame {place[0]}: {name}{of} is {array[place]}.")
            return np.ascontiguousarray(array, dtype=np.float32)

        def rotation(name: str, values: Any) -> np.ndarray:
            return _unit(column(name, values, 4), self.name, name)

        joints, names = len(self.joint_names), self.joint_names
        object.__setattr__(self, "root_pos", column("root_pos", self.root_pos, 3))
        object.__setattr__(self, "root_quat", rotation("root_quat", self.root_quat))
        checked = column("joint_pos", self.joint_pos, joints, joints=names)
        object.__setattr__(self, "joint_pos", checked)
        if self.contacts is not None:
            feet = np.shape(self.contacts)[-1] if np.ndim(self.contacts) else 0
            stands = column("contacts", self.contacts, feet).astype(bool)
            object.__setattr__(self, "contacts", stands)
        if self.human is not None:
            points = column("human points", self.human.points, len(self.human.names), 3)
            quat = rotation("human root_quat", self.human.root_quat)
            object.__setattr__(self, "human", HumanTrack(self.human.names, points, quat))

    @property
    def frames(self) -> int:
        """Number of frames."""
        return len(self.root_pos)

    @property
    def duration_s(self) -> float:
        """Duration from the first to the last frame, in s."""
        return (self.frames - 1) / self.fps

    def columns(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return root positions, root orientations and joint positions as tensors."""
        return from_numpy(self.root_pos), from_numpy(self.root_quat), from_numpy(self.joint_pos)

    def velocities(self) -> ClipVelocities:
        """Compute velocities by central differences on the manifold."""
        root, quat, joints = self.columns()
        return ClipVelocities(
            rate(root, self.fps).numpy(),
            angular_velocity(quat, self.fps).numpy(),
            rate(joints, self.fps).numpy(),
        )

    def cut(self, first: int, last: int) -> MotionClip:
        """Return the frames from `first` (inclusive) to `last` (exclusive)."""
        part, human = slice(first, last), self.human
        if human is not None:
            human = HumanTrack(human.names, human.points[part], human.root_quat[part])
        return self.replace(
            root_pos=self.root_pos[part],
            root_quat=self.root_quat[part],
            joint_pos=self.joint_pos[part],
            contacts=None if self.contacts is None else self.contacts[part],
            human=human,
        )

    def replace(self, **changes: Any) -> MotionClip:
        """Return a validated copy with some fields replaced."""
        return dataclasses.replace(self, **changes)

    def content_hash(self) -> str:
        """Return a hash of the motion data, independent of name and origin."""
        digest = hashlib.sha256(f"{self.robot} {self.fps!r} {self.joint_names}".encode())
        for column in (self.root_pos, self.root_quat, self.joint_pos):
            digest.update(column.tobytes())
        return digest.hexdigest()[:16]


def _unit(quat: np.ndarray, clip: str, name: str) -> np.ndarray:
    length = np.linalg.norm(quat, axis=-1)
    off = np.abs(length - 1.0) > _UNIT_WITHIN
    if off.any():
        frame = int(np.argmax(off))
        raise BadFile(f"{clip}, frame {frame}: {name} has norm {length[frame]:.3g}, not 1.")
    return continuous(from_numpy(quat / length[:, None])).numpy()


class MotionFrames(NamedTuple):
    """Root and joint states of frames, with arbitrary leading dimensions."""

    root_pos: Tensor
    """root positions (..., 3), in m"""
    root_quat: Tensor
    """root orientations (..., 4), w first"""
    joint_pos: Tensor
    """joint positions (..., J)"""
    root_lin_vel: Tensor
    """root velocities (..., 3) in the world frame, in m/s"""
    root_ang_vel: Tensor
    """root angular velocities (..., 3) in the world frame, in rad/s"""
    joint_vel: Tensor
    """joint velocities (..., J)"""
