"""Files and folders that a confined process must be able to read to make an environment."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

from telic.core.plugins import plugin_home
from telic.envs.simulators.names import simulated
from telic.robots import robot_path
from telic.sim.files import MODEL_FILES, model_files, require_compilable


class EnvAccess(NamedTuple):
    """Files and folders of an environment outside the installed packages."""

    readable: list[Path]
    """its model, and everything that the model is made of"""
    python_path: list[Path]
    """to import it from"""


def env_access(env: str, env_args: dict[str, Any]) -> EnvAccess:
    """Return what a confined process needs besides its own packages."""
    model = env if env.endswith(MODEL_FILES) else env_args.get("xml_file")
    files: list[Path] = []
    if isinstance(model, str) and os.path.isfile(Path(model).expanduser()):
        require_compilable(Path(model))
        files = model_files(Path(model))
    return EnvAccess(files, import_folders(env))


def located(env: str) -> str:
    """Return an environment's name that means the same in every folder, as workers need it."""
    if simulated(env):
        return env
    file, colon, name = env.rpartition(":")
    if colon and file.endswith(".py") and os.path.isfile(Path(file).expanduser()):
        return f"{Path(file).expanduser().absolute()}:{name}"
    path = Path(env).expanduser()
    if env.endswith(MODEL_FILES) and os.path.isfile(path):
        return os.path.normpath(path.absolute())
    robot = robot_path(env)
    return env if robot is None else str(robot.absolute())


def import_folders(env: str) -> list[Path]:
    """Return what a confined process must import an environment from, besides its own packages."""
    if ":" in env and not simulated(env) and not os.path.exists(env):  # module:Class
        file = Path(env.rpartition(":")[0]).expanduser()
        is_file = file.suffix == ".py" and os.path.isfile(file)
        return [file.resolve().parent if is_file else Path.cwd()]
    home = plugin_home("environments", env)
    return [] if home is None else [home]
