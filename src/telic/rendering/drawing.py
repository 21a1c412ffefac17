"""Carry out render jobs, inside the render process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import mujoco
import numpy as np

from telic.errors import TelicError
from telic.rendering.camera import Camera
from telic.rendering.gymnasium_frames import own_frames
from telic.rendering.images import tiled, write_png
from telic.rendering.jobs import Rendering, RenderJob
from telic.rendering.painter import Painter, PainterBroken
from telic.rendering.replay import Pace, Stage, model_file, pace, spread
from telic.rendering.video import write_video
from telic.storage.trajectories import Trajectory, read_trajectory

Progress = Callable[[int, int], None]

_WIDTH = {"rays": 320}
_USUAL_WIDTH = 480
_STRIP_WIDTH = 240
_STRIP_GAP = 2
_CLOCKLESS_FPS = 10.0
_PROBE_MODEL = "<mujoco><worldbody><geom size='1'/></worldbody></mujoco>"


def open_stage(backend: str) -> Stage:
    """Return a stage for a backend that was seen to draw; raises PainterBroken if it does not."""

    def make_painter(model: mujoco.MjModel, width: int, height: int, fine: bool) -> Painter:
        if backend == "rays":
            from telic.rendering.rays import RayPainter

            return RayPainter(model, width, height)
        from telic.rendering.gl import GlPainter

        return GlPainter(model, width, height, fine=fine)

    model = mujoco.MjModel.from_xml_string(_PROBE_MODEL)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    painter = make_painter(model, 64, 48, False)
    picture = painter.paint(data, Camera(np.zeros(3), 4.0, 90.0, -20.0))
    painter.close()
    if picture.std() < 1:
        raise PainterBroken("it draws nothing")
    return Stage(make_painter)


def draw(stage: Stage, job: RenderJob, backend: str, progress: Progress) -> Rendering:
    """Carry out one job and say what became of it; raises PainterBroken when the backend fails."""
    start = time.monotonic()
    try:
        trajectory = read_trajectory(job.trajectory)
        if not len(trajectory):
            raise TelicError(f"{job.trajectory} holds no steps to draw.")
        make = _make_video if job.is_video else _make_strip
        rendering = make(stage, job, trajectory, backend, progress)
    except PainterBroken:
        raise
    except TelicError as error:
        return Rendering(output=job.output, backend=backend, error=str(error))
    except Exception as error:  # the job boundary: the next job may well be fine
        reason = f"{type(error).__name__}: {error}"
        return Rendering(output=job.output, backend=backend, error=reason)
    return rendering.model_copy(update={"seconds": round(time.monotonic() - start, 3)})


def _make_video(
    stage: Stage, job: RenderJob, trajectory: Trajectory, backend: str, progress: Progress
) -> Rendering:
    if trajectory.facts.dt_s is None:
        shown = Pace(np.arange(len(trajectory)), min(job.fps, _CLOCKLESS_FPS))
    else:
        shown = pace(len(trajectory), trajectory.facts.dt_s, job.fps)
    width = _WIDTH.get(backend, _USUAL_WIDTH)
    drawn_by, frames = _frames(stage, job, trajectory, shown.rows, 1 / shown.fps, backend, width)

    def counted() -> Iterator[np.ndarray]:
        for i, frame in enumerate(frames):
            if i % 20 == 0:
                progress(i, len(shown.rows))
            yield frame

    count = write_video(job.output, counted(), shown.fps)
    return Rendering(output=job.output, backend=drawn_by, frames=count, fps=shown.fps)


def _make_strip(
    stage: Stage, job: RenderJob, trajectory: Trajectory, backend: str, progress: Progress
) -> Rendering:
    rows = spread(len(trajectory), job.frames, trajectory.facts.dt_s, job.between_s)
    # Still pictures are far apart in time: nothing to smooth between them.
    drawn_by, frames = _frames(stage, job, trajectory, rows, 1e3, backend, _STRIP_WIDTH)
    pictures = list(frames)
    progress(len(pictures), len(rows))
    write_png(job.output, tiled(pictures, job.columns or len(pictures), _STRIP_GAP))
    return Rendering(output=job.output, backend=drawn_by, frames=len(pictures))


def _frames(
    stage: Stage,
    job: RenderJob,
    trajectory: Trajectory,
    rows: np.ndarray,
    frame_s: float,
    backend: str,
    width: int,
) -> tuple[str, Iterator[np.ndarray]]:
    """Return who draws the frames, and the frames."""
    if model_file(trajectory.facts) is None:
        return "gymnasium", own_frames(trajectory, rows, job)
    return backend, stage.frames(trajectory, rows, frame_s, job, width)
