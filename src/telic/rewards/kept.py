"""Find where a reward keeps values from one call to the next, outside `memory`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from telic.rewards.scan import Place, root_name

_MUTATORS = frozenset(
    ("append", "appendleft", "extend", "insert", "pop", "popleft", "popitem", "clear")
) | frozenset(("update", "add", "remove", "discard", "setdefault", "sort", "reverse", "fill"))
_MODULES = frozenset(("np", "numpy", "torch", "math", "telic", "quantities", "mujoco"))
"""names whose calls, e.g. np.append, return something new"""
_OWNED = frozenset(("memory", "weights"))
"""attributes of a reward that the trainer resets and saves"""
_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


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
