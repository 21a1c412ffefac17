"""What numpy, math and Python's own functions and branches become on vectorised arrays."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import torch

from telic.core.tensors import cross
from telic.core.text import is_dict, is_row
from telic.rewards.vectorise import functions as on
from telic.rewards.vectorise.array import NotVectorisable, VectorArray, as_array, tensor_of, varies
from telic.rewards.vectorise.functions import choose, single, truths

Table = dict[str, on.Function]

BUILTINS: Table = {
    "float": on.as_float,
    "int": on.as_int,
    "bool": on.as_bool,
    "max": on.extreme_of(True, max),
    "min": on.extreme_of(False, min),
    "any": on.quantifier(any, torch.any),
    "all": on.quantifier(all, torch.all),
    "isinstance": on.is_instance,
}

_SAME_NAME = """
absolute square sqrt exp exp2 expm1 log log1p log2 log10 sin cos tan arcsin arccos arctan sinh
cosh tanh arcsinh arccosh arctanh sign floor ceil trunc deg2rad rad2deg negative reciprocal isnan
isfinite isinf arctan2 hypot fmod remainder add subtract multiply divide true_divide floor_divide
copysign heaviside logaddexp greater greater_equal less less_equal not_equal inner outer matmul
sinc nan_to_num diff trace abs atleast_1d
"""
_OTHER_NAME = {
    **{"copy": "clone", "degrees": "rad2deg", "dot": "matmul", "equal": "eq", "fabs": "abs"},
    **{"mod": "remainder", "power": "pow", "radians": "deg2rad", "ravel": "flatten"},
    "rint": "round",
}
_LOGIC = ("logical_and", "logical_or", "logical_not", "logical_xor")
_OF_ONE: dict[str, Callable[[Any], Any]] = {
    "flip": lambda x: x.flip(0),
    "median": on.median,
    "ptp": lambda x: x.amax() - x.amin(),
    "sort": lambda x: x.sort().values,
    "transpose": lambda x: VectorArray(x).T.tensor,
}
_OF_TWO: dict[str, Callable[[Any, Any], Any]] = {
    "cumsum": lambda x, axis=0: VectorArray(on.floats(x).cumsum(axis)),
    "expand_dims": lambda x, axis: VectorArray(tensor_of(x).unsqueeze(axis)),
    "maximum": lambda x, y: as_array(on.floats(on.extreme(True, x, y))),
    "minimum": lambda x, y: as_array(on.floats(on.extreme(False, x, y))),
    "roll": lambda x, shift: VectorArray(tensor_of(x).roll(shift)),
    "round": lambda x, decimals=0: VectorArray(torch.round(on.floats(x), decimals=decimals)),
    "tile": lambda x, times: VectorArray(tensor_of(x).tile(times)),
}
_PLAIN_NUMPY: Table = {
    **{name: on.elementwise(getattr(torch, name)) for name in _SAME_NAME.split()},
    **{name: on.elementwise(getattr(torch, theirs)) for name, theirs in _OTHER_NAME.items()},
    **{name: on.elementwise(getattr(torch, name), on.truths) for name in _LOGIC},
    **{name: on.elementwise(function) for name, function in _OF_ONE.items()},
    **_OF_TWO,
    "all": on.reduction(lambda x, dims, keep: x.all(dims, keepdim=keep), on.truths),
    "any": on.reduction(lambda x, dims, keep: x.any(dims, keepdim=keep), on.truths),
    "append": on.join_flat,
    "array": on.array,
    "asarray": on.same_array,
    "average": on.average,
    "clip": on.clip,
    "concatenate": on.join(torch.cat),
    "count_nonzero": on.reduction(lambda x, dims, keep: x.sum(dims, keepdim=keep), on.truths),
    "cross": on.elementwise(cross),
    "empty": on.filled(0.0),
    "full": on.full,
    "full_like": on.full_like,
    "isclose": on.is_close,
    "hstack": on.join_all_flat,
    "max": on.reduction(lambda x, dims, keep: x.amax(dims, keepdim=keep)),
    "mean": on.reduction(lambda x, dims, keep: x.mean(dims, keepdim=keep)),
    "min": on.reduction(lambda x, dims, keep: x.amin(dims, keepdim=keep)),
    "ones": on.filled(1.0),
    "ones_like": on.filled_like(1.0),
    "prod": on.reduction(on.product),
    "reshape": on.reshape,
    "shape": on.shape_of,
    "size": on.size_of,
    "squeeze": on.squeeze,
    "stack": on.join(torch.stack),
    "std": on.reduction(on.spread(torch.std)),
    "sum": on.reduction(lambda x, dims, keep: x.sum(dims, keepdim=keep)),
    "var": on.reduction(on.spread(torch.var)),
    "where": on.choose,
    "zeros": on.filled(0.0),
    "zeros_like": on.filled_like(0.0),
}
_ALIASES = {
    **{"acos": "arccos", "asin": "arcsin", "atan": "arctan", "atan2": "arctan2", "pow": "power"},
    **{"amax": "max", "amin": "min", "fmax": "maximum", "fmin": "minimum", "around": "round"},
    **{"concat": "concatenate", "vstack": "stack", "vdot": "dot", "float_power": "power"},
}
NUMPY: Table = {
    **_PLAIN_NUMPY,
    **{new: _PLAIN_NUMPY[old] for new, old in _ALIASES.items()},
}
LINALG: Table = {"norm": on.norm}

_MATH_NAMES = """
sqrt exp exp2 expm1 log log1p log2 log10 sin cos tan sinh cosh tanh acos asin atan atan2 fabs hypot
pow fmod floor ceil trunc copysign isnan isfinite isinf degrees radians
"""
MATH: Table = {
    **{name: NUMPY[name] for name in _MATH_NAMES.split()},
    "dist": on.distance,
}

_METHOD_NAMES = """
all any clip copy cumsum dot max mean min prod ravel reshape round squeeze std sum transpose var
"""
METHODS: Table = {
    **{name: NUMPY[name] for name in _METHOD_NAMES.split()},
    "astype": on.cast,
    "flatten": NUMPY["ravel"],
    "item": on.as_float,
    "tolist": list,
}

_MAKERS = frozenset(("zeros", "ones", "empty", "full", "zeros_like", "ones_like"))
"""makers of arrays that code goes on to write values into"""


class Shim:
    """Stands in for numpy or math: our functions for vectorised arrays, theirs for all else."""

    def __init__(self, real: Any, name: str, table: Table) -> None:
        self._real = real
        self._name = name
        self._table = table

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._real, name)
        if name in ("linalg", "random", "fft"):
            return Shim(real, f"{self._name}.{name}", LINALG if name == "linalg" else {})
        if not callable(real) or isinstance(real, type):
            return real
        return functools.partial(self._call, name, real)

    def _call(self, name: str, real: on.Function, /, *args: Any, **kwargs: Any) -> Any:
        if name in _MAKERS or varies(args) or varies(tuple(kwargs.values())):
            if name not in self._table:
                raise NotVectorisable(f"{self._name}.{name}")
            return self._table[name](*args, **kwargs)
        return real(*map(_plain, args), **{key: _plain(value) for key, value in kwargs.items()})


def _plain(value: Any) -> Any:
    return on.PLAIN.get(value, value) if callable(value) else value


# ---- branches
# What they become when both sides are computed: a choice per environment.


class _Missing:
    """A name that has no value yet."""


MISSING = _Missing()


Lazy = Callable[[], Any]


def truth(value: Any) -> Any:
    """Return a condition: a plain bool where it is the same for all, else an array of one."""
    if not varies(value):
        return bool(value)
    if value.size != 1:
        raise ValueError("The truth value of an array with more than one element is ambiguous")
    return VectorArray(truths(single(tensor_of(value))))


def either(condition: Any, then: Lazy, otherwise: Lazy) -> Any:
    """Evaluate `then() if condition else otherwise()`."""
    condition = truth(condition)
    if isinstance(condition, bool):
        return then() if condition else otherwise()
    return select(condition, then(), otherwise())


def both(*values: Lazy) -> Any:
    """Evaluate `a and b and …`."""
    result = values[0]()
    for value in values[1:]:
        result = either(result, value, functools.partial(_itself, result))
    return result


def any_of(*values: Lazy) -> Any:
    """Evaluate `a or b or …`."""
    result = values[0]()
    for value in values[1:]:
        result = either(result, functools.partial(_itself, result), value)
    return result


def _itself(value: Any) -> Any:
    return value


def negate(value: Any) -> Any:
    """Evaluate `not value`."""
    condition = truth(value)
    return not condition if isinstance(condition, bool) else ~condition


def runs(condition: Any, side: bool) -> bool:
    """Say whether a side of an `if` is executed: always, when environments differ."""
    return condition is side if isinstance(condition, bool) else True


def grab(condition: Any, *names: Lazy) -> list[Any]:
    """Return the values of some names, copied where both sides of an `if` would change them."""
    values = [_value(each) for each in names]
    return values if isinstance(condition, bool) else [_copied(each) for each in values]


def merge(condition: Any, then: list[Any], otherwise: list[Any]) -> list[Any]:
    """Return what the names of an `if` are after it."""
    if isinstance(condition, bool):
        return then if condition else otherwise
    return [select(condition, *pair) for pair in zip(then, otherwise, strict=True)]


def select(condition: Any, then: Any, otherwise: Any) -> Any:
    """Return a value that is `then` in some environments and `otherwise` in others."""
    if then is otherwise or otherwise is MISSING:
        return then
    if then is MISSING:
        return otherwise
    if is_dict(then) and is_dict(otherwise):
        # A term that only one side sets counts as 0 on the other.
        keys = dict.fromkeys((*then, *otherwise))
        return {k: select(condition, then.get(k, 0.0), otherwise.get(k, 0.0)) for k in keys}
    if is_row(then) and is_row(otherwise):
        if len(then) != len(otherwise):
            raise NotVectorisable(f"a choice between {len(then)} and {len(otherwise)} values")
        kind: Callable[..., Any] = type(then)
        return kind(select(condition, a, b) for a, b in zip(then, otherwise, strict=True))
    numeric = bool | int | float | np.ndarray | np.generic | VectorArray
    if isinstance(then, numeric) and isinstance(otherwise, numeric):
        return choose(condition, then, otherwise)
    if type(then) is type(otherwise) and then == otherwise:
        return then
    raise NotVectorisable(f"a choice between {_word(then)} and {_word(otherwise)}")


def _value(name: Lazy) -> Any:
    try:
        return name()
    except NameError:
        return MISSING


def _copied(value: Any) -> Any:
    if is_dict(value) or isinstance(value, list):
        return copy.copy(cast("Any", value))
    return VectorArray(value.tensor) if isinstance(value, VectorArray) else value


def _word(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
