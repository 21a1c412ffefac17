"""Render recorded episodes in sandboxed processes, so that OpenGL failures cannot affect this one.

Recordings and environments may be untrusted, so render processes are sandboxed. A render process
may read recordings, model files and packages, write to a temporary folder from which finished files
are copied, and run ffmpeg. It has no network access.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import Field, ValidationError

from telic.core.config import Record
from telic.core.events import Listener, LogMessage, VideoProgress, ignore
from telic.envs.access import env_access, located
from telic.envs.simulators.names import named_code
from telic.errors import ConfigError, Refused, TelicError, UnknownName
from telic.rendering.job import Rendering, RenderJob
from telic.rendering.media import ffmpeg_path
from telic.sandbox.host import run_worker
from telic.sandbox.wire import cleaned
from telic.storage.files import plain, replacing
from telic.storage.keys import require_permitted
from telic.storage.trajectories import Trajectory, TrajectoryFacts, write_trajectory

Backend = Literal["egl", "osmesa", "cgl", "rays"]
BACKENDS: tuple[Backend, ...] = get_args(Backend)
FORCE = "TELIC_RENDER_BACKEND"
_MAX_VALUES = 1000
_GRAPHICS = (
    *("EGL_", "GALLIUM_", "LIBGL_", "LP_", "MESA_", "NVIDIA_", "PYOPENGL_", "VK_", "__EGL_"),
    *("__GL_", "__GLX_", "IMAGEIO_FFMPEG_EXE", "FONTCONFIG_"),
)
_DEVICES = ("dev/dri", "dev/dri/*", "dev/nvidia*", "dev/nvidia*/*")
_SYSTEM = ("/sys/class/drm", "/sys/dev/char", "/sys/bus/pci", "/sys/devices", "/etc/glvnd")
_LOADERS = ("/lib", "/lib64", "/usr/lib", "/usr/lib64")
"""Folders of the dynamic loader that every program executes."""


def render(
    jobs: Sequence[RenderJob],
    *,
    backend: Backend | None = None,
    processes: int = 1,
    listener: Listener = ignore,
    should_stop: Callable[[], bool] = lambda: False,
) -> list[Rendering]:
    """Render jobs and return their results in order.

    A failed job has an `error` in its result and does not stop the others. If the backend fails,
    the remaining jobs use ray casting, with a log event. Videos emit "video.progress". With several
    processes, the listener is called from several threads.
    """
    if not jobs:
        return []
    results = _refused(jobs)
    first: Backend = backend or choose_backend()
    processes = min(processes, len(jobs))
    stop = threading.Event()

    def draw(share: range) -> None:
        reason = ""
        for chosen in dict.fromkeys((first, BACKENDS[-1])):
            left = {number: jobs[number] for number in share if number not in results}
            if not left or stop.is_set() or should_stop():
                return
            if reason:
                listener(LogMessage(message=f"Rendering continues with {chosen}: {reason}."))
            until = lambda: stop.is_set() or should_stop()  # noqa: E731
            broken = _run(chosen, left, processes, results, listener, until)
            reason = f"{chosen} failed ({broken})"
        for number in share:
            failed = Rendering(output=jobs[number].output, backend=first, error=reason)
            results.setdefault(number, failed)

    with ThreadPoolExecutor(processes) as pool:
        try:
            list(pool.map(draw, [range(i, len(jobs), processes) for i in range(processes)]))
        except BaseException:
            stop.set()  # otherwise leaving the pool would wait for the remaining jobs
            raise
    stopped = [Rendering(output=job.output, backend=first, error="stopped") for job in jobs]
    return [results.get(number, rendering) for number, rendering in enumerate(stopped)]


def _refused(jobs: Sequence[RenderJob]) -> dict[int, Rendering]:
    """Return failed results for environments whose code is not permitted, by job index."""
    refused: dict[int, Rendering] = {}
    for number, job in enumerate(jobs):
        try:
            require_permitted(*named_code(job.env, job.env_args))
        except Refused as error:
            why = error.message
            refused[number] = Rendering(output=job.output, backend=BACKENDS[-1], error=why)
    return refused


def render_one(trajectory: Path, output: Path, *, env: str, **settings: Any) -> Rendering:
    """Render one episode as a video (.mp4) or an image strip (.png), with settings of RenderJob.

    Raises ConfigError for an invalid setting, and TelicError if rendering fails.
    """
    try:
        job = RenderJob(trajectory=trajectory, output=output, env=env, **settings)
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}.") from None
    rendering = render([job])[0]
    if rendering.error:
        raise TelicError(f"{output} was not rendered: {rendering.error}")
    return rendering


def render_poses(
    model_file: Path, poses: Any, output: Path, *, dt_s: float | None = None, **settings: Any
) -> Rendering:
    """Render poses (T, nq) of a model that are `dt_s` seconds apart, with settings of RenderJob."""
    with tempfile.TemporaryDirectory() as folder:
        episode = Path(folder) / "poses.npz"
        facts = TrajectoryFacts(env_id=str(model_file), dt_s=dt_s)
        write_trajectory(episode, Trajectory({"qpos": poses.astype("f4")}, facts))
        return render_one(episode, output, env=str(model_file), **settings)


def draw_portrait(model_file: Path, output: Path) -> None:
    """Render a robot in its initial pose to a PNG file. Raises TelicError on failure."""
    from telic.sim.simulation import load_model

    model = load_model(str(model_file))
    pose = model.key_qpos[:1] if model.nkey else model.qpos0[None]
    looks: dict[str, Any] = {"view": "three-quarter", "width": 640, "caption": False}
    render_poses(model_file, pose, output, frames=1, **looks)


class RenderReport(Record):
    """Message from a render process with the progress or the result of a job."""

    job: int = Field(ge=0)
    frame: int = 0
    frames: int = 0
    rendering: Rendering | None = None


def _read_report(message: Any) -> RenderReport | None:
    """Validate an untrusted message as a report, or return None if it is invalid."""
    try:
        return RenderReport.model_validate(cleaned(message, _MAX_VALUES))
    except (ValueError, RecursionError):
        return None


def _collected(rendering: Rendering, made: Path, output: Path) -> Rendering:
    """Copy a finished file to its destination."""
    error = rendering.error
    try:
        if error is None:
            with replacing(output) as temporary:
                shutil.copyfile(made, temporary, follow_symlinks=False)
    except (OSError, TelicError) as problem:
        error = str(problem)
    return rendering.model_copy(update={"output": output, "error": error})


def _run(
    backend: Backend,
    jobs: dict[int, RenderJob],
    processes: int,
    results: dict[int, Rendering],
    listener: Listener,
    should_stop: Callable[[], bool] | None,
) -> str | None:
    """Render jobs in a render process, or only test the backend, and return the failure or None.

    Results are added to `results` by job number.
    """
    values: list[dict[str, Any]] = []
    readable: set[Path] = {Path(sys.prefix), *map(Path, _SYSTEM)}
    imports: dict[Path, None] = {}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for number, job in enumerate(jobs.values()):
            env, env_args = job.env, dict(job.env_args)
            access = env_access(env, env_args)
            readable |= {job.trajectory.absolute(), *access.readable}
            imports |= dict.fromkeys(access.python_path)
            model = env_args.get("xml_file")
            if isinstance(model, str) and Path(model).is_file():
                env_args = {**env_args, "xml_file": str(Path(model).absolute())}
            given = {
                "trajectory": str(job.trajectory.absolute()),
                "output": str(folder / f"{number}{job.output.suffix}"),
                "env": located(env),
                "env_args": env_args,
            }
            values.append({**plain(job), **given})
        try:
            programs = [Path(ffmpeg_path()).resolve(), *map(Path, _LOADERS)]
        except TelicError:
            programs = []  # images do not need ffmpeg, and videos report that it is missing

        numbers = list(jobs)

        def on_message(message: dict[str, Any]) -> None:
            report = _read_report(message)
            if report is None or report.job >= len(numbers) or numbers[report.job] in results:
                return
            output = jobs[numbers[report.job]].output
            if report.rendering is None:
                frame, frames = report.frame, report.frames
                listener(VideoProgress(path=str(output), frame=frame, frames=frames))
            else:
                made = folder / f"{report.job}{output.suffix}"
                results[numbers[report.job]] = _collected(report.rendering, made, output)

        variables = _graphics_variables(backend, processes)
        try:
            ended = run_worker(
                "telic.rendering._worker",
                {"backend": backend, "variables": variables, "jobs": values},
                writable=[folder],
                readable=sorted(readable),
                devices=[path for pattern in _DEVICES for path in Path("/").glob(pattern)],
                programs=programs,
                searched=list(imports),
                on_message=on_message,
                should_stop=should_stop,
                fresh=True,  # a fork has already imported mujoco for another backend
            )
        except TelicError as error:
            return error.message
        return ended.get("broken")


def _graphics_variables(backend: str, processes: int) -> dict[str, str]:
    """Return the graphics environment variables for one of several render processes."""
    window = importlib.util.find_spec("glfw")
    given = {name: value for name, value in os.environ.items() if name.startswith(_GRAPHICS)}
    if window is not None and window.origin is not None:
        # Gymnasium imports glfw, which would otherwise search for its library in a child process.
        given["PYGLFW_LIBRARY"] = str(Path(window.origin).parent / "x11" / "libglfw.so")
    return {
        **given,
        # Ray casting does not use OpenGL and must not fail if it is missing.
        "MUJOCO_GL": "disable" if backend == "rays" else backend,
        "LP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // processes)),  # Mesa's renderer
        "SDL_VIDEODRIVER": "dummy",
        "OMP_NUM_THREADS": "1",
    }


# ---- backends


def candidates() -> tuple[Backend, ...]:
    """Return the backends for this platform, best first. The last one, "rays", always works."""
    return ("cgl", "rays") if sys.platform == "darwin" else ("egl", "osmesa", "rays")


def choose_backend() -> Backend:
    """Return the first working backend. Each backend is tested once per process.

    The environment variable TELIC_RENDER_BACKEND overrides the choice without testing.
    """
    forced = os.environ.get(FORCE)
    if forced:
        for backend in BACKENDS:
            if backend == forced:
                return backend
        raise UnknownName("render backend", forced, list(BACKENDS))
    return next(backend for backend in candidates() if _why_broken(backend) is None)


@functools.cache
def _why_broken(backend: Backend) -> str | None:
    """Test a backend with a small image, and return the reason for a failure, or None."""
    return _run(backend, {}, 1, {}, ignore, None)
