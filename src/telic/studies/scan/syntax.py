"""What one Python file says, from its syntax tree: imports, calls, classes, flags, guards."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeGuard, cast

from telic.studies.scan.vocabulary import VOCABULARY


class Unknown:
    """Stands for a value that the text alone does not give."""

    def __repr__(self) -> str:
        return "?"


UNKNOWN = Unknown()

_MAPPINGS = VOCABULARY.words("mapping_calls")


class Guard(NamedTuple):
    """A condition under which code runs: the names it reads and what they are compared with."""

    names: tuple[str, ...]
    constants: tuple[Any, ...]
    holds: bool
    """False: the code runs when the condition does not hold"""


class CallSite(NamedTuple):
    """A call, with its name written out through the imports."""

    path: str
    name: str
    line: int
    scope: str
    args: tuple[Any, ...]
    keywords: dict[str, Any]
    guards: tuple[Guard, ...]

    @property
    def last(self) -> str:
        """The last part of the name."""
        return self.name.rpartition(".")[2]


class Assignment(NamedTuple):
    """A name given a value."""

    path: str
    target: str
    line: int
    scope: str
    value: Any
    """a literal, the name of what is called or read in angle brackets, or UNKNOWN"""
    computed: bool
    """whether arithmetic or a call makes the value, not a plain hand-over or unpacking"""
    annotation: str | None
    keywords: dict[str, Any]
    """what the call that makes the value is given"""
    condition: tuple[Guard, ...] = ()
    """what the value says when it is a condition"""


class Function(NamedTuple):
    """A function or method."""

    path: str
    name: str
    scope: str
    line: int
    end: int
    arguments: tuple[str, ...]
    defaults: dict[str, Any]
    decorators: tuple[str, ...]

    @property
    def full_name(self) -> str:
        """The name with the scopes around it."""
        return f"{self.scope}.{self.name}".lstrip(".")


class Class(NamedTuple):
    """A class with the names of its bases."""

    path: str
    name: str
    scope: str
    line: int
    bases: tuple[str, ...]
    decorators: tuple[str, ...]

    @property
    def full_name(self) -> str:
        """The name with the scopes around it."""
        return f"{self.scope}.{self.name}".lstrip(".")


class Handler(NamedTuple):
    """An `except` block: what it catches, and whether the error goes no further."""

    path: str
    caught: str
    line: int
    swallows: bool
    tried: tuple[str, ...]
    """last names of the calls in the `try` body"""


@dataclass(slots=True)
class ModuleFacts:
    """Everything the scan keeps of one file."""

    path: str
    imports: dict[str, str] = field(default_factory=dict[str, str])
    """local name to dotted origin; relative ones are resolved"""
    import_lines: dict[str, int] = field(default_factory=dict[str, int])
    optional_imports: set[str] = field(default_factory=set[str])
    """imported in a `try` that forgives the package's absence"""
    calls: list[CallSite] = field(default_factory=list[CallSite])
    functions: list[Function] = field(default_factory=list[Function])
    classes: list[Class] = field(default_factory=list[Class])
    assignments: list[Assignment] = field(default_factory=list[Assignment])
    handlers: list[Handler] = field(default_factory=list[Handler])
    main_guard: int | None = None
    broken: str | None = None
    """why the file could not be parsed"""


def is_symbol(value: Any) -> TypeGuard[str]:
    """Whether a value is the name of what is called or read, not a plain one."""
    return isinstance(value, str) and value.startswith("<")


def as_list(value: Any) -> list[Any]:
    """Return a list as it is, anything else as a list of one."""
    return cast("list[Any]", value) if isinstance(value, list) else [value]


def is_table(value: Any) -> TypeGuard[dict[str, Any]]:
    """Whether a value is a dictionary that the text spells out."""
    return isinstance(value, dict)


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
    if isinstance(left, int | float) and isinstance(right, int | float) and abs(right) < 64:
        return left**right if isinstance(node.op, ast.Pow) else left * right
    if isinstance(left, int | float) and isinstance(right, int | float):
        return left * right if isinstance(node.op, ast.Mult) else UNKNOWN
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
