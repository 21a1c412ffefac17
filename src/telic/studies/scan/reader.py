"""One walk over a syntax tree that gathers a file's facts."""

from __future__ import annotations

import ast
import warnings
from typing import Any

from telic.studies.scan.facts import (
    EACH,
    Assignment,
    BranchCondition,
    CallSite,
    Class,
    Function,
    Guard,
    Handler,
    ModuleFacts,
)
from telic.studies.scan.source import VOCABULARY
from telic.studies.scan.values import condition, dotted, guards, literal

_FIELDS: dict[type[ast.AST], tuple[str, ...]] = {ast.Name: (), ast.Constant: ()}
"""fields of each kind of node that hold expressions; ast.iter_child_nodes takes twice as long"""
_NO_EXPRESSION = VOCABULARY.words("no_expression")
_STATEMENTS = frozenset({"body", "orelse", "finalbody", "handlers", "cases"})
_FILES = (".yaml", ".yml")
_EXITS = frozenset({"sys.exit", "exit", "quit", "os._exit"})
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
        self.returns: list[list[Any]] = []
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
                self._loop(node)
            case ast.With() | ast.AsyncWith():
                self._expressions(node)
                self.block(node.body)
            case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
                self._assign(node)
                self._expressions(node)
            case ast.Match():
                self._expressions(node)
                self._cases(node)
            case ast.Return(value=value):
                if self.returns and value is not None:
                    self.returns[-1].append(literal(value))
                self._expressions(node)
            case _:
                self._expressions(node)

    def _cases(self, node: ast.Match) -> None:
        """A case that is a constant is a comparison; any other says nothing certain."""
        for case in node.cases:
            test = ast.Constant(value=True)
            if isinstance(case.pattern, ast.MatchValue):
                test = ast.Compare(node.subject, [ast.Eq()], [case.pattern.value])
            outside = len(self.guards)
            self.guards += guards(test, holds=True)
            self.block(case.body)
            del self.guards[outside:]

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
        for default in (*spec.defaults, *filter(None, spec.kw_defaults)):
            self._expressions(default)
        names = [each.arg for each in (*spec.posonlyargs, *spec.args)]
        defaults = dict(
            zip(names[len(names) - len(spec.defaults) :], map(literal, spec.defaults), strict=True)
        )
        for name, value in zip(spec.kwonlyargs, spec.kw_defaults, strict=True):
            names.append(name.arg)
            if value is not None:
                defaults[name.arg] = literal(value)
        every = (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)
        annotations = {each.arg: ast.unparse(each.annotation) for each in every if each.annotation}
        returns: list[Any] = []
        self.facts.functions.append(
            Function(
                self.facts.path,
                node.name,
                self._where(),
                node.lineno,
                tuple(names),
                defaults,
                self._decorators(node),
                self._marks(node),
                annotations,
                returns,
            )
        )
        self.returns.append(returns)
        self._inside(node.name, node.body)
        self.returns.pop()

    def _class(self, node: ast.ClassDef) -> None:
        bases = tuple(self._full(dotted(base)) for base in node.bases)
        where, names = self._where(), self._decorators(node)
        for decorator in node.decorator_list:
            self._expressions(decorator)
        self.facts.classes.append(
            Class(self.facts.path, node.name, where, node.lineno, bases, names, self._marks(node))
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
        after = len(self.facts.calls)
        for handler in node.handlers:
            caught = dotted(handler.type) if handler.type else ""
            if isinstance(handler.type, ast.Tuple):
                kinds = [dotted(each) for each in handler.type.elts]
                caught = next((each for each in kinds if each.endswith("Exception")), kinds[0])
            swallows = not _raises(handler.body) and not _fails(handler.body)
            self.facts.handlers.append(
                Handler(self.facts.path, caught, handler.lineno, swallows, before, after)
            )
            self.block(handler.body)
        if any(_exits(statement) == 0 for statement in node.finalbody):
            line = node.finalbody[0].lineno
            self.facts.handlers.append(Handler(self.facts.path, "", line, True, before, after))
        self.block(node.orelse)
        self.block(node.finalbody)

    def _assign(self, node: ast.Assign | ast.AnnAssign | ast.AugAssign) -> None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        value = node.value
        keywords: dict[str, Any] = {}
        if isinstance(value, ast.Call):
            keywords = {each.arg: literal(each.value) for each in value.keywords if each.arg}
        asked: BranchCondition | None = None
        if isinstance(value, ast.Compare | ast.BoolOp | ast.UnaryOp | ast.Attribute | ast.Name):
            asked = condition(value)
        annotation = ast.unparse(node.annotation) if isinstance(node, ast.AnnAssign) else None
        augments = isinstance(node, ast.AugAssign)
        path, where, line = self.facts.path, self._where(), node.lineno
        for target in targets:
            if isinstance(target, ast.Tuple | ast.List):
                self._unpack(target.elts, value, line, augments=augments)
                continue
            computed = augments or isinstance(value, _COMPUTING)
            self.facts.assignments.append(
                Assignment(
                    path,
                    dotted(target),
                    line,
                    where,
                    literal(value),
                    computed,
                    annotation,
                    keywords,
                    asked,
                    augments=augments,
                )
            )

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While) -> None:
        """`for x in values` gives x each of them in turn."""
        self._expressions(node)
        target = None if isinstance(node, ast.While) else node.target
        if isinstance(target, ast.Name) and not isinstance(node, ast.While):
            place = (self.facts.path, target.id, node.lineno, self._where())
            each = Assignment(*place, literal(node.iter), False, None, {}, part=EACH)
            self.facts.assignments.append(each)
        self.block(node.body)
        self.block(node.orelse)

    def _unpack(
        self, names: list[ast.expr], value: ast.expr | None, line: int, *, augments: bool
    ) -> None:
        """`a, b = x, y` gives each its own; `a, b = f()` parts of one value."""
        parts = value.elts if isinstance(value, ast.Tuple) and len(value.elts) == len(names) else []
        whole = literal(value)
        for index, name in enumerate(names):
            written = literal(parts[index]) if parts else whole
            computed = augments or (bool(parts) and isinstance(parts[index], _COMPUTING))
            position = None if parts else index
            place = (self.facts.path, dotted(name), line, self._where())
            self.facts.assignments.append(
                Assignment(*place, written, computed, None, {}, part=position)
            )

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
            elif isinstance(each, ast.JoinedStr | ast.Constant):
                self._text(each)
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
        self.facts.calls.append(self._site(node))

    def _text(self, node: ast.JoinedStr | ast.Constant) -> None:
        """Keep names of files."""
        text = literal(node)
        if isinstance(text, str) and text.endswith(_FILES) and len(text) < 200:
            self.facts.texts.append((self._where(), text, node.lineno))

    def _site(self, node: ast.Call) -> CallSite:
        name, where = self._full(dotted(node.func)), self._where()
        args = tuple(literal(argument) for argument in node.args[:6])
        keywords = {word.arg: literal(word.value) for word in node.keywords if word.arg}
        path, held = self.facts.path, tuple(self.guards)
        return CallSite(path, name, node.lineno, where, args, keywords, held)

    def _marks(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    ) -> tuple[CallSite, ...]:
        return tuple(self._site(each) for each in node.decorator_list if isinstance(each, ast.Call))

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


def _fails(body: list[ast.stmt]) -> bool:
    """Whether a handler ends the command with an exit code that says so."""
    for statement in body:
        if isinstance(statement, ast.Return) and isinstance(statement.value, ast.Constant):
            code = statement.value.value
            if isinstance(code, int) and not isinstance(code, bool) and code != 0:
                return True
        code = _exits(statement)
        if code is not None and code != 0:
            return True
    return False


def _exits(statement: ast.stmt) -> Any:
    """The exit code of a statement that ends the process; None when it does not."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or dotted(call.func) not in _EXITS:
        return None
    return literal(call.args[0]) if call.args else 0


def _raises(body: list[ast.stmt]) -> bool:
    return any(isinstance(each, ast.Raise) for statement in body for each in ast.walk(statement))
