"""Say what kind of container a value is, so that the type checker knows it too.

After `isinstance(value, dict)` the keys and values of something unknown stay unknown to it, and
every use is an error; after `is_dict(value)` they may be anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeGuard


def is_dict(value: object) -> TypeGuard[dict[Any, Any]]:
    """Say whether a value is a dictionary."""
    return isinstance(value, dict)


def is_mapping(value: object) -> TypeGuard[Mapping[Any, Any]]:
    """Say whether a value maps keys to values."""
    return isinstance(value, Mapping)


def is_row(value: object) -> TypeGuard[list[Any] | tuple[Any, ...]]:
    """Say whether a value is a list or a tuple."""
    return isinstance(value, list | tuple)
