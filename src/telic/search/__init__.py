"""Policy search: optimize a small number of policy parameters with a model or an optimizer."""

from typing import TYPE_CHECKING

from telic import is_also_a_verb, lazy_modules

if TYPE_CHECKING:
    from telic.search import found, plan, report, runner, worlds  # noqa: F401

is_also_a_verb(__name__)
__getattr__ = lazy_modules(__name__)
