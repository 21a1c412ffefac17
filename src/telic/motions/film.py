"""Films of motions: the robot as a clip has it, without physics."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from telic.core.tensors import from_numpy
from telic.motions.clip import MotionClip
from telic.motions.robot import MotionRobot
from telic.rendering.job import Rendering
from telic.rendering.jobs import render_one
from telic.storage.trajectories import Trajectory, TrajectoryFacts, write_trajectory


def qpos_of(robot: MotionRobot, clip: MotionClip) -> np.ndarray:
    """Return the positions (T, nq) that the model has in each frame."""
    columns = (from_numpy(each) for each in (clip.root_pos, clip.root_quat, clip.joint_pos))
    return robot.to_qpos(*columns).numpy()


def film(robot: MotionRobot, clip: MotionClip, output: Path, **settings: Any) -> Rendering:
    """Draw a clip on its robot as a video (.mp4) or a strip of pictures (.png).

    Raises TelicError when it cannot be drawn; `settings` are those of `RenderJob`.
    """
    with tempfile.TemporaryDirectory() as place:
        episode = Path(place) / "clip.npz"
        facts = TrajectoryFacts(env_id=str(robot.file), dt_s=1.0 / clip.fps)
        columns = {"qpos": qpos_of(robot, clip).astype(np.float32)}
        write_trajectory(episode, Trajectory(columns, facts))
        return render_one(episode, output, env=str(robot.file), **settings)
