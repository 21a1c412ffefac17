"""Sessions that turn a prompt into a trained policy with verified evidence."""

from typing import TYPE_CHECKING

from telic import lazy_modules

if TYPE_CHECKING:
    from telic.session import branch, hub, labels, loop, motion, report, robustness, sim_to_sim  # noqa: F401

WORKERS = ("telic.training._worker", "telic.judges.recorder", "telic.judges.validation")
"""modules that sandboxed processes of a session import (see `telic.sandbox.fork_server`)"""
__getattr__ = lazy_modules(__name__)
