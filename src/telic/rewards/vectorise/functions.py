"""Functions on vectorised arrays with the meaning that numpy, math and Python give them."""

from __future__ import annotations

import builtins
import functools
import math
import typing
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
Reduction = Callable[[Any, Any, Any], Any]
"""(tensor, dims, keepdim) -> tensor"""
_linalg: Any = torch.linalg


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


def array(value: Any, *_: Any, **__: Any) -> VectorArray:
    """Return a copy as an array."""
    return VectorArray(tensor_of(value).clone())


def same_array(value: Any, *_: Any, **__: Any) -> VectorArray:
    """Return a value as an array, without a copy where it is one."""
    return VectorArray(tensor_of(value))


def shape_of(value: Any) -> tuple[int, ...]:
    """Return the size along each dimension."""
    return value.shape if isinstance(value, VectorArray) else np.shape(value)


def size_of(value: Any) -> int:
    """Return the number of elements."""
    return value.size


def reshape(value: Any, *shape: Any) -> VectorArray:
    """Return the same elements in another shape."""
    return VectorArray(tensor_of(value).reshape(*shape))


def squeeze(value: Any, *axis: Any) -> VectorArray:
    """Return an array without dimensions of size one."""
    return VectorArray(tensor_of(value).squeeze(*axis))


def elementwise(function: Function, tensors: Function = floats) -> Function:
    """Return a function of tensors as one of arrays, lists and numbers."""

    def call(*values: Any) -> VectorArray:
        return VectorArray(function(*map(tensors, values)))

    return call


def reduction(function: Reduction, tensors: Function = floats) -> Function:
    """Return numpy's form of a reduction that takes (tensor, dims, keepdim)."""
    reduce: Function = function

    def call(value: Any, axis: Any = None, *, keepdims: bool = False, **other: Any) -> VectorArray:
        tensor = tensors(value)
        dims = tuple(range(tensor.ndim)) if axis is None else axis
        dims = (dims,) if isinstance(dims, int) else tuple(dims)
        return VectorArray(reduce(tensor, dims, keepdims, **other) if tensor.ndim else tensor)

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
    if both_truths:
        return VectorArray(torch.where(truths(condition), truths(left), truths(right)))
    left, right = (each if is_number(each) else floats(each) for each in (left, right))
    return VectorArray(torch.where(truths(condition), left, right))


def clip(value: Any, low: Any = None, high: Any = None, **other: Any) -> Any:
    """Bound a value, with the bounds under any of the names numpy has for them."""
    low = other.get("a_min", other.get("min", low))
    high = other.get("a_max", other.get("max", high))
    value = value if low is None else extreme(True, value, low)
    return as_array(floats(value if high is None else extreme(False, value, high)))


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> VectorArray:
    """Return the length of vectors; of a whole array where no axis is given."""
    tensor = floats(x)
    of_matrix = ord is not None and axis is None and tensor.ndim > 1
    if of_matrix or ord not in (None, 2, 1, math.inf, -math.inf):
        raise NotVectorisable(f"np.linalg.norm with ord={ord}")
    kind = 2 if ord is None else ord
    return VectorArray(_linalg.vector_norm(tensor, kind, axis, keepdims))


def distance(left: Any, right: Any) -> VectorArray:
    """Return the distance of two points."""
    return norm(as_array(floats(left)) - as_array(floats(right)))


def join(function: Function) -> Function:
    """Return numpy's form of cat or stack."""

    def call(values: Any, axis: int = 0) -> VectorArray:
        return VectorArray(function([floats(each) for each in values], axis))

    return call


def join_flat(*values: Any) -> VectorArray:
    """Return all elements of all values in one row."""
    return VectorArray(torch.cat([floats(each).flatten() for each in values]))


def join_all_flat(values: Any) -> VectorArray:
    """Return all elements of several values in one row."""
    return join_flat(*values)


def average(value: Any, axis: Any = None, weights: Any = None) -> VectorArray:
    """Return the mean, weighted or not."""
    values = floats(value)
    if weights is None:
        return VectorArray(values.mean() if axis is None else values.mean(axis))
    share = floats(weights)
    total = (values * share).sum() if axis is None else (values * share).sum(axis)
    return VectorArray(total / share.sum())


def full(shape: Any, value: Any, *_: Any, **__: Any) -> VectorArray:
    """Return an array filled with one value."""
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    return VectorArray(floats(value).expand(shape).clone())


def full_like(value: Any, fill: Any, **_: Any) -> VectorArray:
    """Return an array of the same shape, filled with one value."""
    return full(shape_of(value), fill)


def filled(value: float) -> Function:
    """Return numpy's form of zeros or ones."""

    def call(shape: Any, *_: Any, **__: Any) -> VectorArray:
        return full(shape, value)

    return call


def filled_like(value: float) -> Function:
    """Return numpy's form of zeros_like or ones_like."""

    def call(like: Any, *_: Any, **__: Any) -> VectorArray:
        return full(shape_of(like), value)

    return call


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
    several = typing.cast("tuple[Any, ...]", kinds) if isinstance(kinds, tuple) else (kinds,)
    return builtins.isinstance(value, tuple(PLAIN.get(each, each) for each in several))
