"""The values, names and conditions that a syntax tree spells out."""

from __future__ import annotations

import ast
from typing import Any

from telic.studies.scan.facts import UNKNOWN, Alternative, BranchCondition, Guard, Made
from telic.studies.scan.source import VOCABULARY

_MAPPINGS = VOCABULARY.words("mapping_calls")
_CASTS = frozenset({"int", "str", "float", "round", "repr"})
_COMPARISONS: dict[type[ast.cmpop], tuple[str, bool, bool]] = {
    ast.Eq: ("equal", True, False),
    ast.Is: ("equal", True, False),
    ast.NotEq: ("equal", False, False),
    ast.IsNot: ("equal", False, False),
    ast.In: ("within", True, False),
    ast.NotIn: ("within", False, False),
    ast.Lt: ("less", True, False),
    ast.GtE: ("less", False, False),
    ast.Gt: ("less", True, True),
    ast.LtE: ("less", False, True),
}
"""what each comparison asks, whether it wants yes, and whether its sides are swapped"""


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
        case ast.Name() | ast.Attribute() | ast.Subscript():
            return f"<{dotted(node)}>"
        case ast.Call(func=func):
            return _constructed(node, func)
        case ast.JoinedStr(values=parts):
            return "".join(
                str(part.value) if isinstance(part, ast.Constant) else _hole(part) for part in parts
            )
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return Alternative(condition(test), literal(body), literal(orelse))
        case ast.BoolOp(op=ast.Or(), values=[first, *rest]):
            return Alternative(None, literal(first), literal(rest[-1]))
        case ast.BinOp():
            return _computed(node)
        case ast.Lambda(body=body):
            return literal(body)
        case _:
            return UNKNOWN


def _hole(part: ast.expr) -> str:
    inner = part.value if isinstance(part, ast.FormattedValue) else part
    while isinstance(inner, ast.Call) and inner.args and dotted(inner.func) in _CASTS:
        inner = inner.args[0]
    return "{" + (dotted(inner.func) if isinstance(inner, ast.Call) else dotted(inner)) + "}"


def _constructed(node: ast.Call, func: ast.expr) -> Any:
    """Unwrap the usual ways to write a value: int(1e6), field(default=…), partial(f), x.get(…)."""
    name = dotted(func)
    last = name.rpartition(".")[2]
    if last in {"int", "float", "str", "Path", "abspath", "expanduser"} and len(node.args) == 1:
        return literal(node.args[0])
    if last == "partial" and node.args:
        return literal(node.args[0])
    if last in {"field", "Field", "Option", "Argument"}:
        return _declared(node)
    if last in {"get", "pop", "getattr", "setdefault"} and len(node.args) > 1:
        return _looked_up(node, func)
    is_mapping = last in _MAPPINGS and (last != "create" or "config_dict" in name)
    if is_mapping and node.keywords and not node.args:
        return {each.arg: literal(each.value) for each in node.keywords if each.arg}
    if name.endswith(("path.join", ".joinpath")):
        parts = [literal(each) for each in node.args]
        return "/".join(_part(part) for part in parts)
    made = Made(f"<{dotted(node).removesuffix('()')}>")
    made.args = tuple(literal(each) for each in node.args[:6])
    made.keywords = {each.arg: literal(each.value) for each in node.keywords if each.arg}
    return made


def _part(value: Any) -> str:
    if isinstance(value, str):
        return "{" + value.strip("<>") + "}" if value.startswith("<") else value
    return "{?}"


def _declared(node: ast.Call) -> Any:
    """The default of `field(default=…)`, `Field(…)`, `typer.Option(…)`."""
    for keyword in node.keywords:
        value = keyword.value
        if keyword.arg == "default":
            return literal(value)
        if keyword.arg == "default_factory":
            return literal(value.body if isinstance(value, ast.Lambda) else value)
    return literal(node.args[0]) if node.args else UNKNOWN


def _looked_up(node: ast.Call, func: ast.expr) -> Any:
    """`x.get("key", default)` and `getattr(x, "key", default)`: the setting, else the default."""
    owner = func.value if isinstance(func, ast.Attribute) else node.args[0]
    key = node.args[0] if isinstance(func, ast.Attribute) else node.args[1]
    if isinstance(func, ast.Name) and len(node.args) < 3:
        return f"<{dotted(node).removesuffix('()')}>"
    if isinstance(key, ast.Constant):
        return Alternative(None, f"<{dotted(owner)}.{key.value}>", literal(node.args[-1]))
    return Alternative(None, f"<{dotted(owner)}>", literal(node.args[-1]))


def _computed(node: ast.BinOp) -> Any:
    left, right = literal(node.left), literal(node.right)
    is_text = any(isinstance(each, str) and not each.startswith("<") for each in (left, right))
    is_number = any(isinstance(each, int | float) for each in (left, right))
    if isinstance(node.op, ast.Div) and is_text and not is_number:
        return f"{_part(left)}/{_part(right)}"
    if isinstance(node.op, ast.Add) and is_text and not is_number:
        return _part(left) + _part(right)
    if isinstance(left, int | float) and isinstance(right, int | float):
        if isinstance(node.op, ast.Mult):
            return left * right
        if isinstance(node.op, ast.Pow) and abs(right) < 64 and abs(left) < 1e6:
            return left**right
    return UNKNOWN


def condition(test: ast.expr) -> BranchCondition:
    """Return a condition as a tree."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return BranchCondition("not", parts=(condition(operand),))
        case ast.BoolOp(op=operator, values=values):
            kind = "and" if isinstance(operator, ast.And) else "or"
            return BranchCondition(kind, parts=tuple(condition(each) for each in values))
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            kind, wanted, swapped = _COMPARISONS[type(operator)]
            sides = (_side(left), _side(right))
            asked = BranchCondition(kind, parts=sides[::-1] if swapped else sides)  # pyright: ignore[reportArgumentType]
            return asked if wanted else BranchCondition("not", parts=(asked,))
        case ast.Call(func=ast.Name(id="isinstance" | "hasattr" | "callable")):
            return BranchCondition("unknown")
        case ast.Call(func=ast.Name(id="bool" | "len"), args=[inner]):
            return condition(inner)
        case _:
            return _side(test)


def _side(node: ast.expr) -> BranchCondition:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in {"lower", "upper", "strip"}:
            return _side(node.func.value)
        if node.func.attr in {"startswith", "endswith"}:
            return BranchCondition("unknown")
    value = literal(node)
    is_known = value is not UNKNOWN and not isinstance(value, Made)
    return BranchCondition("value", value) if is_known else BranchCondition("unknown")


def guards(test: ast.expr, *, holds: bool) -> list[Guard]:
    """Return what must be so for a branch to run, in as many parts as it has."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return guards(test.operand, holds=not holds)
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) == holds:
        return [each for value in test.values for each in guards(value, holds=holds)]
    asked = condition(test)
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.NotEq | ast.IsNot | ast.NotIn):
        if asked.kind == "not":
            asked = asked.parts[0]
        holds = not holds
    names: list[str] = []
    constants: list[Any] = []
    for each in ast.walk(test):
        if isinstance(each, ast.Attribute | ast.Name | ast.Subscript):
            names.append(dotted(each))
        elif isinstance(each, ast.Constant):
            constants.append(each.value)
    return [Guard(tuple(names), tuple(constants), holds, asked)]


def dotted(node: ast.AST) -> str:
    """Return `a.b.c` of a name or attribute; what is not one shows as `?` or the called name."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        parts.append(node.id)
    elif isinstance(node, ast.Call):
        parts.append(_called(node))
    elif isinstance(node, ast.Subscript):
        parts.append(dotted(node.value))
        if isinstance(node.slice, ast.Constant):
            parts[-1] += f".{node.slice.value}"
    else:
        parts.append("?")
    return ".".join(reversed(parts))


def _called(node: ast.Call) -> str:
    """The name of what a call gives: `f()`; of `partial(f, …)` or `getattr(x, "f")`, `f`."""
    name = dotted(node.func)
    last = name.rpartition(".")[2]
    if last in {"partial", "jit", "wraps"} and node.args:
        return dotted(node.args[0])
    if name == "getattr" and len(node.args) > 1:
        key = node.args[1]
        return f"{dotted(node.args[0])}.{key.value if isinstance(key, ast.Constant) else '*'}"
    return f"{name}()"
