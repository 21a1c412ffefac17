"""Train populations of policies, with evaluation, checkpoints and export."""

from typing import TYPE_CHECKING

from telic import lazy_modules

if TYPE_CHECKING:
    from telic.training import export, folder, fused, plan, policy, run, sweep, videos  # noqa: F401

__getattr__ = lazy_modules(__name__)
