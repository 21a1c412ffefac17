"""Placeholders for visualization packages that mjlab imports, if they are not installed.

A Python with this folder in PYTHONPATH finds them after all installed packages.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import types
from typing import Any

ONLY_FOR_LOOKING = ("wandb", "viser", "mjviser", "mediapy", "torchrunx")


class StandIn(types.ModuleType):
    """Placeholder for a visualization package that is not installed."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        from unittest.mock import MagicMock

        return type(name, (), {}) if name[0].isupper() else MagicMock()


class StandIns(importlib.abc.Loader):
    """Find placeholders for visualization packages."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Return a placeholder, or None."""
        if name.split(".")[0] in ONLY_FOR_LOOKING:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: Any) -> Any:
        """Return the module."""
        return StandIn(spec.name)

    def exec_module(self, module: Any) -> None:
        """Do nothing, because the module is empty."""


sys.meta_path.append(StandIns())
