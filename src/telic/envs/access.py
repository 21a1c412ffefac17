"""What the name of an environment stands for: code that needs permission, files to read, a place.

Light: commands that make no environment ask these, too.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from telic.core.plugins import plugin_home
from telic.errors import Refused
from telic.robots import robot_path
from telic.sim.files import MODEL_FILES, model_files, require_compilable
from telic.storage.keys import permit, require_permitted


def named_code(env: str) -> tuple[str, ...]:
    """Return the code that an environment's name stands for; empty for data and ids.

    A class is named by the file that would be imported, so that another file of its name is other
    code.
    """
    place, colon, name = env.rpartition(":")
    # As `factory.make` tells data from code: a file that is called "evil.py:Env" must not matter.
    if not colon or env.endswith(MODEL_FILES):
        return ()
    if place.endswith(".py"):
        return (f"the class {Path(place).expanduser().absolute()}:{name}",)
    found = PathFinder.find_spec(place.partition(".")[0], [str(Path.cwd()), *sys.path])
    where = None if found is None else found.origin or list(found.submodule_search_locations or ())
    return (f"the class {env} from {where}",)


def permit_env(env: str | Path) -> None:
    """Permit the code that the user names as an environment."""
    permit(*named_code(str(env)))


def require_permitted_request(values: Mapping[str, Any]) -> None:
    """Raise Refused for code that an agent names in a request: an agent is not the user."""
    require_permitted(*named_code(str(values.get("env") or "")))
    if values.get("trust"):
        raise Refused(
            "An agent cannot have code run without confinement.",
            hint="Run it in a terminal: telic train --trust",
        )


def readable_files(env: str, env_args: Mapping[str, Any]) -> list[Path]:
    """Return the files that a confined process reads to make an environment: those of its model."""
    model = env if env.endswith(MODEL_FILES) else env_args.get("xml_file")
    if not isinstance(model, str) or not os.path.isfile(Path(model).expanduser()):
        return []
    require_compilable(Path(model))
    return model_files(Path(model))


def located(env: str) -> str:
    """Return an environment's name that means the same in every folder, as workers need it."""
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
    if ":" in env and not os.path.exists(env):  # module:Class
        file = Path(env.rpartition(":")[0]).expanduser()
        is_file = file.suffix == ".py" and os.path.isfile(file)
        return [file.resolve().parent if is_file else Path.cwd()]
    home = plugin_home("environments", env)
    return [] if home is None else [home]
