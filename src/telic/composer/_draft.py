"""Drafts collect reward terms and judge criteria, and become a reward file and a judge."""

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
import textwrap
from dataclasses import replace

from telic.judges.criteria import Composition, EpisodePhase
from telic.judges.measured import TIME_LEFT, judge_text
from telic.rewards import signals
from telic.rewards.composed import FINISH, STAGE
from telic.rewards.node import written


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

        "%s" in the title stands for the goal with its unit. `zero` earns no credit. An exact goal
        earns none at four times the tolerance `within`. `of` is the source of the goal.
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
    asked = {each.title: each for each in criteria}
    for title in (each for each in asked if each not in known):
        raise UnknownName("criterion", title, list(known))
    for draft in drafts:
        kept = (p for p in draft.parts if p.is_guard or p.kind == "phased" or p.title in asked)
        draft.parts = [*kept]
        for place, part in enumerate(draft.parts):
            if by := asked.get(part.title):
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


MAX_PHASES = 8
_STAGES = {STAGE: 1.5, FINISH: 10.0}
_HIDDEN = frozenset({"strayed"})
"""memory hidden from the policy because it depends on a state that only the simulation knows"""


def put_in_order(drafts: Sequence[Draft], always: Draft) -> None:
    """Label criteria with their phase and add gates between consecutive phases.

    Criteria that are part of all phases are not judged again for the episode as a whole.
    """
    own = [{part.title for part in draft.parts} for draft in drafts]
    always.parts = [part for part in always.parts if not all(part.title in each for each in own)]
    for index, draft in enumerate(drafts):
        name, is_last = f"phase {index + 1}", index == len(drafts) - 1
        main = max(draft.parts, key=lambda part: part.weight)
        parts = [(part, {"title": f"{name}: {part.title}"}) for part in draft.parts]
        draft.parts = [part.model_copy(update=update) for part, update in parts]
        if not main.is_about and not main.is_guard:
            # Skipping a phase and doing the others well halves the score: the main criterion of a
            # phase is required to a third of its goal.
            bit = 0.3 * (main.goal - main.zero)
            guard = main.with_numbers(main.zero - bit, main.zero + bit, 0.0)
            title = f"{name}: not skipped ({main.title})"
            update = {"title": title, "is_guard": True, "is_open": False, "best": None}
            draft.parts.append(guard.model_copy(update=update))
        if is_last:
            continue
        if not any(end.seconds for end in draft.reached):
            # A phase ends when something was done: rewarding waiting would discourage it.
            draft.terms = [term for term in draft.terms if term.name != "alive"]
        needed = round(0.4 * sum(each.seconds for each in drafts[index + 1 :]), 2)
        lasts = f"lasts {_seconds(draft):g} s, " if _seconds(draft) else ""
        gate = JudgePart(
            title=f"{name}: {lasts}done with {needed:g} s left",
            quantity="time left for the next phase",
            measure=TIME_LEFT,
            kind="phased",
            goal=needed,
            unit="s",
            weight=main.weight,
            tag=main.tag,
        )
        draft.parts.append(gate)
    # All phases have equal weight: the last one has no gate, and must not matter less.
    weights = [sum(part.weight for part in draft.parts) for draft in drafts]
    for draft, weight in zip(drafts, weights, strict=True):
        scale = max(weights) / weight
        draft.parts = [
            part.with_numbers(part.zero, part.goal, round(scale * part.weight, 2))
            for part in draft.parts
        ]


def composition(
    intent: str,
    env: str,
    phases: Sequence[Draft],
    always: Draft,
    *,
    is_written: bool = True,
    **settings: Any,
) -> Composition:
    """Return criteria, and if `is_written` their files. A single behavior has no `phases`."""
    criteria = tuple(
        Criterion.model_validate({**part.model_dump(), "phase": number % (len(phases) + 1)})
        for number, each in enumerate((*phases, always), 1)
        for part in each.parts
    )
    until = [" & ".join(dict.fromkeys(f"({x.judge})" for x in each.reached)) for each in phases]
    lasts = map(_seconds, phases)
    ends = [EpisodePhase(until=u, seconds=s) for u, s in zip(until, lasts, strict=True)]
    ends[-1:] = [EpisodePhase() for _ in ends[-1:]]  # the last phase lasts to the end
    return Composition(
        intent=intent,
        env=env,
        criteria=criteria,
        phases=ends,
        reward=_reward_file(intent, env, phases, always) if is_written else "",
        judge=judge_text(intent, env, criteria, ends) if is_written else "",
        **settings,
    )


# ---- rewards


def _reward_file(intent: str, env: str, phases: Sequence[Draft], always: Draft) -> str:
    """Return the text of a reward, with phases and the terms that apply to all phases."""
    if not phases:
        always = replace(always, reached=[])  # nothing comes after it
    weights: dict[str, float] = {}
    memory: dict[str, int | None] = {"phase": None, "clock": None} if phases else {}
    made: set[str] = set()
    turns: list[float] = []
    lines = ["phases = ("] if phases else []
    for index, draft in enumerate((*phases, always)):
        suffix = f"_{index + 1}" if index < len(phases) else ""
        own = [each._replace(name=each.name + suffix) for each in draft.terms]
        for node in (*(each.term for each in own), *(each.reward for each in draft.reached)):
            memory |= {f"{name}{suffix}": width for name, width in node.slots().items()}
            made |= {each.name for each in node.nodes()}
            turns += [each["hertz"] for each in node.nodes() if each.name == "Beat"]
        if not suffix:
            weights |= _STAGES if phases else {}
            lines += [")"] if phases else []
            lines += _terms("terms = {", own, "}")
        else:
            lines += ["    Phase(", f"        {written(_plain(', '.join(draft.words)))},"]
            lines += [f"        {line}" for line in _terms("{", own, "},")]
            if index < len(phases) - 1:
                until = ", ".join(repr(each.reward) for each in draft.reached)
                lines += [f"        until=({until},),"] if until else []
                lines += [f"        seconds={_seconds(draft):g},"]
            lines.append("    ),")
        weights |= {each.name: each.weight for each in own}
    seen = tuple(name for name in memory if name not in _HIDDEN)
    is_all = bool(phases) or len(seen) == len(memory)
    kept = [
        f'    "{name}": {"0.0" if width is None else written((0.0,) * width)},'
        for name, width in memory.items()
    ]
    if kept:
        kept = ["memory = {", *kept, "}"]
        if phases or always.is_seen:
            kept.append(f"memory_to = {written('actor' if is_all else seen)}")
    if turns:
        kept.append(f"phase_hz = {turns[0]:.8g}")
    given = ", ".join(f'"{name}": {weight:g}' for name, weight in weights.items())
    body = [f'"""{_plain(intent)}"""', "", f"weights = {{{given}}}", *kept, *lines]
    body.append(f"description = {written(_plain(intent))}")
    measured = {name for name in made if hasattr(signals, name)}
    return (
        f'"""{_plain(intent)} ({env}). Written by the composer."""\n\n'
        f"from telic.rewards.composed import ComposedReward{', Phase' if phases else ''}\n"
        + _import("telic.rewards.signals", measured)
        + _import("telic.rewards.terms", made - measured)
        + "\n\nclass Composed(ComposedReward):\n"
        + textwrap.indent("\n".join(body), "    ")
        + "\n"
    )


def _import(module: str, names: set[str]) -> str:
    return f"from {module} import {', '.join(sorted(names))}\n" if names else ""


def _terms(opening: str, terms: Sequence[WeightedTerm], closing: str) -> list[str]:
    return [opening, *(f'    "{each.name}": {each.term!r},' for each in terms), closing]


def _seconds(draft: Draft) -> float:
    return max((each.seconds for each in draft.reached), default=0.0)


# ---- layout


def _plain(text: str) -> str:
    """Replace characters that could end a string literal, and truncate to 200 characters."""
    return " ".join(text.replace("\\", " ").replace('"', "'").split())[:200]
