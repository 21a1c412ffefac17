"""An array that behaves as numpy's for one environment while torch computes it for all at once.

Code written for one environment runs under `torch.vmap` on these. What depends on values that
differ between environments (a Python `if`, an index, a float) cannot be answered for all at once
and raises NotVectorisable.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, cast

import numpy as np
import torch
from torch import Tensor

from telic.core.text import is_row

_op: Any = operator  # its functions take numbers by their types; here they get tensors


class NotVectorisable(Exception):
    """The code does something that cannot be done for all environments at once."""


def as_array(value: Any) -> Any:
    """Return a tensor as an array, anything else as it is."""
    return VectorArray(value) if isinstance(value, Tensor) else value


def tensor_of(value: Any) -> Tensor:
    """Return an array, list or number as a tensor: float64, or bool."""
    if isinstance(value, VectorArray):
        return value.tensor
    if isinstance(value, Tensor):
        return value
    if is_row(value) and any(map(varies, value)):
        parts = [tensor_of(each) for each in value]
        if all(each.dtype is torch.bool for each in parts):
            return torch.stack(parts)
        return torch.stack([each.double() for each in parts])
    array: np.ndarray = np.asarray(value)
    # torch.tensor follows the device that is set while a reward is vectorised
    return torch.tensor(array if array.dtype == bool else array.astype(np.float64))


def varies(value: Any) -> bool:
    """Say whether a value is, or contains, an array that differs between environments."""
    if is_row(value):
        return any(map(varies, value))
    return isinstance(value, VectorArray)


def is_number(value: Any) -> bool:
    """Say whether a value is a plain number, the same for every environment."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def numbers(*values: Any) -> tuple[Any, ...]:
    """Return operands for arithmetic: tensors as float64, plain Python numbers as they are.

    Sums of truth values differ between Python (2) and numpy (True), so two of them are refused.
    """
    operands = [each if is_number(each) else tensor_of(each) for each in values]
    truths = [isinstance(each, Tensor) and each.dtype is torch.bool for each in operands]
    if all(truths):
        raise NotVectorisable("arithmetic with truth values; write float(...) around each")
    return tuple(
        each.double() if isinstance(each, Tensor) and each.dtype is not torch.float64 else each
        for each in operands
    )


def _arithmetic(function: Callable[[Any, Any], Any], *, reflected: bool = False) -> Any:
    def method(self: VectorArray, other: Any) -> Any:
        if other is None or isinstance(other, str | dict):
            return NotImplemented
        if reflected and function is _op.add and type(other) is int and other == 0:
            return VectorArray(numbers(self, 0)[0])  # where sum() begins
        left, right = numbers(other, self) if reflected else numbers(self, other)
        return VectorArray(function(left, right))

    return method


def _comparison(function: Callable[[Any, Any], Any]) -> Any:
    def method(self: VectorArray, other: Any) -> Any:
        if other is None or isinstance(other, str):
            return NotImplemented
        other = other if isinstance(other, int | float) else tensor_of(other)
        return VectorArray(function(self.tensor, other))

    return method


def _logic(function: Callable[[Tensor, Tensor], Tensor]) -> Any:
    def method(self: VectorArray, other: Any) -> Any:
        left, right = self.tensor, tensor_of(other)
        if left.dtype is not torch.bool or right.dtype is not torch.bool:
            raise NotVectorisable("&, | or ^ on numbers")
        return VectorArray(function(left, right))

    return method


def _unknowable(what: str) -> Any:
    def method(self: VectorArray, *_: Any) -> Any:
        raise NotVectorisable(what)

    return method


class VectorArray:
    """A numpy-like array of one environment, standing for those of all."""

    __offered__: ClassVar[str] = "a numpy array"
    __slots__ = ("tensor",)
    __array_ufunc__ = None  # lets an ndarray on the left give way to the reflected operators
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    __add__, __radd__ = _arithmetic(_op.add), _arithmetic(_op.add, reflected=True)
    __sub__, __rsub__ = _arithmetic(_op.sub), _arithmetic(_op.sub, reflected=True)
    __mul__, __rmul__ = _arithmetic(_op.mul), _arithmetic(_op.mul, reflected=True)
    __truediv__ = _arithmetic(_op.truediv)
    __rtruediv__ = _arithmetic(_op.truediv, reflected=True)
    __floordiv__ = _arithmetic(_op.floordiv)
    __rfloordiv__ = _arithmetic(_op.floordiv, reflected=True)
    __mod__, __rmod__ = _arithmetic(_op.mod), _arithmetic(_op.mod, reflected=True)
    __pow__, __rpow__ = _arithmetic(_op.pow), _arithmetic(_op.pow, reflected=True)
    __matmul__ = _arithmetic(lambda a, b: torch.matmul(tensor_of(a), tensor_of(b)))
    __rmatmul__ = _arithmetic(lambda a, b: torch.matmul(tensor_of(a), tensor_of(b)), reflected=True)
    __lt__, __le__ = _comparison(_op.lt), _comparison(_op.le)
    __gt__, __ge__ = _comparison(_op.gt), _comparison(_op.ge)
    __eq__, __ne__ = _comparison(_op.eq), _comparison(_op.ne)
    __and__ = __rand__ = _logic(torch.logical_and)
    __or__ = __ror__ = _logic(torch.logical_or)
    __xor__ = __rxor__ = _logic(torch.logical_xor)
    __bool__ = _unknowable("a decision that differs between environments")
    __float__ = __int__ = __index__ = _unknowable("a Python number made of a value")
    __format__ = _unknowable("a value written as text")

    def __neg__(self) -> VectorArray:
        return VectorArray(-numbers(self, 0.0)[0])

    def __pos__(self) -> VectorArray:
        return self

    def __abs__(self) -> VectorArray:
        return VectorArray(numbers(self, 0.0)[0].abs())

    def __invert__(self) -> VectorArray:
        if self.tensor.dtype is not torch.bool:
            raise NotVectorisable("~ on numbers")
        return VectorArray(~self.tensor)

    def __round__(self, digits: int | None = None) -> VectorArray:
        return VectorArray(torch.round(self.tensor, decimals=digits or 0))

    def __len__(self) -> int:
        if not self.tensor.ndim:
            raise TypeError("object of type 'float' has no len()")
        return len(self.tensor)

    def __iter__(self) -> Iterator[VectorArray]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: Any) -> VectorArray:
        return VectorArray(_take(self, index))

    def __setitem__(self, index: Any, value: Any) -> None:
        self.tensor = _put(self, index, value)

    def __getattr__(self, name: str) -> Any:
        from telic.rewards.vectorise.tables import METHODS

        if name not in METHODS:
            raise NotVectorisable(f"the array method .{name}")
        return functools.partial(METHODS[name], self)

    @property
    def shape(self) -> tuple[int, ...]:
        """Size along each dimension."""
        return tuple(self.tensor.shape)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return self.tensor.ndim

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.tensor.numel()

    @property
    def T(self) -> VectorArray:  # noqa: N802 - numpy's name
        """The transpose."""
        return VectorArray(self.tensor.permute(*range(self.ndim - 1, -1, -1)))


def _take(array: VectorArray, index: Any) -> Tensor:
    if _is_basic(index):
        return array.tensor[index]
    places = _places(array, index)
    return array.tensor.flatten()[places]


def _put(array: VectorArray, index: Any, value: Any) -> Tensor:
    """Return the tensor with some places replaced; in-place writes do not exist under vmap."""
    old, places = array.tensor, _places(array, index)
    new = tensor_of(value).to(old.dtype).expand(places.shape).flatten()
    source = torch.full((old.numel(),), -1, dtype=torch.long, device=old.device)
    source[places.flatten()] = torch.arange(places.numel(), device=old.device)
    return torch.where(source >= 0, new[source.clamp(min=0)], old.flatten()).reshape(old.shape)


def _is_basic(index: Any) -> bool:
    """Say whether torch understands an index as numpy does, without making an index tensor."""
    if isinstance(index, tuple):
        return all(map(_is_basic, cast("tuple[Any, ...]", index)))
    if isinstance(index, slice):
        step = cast("Any", index).step
        return step is None or (isinstance(step, int) and step > 0)
    return index is None or index is Ellipsis or type(index) is int


def _places(array: VectorArray, index: Any) -> Tensor:
    """Return the flat places that numpy would take for an index: masks, lists and the like."""
    if varies(index):
        raise NotVectorisable("an index that differs between environments")
    places = np.arange(array.size).reshape(array.shape)[index]
    return torch.as_tensor(np.ascontiguousarray(places), device=array.tensor.device)
