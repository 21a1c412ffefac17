"""A repository's facts in one index: every file parsed once, and look-ups of names across files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

from telic.studies.scan.facts import (
    Alternative,
    Assignment,
    CallSite,
    Class,
    Function,
    Made,
    is_list,
    is_symbol,
    is_table,
)
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


class Links:
    """What is assigned, wrapped, decorated and derived where; each index is made once."""

    def __init__(self, repository: Repository) -> None:
        self.repository = repository

    @cached_property
    def held(self) -> dict[Spot, dict[str, list[Assignment]]]:
        """For each class, what is assigned to its attributes."""
        held: dict[Spot, dict[str, list[Assignment]]] = {}
        for facts in self.repository.modules.values():
            classes = {each.full_name for each in facts.classes}
            for each in facts.assignments:
                outer = each.scope
                while outer and outer not in classes:
                    outer = outer.rpartition(".")[0]
                if not outer:
                    continue
                name = each.target.removeprefix("self.").removeprefix("cls.")
                if "." not in name and (name != each.target or each.scope == outer):
                    attributes = held.setdefault(Spot(facts.path, outer), {})
                    attributes.setdefault(name, []).append(each)
        return held

    @cached_property
    def filled(self) -> dict[str, dict[str, list[Assignment]]]:
        """For each file, containers of its top level with what functions put into them."""
        filled: dict[str, dict[str, list[Assignment]]] = defaultdict(dict)
        for path, facts in self.repository.modules.items():
            tops = self.repository.assigned[Spot(path, "")]
            empty = {name for name, first in tops.items() if first[0].value in ({}, [], "<dict>")}
            for each in facts.assignments if empty else ():
                if each.target in empty:
                    filled[path].setdefault(each.target, []).append(each)
        return filled

    @cached_property
    def dispatched(self) -> dict[str, list[tuple[CallSite, Any, str | None]]]:
        """What parsers put into their answers, with the sub-command that chooses it."""
        found: dict[str, list[tuple[CallSite, Any, str | None]]] = defaultdict(list)
        for call in self.repository.calls_by_last.get("set_defaults", []):
            word = self.subcommand(call)
            for name, value in call.keywords.items():
                if is_symbol(value):
                    found[name].append((call, value, word))
        return found

    def subcommand(self, call: CallSite) -> str | None:
        """The sub-command whose parser a call is made on."""
        owner = call.name.rpartition(".")[0]
        for each in self.repository.assigned[Spot(call.path, call.scope)].get(owner, ()):
            if isinstance(each.value, Made) and each.value.strip("<>").endswith("add_parser"):
                name = each.value.args[0] if each.value.args else None
                return name if isinstance(name, str) else None
        return None

    @cached_property
    def partials(self) -> dict[str, list[CallSite]]:
        """Calls of functools.partial by the last name of what they wrap."""
        partials: dict[str, list[CallSite]] = {}
        for call in self.repository.all_calls():
            if call.name == "functools.partial" and call.args and is_symbol(call.args[0]):
                wrapped = call.args[0].strip("<>").rpartition(".")[2]
                partials.setdefault(wrapped, []).append(call)
        return partials

    @cached_property
    def derived(self) -> dict[str, set[str]]:
        """Names of classes to the names of classes that derive from them."""
        derived: dict[str, set[str]] = defaultdict(set)
        for name, classes in self.repository.classes.items():
            for each in classes:
                for base in self.repository.lineage(Spot(each.path, each.full_name)):
                    if isinstance(base, Spot):
                        derived[base.scope.rpartition(".")[2]].add(name)
        return derived

    @cached_property
    def aliases(self) -> dict[str, set[str]]:
        """Names to the variables and tables that hold what they name."""
        aliases: dict[str, set[str]] = defaultdict(set)
        for facts in self.repository.modules.values():
            for each in facts.assignments:
                for symbol in _references(each.value):
                    held = symbol.strip("<>").rpartition(".")[2]
                    aliases[held].add(each.target.rpartition(".")[2])
        return aliases

    @cached_property
    def decorations(self) -> dict[str, list[tuple[Spot, str]]]:
        """Functions and classes by the last name of each of their decorators."""
        found: dict[str, list[tuple[Spot, str]]] = {}
        for facts in self.repository.modules.values():
            for each in (*facts.functions, *facts.classes):
                for name in each.decorators:
                    spot = Spot(facts.path, each.full_name)
                    found.setdefault(name.rpartition(".")[2], []).append((spot, name))
        return found


def _references(value: Any) -> Iterator[str]:
    """Names in a value that stand for themselves, not for what calling them gives."""
    if isinstance(value, Alternative):
        yield from _references(value.first)
        yield from _references(value.second)
    elif is_table(value):
        for each in value.values():
            yield from _references(each)
    elif is_list(value):
        for each in value:
            yield from _references(each)
    elif is_symbol(value) and not isinstance(value, Made):
        yield value
