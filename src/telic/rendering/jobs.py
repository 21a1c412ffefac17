"""Have recorded episodes drawn in child processes, so that this one never touches OpenGL."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from pydantic import ValidationError

from telic.core.config import Record
from telic.core.events import Listener, LogMessage, VideoProgress, ignore
from telic.errors import ConfigError, TelicError, UnknownName
from telic.jobs.process import PIPE, Process
from telic.rendering.job import Rendering, RenderJob
from telic.sandbox.wire import cleaned, is_record, printable
from telic.storage.files import plain

Backend = Literal["egl", "osmesa", "cgl", "rays"]
BACKENDS: tuple[Backend, ...] = get_args(Backend)
FORCE = "TELIC_RENDER_BACKEND"
_PATIENCE_S = 60
_SILENCE_S = 120.0
_MOST_VALUES = 1000
_KEPT = 20
_GRACE_S = 3.0
_POLL_S = 0.2


def render(
    jobs: Sequence[RenderJob],
    *,
    backend: Backend | None = None,
    processes: int = 1,
    nice: int = 0,
    listener: Listener = ignore,
    should_stop: Callable[[], bool] = lambda: False,
) -> list[Rendering]:
    """Draw jobs and return what became of each, in order.

    A job that cannot be drawn does not stop the others: its `error` says why. A backend that breaks
    is replaced by the next one, which the listener is told ("log"); it also hears "video.progress"
    (path, frame, frames).

    Args:
        jobs: what to draw; with jobs of one model in a row, the model is loaded once.
        backend: what to draw with; by default what was seen to work on this machine.
        processes: how many children share the work.
        nice: how much the children step back for other work, 0 to 19.
        listener: hears events; called from several threads when there are several processes.
        should_stop: polled; True ends it, and what is not drawn yet says so.
    """
    if not jobs:
        return []
    first = backend or choose_backend()
    processes = min(processes, len(jobs))
    shares = [range(i, len(jobs), processes) for i in range(processes)]
    results: dict[int, Rendering] = {}
    stop = threading.Event()

    def work(share: range) -> None:
        crew = _Crew([jobs[i] for i in share], processes, nice, listener, stop)
        for place, rendering in crew.run(first):
            results[share[place]] = rendering

    with ThreadPoolExecutor(processes) as pool:
        try:
            waiting = {pool.submit(work, share) for share in shares}
            while waiting:
                done, waiting = wait(waiting, _POLL_S, FIRST_COMPLETED)
                for share in done:
                    share.result()
                if should_stop():
                    stop.set()
        except BaseException:
            stop.set()  # else leaving the pool would wait for the videos nobody wants any more
            raise
    ended = [Rendering(output=job.output, backend=first, error="asked to stop") for job in jobs]
    return [results.get(i, rendering) for i, rendering in enumerate(ended)]


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
    """A line of the render process: how far a job is, or what became of it."""

    event: Literal["progress", "done"]
    job: int
    frame: int = 0
    frames: int = 0
    rendering: Rendering | None = None


def read_report(line: str) -> RenderReport | None:
    """Return what a line reports; nothing is believed, for environments may run in there."""
    try:
        return RenderReport.model_validate(cleaned(json.loads(line), _MOST_VALUES))
    except (ValueError, RecursionError, AttributeError):
        return None


class _Crew:
    """Render processes, one after the other, that carry out a list of jobs."""

    def __init__(
        self,
        jobs: list[RenderJob],
        processes: int,
        nice: int,
        listener: Listener,
        stop: threading.Event,
    ) -> None:
        self._jobs = jobs
        self._processes = processes
        self._nice = nice
        self._listener = listener
        self._stop = stop

    def run(self, first: Backend) -> Iterator[tuple[int, Rendering]]:
        """Yield place and result of each job, with as many backends as it takes."""
        usual = candidates()
        worse = usual[usual.index(first) + 1 :] if first in usual else usual
        waiting = list(range(len(self._jobs)))
        reason = ""
        for backend in (first, *worse):
            if reason:
                self._listener(LogMessage(message=f"Rendering goes on with {backend}: {reason}."))
            reason = f"{backend} broke ({(yield from self._run_child(backend, waiting))})"
            if not waiting or self._stop.is_set():
                return
        for i in waiting:
            output = self._jobs[i].output
            yield i, Rendering(output=output, backend=first, error=f"nothing draws: {reason}")

    def _run_child(
        self, backend: Backend, waiting: list[int]
    ) -> Generator[tuple[int, Rendering], None, str]:
        """Yield results and take their places off `waiting`; return why the process ended."""
        places = list(waiting)
        lines: list[str] = []
        jobs = [self._jobs[i] for i in places]
        with tempfile.TemporaryFile() as errors, tempfile.TemporaryDirectory() as folder:
            process = Process(
                command(),
                stdin=PIPE,
                stdout=PIPE,
                stderr=errors,
                env=child_environment(backend, Path(folder), self._processes, jobs),
            )
            try:
                # A process that died at once has said why elsewhere.
                with contextlib.suppress(BrokenPipeError), process.stdin:
                    process.write(order(backend, jobs, Path(folder), self._nice).encode())
                for line in process.lines(_SILENCE_S, self._stop.is_set):
                    lines = [*lines[-_KEPT:], line]
                    report = read_report(line)
                    if report is None or report.job not in range(len(places)):
                        continue
                    place = places[report.job]
                    output = self._jobs[place].output
                    if report.rendering is None:
                        frame, frames = report.frame, report.frames
                        self._listener(VideoProgress(path=str(output), frame=frame, frames=frames))
                    elif place in waiting:
                        waiting.remove(place)
                        yield place, report.rendering.model_copy(update={"output": output})
            finally:
                with process:
                    status = process.stop(_GRACE_S) or 0
            errors.seek(0)
            said = errors.read().decode(errors="replace")
        return why_it_failed("\n".join(lines), said, status)


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
    """Return the first backend that was seen to draw, found out once per process.

    The environment variable TELIC_RENDER_BACKEND decides without looking, for tests.
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
    """Draw a small picture with a backend in a child process and say whether that went well."""
    try:
        with tempfile.TemporaryDirectory() as folder:
            child = subprocess.run(
                command(),
                input=order(backend, [], Path(folder)),
                env=child_environment(backend, Path(folder)),
                capture_output=True,
                text=True,
                timeout=_PATIENCE_S,
                check=False,
            )
    except subprocess.TimeoutExpired:
        return BackendProbe(backend, False, f"it did not answer within {_PATIENCE_S} s")
    if child.returncode == 0:
        return BackendProbe(backend, True, None)
    return BackendProbe(backend, False, why_it_failed(child.stdout, child.stderr, child.returncode))


def order(backend: str, jobs: list[RenderJob], folder: Path, nice: int = 0) -> str:
    """Return what the render process is told on its stdin; `folder` is for its passing files."""
    from telic.rendering.walls import render_walls

    values: list[dict[str, Any]] = plain(jobs)
    for job, told in zip(jobs, values, strict=True):
        told |= {"trajectory": str(job.trajectory.absolute()), "output": str(job.output.absolute())}
    walls = render_walls(jobs, folder)
    return json.dumps({"backend": backend, "nice": nice, "jobs": values, "walls": walls})


def command() -> list[str]:
    """Return the command that starts the render process."""
    return [sys.executable, "-P", "-m", "telic.rendering.worker"]


def child_environment(
    backend: str, folder: Path, processes: int = 1, jobs: Sequence[RenderJob] = ()
) -> dict[str, str]:
    """Return the variables of a render process; see `walls.render_environment`."""
    from telic.rendering.walls import render_environment

    return render_environment(backend, processes, folder, jobs)


def why_it_failed(reports: str, errors: str, status: int) -> str:
    """Return the last thing a render process said before it ended without success."""
    for line in reports.splitlines():
        with contextlib.suppress(ValueError, RecursionError):
            message: object = json.loads(line)
            if is_record(message) and message.get("event") == "broken":
                return printable(message.get("message"), 500)
    last = printable(errors[-2000:]).strip().splitlines()[-1:] or ["without a word"]
    ended = f"killed by signal {-status}" if status < 0 else f"ended with status {status}"
    return f"{ended}: {last[0]}"
