"""The render process: reads jobs on stdin, draws them, reports one JSON line at a time on stdout.

Started by `telic.rendering.jobs` with MUJOCO_GL set, so that no other process touches OpenGL.

    {"event": "ready"}                                       the backend draws
    {"event": "progress", "job": 0, "frame": 40, "frames": 900}
    {"event": "done", "job": 0, "rendering": {…}}            made, or not and why
    {"event": "broken", "message": "…"}                      the backend does not draw; exits
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import IO, Any

from telic.jobs.process import die_with_parent
from telic.rendering.job import RenderJob
from telic.rendering.walls import confine_rendering
from telic.storage.files import plain


def main() -> int:
    """Draw the jobs given on stdin; without jobs, find out whether the backend draws at all."""
    # Libraries below may print; only our own lines go to the real stdout.
    report = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    # Ending by an exception, not on the spot, removes half-written files and ends ffmpeg.
    signal.signal(signal.SIGTERM, _end)
    die_with_parent(signal.SIGTERM)
    order = json.load(sys.stdin)
    os.nice(order["nice"])
    jobs = [RenderJob.model_validate(values) for values in order["jobs"]]
    try:
        # Before the walls, which forbid what libraries do while they are imported. With a broken
        # OpenGL library even importing mujoco raises, and anything at that.
        from telic.rendering.painters import PainterBroken
        from telic.rendering.replay import Stage, draw, import_environments
    except Exception as error:
        reason = f"a library of it is missing: {type(error).__name__}: {error}"
        _send(report, event="broken", message=reason)
        return 1
    import_environments(jobs)
    report_walls = confine_rendering(order["walls"])
    for part in report_walls.missing:  # a kernel that cannot; `telic doctor` says so too
        sys.stderr.write(f"not confined: {part.name}: {part.message}\n")
    try:
        stage = Stage(order["backend"])
        stage.try_out()
        _send(report, event="ready")
        for number, job in enumerate(jobs):

            def progress(frame: int, frames: int, number: int = number) -> None:
                _send(report, event="progress", job=number, frame=frame, frames=frames)

            _send(report, event="done", job=number, rendering=draw(stage, job, progress))
        stage.close()
    except PainterBroken as error:
        _send(report, event="broken", message=str(error))
        return 1
    return 0


def _end(number: int, frame: object) -> None:
    sys.exit(1)


def _send(report: IO[str], **message: Any) -> None:
    report.write(json.dumps(plain(message)) + "\n")


if __name__ == "__main__":
    sys.exit(main())
