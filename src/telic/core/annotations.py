"""Resolve annotations whose names are imported for type checkers only."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any, get_type_hints


@cache
def _checked_imports(module: str) -> dict[str, tuple[str, str]]:
    """Return what a module imports `if TYPE_CHECKING`: by name, the module and the name there."""
    found: dict[str, tuple[str, str]] = {}
    for block in ast.parse(inspect.getsource(sys.modules[module])).body:
        if not isinstance(block, ast.If) or "TYPE_CHECKING" not in ast.unparse(block.test):
            continue
        for node in ast.walk(block):
            if isinstance(node, ast.ImportFrom) and node.module:
                found |= {each.asname or each.name: (node.module, each.name) for each in node.names}
    return found


def names_in(module: str, *annotations: Any) -> dict[str, Any]:
    """Return the names that annotations of a module use, imported now where need be."""
    words = {word for each in annotations for word in re.findall(r"\w+", str(each))}
    checked = _checked_imports(module)
    imported = {
        name: getattr(import_module(checked[name][0]), checked[name][1])
        for name in words & checked.keys()
    }
    return {**vars(sys.modules[module]), **imported}


def return_type(function: Callable[..., Any]) -> Any:
    """Return the annotated return type of a function."""
    plain = inspect.unwrap(function)
    names = names_in(plain.__module__, *plain.__annotations__.values())
    return get_type_hints(plain, names)["return"]


def hints_of(kind: type[Any]) -> dict[str, Any]:
    """Return the annotations of a class, including those of its bases."""
    names = class_names(kind)
    return get_type_hints(kind, names, names)


def class_names(kind: type[Any]) -> dict[str, Any]:
    """Return the names that the annotations of a class and of its bases use."""
    names: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        if base.__module__.startswith("telic"):
            names |= names_in(base.__module__, *vars(base).get("__annotations__", {}).values())
    return names
