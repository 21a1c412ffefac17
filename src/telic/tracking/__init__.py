"""Motion tracking policies. Modules are imported lazily."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from telic.tracking import config as config
    from telic.tracking import deploy as deploy
    from telic.tracking import evaluate as evaluate
    from telic.tracking import reports as reports
    from telic.tracking import task as task
    from telic.tracking import tracker as tracker
    from telic.tracking import train as train


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(name)
    try:
        return import_module(f"{__name__}.{name}")
    except ModuleNotFoundError:
        raise AttributeError(name) from None
