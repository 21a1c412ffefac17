"""Robot model for motions: joints, limits, feet, state conversion and rendering.

A robot is the built-in planar biped, a robot of the catalogue (unitree-g1), the robot of a
Gymnasium task (Humanoid-v5) or a model file.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import mujoco
import numpy as np
import torch
from torch import Tensor

from telic.core.rotations import about, conjugate, multiply, rotate
from telic.envs.anatomy import robot_of
from telic.envs.models import read_model
from telic.envs.spec import Coordinate, Robot
from telic.envs.tasks import TASKS
from telic.errors import BadEnvironment, UnknownName
from telic.motions.clip import MotionClip
from telic.motions.kinematics import Kinematics
from telic.rendering.job import Rendering
from telic.rendering.jobs import render_poses
from telic.robots import OWN, robot_names, robot_path
from telic.sim.files import MODEL_FILES, assets_dir
from telic.sim.simulation import load_model

_MODELS = (*MODEL_FILES, ".toml")
_AXES = ("x", "y", "z")


class Pose(NamedTuple):
    """Root pose and joint positions of a robot."""

    root_pos: np.ndarray
    root_quat: np.ndarray
    joint_pos: np.ndarray


@dataclass(frozen=True, eq=False)
class MotionRobot:
    """Robot model that performs motion clips."""

    name: str
    """name as given by the user"""
    file: Path
    """model file to simulate"""
    model: mujoco.MjModel
    facts: Robot
    joint_names: tuple[str, ...]
    """columns of joint_pos in clips: all hinge and slide joints except those of the root"""
    low: np.ndarray
    """lower limits (J,), -inf if unlimited"""
    high: np.ndarray
    root: int
    """id of the root body of clips"""

    @functools.cached_property
    def joints(self) -> tuple[int, ...]:
        """Model joint ids that correspond to the joint columns of clips."""
        columns = {int(self.model.jnt_qposadr[j]): j for j in range(self.model.njnt)}
        return tuple(columns[limb.qpos] for limb in self.facts.limbs)

    @property
    def body_names(self) -> tuple[str, ...]:
        """Names of the bodies in forward kinematics."""
        return self.kinematics.body_names

    @functools.cached_property
    def home(self) -> Pose:
        """Default pose of the robot."""
        qpos = np.array(self.facts.rest_qpos, dtype=np.float32)
        root_pos, root_quat, joint_pos = self.from_qpos(torch.as_tensor(qpos)[None])
        return Pose(root_pos[0].numpy(), root_quat[0].numpy(), joint_pos[0].numpy())

    @functools.cached_property
    def kinematics(self) -> Kinematics:
        """Forward kinematics of the robot."""
        return Kinematics(self.model, self.root, self.joints)

    # ---- conversion between clips and simulation states

    def bodies_of(self, clip: MotionClip) -> tuple[Tensor, Tensor]:
        """Return the positions (T, B, 3) and orientations (T, B, 4) of all bodies in a clip."""
        return self.kinematics.poses(*clip.columns())

    def qpos_of(self, clip: MotionClip) -> np.ndarray:
        """Return qpos (T, nq) of the model for each frame of a clip."""
        return self.to_qpos(*clip.columns()).numpy()

    def to_qpos(self, root_pos: Tensor, root_quat: Tensor, joint_pos: Tensor) -> Tensor:
        """Return qpos (..., nq) of the model.

        Motion outside of the model's degrees of freedom, such as out of a plane, is dropped.
        """
        qpos = _constant(self.facts.rest_qpos, root_pos).expand(*root_pos.shape[:-1], -1).clone()
        root = self.facts.root
        for slide in root.slides:
            place = root_pos[..., _AXES.index(slide.axis)]
            qpos[..., slide.qpos] = slide.sign * (place - slide.offset)
        if root.quaternion is not None:
            qpos[..., root.quaternion : root.quaternion + 4] = root_quat
        elif root.hinge is not None:
            qpos[..., root.hinge.qpos] = root.hinge.sign * (
                self._turned(root_quat, root.hinge) - root.hinge.offset
            )
        qpos[..., self._columns("qpos", qpos.device)] = joint_pos
        return qpos

    def to_qvel(
        self, root_quat: Tensor, root_lin_vel: Tensor, root_ang_vel: Tensor, joint_vel: Tensor
    ) -> Tensor:
        """Return qvel (..., nv) of the model, given root velocities in the world frame."""
        qvel = root_lin_vel.new_zeros(*root_lin_vel.shape[:-1], int(self.model.nv))
        root = self.facts.root
        for slide in root.slides:
            qvel[..., slide.dof] = slide.sign * root_lin_vel[..., _AXES.index(slide.axis)]
        if root.spin is not None:
            local = rotate(conjugate(root_quat), root_ang_vel)
            qvel[..., root.spin : root.spin + 3] = local
        elif root.hinge is not None:
            turning = root_ang_vel[..., _AXES.index(root.hinge.axis)]
            qvel[..., root.hinge.dof] = root.hinge.sign * turning
        qvel[..., self._columns("dof", qvel.device)] = joint_vel
        return qvel

    def from_qpos(self, qpos: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return root position, root orientation and joint positions for qpos (..., nq)."""
        root = self.facts.root
        start = _constant(tuple(map(float, self.model.body_pos[self.root])), qpos)
        root_pos = start.expand(*qpos.shape[:-1], 3).clone()
        for slide in root.slides:
            place = slide.offset + slide.sign * qpos[..., slide.qpos]
            root_pos[..., _AXES.index(slide.axis)] = place
        if root.quaternion is not None:
            root_quat = qpos[..., root.quaternion : root.quaternion + 4].clone()
        else:
            root_quat = self._mounted(qpos)
            if root.hinge is not None:
                angle = root.hinge.offset + root.hinge.sign * qpos[..., root.hinge.qpos]
                turn = about(_AXES.index(root.hinge.axis), angle)
                root_quat = multiply(turn, root_quat)
        return root_pos, root_quat, qpos[..., self._columns("qpos", qpos.device)]

    def _mounted(self, like: Tensor) -> Tensor:
        """Return the orientation of the root body in its parent frame."""
        quat = _constant(tuple(map(float, self.model.body_quat[self.root])), like)
        return quat.expand(*like.shape[:-1], 4)

    def _columns(self, kind: Literal["qpos", "dof"], device: torch.device) -> Tensor:
        places = tuple(getattr(limb, kind) for limb in self.facts.limbs)
        return _placed(places, device, torch.long)

    def _turned(self, root_quat: Tensor, hinge: Coordinate) -> Tensor:
        """Return the angle about the root's hinge axis that is closest to a rotation."""
        turn = multiply(root_quat, conjugate(self._mounted(root_quat)))
        part = turn[..., 1 + _AXES.index(hinge.axis)]
        angle = 2.0 * torch.atan2(part, turn[..., 0])
        return torch.atan2(torch.sin(angle), torch.cos(angle))


# Recorded GPU operations must not copy from the host, so constants are cached on the device.
@functools.lru_cache(maxsize=64)
def _placed(values: tuple[float, ...], device: torch.device, dtype: torch.dtype) -> Tensor:
    return torch.tensor(values, device=device, dtype=dtype)


def _constant(values: tuple[float, ...], like: Tensor) -> Tensor:
    return _placed(values, like.device, like.dtype)


def motion_robot(name: str) -> MotionRobot:
    """Load a robot by name or file. Raises UnknownName, or BadEnvironment with the reason."""
    return _built(name, *_stamp(name))


def _stamp(name: str) -> tuple[float, ...]:
    """Return the modification time of a model file, so that an edit invalidates the cache."""
    path = Path(name).expanduser()
    return (path.stat().st_mtime,) if name.endswith(_MODELS) and path.is_file() else ()


@functools.lru_cache(maxsize=16)
def _built(name: str, *stamp: float) -> MotionRobot:
    file, model, task = _model(name)
    rest = model.key_qpos[0] if model.nkey else None
    facts = robot_of(model, rest, task)
    if facts.torso is None or "z" not in facts.root.moves:
        raise BadEnvironment(
            f"{name} has a fixed base or cannot move vertically. Motions require a mobile robot."
        )
    limits = [limb.range or (-np.inf, np.inf) for limb in facts.limbs]
    return MotionRobot(
        name=name,
        file=file,
        model=model,
        facts=facts,
        joint_names=tuple(limb.name for limb in facts.limbs),
        low=np.array([low for low, _ in limits], dtype=np.float32),
        high=np.array([high for _, high in limits], dtype=np.float32),
        root=facts.torso,
    )


def _model(name: str) -> tuple[Path, mujoco.MjModel, str | None]:
    """Return the file, the compiled model and the Gymnasium task name, or None."""
    if name in TASKS:
        file = TASKS[name].Arguments.parse({}).xml_file
        return assets_dir() / file, load_model(file), name.partition("-v")[0]
    file = robot_path(name)
    if file is None and name.endswith(_MODELS):
        file = Path(name).expanduser()
    if file is None:
        known = [*OWN, *robot_names(), *TASKS]
        raise UnknownName("robot", name, known, see="telic robots")
    return file, read_model(str(file))[0], None


def render_clip(robot: MotionRobot, clip: MotionClip, output: Path, **settings: Any) -> Rendering:
    """Render a clip on its robot as a video (.mp4) or an image strip (.png).

    `settings` are fields of `RenderJob`. Raises TelicError if rendering fails.
    """
    poses = robot.qpos_of(clip)
    return render_poses(robot.file, poses, output, dt_s=1.0 / clip.fps, **settings)
