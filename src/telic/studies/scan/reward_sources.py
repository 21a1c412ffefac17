"""Where rewards are computed: in what environments return, in wrappers, terms, bonuses, objectives.

A file counts because its code makes the number, not because it is named after it: what only adds up
terms that others wrote, hands a reward through, or draws it, does not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

from telic.studies.scan.entry_points import RepositoryScan
from telic.studies.scan.facts import (
    EACH,
    Assignment,
    CallSite,
    Class,
    Function,
    Made,
    Unknown,
    as_list,
    is_list,
    is_symbol,
)
from telic.studies.scan.repository import Spot
from telic.studies.scan.resolver import Thing
from telic.studies.scan.source import VOCABULARY

_ENVIRONMENT = re.compile(r"(Env|Environment|Task|World|Game|EnvCfg|VecTask)(\[.*)?$")
_STEPS = frozenset({"step", "_step", "step_env", "post_physics_step", "step_wait", "c_step"})
_VARIABLE = VOCABULARY.patterns("task_variables")["reward"]
_NAMED = VOCABULARY.patterns("task_functions")["reward"]
_IN_FILE = VOCABULARY.patterns("task_files")["reward"]
_TERM = VOCABULARY.patterns("task_terms")["reward"]
_BOOKKEEPING = VOCABULARY.pattern("learner_names")
_HANDED = re.compile(r"^(reward|rew)_?(fn|func|function)s?$|^reward_(terms|components)$")
_BONUS = re.compile(r"intrinsic|bonus|curiosity|novelty|exploration_reward", re.I)
_NATIVE = (".pyx", ".c", ".h", ".cpp", ".hpp", ".cu")
_NATIVE_REWARD = re.compile(r"(?:\b|->|\.|_)rewards?(?:\[[^\]]*\])?\s*[+-]?=[^=]")
_LONG = 3


class RewardSign(NamedTuple):
    """A line that makes a reward, and how much it says."""

    weight: float
    path: str
    line: int
    note: str


class RewardCode:
    """Looks through a repository for code that makes rewards."""

    def __init__(self, scan: RepositoryScan) -> None:
        self.scan = scan
        self.repository = scan.repository

    def signs(self) -> Iterator[RewardSign]:
        """Yield every line that makes a reward."""
        for facts in self.scan.sources():
            if any(VOCABULARY.package(origin, "drawing") for origin in facts.import_lines):
                continue
            for each in facts.classes:
                yield from self._of_class(each)
            for function in facts.functions:
                yield from self._named(function)
            for call in facts.calls:
                yield from self._of_call(call)
        yield from self._bonuses()
        yield from self._native()

    # ------------------------------------------------------------------ environments

    @cached_property
    def _environments(self) -> frozenset[Spot]:
        """Classes that are stepped: by what they derive from, or by how they are built."""
        return frozenset(
            Spot(each.path, each.full_name)
            for each in self.scan.source_classes()
            if self._is_environment(each)
        )

    def _is_environment(self, each: Class) -> bool:
        spot = Spot(each.path, each.full_name)
        lineage = [s.scope if isinstance(s, Spot) else s for s in self.repository.lineage(spot)]
        if any(_ENVIRONMENT.search(name) for name in lineage):
            return True
        methods = {
            function.name
            for function in self.repository.modules[each.path].functions
            if function.scope == each.full_name
        }
        return bool(methods & _STEPS) or ("reset" in methods and self._steps(spot) is not None)

    def _steps(self, spot: Spot) -> Function | None:
        """The method of a class that returns what a step does."""
        for function in self.repository.modules[spot.path].functions:
            if function.scope == spot.scope and any(map(_is_outcome, function.returns)):
                return function
        return None

    def _of_class(self, each: Class) -> Iterator[RewardSign]:
        spot = Spot(each.path, each.full_name)
        if self.repository.descends(each, "RewardWrapper"):
            yield RewardSign(0.6, each.path, each.line, f"class {each.name} changes rewards")
            return
        if spot not in self._environments:
            return
        is_wrapper = self.repository.descends(each, "Wrapper") or "Wrapper" in each.name
        for function in self.repository.modules[each.path].functions:
            if function.scope != each.full_name:
                continue
            place = Spot(each.path, function.full_name)
            yield from self._returned(place, function, is_wrapper=is_wrapper)
            if not is_wrapper:
                yield from self._assigned(place, function)

    def _returned(
        self, place: Spot, function: Function, *, is_wrapper: bool
    ) -> Iterator[RewardSign]:
        """What the second place of a step's outcome is made of."""
        for outcome in filter(_is_outcome, function.returns):
            second = as_list(outcome)[1]
            if isinstance(second, Made):
                for thing in self.scan.resolver.denotes(
                    place.path, place.scope, second.strip("<>")
                ):
                    maker = (
                        self.repository.functions.get(thing) if isinstance(thing, Spot) else None
                    )
                    if maker is not None:
                        note = f"{maker.name} makes what {function.full_name} returns"
                        yield RewardSign(0.5, maker.path, maker.line, note)
            made = isinstance(second, Unknown) or (
                is_symbol(second) and self._is_made(place, second.strip("<>"), is_wrapper)
            )
            if made:
                note = f"the reward that {function.full_name} returns"
                yield RewardSign(0.5, function.path, function.line, note)

    def _is_made(self, place: Spot, name: str, is_wrapper: bool) -> bool:
        """Whether a variable is computed here, not handed through or merely added up."""
        assignments = self.repository.assigned[place].get(name, [])
        own = [each for each in assignments if not _is_handed_through(each)]
        if not assignments and not is_wrapper:
            return False
        return any(
            (each.computed or isinstance(each.value, int | float))
            and not self._adds_up(place, each)
            and not _is_empty(each)
            for each in own
        )

    def _adds_up(self, place: Spot, each: Assignment) -> bool:
        """Whether a line only calls terms that a loop goes through."""
        names = self.repository.assigned[place]
        looped = {n for n, found in names.items() if any(x.part == EACH for x in found)}
        calls = [call for call in self.repository.calls(place) if call.line == each.line]
        return any(call.name.partition(".")[0] in looped for call in calls)

    def _assigned(self, place: Spot, function: Function) -> Iterator[RewardSign]:
        """Rewards computed in a method of an environment, and the functions that compute them."""
        for target, assignments in self.repository.assigned[place].items():
            if not _VARIABLE.match(target) or _BOOKKEEPING.search(target):
                continue
            for each in assignments:
                if _is_handed_through(each) or _is_empty(each) or self._adds_up(place, each):
                    continue
                calls = [call for call in self.repository.calls(place) if call.line == each.line]
                for path, line, name in self._own_targets(calls, place):
                    yield RewardSign(0.5, path, line, f"{name} makes {target}")
                if each.computed or isinstance(each.value, Unknown):
                    note = f"{target} computed in {function.full_name}"
                    yield RewardSign(0.5, each.path, each.line, note)

    def _function(self, thing: Thing) -> Function | None:
        return self.repository.functions.get(thing) if isinstance(thing, Spot) else None

    def _own_targets(self, calls: list[CallSite], place: Spot) -> Iterator[tuple[str, int, str]]:
        for call in calls:
            for target in self.scan.resolver.targets(call):
                function = self._function(target)
                if function is not None and function.name not in _STEPS and function.returns:
                    yield function.path, function.line, function.name

    # ------------------------------------------------------------------ functions and terms

    def _named(self, function: Function) -> Iterator[RewardSign]:
        """Functions named after a reward, where their place bears it out."""
        if not _NAMED.search(function.name) or not function.returns:
            return
        if function.name in {"reward", "rewards"} and "property" in function.decorators:
            return
        is_term = function.name.startswith(("_reward_", "_rew_"))
        if not is_term and _BOOKKEEPING.search(function.name):
            return
        owner = Spot(function.path, function.scope)
        spot = Spot(function.path, function.full_name)
        if self._dispatches(spot):
            return
        in_file = bool(_IN_FILE.search(function.path.lower())) and not function.scope
        if owner in self._environments or in_file or is_term:
            yield RewardSign(0.5, function.path, function.line, f"def {function.name}")
        elif spot in self.scan.any_train_reach and not function.scope:
            yield RewardSign(0.4, function.path, function.line, f"def {function.name}")

    def _dispatches(self, spot: Spot) -> bool:
        """Whether a function goes through terms that others wrote."""
        names = self.repository.assigned[spot]
        looped = {n for n, found in names.items() if any(x.part == EACH for x in found)}
        return any(c.name.partition(".")[0] in looped for c in self.repository.calls(spot))

    def _of_call(self, call: CallSite) -> Iterator[RewardSign]:
        """Terms of a configuration, and functions handed over as rewards."""
        if _TERM.search(call.last):
            yield RewardSign(0.5, call.path, call.line, f"{call.last}(…)")
            handed = call.keywords.get("func", call.args[0] if call.args else None)
            yield from self._functions(call, [handed], "term")
        for name, value in call.keywords.items():
            if _HANDED.match(name):
                yield from self._functions(call, as_list(value), name)

    def _functions(self, call: CallSite, values: list[object], why: str) -> Iterator[RewardSign]:
        for value in values:
            for thing in self.scan.resolver.things(call.path, call.scope, value):
                function = self._function(thing)
                if function is not None:
                    note = f"{function.name} is handed over as {why}"
                    yield RewardSign(0.5, function.path, function.line, note)

    def _bonuses(self) -> Iterator[RewardSign]:
        """Functions of the repository that training adds to what environments return."""
        for spot in self.scan.any_train_reach:
            for target, assignments in self.repository.assigned[spot].items():
                is_bonus = bool(_BONUS.search(target))
                if not is_bonus and not _VARIABLE.match(target):
                    continue
                for each in assignments:
                    calls = [c for c in self.repository.calls(spot) if c.line == each.line]
                    if any(f"<{target}>" in map(str, c.args) for c in calls):
                        continue  # what is given the reward only changes its scale
                    for path, line, name in self._own_targets(calls, spot):
                        if is_bonus or not _BOOKKEEPING.search(name):
                            yield RewardSign(0.5, path, line, f"{name} is a part of {target}")

    def _native(self) -> Iterator[RewardSign]:
        """Environments written in another language."""
        for path in self.scan.tree.with_suffix(*_NATIVE):
            if self.scan.tree.is_own(path):
                match = _NATIVE_REWARD.search(self.scan.tree.text(path))
                if match:
                    line = self.scan.tree.line_of(path, match.start())
                    yield RewardSign(0.5, path, line, match[0].strip())

    def objectives(self) -> Iterator[RewardSign]:
        """What a search over parameters scores its candidates by, where nothing else pays."""
        for call in self.scan.flow.searching:
            spot = Spot(call.path, call.scope)
            if spot in self.scan.any_train_reach:
                for path, line, name in self._own_targets(self.repository.calls(spot), spot):
                    yield RewardSign(0.5, path, line, f"{name} scores candidates")


def _is_outcome(value: object) -> bool:
    """Whether a returned value has the form of a step's outcome: state, reward, end."""
    return is_list(value) and len(value) >= _LONG


def _is_handed_through(each: Assignment) -> bool:
    """`obs, reward, … = self.env.step(action)`."""
    return each.part is not None and each.part != EACH and ".step" in str(each.value)


def _is_empty(each: Assignment) -> bool:
    value = str(each.value)
    return "zeros" in value or value in {"0", "0.0", "[]", "{}", "None"} or "empty" in value
