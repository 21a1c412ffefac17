"""Guard that restricts untrusted code to the attributes allowed for each kind of object.

It depends on the type of x whether `x.parse` is harmless, and the type is unknown before the code
runs. Therefore every `x.name` that is not a member of a module or of the code's `self` is rewritten
to `ask(x, "name")`, where the global `ask` has a name that is not a valid Python identifier. `ask`
allows the attributes in `_offered` and members of classes that the untrusted code defines.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from telic.core.text import closest
from telic.sandbox._allowed import why_not_attribute
from telic.sandbox._offered import kind_of, names_of
from telic.sandbox._rules import Inspection

ASK = "the guard"
"""name of `ask` in the globals of untrusted code, which cannot access it because of the space"""
OWN = "the guard of self"
"""name of `require_own` in these globals"""
MODULE_NAME = "reward"
"""`__module__` of every class that untrusted code defines"""


def ask(owner: object, name: str) -> Any:
    """Return an attribute if it is allowed for the kind of `owner`, or raise AttributeError."""
    kind = type(owner)
    if name in names_of(kind):
        value = getattr(owner, name)
        is_method = isinstance(owner, np.ndarray | np.generic) and callable(value)
        return NumpyFunction(value) if is_method else value
    why = why_not_attribute(name)
    if why is None and is_own(kind):
        return getattr(owner, name)
    if why is None and kind is super:
        return _inherited(owner, name)
    if why is None and isinstance(owner, type) and is_own(owner):
        return _of_class(owner, name)
    _refuse(owner, name, why)


_PLAIN = {np.ndarray, np.float32, np.float64, np.int64, np.bool_, float, int, bool, type(None)}
"""types that never name a data type"""


class NumpyFunction:
    """Proxy for a function, ufunc or method of numpy that accepts no date types.

    numpy converts the text "now" to the current time, and code that knows the time could
    distinguish the validation of a judge from its use.
    """

    __offered__ = "a numpy function"

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if "signature" in kwargs or "sig" in kwargs:
            raise TypeError("The argument signature of numpy functions is not allowed.")
        for each in (*args, *kwargs.values()):
            if type(each) not in _PLAIN:
                _refuse_dates(each)
        result = self._function(*args, **kwargs)
        if _has_dates(result):
            raise TypeError("Dates and records are not available to rewards and judges.")
        return result

    def __getattr__(self, name: str) -> Any:
        return NumpyFunction(getattr(self._function, name))


def _has_dates(result: Any) -> bool:
    """Return whether a result is or contains an array of dates, durations or records."""
    if isinstance(result, list | tuple):
        return any(map(_has_dates, result))
    return isinstance(result, np.ndarray | np.generic) and result.dtype.kind in "mMV"


def _refuse_dates(argument: Any) -> None:
    """Raise TypeError if numpy could read an argument, or a part of it, as a date type."""
    kind = type(argument)
    if is_own(kind):
        raise TypeError(f"A numpy function was called with {kind.__name__}, not with numbers.")
    if isinstance(argument, str | bytes):
        text: Any = argument
        try:
            dtype = np.dtype(text)
        except (TypeError, ValueError, SyntaxError):
            return
        # A subarray or a record within a record may hide a date. "i,i" may be meant for einsum.
        if any(each[0].kind in "mMV" for each in (dtype.fields or {"": (dtype,)}).values()):
            raise TypeError(f"The data type {argument!r} is not available to rewards and judges.")
    elif isinstance(argument, list | tuple | dict):
        parts = argument.items() if isinstance(argument, dict) else argument
        if not set(map(type, parts)) <= _PLAIN:
            for each in parts:
                _refuse_dates(each)


def is_own(cls: type) -> bool:
    """Return whether a class was defined by untrusted code."""
    return cls.__module__ == MODULE_NAME


def require_own(owner: object) -> None:
    """Raise TypeError unless the object's class was defined by untrusted code.

    Every method starts with a call to this function, because `self` is exempt from `ask`, and a
    decorator or a higher-order function could pass another object as `self`.
    """
    if not is_own(type(owner)):
        raise TypeError(f"A method was called with a {type(owner).__name__} as `self`.")


def _inherited(owner: object, name: str) -> Any:
    """Return a method of the base class. Shared data attributes are refused."""
    value = getattr(owner, name)
    if isinstance(value, types.MethodType):
        return value
    raise AttributeError(f"super().{name} is not a method: use self.{name}.")


def _of_class(owner: type, name: str) -> Any:
    """Return a static method, class method or value of a class, but not an unbound method."""
    for cls in owner.__mro__:
        if name in vars(cls):
            if not is_own(cls) or isinstance(vars(cls)[name], types.FunctionType | type):
                break
            return getattr(owner, name)
    raise AttributeError(f"{owner.__name__}.{name} must be accessed on an object of the class.")


def _refuse(owner: object, name: str, why: str | None) -> NoReturn:
    kind = kind_of(type(owner))
    if why is None:
        near = closest(name, names_of(type(owner)))
        why = f"Closest: {', '.join(near)}." if near else "Only listed attributes are accessible."
    what = kind or ("a class" if isinstance(owner, type) else f"a {type(owner).__name__}")
    raise AttributeError(f'"{name}" is not accessible on {what}. {why}')


class Guard(ast.NodeTransformer):
    """AST transformer that guards every attribute access that the check did not exempt."""

    def __init__(self, inspection: Inspection) -> None:
        self._inspection = inspection

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        """Guard the attribute, unless the check found that it belongs to a module or to `self`."""
        self.generic_visit(node)
        if node in self._inspection.exempt:
            return node
        asked = [node.value, ast.Constant(node.attr)]
        return ast.copy_location(ast.Call(ast.Name(ASK, ast.Load()), asked, []), node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Insert a check of `self` at the start of every method."""
        self.generic_visit(node)
        if (own := self._inspection.methods.get(node)) is not None:
            check = ast.Call(ast.Name(OWN, ast.Load()), [ast.Name(own, ast.Load())], [])
            place = 1 if ast.get_docstring(node, clean=False) is not None else 0
            node.body.insert(place, ast.Expr(check))
        return node
