"""What runs from a place: the calls followed, and which of them train or consult a model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any, NamedTuple

from telic.studies.scan.facts import (
    UNKNOWN,
    Assignment,
    CallSite,
    as_list,
    is_list,
    is_symbol,
    is_table,
)
from telic.studies.scan.repository import IMPORTED, Repository, Spot, grouped
from telic.studies.scan.resolver import Resolver
from telic.studies.scan.source import VOCABULARY

REACH = 10
"""calls followed from an entry point"""
_ALWAYS_TRAIN = VOCABULARY.words("training_calls")
_GRADIENT = VOCABULARY.words("gradient_calls")
_TRAINERS = VOCABULARY.word_lists("trainers")
_OPTIMISERS = tuple(VOCABULARY.words("optimiser_packages"))
_TRAINER = VOCABULARY.pattern("trainers")
_RUNS_TRAINING = re.compile(r"(trainer|learner|experiment|algo)", re.I)
_MODES = VOCABULARY.pattern("mode_owners")
_OTHER_MODE = re.compile(r"^(eval\w*|test|play|predict|validate|inference)$")
_COMMAND = re.compile(r"\.(main|automain|command|hydra_task_config|wrap)$")
_STARTS = frozenset({"run", "call", "check_call", "check_output", "Popen", "system", "popen"})
_CLASS_NAME = re.compile(r"([\w.]+):[A-Za-z_]\w*")
_TRAIN_WORD = re.compile(r"^(train(_\w+)?|learn|fit|run_train\w*|start_train\w*)$")
_SCRIPT = re.compile(r"[\w./{}-]*?([\w./-]+\.py)\b")
_MODULE = re.compile(r"-[a-z]*m\s+([\w.]+)")
_SAMPLES = VOCABULARY.words("sampling_calls")
_SELECTS = VOCABULARY.words("selecting_calls")


class FlowStep(NamedTuple):
    """A call that leads from one place to another."""

    call: CallSite
    to: Spot
    is_process: bool = False
    """whether it starts a process of its own"""


class Flow:
    """Follows calls through a repository."""

    def __init__(self, repository: Repository, resolver: Resolver) -> None:
        self.repository = repository
        self.resolver = resolver
        self._steps: dict[Spot, tuple[FlowStep, ...]] = {}

    def outside(self, call: CallSite) -> list[str]:
        """Return the dotted names outside of the repository that a call runs."""
        return [each for each in self.resolver.targets(call) if isinstance(each, str)]

    def reach(
        self, start: Iterable[Spot], depth: int = REACH, *, processes: bool = True
    ) -> dict[Spot, int]:
        """Return what runs from these places, with the number of calls it takes to get there."""
        reached = dict.fromkeys(start, 0)
        frontier = list(reached)
        for distance in range(1, depth + 1):
            following: list[Spot] = []
            for spot in frontier:
                for step in self.steps(spot):
                    if step.to not in reached and (processes or not step.is_process):
                        reached[step.to] = distance
                        following.append(step.to)
            frontier = following
        return reached

    def steps(self, spot: Spot) -> tuple[FlowStep, ...]:
        """Return the calls in a place that lead on, with where they lead."""
        if spot not in self._steps:
            calls = self.repository.calls(spot)
            found = [FlowStep(call, to) for call in calls for to in self._runs(call)]
            found += [
                FlowStep(call, to, is_process=True)
                for call in calls
                if call.last in _STARTS and self.outside(call)
                for to in self.started(call)
            ]
            self._steps[spot] = tuple(found)
        return self._steps[spot]

    def commands(self, path: str) -> list[Spot]:
        """Return the functions of a file that a command-line framework runs by decoration."""
        return [
            Spot(path, function.name)
            for function in self.repository.modules[path].functions
            if not function.scope and any(_COMMAND.search(name) for name in function.decorators)
        ]

    def _runs(self, call: CallSite) -> Iterator[Spot]:
        """What a call runs: functions, and functions handed to it."""
        functions = self.repository.functions
        targets = self.resolver.targets(call)
        for target in targets:
            if isinstance(target, Spot):
                yield target
        handed = () if call.last == "set_defaults" else (*call.args, *call.keywords.values())
        for value in handed:
            for each in as_list(value):
                if is_symbol(each):
                    for thing in self.resolver.things(call.path, call.scope, str(each)):
                        if isinstance(thing, Spot) and thing in functions:
                            yield thing

    def started(self, call: CallSite) -> Iterator[Spot]:
        """Return the scripts of the repository that a call starts as a process."""
        words = " ".join(self._words(call))
        for name in (*_SCRIPT.findall(words), *_MODULE.findall(words)):
            path = self._script(name, call.path)
            if path and path != call.path:
                yield Spot(path, "")

    def _words(self, call: CallSite) -> Iterator[str]:
        values: list[Any] = [*call.args[:1], call.keywords.get("args")]
        while values:
            value = values.pop(0)
            if is_list(value):
                values = [*value, *values]
            elif is_symbol(value):
                held = self.repository.assigned[Spot(call.path, call.scope)]
                found = [each.value for each in held.get(value.strip("<>"), [])]
                values += [each for each in found if not is_symbol(each)]
            elif isinstance(value, str):
                yield value

    def _script(self, name: str, near: str) -> str | None:
        if not name.endswith(".py"):
            return self.repository.module(name)
        clean = name.lstrip("./")
        modules = self.repository.modules
        ending = [path for path in modules if path == clean or path.endswith(f"/{clean}")]
        beside = f"{near.rpartition('/')[0]}/{clean}".lstrip("/")
        return beside if beside in ending else next(iter(ending), None)

    # ------------------------------------------------------------------ training

    def trains(self, call: CallSite) -> bool:
        """Whether a call hands over to a trainer outside of the repository."""
        outside = self.outside(call)
        for name in outside:
            methods = _TRAINERS.get(name.partition(".")[0], ())
            if call.last in methods and not _is_other_mode(call):
                return True
        if self.resolver.targets(call):
            return False
        return _sounds_like_training(call)

    def takes_gradient_steps(self, call: CallSite) -> bool:
        """Whether a call is part of a hand-written optimisation loop."""
        if call.last in _GRADIENT:
            return True
        if call.last not in {"step", "update", "tell"}:
            return False
        outside = self.outside(call)
        if outside:
            return any(name.startswith(_OPTIMISERS) for name in outside)
        return not self.resolver.targets(call) and "optim" in call.name.lower()

    def is_named_training(self, call: CallSite) -> bool:
        """Whether a call is named after training, for where following it led to no training."""
        last = call.last
        return last in _ALWAYS_TRAIN or (bool(_TRAIN_WORD.match(last)) and "." in call.name)

    def nearest_training(self, start: Spot) -> tuple[CallSite, int] | None:
        """Return the training call that takes the fewest calls to reach, and how many."""
        for spot, distance in self.reach([start]).items():  # nearest first
            call = self.training.get(spot)
            if call:
                return call, distance
        return None

    @cached_property
    def training(self) -> dict[Spot, CallSite]:
        """The first training call of each scope."""
        calls = (
            call
            for call in self.repository.all_calls()
            if _may_train(call) and (self.trains(call) or self.takes_gradient_steps(call))
        )
        by_spot = grouped(calls, lambda call: Spot(call.path, call.scope))
        found = {spot: calls[0] for spot, calls in by_spot.items()}
        for call in (*self.searching, *self._tables()):
            found.setdefault(Spot(call.path, call.scope), call)
        return found

    def _tables(self) -> Iterator[CallSite]:
        """Steps of a world in functions that change a table of values by what they bring."""
        for call in self.repository.calls_by_last.get("step", []):
            if not call.args or any(name.startswith(_OPTIMISERS) for name in self.outside(call)):
                continue
            assigned = self.repository.assigned[Spot(call.path, call.scope)]
            if any(_is_table_of_values(held) for held in assigned.values()):
                yield call

    @cached_property
    def searching(self) -> list[CallSite]:
        """Calls that draw candidates in functions that change what they hold by how these do."""
        found: list[CallSite] = []
        for last in _SAMPLES:
            for call in self.repository.calls_by_last.get(last, []):
                spot = Spot(call.path, call.scope)
                if call.scope and self._improves(spot):
                    found.append(call)
        return found

    def _improves(self, spot: Spot) -> bool:
        """Whether a function keeps the better of what it tries, or moves towards it."""
        assigned = self.repository.assigned[spot]
        moved = any(
            each.augments and first[0] is not each
            for first in assigned.values()
            for each in first
            if is_symbol(first[0].value) and "zeros" in first[0].value
        )
        calls = self.repository.calls(spot)
        return moved or any(call.last in _SELECTS for call in calls)

    def named_files(self, spots: Iterable[Spot]) -> list[str]:
        """Return files of classes that are named in texts: `package.module:Class`."""
        found: dict[str, None] = {}
        for spot in spots:
            for call in self.repository.calls(spot):
                for value in _texts((*call.args, *call.keywords.values())):
                    match = _CLASS_NAME.fullmatch(value)
                    path = self.repository.module(match[1], spot.path) if match else None
                    if path:
                        found[path] = None
        return list(found)

    def tops(self, paths: Iterable[str]) -> list[Spot]:
        """Return the top levels that run when these files are imported, with all they import."""
        return [Spot(path, IMPORTED) for path in self.repository.import_closure(paths)]


def _is_table_of_values(held: list[Assignment]) -> bool:
    """Whether a variable starts as an empty table and is then changed in place."""
    first = held[0].value
    is_empty = is_symbol(first) and bool(re.search(r"zeros|defaultdict|ones|full\b|rand", first))
    return is_empty and any(each.augments or each.value is UNKNOWN for each in held[1:])


def _texts(values: Iterable[Any]) -> Iterator[str]:
    for value in values:
        if is_table(value):
            yield from _texts(value.values())
        elif isinstance(value, str):
            yield value


def _may_train(call: CallSite) -> bool:
    return (
        call.last in _GRADIENT
        or call.last in _ALWAYS_TRAIN
        or call.last in _EVERY_METHOD
        or call.last in {"step", "update", "tell", "train", "run", "fit"}
    )


_EVERY_METHOD = frozenset(word for words in _TRAINERS.values() for word in words)


def _is_other_mode(call: CallSite) -> bool:
    """`runner.run("eval")` and `runner.run({"train": False})` do not train."""
    first = call.args[0] if call.args else call.keywords.get("mode")
    if is_table(first):
        return first.get("train", True) is False
    return isinstance(first, str) and bool(_OTHER_MODE.match(first))


def _sounds_like_training(call: CallSite) -> bool:
    """For calls on something that could not be followed: whether the name speaks of training."""
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
