"""Notice when foreign code has replaced functions or settings that results depend on.

Take a seal after everything is imported and before foreign code runs; check it at each checkpoint.
It remembers which object stands at each place (in modules and their classes) and, for Python
functions, which code they hold. Changes made and undone between two checks are not seen.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterable, Iterator
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

from telic.errors import Refused

WATCHED = ("json", "math", "numpy", "numpy.linalg", "os", "torch", "torch.nn.functional")
"""Modules whose functions and classes are sealed, besides the builtins and all of telic."""

SETTINGS = (
    "get_default_dtype",
    "get_num_threads",
    "get_float32_matmul_precision",
    "are_deterministic_algorithms_enabled",
)
"""Functions of torch that tell what arithmetic depends on."""

_REPLACED_BY_TORCH = frozenset({"manual_seed"})
"""Functions that torch itself exchanges the first time it needs its compiler."""

_HEAP_TYPE = 1 << 9  # a class made by a class statement: its members can be replaced


_WRAPPERS: Any = (staticmethod, classmethod)  # Any: what they wrap has no type here


class _Print(NamedTuple):
    """The identity of a function, class or descriptor, and of the code within."""

    thing: object
    code: object = None
    defaults: object = None

    def is_same(self, other: _Print) -> bool:
        return all(mine is its for mine, its in zip(self, other, strict=True))


class _Owner(NamedTuple):
    """A module or class with what stood in it."""

    owner: object
    label: str
    members: dict[str, _Print]
    inherited: frozenset[str]


class CodeSeal:
    """A memory of what stood where."""

    def __init__(self, extra: Iterable[object] = ()) -> None:
        """Seal the builtins, the watched modules, all of telic that is loaded, and `extra`.

        Args:
            extra: further modules or classes, such as the optimiser's class once one was made.
        """
        ours = [each for name, each in sys.modules.items() if name.partition(".")[0] == "telic"]
        watched = [sys.modules[name] for name in WATCHED if name in sys.modules]
        owners = {id(each): each for each in _with_classes([builtins, *watched, *ours, *extra])}
        self._owners = [_remember(owner) for owner in owners.values()]
        self._settings = _settings()

    def __len__(self) -> int:
        return sum(len(owner.members) for owner in self._owners)

    def check(self) -> None:
        """Compare with now.

        Raises:
            Refused: names the first places that were changed.
        """
        changed = [place for owner in self._owners for place in _changes(owner)]
        now = _settings()
        changed += [f"torch.{name}()" for name, old in self._settings.items() if now[name] != old]
        if changed:
            more = f" and {len(changed) - 5} more" if len(changed) > 5 else ""
            raise Refused(
                f"Something that results depend on was replaced while foreign code ran: "
                f"{', '.join(changed[:5])}{more}. What was measured since then cannot be trusted.",
                hint="Read the reward: it must compute from its inputs and change nothing else.",
            )


def _with_classes(owners: Iterable[object]) -> Iterator[object]:
    """Yield modules and classes, and the classes within the modules."""
    for owner in owners:
        yield owner
        if isinstance(owner, ModuleType):
            inside = list(vars(owner).values())
            yield from (each for each in inside if isinstance(each, type) and _is_open(each))


def _is_open(cls: type) -> bool:
    return bool(cls.__flags__ & _HEAP_TYPE)


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
    """Yield the places of one module or class where something else stands now."""
    now = vars(sealed.owner)
    for name, before in sealed.members.items():
        if name not in now or not before.is_same(_print(now[name])):
            yield f"{sealed.label}.{name}"
    # A new member hides an inherited one: torch.Tensor.sum lives in a base class.
    yield from (f"{sealed.label}.{name}" for name in sealed.inherited.intersection(now))


def _is_code(thing: object) -> bool:
    return not isinstance(thing, ModuleType) and (
        callable(thing) or isinstance(thing, property | staticmethod | classmethod)
    )


def _print(thing: Any) -> _Print:
    function: object = thing
    if isinstance(thing, property):
        function = thing.fget
    elif isinstance(thing, _WRAPPERS):
        function = thing.__func__
    if isinstance(function, FunctionType):
        return _Print(thing, function.__code__, function.__defaults__)
    return _Print(thing)


def _settings() -> dict[str, object]:
    torch = sys.modules.get("torch")
    return {} if torch is None else {name: getattr(torch, name)() for name in SETTINGS}
