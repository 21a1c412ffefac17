"""The text of a reward, and what can be read from it without running it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from telic.sandbox.allowed import words
from telic.sandbox.source import source_lines

_REDUCTIONS = words("sum mean max min amax amin std var prod norm any all median")
_DIMENSION = words("dim axis keepdim keepdims")
_CHANCE = ("random.", "time.", "datetime.", "np.random.", "numpy.random.", "torch.rand")


class Place(NamedTuple):
    """A line of the source, and the name or expression of interest on it."""

    line: int
    what: str


class Source:
    """Text of a reward, and the facts that messages about it need."""

    def __init__(self, text: str, label: str, filename: str) -> None:
        """Parse a text.

        Args:
            text: the source code.
            label: how messages call it, e.g. reward.py.
            filename: how tracebacks call it; unique.
        """
        self.text, self.label, self.filename = text, label, filename
        self.tree = ast.parse(text)
        self._nodes = list(ast.walk(self.tree))
        self.strings = frozenset(
            each.value
            for each in self._nodes
            if isinstance(each, ast.Constant) and isinstance(each.value, str)
        )
        """every string constant: info values are named by some of these"""
        parameters = {each.arg for each in self._nodes if isinstance(each, ast.arg)}
        signatures = [each for each in self._nodes if isinstance(each, ast.arguments)]
        self.reads_simulator = bool({"mj_data", "mj_model"} & (self.strings | parameters)) or any(
            len(each.args) >= 6 for each in signatures
        )
        self.is_batched = any(map(_is_batched, self._nodes))
        """whether something shows that the author meant all environments at once"""
        self.keys: dict[str, int] = {}
        """every constant dictionary key: the line its value is on"""
        self.terms: dict[str, int] = {}
        """those of the dictionary that is returned"""
        self._find_terms()

    def line(self, number: int) -> str:
        """Return one line of the text, without its indentation."""
        lines = source_lines(self.text)
        return lines[number - 1].strip() if 0 < number <= len(lines) else ""

    def term_line(self, name: str) -> int | None:
        """Return the line on which a term gets its value."""
        return self.terms.get(name, self.keys.get(name))

    def written_line(self, name: str) -> int | None:
        """Return the last line on which a variable or attribute is set."""
        lines = [
            node.lineno
            for node in self._nodes
            if (isinstance(node, ast.Name) and node.id == name)
            or (isinstance(node, ast.Attribute) and node.attr == name)
            if isinstance(node.ctx, ast.Store)
        ]
        return max(lines, default=None)

    def optional_info(self) -> list[Place]:
        """Return names read with `info.get`, whose default hides that they may not exist."""
        return [
            Place(node.lineno, str(node.args[0].value))
            for node in self._nodes
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "info.get"
            if node.args and isinstance(node.args[0], ast.Constant)
        ]

    def reduction(self) -> Place | None:
        """Return the first sum, mean, … over everything, environments included."""
        for node in self._nodes:
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            callee = ast.unparse(node.func)
            named = {each.arg for each in node.keywords} & _DIMENSION
            values = int(callee.startswith(("torch.", "np.", "numpy.")))
            if node.func.attr in _REDUCTIONS and len(node.args) == values and not named:
                return Place(node.lineno, ast.unparse(node))
        return None

    def chance(self) -> Place | None:
        """Return the first use of random numbers or of the clock."""
        for node in self._nodes:
            if isinstance(node, ast.Attribute):
                name = ast.unparse(node)
                if name.startswith(_CHANCE) or name == "torch.normal":
                    return Place(node.lineno, name)
        return None

    def _find_terms(self) -> None:
        returned = {
            second.id if isinstance(second, ast.Name) else ""
            for node in self._nodes
            if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple)
            for second in node.value.elts[1:2]
        }
        in_functions = {
            id(inner)
            for outer in self._nodes
            if isinstance(outer, ast.FunctionDef | ast.Lambda)
            for inner in ast.walk(outer)
        }
        for key, node, owner in _dictionary_keys(self._nodes):
            self.keys.setdefault(key, node.lineno)
            if owner in returned and id(node) in in_functions:
                self.terms.setdefault(key, node.lineno)


def _is_batched(node: ast.AST) -> bool:
    match node:
        case ast.Name(id="torch") | ast.keyword(arg="dim" | "keepdim"):
            return True
        case ast.Subscript(slice=ast.Tuple(elts=[ast.Slice(None, None, None), *_])):
            return True
        case ast.Subscript(slice=ast.Tuple(elts=[ast.Constant(value=first), *_])):
            return first is Ellipsis
        case ast.ClassDef():
            stored = (each for line in node.body for each in ast.walk(line))
            return any(
                isinstance(each, ast.Name)
                and each.id in ("memory", "weights")
                and isinstance(each.ctx, ast.Store)
                for each in stored
            )
        case _:
            return False


def _owners(nodes: list[ast.AST]) -> dict[int, str]:
    """Return the name each expression is assigned to, by the id of its node; "" when returned."""
    owners: dict[int, str] = {}
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=name), *_], value=value):
                owners[id(value)] = name
            case ast.AnnAssign(target=ast.Name(id=name), value=value):
                owners[id(value)] = name
            case ast.Return(value=ast.Tuple(elts=values)):
                owners.update(dict.fromkeys(map(id, values), ""))
            case _:
                pass
    return owners


def _dictionary_keys(nodes: list[ast.AST]) -> Iterator[tuple[str, ast.expr, str | None]]:
    """Yield (key, its value or place, name of the dictionary) for constant keys."""
    owners = _owners(nodes)
    for node in nodes:
        match node:
            case ast.Dict():
                for key, value in zip(node.keys, node.values, strict=True):
                    if isinstance(key, ast.Constant) and isinstance(key.value, str):
                        yield key.value, value, owners.get(id(node))
            case ast.Call(func=ast.Name(id="dict")):
                for keyword in node.keywords:
                    if keyword.arg:
                        yield keyword.arg, keyword.value, owners.get(id(node))
            case ast.Subscript(ctx=ast.Store(), slice=ast.Constant(value=str() as key)):
                target = node.value
                yield key, node, target.id if isinstance(target, ast.Name) else None
            case _:
                pass
