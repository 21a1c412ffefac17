"""Drafts collect the reward terms and judge criteria of behaviors."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from torch import Tensor

from telic.composer.frames import Frame
from telic.errors import UnknownName, UsageError
from telic.judges.criteria import Criterion
from telic.judges.measured import quantities_behind
from telic.judges.tracks import Measure, until
from telic.rewards.node import Expression, Term, shortened

if TYPE_CHECKING:
    from telic.composer._sizes import Goal


class WeightedTerm(NamedTuple):
    """Reward term with its name and weight."""

    name: str
    term: Term
    weight: float


class JudgePart(Criterion):
    """Criterion of a draft. The range is always known."""

    zero: float = 0.0
    goal: float = 0.0

    @property
    def is_about(self) -> bool:
        """True if the value should be close to the goal rather than beyond it."""
        return self.direction == "about"

    def until(self, way: str | float, meters: float) -> JudgePart:
        """Return a copy that is measured only until a distance is covered."""
        return self.model_copy(update={"measure": until(way, meters, self.measure)})

    def with_numbers(self, zero: float, goal: float, weight: float) -> JudgePart:
        """Return a copy with a different range and weight."""
        way = "about" if self.is_about else "at_least" if goal > zero else "at_most"
        update = {"zero": zero, "goal": goal, "weight": weight, "direction": way}
        return self.model_copy(update=update)


class PhaseEnd(NamedTuple):
    """End condition of a phase, with the total time for which it must hold."""

    reward: Expression
    """condition in the reward"""
    judge: Measure
    """same condition in the judge, as a mask"""
    seconds: float = 0.0


def _amount(value: float, unit: str) -> str:
    """Return a number with its unit, and less than a turn in degrees."""
    if unit == "turns" and abs(value) < 0.99:
        return f"{360.0 * value:.0f}°"
    return f"{value:.2g} {unit}".rstrip()


@dataclass(slots=True)
class Draft:
    """Reward and judge that are being composed."""

    terms: list[WeightedTerm] = field(default_factory=list[WeightedTerm])
    is_seen: bool = False
    """whether the policy must also observe the memory, e.g. the phase variable of a gait"""
    parts: list[JudgePart] = field(default_factory=list[JudgePart])
    reached: list[PhaseEnd] = field(default_factory=list[PhaseEnd])
    env_args: dict[str, Any] = field(default_factory=dict[str, Any])
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    """trainer settings that this behavior requires"""
    seconds: float = 8.0
    """episode length in seconds"""
    practice: float = 1.0
    """number of training steps, relative to locomotion on this robot"""
    doubts: list[str] = field(default_factory=list[str])
    """ambiguities in the intent and their chosen interpretations"""
    granted: list[str] = field(default_factory=list[str])
    """conditions that always hold on this robot and therefore are not judged"""
    words: list[str] = field(default_factory=list[str])
    """verbs of the intent that produced this draft"""

    def pay(self, name: str, weight: float, term: Term, words: str) -> None:
        """Add a reward term, unless a term with the same name exists."""
        if name not in self.names:
            self.terms.append(WeightedTerm(name, term.with_words(words), weight))
        self.is_seen = self.is_seen or "waited" in term.slots()

    @property
    def names(self) -> list[str]:
        """Names of the terms."""
        return [each.name for each in self.terms]

    def score(
        self,
        title: str,
        value: Measure,
        zero: float,
        goal: float,
        *,
        weight: float = 1.0,
        tag: str | None = None,
        within: float | None = None,
        of: Goal | None = None,
        is_guard: bool = False,
    ) -> str:
        """Add a criterion, unless one with the same title exists, and return the title.

        Args:
            title: title, where "%s" stands for the goal with its unit.
            value: measured value, with its unit and description.
            zero: value that earns no credit.
            goal: value that earns full credit.
            weight: weight of the criterion in the score.
            tag: tag for failures of this criterion.
            within: tolerance of an exact goal, with no credit at four times it.
            of: source of the goal value.
            is_guard: whether the criterion is a constraint.
        """
        if of is not None and of.base is not None:  # the uncompared behavior earns little
            if of.is_exact:
                within = abs(of.base - goal) / 3.0
            else:
                zero = of.base + 0.02 * (goal - of.base)
        zero = zero if within is None else goal - 4.0 * within
        at = "at least" if goal > zero else "at most"
        if "%s" in title:
            number = _amount(goal, value.unit)
            title = title.replace("%s", f"{at} {number}" if within is None else number)
            title += "" if within is None else f" (± {_amount(within, value.unit)})"
        elif not is_guard and value.code.startswith("share("):
            title += f" {at} {goal:.0%} of the time"
        if any(each.title == title for each in self.parts):
            return title
        hidden = [each for each in quantities_behind(value.code) if each not in value.words]
        part = JudgePart(
            title=title,
            measure=value.code,
            quantity=f"{value.words} ({', '.join(hidden)})" if hidden else value.words,
            kind="cumulative" if value.is_total else "sustained",
            direction="at_least" if within is None else "about",
            unit=value.unit,
            tag=tag,
            is_guard=is_guard,
            source=of.source if of else "",
            is_open=of is not None and of.is_open,
            best=of.best if of else None,
            best_source=of.best_source if of else "",
        )
        numbers = shortened(zero), shortened(goal), 0.0 if is_guard else weight
        self.parts.append(part.with_numbers(*numbers))
        return title

    def require(self, title: str, value: Measure, zero: float, goal: float, *, tag: str) -> str:
        """Add a constraint, whose credit multiplies the score."""
        return self.score(title, value, zero, goal, tag=tag, is_guard=True)

    def counted(
        self, deed: str, value: Measure, frame: Frame, within: float = 0.25, *, tag: str
    ) -> None:
        """Add a criterion for a count that is exactly, at least or at most the given number."""
        count, rule = frame.count or 1, frame.count_rule
        times = "once" if count == 1 else f"{count} times"
        if rule == "about":
            title = f"{deed} {times}"
            self.score(title, value, 0.0, float(count), within=within, weight=3.0, tag=tag)
            return
        if rule == "at_most":
            self.score(f"{deed} at all", value, 0.0, 1.0, weight=3.0, tag=tag)
        title = f"{deed} {rule.replace('_', ' ')} {times}"
        beyond = count - 1.0 if rule == "at_least" else count + 1.0
        self.score(title, value, beyond, float(count), weight=3.0, tag=tag)

    def ends_when(self, reward: Tensor, judge: Measure, seconds: float = 0.0) -> None:
        """Add the end condition of this phase, with the corresponding mask for the judge."""
        self.reached.append(PhaseEnd(cast("Expression", reward), judge, seconds))

    def doubt(self, text: str, holds: bool = False) -> None:
        """Record an ambiguity once, or with `holds` a condition that the robot always meets."""
        if text not in self.doubts:
            self.doubts.append(text)
        self.granted += [text] if holds else []


def edit(drafts: Sequence[Draft], criteria: Sequence[Criterion]) -> None:
    """Apply edited criteria to the judge by changing numbers and removing dropped criteria.

    Constraints and ends of phases are kept because other criteria depend on them.

    Raises:
        UnknownName: a criterion does not belong to the judge.
        UsageError: no criterion earns credit, or partial credit has an empty range.
    """
    known = {part.title: part for draft in drafts for part in draft.parts}
    wanted = {each.title: each for each in criteria}
    for title in (each for each in wanted if each not in known):
        raise UnknownName("criterion", title, list(known))
    for draft in drafts:
        kept = [
            part
            for part in draft.parts
            if part.is_guard or part.kind == "phased" or part.title in wanted
        ]
        draft.parts = kept
        for place, part in enumerate(kept):
            if by := wanted.get(part.title):
                zero = part.zero if by.zero is None else by.zero
                goal = part.goal if by.goal is None else by.goal
                changed = part.with_numbers(zero, goal, 0.0 if part.is_guard else by.weight)
                title = part.title
                for shown in ("{:.0%}", "{:.2g}"):  # the number in a title is its goal
                    old = rf"(?<![\d.]){re.escape(shown.format(part.goal))}(?![\d.])"
                    title = re.sub(old, shown.format(goal), title, count=1)
                draft.parts[place] = changed.model_copy(update={"title": title})
    parts = [part for draft in drafts for part in draft.parts]
    if not any(part.weight > 0.0 for part in parts):
        raise UsageError(
            "No criterion with a weight is left, so all episodes would have the same score.",
            hint=f"Keep one of: {', '.join(t for t, part in known.items() if not part.is_guard)}.",
        )
    for each in parts:
        if each.zero == each.goal:
            raise UsageError(
                f'"{each.title}" earns no credit and full credit at the same value, {each.goal:g}.',
                hint="Zero and goal must differ, because partial credit requires a range.",
            )
