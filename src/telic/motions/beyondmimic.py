"""A clip as mjlab and BeyondMimic read it: joints and all bodies at 50 frames a second."""

from __future__ import annotations

import numpy as np
import torch

from telic.motions.clip import MotionClip
from telic.motions.library import MotionLibrary
from telic.motions.robot import MotionRobot
from telic.motions.table import body_states

FPS = 50


def beyondmimic_arrays(robot: MotionRobot, clip: MotionClip) -> dict[str, np.ndarray]:
    """Return the arrays of such a file; names of joints and bodies are added to what it needs."""
    clip = clip.resampled(FPS)
    table = MotionLibrary.of(robot, [clip]).table()
    times = torch.arange(clip.frames) / FPS
    frames = table.frames(torch.zeros(clip.frames, dtype=torch.long), times)
    bodies = body_states(robot.kinematics(), frames)
    return {
        "fps": np.array([FPS]),
        "joint_pos": frames.joint_pos.numpy(),
        "joint_vel": frames.joint_vel.numpy(),
        "body_pos_w": bodies.pos.numpy(),
        "body_quat_w": bodies.quat.numpy(),
        "body_lin_vel_w": bodies.lin_vel.numpy(),
        "body_ang_vel_w": bodies.ang_vel.numpy(),
        "joint_names": np.array(robot.joint_names),
        "body_names": np.array(robot.body_names),
    }
