"""A repository's facts with the links between files: who imports, calls and inherits whom."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import NamedTuple, TypeVar

from telic.studies.scan.reader import read_module
from telic.studies.scan.source import (
    VOCABULARY,
    CallSite,
    Class,
    Function,
    RepositoryTree,
    is_symbol,
)

T = TypeVar("T")
K = TypeVar("K")

REACH = 4
"""calls followed from an entry point"""
TRAINING_METHODS = ("learn", "train", "fit", "run_experiment", "run_training")
_ALWAYS_TRAIN = VOCABULARY.words("training_calls")
_GRADIENT = VOCABULARY.words("gradient_calls")
_TRAINER = VOCABULARY.pattern("trainers")
_RUNS_TRAINING = re.compile(r"(trainer|learner|experiment|algo)", re.I)
_MODES = VOCABULARY.pattern("mode_owners")
_RUNNER = re.compile(r"runner|trainer|learner|experiment", re.I)
_COMMAND = re.compile(r"\.(main|automain|command)$")
_REEXPORTS = 6
_MOST_TRAINERS = 12


def trains(call: CallSite) -> bool:
    """Whether a call hands over to a trainer."""
    owner = call.name.rpartition(".")[0]
    if call.last in _ALWAYS_TRAIN:
        return True
    if call.last not in {"train", "run", "fit"} or not owner:
        return False
    receiver = owner.rpartition(".")[2].removesuffix("()")
    if call.last == "run":
        return bool(_RUNS_TRAINING.search(receiver))
    # net.train(False) only switches a mode
    if _TRAINER.search(receiver) and not isinstance(call.args[:1] and call.args[0], bool):
        return True
    values = [value for value in call.args if not isinstance(value, bool)]
    return bool(values or call.keywords) and not _MODES.match(receiver)


def takes_gradient_steps(call: CallSite) -> bool:
    """Whether a call is part of a hand-written optimisation loop."""
    owner = call.name.rpartition(".")[0].lower()
    return call.last in _GRADIENT or (call.last in {"step", "update"} and "optim" in owner)


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
        self._edges: dict[Spot, tuple[Spot, ...]] = {}
        self.modules = {path: read_module(path, tree.text(path)) for path in tree.python}

    @cached_property
    def _modules_by_name(self) -> dict[str, str]:
        """Dotted names to files, also without leading folders such as `src`."""
        names: dict[str, str] = {}
        for path in sorted(self.modules, key=lambda path: path.count("/")):
            parts = path.removesuffix(".py").removesuffix("/__init__").split("/")
            for start in range(len(parts)):
                names.setdefault(".".join(parts[start:]), path)
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
    def _calls_by_spot(self) -> dict[Spot, list[CallSite]]:
        return grouped(self._calls(), lambda call: Spot(call.path, call.scope))

    @cached_property
    def calls_by_last(self) -> dict[str, list[CallSite]]:
        """Every call by the last part of its name."""
        return grouped(self._calls(), lambda call: call.last)

    def _calls(self) -> Iterator[CallSite]:
        return (call for facts in self.modules.values() for call in facts.calls)

    @cached_property
    def _makers(self) -> dict[Spot, dict[str, str]]:
        """For each scope, which variables are made by calling what."""
        makers: dict[Spot, dict[str, str]] = defaultdict(dict)
        for path, facts in self.modules.items():
            for assignment in facts.assignments:
                if is_symbol(assignment.value):
                    scope = makers[Spot(path, assignment.scope)]
                    scope[assignment.target] = assignment.value.strip("<>")
        return makers

    def module(self, name: str) -> str | None:
        """Return the file of a dotted module name."""
        return self._modules_by_name.get(name)

    def calls(self, spot: Spot) -> list[CallSite]:
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

    def _in_module(self, path: str, name: str, depth: int = 0) -> Spot | None:
        spot = Spot(path, name)
        if not name or spot in self.functions or self._class_at(spot):
            return spot
        head, _, rest = name.partition(".")
        origin = self.modules[path].imports.get(head)
        if origin and depth < _REEXPORTS:
            return self.find(f"{origin}.{rest}".rstrip("."), depth + 1)
        return None

    def _seen_from(self, path: str, name: str | None) -> Spot | None:
        """Where a name that a file uses is defined."""
        return (self.find(name) or self._in_module(path, name)) if name else None

    def _class_at(self, spot: Spot) -> Class | None:
        scope, _, name = spot.scope.rpartition(".")
        same = (each for each in self.classes.get(name, ()) if each.path == spot.path)
        return next((each for each in same if each.scope == scope), None)

    def resolve(self, call: CallSite) -> Spot | None:
        """Return what a call runs, when that is in the repository."""
        path, name = call.path, call.name
        head, _, rest = name.partition(".")
        if head in {"self", "cls"} and rest:
            return self._method(path, call.scope, rest)
        if rest and head not in self.modules[path].imports.values():
            maker = self._maker(path, call.scope, name.rpartition(".")[0])
            owner = self._seen_from(path, maker)
            if owner:
                return self._member(owner, call.last)
        return self._enter(self._in_module(path, name) or self.find(name))

    def _maker(self, path: str, scope: str, variable: str) -> str | None:
        while True:
            maker = self._makers.get(Spot(path, scope), {}).get(variable)
            if maker:
                head, dot, rest = maker.partition(".")
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
        if "." not in rest:
            return self._member(Spot(path, owner), rest)
        attribute, _, method = rest.rpartition(".")
        for init in (scope, f"{owner}.__init__"):
            spot = self._seen_from(path, self._maker(path, init, f"self.{attribute}"))
            if spot:
                return self._member(spot, method)
        return None

    def _member(self, spot: Spot, method: str, depth: int = 0) -> Spot | None:
        wanted = Spot(spot.path, f"{spot.scope}.{method}".lstrip("."))
        if wanted in self.functions:
            return wanted
        owner = self._class_at(spot)
        for base in owner.bases if owner and depth < REACH else ():
            parent = self._seen_from(spot.path, base)
            if parent and (inherited := self._member(parent, method, depth + 1)):
                return inherited
        return None

    def reach(self, start: Iterable[Spot], depth: int = REACH) -> dict[Spot, int]:
        """Return what runs from these places, with the number of calls it takes to get there."""
        reached = dict.fromkeys(start, 0)
        frontier = list(reached)
        for distance in range(1, depth + 1):
            following: list[Spot] = []
            for spot in frontier:
                for callee in self._callees(spot):
                    if callee not in reached:
                        reached[callee] = distance
                        following.append(callee)
            frontier = following
        return reached

    def _callees(self, spot: Spot) -> tuple[Spot, ...]:
        if spot not in self._edges:
            callees = [callee for call in self.calls(spot) for callee in self._runs(call)]
            if not spot.scope:
                callees += self.commands(spot.path)
            self._edges[spot] = tuple(dict.fromkeys(callees))
        return self._edges[spot]

    def commands(self, path: str) -> list[Spot]:
        """Return the functions of a file that a command-line framework runs by decoration."""
        return [
            Spot(path, function.name)
            for function in self.modules[path].functions
            if not function.scope and any(_COMMAND.search(name) for name in function.decorators)
        ]

    def nearest_training(self, start: Spot) -> tuple[CallSite, int] | None:
        """Return the training call that takes the fewest calls to reach, and how many."""
        for spot, distance in self.reach([start]).items():  # nearest first
            call = self._training.get(spot)
            if call:
                return call, distance
        return None

    @cached_property
    def _training(self) -> dict[Spot, CallSite]:
        """The first training call of each scope."""
        calls = (call for call in self._calls() if trains(call) or takes_gradient_steps(call))
        by_spot = grouped(calls, lambda call: Spot(call.path, call.scope))
        return {spot: calls[0] for spot, calls in by_spot.items()}

    def _runs(self, call: CallSite) -> Iterator[Spot]:
        """What a call runs, and functions of the repository handed to it (`app.run(main)`)."""
        direct = self.resolve(call)
        if direct:
            yield direct
        elif "." in call.name and (
            call.last in TRAINING_METHODS or (call.last == "run" and _RUNNER.search(call.name))
        ):
            yield from self._any_trainer(call.last)
        for value in (*call.args, *call.keywords.values()):
            if is_symbol(value):
                spot = self._in_module(call.path, value.strip("<>"))
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
        trainers: dict[str, list[Spot]] = defaultdict(list)
        for spot, function in self.functions.items():
            is_method = function.scope and (
                function.name in TRAINING_METHODS
                or (function.name == "run" and _RUNNER.search(function.scope))
            )
            if is_method and self.tree.is_own(spot.path):
                trainers[function.name].append(spot)
        return trainers

    def is_trainer(self, path: str, owner: str) -> bool:
        """Whether a class has a method that trains."""
        runs = ("run",) if _RUNNER.search(owner) else ()
        return any(self._member(Spot(path, owner), each) for each in (*TRAINING_METHODS, *runs))

    def descends(self, owner: Class, pattern: str, depth: int = 0) -> bool:
        """Whether a class has a base whose name contains this, directly or further up."""
        for base in owner.bases:
            last = base.rpartition(".")[2]
            if pattern in last:
                return True
            for parent in self.classes.get(last, [])[:3] if depth < REACH else ():
                if parent is not owner and self.descends(parent, pattern, depth + 1):
                    return True
        return False
