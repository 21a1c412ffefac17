"""Export policies to ONNX and NumPy files and to bundles with a model card."""

from typing import TYPE_CHECKING

from telic import lazy_modules

if TYPE_CHECKING:
    from telic.training.export import bundle  # noqa: F401

__getattr__ = lazy_modules(__name__)
