"""What a name stands for where it is used: calls, variables, parameters, attributes, registries.

An answer is a place in the repository or the dotted name of something outside of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any

from telic.studies.scan.facts import (
    Alternative,
    Assignment,
    CallSite,
    Function,
    Made,
    is_list,
    is_symbol,
    is_table,
)
from telic.studies.scan.repository import K, Links, Repository, Spot
from telic.studies.scan.source import VOCABULARY

Thing = Spot | str

_DEPTH = 16
_MOST_THINGS = 16
_MOST_CALLERS = 24
_MOST_GUESSES = 6
_MOST_WORK = 500
_CONTAINER = frozenset({"get", "pop", "values", "items", "setdefault", "copy", "result", "remote"})
"""methods that give back what a container or a handle holds"""
_COMMON = VOCABULARY.words("common_methods")
_INSTANTIATES = re.compile(
    r"(^|\.)(instantiate|build_from_cfg|call|get_class|get_method|get_object)$"
)
_PLAIN_TYPE = re.compile(r"^[\"']?(?:Optional\[|type\[|Type\[)?([A-Za-z_][\w.]*)")


class Resolver:
    """Follows names; every answer is kept."""

    def __init__(self, repository: Repository, made_by_key: dict[str, list[str]]) -> None:
        self.repository = repository
        self.links = Links(repository)
        self.made_by_key = made_by_key
        """what configuration files name for a key: `logger` to the class behind `_target_`"""
        self._targets: dict[int, tuple[Thing, ...]] = {}
        self._variables: dict[tuple[Spot, str], tuple[Thing, ...]] = {}
        self._parameters: dict[tuple[Spot, str], tuple[Thing, ...]] = {}
        self._returned: dict[tuple[Spot, int | None], tuple[Thing, ...]] = {}
        self._asked: set[tuple[int, Any]] = set()
        self._cuts = self._short = self._work = 0

    def targets(self, call: CallSite) -> tuple[Thing, ...]:
        """Return what a call runs: functions of the repository, or names outside of it."""
        return self._kept(self._targets, id(call), lambda: self._runs(call))

    def _kept(
        self, answers: dict[K, tuple[Thing, ...]], key: K, work: Callable[[], tuple[Thing, ...]]
    ) -> tuple[Thing, ...]:
        """Return an answer, worked out once; a question that leads back to itself says nothing."""
        if key in answers:
            return answers[key]
        if (id(answers), key) in self._asked:
            self._cuts += 1
            return ()
        if not self._asked:
            self._cuts, self._work = 0, 0
        self._work += 1
        if self._work > _MOST_WORK:
            return ()
        before = self._cuts, self._short
        self._asked.add((id(answers), key))
        answer = work()
        self._asked.discard((id(answers), key))
        is_whole = (self._cuts, self._short) == before
        if is_whole or not self._asked:
            answers[key] = answer  # else it is half an answer, and is asked for again
        return answer

    def _runs(self, call: CallSite) -> tuple[Thing, ...]:
        things = self.denotes(call.path, call.scope, call.name)
        if any(isinstance(each, str) and _INSTANTIATES.search(each) for each in things):
            things = [*things, *self._instantiated(call.args)]
        if not any(isinstance(each, Spot) for each in things):
            for site, value, _ in self.links.dispatched.get(call.last, ()):
                things = [*things, *self.things(site.path, site.scope, value)]
        if not things and "." in call.name and call.last not in _COMMON:
            guesses = self.repository.methods.get(call.last, [])
            things = list(guesses) if len(guesses) <= _MOST_GUESSES else []
        return tuple(dict.fromkeys(self._entered(each) for each in things))[:_MOST_THINGS]

    def _entered(self, thing: Thing) -> Thing:
        """Calling a class runs its `__init__`."""
        if isinstance(thing, Spot) and self.repository.class_at(thing):
            return self.repository.member(thing, "__init__") or thing
        return thing

    def _instantiated(self, args: tuple[Any, ...]) -> list[Thing]:
        parts = args[0].strip("<>").split(".") if args and is_symbol(args[0]) else [""]
        if parts[-1] == "_target_":
            parts = parts[:-1] if len(parts) > 2 else [""]
        key = parts[-1]
        return self._named(self.made_by_key.get(key, ()))

    def _named_by_text(self, path: str, text: Any) -> list[Thing]:
        """`eval("package." + name)`: whatever the package gives out."""
        match = re.match(r"^([\w.]+)\.\{", text) if isinstance(text, str) else None
        module = self.repository.module(match[1], path) if match else None
        return self._of_module(module, "*", 1) if module else []

    def _named(self, names: Iterable[str]) -> list[Thing]:
        """Dotted names in texts: `package.module.Class` or `package.module:Class`."""
        return [self.repository.find(name.replace(":", ".")) or name for name in names]

    def denotes(self, path: str, scope: str, name: str, depth: int = 0) -> list[Thing]:
        """Return what a dotted name stands for where it is used."""
        if depth > _DEPTH or not name or name.startswith("?"):
            self._short += depth > _DEPTH
            return []
        imported = self._through_imports(path, name)
        if imported is not None:
            return imported
        parts = name.split(".")
        head = parts[0].removesuffix("()")
        owner = self._owner(path, scope, head) if head in {"self", "cls", "super"} else None
        if owner is not None:
            return self._attributes(owner, parts[1:], depth)
        for length in range(len(parts), 0, -1):
            prefix = ".".join(parts[:length])
            things = self._variable(path, scope, prefix.removesuffix("()"), depth)
            if things is not None:
                things = self._called(things, None, depth) if prefix.endswith("()") else things
                return self._attributes(things, parts[length:], depth)
        origin = self.repository.modules[path].imports.get(head)
        if origin:
            rest = ".".join(parts[1:])
            return self.denotes(path, scope, f"{origin}.{rest}".rstrip("."), depth + 1)
        found = self.repository.find(name.replace("()", ""), path)
        return [found] if found else []

    def _through_imports(self, path: str, name: str) -> list[Thing] | None:
        """Names that begin with something the file imports."""
        origins = self._origins[path]
        parts = name.split(".")
        bare = [part.removesuffix("()") for part in parts]
        if not any(".".join(bare[:length]) in origins for length in range(len(parts), 0, -1)):
            return None
        for length in range(len(parts), 0, -1):
            prefix = ".".join(bare[:length])
            found = self.repository.find(prefix, path)
            if found is None or (not found.scope and not self.repository.module(prefix, path)):
                continue
            things: list[Thing] = [found]
            if parts[length - 1].endswith("()"):
                things = self._called(things, None, 1)
            return self._attributes(things, parts[length:], 1)
        return [".".join(bare)]

    @cached_property
    def _origins(self) -> dict[str, frozenset[str]]:
        modules = self.repository.modules.items()
        return {path: frozenset(facts.imports.values()) for path, facts in modules}

    def _owner(self, path: str, scope: str, head: str) -> list[Thing] | None:
        """The class that `self` stands for; None where it is a parameter like any other."""
        while scope:
            function = self.repository.functions.get(Spot(path, scope))
            scope = scope.rpartition(".")[0]
            spot = Spot(path, scope)
            owner = self.repository.class_at(spot)
            if owner:
                return list(self.repository.bases(owner)) if head == "super" else [spot]
            if function and head in function.arguments:
                return None
        return None

    def _attributes(self, things: list[Thing], parts: list[str], depth: int) -> list[Thing]:
        for part in parts:
            bare = part.removesuffix("()")
            things = [found for each in things for found in self._attribute(each, bare, depth)]
            if part.endswith("()"):
                things = self._called(things, None, depth)
            things = list(dict.fromkeys(things))[:_MOST_THINGS]
        return things

    def _attribute(self, thing: Thing, name: str, depth: int) -> list[Thing]:
        if isinstance(thing, str):
            return [f"{thing}.{name}"]
        if name in _CONTAINER and not self.repository.member(thing, name):
            return [thing]
        if not thing.scope:
            return self._of_module(thing.path, name, depth)
        if self.repository.class_at(thing):
            return self._of_class(thing, name, depth)
        return []

    def _of_module(self, path: str, name: str, depth: int) -> list[Thing]:
        if name == "*":
            facts = self.repository.modules[path]
            own = (*facts.classes, *facts.functions)
            inside: list[Thing] = [Spot(path, each.name) for each in own if not each.scope]
            given = (self.repository.in_module(path, name) for name in facts.imports)
            return [*inside, *(each for each in given if each is not None and each.scope)]
        found = self.repository.in_module(path, name)
        if found:
            return [found]
        inner = path.removesuffix("__init__.py") + f"{name}.py"
        if inner in self.repository.modules:
            return [Spot(inner, "")]
        return self._variable(path, "", name, depth + 1) or []

    def _of_class(self, spot: Spot, name: str, depth: int) -> list[Thing]:
        """A method, or what its methods assign to an attribute; else that of a base outside."""
        for each in self.repository.lineage(spot):
            if isinstance(each, str):
                return [f"{each}.{name}"]
            method = Spot(each.path, f"{each.scope}.{name}")
            if method in self.repository.functions:
                return [method]
            values = self.links.held.get(each, {}).get(name, ())
            if values:
                return [thing for value in values for thing in self._assigned(value, depth + 1)]
        return []

    def _variable(self, path: str, scope: str, name: str, depth: int) -> list[Thing] | None:
        """What a variable, a parameter or a local definition stands for; None when it is none."""
        while True:
            spot = Spot(path, scope)
            assignments = self.repository.assigned[spot].get(name)
            if assignments and not scope:
                assignments = self.links.filled[path].get(name, assignments)
            if assignments:
                return list(self._held_by(spot, name, assignments, depth))
            function = self.repository.functions.get(spot)
            if function and name in function.arguments:
                return list(self._parameter(spot, function, name, depth))
            inner = Spot(path, f"{scope}.{name}".lstrip("."))
            if inner in self.repository.functions or self.repository.class_at(inner):
                return [inner]
            if not scope:
                return None
            scope = scope.rpartition(".")[0]

    def _held_by(
        self, spot: Spot, name: str, assignments: list[Assignment], depth: int
    ) -> tuple[Thing, ...]:
        def work() -> tuple[Thing, ...]:
            found = [
                thing
                for each in assignments[-6:]
                if each.value != f"<{name}>"
                for thing in self._assigned(each, depth + 1)
            ]
            return tuple(dict.fromkeys(found))[:_MOST_THINGS]

        return self._kept(self._variables, (spot, name), work)

    def _assigned(self, each: Assignment, depth: int) -> list[Thing]:
        return self.things(each.path, each.scope, each.value, depth, each.part)

    def things(
        self, path: str, scope: str, value: Any, depth: int = 0, index: int | None = None
    ) -> list[Thing]:
        """Return what a written value stands for."""
        if depth > _DEPTH:
            self._short += 1
            return []
        if isinstance(value, Alternative):
            both = (value.first, value.second)
            return [t for each in both for t in self.things(path, scope, each, depth + 1, index)]
        if is_table(value) or is_list(value):
            inner: list[Any] = list(value.values()) if is_table(value) else list(value)
            if index is not None and 0 <= index < len(inner):
                inner = [inner[index]]
            return [t for each in inner for t in self.things(path, scope, each, depth + 1)]
        if not is_symbol(value):
            return []
        things = self.denotes(path, scope, value.strip("<>"), depth + 1)
        if not isinstance(value, Made):
            return things
        if any(isinstance(each, str) and _INSTANTIATES.search(each) for each in things):
            return self._instantiated(value.args) or things
        if value.strip("<>").rpartition(".")[2] in {"eval", "import_module"} and value.args:
            return self._named_by_text(path, value.args[0])
        if "functools.partial" in things and value.args:
            return self.things(path, scope, value.args[0], depth + 1)
        return self._called(things, index, depth + 1)

    def _called(self, things: list[Thing], index: int | None, depth: int) -> list[Thing]:
        """What calling something gives: an object of a class, or what a function returns."""
        results: list[Thing] = []
        for each in things:
            is_own = isinstance(each, Spot)
            if is_own and each in self.repository.functions:
                results += self._returns(each, index, depth)
            else:
                results.append(each)
        return results

    def _returns(self, spot: Spot, index: int | None, depth: int) -> tuple[Thing, ...]:
        def work() -> tuple[Thing, ...]:
            function = self.repository.functions[spot]
            found = [
                thing
                for value in function.returns
                for thing in self.things(spot.path, spot.scope, value, depth + 1, index)
            ]
            return tuple(dict.fromkeys(found))[:_MOST_THINGS]

        return self._kept(self._returned, (spot, index), work) if depth <= _DEPTH else ()

    def _parameter(
        self, spot: Spot, function: Function, name: str, depth: int
    ) -> tuple[Thing, ...]:
        """What is handed over for a parameter, by its type, its default and its callers."""

        def work() -> tuple[Thing, ...]:
            things: list[Thing] = []
            typed = _PLAIN_TYPE.match(function.annotations.get(name, ""))
            if typed:
                found = self.repository.seen_from(spot.path, typed[1])
                things += [found] if found else []
            if name in function.defaults:
                default = function.defaults[name]
                things += self.things(spot.path, function.scope, default, depth + 1)
            for value, call in self.handed(spot, function, name):
                things += self.things(call.path, call.scope, value, depth + 1)
            if not function.arguments[1:] or function.scope:
                things += self._decorated(spot, function)
            return tuple(dict.fromkeys(things))[:_MOST_THINGS]

        return self._kept(self._parameters, (spot, name), work) if depth <= _DEPTH else ()

    def handed(self, spot: Spot, function: Function, name: str) -> Iterator[tuple[Any, CallSite]]:
        """Return what callers give for a parameter."""
        position = function.arguments.index(name)
        for call, args in self.callers(spot, function):
            if name in call.keywords:
                yield call.keywords[name], call
                continue
            is_method = function.arguments[:1] in (("self",), ("cls",))
            at = position - 1 if is_method else position
            if 0 <= at < len(args):
                yield args[at], call

    def callers(self, spot: Spot, function: Function) -> list[tuple[CallSite, tuple[Any, ...]]]:
        """Return the calls that run a function, with what they give it."""
        name = function.name
        names = {name}
        if name in {"__init__", "__call__"}:
            name = function.scope.rpartition(".")[2]
            names = {name, *self.links.derived.get(name, ())}
        names |= {alias for each in names for alias in self.links.aliases.get(each, ())}
        calls = [call for each in sorted(names) for call in self.repository.calls_by_last[each]]
        is_own = self.repository.tree.is_own
        if is_own(spot.path):  # what tests give says nothing of what users do
            calls = [call for call in calls if is_own(call.path)]
        found = [(call, call.args) for call in calls[:_MOST_CALLERS] if spot in self.targets(call)]
        return [*found, *((call, call.args[1:]) for call in self.links.partials.get(name, ()))]

    def _decorated(self, spot: Spot, function: Function) -> list[Thing]:
        """What a decorator of the repository is put on: its own parameter stands for that."""
        names = {function.name, function.scope.rpartition(".")[2]}
        return [
            each
            for name in names
            for each, decorator in self.links.decorations.get(name, ())
            if self._is_decorator(each.path, decorator, spot)
        ]

    def _is_decorator(self, path: str, name: str, spot: Spot) -> bool:
        places = [each for each in self.denotes(path, "", name, 2) if isinstance(each, Spot)]
        return any(spot == each or spot.scope.startswith(f"{each.scope}.") for each in places)
