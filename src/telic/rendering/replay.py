"""Turn a recorded episode into frames, by putting the model into each recorded state.

Nothing is simulated again: what is seen is what was recorded.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import mujoco
import numpy as np

from telic.errors import BadEnvironment, TelicError
from telic.rendering.camera import Painter, place_cameras
from telic.rendering.jobs import RenderJob
from telic.rendering.look import load_dressed
from telic.rendering.media import draw_caption
from telic.storage.trajectories import Trajectory, TrajectoryFacts

MakePainter = Callable[[mujoco.MjModel, int, int, bool], Painter]

# the models of Gymnasium's tasks; the version decides for two of them
_ASSETS = {
    "Ant": "ant.xml",
    "HalfCheetah": "half_cheetah.xml",
    "Hopper": "hopper.xml",
    "Humanoid": "humanoid.xml",
    "HumanoidStandup": "humanoidstandup.xml",
    "InvertedDoublePendulum": "inverted_double_pendulum.xml",
    "InvertedPendulum": "inverted_pendulum.xml",
    "Pusher": "pusher.xml",
    "Reacher": "reacher.xml",
    "Swimmer": "swimmer.xml",
    "Walker2d": "walker2d.xml",
}
_OWN_V5 = {"Pusher": "pusher_v5.xml", "Walker2d": "walker2d_v5.xml"}
_MODEL_FILES = (".xml", ".mjcf", ".urdf", ".mjb")


class Pace(NamedTuple):
    """Which rows are shown, and how fast, so that playback is in real time."""

    rows: np.ndarray  # (frames,)
    fps: float


def pace(length: int, dt_s: float, most_fps: float) -> Pace:
    """Return the rows to show of `length` rows that are `dt_s` apart."""
    fps = min(most_fps, 1 / dt_s)
    frames = max(1, round(length * dt_s * fps))
    return Pace(np.minimum((np.arange(frames) / (fps * dt_s)).round().astype(int), length - 1), fps)


def spread(
    length: int,
    frames: int,
    dt_s: float | None = None,
    between_s: tuple[float, float] | None = None,
) -> np.ndarray:
    """Return the rows of `frames` still pictures, evenly from the first to the last.

    Of `length` rows that are `dt_s` apart, those `between_s`; all of them where there is no clock.
    """
    first, last = 0, length - 1
    if between_s is not None and dt_s is not None:
        # Row n is the state after its step, at (n + 1) dt_s.
        first, last = (min(max(round(at / dt_s) - 1, 0), last) for at in between_s)
    return np.unique(np.linspace(first, last, frames).round().astype(int))


def model_file(facts: TrajectoryFacts) -> Path | None:
    """Return the model file that an episode's qpos belongs to, or None when it has none."""
    for name in (facts.model_path, facts.env_kwargs.get("xml_file"), facts.env_id):
        if name is not None and name.endswith(_MODEL_FILES):
            path = Path(name).expanduser()
            return path if path.is_file() else _assets_dir() / name
    match = re.fullmatch(r"(?:.*/)?(\w+)-v(\d+)", facts.env_id)
    if not match or match[1] not in _ASSETS:
        return None
    name = _OWN_V5.get(match[1]) if match[2] == "5" else None
    return _assets_dir() / (name or _ASSETS[match[1]])


def _assets_dir() -> Path:
    # Found without importing Gymnasium, which takes longer than drawing a short video.
    package = importlib.util.find_spec("gymnasium")
    if package is None or not package.submodule_search_locations:
        raise TelicError("Gymnasium, which brings the models, is not installed.")
    return Path(package.submodule_search_locations[0]) / "envs" / "mujoco" / "assets"


class Stage:
    """Draws episodes of any models, and keeps the last model and painter for the next one."""

    def __init__(self, make_painter: MakePainter) -> None:
        self._make_painter = make_painter
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
        model, painter = self._prepare(path, width, height, job.fine)
        poses = _finite(_checked_poses(trajectory, model, path)[rows])
        cameras = place_cameras(model, poses, frame_s, job.view, width / height)
        data = mujoco.MjData(model)
        for row, pose, camera in zip(rows, poses, cameras, strict=False):
            data.qpos[:] = pose
            _move_mocap(trajectory, data, row)
            _update(model, data)
            picture = painter.paint(data, camera)
            if job.caption:
                draw_caption(picture, caption(trajectory, row, job.caption == "time"))
            yield picture

    def close(self) -> None:
        """Free the painter."""
        if self._painter is not None:
            self._painter.close()
        self._key = self._model = self._painter = None

    def _prepare(
        self, path: Path, width: int, height: int, fine: bool
    ) -> tuple[mujoco.MjModel, Painter]:
        key = (path, width, height, fine)
        if self._key != key or self._model is None or self._painter is None:
            self.close()
            # Gymnasium's robots are all one tan; the user's own colours are kept.
            self._model = load_dressed(path, repaint=path.is_relative_to(_assets_dir()))
            self._painter = self._make_painter(self._model, width, height, fine)
            self._key = key
        return self._model, self._painter


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


def _move_mocap(trajectory: Trajectory, data: mujoco.MjData, row: int) -> None:
    for name in ("mocap_pos", "mocap_quat"):
        if name in trajectory:
            getattr(data, name)[:] = trajectory[name][row]


def _update(model: mujoco.MjModel, data: mujoco.MjData) -> None:
    """Compute what is drawn from qpos; contacts and forces are not."""
    mujoco.mj_kinematics(model, data)
    mujoco.mj_comPos(model, data)
    mujoco.mj_camlight(model, data)
    mujoco.mj_flex(model, data)
    mujoco.mj_tendon(model, data)
