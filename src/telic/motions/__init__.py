"""Reference motions, in modules that are imported when needed because they require torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from telic import lazy_modules

if TYPE_CHECKING:
    from telic.motions import checks, clip, generate, intake, library, robot  # noqa: F401

__getattr__ = lazy_modules(__name__)
