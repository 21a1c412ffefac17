"""Clips at hand for tests: any motion of a robot, smooth and within its limits, from a seed."""

from __future__ import annotations

import numpy as np

from telic.motions.clip import HumanTrack, MotionClip
from telic.motions.robot import MotionRobot


def wavy(robot: MotionRobot, seed: int = 0, frames: int = 40, fps: float = 50.0, **more: object):
    """Return a clip whose root and joints swing about the resting pose."""
    rng = np.random.default_rng(seed)
    time = np.arange(frames)[:, None] / fps
    joints = len(robot.joint_names)
    low = np.maximum(robot.low, robot.home.joint_pos - 1.0)
    high = np.minimum(robot.high, robot.home.joint_pos + 1.0)
    swing = (
        0.3 * (high - low) * np.sin(time * rng.uniform(1, 6, joints) + rng.uniform(0, 6, joints))
    )
    joint_pos = np.clip(robot.home.joint_pos + swing, low, high)
    root_pos = robot.home.root_pos + 0.2 * np.sin(time * rng.uniform(1, 4, 3)) * (1, 0, 0.2)
    angle = 0.3 * np.sin(time[:, 0] * 3.0)
    root_quat = np.stack([np.cos(angle / 2), 0 * angle, np.sin(angle / 2), 0 * angle], axis=1)
    clip = MotionClip(
        name=f"wavy {seed}",
        robot=robot.name,
        fps=fps,
        root_pos=root_pos,
        root_quat=root_quat,
        joint_pos=joint_pos,
        joint_names=robot.joint_names,
        contacts=rng.random((frames, len(robot.facts.feet))) > 0.5,
        human=HumanTrack(("hips", "head"), rng.normal(size=(frames, 2, 3)), root_quat),
    )
    return clip.replace(**more)
