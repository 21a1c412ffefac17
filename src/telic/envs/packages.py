"""Packages whose environments Gymnasium knows only after they were imported.

`telic run "reach the goal" --env FetchReach-v4` works as soon as Gymnasium-Robotics is installed.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import re
import warnings
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import gymnasium
import mujoco

from telic.errors import BadEnvironment


class EnvironmentPackage(NamedTuple):
    """A package, and what the ids of its environments begin with."""

    module: str
    install: str
    ids: str


PACKAGES = (
    EnvironmentPackage(
        "gymnasium_robotics",
        "telic[robotics]",
        r"Fetch|Hand|AdroitHand|FrankaKitchen|PointMaze|AntMaze|MaMuJoCo",
    ),
)


def register_package(env_id: str) -> None:
    """Import the package that an id belongs to, so that Gymnasium knows the id.

    Raises:
        BadEnvironment: it belongs to a package that is not installed.
    """
    name = env_id.rpartition(":")[2]
    for package in PACKAGES:
        if not re.match(package.ids, name):
            continue
        if importlib.util.find_spec(package.module) is None:
            raise BadEnvironment(
                f"{name} belongs to the package {package.module}, which is not installed.",
                hint=f"Install it with: pip install '{package.install}'",
            )
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")  # remarks on versions that nobody asked for
            module = importlib.import_module(package.module)
        gymnasium.register_envs(module)
        _compare_numbers(f"{package.module}.utils.mujoco_utils")


def _compare_numbers(name: str) -> None:
    """Let a module compare a model's numbers with MuJoCo's names for them.

    Gymnasium-Robotics 1.4.2 writes `model.jnt_type[i] == mjtJoint.mjJNT_FREE`, which has never been
    true since MuJoCo 4.0.
    """
    module: Any = importlib.import_module(name)
    if isinstance(getattr(module, "mujoco", None), ModuleType):
        module.mujoco = _PlainNumbers()


class _PlainNumbers:
    """MuJoCo, with plain numbers for its enumerations."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(mujoco, name)
        if not name.startswith("mjt"):
            return found
        members = {key: int(getattr(found, key)) for key in dir(found) if key.startswith("mj")}
        numbers = SimpleNamespace(**members)
        setattr(self, name, numbers)
        return numbers
