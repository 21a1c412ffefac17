"""The guard on attributes: foreign code asks an object only for what its kind offers.

Whether `x.parse` is harmless depends on what x is, which is not known before the code runs. So the
code is rewritten: every `x.name` that is not a member of a module, nor of the code's own `self`,
becomes a call of `ask(x, "name")`, under a name that no Python text can spell. What `ask` allows is
the list in `offered`, and whatever belongs to objects of the foreign code's own classes.
"""

from __future__ import annotations

import ast
import types
from typing import Any, NamedTuple, NoReturn

from telic.core.text import closest
from telic.sandbox.allowed import why_not_attribute
from telic.sandbox.offered import kind_of, names_of
from telic.sandbox.rules import gather, parameters

ASK = "the guard"
"""the name of `ask` in the globals of foreign code; with a space, so that no code can name it"""
OWN = "the guard of self"
"""the name of `require_own` in them"""
MODULE_NAME = "reward"
"""the `__module__` of every class that foreign code defines"""
_SUBMODULES = frozenset({"fft", "functional", "linalg", "nn", "quantities", "special"})
_WITHOUT_SELF = frozenset({"classmethod", "staticmethod"})
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


# ---- putting the guard into a tree


def module_names(tree: ast.Module, paths: frozenset[str]) -> frozenset[str]:
    """Return the names that stand for a module in a source; `paths` are the known modules."""
    return frozenset(gather(tree, paths).modules)


def guarded(tree: ast.Module, modules: frozenset[str]) -> ast.Module:
    """Return the tree of a checked source, changed in place, with the guard on every attribute."""
    return ast.fix_missing_locations(_Rewriter(modules).visit(tree))


class _Surroundings(NamedTuple):
    """Position of the walk: the name of the code's own object, and whether in a class body."""

    self_name: str | None = None
    in_class: bool = False


class _Rewriter(ast.NodeTransformer):
    """Put the guard between foreign code and every object that it did not make itself."""

    def __init__(self, modules: frozenset[str]) -> None:
        self._modules = modules
        self._within: _Surroundings = _Surroundings()

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        # The check lets attributes be written on self alone, and super().__init__ be called.
        is_written = not isinstance(node.ctx, ast.Load)
        if is_written or self._is_exempt(node.value) or node.attr == "__init__":
            node.value = self.visit(node.value)
            return node
        owner, name = self.visit(node.value), ast.Constant(node.attr)
        return ast.copy_location(ast.Call(ast.Name(ASK, ast.Load()), [owner, name], []), node)

    def _is_exempt(self, owner: ast.expr) -> bool:
        """Say whether an expression is a module, or the code's own self."""
        if isinstance(owner, ast.Name) and owner.id == self._within.self_name:
            return True
        while isinstance(owner, ast.Attribute) and owner.attr in _SUBMODULES:
            owner = owner.value
        return isinstance(owner, ast.Name) and owner.id in self._modules

    def visit_MatchValue(self, node: ast.MatchValue) -> ast.MatchValue:
        return node  # the check lets only literals and members of modules stand here

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        outer, self._within = self._within, _Surroundings(self._within.self_name, in_class=True)
        self.generic_visit(node)
        self._within = outer
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        outer, own = self._within, self._within.self_name
        if outer.in_class:
            first = [*node.args.posonlyargs, *node.args.args][:1]
            decorators = {getattr(each, "id", "") for each in node.decorator_list}
            own = first[0].arg if first and not decorators & _WITHOUT_SELF else None
        elif own in {each.arg for each in parameters(node)}:
            own = None
        # Defaults and annotations are computed outside.
        node.args = self.visit(node.args)
        node.returns = self.visit(node.returns) if node.returns else None
        self._within = _Surroundings(own)
        node.body = [self.visit(each) for each in node.body]
        self._within = outer
        if outer.in_class and own is not None:
            check = ast.Call(ast.Name(OWN, ast.Load()), [ast.Name(own, ast.Load())], [])
            place = 1 if ast.get_docstring(node, clean=False) is not None else 0
            node.body.insert(place, ast.Expr(check))
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        outer = self._within
        node.args = self.visit(node.args)
        is_hidden = outer.self_name in {each.arg for each in parameters(node)}
        self._within = _Surroundings(None if is_hidden else outer.self_name)
        node.body = self.visit(node.body)
        self._within = outer
        return node
