"""What can be asked of a render process, what it answers, and what can draw on this machine."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from pydantic import Field, field_validator

from telic.core.config import Record
from telic.errors import UnknownName
from telic.storage.files import plain

View = Literal["side", "front", "top", "three-quarter"]
VIEWS: tuple[View, ...] = get_args(View)
Backend = Literal["egl", "osmesa", "cgl", "rays"]
BACKENDS: tuple[Backend, ...] = get_args(Backend)
FORCE = "TELIC_RENDER_BACKEND"
_PATIENCE_S = 60


class RenderJob(Record):
    """One picture or video to make of one recorded episode."""

    trajectory: Path = Field(description="recorded episode (.npz)")
    output: Path = Field(description=".mp4 is a video, .png a strip of still frames")
    width: int | None = Field(
        default=None,
        ge=32,
        le=4096,
        description="pixels; by default 480 with OpenGL, 320 with rays, 240 in a strip",
    )
    height: int | None = Field(
        default=None, ge=24, le=4096, description="pixels; by default three quarters of the width"
    )
    view: View | None = Field(
        default=None, description="where the camera stands; by default what suits the robot"
    )
    caption: bool | Literal["time"] = Field(
        default=True,
        description="draw time, step and return at the bottom; "
        '"time" alone for judges, who must not see the return',
    )
    fps: float = Field(
        default=30.0, gt=0, le=120, description="most frames per second; playback is real time"
    )
    fine: bool = Field(
        default=False, description="four pixels for one: smoother, twice the time (OpenGL only)"
    )
    frames: int = Field(default=6, ge=1, le=24, description="still frames in a strip")
    columns: int | None = Field(
        default=None, ge=1, description="still frames in a line; by default all in one"
    )
    between_s: tuple[float, float] | None = Field(
        default=None, description="part of the episode a strip shows, in seconds; by default all"
    )

    @field_validator("output")
    @classmethod
    def _check_output(cls, output: Path) -> Path:
        if output.suffix not in (".mp4", ".png"):
            raise ValueError(f"a rendering ends in .mp4 or .png, not {output.suffix!r}")
        return output

    @property
    def is_video(self) -> bool:
        """Say whether a video is wanted rather than a strip of pictures."""
        return self.output.suffix == ".mp4"


class Rendering(Record):
    """What became of a job; the output exists unless there is an error."""

    output: Path
    backend: str = Field(description="what drew it: egl, osmesa, cgl, rays, or gymnasium")
    error: str | None = None
    frames: int | None = None
    fps: float | None = None
    seconds: float | None = Field(default=None, description="time it took")


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
        child = subprocess.run(
            command(),
            input=order(backend, []),
            env=child_environment(backend),
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


def order(backend: str, jobs: list[RenderJob], nice: int = 0) -> str:
    """Return what the render process is told on its stdin."""
    return json.dumps({"backend": backend, "nice": nice, "jobs": plain(jobs)})


def command() -> list[str]:
    """Return the command that starts the render process."""
    return [sys.executable, "-m", "telic.rendering.worker"]


def child_environment(backend: str, processes: int = 1) -> dict[str, str]:
    """Return the environment of a render process, one of several that share the machine."""
    threads = max(1, (os.cpu_count() or 1) // processes)
    return {
        **os.environ,
        # "disable": the ray caster must not fail over a missing OpenGL it does not use.
        "MUJOCO_GL": "disable" if backend == "rays" else backend,
        "LP_NUM_THREADS": str(threads),  # Mesa's software renderer
        "SDL_VIDEODRIVER": "dummy",  # Gymnasium's own pictures need no screen
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }


def why_it_failed(reports: str, errors: str, status: int) -> str:
    """Return the last thing a render process said before it ended without success."""
    for line in reports.splitlines():
        message = json.loads(line)
        if message["event"] == "broken":
            return message["message"]
    last = errors.strip().splitlines()[-1:] or ["without a word"]
    ended = f"killed by signal {-status}" if status < 0 else f"ended with status {status}"
    return f"{ended}: {last[0]}"
