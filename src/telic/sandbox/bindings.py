"""What a piece of source defines: names, classes, methods, imports and its own attributes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from telic.sandbox.allowed import CLASSES, PREDEFINED

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(slots=True)
class Bindings:
    """Every name a source binds, gathered before its uses are judged."""

    names: set[str] = field(default_factory=set[str])
    """bound by anything but an import"""
    assigned: set[str] = field(default_factory=set[str])
    """bound by anything but an import or a parameter"""
    imported: set[str] = field(default_factory=set[str])
    modules: dict[str, str] = field(default_factory=dict[str, str])
    """names that stand for a module, with its path: {"np": "numpy"}"""
    classes: set[str] = field(default_factory=set[str])
    methods: set[str] = field(default_factory=set[str])
    attributes: set[str] = field(default_factory=set[str])
    """attributes the source itself defines: self.x = ..., and what class bodies define"""


def is_dunder(name: str) -> bool:
    """Say whether a name is one of Python's own double-underscore names."""
    return name.startswith("__") and name.endswith("__")


def root_of(node: ast.expr) -> ast.expr:
    """Return what `a.b[c].d` starts from: `a`."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node


def names_bound_by(node: ast.AST) -> Iterator[str]:
    """Yield the plain names that this one node binds, parameters and imports excepted."""
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
            yield name
        case ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
            yield name
        case _:
            pass


def parameters(node: Function) -> list[ast.arg]:
    """Return all parameters of a function or lambda, first to last."""
    spec = node.args
    rest = [each for each in (spec.vararg, spec.kwarg) if each is not None]
    return [*spec.posonlyargs, *spec.args, *spec.kwonlyargs, *rest]


def in_class_body(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes in the scope of a class body, also those under if, for, try and with."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, ast.ClassDef | Function):
            yield from in_class_body(child)


def methods_of(node: ast.ClassDef) -> frozenset[str]:
    """Return the names of the functions that a class body defines."""
    inside = in_class_body(node)
    return frozenset(
        each.name for each in inside if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def gather(tree: ast.Module, paths: frozenset[str]) -> Bindings:
    """Collect what the source binds; `paths` are the dotted names of the known modules."""
    bindings = Bindings()
    for node in ast.walk(tree):
        bindings.assigned.update(names_bound_by(node))
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                bindings.names.update(each.arg for each in parameters(node))
            case ast.ClassDef():
                bindings.classes.add(node.name)
                bindings.methods |= methods_of(node)
                for each in in_class_body(node):
                    bindings.attributes.update(names_bound_by(each))
            case ast.Attribute(ctx=ast.Store(), attr=attribute):
                bindings.attributes.add(attribute)
            case ast.Import() | ast.ImportFrom():
                _gather_import(node, paths, bindings)
            case _:
                pass
    bindings.names |= bindings.assigned
    for name, path in PREDEFINED.items():
        if name not in bindings.names | bindings.imported:
            bindings.modules[name] = path
    bindings.classes |= CLASSES - bindings.names
    return bindings


def _gather_import(
    node: ast.Import | ast.ImportFrom, paths: frozenset[str], bindings: Bindings
) -> None:
    for alias in node.names:
        if isinstance(node, ast.Import):
            top = alias.name.partition(".")[0]
            bindings.imported.add(alias.asname or top)
            bindings.modules[alias.asname or top] = alias.name if alias.asname else top
            continue
        bound = alias.asname or alias.name
        path = f"{node.module}.{alias.name}"
        bindings.imported.add(bound)
        if path in paths:
            bindings.modules[bound] = path
        elif alias.name in CLASSES:
            bindings.classes.add(bound)
