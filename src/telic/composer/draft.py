"""What every behaviour writes into: the terms of a reward and the parts of a judge."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypedDict, Unpack

from telic.composer.frames import Frame
from telic.errors import UnknownName, UsageError
from telic.judges.criteria import Criterion, Kind


class Term(NamedTuple):
    """One term of a reward."""

    name: str
    code: str
    """an expression of the variables that `Draft.lines` defines, about 1 in size"""
    weight: float
    words: str
    latex: str


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
    value: str
    """the expression that measures it, of the variables that `Draft.judge_lines` defines"""
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

    reward: str
    """expression of the reward's variables, bool (N,)"""
    judge: str
    """the same of the judge's variables, bool (T,)"""
    seconds: float = 0.0


@dataclass(slots=True)
class Draft:
    """A reward and a judge in the making."""

    terms: list[Term] = field(default_factory=list[Term])
    lines: list[str] = field(default_factory=list[str])
    """statements of the reward before the terms"""
    memory: dict[str, int | None] = field(default_factory=dict[str, int | None])
    """by name, its width; None: one number. All memory starts at 0"""
    hidden: set[str] = field(default_factory=set[str])
    """names of memory that no policy sees"""
    is_seen: bool = False
    """whether the policy must see the memory, too: a clock to step by"""
    parts: list[JudgePart] = field(default_factory=list[JudgePart])
    judge_lines: list[str] = field(default_factory=list[str])
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

    def add(self, name: str, code: str, weight: float, words: str, latex: str) -> None:
        """Add a term unless one of that name is there."""
        if all(term.name != name for term in self.terms):
            self.terms.append(Term(name, code, weight, words, latex))

    def need(self, *lines: str) -> None:
        """Add statements of the reward that are not there yet."""
        self.lines += [line for line in lines if line not in self.lines]

    def remember(self, name: str, width: int | None = None, *, is_hidden: bool = False) -> None:
        """Declare memory of the reward: one number, or a row of them.

        Hidden memory is never seen by the policy: a robot cannot keep what only a simulation knows.
        """
        self.memory[name] = width
        if is_hidden:
            self.hidden.add(name)

    def keep_beat(self, turn: float) -> None:
        """Keep a clock, as a point on a circle that a step turns so far; the policy sees it."""
        self.remember("beat", 2)
        self.is_seen = True
        self.need(
            'first = (self.memory["beat"].abs().sum(-1) == 0).float()',
            'beat_x, beat_y = self.memory["beat"][:, 0] + first, self.memory["beat"][:, 1]',
            f"beat_x, beat_y = ({math.cos(turn):.8g} * beat_x - {math.sin(turn):.8g} * beat_y, "
            f"{math.sin(turn):.8g} * beat_x + {math.cos(turn):.8g} * beat_y)",
            'self.memory["beat"] = torch.stack((beat_x, beat_y), -1)',
        )

    def measure(self, *lines: str) -> None:
        """Add statements of the judge that are not there yet."""
        self.judge_lines += [line for line in lines if line not in self.judge_lines]

    def leaf(
        self,
        title: str,
        quantity: str,
        value: str,
        zero: float,
        goal: float,
        **more: Unpack[Credit],
    ) -> None:
        """Add a leaf unless one of that title is there: nothing at `zero`, all from `goal` on."""
        self._judge(JudgePart(title, quantity, value, _short(zero), _short(goal), **more))

    def total(
        self,
        title: str,
        quantity: str,
        value: str,
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
        value: str,
        target: float,
        tolerance: float,
        **more: Unpack[Credit],
    ) -> None:
        """Add a leaf for closeness: all within the tolerance, nothing at four times it."""
        zero, goal = _short(target - 4.0 * tolerance), _short(target)
        self._judge(JudgePart(title, quantity, value, zero, goal, is_about=True, **more))

    def counted(
        self,
        deed: str,
        quantity: str,
        value: str,
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
        value: str,
        zero: float,
        goal: float,
        **more: Unpack[Credit],
    ) -> None:
        """Add what must hold for anything else to count."""
        more["weight"] = 0.0
        zero, goal = _short(zero), _short(goal)
        self._judge(JudgePart(title, quantity, value, zero, goal, is_guard=True, **more))

    def _judge(self, part: JudgePart) -> None:
        if all(each.title != part.title for each in self.parts):
            self.parts.append(part)

    def ends_when(self, reward: str, judge: str, seconds: float = 0.0) -> None:
        """Say when this is done, for what comes after it."""
        self.reached.append(PhaseEnd(reward, judge, seconds))

    def doubt(self, text: str, holds: bool = False) -> None:
        """Say once what the words left open, or what `holds` by itself on this robot."""
        if text not in self.doubts:
            self.doubts.append(text)
        self.granted += [text] if holds else []


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


def _short(value: float) -> float:
    """Return a number as it is written in the judge, so that criteria say the same."""
    return float(f"{value:.4g}")
