"""Which function of numpy, math and Python becomes which function on vectorised arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from telic.core.tensors import cross
from telic.rewards.vectorise import functions as on
from telic.rewards.vectorise.array import (
    NotVectorisable,
    VectorArray,
    as_array,
    tensor_of,
    varies,
)

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
