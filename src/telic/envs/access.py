"""Files and folders that a confined process must be able to read to make an environment."""

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
    """Files and folders of an environment outside the installed packages."""

    readable: list[Path]
    """its model, everything that the model is made of, and its code"""
    python_path: list[Path]
    """to import it from; not readable as a whole, for keys and notes lie there, too"""


def env_access(env: str, env_args: dict[str, Any]) -> EnvAccess:
    """Return what a confined process needs besides its own packages.

    Every worker that makes an environment asks here: raises Refused for code that only a folder
    names, and not this user.
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
    """Return what lies in a folder, without hidden files, links, and the work of telic."""
    return sorted(
        each
        for each in folder.iterdir()
        if not each.name.startswith(".") and not each.is_symlink() and each.name != "runs"
    )


def _is_python(path: Path) -> bool:
    return path.suffix == ".py" or (path / "__init__.py").is_file()


def env_files(env: str, env_args: dict[str, Any]) -> list[Path]:
    """Return the model of an environment, and everything that the model is made of."""
    model = env if env.endswith(MODEL_FILES) else env_args.get("xml_file")
    if isinstance(model, str) and os.path.isfile(Path(model).expanduser()):
        require_compilable(Path(model))
        return model_files(Path(model))
    return []


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
