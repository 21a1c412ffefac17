"""Files and folders that a sandboxed process needs to create an environment."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

from telic.core.plugins import plugin_home
from telic.envs.simulators.names import named_code, simulated
from telic.robots import robot_path
from telic.sim.files import MODEL_FILES, model_files, require_compilable
from telic.storage.keys import require_permitted


class EnvAccess(NamedTuple):
    """Files and folders of an environment outside of installed packages."""

    readable: list[Path]
    """Model, files that the model references, and code."""
    python_path: list[Path]
    """Import paths (not readable as a whole because they may contain private files)."""


def env_access(env: str, env_args: dict[str, Any]) -> EnvAccess:
    """Return the files that a sandboxed process needs besides installed packages.

    Every worker that creates an environment requires the returned files. Raises Refused for code
    that a folder names but that the user has not permitted.
    """
    require_permitted(*named_code(env, env_args))
    files, home = env_files(env, env_args), plugin_home("environments", env)
    if ":" in env and not simulated(env) and not os.path.exists(env):  # module:Class
        file = Path(env.rpartition(":")[0]).expanduser()
        if file.suffix == ".py" and os.path.isfile(file):
            folder = file.resolve().parent
            return EnvAccess([*files, *_visible(folder)], [folder])
        top = Path.cwd() / env.partition(".")[0].partition(":")[0]
        code = [each for each in _visible(Path.cwd()) if each == top or _is_python(each)]
        return EnvAccess([*files, *code], [Path.cwd()])
    return EnvAccess([*files, *([home] if home else [])], [home] if home else [])


def _visible(folder: Path) -> list[Path]:
    """Return the entries of a folder, except hidden files, links and telic's `runs`."""
    return sorted(
        each
        for each in folder.iterdir()
        if not each.name.startswith(".") and not each.is_symlink() and each.name != "runs"
    )


def _is_python(path: Path) -> bool:
    return path.suffix == ".py" or (path / "__init__.py").is_file()


def env_files(env: str, env_args: dict[str, Any]) -> list[Path]:
    """Return an environment's model file and the files it references."""
    model = env if env.endswith(MODEL_FILES) else env_args.get("xml_file")
    if isinstance(model, str) and os.path.isfile(Path(model).expanduser()):
        require_compilable(Path(model))
        return model_files(Path(model))
    return []


def located(env: str) -> str:
    """Return an environment's name with relative paths replaced by absolute paths."""
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
