"""The text of a reward, and what can be read from it without running it.

That is: the names it uses, the lines of its terms, and where it keeps values from one call to the
next outside `memory`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from telic.sandbox.allowed import words
from telic.sandbox.source import source_lines

_REDUCTIONS = words("sum mean max min amax amin std var prod norm any all median")
_LISTING = words("info.items info.keys info.values info.copy info.pop")
_CONTAINERS = words("dict list sorted len set tuple")
_MUTATORS = words("""
append appendleft extend insert pop popleft popitem clear update add remove discard setdefault sort
reverse fill
""")
_MODULES = words("np numpy torch math telic quantities mujoco")
"""names whose calls, e.g. np.append, return something new"""
_OWNED = words("memory weights")
"""attributes of a reward that the trainer resets and saves"""
_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


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
    batched: list[Place] = field(default_factory=list[Place])
    """signs that the author meant all environments at once"""
    simulator: bool = False
    """whether it may read mj_data or mj_model"""
    open_info: Place | None = None
    """where info is read by names that are not in the source"""
    optional_info: list[Place] = field(default_factory=list[Place])
    """names asked of info with a default, which hides that they may not exist"""
    reductions: list[Place] = field(default_factory=list[Place])
    """sums, means, … over everything, environments included"""
    random: list[Place] = field(default_factory=list[Place])
    """uses of chance or of the clock"""
    terms: dict[str, int] = field(default_factory=dict[str, int])
    """terms in the dictionary that is returned: the line each is set on"""
    keys: dict[str, int] = field(default_factory=dict[str, int])
    """every constant dictionary key: the line its value is on"""

    def term_line(self, name: str) -> int | None:
        """Return the line on which a term gets its value."""
        return self.terms.get(name, self.keys.get(name))


@dataclass(frozen=True)
class Source:
    """Text of a reward, and what can be read from it."""

    text: str
    label: str
    """how messages call it, e.g. reward.py"""
    filename: str
    """what tracebacks call it; unique"""
    first_line: int = 1
    tree: ast.Module = field(init=False)
    scan: Scan = field(init=False)
    kept: list[Place] = field(init=False)

    def __post_init__(self) -> None:
        tree = ast.parse(self.text)
        ast.increment_lineno(tree, self.first_line - 1)
        object.__setattr__(self, "tree", tree)
        object.__setattr__(self, "scan", scan(tree))
        object.__setattr__(self, "kept", kept_state(tree))

    def line(self, number: int) -> str:
        """Return one line of the text, without its indentation."""
        lines = source_lines(self.text)
        index = number - self.first_line
        return lines[index].strip() if 0 <= index < len(lines) else ""


def scan(tree: ast.AST) -> Scan:
    """Read the facts from a parsed source."""
    nodes = list(ast.walk(tree))
    facts = Scan(
        strings=frozenset(
            each.value
            for each in nodes
            if isinstance(each, ast.Constant) and isinstance(each.value, str)
        ),
        attributes=frozenset(each.attr for each in nodes if isinstance(each, ast.Attribute)),
    )
    for node in nodes:
        _read_node(node, facts)
    parameters = {each.arg for each in nodes if isinstance(each, ast.arg)}
    widest = max((len(each.args) for each in nodes if isinstance(each, ast.arguments)), default=0)
    named = {"mj_data", "mj_model"} & (facts.strings | parameters)
    facts.simulator = bool(named) or widest >= 6
    returned = _returned_names(nodes)
    in_functions = {
        id(inner)
        for outer in nodes
        if isinstance(outer, ast.FunctionDef | ast.Lambda)
        for inner in ast.walk(outer)
    }
    for key, node, owner in _dictionary_keys(nodes):
        facts.keys.setdefault(key, node.lineno)
        if owner in returned and id(node) in in_functions:
            facts.terms.setdefault(key, node.lineno)
    return facts


def root_name(node: ast.AST) -> str | None:
    """Return the name an expression such as a.b[c].d starts with."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Starred):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def _read_node(node: ast.AST, facts: Scan) -> None:
    match node:
        case ast.Name(id="torch"):
            facts.batched.append(Place(node.lineno, "torch"))
        case ast.Call():
            _read_call(node, facts)
        case ast.keyword(arg="dim" | "keepdim" as name):
            facts.batched.append(Place(node.value.lineno, f"{name}="))
        case ast.Subscript(slice=ast.Tuple(elts=[ast.Slice(None, None, None), *_])):
            facts.batched.append(Place(node.lineno, ast.unparse(node)))
        case ast.Subscript(slice=ast.Tuple(elts=[ast.Constant(value=e), *_])) if e is Ellipsis:
            facts.batched.append(Place(node.lineno, ast.unparse(node)))
        case ast.Subscript(value=ast.Name(id="info"), slice=ast.JoinedStr() | ast.BinOp()):
            facts.open_info = Place(node.lineno, ast.unparse(node))
        case ast.For() | ast.comprehension() if root_name(node.iter) == "info":
            facts.open_info = Place(node.iter.lineno, ast.unparse(node.iter))
        case ast.ClassDef():
            for name in _class_assignments(node) & {"memory", "weights"}:
                facts.batched.append(Place(node.lineno, name))
        case ast.Attribute() | ast.Name() if _is_chance(ast.unparse(node)):
            facts.random.append(Place(node.lineno, ast.unparse(node)))
        case _:
            pass


def _read_call(node: ast.Call, facts: Scan) -> None:
    callee = ast.unparse(node.func)
    if callee == "info.get" and node.args and isinstance(node.args[0], ast.Constant):
        facts.optional_info.append(Place(node.lineno, str(node.args[0].value)))
    gives_info = any(isinstance(each, ast.Name) and each.id == "info" for each in node.args)
    if callee in _LISTING or (callee in _CONTAINERS and gives_info):
        facts.open_info = Place(node.lineno, ast.unparse(node))
    named = {each.arg for each in node.keywords} & {"dim", "axis", "keepdim", "keepdims"}
    plain = len(node.args) == int(callee.startswith(("torch.", "np.", "numpy."))) and not named
    if "." in callee and callee.rpartition(".")[2] in _REDUCTIONS and plain:
        facts.reductions.append(Place(node.lineno, ast.unparse(node)))


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


def kept_state(tree: ast.AST) -> list[Place]:
    """Return the places in functions that change something which outlives the call."""
    loaded: set[str] = set()
    for each in ast.walk(tree):
        match each:
            case ast.Attribute(ctx=ast.Load(), attr=name):
                loaded.add(name)
            case ast.AugAssign(target=ast.Attribute(attr=name)):
                loaded.add(name)
            case _:
                pass
    places: list[Place] = []
    for function in ast.walk(tree):
        if isinstance(function, _Function) and getattr(function, "name", "") != "__init__":
            local = _local_names(function)
            for node in _own_nodes(function):
                places += _writes(node, local, loaded)
    return sorted(places, key=lambda place: place.line)


def _writes(node: ast.AST, local: set[str], loaded: set[str]) -> Iterator[Place]:
    match node:
        case ast.Nonlocal(names=names) | ast.Global(names=names):
            for name in names:
                yield Place(node.lineno, name)
        case ast.Attribute(ctx=ast.Store() | ast.Del(), attr=attr):
            # A value that is only ever written is a note to the reader, not state.
            if _outlives(node, local) and attr in loaded:
                yield Place(node.lineno, ast.unparse(node))
        case ast.Subscript(ctx=ast.Store() | ast.Del()) if _outlives(node, local):
            yield Place(node.lineno, ast.unparse(node.value))
        case ast.Call(func=ast.Attribute(attr=attr, value=base)) if attr in _MUTATORS:
            if _outlives(base, local):
                yield Place(node.lineno, ast.unparse(base))
        case ast.Call(func=ast.Name(id="setattr" | "next"), args=[first, *_]):
            if _outlives(first, local):
                yield Place(node.lineno, ast.unparse(node))
        case _:
            pass


def _outlives(node: ast.AST, local: set[str]) -> bool:
    """Say whether the object an expression names lives longer than the call."""
    root = root_name(node)
    if root == "self":
        owner = ast.unparse(node).split(".")[1:2]
        return not (owner and owner[0].split("[")[0] in _OWNED)
    return root is not None and root not in local and root not in _MODULES


def _own_nodes(function: _Function) -> Iterator[ast.AST]:
    """Walk a function without the functions inside it."""
    waiting: list[ast.AST] = list(function.body if isinstance(function.body, list) else [])
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, _Function | ast.ClassDef):
            waiting.extend(ast.iter_child_nodes(node))


def _local_names(function: _Function) -> set[str]:
    """Return the names that begin to exist with the call; a parameter with a default does not."""
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    names = {each.arg for each in positional[: len(positional) - len(arguments.defaults)]}
    names |= {
        each.arg
        for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        if default is None
    }
    declared: set[str] = set()
    for node in _own_nodes(function):
        match node:
            case ast.Name(ctx=ast.Store(), id=name):
                names.add(name)
            case ast.Nonlocal(names=outer) | ast.Global(names=outer):
                declared |= set(outer)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case _:
                pass
    return names - declared
