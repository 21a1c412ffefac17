"""Motion tracking policies, in modules that are imported when needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from telic import lazy_modules

if TYPE_CHECKING:
    from telic.tracking import (  # noqa: F401
        config,
        deploy,
        evaluate,
        own_terms,
        reports,
        task,
        tracker,
        train,
    )

__getattr__ = lazy_modules(__name__)
