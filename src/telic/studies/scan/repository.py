"""A repository's facts in one index: every file parsed once, and look-ups of names across files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import NamedTuple, TypeVar

from telic.studies.scan.facts import Assignment, CallSite, Class, Function
from telic.studies.scan.reader import read_module
from telic.studies.scan.source import RepositoryTree

T = TypeVar("T")
K = TypeVar("K")

IMPORTED = "<import>"
"""the scope of a file's own top level when it is imported, not run"""
_ROOTS = frozenset({"src", "source", "lib", "python", "code"})
_PACKAGING = ("pyproject.toml", "setup.py", "setup.cfg")
_REEXPORTS = 6
_BASES = 6


def grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Return items by a key, in their order."""
    groups: dict[K, list[T]] = defaultdict(list)
    for item in items:
        groups[key(item)].append(item)
    return groups


class Spot(NamedTuple):
    """A function, method or class in a file; an empty scope is the file's own top level."""

    path: str
    scope: str


class Repository:
    """The tree, every file's facts, and look-ups across files."""

    def __init__(self, tree: RepositoryTree) -> None:
        self.tree = tree
        self.modules = {path: read_module(path, tree.text(path)) for path in tree.python}

    @cached_property
    def _modules_by_name(self) -> dict[str, list[str]]:
        """Dotted names to files, also without leading folders such as `src`."""
        names: dict[str, list[str]] = defaultdict(list)
        for path in sorted(self.modules, key=lambda path: path.count("/")):
            parts = path.removesuffix(".py").removesuffix("/__init__").split("/")
            for start in range(len(parts)):
                names[".".join(parts[start:])].append(path)
        return names

    @cached_property
    def functions(self) -> dict[Spot, Function]:
        """Every function by its place."""
        return {
            Spot(path, function.full_name): function
            for path, facts in self.modules.items()
            for function in facts.functions
        }

    @cached_property
    def classes(self) -> dict[str, list[Class]]:
        """Every class by its bare name."""
        classes = (each for facts in self.modules.values() for each in facts.classes)
        return grouped(classes, lambda each: each.name)

    @cached_property
    def methods(self) -> dict[str, list[Spot]]:
        """Every method of the repository's own classes by its bare name."""
        own = (
            (spot, function)
            for spot, function in self.functions.items()
            if self.tree.is_own(spot.path) and self.class_at(Spot(spot.path, function.scope))
        )
        methods: dict[str, list[Spot]] = defaultdict(list)
        for spot, function in own:
            methods[function.name].append(spot)
        return methods

    @cached_property
    def _calls_by_spot(self) -> dict[Spot, list[CallSite]]:
        return grouped(self.all_calls(), lambda call: Spot(call.path, call.scope))

    @cached_property
    def calls_by_last(self) -> dict[str, list[CallSite]]:
        """Every call by the last part of its name."""
        return grouped(self.all_calls(), lambda call: call.last)

    @cached_property
    def assigned(self) -> dict[Spot, dict[str, list[Assignment]]]:
        """Every assignment by its scope and the name it is made to."""
        found: dict[Spot, dict[str, list[Assignment]]] = defaultdict(lambda: defaultdict(list))
        for path, facts in self.modules.items():
            for each in facts.assignments:
                found[Spot(path, each.scope)][each.target].append(each)
        return found

    def all_calls(self) -> Iterator[CallSite]:
        """Return every call of the repository."""
        return (call for facts in self.modules.values() for call in facts.calls)

    def module(self, name: str, near: str = "") -> str | None:
        """Return the file of a dotted module name, as a file would import it."""
        paths = self._modules_by_name.get(name, ())
        if not near:
            return paths[0] if paths else None
        seen = [path for path in paths if path != near and self._is_root(path, name, near)]
        if not seen and "." in name:
            seen = [path for path in paths if path != near]
        return max(seen, key=lambda path: _shared(path, near), default=None)

    def _is_root(self, path: str, name: str, near: str) -> bool:
        """Whether the folder that a name starts from is one that imports are looked up in."""
        parts = path.removesuffix(".py").removesuffix("/__init__").split("/")
        root = "/".join(parts[: len(parts) - name.count(".") - 1])
        around = near.rpartition("/")[0]
        if not root or around == root or around.startswith(f"{root}/"):
            return True
        return root.rpartition("/")[2] in _ROOTS or root in self._installed

    @cached_property
    def _installed(self) -> frozenset[str]:
        """Folders with a packaging file of their own."""
        packaging = (path for path in self.tree.paths if path.endswith(_PACKAGING))
        return frozenset(path.rpartition("/")[0] for path in packaging)

    def calls(self, spot: Spot) -> list[CallSite]:
        """Return the calls made directly in a scope."""
        if spot.scope == IMPORTED:
            return [call for call in self.calls(Spot(spot.path, "")) if not call.in_main]
        return self._calls_by_spot.get(spot, [])

    def find(self, name: str, near: str = "", depth: int = 0) -> Spot | None:
        """Return where a dotted name is defined, following re-exports."""
        head, tail = name, ""
        while head:
            path = self.module(head, near)
            if path is not None:
                found = self._exported(head, near, depth) if not tail else None
                found = found or self.in_module(path, tail, depth)
                if found is not None:
                    return found
            head, _, last = head.rpartition(".")
            tail = f"{last}.{tail}".rstrip(".")
        return None

    def _exported(self, name: str, near: str, depth: int) -> Spot | None:
        """What a package gives out under the name of one of its own files, as `run.train` may."""
        parent, _, last = name.rpartition(".")
        package = self.module(parent, near) if parent else None
        if package is None or not package.endswith("__init__.py") or depth >= _REEXPORTS:
            return None
        origin = self.modules[package].imports.get(last, "")
        same = origin.endswith(f"{last}.{last}")
        return self.find(origin, package, depth + 1) if same else None

    def in_module(self, path: str, name: str, depth: int = 0) -> Spot | None:
        """Return where a name that a file defines or imports is defined."""
        spot = Spot(path, name)
        if not name or spot in self.functions or self.class_at(spot):
            return spot
        head, _, rest = name.partition(".")
        origin = self.modules[path].imports.get(head)
        if origin and depth < _REEXPORTS:
            return self.find(f"{origin}.{rest}".rstrip("."), path, depth + 1)
        return None

    def class_at(self, spot: Spot) -> Class | None:
        """Return the class at a place."""
        scope, _, name = spot.scope.rpartition(".")
        same = (each for each in self.classes.get(name, ()) if each.path == spot.path)
        return next((each for each in same if each.scope == scope), None)

    def seen_from(self, path: str, name: str) -> Spot | None:
        """Return where a name that a file uses is defined."""
        return self.in_module(path, name) or self.find(name, path)

    def bases(self, owner: Class) -> Iterator[Spot | str]:
        """Return the bases of a class: places of the repository, or dotted names outside."""
        for base in owner.bases:
            yield self.seen_from(owner.path, base) or base

    def lineage(self, spot: Spot, depth: int = 0) -> Iterator[Spot | str]:
        """Return a class and everything it derives from, nearest first."""
        yield spot
        owner = self.class_at(spot)
        for base in self.bases(owner) if owner and depth < _BASES else ():
            if isinstance(base, Spot):
                yield from self.lineage(base, depth + 1)
            else:
                yield base

    def member(self, spot: Spot, method: str) -> Spot | None:
        """Return a method of a class, its own or inherited."""
        for each in self.lineage(spot):
            if isinstance(each, Spot):
                wanted = Spot(each.path, f"{each.scope}.{method}".lstrip("."))
                if wanted in self.functions:
                    return wanted
        return None

    def descends(self, owner: Class, pattern: str) -> bool:
        """Whether a class has a base whose name contains this, directly or further up."""
        ancestors = (each for each in self.lineage(Spot(owner.path, owner.full_name)))
        next(ancestors)
        return any(
            pattern in (each.scope if isinstance(each, Spot) else each).rpartition(".")[2]
            for each in ancestors
        )

    def import_closure(self, paths: Iterable[str], most: int = 400) -> list[str]:
        """Return files and all files of the repository that they import, nearest first."""
        closure = dict.fromkeys(paths)
        waiting = list(closure)
        while waiting and len(closure) < most:
            path = waiting.pop(0)
            for origin in self.modules[path].import_lines:
                for name in (origin, origin.rpartition(".")[0]):
                    target = self.module(name, path) if name else None
                    if target and target not in closure:
                        closure[target] = None
                        waiting.append(target)
        return list(closure)


def _shared(path: str, near: str) -> int:
    """How many folders two files have in common."""
    count = 0
    for one, other in zip(path.split("/")[:-1], near.split("/")[:-1], strict=False):
        if one != other:
            break
        count += 1
    return count
