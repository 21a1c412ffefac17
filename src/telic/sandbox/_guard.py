"""The guard on attributes: foreign code asks an object only for what its kind offers.

Whether `x.parse` is harmless depends on what x is, which is not known before the code runs. So the
code is rewritten: every `x.name` that is not a member of a module, nor of the code's own `self`,
becomes a call of `ask(x, "name")`, under a name that no Python text can spell. What `ask` allows is
the list in `offered`, and whatever belongs to objects of the foreign code's own classes.
"""

from __future__ import annotations

import ast
import types
from typing import Any, NoReturn

from telic.core.text import closest
from telic.sandbox._allowed import why_not_attribute
from telic.sandbox._offered import kind_of, names_of
from telic.sandbox._rules import Inspection

ASK = "the guard"
"""the name of `ask` in the globals of foreign code; with a space, so that no code can name it"""
OWN = "the guard of self"
"""the name of `require_own` in them"""
MODULE_NAME = "reward"
"""the `__module__` of every class that foreign code defines"""
_names: dict[type, frozenset[str]] = {}


def ask(owner: object, name: str) -> Any:
    """Return an attribute that the kind of `owner` offers; raises AttributeError otherwise."""
    kind = type(owner)
    names = _names.get(kind)
    if names is None:
        names = names_of(kind)
        if not is_own(kind):  # foreign code may make classes without end
            _names[kind] = names
    if name in names:
        return getattr(owner, name)
    why = why_not_attribute(name)
    if why is None and is_own(kind):
        return getattr(owner, name)
    if why is None and kind is super:
        return _inherited(owner, name)
    if why is None and isinstance(owner, type) and is_own(owner):
        return _of_class(owner, name)
    _refuse(owner, name, why)


def is_own(cls: type) -> bool:
    """Say whether a class was defined by foreign code itself."""
    return cls.__module__ == MODULE_NAME


def require_own(owner: object) -> None:
    """Raise TypeError unless an object is of a class that foreign code defined.

    Every method begins with it: `self` is exempt from `ask`, and a decorator or a function that
    takes functions could otherwise pass another object as `self`.
    """
    if not is_own(type(owner)):
        raise TypeError(f"A method was called with a {type(owner).__name__} as its self.")


def _inherited(owner: object, name: str) -> Any:
    """Return a method of the base class; its data is shared by every class derived from it."""
    value = getattr(owner, name)
    if isinstance(value, types.MethodType):
        return value
    raise AttributeError(f"super().{name} is not a method: write self.{name}.")


def _of_class(owner: type, name: str) -> Any:
    """Return a static or class method, or a value, of a class; never a method without its self."""
    for cls in owner.__mro__:
        if name in vars(cls):
            if not is_own(cls) or isinstance(vars(cls)[name], types.FunctionType | type):
                break
            return getattr(owner, name)
    raise AttributeError(f"{owner.__name__}.{name}: ask an object of the class for it.")


def _refuse(owner: object, name: str, why: str | None) -> NoReturn:
    kind = kind_of(type(owner))
    if why is None:
        near = closest(name, names_of(type(owner)))
        why = f"Closest: {', '.join(near)}." if near else "Only what is listed can be asked for."
    what = kind or ("a class" if isinstance(owner, type) else f"a {type(owner).__name__}")
    raise AttributeError(f'"{name}" cannot be asked of {what}. {why}')


class Guard(ast.NodeTransformer):
    """Put the guard between checked code and every object that it did not make itself."""

    def __init__(self, inspection: Inspection) -> None:
        self._inspection = inspection

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        """Ask for the attribute, unless the check found it to be of a module or of self."""
        self.generic_visit(node)
        if node in self._inspection.exempt:
            return node
        asked = [node.value, ast.Constant(node.attr)]
        return ast.copy_location(ast.Call(ast.Name(ASK, ast.Load()), asked, []), node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Begin every method with a check of its own object."""
        self.generic_visit(node)
        if (own := self._inspection.methods.get(node)) is not None:
            check = ast.Call(ast.Name(OWN, ast.Load()), [ast.Name(own, ast.Load())], [])
            place = 1 if ast.get_docstring(node, clean=False) is not None else 0
            node.body.insert(place, ast.Expr(check))
        return node
