"""Stand-ins for packages that mjlab imports only to show things, where they are not installed.

A Python that has this folder in PYTHONPATH finds them after everything that is installed.
"""

from __future__ import annotations

import importlib.machinery
import sys
import types
from typing import Any, ClassVar

ONLY_FOR_LOOKING = ("wandb", "viser", "mjviser", "mediapy", "torchrunx")


class StandIn(types.ModuleType):
    """A package that is only for looking, and is not there."""

    __path__: ClassVar[list[str]] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        from unittest.mock import MagicMock

        return type(name, (), {}) if name[0].isupper() else MagicMock()


class StandIns:
    """Finds stand-ins for packages that only show things."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Return a stand-in, or None."""
        if name.split(".")[0] in ONLY_FOR_LOOKING:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: Any) -> Any:
        """Return the module."""
        return StandIn(spec.name)

    def exec_module(self, module: Any) -> None:
        """Nothing is in it."""


sys.meta_path.append(StandIns())
