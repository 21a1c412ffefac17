"""The globals in which allowed foreign code runs: few builtins, and modules that cannot be changed.

Foreign code never holds a real module. It gets frozen stand-ins with exactly the names of
`allowed`, so a patch of torch or numpy has nothing to take hold of.
"""

from __future__ import annotations

import builtins
import functools
import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from telic.core.suggest import closest
from telic.sandbox import advice
from telic.sandbox.allowed import BUILTINS, MODULES, PREDEFINED, Provided, flatten

MODULE_NAME = "reward"
PRINT_CHARACTERS = 20_000

_FROM_ABOVE = ("telic", "telic.quantities")
_ONLY_TO_ASK = {("torch", "Tensor"), ("numpy", "ndarray")}


class FrozenModule:
    """A read-only stand-in for a module, with the listed members only."""

    def __init__(self, path: str, members: Mapping[str, Any]) -> None:
        self.__dict__.update(members)
        self.__dict__["__name__"] = path

    def __getattr__(self, name: str) -> NoReturn:
        near = closest(name, [each for each in vars(self) if not each.startswith("_")])
        hint = f" Closest: {', '.join(near)}." if near else ""
        raise AttributeError(f"{vars(self)['__name__']}.{name} is not offered to a reward.{hint}")

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{vars(self)['__name__']} cannot be changed.")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{vars(self)['__name__']} cannot be changed.")

    def __repr__(self) -> str:
        return f"<the part of {vars(self)['__name__']} that a reward may use>"


class _AskOnly(type):
    """Metaclass of stand-ins for a type: isinstance works, making or changing one does not."""

    _real: type

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls._real)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls._real)

    def __call__(cls, *_: object, **__: object) -> NoReturn:
        raise TypeError(f"{cls.__name__} only serves isinstance; use torch.tensor or np.array.")

    def __setattr__(cls, name: str, value: object) -> NoReturn:
        raise TypeError(f"{cls.__name__} cannot be changed.")


def namespace(provided: Provided | None = None) -> dict[str, Any]:
    """Return fresh globals for one piece of foreign code.

    Args:
        provided: what layers above hand in, by module: `{"telic": {"RewardFunction": ...,
            "quantities": {"speed": ...}}}`. A nested mapping is a submodule.
    """
    extra = flatten(provided or {})
    modules = _standard_modules() | _frozen({path: {} for path in _FROM_ABOVE} | extra)
    scope: dict[str, Any] = {name: modules[path] for name, path in PREDEFINED.items()}
    scope |= {path: module for path, module in modules.items() if path in extra and "." not in path}
    scope |= extra.get("telic", {})
    scope["__builtins__"] = _builtins(modules)
    scope["__name__"] = MODULE_NAME
    return scope


@functools.cache
def _standard_modules() -> dict[str, FrozenModule]:
    members: dict[str, dict[str, Any]] = {}
    for path, names in MODULES.items():
        if path in _FROM_ABOVE:
            continue
        module = importlib.import_module(path)
        # A name of another version of the package may be missing: then it is simply not there.
        members[path] = {
            name: _ask_only(name, getattr(module, name))
            if (path, name) in _ONLY_TO_ASK
            else getattr(module, name)
            for name in names
            if hasattr(module, name)
        }
    return _frozen(members)


def _frozen(members: Mapping[str, Mapping[str, Any]]) -> dict[str, FrozenModule]:
    """Build stand-ins, innermost first, so that each holds its submodules."""
    built: dict[str, FrozenModule] = {}
    for path in sorted(members, key=lambda each: -each.count(".")):
        inner = {
            child.rpartition(".")[2]: built[child]
            for child in members
            if child.rpartition(".")[0] == path
        }
        built[path] = FrozenModule(path, {**members[path], **inner})
    return built


def _ask_only(name: str, real: type) -> type:
    return _AskOnly(name, (), {"_real": real})


def _builtins(modules: Mapping[str, FrozenModule]) -> dict[str, Any]:
    offered = {name: getattr(builtins, name) for name in BUILTINS}
    return {
        **offered,
        "__build_class__": builtins.__build_class__,
        "__import__": _importer(modules),
        "getattr": _getattr,
        "hasattr": _hasattr,
        "print": _printer(),
    }


def _importer(modules: Mapping[str, FrozenModule]) -> Callable[..., FrozenModule]:
    def import_listed(
        name: str,
        globals: object = None,
        locals: object = None,
        fromlist: Sequence[str] | None = None,
        level: int = 0,
    ) -> FrozenModule:
        if isinstance(fromlist, list):
            return _import_for_compiled_code(name)
        if level or name not in modules:
            raise ImportError(f'"{name}" is not offered. {advice.OFFERED}')
        return modules[name if fromlist else name.partition(".")[0]]

    return import_listed


def _import_for_compiled_code(name: str) -> Any:
    """Import what torch's or numpy's own C code asks for on its first use.

    Such requests come through the caller's builtins too. They are told apart by their `fromlist`:
    C code passes a list, an import statement a tuple or None. The result goes back to the C code.
    """
    if name not in sys.modules and name.partition(".")[0] not in {"numpy", "torch"}:
        raise ImportError(f'"{name}" is not offered. {advice.OFFERED}')
    return importlib.import_module(name)


_NO_DEFAULT = object()
_ABSENT = object()


def _getattr(owner: object, name: str, default: object = _NO_DEFAULT) -> Any:
    """Read a public attribute; the name is judged again here, where it is known for certain."""
    refused = advice.for_attribute(name) if type(name) is str else "The name must be a text."
    if refused:
        raise AttributeError(refused)
    return getattr(owner, name) if default is _NO_DEFAULT else getattr(owner, name, default)


def _hasattr(owner: object, name: str) -> bool:
    return _getattr(owner, name, _ABSENT) is not _ABSENT


def _printer() -> Callable[..., None]:
    """Return a print whose whole output is bounded; it ends in the worker's log."""
    left = PRINT_CHARACTERS

    def print_some(*values: object, sep: str = " ", end: str = "\n", **_: object) -> None:
        nonlocal left
        if left <= 0:
            return
        text = sep.join(map(str, values)) + end
        sys.stdout.write(text[:left])
        left -= len(text)
        if left <= 0:
            sys.stdout.write("\n(further output of the reward is dropped)\n")

    return print_some
