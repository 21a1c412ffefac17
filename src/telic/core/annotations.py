"""Annotations as types, where the names in them are imported for type checkers only."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any, get_type_hints


@cache
def checked_names(module: str) -> dict[str, Any]:
    """Return what a module imports `if TYPE_CHECKING`, imported now."""
    found: dict[str, Any] = {}
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    for block in tree.body:
        is_checked = isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test)
        if not is_checked:
            continue
        for node in ast.walk(block):
            if isinstance(node, ast.ImportFrom) and node.module:
                home = import_module(node.module)
                found |= {each.asname or each.name: getattr(home, each.name) for each in node.names}
    return found


def names_of(module: str) -> dict[str, Any]:
    """Return every name that the annotations of a module may use."""
    return {**checked_names(module), **vars(sys.modules[module])}


def return_type(function: Callable[..., Any]) -> Any:
    """Return what a function says that it returns."""
    plain = inspect.unwrap(function)
    return get_type_hints(plain, names_of(plain.__module__))["return"]


def hints_of(kind: type[Any]) -> dict[str, Any]:
    """Return the annotations of a class, those of its bases included."""
    names: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        if base.__module__ in sys.modules and base.__module__.startswith("telic"):
            names |= names_of(base.__module__)
    return get_type_hints(kind, names, names)
