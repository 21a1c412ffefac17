"""Benchmarks that measure the success rate of intents."""

from typing import TYPE_CHECKING

from telic import lazy_modules

if TYPE_CHECKING:
    from telic.bench import intents, results  # noqa: F401

__getattr__ = lazy_modules(__name__)
