"""The walls of a render process: what it may read, write, start and know of the environment.

It draws what a confined process recorded, with environments of the user's own, so it is confined as
well: it reads the recordings, the model's files and its packages, writes to the folders of the
pictures, has no network and no variables but those of graphics. It may start ffmpeg, which inherits
all of that.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from telic.errors import TelicError
from telic.rendering.job import RenderJob
from telic.rendering.media import ffmpeg_path
from telic.sandbox.confine import Confinement, ConfinementReport, clean_environment, confine
from telic.storage.trajectories import read_trajectory

if TYPE_CHECKING:
    from telic.envs.access import EnvAccess

_PACKAGE = Path(__file__).parents[2]
_GRAPHICS = (
    *("EGL_", "GALLIUM_", "LIBGL_", "LP_", "MESA_", "NVIDIA_", "PYOPENGL_", "VK_", "__EGL_"),
    *("__GL_", "__GLX_", "IMAGEIO_FFMPEG_EXE", "FONTCONFIG_"),
)
_DEVICES = ("/dev/dri", "/dev/nvidia*")
_FACTS = ("/sys/class/drm", "/sys/dev/char", "/sys/bus/pci", "/sys/devices", "/etc/glvnd")
_LOADERS = ("/lib", "/lib64", "/usr/lib", "/usr/lib64")
"""where the loader of programs lies, which is started with them"""


def render_environment(
    backend: str, processes: int, folder: Path, jobs: Sequence[RenderJob] = ()
) -> dict[str, str]:
    """Return the variables of a render process, one of several that share the machine."""
    threads = max(1, (os.cpu_count() or 1) // processes)
    graphics = {name: value for name, value in os.environ.items() if name.startswith(_GRAPHICS)}
    imports = (path for job in jobs for path in _access(job).python_path)
    return {
        **clean_environment(folder, python_path=tuple(dict.fromkeys((_PACKAGE, *imports)))),
        **graphics,
        # "disable": the ray caster must not fail over a missing OpenGL it does not use.
        "MUJOCO_GL": "disable" if backend == "rays" else backend,
        "LP_NUM_THREADS": str(threads),  # Mesa's software renderer
        **_no_screen(),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }


def _no_screen() -> dict[str, str]:
    """Let environments draw themselves without a screen.

    Gymnasium imports a library of windows, which would look for its own files in a child process,
    and a render process starts nothing but ffmpeg.
    """
    package = importlib.util.find_spec("glfw")
    found = {"SDL_VIDEODRIVER": "dummy"}
    if package is not None and package.origin is not None:
        found["PYGLFW_LIBRARY"] = str(Path(package.origin).parent / "x11" / "libglfw.so")
    return found


def environment(job: RenderJob) -> tuple[str, dict[str, Any]]:
    """Return what a job draws: the caller's word, or a trusted file's; else a registered id."""
    if job.env is not None:
        return job.env, job.env_args
    if not job.trust:
        return "", {}
    try:
        return read_trajectory(job.trajectory).facts.environment
    except TelicError:
        return "", {}  # the render process says what is wrong with the file


def render_walls(jobs: Sequence[RenderJob], folder: Path) -> dict[str, list[str]]:
    """Return the paths that a render process is confined to; makes the folders of the pictures."""
    readable = {path for job in jobs for path in _readable(job)}
    for job in jobs:
        job.output.absolute().parent.mkdir(parents=True, exist_ok=True)
    writable = {folder, *(job.output.absolute().parent for job in jobs)}
    walls = {"writable": writable, "readable": readable}
    return {name: sorted(map(str, paths)) for name, paths in walls.items()}


def _readable(job: RenderJob) -> list[Path]:
    env, access = environment(job)[0], _access(job)
    code = Path(env.rpartition(":")[0])
    own = [code.absolute()] if code.suffix == ".py" and code.is_file() else []
    return [job.trajectory.absolute(), *access.readable, *access.python_path, *own]


def _access(job: RenderJob) -> EnvAccess:
    # Here, because environments import torch, which a render process does without.
    from telic.envs.access import env_access

    return env_access(*environment(job))


def confine_rendering(walls: dict[str, list[str]]) -> ConfinementReport:
    """Confine this render process for good; called before anything foreign is read."""
    devices = [path for pattern in _DEVICES for path in Path("/").glob(pattern.lstrip("/"))]
    devices += [path for folder in devices if folder.is_dir() for path in folder.iterdir()]
    try:
        programs = [Path(ffmpeg_path()).resolve(), *map(Path, _LOADERS)]
    except TelicError:
        programs = []  # pictures need none, and a video says what is missing
    report = confine(
        Confinement(
            writable=[Path(path) for path in walls["writable"]],
            readable=[*map(Path, walls["readable"]), *map(Path, _FACTS), Path(sys.prefix)],
            devices=devices,
            programs=programs,
        )
    )
    os.environ.update(_no_screen())
    return report
