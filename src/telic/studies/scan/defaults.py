"""What happens when a command is run as it is: values of settings, conditions, and what runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from telic.studies.scan.composition import ComposedConfig
from telic.studies.scan.facts import (
    EACH,
    UNKNOWN,
    Alternative,
    Assignment,
    BranchCondition,
    CallSite,
    Made,
    Unknown,
    is_list,
    is_plain,
    is_symbol,
    is_table,
)
from telic.studies.scan.flow import REACH, Flow, FlowStep
from telic.studies.scan.interface import Interface
from telic.studies.scan.repository import Spot
from telic.studies.scan.settings import Settings, bare

_DEPTH = 10
_TRUE = BranchCondition("value", True)


class _Each(list[Any]):
    """Values that a loop goes through: a comparison holds when it holds for one of them."""


class CommandDefaults:
    """One command with its defaults: what its settings are and which of its code runs."""

    def __init__(
        self,
        flow: Flow,
        settings: Settings,
        interface: Interface,
        composition: ComposedConfig,
        paths: Iterable[str],
        *,
        is_library: bool = False,
    ) -> None:
        self.flow = flow
        self.settings = settings
        self.interface = interface
        self.composition = composition
        self.paths = {path: rank for rank, path in enumerate(paths)}
        self.is_library = is_library
        self.subcommands: frozenset[str] = frozenset()
        """those that the command names"""
        """whether users give arguments that the text does not show"""
        self._read: list[str] = []

    # ------------------------------------------------------------------ values

    def value(self, path: str, scope: str, name: str, depth: int = 0) -> Any:
        """Return what a name holds by default; UNKNOWN where the text does not give it."""
        if depth > _DEPTH:
            return UNKNOWN
        if name == "__name__":
            return "__main__"
        head, _, rest = name.partition(".")
        if head == "self" and rest:
            held = self._attribute(path, scope, rest, depth)
            if not isinstance(held, Unknown):
                return held
            return self._setting(name.split(".")[1:], owned=True)
        local = self._local(path, scope, name, depth)
        if local is not None:
            return local
        return self._setting(name.split("."), owned=bool(rest)) if rest else UNKNOWN

    def _attribute(self, path: str, scope: str, name: str, depth: int) -> Any:
        """What an object's methods assign to one of its attributes."""
        owner = scope
        while owner and not self.flow.repository.class_at(Spot(path, owner)):
            owner = owner.rpartition(".")[0]
        head, _, rest = name.partition(".")
        for each in self.flow.repository.lineage(Spot(path, owner)) if owner else ():
            values = (
                self.flow.resolver.links.held.get(each, {}).get(head)
                if isinstance(each, Spot)
                else None
            )
            if values:
                if rest:
                    symbols = [v.value for v in values if is_symbol(v.value)]
                    inner = f"{symbols[0].strip('<>')}.{rest}" if symbols else ""
                    return (
                        self.value(values[0].path, values[0].scope, inner, depth + 1)
                        if inner
                        else UNKNOWN
                    )
                return self._agreed(values, depth)
        return UNKNOWN

    def _agreed(self, values: list[Assignment], depth: int) -> Any:
        """The value of several assignments where they do not contradict each other."""
        found = [self.written(v.path, v.scope, v.value, depth + 1, v) for v in values[-4:]]
        first = found[0]
        if isinstance(first, _Each) and len(found) == 1:
            return first
        return (
            first if all(type(each) is type(first) and each == first for each in found) else UNKNOWN
        )

    def written(
        self, path: str, scope: str, value: Any, depth: int = 0, held: Assignment | None = None
    ) -> Any:
        """Return what a written value comes to."""
        if depth > _DEPTH:
            return UNKNOWN
        if held is not None and held.condition is not None and held.condition.kind != "value":
            answer = self.holds(path, scope, held.condition, depth + 1)
            return UNKNOWN if answer is None else answer
        if isinstance(value, Alternative):
            return self._chosen(path, scope, value, depth)
        if isinstance(value, Made):
            return UNKNOWN
        if is_symbol(value):
            value = self.value(path, scope, value.strip("<>"), depth + 1)
        if held is not None and held.part is not None:
            if held.part == EACH and is_list(value):
                return _Each(value)
            return value[held.part] if is_list(value) and held.part < len(value) else UNKNOWN
        return value

    def _chosen(self, path: str, scope: str, choice: Alternative, depth: int) -> Any:
        if choice.test is not None:
            answer = self.holds(path, scope, choice.test, depth + 1)
            if answer is None:
                return UNKNOWN
            return self.written(path, scope, choice.first if answer else choice.second, depth + 1)
        first = self.written(path, scope, choice.first, depth + 1)
        if isinstance(first, Unknown) or first in (None, ""):
            return self.written(path, scope, choice.second, depth + 1)
        return first

    def _local(self, path: str, scope: str, name: str, depth: int) -> Any | None:
        """What a variable or parameter holds; None when there is none of that name."""
        repository = self.flow.repository
        head = name.partition(".")[0]
        while True:
            spot = Spot(path, scope)
            values = repository.assigned[spot].get(name)
            if values:
                own = [each for each in values if each.value != f"<{name}>"]
                agreed = self._agreed(own, depth) if own else UNKNOWN
                # `args.seed = …` beside a flag of that name: the flag says more
                if not isinstance(agreed, Unknown) or "." not in name:
                    return agreed
            function = repository.functions.get(spot)
            if function and name in function.arguments:
                return self._parameter(spot, name, depth)
            if "." in name and head in repository.assigned[spot]:
                inner = self._through(spot, head, name, depth)
                if not isinstance(inner, Unknown):
                    return inner
            if not scope:
                return None
            scope = scope.rpartition(".")[0]

    def _through(self, spot: Spot, head: str, name: str, depth: int) -> Any:
        """`config = self.cfg.train` and then `config.seed`."""
        for each in self.flow.repository.assigned[spot][head]:
            if isinstance(each.value, Made) and "DEFINE_" in each.value and each.value.args:
                return self._setting(["FLAGS", str(each.value.args[0])], owned=False)
            if is_symbol(each.value) and not isinstance(each.value, Made):
                inner = each.value.strip("<>")
                if inner != head and not inner.startswith(f"{head}."):
                    return self.value(
                        spot.path, spot.scope, f"{inner}.{name.partition('.')[2]}", depth + 1
                    )
            if is_table(each.value):
                held: Any = each.value
                for part in name.split(".")[1:]:
                    held = held.get(part, UNKNOWN) if is_table(held) else UNKNOWN
                return held if is_plain(held) else UNKNOWN
        return UNKNOWN

    def _parameter(self, spot: Spot, name: str, depth: int) -> Any:
        function = self.flow.repository.functions[spot]
        handed = list(self.flow.resolver.handed(spot, function, name))
        calls = self.flow.resolver.callers(spot, function)
        found = [
            self.written(call.path, call.scope, value, depth + 1) for value, call in handed[:6]
        ]
        if not handed:
            flag = self.interface.flag(name)
            if flag is not None and flag.path == spot.path:
                self._read.append(flag.label)
                return flag.default if flag.known else UNKNOWN
        composed = self.composition.values.get(name)
        if calls and not handed and name not in function.defaults and composed is not None:
            return composed.value  # handed over with all others, as `Search(**config)` does
        if len(handed) < len(calls) or not calls:
            found.append(function.defaults.get(name, UNKNOWN))
        if self.is_library and None in found:
            return UNKNOWN
        plain = [each for each in found if is_plain(each)]
        if len(plain) != len(found) or not plain:
            return UNKNOWN
        return plain[0] if all(each == plain[0] for each in plain) else UNKNOWN

    def _setting(self, parts: list[str], *, owned: bool) -> Any:
        """What the composed configuration, the command line or a class says of a setting."""
        for start in range(len(parts)):
            suffix = ".".join(parts[start:])
            alone = start == len(parts) - 1
            if alone and len(parts) > 2 and suffix not in self.composition.values:
                break
            found = self.composition.get(suffix)
            if found is not None:
                self._read.append(suffix)
                return found.value
        last = parts[-1]
        for start in range(len(parts)):
            flag = next((f for f in self.interface.flags if f.key == ".".join(parts[start:])), None)
            if flag is not None:
                self._read.append(flag.label)
                return flag.default if flag.known else UNKNOWN
        return self._field(last, parts) if owned else UNKNOWN

    def _field(self, last: str, parts: list[str]) -> Any:
        """What the nearest class among the command's files gives as default."""
        found = [
            setting
            for setting in self.settings.fields
            if bare(setting.name) == last and setting.path in self.paths and "." in setting.name
        ]
        owner = parts[-2].strip("_").lower() if len(parts) > 1 else ""
        found.sort(key=lambda s: (owner not in s.name.lower(), self.paths[s.path]))
        if not found or not found[0].known:
            return UNKNOWN
        self._read.append(found[0].name)
        return found[0].default

    # ------------------------------------------------------------------ conditions

    def holds(self, path: str, scope: str, test: BranchCondition, depth: int = 0) -> bool | None:
        """Say whether a condition holds by default; None when the text does not tell."""
        match test.kind:
            case "value":
                value = self.written(path, scope, test.value, depth + 1)
                return bool(value) if is_plain(value) else None
            case "not":
                inner = self.holds(path, scope, test.parts[0], depth + 1)
                return None if inner is None else not inner
            case "and" | "or":
                answers = [self.holds(path, scope, each, depth + 1) for each in test.parts]
                deciding = test.kind == "or"
                if deciding in answers:
                    return deciding
                return None if None in answers else not deciding
            case "unknown":
                return None
            case _:
                return self._compared(path, scope, test, depth)

    def _compared(self, path: str, scope: str, test: BranchCondition, depth: int) -> bool | None:
        left, right = (
            self.written(path, scope, each.value, depth + 1) if each.kind == "value" else UNKNOWN
            for each in test.parts
        )
        if isinstance(left, Unknown) or isinstance(right, Unknown):
            return self._symbols(test) if test.kind == "equal" else None
        if test.kind == "less":
            numbers = all(isinstance(each, int | float) for each in (left, right))
            return left < right if numbers else None
        if test.kind == "within":
            return _plainly(left) in [_plainly(each) for each in right] if is_list(right) else None
        if isinstance(left, _Each):
            among = _plainly(right) in [_plainly(each) for each in left]
            return None if among and len(left) > 1 else among  # so for one, not for others
        return _plainly(left) == _plainly(right)

    def _symbols(self, test: BranchCondition) -> bool | None:
        """`kind == Logger.WANDB` where the default is such a name too."""
        names = [each.value for each in test.parts if is_symbol(each.value)]
        if len(names) != 2:
            return None
        for one, other in (names, names[::-1]):
            last = one.strip("<>").rpartition(".")[2]
            for setting in self.settings.fields:
                if bare(setting.name) == last and is_symbol(setting.default):
                    return _plainly(setting.default) == _plainly(other)
        return None

    def allows(self, call: CallSite) -> tuple[bool, str | None]:
        """Say whether a call's own conditions let it run by default, and the setting they read."""
        self._read = []
        for guard in call.guards:
            if guard.test is not None:
                answer = self.holds(call.path, call.scope, guard.test)
                if answer is not None and answer != guard.holds:
                    return False, self._read[-1] if self._read else None
        return True, self._read[-1] if self._read else None

    # ------------------------------------------------------------------ what runs

    def active(self, starts: Iterable[Spot]) -> dict[Spot, int]:
        """Return what runs by default from these places, with the number of calls to get there."""
        reached = dict.fromkeys(starts, 0)
        frontier = list(reached)
        waiting: dict[Spot, int] = {}
        distance = 0
        while (frontier or waiting) and distance <= REACH * 2:
            distance += 1
            following: list[Spot] = []
            for spot in frontier:
                for step in self.flow.steps(spot):
                    if step.to in reached or not self._follows(step):
                        continue
                    if self._is_made(step.to, reached):
                        reached[step.to] = distance
                        following.append(step.to)
                    else:
                        waiting[step.to] = distance
            ready = [spot for spot in waiting if self._is_made(spot, reached)]
            for spot in ready:
                reached.setdefault(spot, waiting.pop(spot))
                following.append(spot)
            if not following:
                break
            frontier = following
        return reached

    def _follows(self, step: FlowStep) -> bool:
        if not self.allows(step.call)[0]:
            return False
        for site, value, word in self.flow.resolver.links.dispatched.get(step.call.last, ()):
            if step.to in self.flow.resolver.things(site.path, site.scope, value):
                return word is None or not self.subcommands or word in self.subcommands
        composed = self._instantiated(step.call)
        return composed is None or step.to.scope.startswith(composed.scope)

    def _instantiated(self, call: CallSite) -> Spot | None:
        """What the composed configuration names for `instantiate(cfg.logger)`."""
        if call.last != "instantiate" or not call.args or not is_symbol(call.args[0]):
            return None
        key = call.args[0].strip("<>").rpartition(".")[2]
        target = self.composition.get(f"{key}._target_")
        return self.flow.repository.find(str(target.value)) if target else None

    def _is_made(self, spot: Spot, reached: dict[Spot, int]) -> bool:
        """Whether a method's object exists: some class of its line is made, or none is ever."""
        repository = self.flow.repository
        owner = Spot(spot.path, spot.scope.rpartition(".")[0])
        if not owner.scope or not repository.class_at(owner):
            return True
        init = repository.member(owner, "__init__")
        if init is None or spot == init or init in reached:
            return True
        name = owner.scope.rpartition(".")[2]
        family = self.flow.resolver.links.derived.get(name, set())
        for each in family:
            for other in repository.classes[each]:
                made = repository.member(Spot(other.path, other.full_name), "__init__")
                if made in reached:
                    return True
        return False


def _plainly(value: Any) -> Any:
    """Words without case and owners: `Logger.WANDB`, `wandb`."""
    if isinstance(value, str):
        return value.strip("<>").rpartition(".")[2].lower()
    return value
