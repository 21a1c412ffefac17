"""What Python's branches become when both sides are computed: a choice per environment."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from telic.core.text import is_dict, is_row
from telic.rewards.vectorise.array import NotVectorisable, VectorArray, tensor_of, varies
from telic.rewards.vectorise.functions import choose, single, truths


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
