"""Detect whether functions or settings that affect results were replaced.

A snapshot is taken after all imports, before untrusted code runs, and compared at each checkpoint.
It contains the object bound to each name in modules and classes and, for Python functions, the
code. Changes that are reverted between two checks are not detected.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterable, Iterator
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

from telic.errors import Refused

WATCHED = ("json", "math", "numpy", "numpy.linalg", "os", "torch", "torch.nn.functional")
"""Modules whose functions and classes are recorded, in addition to builtins and all of telic."""

SETTINGS = (
    "get_default_dtype",
    "get_num_threads",
    "get_float32_matmul_precision",
    "are_deterministic_algorithms_enabled",
)
"""Functions of torch that return settings of its arithmetic."""

_REPLACED_BY_TORCH = frozenset({"manual_seed"})
"""Functions that torch replaces when its compiler is first used."""

_HEAP_TYPE = 1 << 9  # a class made by a class statement: its members can be replaced


class _Owner(NamedTuple):
    """A module or class with its recorded members."""

    owner: object
    label: str
    members: dict[str, tuple[object, ...]]
    """function, class or descriptor, and its code, by name"""
    inherited: frozenset[str]


class FunctionSnapshot:
    """Recorded state of functions and settings, in which changes are detected."""

    def __init__(self) -> None:
        """Record the builtins, the watched modules, and all loaded modules of telic."""
        ours = [each for name, each in sys.modules.items() if name.partition(".")[0] == "telic"]
        watched = [sys.modules[name] for name in WATCHED if name in sys.modules]
        owners = {id(each): each for each in _with_classes([builtins, *watched, *ours])}
        self._owners = [_remember(owner) for owner in owners.values()]
        self._settings = _settings()

    def check(self) -> None:
        """Compare the snapshot with the current state. Raises Refused with the first changes."""
        changed = [place for owner in self._owners for place in _changes(owner)]
        now = _settings()
        changed += [f"torch.{name}()" for name, old in self._settings.items() if now[name] != old]
        if changed:
            more = f" and {len(changed) - 5} more" if len(changed) > 5 else ""
            raise Refused(
                "Functions or settings that affect results were replaced while untrusted code was "
                f"running: {', '.join(changed[:5])}{more}. Later measurements are not reliable.",
                hint="Check the reward. It must compute from its inputs and modify nothing else.",
            )


def _with_classes(owners: Iterable[object]) -> Iterator[object]:
    """Yield modules and classes, and the classes within the modules."""
    for owner in owners:
        yield owner
        if isinstance(owner, ModuleType):
            inside = [each for each in vars(owner).values() if isinstance(each, type)]
            yield from (each for each in inside if each.__flags__ & _HEAP_TYPE)


def _remember(owner: object) -> _Owner:
    members = {
        name: _print(thing)
        for name, thing in list(vars(owner).items())
        if _is_code(thing) and name not in _REPLACED_BY_TORCH
    }
    inherited: frozenset[str] = frozenset()
    if isinstance(owner, type):
        inherited = frozenset(dir(owner)) - set(vars(owner))
    return _Owner(owner, getattr(owner, "__name__", repr(owner)), members, inherited)


def _changes(sealed: _Owner) -> Iterator[str]:
    """Yield the names in a module or class that have changed."""
    now = vars(sealed.owner)
    for name, before in sealed.members.items():
        after = _print(now[name]) if name in now else ()
        if len(after) != len(before) or any(x is not y for x, y in zip(before, after, strict=True)):
            yield f"{sealed.label}.{name}"
    # A new member may shadow an inherited one: torch.Tensor.sum is defined in a base class.
    yield from (f"{sealed.label}.{name}" for name in sealed.inherited.intersection(now))


def _is_code(thing: object) -> bool:
    return not isinstance(thing, ModuleType) and (
        callable(thing) or isinstance(thing, property | staticmethod | classmethod)
    )


def _print(thing: Any) -> tuple[object, ...]:
    function = thing.fget if isinstance(thing, property) else getattr(thing, "__func__", thing)
    is_python = isinstance(function, FunctionType)
    return (thing, function.__code__, function.__defaults__) if is_python else (thing,)


def _settings() -> dict[str, object]:
    torch = sys.modules.get("torch")
    return {} if torch is None else {name: getattr(torch, name)() for name in SETTINGS}
