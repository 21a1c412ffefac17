"""Names of environments in external simulators ("mjlab:TASK"), and the simulator registry.

This module is lightweight, because checking a name must not import a simulator.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, NamedTuple

from telic.errors import Refused, UsageError
from telic.sim.files import MODEL_FILES
from telic.storage.keys import permit, require_permitted

_HERE = Path(__file__).parent


class SimulatorAdapter(NamedTuple):
    """Adapter for an external simulator."""

    file: Path
    """Adapter file that the simulator's Python runs."""
    meaning: str
    tasks: tuple[str, ...]
    """Example tasks."""


ADAPTERS = {
    "mjlab": SimulatorAdapter(
        _HERE / "lab_adapter.py",
        "a task of mjlab",
        ("Mjlab-Cartpole-Balance", "Mjlab-Velocity-Flat-Unitree-Go1", "Mjlab-Lift-Cube-Yam"),
    ),
    "isaaclab": SimulatorAdapter(
        _HERE / "lab_adapter.py",
        "a task of Isaac Lab",
        ("Isaac-Cartpole-v0", "Isaac-Ant-v0", "Isaac-Velocity-Flat-Anymal-C-v0"),
    ),
}
"""Supported simulators by prefix."""


class SimulatedTask(NamedTuple):
    """Task in a simulator that runs in a separate process."""

    simulator: str
    task: str


def simulated(env: str) -> SimulatedTask | None:
    """Parse a name like "mjlab:TASK", or return None for other environments."""
    simulator, colon, task = env.partition(":")
    return SimulatedTask(simulator, task) if colon and simulator in ADAPTERS else None


def refuse_simulated(
    env: str, caller: str, why: str = "it cannot be sandboxed, and its robot cannot be measured"
) -> None:
    """Raise UsageError if `env` runs in an external simulator."""
    if simulated(env):
        raise UsageError(
            f"{caller} cannot use {env}: {why}.",
            hint=f"Train it with its built-in reward: telic train {env}",
        )


def absolute_python(python: str) -> str:
    """Return the absolute path of a Python interpreter."""
    if os.sep not in python:
        return shutil.which(python) or python
    # Keep symbolic links: Python finds its virtual environment by the link's location.
    return os.path.abspath(os.path.expanduser(python))


def named_code(env: str, env_args: Mapping[str, Any] | None = None) -> tuple[str, ...]:
    """Return the code that an environment would run. The code of data files and ids is empty.

    A class is identified by the file that would be imported, so a different file of the same name
    is different code. A simulator is identified by the task and the interpreter.
    """
    if simulated(env):
        python = str((env_args or {}).get("python") or sys.executable)
        return (f"{env} run by {absolute_python(python)}",)
    place, colon, name = env.rpartition(":")
    # Distinguish data from code as `factory.make` does, even for a file named "evil.py:Env".
    if not colon or env.endswith(MODEL_FILES):
        return ()
    if place.endswith(".py"):
        return (f"the class {Path(place).expanduser().absolute()}:{name}",)
    found = PathFinder.find_spec(place.partition(".")[0], [str(Path.cwd()), *sys.path])
    where = None if found is None else found.origin or list(found.submodule_search_locations or ())
    return (f"the class {env} from {where}",)


def permit_env(env: str | Path, env_args: Mapping[str, Any] | None = None) -> None:
    """Permit the code of an environment named by the user."""
    permit(*named_code(str(env), env_args))


def require_permitted_request(values: Mapping[str, Any]) -> None:
    """Raise Refused for code in an agent's request that the user has not permitted."""
    arguments = {**(values.get("env_args") or {}), "python": values.get("python")}
    require_permitted(*named_code(str(values.get("env") or ""), arguments))
    if values.get("trust"):
        raise Refused(
            "Agents must not run code without a sandbox.",
            hint="Run it in a terminal: telic train --trust",
        )
