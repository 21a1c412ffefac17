"""Render recorded episodes in the render process by setting the model to each recorded state.

Nothing is simulated. Environments without a MuJoCo model render themselves (`rgb_array`) while the
recorded actions are replayed from the recorded seed. Unequal observations are an error.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from PIL import Image

from telic.core.seeds import derive
from telic.errors import BadEnvironment, TelicError
from telic.rendering._camera import Camera, height_marks, place_cameras
from telic.rendering._painters import GlPainter, RayPainter, RenderBackendError
from telic.rendering.job import Rendering, RenderJob, StillRow
from telic.rendering.look import load_dressed
from telic.rendering.media import (
    contact_sheet,
    draw_caption,
    draw_ruler,
    playback_rows,
    still_rows,
    strip_height,
    tiled,
    write_png,
    write_video,
)
from telic.robots.structure import geoms_of
from telic.robots.terrain import ground_in
from telic.sim.files import MODEL_FILES, assets_dir
from telic.storage.trajectories import Trajectory, TrajectoryFacts, read_trajectory

_TOLERANCE = 1e-4
_WIDTH, _RAYS_WIDTH, _STRIP_WIDTH = 480, 320, 240
_STRIP_GAP = 2
_CLOCKLESS_FPS = 10.0
_HIDDEN = 3  # first group of geoms that is not drawn
_PROBE_MODEL = "<mujoco><worldbody><geom size='1'/></worldbody></mujoco>"


def import_environments(jobs: Sequence[RenderJob]) -> None:
    """Import the modules of environments with their own renderer, if a job needs them."""
    for job in jobs:
        asked = TrajectoryFacts(env_id=job.env, env_kwargs=job.env_args, dt_s=None)
        if model_file(asked) is None:
            importlib.import_module("telic.envs.foreign")
            return


def draw_job(stage: Stage, job: RenderJob, progress: Callable[[int, int], None]) -> Rendering:
    """Render one job. Raises RenderBackendError if the backend fails."""
    try:
        trajectory = read_trajectory(job.trajectory, (job.env, job.env_args))
        if not len(trajectory):
            raise TelicError(f"{job.trajectory} contains no steps to render.")
        _write(stage, job, trajectory, progress)
        way = "gymnasium" if model_file(trajectory.facts) is None else stage.backend
        return Rendering(output=job.output, backend=way)
    except RenderBackendError:
        raise
    except Exception as error:  # a failed job must not affect the next ones
        reason = str(error) if isinstance(error, TelicError) else f"{type(error).__name__}: {error}"
        return Rendering(output=job.output, backend=stage.backend, error=reason)


def _write(
    stage: Stage, job: RenderJob, trajectory: Trajectory, progress: Callable[[int, int], None]
) -> None:
    """Write the video, strip or contact sheet of a job."""
    length, dt_s = len(trajectory), trajectory.facts.dt_s
    draws_itself = model_file(trajectory.facts) is None
    if job.rows:
        stills = list(_sheet_rows(stage, job, trajectory, draws_itself))
        legend = () if draws_itself else stage.legend()
        write_png(job.output, contact_sheet(stills, legend, job.traces))
        return
    fps, frame_s, width = None, 1e3, _STRIP_WIDTH  # no smoothing between stills
    rows = still_rows(length, job.frames)
    if job.is_video:
        rows, fps = np.arange(length), min(job.fps, _CLOCKLESS_FPS)
        if dt_s is not None:
            rows, fps = playback_rows(length, dt_s, job.fps)
        frame_s, width = 1 / fps, _RAYS_WIDTH if stage.backend == "rays" else _WIDTH
    if draws_itself:
        frames = _own_frames(trajectory, rows, job)
    else:
        frames = stage.frames(trajectory, rows, frame_s, job, width)

    def counted() -> Iterator[np.ndarray]:
        for i, frame in enumerate(frames):
            if i % 20 == 0:
                progress(i, len(rows))
            yield frame

    if fps is not None:
        write_video(job.output, counted(), fps)
    else:
        pictures = list(counted())
        write_png(job.output, tiled(pictures, len(pictures), _STRIP_GAP))


def _sheet_rows(
    stage: Stage, job: RenderJob, trajectory: Trajectory, draws_itself: bool
) -> Iterator[tuple[str, list[np.ndarray]]]:
    """Yield the heading and stills of each row of a contact sheet."""
    for row in job.rows:
        steps = np.minimum(row.steps, len(trajectory) - 1)
        if draws_itself:
            order = np.unique(steps)
            drawn = dict(zip(order.tolist(), _own_frames(trajectory, order), strict=True))
            size = (_STRIP_WIDTH, _STRIP_WIDTH * 3 // 4)
            stills = [np.array(Image.fromarray(drawn[each]).resize(size)) for each in steps]
        else:
            stills = list(stage.frames(trajectory, steps, 1e3, job, _STRIP_WIDTH, row))
        for place, still in enumerate(stills):
            words = caption(trajectory, int(steps[place]), only_time=True)
            draw_caption(still, [*words, *row.notes[place : place + 1]])
        yield row.words, stills


class Stage:
    """Render episodes and cache the last model and painter."""

    def __init__(self, backend: str) -> None:
        self.backend = backend
        self._kind = RayPainter if backend == "rays" else GlPainter
        self._kept: tuple[object, mujoco.MjModel, GlPainter | RayPainter] | None = None

    def frames(
        self,
        trajectory: Trajectory,
        rows: np.ndarray,
        frame_s: float,
        job: RenderJob,
        size: int,
        sheet_row: StillRow | None = None,
    ) -> Iterator[np.ndarray]:
        """Render each of `rows`, which are `frame_s` seconds apart.

        `size` is the default width, which the job may override. Raises BadEnvironment if the
        episode does not match its model.
        """
        path = model_file(trajectory.facts)
        if path is None or "qpos" not in trajectory:
            raise BadEnvironment(f"{trajectory.facts.env_id} has no MuJoCo model to render.")
        width = job.width or size
        height = job.height or width * 3 // 4
        ground = ground_in(trajectory.facts.env_kwargs)
        key = (path, ground, width, height)
        if self._kept is None or self._kept[0] != key:
            self.close()
            # Repaint Gymnasium's uniformly tan robots; keep the colors of other models.
            is_tan = path.is_relative_to(assets_dir())
            model = load_dressed(path, repaint=is_tan, ground=ground)
            self._kept = (key, model, self._kind(model, width, height))
        _, model, painter = self._kept
        poses = trajectory["qpos"]
        if poses.shape[1:] != (model.nq,):
            raise BadEnvironment(
                f"The episode has {poses.shape[1]} positions per step, but {path.name} has "
                f"{model.nq}.",
                hint="It was recorded with a different version of the model. Record it again.",
            )
        poses = poses[rows]
        poses = poses[: next(iter(np.flatnonzero(~np.isfinite(poses).all(1))), None)]
        if not len(poses):
            raise BadEnvironment("The episode contains no finite pose to render.")
        view, is_near = (sheet_row.view, sheet_row.near) if sheet_row else (job.view, False)
        cameras = place_cameras(model, poses, frame_s, view, width / height, near=is_near)
        data = mujoco.MjData(model)
        for row, pose, camera in zip(rows, poses, cameras, strict=False):
            data.qpos[:] = pose
            for name in ("mocap_pos", "mocap_quat"):
                if name in trajectory:
                    getattr(data, name)[:] = trajectory[name][row]
            for update in ("kinematics", "comPos", "camlight", "flex", "tendon"):
                getattr(mujoco, f"mj_{update}")(model, data)
            picture = painter.paint(data, camera)
            if sheet_row is not None:
                draw_ruler(picture, height_marks(camera, model, height))
            elif job.caption:
                draw_caption(picture, caption(trajectory, row))
            yield picture

    def legend(self) -> list[tuple[tuple[int, ...], str]]:
        """Return the body colors of the last model with the names of the bodies."""
        if self._kept is None:
            return []
        model, colors = self._kept[1], dict[tuple[int, ...], list[str]]()
        for body in range(1, model.nbody):
            shown = [g for g in geoms_of(model, body) if model.geom_group[g] < _HIDDEN]
            if shown and model.body(body).name:
                material = model.geom_matid[shown[0]]
                rgba = model.geom_rgba[shown[0]] if material < 0 else model.mat_rgba[material]
                key = tuple((255 * rgba[:3]).round().astype(int).tolist())
                colors.setdefault(key, []).append(model.body(body).name)
        return [(key, ", ".join(names)) for key, names in colors.items()]

    def try_out(self) -> None:
        """Render a small test image. Raises RenderBackendError if that fails."""
        model = mujoco.MjModel.from_xml_string(_PROBE_MODEL)
        data = mujoco.MjData(model)
        mujoco.mj_forward(model, data)
        painter = self._kind(model, 64, 48)
        picture = painter.paint(data, Camera(np.zeros(3), 4.0, 90.0, -20.0))
        painter.close()
        if picture.std() < 1:
            raise RenderBackendError("an empty image was rendered")

    def close(self) -> None:
        """Free the painter."""
        if self._kept is not None:
            self._kept[2].close()
        self._kept = None


def caption(trajectory: Trajectory, row: int, only_time: bool = False) -> list[str]:
    """Return the caption of a frame with time, step and cumulative return, if available."""
    words = [f"step {row + 1}"]
    if trajectory.facts.dt_s is not None:
        # Rows hold the state after the step, so the time is one step later than the row index.
        words.insert(0, f"{(row + 1) * trajectory.facts.dt_s:.2f} s")
    if only_time:
        return words[:1]
    if "reward" in trajectory:
        words.append(f"return {trajectory['reward'][: row + 1].sum(dtype=np.float64):,.1f}")
    return words


def _own_frames(
    trajectory: Trajectory, rows: np.ndarray, job: RenderJob | None = None
) -> Iterator[np.ndarray]:
    """Render each of `rows` with the environment's own renderer and the job's caption.

    Raises BadEnvironment if the environment has no renderer, or if replaying the recorded actions
    leads to different observations.
    """
    # Imported lazily: rendering MuJoCo models does not need torch.
    import torch

    from telic.envs.foreign import action_codec, builder, observation_codec

    facts = trajectory.facts
    if facts.seed is None:
        raise BadEnvironment(f"{facts.env_id} cannot be rendered: the episode's seed is unknown.")
    # The time limit is applied by telic and is not an environment argument.
    own = {name: value for name, value in facts.env_kwargs.items() if name != "max_episode_steps"}
    env: Any = builder(facts.env_id, {**own, "render_mode": "rgb_array"})()
    flatten = observation_codec(env.observation_space, facts.env_id).flatten
    native = action_codec(env.action_space, facts.env_id).native
    repeats = np.bincount(rows, minlength=len(trajectory))
    try:
        # The recorded seed is that of a batch, in which the episode is one row.
        place: object = facts.extra.get("row")
        for seed in (derive(facts.seed, "env", place if isinstance(place, int) else 0), facts.seed):
            first = flatten(env.reset(seed=seed)[0])
            if "obs" not in trajectory or np.allclose(first, trajectory["obs"][0], atol=_TOLERANCE):
                break
        for row, action in enumerate(native(torch.as_tensor(trajectory["action"].copy()))):
            obs, *_ = env.step(action)
            recorded = trajectory["next_obs"][row]
            if not np.allclose(flatten(obs), recorded, atol=_TOLERANCE, rtol=_TOLERANCE):
                raise BadEnvironment(
                    f"{facts.env_id} cannot be rendered: replaying the recorded actions led to "
                    "different observations."
                )
            if not repeats[row]:
                continue
            try:
                picture = np.array(env.render(), dtype=np.uint8)
            except Exception as error:  # third-party code may raise anything
                raise BadEnvironment(
                    f"{facts.env_id} does not support rgb_array rendering: {error}"
                ) from None
            if job is not None and job.caption:  # below the image, to hide nothing
                strip = strip_height(len(picture))
                picture = np.pad(picture, ((0, strip), (0, 0), (0, 0)))
                draw_caption(picture, caption(trajectory, row))
            yield from (picture for _ in range(repeats[row]))
    finally:
        env.close()


def model_file(facts: TrajectoryFacts) -> Path | None:
    """Return the MuJoCo model file of an episode, or None if it has none."""
    for name in (facts.model_path, facts.env_kwargs.get("xml_file"), facts.env_id):
        if isinstance(name, str) and name.endswith(MODEL_FILES):
            path = Path(name).expanduser()
            return path if path.is_file() else assets_dir() / name
    match = re.fullmatch(r"(?:.*/)?(\w+)-v(\d+)", facts.env_id)
    if not match:
        return None
    # HalfCheetah is half_cheetah.xml; some models have a separate file for version 5.
    files = {path.stem.replace("_", ""): path for path in assets_dir().glob("*.xml")}
    name = match[1].lower()
    return files.get(f"{name}v{match[2]}") or files.get(name)
