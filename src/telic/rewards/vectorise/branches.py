"""Rewrite Python's branches so that both sides can be computed and merged.

    if c:            c1 = truth(c)
        x = 1        before = grab(c1, lambda: x)
    else:            if runs(c1, True):  x = 1
        x = 2        then = grab(c1, lambda: x);  [x] = before
                     if runs(c1, False): x = 2
                     [x] = merge(c1, then, grab(c1, lambda: x))

Only inside functions, and only where the sides do nothing but give values to names and to items of
named dictionaries or arrays. Early returns are first moved to the end. Whatever is left as it was
still runs as long as its condition is the same for every environment.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence
from typing import Any

from telic.core.text import is_row
from telic.rewards.vectorise import tables

HELPERS: dict[str, Any] = {
    "__vector_truth__": tables.truth,
    "__vector_either__": tables.either,
    "__vector_both__": tables.both,
    "__vector_any__": tables.any_of,
    "__vector_not__": tables.negate,
    "__vector_runs__": tables.runs,
    "__vector_grab__": tables.grab,
    "__vector_merge__": tables.merge,
}
NUMPY_NAME, MATH_NAME = "__vector_numpy__", "__vector_math__"
_RESULT = "__vector_result__"
_STATEMENT_LIMIT = 1_000


class _Unchanged(Exception):
    """A function's returns cannot be moved to its end."""


def rewrite(tree: ast.Module) -> ast.Module:
    """Return a copy of a module that can run on vectorised arrays."""
    rewritten = _Rewriter().visit(copy.deepcopy(tree))
    return ast.fix_missing_locations(rewritten)


class _Rewriter(ast.NodeTransformer):
    def __init__(self) -> None:
        self._counter = 0
        self._depth = 0

    # ---- scopes

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        try:
            moved = _returns_at_end(node.body, [_STATEMENT_LIMIT])
            result = ast.Return(_load(_RESULT))
            node.body = [*moved, ast.copy_location(result, node.body[-1])]
        except _Unchanged:
            pass
        self._depth += 1
        node.body = [each for statement in node.body for each in _listed(self.visit(statement))]
        self._depth -= 1
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        self._depth += 1
        node.body = self.visit(node.body)
        self._depth -= 1
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        # A class body's own names cannot be seen from a lambda, and hold no values of a step.
        outer, self._depth = self._depth, 0
        self.generic_visit(node)
        self._depth = outer
        return node

    # ---- imports

    def visit_Import(self, node: ast.Import) -> Any:
        return [self._module(alias, node) for alias in node.names]

    def _module(self, alias: ast.alias, node: ast.stmt) -> ast.stmt:
        root, _, rest = alias.name.partition(".")
        shim = {"numpy": NUMPY_NAME, "math": MATH_NAME}.get(root)
        if shim is None:
            return ast.copy_location(ast.Import([alias]), node)
        value: ast.expr = _load(shim)
        if alias.asname:
            for part in filter(None, rest.split(".")):
                value = ast.Attribute(value, part, ast.Load())
        return ast.copy_location(ast.Assign([_store(alias.asname or root)], value), node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> Any:
        root, *parts = (node.module or "").split(".")
        shim = {"numpy": NUMPY_NAME, "math": MATH_NAME}.get(root)
        if shim is None:
            return node
        source: ast.expr = _load(shim)
        for part in parts:
            source = ast.Attribute(source, part, ast.Load())
        return [
            ast.copy_location(
                ast.Assign(
                    [_store(alias.asname or alias.name)],
                    ast.Attribute(source, alias.name, ast.Load()),
                ),
                node,
            )
            for alias in node.names
        ]

    # ---- expressions

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        self.generic_visit(node)
        if not self._can_defer(node):
            return node
        return _call("__vector_either__", node, node.test, _lazy(node.body), _lazy(node.orelse))

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        if not self._can_defer(node):
            return node
        name = "__vector_both__" if isinstance(node.op, ast.And) else "__vector_any__"
        return _call(name, node, *map(_lazy, node.values))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        if self._depth and isinstance(node.op, ast.Not):
            return _call("__vector_not__", node, node.operand)
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        if len(node.ops) == 1 or not self._can_defer(node):
            return node
        sides = [node.left, *node.comparators]
        pairs = [
            _lazy(ast.copy_location(ast.Compare(left, [op], [copy.deepcopy(right)]), node))
            for left, op, right in zip(sides, node.ops, sides[1:], strict=False)
        ]
        return _call("__vector_both__", node, *pairs)

    def _can_defer(self, node: ast.AST) -> bool:
        unmovable = ast.NamedExpr | ast.Yield | ast.YieldFrom | ast.Await
        return self._depth > 0 and not any(isinstance(each, unmovable) for each in ast.walk(node))

    # ---- statements

    def visit_If(self, node: ast.If) -> Any:
        names = _assigned([*node.body, *node.orelse])
        self.generic_visit(node)
        if not self._depth or names is None:
            return node
        self._counter += 1
        condition, before, then = (
            f"__vector_{word}_{self._counter}__" for word in ("condition", "before", "then")
        )
        grabbed = [_load(condition), *(_lazy(_load(name)) for name in names)]

        def put(value: ast.expr) -> ast.stmt:
            return ast.Assign([ast.List([_store(name) for name in names], ast.Store())], value)

        def side(which: bool, body: list[ast.stmt]) -> list[ast.stmt]:
            test = _call("__vector_runs__", node, _load(condition), ast.Constant(which))
            return [ast.If(test, body, [])] if body else []

        statements = [
            ast.Assign([_store(condition)], _call("__vector_truth__", node, node.test)),
            ast.Assign([_store(before)], _call("__vector_grab__", node, *copy.deepcopy(grabbed))),
            *side(True, node.body),
            ast.Assign([_store(then)], _call("__vector_grab__", node, *copy.deepcopy(grabbed))),
            put(_load(before)),
            *side(False, node.orelse),
            put(
                _call(
                    "__vector_merge__",
                    node,
                    _load(condition),
                    _load(then),
                    _call("__vector_grab__", node, *grabbed),
                )
            ),
        ]
        return [ast.copy_location(each, node) for each in statements]


def _returns_at_end(body: list[ast.stmt], budget: list[int]) -> list[ast.stmt]:
    """Return a body in which every return is an assignment in tail position."""
    out: list[ast.stmt] = []
    for place, statement in enumerate(body):
        budget[0] -= 1
        if budget[0] < 0:
            raise _Unchanged
        if isinstance(statement, ast.Return):
            value = statement.value or ast.Constant(None)
            return [*out, ast.copy_location(ast.Assign([_store(_RESULT)], value), statement)]
        if not _has_return(statement):
            out.append(statement)
            continue
        if not isinstance(statement, ast.If):
            raise _Unchanged
        rest = body[place + 1 :]
        sides = [
            _returns_at_end(side if _ends(side) else [*side, *copy.deepcopy(rest)], budget)
            for side in (statement.body, statement.orelse)
        ]
        return [*out, ast.copy_location(ast.If(statement.test, *sides), statement)]
    nothing = ast.Assign([_store(_RESULT)], ast.Constant(None))
    return [*out, ast.copy_location(nothing, body[-1]) if body else nothing]


def _has_return(node: ast.AST) -> bool:
    if isinstance(node, ast.Return):
        return True
    if isinstance(node, ast.FunctionDef | ast.Lambda | ast.ClassDef):
        return False
    return any(map(_has_return, ast.iter_child_nodes(node)))


def _ends(body: list[ast.stmt]) -> bool:
    """Say whether a body always returns."""
    if not body:
        return False
    last = body[-1]
    if isinstance(last, ast.If):
        return _ends(last.body) and _ends(last.orelse)
    return isinstance(last, ast.Return)


def _assigned(body: list[ast.stmt]) -> list[str] | None:
    """Return the names that statements give values to; None where they do anything else as well."""
    names: dict[str, None] = {}
    for statement in body:
        match statement:
            case ast.Pass() | ast.Expr(value=ast.Constant()):
                assigned: list[str] | None = []
            case ast.Assign(targets=targets):
                assigned = _targets(targets)
            case ast.AugAssign(target=target):
                assigned = _targets([target])
            case ast.AnnAssign(target=target) if statement.value is not None:
                assigned = _targets([target])
            case ast.If():
                assigned = _assigned([*statement.body, *statement.orelse])
            case ast.For(target=target, orelse=[]):
                inner, own = _assigned(statement.body), _targets([target])
                assigned = None if inner is None or own is None else [*own, *inner]
            case _:
                assigned = None
        if assigned is None:
            return None
        names.update(dict.fromkeys(assigned))
    return list(names)


def _targets(targets: list[ast.expr]) -> list[str] | None:
    names: list[str] = []
    for target in targets:
        match target:
            case ast.Name(id=name) | ast.Subscript(value=ast.Name(id=name)):
                names.append(name)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                inner = _targets(parts)
                if inner is None:
                    return None
                names += inner
            case _:
                return None
    return names


def _listed(node: Any) -> Sequence[Any]:
    return node if is_row(node) else [node]


def _load(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def _store(name: str) -> ast.Name:
    return ast.Name(name, ast.Store())


def _lazy(node: ast.expr) -> ast.Lambda:
    nothing = ast.arguments([], [], None, [], [], None, [])
    return ast.copy_location(ast.Lambda(nothing, node), node)


def _call(name: str, place: ast.AST, *args: ast.expr) -> ast.Call:
    return ast.copy_location(ast.Call(_load(name), list(args), []), place)
