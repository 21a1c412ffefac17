"""Render process, run by `telic.sandbox.worker`.

Messages are instances of `telic.rendering.jobs.RenderReport`. The result is {"broken": reason} if
the backend fails.
"""

from __future__ import annotations

import os
from typing import Any

from telic.rendering.job import RenderJob
from telic.sandbox.worker import HostChannel

_SILENCE_S = 120.0


class _Stopped(BaseException):
    """Raised when the host requests a stop."""


def prepare(payload: dict[str, Any], channel: HostChannel) -> list[RenderJob] | str:
    """Import all modules with the backend's variables. Returns the reason for a failure.

    Imports read files, which a sandboxed process may not do.
    """
    os.environ.update(payload["variables"])
    jobs = [RenderJob.model_validate(values) for values in payload["jobs"]]
    try:
        # With a broken OpenGL library, importing mujoco may raise any exception.
        from telic.rendering.replay import import_environments
    except Exception as error:
        return f"a graphics library is missing: {type(error).__name__}: {error}"
    import_environments(jobs)
    return jobs


def run(
    jobs: list[RenderJob] | str, payload: dict[str, Any], channel: HostChannel
) -> dict[str, Any]:
    """Render the jobs. Without jobs, only test the backend."""
    if isinstance(jobs, str):
        return {"broken": jobs}
    from telic.rendering._painters import RenderBackendError
    from telic.rendering.replay import Stage, draw_job

    for name in ("SDL_VIDEODRIVER", "PYGLFW_LIBRARY"):
        if name in payload["variables"]:
            os.environ[name] = payload["variables"][name]
    try:
        stage = Stage(payload["backend"])
        stage.try_out()
        for number, job in enumerate(jobs):
            channel.heartbeat(_SILENCE_S, f"it was rendering {job.output.name}")

            def progress(frame: int, frames: int, number: int = number) -> None:
                if channel.should_stop():
                    raise _Stopped
                channel.send({"job": number, "frame": frame, "frames": frames})

            drawn = draw_job(stage, job, progress)
            channel.send({"job": number, "rendering": drawn.model_dump(mode="json")})
        stage.close()
    except RenderBackendError as error:
        return {"broken": str(error)}
    except _Stopped:
        pass
    return {}
