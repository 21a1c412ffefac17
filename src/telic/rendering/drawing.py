"""Carry out render jobs, inside the render process.

What has no MuJoCo model is drawn by the environment's own picture (`rgb_array`). Classic-control
tasks are put into each recorded state. Other environments can only be played again from the
recorded seed and actions; the observations must then come out as recorded, or there is no video
rather than a video of something else.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import mujoco
import numpy as np

from telic.errors import BadEnvironment, TelicError
from telic.rendering.camera import Camera, Painter, PainterBroken
from telic.rendering.jobs import Rendering, RenderJob
from telic.rendering.media import draw_caption, strip_height, tiled, write_png, write_video
from telic.rendering.replay import Pace, Stage, caption, model_file, pace, spread
from telic.storage.trajectories import Trajectory, read_trajectory

_TOLERANCE = 1e-4
# observation -> internal state
_STATES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "CartPole": lambda obs: obs,
    "MountainCar": lambda obs: obs,
    "MountainCarContinuous": lambda obs: obs,
    "Pendulum": lambda obs: np.array([np.arctan2(obs[1], obs[0]), obs[2]]),
    "Acrobot": lambda obs: np.array(
        [np.arctan2(obs[1], obs[0]), np.arctan2(obs[3], obs[2]), obs[4], obs[5]]
    ),
}
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


def own_frames(trajectory: Trajectory, rows: np.ndarray, job: RenderJob) -> Iterator[np.ndarray]:
    """Yield the environment's own picture of each of `rows`.

    Raises BadEnvironment when it cannot draw itself, or not what was recorded.
    """
    # Imported here: a render process that only draws MuJoCo models starts without torch.
    from telic.envs.foreign import builder

    facts = trajectory.facts
    env: Any = builder(facts.env_id, {**facts.env_kwargs, "render_mode": "rgb_array"})()
    is_classic = facts.env_id.partition("-v")[0] in _STATES
    repeats = np.bincount(rows, minlength=len(trajectory))
    try:
        for row in _placed(env, trajectory) if is_classic else _played_again(env, trajectory):
            if not repeats[row]:
                continue
            picture = _own_picture(env)
            if job.caption:
                # Below the picture: what matters may be anywhere in it.
                picture = np.pad(picture, ((0, strip_height(len(picture))), (0, 0), (0, 0)))
                draw_caption(picture, caption(trajectory, row, job.caption == "time"))
            for _ in range(repeats[row]):
                yield picture
    finally:
        env.close()


def _placed(env: Any, trajectory: Trajectory) -> Iterator[int]:
    """Put a classic-control task into the recorded states, one after the other."""
    state_of = _STATES[trajectory.facts.env_id.partition("-v")[0]]
    env.reset(seed=0)
    core = env.unwrapped
    for row in range(len(trajectory)):
        core.state = state_of(trajectory["next_obs"][row].astype(np.float64))
        if hasattr(core, "last_u"):  # the torque that Pendulum draws as an arrow
            core.last_u = float(trajectory["action"][row].ravel()[0])
        yield row


def _played_again(env: Any, trajectory: Trajectory) -> Iterator[int]:
    """Play the recorded actions from the recorded seed, as long as the same comes out."""
    import torch

    from telic.envs.spaces import action_codec, observation_codec

    facts = trajectory.facts
    if facts.seed is None:
        raise BadEnvironment(f"{facts.env_id} cannot be drawn: the episode's seed is unknown.")
    flatten = observation_codec(env.observation_space, facts.env_id).flatten
    native = action_codec(env.action_space, facts.env_id).native
    env.reset(seed=facts.seed)
    actions = torch.as_tensor(trajectory["action"].copy())
    for row, action in enumerate(native(actions)):
        obs, *_ = env.step(action)
        _compare(facts.env_id, flatten(obs), trajectory["next_obs"][row])
        yield row


def _compare(env_id: str, obs: Any, recorded: np.ndarray) -> None:
    if not np.allclose(obs, recorded, atol=_TOLERANCE, rtol=_TOLERANCE):
        raise BadEnvironment(
            f"{env_id} cannot be drawn: it keeps a state we cannot set, and playing the recorded "
            "actions again did not give the recorded observations."
        )


def _own_picture(env: Any) -> np.ndarray:
    import gymnasium

    try:
        picture = env.render()
    except (gymnasium.error.DependencyNotInstalled, NotImplementedError, ImportError) as error:
        raise BadEnvironment(f"The environment cannot draw itself: {error}") from None
    if picture is None:
        raise BadEnvironment("The environment does not draw itself (no rgb_array rendering).")
    return np.array(picture, dtype=np.uint8)
