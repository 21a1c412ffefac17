r"""Define reward terms: functions of one step that reward files call with arguments.

    @signal("v")
    def Along(step: StepView, direction: str) -> Tensor: ...      # measures

    @term(r"\min({x} / {x}^*, 1)")
    def Share(x: Tensor, goal: float) -> Tensor: ...          # pays

A call computes nothing yet: `Share(Along("forward"), goal=3.0)` returns an `Expression`, a frozen
record of the call, whose repr is that call. A `Program` collects the calls of several expressions,
merges equal ones, and evaluates them for N environments at each step.
Type checkers treat a signal as the value that it measures.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any, ClassVar, Concatenate, ParamSpec, TypeVar, cast

import torch
from torch import Tensor

from telic.core.text import is_row
from telic.envs.spec import EnvSpec
from telic.envs.vector import Info
from telic.errors import RewardError
from telic.quantities import QUANTITIES

P = ParamSpec("P")
T = TypeVar("T")
_Slots = Mapping[str, int | None]
"""number of values of each memory slot by name, None for a scalar"""
_Memory = _Slots | Callable[[Mapping[str, Any]], _Slots]
_WORDS = "words"


@dataclass(eq=False)
class StepView:
    """Transition of N environments, with the memory of the current episode."""

    action: Tensor
    next_obs: Tensor
    info: Info
    memory: dict[str, Tensor]
    """values that persist for the episode, which are replaced but never modified in place"""
    suffix: str = ""
    """suffix of the memory names of this phase"""
    phase: Tensor | None = None
    """index of the current phase, (N,), or None for rewards without phases"""

    @property
    def spec(self) -> EnvSpec:
        """Specification of the environment."""
        assert self.info.spec is not None  # infos of steps have a spec
        return self.info.spec

    @property
    def dt(self) -> float:
        """Seconds per step."""
        return self.spec.dt_s or 1.0

    def measured(self, quantity: str, *arguments: str) -> Tensor:
        """Return the value of an instantaneous quantity."""
        return QUANTITIES[quantity](self.info, *arguments)

    def so_far(self, quantity: str, slot: str | None = None) -> Tensor:
        """Return the value of an accumulated quantity. `slot` defaults to the quantity's name."""
        slot = slot or quantity
        memory, value = QUANTITIES[quantity].update(self.recall(slot), self.info)
        self.keep(slot, memory)
        return value

    def recall(self, slot: str) -> Tensor:
        """Return a value stored in the previous step."""
        return self.memory[slot + self.suffix]

    def keep(self, slot: str, value: Tensor) -> None:
        """Store a value for the next step."""
        self.memory[slot + self.suffix] = value

    def first(self, slot: str, now: Tensor) -> Tensor:
        """Return the value (N, k) at the first step of the episode, and store it in that step."""
        kept, width = self.recall(slot), now.shape[1]
        is_known = kept[:, :1]
        start = torch.where(is_known > 0, kept[:, 1 : 1 + width], now)
        self.keep(slot, torch.cat((torch.ones_like(is_known), start, kept[:, 1 + width :]), -1))
        return start


@dataclass(frozen=True, eq=False)
class Recipe:
    """Library function with metadata on how a node is computed and displayed."""

    function: Callable[..., Any]
    kind: type[Expression]
    latex: str
    memory: _Memory
    digits: int

    @cached_property
    def parameters(self) -> dict[str, Any]:
        """Names and defaults of the arguments, except the step."""
        return parameters_of(self.function, "step")

    @cached_property
    def takes_step(self) -> bool:
        """True if the function has the step as its first parameter."""
        return "step" in inspect.signature(self.function).parameters

    def __call__(self, *args: Any, **named: Any) -> Expression:
        """Return a call as an expression."""
        words = named.pop(_WORDS, "")
        name = self.function.__name__
        bound = bind(name, self.parameters, args, named, self.digits)
        # An object of untrusted code would be called with what telic computes inside.
        for key, value in (*bound, (_WORDS, words)):
            if not _is_data(value):
                raise RewardError(f"{name}: {key} must be a number, a string or a signal.")
        return self.kind(self, bound, words)


def _is_data(value: object) -> bool:
    if is_row(value):
        return all(map(_is_data, value))
    return value is None or isinstance(value, str | Real | Expression)


def parameters_of(function: Callable[..., Any], without: str) -> dict[str, Any]:
    """Return the names and defaults of a function's parameters, except one."""
    found = inspect.signature(function).parameters.values()
    return {each.name: each.default for each in found if each.name != without}


def bind(
    name: str,
    parameters: Mapping[str, Any],
    args: Sequence[Any],
    named: Mapping[str, Any],
    digits: int | None,
) -> tuple[tuple[str, Any], ...]:
    """Bind the arguments of a call to names, and round numbers to the precision used in files."""
    given = {**dict(zip(parameters, args, strict=False)), **named}
    unknown = sorted(given.keys() - parameters.keys())
    values = {**parameters, **given}
    missing = [key for key, value in values.items() if value is inspect.Parameter.empty]
    if unknown or missing or len(args) > len(parameters):
        wrong = f"unexpected {(*unknown, 'value')[0]}"
        wrong = f"missing {missing[0]}" if missing and not unknown else wrong
        raise RewardError(f"{name}: {wrong}.", hint=f"Its arguments are {', '.join(parameters)}.")
    return tuple((key, shortened(values[key], digits)) for key in parameters)


def shortened(value: Any, digits: int | None = 4) -> Any:
    """Round numbers to the precision used in files."""
    if isinstance(value, float) and digits is not None:
        return float(f"{value:.{digits}g}")
    if is_row(value):
        return tuple(shortened(each, digits) for each in value)
    return value


class Expression:
    """Immutable call of a library function that is evaluated at each step."""

    __offered__: ClassVar[str] = "a term"

    def __init__(self, recipe: Recipe, arguments: tuple[tuple[str, Any], ...], words: str) -> None:
        """Store the function, its arguments and the description of the call."""
        self.recipe = recipe
        self.arguments = arguments
        self.words = words
        self._hash = hash((recipe.function.__name__, arguments))

    @property
    def name(self) -> str:
        """Name of the called function."""
        return self.recipe.function.__name__

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other or not isinstance(other, Expression):
            return self is other
        return self.recipe is other.recipe and self.arguments == other.arguments

    def __getitem__(self, name: str) -> Any:
        """Return an argument of the call by name."""
        return dict(self.arguments)[name]

    def __repr__(self) -> str:
        """Return the call as Python code, with all but the first argument passed by keyword."""
        given: list[str] = []
        for place, (name, value) in enumerate(self.arguments):
            default = self.recipe.parameters[name]
            if default is inspect.Parameter.empty or value != default:
                given.append(("" if place == 0 else f"{name}=") + written(value))
        given += [f"{_WORDS}={written(self.words)}"] if self.words else []
        return f"{self.name}({', '.join(given)})"

    def nodes(self) -> Iterator[Expression]:
        """Yield this node and all nodes inside it."""
        yield self
        for _, value in self.arguments:
            if isinstance(value, Expression):
                yield from value.nodes()

    def slots(self) -> dict[str, int | None]:
        """Return the memory slots required by this node and all nodes inside it."""
        found: dict[str, int | None] = {}
        for node in self.nodes():
            memory = node.recipe.memory
            found |= memory(dict(node.arguments)) if callable(memory) else memory
        return found

    def formula(self) -> str:
        """Return the LaTeX formula, with the symbols of its signals."""
        latex = self.recipe.latex
        for name, value in self.arguments:
            shown = value.formula() if isinstance(value, Expression) else f"{value}"
            if isinstance(value, str):  # an underscore would typeset the rest as an index
                shown = rf"\text{{{value.replace('_', ' ')}}}"
            latex = latex.replace(f"{{{name}}}", shown)
        return latex


class Term(Expression):
    """Reward term without its weight."""

    def with_words(self, words: str) -> Term:
        """Return a copy of the term with another description."""
        return Term(self.recipe, self.arguments, words)


class Program:
    """Sequence of distinct calls that evaluates expressions, in order of first use."""

    def __init__(self, expressions: Iterable[Expression]) -> None:
        """Collect the distinct calls, each with its arguments and references to earlier results."""
        self._places: dict[Expression, int] = {}
        self._calls: list[tuple[Callable[..., Any], list[Any], list[tuple[int, int]]]] = []
        self._results = [self._add(each) for each in expressions]

    def _add(self, node: Expression) -> int:
        if not isinstance(node, Expression):
            raise RewardError(f"A {type(node).__name__} is not a term from telic.rewards.terms.")
        if node not in self._places:
            values = [value for _, value in node.arguments]
            if node.recipe.takes_step:
                values.insert(0, None)
            inner = [
                (place, self._add(value))
                for place, value in enumerate(values)
                if isinstance(value, Expression)
            ]
            self._places[node] = len(self._calls)
            self._calls.append((node.recipe.function, values, inner))
            if node.recipe.takes_step:
                inner.append((0, -1))
        return self._places[node]

    def __call__(self, step: StepView) -> list[Any]:
        """Evaluate the expressions at this step."""
        values: list[Any] = []
        for function, arguments, inner in self._calls:
            given = arguments.copy()
            for place, source in inner:
                given[place] = step if source < 0 else values[source]
            values.append(function(*given))
        return [values[place] for place in self._results]


def signal(
    latex: str = "x", *, memory: _Memory | None = None, digits: int = 4
) -> Callable[[Callable[Concatenate[StepView, P], T]], Callable[P, T]]:
    """Register a function of a step and numbers as a signal.

    `latex` is the symbol of the signal, `memory` its memory slots or a function that returns them,
    and `digits` the number of significant digits of its arguments in files.
    """
    return lambda function: cast("Any", Recipe(function, Expression, latex, memory or {}, digits))


def term(
    latex: str = "{x}", *, memory: _Memory | None = None, digits: int = 4
) -> Callable[[Callable[P, Tensor]], Callable[P, Term]]:
    """Register a function of measured values and numbers as a term. See `signal`."""
    return lambda function: cast("Any", Recipe(function, Term, latex, memory or {}, digits))


def step_term(
    latex: str = "{x}", *, memory: _Memory | None = None, digits: int = 4
) -> Callable[[Callable[Concatenate[StepView, P], Tensor]], Callable[P, Term]]:
    """Register a function of a step, measured values and numbers as a term. See `signal`."""
    return lambda function: cast("Any", Recipe(function, Term, latex, memory or {}, digits))


def written(value: Any) -> str:
    """Return a value as Python code, with strings in double quotes."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, tuple):
        inside = [written(each) for each in cast("tuple[Any, ...]", value)]
        return f"({', '.join(inside)}{',' if len(inside) == 1 else ''})"
    return repr(value)
