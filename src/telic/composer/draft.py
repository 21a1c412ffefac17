"""Collect what behaviours write: the terms of a reward and the criteria of a judge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypedDict, Unpack, cast

from torch import Tensor

from telic.composer.frames import Frame
from telic.errors import UnknownName, UsageError
from telic.judges.criteria import Criterion, CriterionKind
from telic.judges.tracks import Measure
from telic.rewards.node import Expression, Term, shortened

_SEEN = frozenset({"beat", "waited"})
"""memory that a policy needs to know what to do"""


class WeightedTerm(NamedTuple):
    """One term of a reward with its name and weight."""

    name: str
    term: Term
    weight: float


class GoalOrigin(TypedDict, total=False):
    """Source of the goal of a criterion, and the best known value."""

    source: str
    is_open: bool
    best: float | None
    best_source: str


class Credit(GoalOrigin, total=False):
    """Optional properties of a criterion; its measure gives the defaults."""

    weight: float
    tag: str | None
    unit: str
    meaning: str


@dataclass(frozen=True, slots=True)
class JudgePart:
    """One criterion or constraint of a judge."""

    title: str
    value: Measure | None
    """how it is measured; None of a gate, which asks for the time that is left"""
    zero: float
    goal: float
    """of a part that is `about` a value: the value; `zero` is where credit ends below it"""
    meaning: str = ""
    """what is measured, in words"""
    unit: str = ""
    weight: float = 1.0
    tag: str | None = None
    is_guard: bool = False
    is_about: bool = False
    is_gate: bool = False
    """whether what follows waits for it"""
    source: str = ""
    """where its numbers come from"""
    is_open: bool = False
    best: float | None = None
    best_source: str = ""

    @property
    def kind(self) -> CriterionKind:
        """Kind of the criterion: held over time, added up over the episode, or a phase's end."""
        if self.value is None:
            return "phased"
        return "cumulative" if self.value.metric.is_total else "sustained"

    @property
    def quantity(self) -> str:
        """Measured quantity, with the names of quantities that the words do not mention."""
        names = self.value.quantities if self.value else ()
        hidden = [name for name in names if name not in self.meaning]
        return f"{self.meaning} ({', '.join(hidden)})" if hidden else self.meaning

    def criterion(self) -> Criterion:
        """Return it as people read it."""
        way = "about" if self.is_about else "at_least" if self.goal > self.zero else "at_most"
        shared = {
            name: getattr(self, name) for name in Criterion.model_fields if name != "direction"
        }
        return Criterion.model_validate(shared | {"direction": way})


class PhaseEnd(NamedTuple):
    """End of a phase: what must hold, and for how long in all."""

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

    def score(
        self, title: str, value: Measure, zero: float, goal: float, **more: Unpack[Credit]
    ) -> str:
        """Add a criterion unless one of that title is there: nothing at `zero`, all at `goal`.

        "%s" in a title stands for the goal with its unit; shares of the time are added to it. It
        returns the title.
        """
        return self._judge(title, value, zero, goal, more)

    def score_near(
        self, title: str, value: Measure, target: float, tolerance: float, **more: Unpack[Credit]
    ) -> None:
        """Add a criterion for closeness: all within the tolerance, nothing at four times it."""
        self._judge(title, value, target - 4.0 * tolerance, target, more, is_about=True)

    def require(
        self, title: str, value: Measure, zero: float, goal: float, **more: Unpack[Credit]
    ) -> str:
        """Add a constraint: what must hold for anything else to count."""
        return self._judge(title, value, zero, goal, {**more, "weight": 0.0}, is_guard=True)

    def counted(
        self,
        deed: str,
        value: Measure,
        frame: Frame,
        tolerance: float = 0.25,
        **more: Unpack[Credit],
    ) -> None:
        """Add a criterion for how often something is done: just so often, or more, or less."""
        count, rule = frame.count or 1, frame.count_rule
        times = "once" if count == 1 else f"{count} times"
        if rule == "about":
            self.score_near(f"{deed} {times}", value, float(count), tolerance, **more)
            return
        if rule == "at_most":
            self.score(f"{deed} at all", value, 0.0, 1.0, **more)
        beyond = count - 1.0 if rule == "at_least" else count + 1.0
        self.score(f"{deed} {rule.replace('_', ' ')} {times}", value, beyond, float(count), **more)

    def _judge(
        self,
        title: str,
        value: Measure,
        zero: float,
        goal: float,
        more: Credit,
        *,
        is_about: bool = False,
        is_guard: bool = False,
    ) -> str:
        said = cast("dict[str, Any]", {"meaning": value.words, "unit": value.unit, **more})
        if "%s" in title:
            unit = f" {said['unit']}" if said["unit"] else ""
            words = f"{goal:.2g}{unit}"
            if is_about:
                words += f" (±{(goal - zero) / 4.0:.2g}{unit})"
            else:
                words = f"at {'least' if goal > zero else 'most'} {words}"
            title = title.replace("%s", words)
        elif not is_guard and value.name.startswith("share") and value.name != "share_until":
            title += f" at {'least' if goal > zero else 'most'} {goal:.0%} of the time"
        if not any(each.title == title for each in self.parts):
            part = JudgePart(title, value, shortened(zero), shortened(goal), **said)
            self.parts.append(replace(part, is_about=is_about, is_guard=is_guard))
        return title

    def ends_when(self, reward: Tensor, judge: Measure, seconds: float = 0.0) -> None:
        """Say when this is done, for what comes after it: a condition, and a mask of the judge."""
        self.reached.append(PhaseEnd(cast("Expression", reward), judge, seconds))

    def doubt(self, text: str, holds: bool = False) -> None:
        """Say once what the words left open, or what `holds` by itself on this robot."""
        if text not in self.doubts:
            self.doubts.append(text)
        self.granted += [text] if holds else []


def edit(drafts: Sequence[Draft], criteria: Sequence[Criterion]) -> None:
    """Change the judge to criteria a person edited: other numbers, and none that were dropped.

    Constraints and the ends of phases stay: they are there for the others.

    Raises:
        UnknownName: a criterion is none of the judge's.
        UsageError: nothing is left that earns anything, or partial credit has no range.
    """
    known = {part.title: part for draft in drafts for part in draft.parts}
    wanted = {each.title: each for each in criteria}
    for title in (each for each in wanted if each not in known):
        raise UnknownName("criterion", title, list(known))
    for draft in drafts:
        kept = [
            part for part in draft.parts if part.is_guard or part.is_gate or part.title in wanted
        ]
        draft.parts = kept
        for place, part in enumerate(draft.parts):
            if by := wanted.get(part.title):
                zero = part.zero if by.zero is None else by.zero
                goal = part.goal if by.goal is None else by.goal
                weight = 0.0 if part.is_guard else by.weight
                draft.parts[place] = replace(part, zero=zero, goal=goal, weight=weight)
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
