"""Reference motions. Modules are imported lazily, so that CLI help does not import torch."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from telic.motions import checks as checks
    from telic.motions import clip as clip
    from telic.motions import generate as generate
    from telic.motions import intake as intake
    from telic.motions import library as library
    from telic.motions import mirror as mirror
    from telic.motions import robot as robot


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(name)
    try:
        return import_module(f"{__name__}.{name}")
    except ModuleNotFoundError:
        raise AttributeError(name) from None
