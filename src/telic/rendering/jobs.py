"""Draw recorded episodes in confined processes, so that this one never touches OpenGL.

Recordings come from confined processes and environments may be the user's own, so a render process
is confined as well. It reads recordings, model files and packages, writes to a folder of its own
from which finished pictures are copied, has no network, and starts nothing but ffmpeg.
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
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from pydantic import Field, ValidationError

from telic.core.config import Record
from telic.core.events import Listener, LogMessage, VideoProgress, ignore
from telic.errors import ConfigError, TelicError, UnknownName
from telic.rendering.job import Rendering, RenderJob
from telic.rendering.media import ffmpeg_path
from telic.sandbox.host import run_worker
from telic.sandbox.wire import cleaned
from telic.storage.files import plain, replacing
from telic.storage.trajectories import read_trajectory

if TYPE_CHECKING:
    from telic.envs.access import EnvAccess

Backend = Literal["egl", "osmesa", "cgl", "rays"]
BACKENDS: tuple[Backend, ...] = get_args(Backend)
FORCE = "TELIC_RENDER_BACKEND"
_WORKER = "telic.rendering.worker"
_MOST_VALUES = 1000
_GRAPHICS = (
    *("EGL_", "GALLIUM_", "LIBGL_", "LP_", "MESA_", "NVIDIA_", "PYOPENGL_", "VK_", "__EGL_"),
    *("__GL_", "__GLX_", "IMAGEIO_FFMPEG_EXE", "FONTCONFIG_"),
)
_DEVICES = ("dev/dri", "dev/dri/*", "dev/nvidia*", "dev/nvidia*/*")
_FACTS = ("/sys/class/drm", "/sys/dev/char", "/sys/bus/pci", "/sys/devices", "/etc/glvnd")
_LOADERS = ("/lib", "/lib64", "/usr/lib", "/usr/lib64")
"""where the program loader lies, which is executed with every program"""


def render(
    jobs: Sequence[RenderJob],
    *,
    backend: Backend | None = None,
    processes: int = 1,
    listener: Listener = ignore,
    should_stop: Callable[[], bool] = lambda: False,
) -> list[Rendering]:
    """Draw jobs and return the result of each, in order.

    A job that cannot be drawn does not stop the others: its `error` says why. A backend that breaks
    is replaced by the next one, with a log event; videos emit "video.progress".

    Args:
        jobs: what to draw; with jobs of one model in a row, the model is loaded once.
        backend: what to draw with; by default the first that works on this machine.
        processes: number of render processes.
        listener: receives events; called from several threads when there are several processes.
        should_stop: polled; True stops rendering, and jobs not drawn yet say so.
    """
    if not jobs:
        return []
    first = backend or choose_backend()
    usual = candidates()
    worse = usual[usual.index(first) + 1 :] if first in usual else usual
    processes = min(processes, len(jobs))
    results: dict[int, Rendering] = {}
    stop = threading.Event()

    def is_stopped() -> bool:
        return stop.is_set() or should_stop()

    def draw(share: range) -> None:
        reason = ""
        for backend in (first, *worse):
            left = {number: jobs[number] for number in share if number not in results}
            if not left or is_stopped():
                return
            if reason:
                listener(LogMessage(message=f"Rendering continues with {backend}: {reason}."))
            broken = _draw_with(backend, left, results, processes, listener, is_stopped)
            reason = f"{backend} broke ({broken})"
        for number in share:
            error = f"nothing draws: {reason}"
            failed = Rendering(output=jobs[number].output, backend=first, error=error)
            results.setdefault(number, failed)

    with ThreadPoolExecutor(processes) as pool:
        try:
            list(pool.map(draw, [range(i, len(jobs), processes) for i in range(processes)]))
        except BaseException:
            stop.set()  # else leaving the pool would wait for the rest
            raise
    ended = [Rendering(output=job.output, backend=first, error="asked to stop") for job in jobs]
    return [results.get(number, rendering) for number, rendering in enumerate(ended)]


def render_one(trajectory: Path, output: Path, **settings: Any) -> Rendering:
    """Draw one episode as a video (.mp4) or a strip of pictures (.png); `settings` as RenderJob.

    Raises ConfigError for a setting that makes no sense, TelicError when it cannot be drawn.
    """
    try:
        job = RenderJob(trajectory=trajectory, output=output, **settings)
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}.") from None
    rendering = render([job])[0]
    if rendering.error:
        raise TelicError(f"{output} was not made: {rendering.error}")
    return rendering


class RenderReport(Record):
    """A message of a render process: the progress of a job, or its result."""

    job: int = Field(ge=0)
    frame: int = 0
    frames: int = 0
    rendering: Rendering | None = None


def read_report(message: Any) -> RenderReport | None:
    """Return what a message reports; None: nothing, for environments may run in there."""
    try:
        return RenderReport.model_validate(cleaned(message, _MOST_VALUES))
    except (ValueError, RecursionError):
        return None


def _draw_with(
    backend: Backend,
    jobs: dict[int, RenderJob],
    results: dict[int, Rendering],
    processes: int,
    listener: Listener,
    should_stop: Callable[[], bool],
) -> str | None:
    """Draw jobs, by number, in one process; return why the backend broke, if it did."""
    numbers = list(jobs)

    def hear(message: dict[str, Any]) -> None:
        report = read_report(message)
        if report is None or report.job >= len(numbers):
            return
        output = jobs[numbers[report.job]].output
        if report.rendering is None:
            frame, frames = report.frame, report.frames
            listener(VideoProgress(path=str(output), frame=frame, frames=frames))
        elif numbers[report.job] not in results:
            made = folder / f"{report.job}{output.suffix}"
            results[numbers[report.job]] = _collected(report.rendering, made, output)

    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        return _run(backend, list(jobs.values()), folder, processes, hear, should_stop)


def _collected(rendering: Rendering, made: Path, output: Path) -> Rendering:
    """Copy a finished picture to where it was asked for."""
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
    jobs: Sequence[RenderJob],
    folder: Path,
    processes: int = 1,
    hear: Callable[[dict[str, Any]], None] = lambda message: None,
    should_stop: Callable[[], bool] | None = None,
) -> str | None:
    """Draw jobs in a render process; without jobs, try the backend. Return why it broke, if so."""
    values: list[dict[str, Any]] = []
    readable: set[Path] = {Path(sys.prefix), *map(Path, _FACTS)}
    imports: dict[Path, None] = {}
    for number, job in enumerate(jobs):
        env, env_args, access = _environment(job)
        readable |= {job.trajectory.absolute(), *access.readable}
        imports |= dict.fromkeys(access.python_path)
        place = {
            "trajectory": str(job.trajectory.absolute()),
            "output": str(folder / f"{number}{job.output.suffix}"),
            "env": env or None,
            "env_args": env_args,
        }
        values.append({**plain(job), **place})
    variables = graphics_variables(backend, processes)
    payload = {"backend": backend, "variables": variables, "jobs": values}
    try:
        programs = [Path(ffmpeg_path()).resolve(), *map(Path, _LOADERS)]
    except TelicError:
        programs = []  # pictures need none, and a video says what is missing
    try:
        ended = run_worker(
            _WORKER,
            payload,
            writable=[folder],
            readable=sorted(readable),
            devices=[path for pattern in _DEVICES for path in Path("/").glob(pattern)],
            programs=programs,
            python_path=list(imports),
            on_message=hear,
            should_stop=should_stop,
            fresh=True,  # a fork has imported mujoco already, for another backend
        )
    except TelicError as error:
        return error.message
    return ended.get("broken")


def _environment(job: RenderJob) -> tuple[str, dict[str, Any], EnvAccess]:
    """Return what a job draws, as its render process can find it, and what that needs.

    It is what the caller says, or a trusted file; else "", and the process takes only ids.
    """
    # Here, because environments import torch, which a render process does without.
    from telic.envs.access import env_access, located

    env, env_args = job.env or "", dict(job.env_args)
    if job.env is None and job.trust:
        try:
            env, env_args = read_trajectory(job.trajectory).facts.environment
        except TelicError:
            env = ""  # the render process says what is wrong with the file
    access = env_access(env, env_args)
    code = Path(env.rpartition(":")[0])
    if code.suffix == ".py" and code.is_file():
        access.readable.append(code.absolute())
    model = env_args.get("xml_file")
    if isinstance(model, str) and Path(model).is_file():
        env_args = {**env_args, "xml_file": str(Path(model).absolute())}
    return located(env) if env else "", env_args, access


def graphics_variables(backend: str, processes: int) -> dict[str, str]:
    """Return the environment variables of graphics for one of several render processes."""
    threads = max(1, (os.cpu_count() or 1) // processes)
    window = importlib.util.find_spec("glfw")
    given = {name: value for name, value in os.environ.items() if name.startswith(_GRAPHICS)}
    if window is not None and window.origin is not None:
        # Gymnasium imports it, and it would look for its own files in a child process.
        given["PYGLFW_LIBRARY"] = str(Path(window.origin).parent / "x11" / "libglfw.so")
    return {
        **given,
        # "disable": the ray caster must not fail over a missing OpenGL it does not use.
        "MUJOCO_GL": "disable" if backend == "rays" else backend,
        "LP_NUM_THREADS": str(threads),  # Mesa's software renderer
        "SDL_VIDEODRIVER": "dummy",
        "OMP_NUM_THREADS": "1",
    }


# ---- what can draw on this machine


class BackendProbe(NamedTuple):
    """Whether a backend draws; `reason` says why not."""

    backend: Backend
    works: bool
    reason: str | None


def candidates() -> tuple[Backend, ...]:
    """Return the backends of this platform, the best first; "rays" always works."""
    return ("cgl", "rays") if sys.platform == "darwin" else ("egl", "osmesa", "rays")


def choose_backend() -> Backend:
    """Return the first backend that works, tried once per process.

    The environment variable TELIC_RENDER_BACKEND decides without trying, for tests.
    """
    forced = os.environ.get(FORCE)
    if forced:
        for backend in BACKENDS:
            if backend == forced:
                return backend
        raise UnknownName("render backend", forced, list(BACKENDS))
    return next(backend for backend in candidates() if probe(backend).works)


@functools.cache
def probe(backend: Backend) -> BackendProbe:
    """Draw a small picture with a backend in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        reason = _run(backend, [], Path(folder))
    return BackendProbe(backend, reason is None, reason)
