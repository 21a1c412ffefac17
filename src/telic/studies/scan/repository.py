"""A repository's facts with the links between files: who imports, calls and inherits whom."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

from telic.studies.scan.reading import read_module
from telic.studies.scan.syntax import Assignment, Call, Class, Function, ModuleFacts
from telic.studies.scan.training_calls import takes_gradient_steps, trains
from telic.studies.scan.tree import RepositoryTree

REACH = 4
"""calls followed from an entry point"""
TRAINING_METHODS = ("learn", "train", "fit", "run_experiment", "run_training")
_RUNNER = re.compile(r"runner|trainer|learner|experiment", re.I)
_COMMAND = re.compile(r"\.(main|automain|command)$")
_REEXPORTS = 6
_MOST_TRAINERS = 12


class Spot(NamedTuple):
    """A function, method or class in a file; an empty scope is the file's own top level."""

    path: str
    scope: str


class Training(NamedTuple):
    """The nearest training call from an entry point."""

    path: str
    call: Call
    distance: int


class Repository:
    """The tree, every file's facts, and look-ups across files."""

    def __init__(self, tree: RepositoryTree) -> None:
        self.tree = tree
        self.modules: dict[str, ModuleFacts] = {}
        self._edges: dict[Spot, tuple[Spot, ...]] = {}
        for path in tree.python:
            self.modules[path] = read_module(path, tree.text(path))

    @cached_property
    def _modules_by_name(self) -> dict[str, str]:
        """Dotted names to files, also without leading folders such as `src`."""
        names: dict[str, str] = {}
        for path in sorted(self.modules, key=lambda each: each.count("/")):
            parts = path.removesuffix(".py").removesuffix("/__init__").split("/")
            for start in range(len(parts)):
                names.setdefault(".".join(parts[start:]), path)
        return names

    @cached_property
    def functions(self) -> dict[Spot, Function]:
        """Every function by its place."""
        return {
            Spot(path, f"{each.scope}.{each.name}".lstrip(".")): each
            for path, facts in self.modules.items()
            for each in facts.functions
        }

    @cached_property
    def classes(self) -> dict[str, list[tuple[str, Class]]]:
        """Every class by its bare name."""
        found: dict[str, list[tuple[str, Class]]] = defaultdict(list)
        for path, facts in self.modules.items():
            for each in facts.classes:
                found[each.name].append((path, each))
        return found

    @cached_property
    def _calls_by_spot(self) -> dict[Spot, list[Call]]:
        found: dict[Spot, list[Call]] = defaultdict(list)
        for path, facts in self.modules.items():
            for call in facts.calls:
                found[Spot(path, call.scope)].append(call)
        return found

    @cached_property
    def calls_by_last(self) -> dict[str, list[tuple[str, Call]]]:
        """Every call by the last part of its name."""
        found: dict[str, list[tuple[str, Call]]] = defaultdict(list)
        for path, facts in self.modules.items():
            for call in facts.calls:
                found[call.last].append((path, call))
        return found

    @cached_property
    def _made_from(self) -> dict[Spot, dict[str, str]]:
        """For each scope, which variables are made by calling what."""
        found: dict[Spot, dict[str, str]] = defaultdict(dict)
        for path, facts in self.modules.items():
            for each in facts.assignments:
                if isinstance(each.value, str) and each.value.startswith("<"):
                    found[Spot(path, each.scope)][each.target] = each.value.strip("<>")
        return found

    def module(self, name: str) -> str | None:
        """Return the file of a dotted module name."""
        return self._modules_by_name.get(name)

    def calls(self, spot: Spot) -> list[Call]:
        """Return the calls made directly in a scope."""
        return self._calls_by_spot.get(spot, [])

    def find(self, name: str, depth: int = 0) -> Spot | None:
        """Return where a dotted name is defined, following re-exports."""
        head, tail = name, ""
        while head:
            path = self.module(head)
            if path is not None and (tail or head == name):
                return self._in_module(path, tail, depth)
            head, _, last = head.rpartition(".")
            tail = f"{last}.{tail}".rstrip(".")
        return None

    def _in_module(self, path: str, name: str, depth: int) -> Spot | None:
        spot = Spot(path, name)
        if not name or spot in self.functions or self._class_at(spot):
            return spot
        head, _, rest = name.partition(".")
        origin = self.modules[path].imports.get(head)
        if origin and depth < _REEXPORTS:
            return self.find(f"{origin}.{rest}".rstrip("."), depth + 1)
        return None

    def _class_at(self, spot: Spot) -> Class | None:
        scope, _, name = spot.scope.rpartition(".")
        return next(
            (
                each
                for path, each in self.classes.get(name, [])
                if path == spot.path and each.scope == scope
            ),
            None,
        )

    def resolve(self, path: str, call: Call) -> Spot | None:
        """Return what a call runs, when that is in the repository."""
        name = call.name
        head, _, rest = name.partition(".")
        if head in {"self", "cls"} and rest:
            return self._method(path, call.scope, rest)
        if rest and head not in self.modules[path].imports.values():
            made = self._maker(path, call.scope, name.rpartition(".")[0])
            if made:
                spot = self.find(made) or self._in_module(path, made, 0)
                if spot:
                    return self._member(spot, call.last)
        here = self._in_module(path, name, 0)
        return self._enter(here or self.find(name))

    def _maker(self, path: str, scope: str, variable: str) -> str | None:
        while True:
            made = self._made_from.get(Spot(path, scope), {}).get(variable)
            if made:
                head, dot, rest = made.partition(".")
                return self.modules[path].imports.get(head, head) + dot + rest
            if not scope:
                return None
            scope = scope.rpartition(".")[0]

    def _enter(self, spot: Spot | None) -> Spot | None:
        """Calling a class runs its `__init__`."""
        if spot and spot not in self.functions and self._class_at(spot):
            return self._member(spot, "__init__") or spot
        return spot

    def _method(self, path: str, scope: str, rest: str) -> Spot | None:
        owner = scope.rpartition(".")[0]
        if "." in rest:
            attribute, _, method = rest.rpartition(".")
            for init in (scope, f"{owner}.__init__"):
                made = self._maker(path, init, f"self.{attribute}")
                spot = made and (self.find(made) or self._in_module(path, made, 0))
                if spot:
                    return self._member(spot, method)
            return None
        return self._member(Spot(path, owner), rest)

    def _member(self, spot: Spot, method: str, depth: int = 0) -> Spot | None:
        wanted = Spot(spot.path, f"{spot.scope}.{method}".lstrip("."))
        if wanted in self.functions:
            return wanted
        owner = self._class_at(spot)
        for base in owner.bases if owner and depth < REACH else ():
            parent = self.find(base) or self._in_module(spot.path, base, 0)
            found = self._member(parent, method, depth + 1) if parent else None
            if found:
                return found
        return None

    def reach(self, start: Iterable[Spot], depth: int = REACH) -> dict[Spot, int]:
        """Return what runs from these places, with the number of calls it takes to get there."""
        reached = dict.fromkeys(start, 0)
        frontier = list(reached)
        for distance in range(1, depth + 1):
            following: list[Spot] = []
            for spot in frontier:
                for found in self._callees(spot):
                    if found not in reached:
                        reached[found] = distance
                        following.append(found)
            frontier = following
        return reached

    def _callees(self, spot: Spot) -> tuple[Spot, ...]:
        if spot not in self._edges:
            found = [each for call in self.calls(spot) for each in self._runs(spot.path, call)]
            if not spot.scope:
                found += self.commands(spot.path)
            self._edges[spot] = tuple(dict.fromkeys(found))
        return self._edges[spot]

    def commands(self, path: str) -> list[Spot]:
        """Return the functions of a file that a command-line framework runs by decoration."""
        return [
            Spot(path, each.name)
            for each in self.modules[path].functions
            if not each.scope and any(_COMMAND.search(name) for name in each.decorators)
        ]

    def nearest_training(self, start: Spot) -> Training | None:
        """Return the training call that takes the fewest calls to reach."""
        for spot, distance in self.reach([start]).items():  # nearest first
            call = self._training.get(spot)
            if call:
                return Training(spot.path, call, distance)
        return None

    @cached_property
    def _training(self) -> dict[Spot, Call]:
        found: dict[Spot, Call] = {}
        for path, facts in self.modules.items():
            for call in facts.calls:
                if trains(call) or takes_gradient_steps(call):
                    found.setdefault(Spot(path, call.scope), call)
        return found

    def _runs(self, path: str, call: Call) -> Iterator[Spot]:
        """What a call runs, and functions of the repository handed to it (`app.run(main)`)."""
        direct = self.resolve(path, call)
        if direct:
            yield direct
        elif "." in call.name and (
            call.last in TRAINING_METHODS or (call.last == "run" and _RUNNER.search(call.name))
        ):
            yield from self._any_trainer(call.last)
        for value in (*call.args, *call.keywords.values()):
            if isinstance(value, str) and value.startswith("<"):
                name = value.strip("<>")
                spot = self._in_module(path, name, 0)
                if spot and spot in self.functions:
                    yield spot

    def _any_trainer(self, method: str) -> Iterator[Spot]:
        """Objects made by a name in a configuration: any trainer here may be meant."""
        for spot in self._trainers.get(method, [])[:_MOST_TRAINERS]:
            yield spot
            init = self._member(Spot(spot.path, spot.scope.rpartition(".")[0]), "__init__")
            if init:
                yield init

    @cached_property
    def _trainers(self) -> dict[str, list[Spot]]:
        found: dict[str, list[Spot]] = defaultdict(list)
        for spot, function in self.functions.items():
            is_method = function.scope and (
                function.name in TRAINING_METHODS
                or (function.name == "run" and _RUNNER.search(function.scope))
            )
            if is_method and self.tree.weight(spot.path) >= 0.5:
                found[function.name].append(spot)
        return found

    def is_trainer(self, path: str, owner: str) -> bool:
        """Whether a class has a method that trains."""
        runs = ("run",) if _RUNNER.search(owner) else ()
        return any(self._member(Spot(path, owner), each) for each in (*TRAINING_METHODS, *runs))

    def assignments(self, paths: Iterable[str]) -> Iterator[tuple[str, Assignment]]:
        """Return the assignments of some files."""
        for path in paths:
            for each in self.modules[path].assignments:
                yield path, each

    def descends(self, path: str, owner: Class, pattern: str, depth: int = 0) -> bool:
        """Whether a class has a base whose name contains this, directly or further up."""
        for base in owner.bases:
            last = base.rpartition(".")[2]
            if pattern in last:
                return True
            for where, parent in self.classes.get(last, [])[:3]:
                if (
                    depth < REACH
                    and parent is not owner
                    and self.descends(where, parent, pattern, depth + 1)
                ):
                    return True
        return False
