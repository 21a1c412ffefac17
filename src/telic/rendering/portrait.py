"""Pictures of robots as they stand at the beginning of an episode, one by one or on a sheet."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import mujoco
import numpy as np

from telic.errors import TelicError
from telic.rendering.job import RenderJob
from telic.rendering.jobs import render
from telic.rendering.media import draw_caption, read_png, tiled, write_png
from telic.sim.cpu import library
from telic.storage.trajectories import Trajectory, TrajectoryFacts, write_trajectory

_WIDTH, _HEIGHT = 640, 480
_GAP = 6


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


def draw_sheet(pictures: Mapping[str, Path], output: Path, columns: int = 4) -> None:
    """Put pictures together on one sheet, each with its words below."""
    found: list[np.ndarray] = []
    for words, file in pictures.items():
        picture = read_png(file)
        draw_caption(picture, [words])
        found.append(picture)
    write_png(output, tiled(found, columns, _GAP))
