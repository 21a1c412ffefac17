"""Which function of numpy, math and Python becomes which function on vectorised arrays."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import torch

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
sinc
"""
_OTHER_NAME = {
    "abs": torch.abs,
    "atleast_1d": torch.atleast_1d,
    "copy": torch.clone,
    "cross": torch.linalg.cross,
    "degrees": torch.rad2deg,
    "diff": torch.diff,
    "dot": torch.matmul,
    "equal": torch.eq,
    "fabs": torch.abs,
    "flip": lambda x: x.flip(0),
    "median": on.median,
    "mod": torch.remainder,
    "nan_to_num": torch.nan_to_num,
    "power": torch.pow,
    "ptp": lambda x: x.amax() - x.amin(),
    "radians": torch.deg2rad,
    "ravel": torch.flatten,
    "rint": torch.round,
    "sort": lambda x: x.sort().values,
    "trace": torch.trace,
    "transpose": lambda x: VectorArray(x).T.tensor,
}
_LOGIC = ("logical_and", "logical_or", "logical_not", "logical_xor")


def _shape(value: Any) -> tuple[int, ...]:
    return value.shape if isinstance(value, VectorArray) else np.shape(value)


NUMPY: Table = {
    **{name: on.elementwise(getattr(torch, name)) for name in _SAME_NAME.split()},
    **{name: on.elementwise(function) for name, function in _OTHER_NAME.items()},
    **{name: on.elementwise(getattr(torch, name), on.truths) for name in _LOGIC},
    "all": on.reduction(lambda x, dims, keep: x.all(dims, keepdim=keep), on.truths),
    "any": on.reduction(lambda x, dims, keep: x.any(dims, keepdim=keep), on.truths),
    "append": on.join_flat,
    "array": lambda x, *_, **__: VectorArray(tensor_of(x).clone()),
    "asarray": lambda x, *_, **__: VectorArray(tensor_of(x)),
    "average": on.average,
    "clip": on.clip,
    "concatenate": on.join(torch.cat),
    "count_nonzero": on.reduction(lambda x, dims, keep: x.sum(dims, keepdim=keep), on.truths),
    "cumsum": lambda x, axis=0: VectorArray(on.floats(x).cumsum(axis)),
    "empty": lambda shape, *_, **__: on.full(shape, 0.0),
    "expand_dims": lambda x, axis: VectorArray(tensor_of(x).unsqueeze(axis)),
    "full": lambda shape, value, *_, **__: on.full(shape, value),
    "full_like": lambda x, value, **_: on.full(_shape(x), value),
    "isclose": on.is_close,
    "hstack": lambda values: on.join_flat(*values),
    "max": on.reduction(lambda x, dims, keep: x.amax(dims, keepdim=keep)),
    "maximum": lambda x, y: as_array(on.floats(on.extreme(True, x, y))),
    "mean": on.reduction(lambda x, dims, keep: x.mean(dims, keepdim=keep)),
    "min": on.reduction(lambda x, dims, keep: x.amin(dims, keepdim=keep)),
    "minimum": lambda x, y: as_array(on.floats(on.extreme(False, x, y))),
    "ones": lambda shape, *_, **__: on.full(shape, 1.0),
    "ones_like": lambda x, *_, **__: on.full(_shape(x), 1.0),
    "prod": on.reduction(on.product),
    "reshape": lambda x, *shape: VectorArray(tensor_of(x).reshape(*shape)),
    "roll": lambda x, shift: VectorArray(tensor_of(x).roll(shift)),
    "round": lambda x, decimals=0: VectorArray(torch.round(on.floats(x), decimals=decimals)),
    "shape": _shape,
    "size": lambda x: x.size,
    "squeeze": lambda x, *axis: VectorArray(tensor_of(x).squeeze(*axis)),
    "stack": on.join(torch.stack),
    "std": on.reduction(on.spread(torch.std)),
    "sum": on.reduction(lambda x, dims, keep: x.sum(dims, keepdim=keep)),
    "tile": lambda x, times: VectorArray(tensor_of(x).tile(times)),
    "var": on.reduction(on.spread(torch.var)),
    "where": on.choose,
    "zeros": lambda shape, *_, **__: on.full(shape, 0.0),
    "zeros_like": lambda x, *_, **__: on.full(_shape(x), 0.0),
}
_ALIASES = {
    "acos": "arccos",
    "amax": "max",
    "amin": "min",
    "around": "round",
    "asin": "arcsin",
    "atan": "arctan",
    "atan2": "arctan2",
    "concat": "concatenate",
    "float_power": "power",
    "fmax": "maximum",
    "fmin": "minimum",
    "pow": "power",
    "vdot": "dot",
    "vstack": "stack",
}
NUMPY |= {new: NUMPY[old] for new, old in _ALIASES.items()}

LINALG: Table = {
    "norm": lambda x, ord=None, axis=None, keepdims=False: on.norm(x, ord, axis, keepdims)
}

_MATH_NAMES = """
sqrt exp exp2 expm1 log log1p log2 log10 sin cos tan sinh cosh tanh acos asin atan atan2 fabs hypot
pow fmod floor ceil trunc copysign isnan isfinite isinf degrees radians
"""
MATH: Table = {
    **{name: NUMPY[name] for name in _MATH_NAMES.split()},
    "dist": lambda p, q: on.norm(as_array(on.floats(p)) - as_array(on.floats(q))),
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
