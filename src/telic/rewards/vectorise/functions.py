"""Functions on vectorised arrays with the meaning that numpy, math and Python give them.

The second half is what Python's branches become when both sides are computed: a choice per
environment.
"""

from __future__ import annotations

import builtins
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from telic.rewards.vectorise.array import (
    NotVectorisable,
    VectorArray,
    as_array,
    is_number,
    tensor_of,
    varies,
)

Function = Callable[..., Any]


def floats(value: Any) -> Tensor:
    """Return a value as a float64 tensor."""
    tensor = tensor_of(value)
    return tensor if tensor.dtype is torch.float64 else tensor.double()


def truths(value: Any) -> Tensor:
    """Return a value as a bool tensor."""
    tensor = tensor_of(value)
    return tensor if tensor.dtype is torch.bool else tensor != 0


def single(tensor: Tensor) -> Tensor:
    """Return a tensor of one element without dimensions."""
    return tensor.reshape(()) if tensor.ndim else tensor


def elementwise(function: Function, tensors: Function = floats) -> Function:
    """Return a function of tensors as one of arrays, lists and numbers."""

    def call(*values: Any) -> VectorArray:
        return VectorArray(function(*map(tensors, values)))

    return call


def reduction(function: Function, tensors: Function = floats) -> Function:
    """Return numpy's form of a reduction that takes (tensor, dims, keepdim)."""

    def call(value: Any, axis: Any = None, *, keepdims: bool = False, **other: Any) -> VectorArray:
        tensor = tensors(value)
        dims = tuple(range(tensor.ndim)) if axis is None else axis
        dims = (dims,) if isinstance(dims, int) else tuple(dims)
        return VectorArray(function(tensor, dims, keepdims, **other) if tensor.ndim else tensor)

    return call


def spread(function: Function) -> Function:
    """Return numpy's form of std or var: divided by n unless ddof says otherwise."""

    def call(x: Tensor, dims: Any, keep: bool, ddof: int = 0) -> Tensor:
        return function(x, dims, correction=ddof, keepdim=keep)

    return call


def product(x: Tensor, dims: tuple[int, ...], keep: bool) -> Tensor:
    """Multiply along several dimensions; torch does one at a time."""
    for dim in sorted((each % x.ndim for each in dims), reverse=True):
        x = x.prod(dim, keepdim=keep)
    return x


def median(x: Tensor) -> Tensor:
    """Return the middle value, or the mean of the two in the middle."""
    ordered = x.flatten().sort().values
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2.0


def is_close(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8) -> VectorArray:
    """Return whether values are equal up to rounding."""
    return VectorArray((floats(a) - floats(b)).abs() <= atol + rtol * floats(b).abs())


def extreme(largest: bool, *values: Any) -> Any:
    """Return the elementwise largest or smallest of several values."""
    function, bound = (torch.maximum, "min") if largest else (torch.minimum, "max")

    def pair(left: Any, right: Any) -> Any:
        if is_number(left) and is_number(right):
            return max(left, right) if largest else min(left, right)
        if is_number(left):
            left, right = right, left
        if is_number(right):
            return VectorArray(torch.clamp(floats(left), **{bound: right}))
        return VectorArray(function(floats(left), floats(right)))

    return functools.reduce(pair, values)


def choose(condition: Any, left: Any, right: Any) -> VectorArray:
    """Return `left` where the condition holds, else `right`."""
    if is_number(left) and is_number(right):
        left = floats(left)  # two plain numbers would give float32
    both_truths = not any(
        is_number(each) or tensor_of(each).dtype is not torch.bool for each in (left, right)
    )
    pick = truths if both_truths else (lambda x: x if is_number(x) else floats(x))
    return VectorArray(torch.where(truths(condition), pick(left), pick(right)))


def clip(value: Any, low: Any = None, high: Any = None, **other: Any) -> Any:
    """Bound a value, with the bounds under any of the names numpy has for them."""
    low = other.get("a_min", other.get("min", low))
    high = other.get("a_max", other.get("max", high))
    value = value if low is None else extreme(True, value, low)
    return as_array(floats(value if high is None else extreme(False, value, high)))


def norm(x: Any, kind: Any = None, axis: Any = None, keepdims: bool = False) -> VectorArray:
    """Return the length of vectors; of a whole array where no axis is given."""
    tensor = floats(x)
    of_matrix = kind is not None and axis is None and tensor.ndim > 1
    if of_matrix or kind not in (None, 2, 1, math.inf, -math.inf):
        raise NotVectorisable(f"np.linalg.norm with ord={kind}")
    return VectorArray(
        torch.linalg.vector_norm(tensor, 2 if kind is None else kind, axis, keepdims)
    )


def join(function: Function) -> Function:
    """Return numpy's form of cat or stack."""

    def call(values: Any, axis: int = 0) -> VectorArray:
        return VectorArray(function([floats(each) for each in values], axis))

    return call


def join_flat(*values: Any) -> VectorArray:
    """Return all elements of all values in one row."""
    return VectorArray(torch.cat([floats(each).flatten() for each in values]))


def average(value: Any, axis: Any = None, weights: Any = None) -> VectorArray:
    """Return the mean, weighted or not."""
    values = floats(value)
    if weights is None:
        return VectorArray(values.mean() if axis is None else values.mean(axis))
    share = floats(weights)
    total = (values * share).sum() if axis is None else (values * share).sum(axis)
    return VectorArray(total / share.sum())


def full(shape: Any, value: Any) -> VectorArray:
    """Return an array filled with one value."""
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    return VectorArray(floats(value).expand(shape).clone())


def cast(value: Any, kind: Any = float, **_: Any) -> VectorArray:
    """Return an array as bool, as whole numbers, or as floats, which stay float64."""
    name = kind if isinstance(kind, str) else getattr(kind, "__name__", str(kind))
    if "bool" in name:
        return VectorArray(truths(value))
    return VectorArray(floats(value).trunc() if "int" in name else floats(value))


def as_float(value: Any) -> Any:
    """Return what float(value) means: one number."""
    if not isinstance(value, VectorArray):
        return builtins.float(value)
    if value.size != 1:
        raise TypeError("only one-element arrays can be converted to Python numbers")
    return VectorArray(single(floats(value)))


def as_int(value: Any) -> Any:
    """Return what int(value) means: one number without its fraction."""
    return cast(as_float(value), int) if isinstance(value, VectorArray) else builtins.int(value)


def as_bool(value: Any) -> Any:
    """Return what bool(value) means."""
    return VectorArray(truths(value)) if isinstance(value, VectorArray) else builtins.bool(value)


def extreme_of(largest: bool, plain: Function) -> Function:
    """Return Python's max or min: of several arguments, or of the elements of one."""

    def call(*values: Any, **options: Any) -> Any:
        if len(values) == 1:
            values = tuple(values[0])
        if not varies(values):
            return plain(values, **options)
        if options:
            raise NotVectorisable(f"{plain.__name__} with {', '.join(options)}")
        return extreme(largest, *values)

    return call


def quantifier(plain: Function, function: Function) -> Function:
    """Return Python's any or all."""

    def call(values: Any) -> Any:
        values = list(values)
        if not varies(values):
            return plain(values)
        return VectorArray(function(torch.stack([truths(each) for each in values])))

    return call


PLAIN: dict[Any, Any] = {as_float: float, as_int: int, as_bool: bool}
"""the types that these functions stand in for, where a type is wanted"""


def is_instance(value: Any, kinds: Any) -> bool:
    """Return what isinstance says of a value that is the same for all environments."""
    if isinstance(value, VectorArray):
        raise NotVectorisable("isinstance of a value")
    kinds = kinds if isinstance(kinds, tuple) else (kinds,)
    return builtins.isinstance(value, tuple(PLAIN.get(each, each) for each in kinds))


# ---- branches


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
        held, following = result, value
        result = either(held, following, lambda held=held: held)
    return result


def any_of(*values: Lazy) -> Any:
    """Evaluate `a or b or …`."""
    result = values[0]()
    for value in values[1:]:
        held, following = result, value
        result = either(held, lambda held=held: held, following)
    return result


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
    if isinstance(then, dict) and isinstance(otherwise, dict):
        # A term that only one side sets counts as 0 on the other.
        keys = dict.fromkeys((*then, *otherwise))
        return {k: select(condition, then.get(k, 0.0), otherwise.get(k, 0.0)) for k in keys}
    if isinstance(then, tuple | list) and isinstance(otherwise, tuple | list):
        if len(then) != len(otherwise):
            raise NotVectorisable(f"a choice between {len(then)} and {len(otherwise)} values")
        return type(then)(select(condition, a, b) for a, b in zip(then, otherwise, strict=True))
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
    if isinstance(value, dict | list):
        return value.copy()
    return VectorArray(value.tensor) if isinstance(value, VectorArray) else value


def _word(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
