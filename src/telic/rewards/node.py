r"""Define reward terms: functions of one step, named with their numbers in a reward's file.

    @signal("v")
    def Along(step: StepView, direction: str) -> Tensor: ...      # measures

    @term(r"\min({x} / {x}^*, 1)")
    def Share(x: Tensor, goal: float) -> Tensor: ...          # pays

Calling one computes nothing yet: `Share(Along("forward"), goal=3.0)` is an `Expression`, a frozen
record of the call, and is written as that very call. A `Program` lists the calls behind several
expressions once, equal ones as one, and makes them for N environments at each step.
To a type checker a signal is what it will have measured.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
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
"""memory by name: how many numbers, None for a single one"""
_Memory = _Slots | Callable[[Mapping[str, Any]], _Slots]
_WORDS = "words"


@dataclass(eq=False)
class StepView:
    """One transition of N environments, and the memory of its episode."""

    action: Tensor
    next_obs: Tensor
    info: Info
    memory: dict[str, Tensor]
    """what lasts for the episode; values are replaced, never changed"""
    suffix: str = ""
    """how names of this phase's memory end"""
    phase: Tensor | None = None
    """index of the current phase, (N,), where there are phases"""

    @property
    def spec(self) -> EnvSpec:
        """The environment."""
        assert self.info.spec is not None  # infos of steps say whose they are
        return self.info.spec

    @property
    def dt(self) -> float:
        """Seconds per step."""
        return self.spec.dt_s or 1.0

    def measured(self, quantity: str, *arguments: str) -> Tensor:
        """Return a quantity of this moment."""
        return QUANTITIES[quantity](self.info, *arguments)

    def so_far(self, quantity: str, slot: str | None = None) -> Tensor:
        """Return a quantity of the episode so far; its memory has its name, or another one."""
        slot = slot or quantity
        memory, value = QUANTITIES[quantity].update(self.recall(slot), self.info)
        self.keep(slot, memory)
        return value

    def recall(self, slot: str) -> Tensor:
        """Return a memory as the last step left it."""
        return self.memory[slot + self.suffix]

    def keep(self, slot: str, value: Tensor) -> None:
        """Replace a memory."""
        self.memory[slot + self.suffix] = value

    def first(self, slot: str, now: Tensor) -> Tensor:
        """Return rows (N, k) as they were at the first step of the episode, and keep them."""
        kept, width = self.recall(slot), now.shape[1]
        is_known = kept[:, :1]
        start = torch.where(is_known > 0, kept[:, 1 : 1 + width], now)
        self.keep(slot, torch.cat((torch.ones_like(is_known), start, kept[:, 1 + width :]), -1))
        return start


@dataclass(frozen=True, eq=False)
class Recipe:
    """A function of the library: what a node computes, and how it is called."""

    function: Callable[..., Any]
    kind: type[Expression]
    latex: str
    memory: _Memory
    digits: int

    @cached_property
    def parameters(self) -> dict[str, Any]:
        """Names and defaults of its arguments, besides the step."""
        return parameters_of(self.function, "step")

    @cached_property
    def takes_step(self) -> bool:
        """True if it reads the step itself."""
        return "step" in inspect.signature(self.function).parameters

    def __call__(self, *args: Any, **named: Any) -> Expression:
        """Return the node of a call."""
        words = named.pop(_WORDS, "")
        name = self.function.__name__
        return self.kind(self, bind(name, self.parameters, args, named, self.digits), words)


def parameters_of(function: Callable[..., Any], without: str) -> dict[str, Any]:
    """Return the names and defaults of a function's arguments, but for one."""
    found = inspect.signature(function).parameters.values()
    return {each.name: each.default for each in found if each.name != without}


def bind(
    name: str,
    parameters: Mapping[str, Any],
    args: Sequence[Any],
    named: Mapping[str, Any],
    digits: int | None,
) -> tuple[tuple[str, Any], ...]:
    """Return every argument of a call by name, numbers rounded as they are written."""
    given = {**dict(zip(parameters, args, strict=False)), **named}
    unknown = sorted(given.keys() - parameters.keys())
    values = {**parameters, **given}
    missing = [key for key, value in values.items() if value is inspect.Parameter.empty]
    if unknown or missing or len(args) > len(parameters):
        wrong = f"unexpected {(*unknown, 'value')[0]}"
        wrong = f"missing {missing[0]}" if missing and not unknown else wrong
        raise RewardError(f"{name}: {wrong}.", hint=f"It takes {', '.join(parameters)}.")
    return tuple((key, shortened(values[key], digits)) for key in parameters)


def shortened(value: Any, digits: int | None = 4) -> Any:
    """Return numbers as they are written in files, so that criteria say the same."""
    if isinstance(value, float) and digits is not None:
        return float(f"{value:.{digits}g}")
    if is_row(value):
        return tuple(shortened(each, digits) for each in value)
    return value


class Expression:
    """A call of the library that is evaluated at each step; frozen."""

    __offered__: ClassVar[str] = "a term"

    def __init__(self, recipe: Recipe, arguments: tuple[tuple[str, Any], ...], words: str) -> None:
        """Hold a call and what it means in words."""
        self.recipe = recipe
        self.arguments = arguments
        self.words = words
        self._hash = hash((recipe.function.__name__, arguments))

    @property
    def name(self) -> str:
        """Name of the function."""
        return self.recipe.function.__name__

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other or not isinstance(other, Expression):
            return self is other
        return self.recipe is other.recipe and self.arguments == other.arguments

    def __getitem__(self, name: str) -> Any:
        """Return an argument of the call."""
        return dict(self.arguments)[name]

    def __repr__(self) -> str:
        """Return the call: its first value by place, others by name, words last."""
        given: list[str] = []
        for place, (name, value) in enumerate(self.arguments):
            default = self.recipe.parameters[name]
            if default is inspect.Parameter.empty or value != default:
                given.append(("" if place == 0 else f"{name}=") + written(value))
        given += [f"{_WORDS}={written(self.words)}"] if self.words else []
        return f"{self.name}({', '.join(given)})"

    def nodes(self) -> Iterator[Expression]:
        """Yield this node and all inside it."""
        yield self
        for _, value in self.arguments:
            if isinstance(value, Expression):
                yield from value.nodes()

    def slots(self) -> dict[str, int | None]:
        """Return the memory that it and all inside it need."""
        found: dict[str, int | None] = {}
        for node in self.nodes():
            memory = node.recipe.memory
            found |= memory(dict(node.arguments)) if callable(memory) else memory
        return found

    def formula(self) -> str:
        """Return its formula in LaTeX, with the symbols of the signals in it."""
        latex = self.recipe.latex
        for name, value in self.arguments:
            shown = value.formula() if isinstance(value, Expression) else f"{value}"
            if isinstance(value, str):  # an underscore would set what follows as an index
                shown = rf"\text{{{value.replace('_', ' ')}}}"
            latex = latex.replace(f"{{{name}}}", shown)
        return latex


class Term(Expression):
    """A node that pays: one summand of a reward, before its weight."""

    def with_words(self, words: str) -> Term:
        """Return the same term, described otherwise."""
        return Term(self.recipe, self.arguments, words)


class Program:
    """The calls behind expressions, in the order of their first use; calling it makes them."""

    def __init__(self, expressions: Iterable[Expression]) -> None:
        """List the calls, each with its arguments and the results that fill some of them."""
        self._places: dict[Expression, int] = {}
        self._calls: list[tuple[Callable[..., Any], list[Any], list[tuple[int, int]]]] = []
        self._results = [self._add(each) for each in expressions]

    def _add(self, node: Expression) -> int:
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
        """Return the values of the expressions at this step."""
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
    """Make a function of a step and numbers a signal.

    `latex` is its symbol, `memory` what it remembers of an episode or how that follows from its
    arguments, `digits` the significant digits that its numbers are written with.
    """
    return lambda function: cast("Any", Recipe(function, Expression, latex, memory or {}, digits))


def term(
    latex: str = "{x}", *, memory: _Memory | None = None, digits: int = 4
) -> Callable[[Callable[P, Tensor]], Callable[P, Term]]:
    """Make a function of measured values and numbers a term; see `signal`."""
    return lambda function: cast("Any", Recipe(function, Term, latex, memory or {}, digits))


def step_term(
    latex: str = "{x}", *, memory: _Memory | None = None, digits: int = 4
) -> Callable[[Callable[Concatenate[StepView, P], Tensor]], Callable[P, Term]]:
    """Make a function of a step, measured values and numbers a term; see `signal`."""
    return lambda function: cast("Any", Recipe(function, Term, latex, memory or {}, digits))


def written(value: Any) -> str:
    """Return a value as Python code, texts in double quotes."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, tuple):
        inside = [written(each) for each in cast("tuple[Any, ...]", value)]
        return f"({', '.join(inside)}{',' if len(inside) == 1 else ''})"
    return repr(value)
