"""What every behaviour works with: the robot it is for, and the draft it writes into."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, TypedDict, Unpack

from telic.composer.parts import bodies_of
from telic.envs.spec import EnvSpec
from telic.errors import BadEnvironment, UnknownName, UsageError
from telic.judges.criteria import Criterion, Kind
from telic.quantities import QUANTITIES


class Term(NamedTuple):
    """One term of a reward."""

    name: str
    code: str
    """an expression of the variables that `Draft.lines` defines, about 1 in size"""
    weight: float
    words: str
    latex: str


class Credit(TypedDict, total=False):
    """What a leaf may say besides its range."""

    unit: str
    weight: float
    tag: str | None
    kind: Kind
    source: str


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

    def remember(self, name: str, width: int | None = None) -> None:
        """Declare memory of the reward: one number, or a row of them."""
        self.memory[name] = width

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


_LEARNS = 400_000
"""steps to learn to go, for robots without a calibration of their own"""
_NO_LEGS_MPS = 1.0
"""top speed of what has no legs and was not measured"""
_LIES = 0.35
"""share of the standing height at which a robot lies, where it was not measured"""


@functools.cache
def calibrations() -> dict[str, dict[str, Any]]:
    """Return the table of what robots reach."""
    with (Path(__file__).parent / "calibration.toml").open("rb") as file:
        return tomllib.load(file)


class Scene(NamedTuple):
    """A robot and its limits."""

    spec: EnvSpec
    known: dict[str, Any]
    may_fall: bool = False
    """whether what is asked for needs poses in which the environment would end the episode"""

    @classmethod
    def of(cls, spec: EnvSpec, may_fall: bool = False) -> Scene:
        """Return the scene of an environment."""
        return cls(spec, {"learns": _LEARNS, **calibrations().get(spec.id, {})}, may_fall)

    def has(self, *quantities: str) -> bool:
        """Say whether the environment has all of these quantities."""
        return all(QUANTITIES[name].available(self.spec) for name in quantities)

    def require(self, quantity: str, what: str) -> None:
        """Refuse what the robot cannot do."""
        if not self.has(quantity):
            raise self.cannot(what, f"it needs {QUANTITIES[quantity].need.words}")

    def cannot(self, what: str, why: str) -> BadEnvironment:
        """Return the refusal of something this robot cannot do."""
        return BadEnvironment(f"{self.spec.id} cannot {what}: {why}.")

    @property
    def ends_fallen(self) -> bool:
        """Whether the episode ends when the robot falls."""
        return "terminate_when_unhealthy" in self.spec.arguments and not self.may_fall

    @property
    def stands(self) -> float:
        """Height of the torso of the robot at rest on its feet, metres."""
        rest = self.spec.robot.rest_height if self.spec.robot else None
        return float(self.known.get("stands", rest or 0.0))

    @property
    def lies(self) -> float:
        """Height of the torso of the robot lying on the ground, metres."""
        return float(self.known.get("lies", _LIES * self.stands))

    @property
    def leg(self) -> float | None:
        """Length of its legs, metres: height of the hips of the robot that stands."""
        legs = self.spec.robot.legs if self.spec.robot else ()
        if not legs or "stands" not in self.known:
            return sum(leg.length_m for leg in legs) / len(legs) if legs else None
        low, high = legs[0].stretched_m / 2.0, legs[0].stretched_m
        return min(max(self.stands + legs[0].hip_m, low), high)

    @property
    def gravity(self) -> float:
        """What pulls it down, m/s^2."""
        robot = self.spec.robot
        return 100.0 * robot.contact_threshold / robot.mass if robot and robot.mass else 9.81

    @property
    def top_speed(self) -> float:
        """Speed it is known to reach; of a robot with legs nobody measured, Froude number 1."""
        if self.leg is None:
            return float(self.known.get("top_speed", _NO_LEGS_MPS))
        return float(self.known.get("top_speed", (self.gravity * self.leg) ** 0.5))

    @property
    def is_tall(self) -> bool:
        """Whether lying means that its torso lies, too: a biped, not a quadruped."""
        return self.lies < 0.3 * self.stands

    @property
    def torso(self) -> str | None:
        """Name of the torso of a robot that has feet to keep it off the ground."""
        robot = self.spec.robot
        if robot is None or robot.torso is None or not robot.feet or not self.has("height"):
            return None
        return self.spec.body_names[robot.torso]

    @property
    def on_rail(self) -> bool:
        """Whether it is a cart on a rail."""
        return self.spec.robot is not None and self.spec.robot.root.kind == "rail"

    @property
    def starts(self) -> float:
        """Height of the torso at the start of an episode, if it stands or drops from there."""
        rest = self.spec.robot.rest_height if self.spec.robot else None
        return max(self.stands, rest or 0.0)

    def velocity(self, quantity: str) -> str:
        """Return code for a velocity over the ground: if possible, one that shaking leaves at 0.

        A robot without feet winds, and each of its parts swings much faster than the whole goes.
        The velocity of a torso at the end of a step is large for a robot that only shakes; its mean
        over the step is not.
        """
        axis, mean = {"forward_velocity": (0, "x_velocity"), "lateral_velocity": (1, "y_velocity")}[
            quantity
        ]
        robot = self.spec.robot
        if robot and not robot.feet and not self.on_rail and self.has("centre_of_mass_velocity"):
            return f"quantities.centre_of_mass_velocity(info)[:, {axis}]"
        return f'info["{mean}"]' if mean in self.spec.info_keys else f"quantities.{quantity}(info)"

    def ahead(self) -> str:
        """Return code for the velocity where the robot faces, of the same kind."""
        if not {"x_velocity", "y_velocity"} <= set(self.spec.info_keys):
            return "ahead = quantities.heading_velocity(info)"
        return (
            'ahead = info["x_velocity"] * torch.cos(quantities.heading(info))'
            ' + info["y_velocity"] * torch.sin(quantities.heading(info))'
        )

    def lift(self, judged: bool = False) -> str:
        """Return code for the height of the torso above standing."""
        height = 'episode["height"]' if judged else "quantities.height(info)"
        return f"lift = {height} - {self.stands:.4g}"

    def leap(self, judged: bool = False) -> str:
        """Return code for the height of the torso above where it can get without a jump."""
        height = 'episode["height"]' if judged else "quantities.height(info)"
        return f"leap = {height} - {self.starts:.4g}"

    def feet(self, *places: str) -> tuple[str, ...]:
        """Return the feet at these places ("rear", "left"); all of them without any."""
        if not places:
            return self.spec.feet
        found = bodies_of(frozenset((*places, "foot")), "foot", self.spec)
        return tuple(foot for foot in self.spec.feet if foot in found)

    def foot_places(self, bodies: tuple[str, ...]) -> list[int]:
        """Return the places of these feet in `foot_contact`."""
        return [index for index, foot in enumerate(self.spec.feet) if foot in bodies]
