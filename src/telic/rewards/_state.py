"""Take the state out of a stateful reward as plain data, and put it back."""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import torch

from telic.core.tensors import from_numpy
from telic.core.text import is_dict, is_row
from telic.rewards._source import Instance
from telic.rewards.composed import Phase
from telic.rewards.node import Expression, Program

Data = dict[str, Any]
"""nested dicts and lists of plain values and tensors: loading it runs no code"""

_PLAIN = (type(None), bool, int, float, str)
_SEQUENCES: dict[str, Any] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}


class CannotCapture(Exception):
    """A reward keeps something that is not data, such as a generator."""


def capture(instance: Instance) -> Data:
    """Return all values an instance keeps between calls; raises CannotCapture."""
    numbers: dict[int, int] = {}
    return {
        path: {name: _encode(value, f"{path}.{name}", numbers) for name, value in values.items()}
        for path, _, values in list(_places(instance))
    }


def restore(instance: Instance, data: Data) -> None:
    """Put captured values back into a fresh instance of the same reward."""
    objects: dict[int, Any] = {}
    decoded = {
        path: {name: _decode(each, objects) for name, each in values.items()}
        for path, values in data.items()
    }
    for path, holder, _ in list(_places(instance)):
        for name, value in decoded.get(path, {}).items():
            _write(holder, name, value)


def changed_names(before: Data, after: Data) -> list[str]:
    """Return the names of captured values that differ, e.g. reward.last."""
    return [
        f"{path}.{name}"
        for path, values in after.items()
        for name, value in values.items()
        if path not in before or name not in before[path] or not _same(before[path][name], value)
    ]


def _same(first: Any, second: Any) -> bool:
    """Return whether two captured values are equal, NaN equal to itself."""
    if isinstance(first, torch.Tensor) and isinstance(second, torch.Tensor):
        return first.shape == second.shape and bool(
            ((first == second) | ((first != first) & (second != second))).all()
        )
    if is_dict(first) and is_dict(second):
        keys = first.keys() - {"number"}  # it counts objects, and others may have come before
        return first.keys() == second.keys() and all(_same(first[k], second[k]) for k in keys)
    if is_row(first) and is_row(second):
        return len(first) == len(second) and all(map(_same, first, second))
    if type(first) is not type(second):
        return False
    return bool(first == second) or bool(first != first and second != second)


def _places(instance: Instance) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """Yield (path, holder, its data by name) for all that can keep a value, in a fixed order."""
    home = _home(instance)
    seen: set[int] = set()
    waiting: list[tuple[str, Any]] = [("globals", instance.scope), ("reward", instance.owner)]
    while waiting:
        path, holder = waiting.pop(0)
        if id(holder) in seen:
            continue
        seen.add(id(holder))
        data: dict[str, Any] = {}
        for name, value in _values(holder):
            if holder is instance.scope and instance.given.get(name) is value:
                continue
            if _is_own(value, home):
                waiting.append((f"{path}.{name}", value))
            elif not _is_code(value):
                data[name] = value
        yield path, holder, data


def _home(instance: Instance) -> dict[str, Any]:
    """Return the global names that the reward's own functions see."""
    function = getattr(instance.owner, "compute", instance.owner)
    return instance.scope or getattr(getattr(function, "__func__", function), "__globals__", {})


def _is_own(value: Any, home: dict[str, Any]) -> bool:
    """Return whether a value is a function, class or object of the reward's own making."""
    if isinstance(value, types.FunctionType):
        return value.__globals__ is home
    kind = value if isinstance(value, type) else type(value)
    made_here = kind.__module__ == home.get("__name__", "") and hasattr(value, "__dict__")
    return made_here or isinstance(value, types.SimpleNamespace)


def _is_code(value: Any) -> bool:
    """Return whether a value is a part of the program rather than of its state."""
    parts: Any = value.values() if is_dict(value) else value if is_row(value) else ()
    return (
        callable(value)
        or isinstance(value, types.ModuleType | property | staticmethod | classmethod)
        or any(isinstance(part, Expression | Phase | Program) for part in parts)  # frozen
    )


def _values(holder: Any) -> list[tuple[str, Any]]:
    if isinstance(holder, types.FunctionType):
        cells = zip(holder.__code__.co_freevars, holder.__closure__ or (), strict=True)
        values = [(name, cell.cell_contents) for name, cell in cells if not _is_empty(cell)]
        values += [(f"default {i}", each) for i, each in enumerate(holder.__defaults__ or ())]
        return values + list(holder.__dict__.items())
    names: dict[str, Any] = holder if is_dict(holder) else vars(cast("object", holder))
    return [
        (name, value)
        for name, value in names.items()
        if not name.startswith(("__", "_abc_")) and name != "_initial_memory"
    ]


def _is_empty(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is cell
    except ValueError:
        return True


def _write(holder: Any, name: str, value: Any) -> None:
    if isinstance(holder, dict):
        holder[name] = value
    elif isinstance(holder, types.FunctionType) and name in holder.__code__.co_freevars:
        assert holder.__closure__ is not None
        holder.__closure__[holder.__code__.co_freevars.index(name)].cell_contents = value
    elif isinstance(holder, types.FunctionType) and name.startswith("default "):
        defaults = list(holder.__defaults__ or ())
        defaults[int(name.split()[1])] = value
        holder.__defaults__ = tuple(defaults)
    else:
        setattr(holder, name, value)


def _encode(value: Any, where: str, numbers: dict[int, int]) -> Any:
    """Return a value as data; one object in two places stays one object, by its number."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, np.generic):
        scalar = cast("Any", value)
        return {"kind": "scalar", "dtype": str(scalar.dtype), "value": scalar.item()}
    if id(value) in numbers:
        return {"kind": "same", "number": numbers[id(value)]}
    number = numbers[id(value)] = len(numbers)
    coded: Data = {"kind": type(value).__name__, "number": number}
    if isinstance(value, torch.Tensor):
        return {**coded, "kind": "tensor", "value": value.detach().clone()}
    if type(value) is np.ndarray and value.dtype.kind in "biuf":
        return {**coded, "kind": "array", "value": from_numpy(value.copy())}
    if is_dict(value) and type(value) is dict:
        items = [[_encode(x, where, numbers) for x in pair] for pair in value.items()]
        return {**coded, "items": items}
    if type(value) is deque:
        coded["maxlen"] = value.maxlen
    elif type(value).__name__ not in _SEQUENCES:
        raise CannotCapture(f"{where} is a {type(value).__name__}")
    return {**coded, "items": [_encode(x, where, numbers) for x in cast("Any", value)]}


def _decode(coded: Any, objects: dict[int, Any]) -> Any:
    if not is_dict(coded):
        return coded
    kind: str = coded["kind"]
    if kind == "scalar":
        return np.dtype(coded["dtype"]).type(coded["value"])
    if kind == "same":
        return objects[coded["number"]]
    number: int = coded["number"]
    value: Any
    if kind in ("tensor", "array"):
        tensor = coded["value"].clone()
        value = objects[number] = tensor if kind == "tensor" else tensor.numpy()
    elif kind == "dict":
        value = objects[number] = {}
        for key, item in coded["items"]:
            value[_decode(key, objects)] = _decode(item, objects)
    elif kind == "deque":
        value = objects[number] = cast("Any", deque(maxlen=coded["maxlen"]))
        value.extend(_decode(each, objects) for each in coded["items"])
    elif kind == "list":
        value = objects[number] = []
        value.extend(_decode(each, objects) for each in coded["items"])
    else:
        value = objects[number] = _SEQUENCES[kind](_decode(x, objects) for x in coded["items"])
    return value
