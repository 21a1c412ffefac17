"""Read facts from a reward's source without running it: names it uses, the lines of its terms."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

_REDUCTIONS = frozenset(
    (
        "sum",
        "mean",
        "max",
        "min",
        "amax",
        "amin",
        "std",
        "var",
        "prod",
        "norm",
        "any",
        "all",
        "median",
    )
)
_LISTING = frozenset(("info.items", "info.keys", "info.values", "info.copy", "info.pop"))
_CONTAINERS = frozenset(("dict", "list", "sorted", "len", "set", "tuple"))


@dataclass(frozen=True, slots=True)
class Place:
    """A line of the source, and the name or expression of interest on it."""

    line: int
    what: str


@dataclass(slots=True)
class Scan:
    """What the source says, by line."""

    strings: frozenset[str] = frozenset()
    """every string constant: whatever info value is named, is named by one of these"""
    attributes: frozenset[str] = frozenset()
    """every attribute name: whatever field of mj_data is read, is one of these"""
    batched: list[Place] = field(default_factory=list)
    """signs that the author meant all environments at once"""
    simulator: bool = False
    """whether it may read mj_data or mj_model"""
    open_info: Place | None = None
    """where info is read by names that are not in the source"""
    optional_info: list[Place] = field(default_factory=list)
    """names asked of info with a default, which hides that they may not exist"""
    reductions: list[Place] = field(default_factory=list)
    """sums, means, … over everything, environments included"""
    random: list[Place] = field(default_factory=list)
    """uses of chance or of the clock"""
    terms: dict[str, int] = field(default_factory=dict)
    """terms in the dictionary that is returned: the line each is set on"""
    keys: dict[str, int] = field(default_factory=dict)
    """every constant dictionary key: the line its value is on"""

    def term_line(self, name: str) -> int | None:
        """Return the line on which a term gets its value."""
        return self.terms.get(name, self.keys.get(name))


def scan(tree: ast.AST) -> Scan:
    """Read the facts from a parsed source."""
    nodes = list(ast.walk(tree))
    found = Scan(
        strings=frozenset(
            each.value
            for each in nodes
            if isinstance(each, ast.Constant) and isinstance(each.value, str)
        ),
        attributes=frozenset(each.attr for each in nodes if isinstance(each, ast.Attribute)),
    )
    for node in nodes:
        _read_node(node, found)
    parameters = {each.arg for each in nodes if isinstance(each, ast.arg)}
    widest = max((len(each.args) for each in nodes if isinstance(each, ast.arguments)), default=0)
    named = {"mj_data", "mj_model"} & (found.strings | parameters)
    found.simulator = bool(named) or widest >= 6
    returned = _returned_names(nodes)
    in_functions = {
        id(inner)
        for outer in nodes
        if isinstance(outer, ast.FunctionDef | ast.Lambda)
        for inner in ast.walk(outer)
    }
    for key, node, owner in _dictionary_keys(nodes):
        found.keys.setdefault(key, node.lineno)
        if owner in returned and id(node) in in_functions:
            found.terms.setdefault(key, node.lineno)
    return found


def root_name(node: ast.AST) -> str | None:
    """Return the name an expression such as a.b[c].d starts with."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Starred):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def _read_node(node: ast.AST, found: Scan) -> None:
    match node:
        case ast.Name(id="torch"):
            found.batched.append(Place(node.lineno, "torch"))
        case ast.Call():
            _read_call(node, found)
        case ast.keyword(arg="dim" | "keepdim" as name):
            found.batched.append(Place(node.value.lineno, f"{name}="))
        case ast.Subscript(slice=ast.Tuple(elts=[ast.Slice(None, None, None), *_])):
            found.batched.append(Place(node.lineno, ast.unparse(node)))
        case ast.Subscript(slice=ast.Tuple(elts=[ast.Constant(value=e), *_])) if e is Ellipsis:
            found.batched.append(Place(node.lineno, ast.unparse(node)))
        case ast.Subscript(value=ast.Name(id="info"), slice=ast.JoinedStr() | ast.BinOp()):
            found.open_info = Place(node.lineno, ast.unparse(node))
        case ast.For() | ast.comprehension() if root_name(node.iter) == "info":
            found.open_info = Place(node.iter.lineno, ast.unparse(node.iter))
        case ast.ClassDef():
            for name in _class_assignments(node) & {"memory", "weights"}:
                found.batched.append(Place(node.lineno, name))
        case ast.Attribute() | ast.Name() if _is_chance(ast.unparse(node)):
            found.random.append(Place(node.lineno, ast.unparse(node)))
        case _:
            pass


def _read_call(node: ast.Call, found: Scan) -> None:
    callee = ast.unparse(node.func)
    if callee == "info.get" and node.args and isinstance(node.args[0], ast.Constant):
        found.optional_info.append(Place(node.lineno, str(node.args[0].value)))
    gives_info = any(isinstance(each, ast.Name) and each.id == "info" for each in node.args)
    if callee in _LISTING or (callee in _CONTAINERS and gives_info):
        found.open_info = Place(node.lineno, ast.unparse(node))
    named = {each.arg for each in node.keywords} & {"dim", "axis", "keepdim", "keepdims"}
    plain = len(node.args) == int(callee.startswith(("torch.", "np.", "numpy."))) and not named
    if "." in callee and callee.rpartition(".")[2] in _REDUCTIONS and plain:
        found.reductions.append(Place(node.lineno, ast.unparse(node)))


def _is_chance(name: str) -> bool:
    head, _, rest = name.partition(".")
    if head in {"random", "time", "datetime"}:
        return bool(rest)
    return name.startswith(("np.random.", "numpy.random.", "torch.rand", "torch.normal"))


def _class_assignments(node: ast.ClassDef) -> set[str]:
    return {
        target.id
        for statement in node.body
        if isinstance(statement, ast.Assign | ast.AnnAssign)
        for target in (
            statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        )
        if isinstance(target, ast.Name)
    }


def _returned_names(nodes: list[ast.AST]) -> set[str]:
    """Return the names of dictionaries returned as the second of two values; "" for a literal."""
    return {
        second.id if isinstance(second, ast.Name) else ""
        for node in nodes
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple)
        for second in node.value.elts[1:2]
    }


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
                yield key, node, root_name(node)
            case _:
                pass
