"""One walk over a syntax tree that gathers a file's facts, and the values its text spells out."""

from __future__ import annotations

import ast
import warnings
from typing import Any

from telic.studies.scan.source import (
    UNKNOWN,
    VOCABULARY,
    Assignment,
    CallSite,
    Class,
    Function,
    Guard,
    Handler,
    ModuleFacts,
)

_FIELDS: dict[type[ast.AST], tuple[str, ...]] = {ast.Name: (), ast.Constant: ()}
"""fields of each kind of node that hold expressions; ast.iter_child_nodes takes twice as long"""
_NO_EXPRESSION = VOCABULARY.words("no_expression")
_STATEMENTS = frozenset({"body", "orelse", "finalbody", "handlers", "cases"})
_MAPPINGS = VOCABULARY.words("mapping_calls")
_COMPUTING = (ast.BinOp, ast.Call, ast.UnaryOp, ast.IfExp, ast.Compare, ast.BoolOp)


def read_module(path: str, text: str) -> ModuleFacts:
    """Parse a file; one that does not parse says why and is otherwise empty."""
    facts = ModuleFacts(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError) as error:
        facts.broken = str(error)
        return facts
    _Reader(facts).block(tree.body)
    return facts


class _Reader:
    """Keeps where the walk is: scope, conditions, and forgiven errors."""

    def __init__(self, facts: ModuleFacts) -> None:
        self.facts = facts
        self.scope: list[str] = []
        self.guards: list[Guard] = []
        self.tries = 0
        self.package = facts.path.removesuffix(".py").split("/")[:-1]

    def block(self, statements: list[ast.stmt]) -> None:
        """Read statements; after `if x: return` the rest runs only when x does not hold."""
        pushed = 0
        for statement in statements:
            self.statement(statement)
            if isinstance(statement, ast.If) and not statement.orelse and _leaves(statement.body):
                without = guards(statement.test, holds=False)
                self.guards += without
                pushed += len(without)
        del self.guards[len(self.guards) - pushed :]

    def statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Import() | ast.ImportFrom():
                self._import(node)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._function(node)
            case ast.ClassDef():
                self._class(node)
            case ast.If():
                self._if(node)
            case ast.Try():
                self._try(node)
            case ast.For() | ast.While() | ast.AsyncFor():
                self._expressions(node)
                self.block(node.body)
                self.block(node.orelse)
            case ast.With() | ast.AsyncWith():
                self._expressions(node)
                self.block(node.body)
            case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
                self._assign(node)
                self._expressions(node)
            case ast.Match():
                self._expressions(node)
                for case in node.cases:
                    self.block(case.body)
            case _:
                self._expressions(node)

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        base = ""
        if isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                up = self.package[: len(self.package) - node.level + 1]
                base = ".".join([*up, base]).strip(".")
        for alias in node.names:
            origin = f"{base}.{alias.name}" if base else alias.name
            top = alias.name.partition(".")[0]
            local = alias.asname or (alias.name if base else top)
            self.facts.imports[local] = origin if alias.asname or base else top
            self.facts.import_lines.setdefault(origin, node.lineno)
            if self.tries:
                self.facts.optional_imports.add(origin)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for decorator in node.decorator_list:
            self._expressions(decorator)
        spec = node.args
        names = [each.arg for each in (*spec.posonlyargs, *spec.args)]
        defaults = dict(
            zip(names[len(names) - len(spec.defaults) :], map(literal, spec.defaults), strict=True)
        )
        for name, value in zip(spec.kwonlyargs, spec.kw_defaults, strict=True):
            names.append(name.arg)
            if value is not None:
                defaults[name.arg] = literal(value)
        where, taken, marks = self._where(), tuple(names), self._decorators(node)
        self.facts.functions.append(
            Function(self.facts.path, node.name, where, node.lineno, taken, defaults, marks)
        )
        self._inside(node.name, node.body)

    def _class(self, node: ast.ClassDef) -> None:
        bases = tuple(self._full(dotted(base)) for base in node.bases)
        where, marks = self._where(), self._decorators(node)
        self.facts.classes.append(
            Class(self.facts.path, node.name, where, node.lineno, bases, marks)
        )
        self._inside(node.name, node.body)

    def _inside(self, name: str, body: list[ast.stmt]) -> None:
        outer = self.guards
        self.scope.append(name)
        self.guards = []
        self.block(body)
        self.scope.pop()
        self.guards = outer

    def _if(self, node: ast.If) -> None:
        test = node.test
        if not self.scope and isinstance(test, ast.Compare) and dotted(test.left) == "__name__":
            self.facts.main_guard = node.lineno
        self._expressions(node.test)
        outside = len(self.guards)
        for body, holds in ((node.body, True), (node.orelse, False)):
            self.guards += guards(node.test, holds=holds)
            self.block(body)
            del self.guards[outside:]

    def _try(self, node: ast.Try) -> None:
        forgiving = any(not _raises(handler.body) for handler in node.handlers)
        self.tries += forgiving
        before = len(self.facts.calls)
        self.block(node.body)
        self.tries -= forgiving
        tried = tuple(call.last for call in self.facts.calls[before:])
        for handler in node.handlers:
            caught = dotted(handler.type) if handler.type else ""
            swallows = not _raises(handler.body)
            self.facts.handlers.append(
                Handler(self.facts.path, caught, handler.lineno, swallows, tried)
            )
            self.block(handler.body)
        self.block(node.orelse)
        self.block(node.finalbody)

    def _assign(self, node: ast.Assign | ast.AnnAssign | ast.AugAssign) -> None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        value = node.value
        keywords: dict[str, Any] = {}
        if isinstance(value, ast.Call):
            keywords = {each.arg: literal(each.value) for each in value.keywords if each.arg}
        condition: tuple[Guard, ...] = ()
        if isinstance(value, ast.Compare | ast.BoolOp | ast.UnaryOp | ast.Attribute):
            condition = tuple(guards(value, holds=True))
        annotation = ast.unparse(node.annotation) if isinstance(node, ast.AnnAssign) else None
        is_computed = isinstance(node, ast.AugAssign)
        path, where, line = self.facts.path, self._where(), node.lineno
        for target in targets:
            names, written = [target], literal(value)
            computed = is_computed or isinstance(value, _COMPUTING)
            if isinstance(target, ast.Tuple | ast.List):
                names, written, computed = target.elts, UNKNOWN, is_computed
            made = (written, computed, annotation, keywords, condition)
            self.facts.assignments += [
                Assignment(path, dotted(name), line, where, *made) for name in names
            ]

    def _expressions(self, node: ast.AST) -> None:
        """Gather the calls of a statement, not those of statements inside it."""
        stack: list[ast.AST | None] = [node]
        while stack:
            each = stack.pop()
            if each is None:
                continue
            kind = type(each)
            if isinstance(each, ast.Call):
                self._call(each)
            fields = _FIELDS.get(kind)
            if fields is None:
                fields = _FIELDS[kind] = _expression_fields(kind)
            for name in fields:
                value = getattr(each, name)
                if type(value) is list:
                    stack += value
                else:
                    stack.append(value)

    def _call(self, node: ast.Call) -> None:
        name, where = self._full(dotted(node.func)), self._where()
        args = tuple(literal(argument) for argument in node.args[:6])
        keywords = {word.arg: literal(word.value) for word in node.keywords if word.arg}
        self.facts.calls.append(
            CallSite(self.facts.path, name, node.lineno, where, args, keywords, tuple(self.guards))
        )

    def _full(self, name: str) -> str:
        head, dot, rest = name.partition(".")
        return f"{self.facts.imports.get(head, head)}{dot}{rest}"

    def _where(self) -> str:
        return ".".join(self.scope)

    def _decorators(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    ) -> tuple[str, ...]:
        return tuple(
            self._full(dotted(each.func if isinstance(each, ast.Call) else each))
            for each in node.decorator_list
        )


def _expression_fields(kind: type[ast.AST]) -> tuple[str, ...]:
    skipped = _NO_EXPRESSION | _STATEMENTS if issubclass(kind, ast.stmt) else _NO_EXPRESSION
    return tuple(name for name in kind._fields if name not in skipped)


def _leaves(body: list[ast.stmt]) -> bool:
    return bool(body) and isinstance(body[-1], ast.Return | ast.Raise | ast.Continue)


def _raises(body: list[ast.stmt]) -> bool:
    return any(isinstance(each, ast.Raise) for statement in body for each in ast.walk(statement))


def literal(node: ast.AST | None) -> Any:
    """Return the value a node spells out; names and calls come as `<name>`, the rest as UNKNOWN."""
    match node:
        case ast.Constant(value=value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return -value
        case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
            return [literal(each) for each in items] if len(items) <= 64 else UNKNOWN
        case ast.Dict(keys=keys, values=values) if len(keys) <= 128:
            return {
                key.value: literal(value)
                for key, value in zip(keys, values, strict=True)
                if isinstance(key, ast.Constant) and isinstance(key.value, str)
            }
        case ast.Name() | ast.Attribute():
            return f"<{dotted(node)}>"
        case ast.Call(func=func):
            return _constructed(node, func)
        case ast.JoinedStr(values=parts):
            return "".join(
                str(part.value) if isinstance(part, ast.Constant) else _hole(part) for part in parts
            )
        case ast.BinOp(op=ast.Mult() | ast.Pow()):
            return _product(node)
        case _:
            return UNKNOWN


def _hole(part: ast.expr) -> str:
    inner = part.value if isinstance(part, ast.FormattedValue) else part
    return "{" + (dotted(inner.func) if isinstance(inner, ast.Call) else dotted(inner)) + "}"


def _constructed(node: ast.Call, func: ast.expr) -> Any:
    """Unwrap the usual ways to write a default: int(1e6), field(default=…), x.get(key, …)."""
    name = dotted(func)
    last = name.rpartition(".")[2]
    if last in {"int", "float", "str", "Path"} and len(node.args) == 1:
        return literal(node.args[0])
    if last == "field":
        for keyword in node.keywords:
            value = keyword.value
            if keyword.arg == "default":
                return literal(value)
            if keyword.arg == "default_factory":
                return literal(value.body if isinstance(value, ast.Lambda) else value)
        return UNKNOWN
    if last in {"get", "pop", "getattr", "setdefault"} and len(node.args) > 1:
        return literal(node.args[-1])
    if last in _MAPPINGS and node.keywords and not node.args:
        return {each.arg: literal(each.value) for each in node.keywords if each.arg}
    if name.endswith("path.join"):
        parts = [literal(each) for each in node.args]
        return "/".join(part if isinstance(part, str) else "{?}" for part in parts)
    return f"<{name}>"


def _product(node: ast.BinOp) -> Any:
    left, right = literal(node.left), literal(node.right)
    if isinstance(left, int | float) and isinstance(right, int | float):
        if isinstance(node.op, ast.Mult):
            return left * right
        if abs(right) < 64:
            return left**right
    return UNKNOWN


def guards(test: ast.expr, *, holds: bool) -> list[Guard]:
    """Return what must be so for a branch to run; `a or b` says nothing certain of either."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return guards(test.operand, holds=not holds)
    if isinstance(test, ast.BoolOp):
        if isinstance(test.op, ast.And) != holds:
            return []
        return [each for value in test.values for each in guards(value, holds=holds)]
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.NotEq | ast.IsNot | ast.NotIn):
        holds = not holds
    if isinstance(test, ast.Call) and isinstance(value := literal(test), bool):
        return [Guard((f"<{value}>",), (), holds)]  # getattr(args, "use_it", False)
    if isinstance(test, ast.Name | ast.Attribute):
        return [Guard((dotted(test),), (), holds)]
    names: list[str] = []
    constants: list[Any] = []
    for each in ast.walk(test):
        if isinstance(each, ast.Attribute | ast.Name | ast.Subscript):
            names.append(dotted(each))
        elif isinstance(each, ast.Constant):
            constants.append(each.value)
    return [Guard(tuple(names), tuple(constants), holds)]


def dotted(node: ast.AST) -> str:
    """Return `a.b.c` of a name or attribute; what is not one shows as `?` or the called name."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        parts.append(node.id)
    elif isinstance(node, ast.Call):
        parts.append(dotted(node.func) + "()")
    elif isinstance(node, ast.Subscript):
        parts.append(dotted(node.value))
        if isinstance(node.slice, ast.Constant):
            parts[-1] += f".{node.slice.value}"
    else:
        parts.append("?")
    return ".".join(reversed(parts))
