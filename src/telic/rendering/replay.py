"""Draw a recorded episode inside the render process, by putting the model into each recorded state.

Nothing is simulated again: what is seen is what was recorded. What has no MuJoCo model is drawn by
the environment's own picture (`rgb_array`): it is played again from the recorded seed and actions.
If other observations come out, or it cannot draw itself, its recorded observations are drawn.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from telic.core.seeds import derive
from telic.errors import BadEnvironment, TelicError
from telic.rendering.camera import Camera, height_marks, place_cameras
from telic.rendering.job import Rendering, RenderJob
from telic.rendering.look import load_dressed
from telic.rendering.media import (
    Pace,
    draw_caption,
    draw_ruler,
    pace,
    spread,
    strip_height,
    tiled,
    write_png,
    write_video,
)
from telic.rendering.painters import GlPainter, Painter, PainterBroken, RayPainter
from telic.rendering.sketch import DRAWINGS, Sketcher
from telic.robots.files import MODEL_FILES
from telic.robots.terrain import Ground, ground_in
from telic.storage.trajectories import (
    Trajectory,
    TrajectoryFacts,
    read_trajectory,
    require_registered,
)

_TOLERANCE = 1e-4
_Progress = Callable[[int, int], None]
_WIDTH = {"rays": 320}  # else the usual one
_USUAL_WIDTH = 480
_STRIP_WIDTH = 240
_STRIP_GAP = 2
_CLOCKLESS_FPS = 10.0
_PROBE_MODEL = "<mujoco><worldbody><geom size='1'/></worldbody></mujoco>"


def import_environments(jobs: Sequence[RenderJob]) -> None:
    """Import what an environment needs to draw itself, which costs seconds, if one may have to."""
    for job in jobs:
        asked = TrajectoryFacts(env_id=job.env or "", env_kwargs=job.env_args, dt_s=None)
        if model_file(asked) is None:
            for module in ("telic.envs.foreign", "telic.envs.spaces"):
                importlib.import_module(module)
            return


def draw(stage: Stage, job: RenderJob, progress: _Progress) -> Rendering:
    """Carry out one job and say what became of it; raises PainterBroken when the backend fails."""
    start = time.monotonic()
    try:
        given = None if job.env is None else (job.env, job.env_args)
        trajectory = read_trajectory(job.trajectory, given)
        if given is None and not job.trust:
            require_registered(trajectory.facts, job.trajectory)
        if not len(trajectory):
            raise TelicError(f"{job.trajectory} holds no steps to draw.")
        make = _make_video if job.is_video else _make_strip
        try:
            rendering = make(stage, job, trajectory, progress)
        except BadEnvironment:
            if model_file(trajectory.facts) is not None:
                raise
            # It cannot draw itself, or not what was recorded: then what was recorded, as a chart.
            rendering = make(stage, job, trajectory, progress, as_chart=True)
    except PainterBroken:
        raise
    except Exception as error:  # the job boundary: the next job may well be fine
        reason = str(error) if isinstance(error, TelicError) else f"{type(error).__name__}: {error}"
        return Rendering(output=job.output, backend=stage.backend, error=reason)
    return rendering.model_copy(update={"seconds": round(time.monotonic() - start, 3)})


def _make_video(
    stage: Stage,
    job: RenderJob,
    trajectory: Trajectory,
    progress: _Progress,
    as_chart: bool = False,
) -> Rendering:
    if trajectory.facts.dt_s is None:
        shown = Pace(np.arange(len(trajectory)), min(job.fps, _CLOCKLESS_FPS))
    else:
        shown = pace(len(trajectory), trajectory.facts.dt_s, job.fps)
    width = _WIDTH.get(stage.backend, _USUAL_WIDTH)
    drawn_by, frames = _frames(stage, job, trajectory, shown.rows, 1 / shown.fps, width, as_chart)

    def counted() -> Iterator[np.ndarray]:
        for i, frame in enumerate(frames):
            if i % 20 == 0:
                progress(i, len(shown.rows))
            yield frame

    count = write_video(job.output, counted(), shown.fps)
    return Rendering(output=job.output, backend=drawn_by, frames=count, fps=shown.fps)


def _make_strip(
    stage: Stage,
    job: RenderJob,
    trajectory: Trajectory,
    progress: _Progress,
    as_chart: bool = False,
) -> Rendering:
    rows = spread(len(trajectory), job.frames, trajectory.facts.dt_s, job.between_s, job.shift)
    # Still pictures are far apart in time: nothing to smooth between them.
    drawn_by, frames = _frames(stage, job, trajectory, rows, 1e3, _STRIP_WIDTH, as_chart)
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
    width: int,
    as_chart: bool,
) -> tuple[str, Iterator[np.ndarray]]:
    """Return what draws the frames, and the frames."""
    if model_file(trajectory.facts) is None:
        if as_chart or trajectory.facts.env_id.rpartition("-v")[0] in DRAWINGS:
            paint = Sketcher(trajectory).paint
            frames = (_captioned(paint(row), trajectory, row, job) for row in rows.tolist())
            return "sketch", frames
        return "gymnasium", own_frames(trajectory, rows, job)
    return stage.backend, stage.frames(trajectory, rows, frame_s, job, width)


class Stage:
    """Draws episodes of any models, and keeps the last model and painter for the next one."""

    def __init__(self, backend: str) -> None:
        self.backend = backend
        self._key: tuple[object, ...] | None = None
        self._model: mujoco.MjModel | None = None
        self._painter: Painter | None = None

    def frames(
        self, trajectory: Trajectory, rows: np.ndarray, frame_s: float, job: RenderJob, size: int
    ) -> Iterator[np.ndarray]:
        """Yield a picture of each of `rows`, which are `frame_s` seconds apart.

        `size` is the width unless the job says another. Raises BadEnvironment when the episode
        does not fit its model.
        """
        path = model_file(trajectory.facts)
        if path is None or "qpos" not in trajectory:
            raise BadEnvironment(f"{trajectory.facts.env_id} has no MuJoCo model to draw.")
        width = job.width or size
        height = job.height or width * 3 // 4
        ground = ground_in(trajectory.facts.env_kwargs)
        model, painter = self._prepare(path, ground, width, height, job.fine)
        poses = _finite(_checked_poses(trajectory, model, path)[rows])
        cameras = place_cameras(model, poses, frame_s, job.view, width / height, near=job.near)
        data = mujoco.MjData(model)
        for row, pose, camera in zip(rows, poses, cameras, strict=False):
            data.qpos[:] = pose
            for name in ("mocap_pos", "mocap_quat"):
                if name in trajectory:
                    getattr(data, name)[:] = trajectory[name][row]
            _update(model, data)
            picture = painter.paint(data, camera)
            if job.ruler:
                draw_ruler(picture, height_marks(camera, model, height))
            if job.caption:
                draw_caption(picture, caption(trajectory, row, job.caption == "time"))
            yield picture

    def try_out(self) -> None:
        """Draw something small; raises PainterBroken if that does not work."""
        model = mujoco.MjModel.from_xml_string(_PROBE_MODEL)
        data = mujoco.MjData(model)
        mujoco.mj_forward(model, data)
        painter = self._make_painter(model, 64, 48, False)
        picture = painter.paint(data, Camera(np.zeros(3), 4.0, 90.0, -20.0))
        painter.close()
        if picture.std() < 1:
            raise PainterBroken("it draws nothing")

    def close(self) -> None:
        """Free the painter."""
        if self._painter is not None:
            self._painter.close()
        self._key = self._model = self._painter = None

    def _prepare(
        self, path: Path, ground: Ground, width: int, height: int, fine: bool
    ) -> tuple[mujoco.MjModel, Painter]:
        key = (path, ground, width, height, fine)
        if self._key != key or self._model is None or self._painter is None:
            self.close()
            # Gymnasium's robots are all one tan; the user's own colours are kept.
            self._model = load_dressed(
                path, repaint=path.is_relative_to(assets_dir()), ground=ground
            )
            self._painter = self._make_painter(self._model, width, height, fine)
            self._key = key
        return self._model, self._painter

    def _make_painter(self, model: mujoco.MjModel, width: int, height: int, fine: bool) -> Painter:
        if self.backend == "rays":
            return RayPainter(model, width, height)
        return GlPainter(model, width, height, fine=fine)


def caption(trajectory: Trajectory, row: int, only_time: bool = False) -> list[str]:
    """Return the words under a frame: time, step, return so far, as far as they are known."""
    words = [f"step {row + 1}"]
    if trajectory.facts.dt_s is not None:
        # Rows hold the state after the step, hence one step later than the row's number.
        words.insert(0, f"{(row + 1) * trajectory.facts.dt_s:.2f} s")
    if only_time:
        return words[:1]
    if "reward" in trajectory:
        words.append(f"return {trajectory['reward'][: row + 1].sum(dtype=np.float64):,.1f}")
    return words


def _checked_poses(trajectory: Trajectory, model: mujoco.MjModel, path: Path) -> np.ndarray:
    poses = trajectory["qpos"]
    if poses.shape[1:] != (model.nq,):
        raise BadEnvironment(
            f"The episode holds {poses.shape[1]} positions a step, but {path.name} has {model.nq}.",
            hint="It was recorded with another version of the model; record it again.",
        )
    return poses


def _finite(poses: np.ndarray) -> np.ndarray:
    """Return the poses before the first one that is not a number: there the simulation broke."""
    broken = np.flatnonzero(~np.isfinite(poses).all(1))
    kept = poses[: broken[0]] if len(broken) else poses
    if not len(kept):
        raise BadEnvironment("The episode holds no finite pose to draw.")
    return kept


def _update(model: mujoco.MjModel, data: mujoco.MjData) -> None:
    """Compute what is drawn from qpos; contacts and forces are not."""
    mujoco.mj_kinematics(model, data)
    mujoco.mj_comPos(model, data)
    mujoco.mj_camlight(model, data)
    mujoco.mj_flex(model, data)
    mujoco.mj_tendon(model, data)


def _captioned(picture: np.ndarray, trajectory: Trajectory, row: int, job: RenderJob) -> np.ndarray:
    """Return a picture with its caption below: what matters may be anywhere in it."""
    if not job.caption:
        return picture
    picture = np.pad(picture, ((0, strip_height(len(picture))), (0, 0), (0, 0)))
    draw_caption(picture, caption(trajectory, row, job.caption == "time"))
    return picture


def own_frames(trajectory: Trajectory, rows: np.ndarray, job: RenderJob) -> Iterator[np.ndarray]:
    """Yield the environment's own picture of each of `rows`.

    Raises BadEnvironment when it cannot draw itself, or not what was recorded.
    """
    # Imported here: a render process that only draws MuJoCo models starts without torch.
    from telic.envs.foreign import builder

    facts = trajectory.facts
    # The time limit is ours; the environment need not know of it.
    own = {name: value for name, value in facts.env_kwargs.items() if name != "max_episode_steps"}
    env: Any = builder(facts.env_id, {**own, "render_mode": "rgb_array"})()
    repeats = np.bincount(rows, minlength=len(trajectory))
    try:
        for row in _played_again(env, trajectory):
            if not repeats[row]:
                continue
            picture = _captioned(_own_picture(env), trajectory, row, job)
            for _ in range(repeats[row]):
                yield picture
    finally:
        env.close()


def _played_again(env: Any, trajectory: Trajectory) -> Iterator[int]:
    """Play the recorded actions from the recorded seed, as long as the same comes out."""
    import torch

    from telic.envs.spaces import action_codec, observation_codec

    facts = trajectory.facts
    if facts.seed is None:
        raise BadEnvironment(f"{facts.env_id} cannot be drawn: the episode's seed is unknown.")
    flatten = observation_codec(env.observation_space, facts.env_id).flatten
    native = action_codec(env.action_space, facts.env_id).native
    # The seed is that of a batch, of which the episode is one row.
    for seed in (derive(facts.seed, "env", _row(facts)), facts.seed):
        first = flatten(env.reset(seed=seed)[0])
        if "obs" not in trajectory or np.allclose(first, trajectory["obs"][0], atol=_TOLERANCE):
            break
    actions = torch.as_tensor(trajectory["action"].copy())
    for row, action in enumerate(native(actions)):
        obs, *_ = env.step(action)
        recorded = trajectory["next_obs"][row]
        if not np.allclose(flatten(obs), recorded, atol=_TOLERANCE, rtol=_TOLERANCE):
            raise BadEnvironment(
                f"{facts.env_id} cannot be drawn: it keeps a state we cannot set, and playing the "
                "recorded actions again did not give the recorded observations."
            )
        yield row


def _row(facts: TrajectoryFacts) -> int:
    """Return the row of its batch that an episode was played in."""
    row: object = facts.extra.get("row")
    return row if isinstance(row, int) else 0


def _own_picture(env: Any) -> np.ndarray:
    try:
        picture = env.render()
    except Exception as error:  # the boundary to an environment we did not write
        raise BadEnvironment(f"The environment cannot draw itself: {error}") from None
    if picture is None:
        raise BadEnvironment("The environment does not draw itself (no rgb_array rendering).")
    return np.array(picture, dtype=np.uint8)


def model_file(facts: TrajectoryFacts) -> Path | None:
    """Return the model file that an episode's qpos belongs to, or None when it has none."""
    for name in (facts.model_path, facts.env_kwargs.get("xml_file"), facts.env_id):
        if isinstance(name, str) and name.endswith(MODEL_FILES):
            path = Path(name).expanduser()
            return path if path.is_file() else assets_dir() / name
    match = re.fullmatch(r"(?:.*/)?(\w+)-v(\d+)", facts.env_id)
    if not match:
        return None
    # HalfCheetah is half_cheetah.xml; version 5 has files of its own for some.
    files = {path.stem.replace("_", ""): path for path in assets_dir().glob("*.xml")}
    name = match[1].lower()
    return files.get(f"{name}v{match[2]}") or files.get(name)


def assets_dir() -> Path:
    """Return the folder of the models of Gymnasium's tasks."""
    # Found without importing Gymnasium, which takes longer than drawing a short video.
    package = importlib.util.find_spec("gymnasium")
    if package is None or not package.submodule_search_locations:
        raise TelicError("Gymnasium, which brings the models, is not installed.")
    return Path(package.submodule_search_locations[0]) / "envs" / "mujoco" / "assets"
