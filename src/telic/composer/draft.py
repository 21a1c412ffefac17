"""What every behaviour writes into: the terms of a reward and the parts of a judge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypedDict, TypeVar, Unpack, cast

import numpy as np
from torch import Tensor

from telic.composer.frames import Frame
from telic.errors import UnknownName, UsageError
from telic.judges.criteria import Criterion, Kind
from telic.judges.episode import RecordedEpisode
from telic.rewards.node import Expression, Term, written

P = ParamSpec("P")
T = TypeVar("T")
_SEEN = frozenset({"beat", "waited"})
"""memory that a policy needs to know what to do"""


class WeightedTerm(NamedTuple):
    """One term of a reward with its name and weight."""

    name: str
    term: Term
    weight: float


@dataclass(frozen=True, slots=True)
class Measure:
    """A call of a metric on the episode that is judged."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    named: tuple[tuple[str, Any], ...]

    @property
    def name(self) -> str:
        """Name of the metric."""
        return self.function.__name__

    def __str__(self) -> str:
        """Return the code of the call."""
        args = list(self.args)
        while args and args[-1] is None:
            args.pop()  # a default, too
        given = ["episode", *map(_code, args)]
        given += [f"{name}={_code(value)}" for name, value in self.named if value is not None]
        return f"metrics.{self.name}({', '.join(given)})"


def measure(
    function: Callable[Concatenate[RecordedEpisode, P], T], *args: P.args, **named: P.kwargs
) -> T:
    """Return a call of a metric, to be made when an episode is judged.

    To a type checker it is what it will have measured. Its numbers are rounded as they are written.
    """
    rounded = tuple((name, shortened(value)) for name, value in named.items())
    return cast("T", Measure(function, tuple(map(shortened, args)), rounded))


def exactly(
    function: Callable[Concatenate[RecordedEpisode, P], T], *args: P.args, **named: P.kwargs
) -> T:
    """Return a call of a metric whose numbers are kept as a person said them."""
    return cast("T", Measure(function, args, tuple(named.items())))


def shortened(value: Any, digits: int = 4) -> Any:
    """Return numbers as they are written in files, so that criteria say the same."""
    if isinstance(value, float):
        return float(f"{value:.{digits}g}")
    if isinstance(value, list | tuple):
        return tuple(shortened(each, digits) for each in cast("Sequence[Any]", value))
    return value


def _code(value: Any) -> str:
    return str(value) if isinstance(value, Measure) else written(value)


class GoalOrigin(TypedDict, total=False):
    """Where the goal of a leaf comes from, and how far others got."""

    source: str
    is_open: bool
    best: float | None
    best_source: str


class Credit(GoalOrigin, total=False):
    """What a leaf may say besides its range."""

    unit: str
    weight: float
    tag: str | None
    kind: Kind


@dataclass(frozen=True, slots=True)
class JudgePart:
    """One leaf or guard of a judge."""

    title: str
    quantity: str
    """what is measured, in words"""
    value: Measure | None
    """how it is measured; None of a gate, which asks for the time that is left"""
    zero: float
    goal: float
    """of a part that is `about` a value: the value; `zero` is where credit ends below it"""
    unit: str = ""
    weight: float = 1.0
    tag: str | None = None
    kind: Kind = "sustained"
    is_guard: bool = False
    is_about: bool = False
    is_gate: bool = False
    """whether what follows waits for it"""
    source: str = ""
    """where its numbers come from"""
    is_open: bool = False
    best: float | None = None
    best_source: str = ""

    def criterion(self) -> Criterion:
        """Return it as people read it."""
        way = "about" if self.is_about else "at_least" if self.goal > self.zero else "at_most"
        return Criterion(
            title=self.title,
            quantity=self.quantity,
            kind=self.kind,
            direction=way,
            zero=self.zero,
            goal=self.goal,
            unit=self.unit,
            weight=self.weight,
            is_guard=self.is_guard,
            tag=self.tag,
            source=self.source,
            is_open=self.is_open,
            best=self.best,
            best_source=self.best_source,
        )

    def edited(self, by: Criterion) -> JudgePart:
        """Return it with the numbers of a criterion that a person changed."""
        return replace(
            self,
            zero=self.zero if by.zero is None else by.zero,
            goal=self.goal if by.goal is None else by.goal,
            weight=0.0 if self.is_guard else by.weight,
        )


class PhaseEnd(NamedTuple):
    """When a phase is over: what must hold, and for how long in all."""

    reward: Expression
    """a condition of the reward"""
    judge: Measure
    """the same of the judge: a mask"""
    seconds: float = 0.0


@dataclass(slots=True)
class Draft:
    """A reward and a judge in the making."""

    terms: list[WeightedTerm] = field(default_factory=list[WeightedTerm])
    is_seen: bool = False
    """whether the policy must see the memory, too: a clock to step by"""
    parts: list[JudgePart] = field(default_factory=list[JudgePart])
    reached: list[PhaseEnd] = field(default_factory=list[PhaseEnd])
    env_args: dict[str, Any] = field(default_factory=dict[str, Any])
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    """changes of the trainer's settings that this behaviour needs"""
    seconds: float = 8.0
    """length of an episode"""
    practice: float = 1.0
    """steps it takes, in parts of what this robot needs to learn to go"""
    doubts: list[str] = field(default_factory=list[str])
    """what the words left open, and what was taken"""
    granted: list[str] = field(default_factory=list[str])
    """what holds by itself on this robot, so that nothing needs to judge it"""
    words: list[str] = field(default_factory=list[str])
    """the verbs of the intent it was made from"""

    def pay(self, name: str, weight: float, term: Term, words: str) -> None:
        """Add a term unless one of that name is there."""
        if name not in self.names:
            self.terms.append(WeightedTerm(name, term.with_words(words), weight))
        self.is_seen = self.is_seen or bool(_SEEN & term.slots().keys())

    @property
    def names(self) -> list[str]:
        """Names of the terms."""
        return [each.name for each in self.terms]

    def has_signal(self, *names: str) -> bool:
        """Say whether a term is about one of these signals."""
        nodes = (node for each in self.terms for node in each.term.nodes())
        return any(node.name in names for node in nodes)

    def leaf(
        self,
        title: str,
        quantity: str,
        value: float,
        zero: float,
        goal: float,
        **more: Unpack[Credit],
    ) -> None:
        """Add a leaf unless one of that title is there: nothing at `zero`, all from `goal` on."""
        self._judge(
            JudgePart(title, quantity, _measure(value), shortened(zero), shortened(goal), **more)
        )

    def total(
        self,
        title: str,
        quantity: str,
        value: float,
        zero: float,
        goal: float,
        **more: Unpack[Credit],
    ) -> None:
        """Add a leaf about what the whole episode comes to."""
        more["kind"] = "cumulative"
        self.leaf(title, quantity, value, zero, goal, **more)

    def near(
        self,
        title: str,
        quantity: str,
        value: float,
        target: float,
        tolerance: float,
        **more: Unpack[Credit],
    ) -> None:
        """Add a leaf for closeness: all within the tolerance, nothing at four times it."""
        zero, goal = shortened(target - 4.0 * tolerance), shortened(target)
        self._judge(JudgePart(title, quantity, _measure(value), zero, goal, is_about=True, **more))

    def counted(
        self,
        deed: str,
        quantity: str,
        value: float,
        frame: Frame,
        tolerance: float = 0.25,
        **more: Unpack[Credit],
    ) -> None:
        """Add a leaf for how often something is done: just so often, or more, or less."""
        count, rule = frame.count or 1, frame.count_rule
        times = "once" if count == 1 else f"{count} times"
        more["kind"] = "cumulative"
        if rule == "about":
            self.near(f"{deed} {times}", quantity, value, float(count), tolerance, **more)
            return
        if rule == "at_most":
            self.leaf(f"{deed} at all", quantity, value, 0.0, 1.0, **more)
        beyond = count - 1.0 if rule == "at_least" else count + 1.0
        title = f"{deed} {rule.replace('_', ' ')} {times}"
        self.leaf(title, quantity, value, beyond, float(count), **more)

    def guard(
        self,
        title: str,
        quantity: str,
        value: float,
        zero: float,
        goal: float,
        **more: Unpack[Credit],
    ) -> None:
        """Add what must hold for anything else to count."""
        more["weight"] = 0.0
        zero, goal = shortened(zero), shortened(goal)
        self._judge(JudgePart(title, quantity, _measure(value), zero, goal, is_guard=True, **more))

    def _judge(self, part: JudgePart) -> None:
        if all(each.title != part.title for each in self.parts):
            self.parts.append(part)

    def ends_when(self, reward: Tensor, judge: np.ndarray, seconds: float = 0.0) -> None:
        """Say when this is done, for what comes after it: a condition, and a mask of the judge."""
        self.reached.append(PhaseEnd(cast("Expression", reward), cast("Measure", judge), seconds))

    def doubt(self, text: str, holds: bool = False) -> None:
        """Say once what the words left open, or what `holds` by itself on this robot."""
        if text not in self.doubts:
            self.doubts.append(text)
        self.granted += [text] if holds else []


def _measure(value: float) -> Measure:
    return cast("Measure", value)


def edit(drafts: Sequence[Draft], criteria: Sequence[Criterion]) -> None:
    """Change the judge to criteria a person edited: other numbers, and none that were dropped.

    Raises:
        UnknownName: a criterion is none of the judge's.
        UsageError: nothing is left that earns anything, or partial credit has no range.
    """
    known = {part.title: part for draft in drafts for part in draft.parts}
    wanted = {each.title: each for each in criteria}
    for title in wanted:
        if title not in known:
            raise UnknownName("criterion", title, list(known))
    for draft in drafts:
        kept = [part for part in draft.parts if part.title in wanted or _stays(part)]
        draft.parts = [
            each.edited(wanted[each.title]) if each.title in wanted else each for each in kept
        ]
    parts = [part for draft in drafts for part in draft.parts]
    if not any(part.weight > 0.0 for part in parts):
        raise UsageError(
            "No criterion with a weight is left, so every episode would be worth the same.",
            hint=f"Keep one of: {', '.join(t for t, part in known.items() if not part.is_guard)}.",
        )
    for each in parts:
        if each.zero == each.goal:
            raise UsageError(
                f'"{each.title}" earns nothing and everything at the same value, {each.goal:g}.',
                hint="Give zero and goal different values: partial credit needs a range.",
            )


def _stays(part: JudgePart) -> bool:
    """Return whether a part is there for the others: a guard, or the end of a phase."""
    return part.is_guard or part.is_gate
