"""Pictures of robots in the pose that episodes start from."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import mujoco
import numpy as np

from telic.errors import TelicError
from telic.rendering.job import RenderJob
from telic.rendering.jobs import render
from telic.sim.cpu import library
from telic.storage.trajectories import Trajectory, TrajectoryFacts, write_trajectory

_WIDTH, _HEIGHT = 640, 480


def draw_portraits(models: Sequence[Path], outputs: Sequence[Path]) -> None:
    """Draw the robot of each model, in the pose it starts in, into a PNG.

    Raises TelicError when one cannot be drawn.
    """
    library()
    with tempfile.TemporaryDirectory() as place:
        jobs: list[RenderJob] = []
        for number, (path, output) in enumerate(zip(models, outputs, strict=True)):
            model = mujoco.MjModel.from_xml_path(str(path))
            pose = model.key_qpos[0] if model.nkey else model.qpos0
            episode = Path(place) / f"{number}.npz"
            columns = {"qpos": np.array(pose, dtype=np.float32)[None]}
            facts = TrajectoryFacts(env_id=str(path), dt_s=None)
            write_trajectory(episode, Trajectory(columns, facts))
            jobs.append(
                RenderJob(
                    trajectory=episode,
                    output=output,
                    env=str(path),
                    width=_WIDTH,
                    height=_HEIGHT,
                    view="three-quarter",
                    caption=False,
                    frames=1,
                    near=True,
                    fine=True,
                )
            )
        for rendering in render(jobs):
            if rendering.error:
                raise TelicError(f"{rendering.output} was not made: {rendering.error}")
