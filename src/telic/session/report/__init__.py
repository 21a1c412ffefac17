"""Session report as a single HTML page and as Markdown."""

from typing import TYPE_CHECKING

from telic import lazy_modules

if TYPE_CHECKING:
    from telic.session.report import document  # noqa: F401

__getattr__ = lazy_modules(__name__)
