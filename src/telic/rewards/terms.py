"""Reward terms: how a signal is paid for. Each is about 1 in size when the behaviour is right.

    "speed": Ratio(Along("forward"), goal=3.0, most=1.5, words="speed forward"),
    "upright": Pay(Measured("uprightness"), low=-1.0, high=1.0, words="the right way up"),
    "control": Cost(Measured("effort"), words="mean squared action"),

Costs are negative. `words` say what a term rewards, for people; its formula follows from it.
"""

from __future__ import annotations

import math
from dataclasses import field
from typing import ClassVar

import torch
from torch import Tensor

from telic.rewards.signals import (
    Beat,
    Block,
    CommandError,
    Contacts,
    Cycles,
    Flights,
    Gone,
    IsCommanded,
    Node,
    Number,
    Somersault,
    Step,
    Strides,
    Turned,
    Turning,
    Waiting,
)

_SHARP = 4.0
"""how steeply a foot is wanted on the ground or off it"""


class Term(Node):
    """One summand of a reward, before its weight."""

    latex: ClassVar[str] = "{x}"
    words: str = field(default="", kw_only=True)

    def value(self, step: Step) -> Tensor:
        """Return what this step is worth, (N,)."""
        raise NotImplementedError

    def formula(self) -> str:
        """Return what it pays, LaTeX."""
        inner: Number | None = getattr(self, "of", None)
        return self.latex.replace("{x}", inner.formula() if inner is not None else "x")


class Alive(Term):
    """1 at every step: the episode goes on."""

    latex: ClassVar[str] = "1"

    def value(self, step: Step) -> Tensor:
        """Return ones."""
        return torch.ones_like(step.next_obs[:, 0])


class Pay(Term):
    """A signal as it is, between two limits."""

    of: Number
    low: float | None = None
    high: float | None = None

    def value(self, step: Step) -> Tensor:
        """Return the signal."""
        value = step(self.of)
        if self.low is None and self.high is None:
            return value.float()
        return value.clamp(self.low, self.high)


class Cost(Term):
    """The size of a signal as a cost, up to `most`."""

    latex: ClassVar[str] = "-|{x}|"
    of: Number
    most: float | None = None

    def value(self, step: Step) -> Tensor:
        """Return the cost."""
        size = step(self.of).abs()
        return -(size if self.most is None else size.clamp(max=self.most))


class SquareCost(Term):
    """The square of a signal over a usual size as a cost, up to `most`."""

    latex: ClassVar[str] = "-{x}^2"
    of: Number
    usual: float
    most: float

    def value(self, step: Step) -> Tensor:
        """Return the cost."""
        return -(step(self.of) / self.usual).square().clamp(max=self.most)


class Ratio(Term):
    """A signal in parts of its goal, between `low` and `most`."""

    of: Number
    goal: float
    low: float | None = -1.0
    most: float | None = None

    def value(self, step: Step) -> Tensor:
        """Return the share."""
        share = step(self.of) / self.goal
        if self.low is None and self.most is None:
            return share
        return share.clamp(self.low, self.most)

    def formula(self) -> str:
        """Return the share, with its limit."""
        x = self.of.formula()
        return f"{x} / {x}^*" if self.most is None else rf"\min({x} / {x}^*, {self.most:g})"


class Capped(Term):
    """A signal in parts of its goal, and a cost from 1.1 of it on."""

    latex: ClassVar[str] = r"\min({x} / {x}^*, 1)"
    of: Number
    goal: float

    def value(self, step: Step) -> Tensor:
        """Return the share less what is too much."""
        share = step(self.of) / self.goal
        return share.clamp(0.0, 1.0) - (share - 1.1).clamp(0.0, 2.0)


class Peak(Term):
    """1 where a signal is at a value, 1/e at `width` from it."""

    latex: ClassVar[str] = "e^{-(({x} - {x}^*)/w)^2}"
    of: Number
    at: float
    width: float

    def value(self, step: Step) -> Tensor:
        """Return the closeness."""
        return torch.exp(-(((step(self.of) - self.at) / self.width) ** 2))


class Exact(Term):
    """A peak at the goal, and a slope that leads there from afar."""

    latex: ClassVar[str] = "e^{-(({x} - {x}^*)/w)^2} + 0.3 {x} / {x}^*"
    of: Number
    goal: float
    width: float

    def value(self, step: Step) -> Tensor:
        """Return the closeness."""
        value = step(self.of)
        peak = torch.exp(-(((value - self.goal) / self.width) ** 2))
        return peak + 0.3 * (value / self.goal).clamp(-1.0, 1.0)


class Proportional(Term):
    """1 at the goal, and less in proportion to the distance from it; 0 at twice the goal."""

    latex: ClassVar[str] = "1 - |{x} - {x}^*| / {x}^*"
    of: Number
    goal: float

    def value(self, step: Step) -> Tensor:
        """Return the closeness."""
        return 1.0 - ((step(self.of) - self.goal).abs() / self.goal).clamp(max=2.0)


class Arrive(Term):
    """Closeness to a goal in proportion, and a peak there."""

    latex: ClassVar[str] = "1 - |{x} - {x}^*| / {x}^* + e^{-(({x} - {x}^*)/w)^2}"
    of: Number
    goal: float
    width: float

    def value(self, step: Step) -> Tensor:
        """Return the closeness."""
        off = step(self.of) - self.goal
        return 1.0 - (off.abs() / self.goal).clamp(max=2.0) + torch.exp(-((off / self.width) ** 2))


class Hill(Term):
    """1 where a signal is at a value, 1/2 at `width` from it, with a slope that reaches far."""

    digits: ClassVar[int] = 6
    latex: ClassVar[str] = "k({x})"
    of: Number
    at: float
    width: float

    def value(self, step: Step) -> Tensor:
        """Return the closeness."""
        return 1.0 / (1.0 + ((step(self.of) - self.at).abs() / self.width) ** 2)


class Off(Term):
    """The distance of a signal from a value as a cost, 1 from `scale` on."""

    digits: ClassVar[int] = 6
    latex: ClassVar[str] = "-|{x} - {x}^*|"
    of: Number
    at: float
    scale: float

    def value(self, step: Step) -> Tensor:
        """Return the cost."""
        return -((step(self.of) - self.at).abs() / self.scale).clamp(max=1.0)


class Missing(Term):
    """What a signal lacks to its goal as a cost, 1 where it starts."""

    digits: ClassVar[int] = 6
    latex: ClassVar[str] = "{x} / {x}^* - 1"
    of: Number
    goal: float
    span: float

    def value(self, step: Step) -> Tensor:
        """Return the cost."""
        return ((step(self.of) - self.goal) / self.span).clamp(-1.0, 0.0)


class Reached(Term):
    """1 from a value of a signal on."""

    digits: ClassVar[int] = 6
    latex: ClassVar[str] = "[{x} > {x}^*]"
    of: Number
    goal: float

    def value(self, step: Step) -> Tensor:
        """Return 1 where it is reached."""
        return (step(self.of) >= self.goal).float()


class Small(Term):
    """1 where a signal is 0, falling off exponentially."""

    latex: ClassVar[str] = "e^{-{rate} {x}}"
    of: Number
    rate: float

    def value(self, step: Step) -> Tensor:
        """Return the closeness to 0."""
        return torch.exp(-self.rate * step(self.of))

    def formula(self) -> str:
        """Return the exponential with its rate."""
        rate = "" if self.rate == 1.0 else f"{self.rate:g} "
        return f"e^{{-{rate}{self.of.formula()}}}"


class SmallSquare(Term):
    """1 where a signal is 0, falling off with its square."""

    latex: ClassVar[str] = "e^{-k {x}^2}"
    of: Number
    rate: float

    def value(self, step: Step) -> Tensor:
        """Return the closeness to 0."""
        return torch.exp(-self.rate * step(self.of) ** 2)


class Near(Term):
    """Closeness of a distance to 0, less the distance."""

    latex: ClassVar[str] = "(e^{-k {x}} - {x})"
    of: Number
    rate: float

    def value(self, step: Step) -> Tensor:
        """Return the closeness."""
        distance = step(self.of)
        return torch.exp(-self.rate * distance) - distance


class AtEase(Term):
    """Closeness of an error to 0 within a width, less the error up to 1."""

    latex: ClassVar[str] = "e^{-({x}/w)^2} - {x}"
    of: Number
    width: float

    def value(self, step: Step) -> Tensor:
        """Return the closeness."""
        off = step(self.of)
        return torch.exp(-((off / self.width) ** 2)) - off.clamp(max=1.0)


class Poise(Term):
    """Uprightness of the torso; 1/e of it is lost at `width` of 1 - cos of the tilt."""

    digits: ClassVar[int] = 3
    latex: ClassVar[str] = r"e^{-(1 - \cos\theta)/w} - 2 (1 - \cos\theta)"
    width: float

    def value(self, step: Step) -> Tensor:
        """Return the poise."""
        leans = 1.0 - step.measured("uprightness")
        return torch.exp(-leans / self.width) - 2.0 * leans


class Sigmoid(Term):
    """How far a signal is above 0, from 0 to 1, in parts of `width`."""

    digits: ClassVar[int] = 6
    latex: ClassVar[str] = r"\sigma({x})"
    of: Number
    width: float

    def value(self, step: Step) -> Tensor:
        """Return the share."""
        return torch.sigmoid(step(self.of) / self.width)


class Cosine(Term):
    """The cosine of an angle."""

    latex: ClassVar[str] = r"\cos {x}"
    of: Number

    def value(self, step: Step) -> Tensor:
        """Return the cosine."""
        return torch.cos(step(self.of))


class Flat(Term):
    """How level the torso lies: 1 less the size of the cosine of its tilt."""

    latex: ClassVar[str] = r"1 - |\cos\theta|"

    def value(self, step: Step) -> Tensor:
        """Return how level it lies."""
        return 1.0 - step.measured("uprightness").abs()


class When(Term):
    """Another term, while a condition holds."""

    condition: Number
    pays: Term

    def value(self, step: Step) -> Tensor:
        """Return the term, or 0."""
        return step(self.condition).float() * self.pays.value(step)

    def formula(self) -> str:
        """Return the formula of the term with its condition."""
        return rf"[\text{{when}}]\, {self.pays.formula()}"


class Both(Term):
    """The product of two terms."""

    one: Term
    other: Term

    def value(self, step: Step) -> Tensor:
        """Return the product."""
        return self.one.value(step) * self.other.value(step)

    def formula(self) -> str:
        """Return the product."""
        return rf"{self.one.formula()}\, {self.other.formula()}"


class Nearer(Term):
    """What another term gains from step to step, and a little of it, so that it stays there."""

    latex: ClassVar[str] = r"\Delta\Phi"
    name: str
    pays: Term
    per_step: float

    def slots(self) -> dict[str, int | None]:
        """Remember the value one step before."""
        return {f"was_{self.name}": 2}

    def value(self, step: Step) -> Tensor:
        """Return the gain."""
        slot, now = f"was_{self.name}", self.pays.value(step)
        kept = step.recall(slot)
        before = torch.where(kept[:, 0] > 0, kept[:, 1], now)
        step.keep(slot, torch.stack((torch.ones_like(now), now), -1))
        return self.per_step * (now - before) + 0.2 * now

    def formula(self) -> str:
        """Return the gain of the potential."""
        return self.latex


# ---- going, turning, stepping


class Touchdown(Term):
    """A foot comes down, of the other side than the one before."""

    latex: ClassVar[str] = "[s]"
    of: Strides = Strides()  # noqa: RUF009 - frozen

    def value(self, step: Step) -> Tensor:
        """Return what the landings are worth."""
        stride = step(self.of)
        return stride.landed.clamp(0.0, 1.0) * stride.alternation


class TurnBy(Term):
    """Turns in parts of what was asked for; more costs, unless it is asked for `at_least`."""

    latex: ClassVar[str] = r"\min(\psi / \psi^*, 1)"
    of: Turned
    turns: float
    at_least: bool = False

    def value(self, step: Step) -> Tensor:
        """Return the share."""
        turned = step(self.of)
        share = (turned / self.turns).clamp(-1.0, 1.0)
        if self.at_least:
            return share
        return share - ((turned - self.turns) / self.turns).clamp(0.0, 2.0)


class TurnedThere(Term):
    """Having turned so far, and no longer turning."""

    latex: ClassVar[str] = r"e^{-(\Delta\psi/w)^2} e^{-|\omega|}"
    of: Turned
    turning: Turning
    turns: float
    tolerance: float
    at_least: bool = False

    def value(self, step: Step) -> Tensor:
        """Return the closeness."""
        lacking = self.turns - step(self.of)
        lacking = lacking.clamp(min=0.0) if self.at_least else lacking
        there = torch.exp(-((lacking / self.tolerance) ** 2))
        return there * torch.exp(-step(self.turning).abs())


class Rhythm(Term):
    """Feet on the ground and off it as a clock wants them.

    `landings` say for each foot when it lands in a stride, 0 to 1; `duty` is the share of the
    stride that it stays. Who swings is above the others by `swing_m`: a slope to follow where
    contacts are all or nothing.
    """

    latex: ClassVar[str] = r"\overline{w_i (c_i - \tfrac12)} - \overline{w_i z_i}"
    beat: Beat
    landings: tuple[tuple[float, ...], ...]
    duty: float
    swing_m: float

    def value(self, step: Step) -> Tensor:
        """Return how well the feet are in time."""
        x, y = step(self.beat)
        edge = float(f"{math.cos(math.pi * self.duty):.4g}")
        wants = torch.stack([self._wanted(each, x, y) for each in self.landings], -1)
        wanted = torch.tanh(_SHARP * (wants - edge))
        in_time = 0.5 * (wanted * (2.0 * step(Contacts()) - 1.0)).mean(-1)
        if len(self.landings) < 2:
            return in_time
        up = step.measured("foot_height")
        up = ((up - up.mean(-1, keepdim=True)) / self.swing_m).clamp(-1.0, 1.0)
        return in_time - ((wanted - wanted.mean(-1, keepdim=True)) * up).mean(-1)

    def _wanted(self, landings: tuple[float, ...], x: Tensor, y: Tensor) -> Tensor:
        """Return what is largest in the middle of the stances that begin at landings."""
        stances: list[Tensor] = []
        for landing in landings:
            angle = 2.0 * math.pi * (landing + 0.5 * self.duty)
            cosine, sine = float(f"{math.cos(angle):.4g}"), float(f"{math.sin(angle):.4g}")
            stances.append(cosine * x + sine * y)
        return stances[0] if len(stances) == 1 else torch.maximum(stances[0], stances[1])


class Pattern(Term):
    """Feet down together or apart as in a gait, without a clock."""

    latex: ClassVar[str] = r"\overline{\cos(\phi_i - \phi_j) c_i c_j}"
    landings: tuple[float, ...]

    def value(self, step: Step) -> Tensor:
        """Return the mean over pairs of feet."""
        steps = 2.0 * step(Contacts()) - 1.0
        total, count = torch.zeros_like(steps[:, 0]), 0
        for one, at in enumerate(self.landings):
            for other in range(one):
                apart = math.cos(2.0 * math.pi * (at - self.landings[other]))
                total = total + float(f"{apart:.3g}") * steps[:, one] * steps[:, other]
                count += 1
        return total / count


class Stay(Term):
    """Going somewhere, and being elsewhere than at the start, as costs."""

    latex: ClassVar[str] = "-v_{xy} - d / d^*"
    of: Gone
    most: float

    def value(self, step: Step) -> Tensor:
        """Return the costs."""
        drift = step.measured("horizontal_speed").clamp(max=2.0)
        return -drift - (step(self.of) / self.most).clamp(max=2.0)


class Home(Term):
    """Being near the start, while a phase is on."""

    latex: ClassVar[str] = "e^{-(d/w)^2} - d"
    of: Gone
    phase: int

    def value(self, step: Step) -> Tensor:
        """Return the closeness."""
        away = step(self.of)
        close = torch.exp(-((away / 0.5) ** 2)) - (away / 2.0).clamp(max=3.0)
        return close if step.phase is None else (step.phase == self.phase).float() * close


# ---- jumping, turning over, waving


class Hop(Term):
    """Each landing is worth the time in the air before it."""

    latex: ClassVar[str] = r"[\text{land}]\, t_\text{air}"
    of: Flights

    def value(self, step: Step) -> Tensor:
        """Return what the landing is worth."""
        flight = step(self.of)
        return flight.landed * (flight.flown / 0.2).clamp(0.0, 1.5)

    def formula(self) -> str:
        """Return the product."""
        return self.latex


class _OfDeed(Term):
    """A term of a signal that has no symbol."""

    def formula(self) -> str:
        """Return the formula."""
        return self.latex


class Done(_OfDeed):
    """5 each time that a counted deed is done, up to `most` times."""

    latex: ClassVar[str] = r"5 [\text{done}]"
    of: Cycles
    most: int | None = None

    def value(self, step: Step) -> Tensor:
        """Return 5 in that step."""
        cycle = step(self.of)
        paid = 5.0 * cycle.done
        return paid if self.most is None else paid * (cycle.count < self.most + 0.5).float()


class InTime(_OfDeed):
    """5 each time it is done, if it is a period after the time before."""

    latex: ClassVar[str] = r"5 [\text{done}] e^{-((t - T)/w)^2}"
    of: Waiting
    late: float

    def value(self, step: Step) -> Tensor:
        """Return what it is worth in that step."""
        waited, cycle = step(self.of).waited, step(self.of.of)
        off = (waited - self.of.period) / self.late
        return 5.0 * cycle.done * torch.exp(-(off**2))


class BackAndForth(_OfDeed):
    """The way up, then the way down again, in parts of `scale`."""

    latex: ClassVar[str] = r"\pm\Delta z"
    of: Cycles
    scale: float

    def value(self, step: Step) -> Tensor:
        """Return how far it is on its way."""
        cycle = step(self.of)
        way = torch.where(cycle.is_up > 0.5, -cycle.value, cycle.value)
        return (way / self.scale).clamp(-1.0, 1.0)


class Toward(_OfDeed):
    """How far it is on its way to `high`, and then back to `low`."""

    latex: ClassVar[str] = r"\pm\Delta h"
    of: Cycles

    def value(self, step: Step) -> Tensor:
        """Return the way made."""
        cycle = step(self.of)
        back, forth = self.of.high - cycle.value, cycle.value - self.of.low
        return torch.where(cycle.is_up > 0.5, back, forth)


class TurnProgress(_OfDeed):
    """25 times the turns gained in a step beyond the most so far."""

    latex: ClassVar[str] = r"25\, \Delta b"
    of: Somersault

    def value(self, step: Step) -> Tensor:
        """Return the progress."""
        return 25.0 * step(self.of).progress


class TurnSpin(_OfDeed):
    """Turning the right way before a somersault is complete, and not turning after it."""

    latex: ClassVar[str] = r"\omega / 6"
    of: Somersault

    def value(self, step: Step) -> Tensor:
        """Return what the spin is worth."""
        spin = step.measured(self.of.turns.replace("turns", "rate"))
        spin = -spin if self.of.sign < 0 else spin
        return torch.where(step(self.of).done, -spin.abs(), spin.clamp(-4.0, 12.0)) / 6.0


class TurnLanding(_OfDeed):
    """15, once: on its feet after a somersault."""

    latex: ClassVar[str] = r"15 [\text{land}]"
    of: Somersault

    def value(self, step: Step) -> Tensor:
        """Return 15 in that step."""
        return 15.0 * step(self.of).landing


class TurnRest(_OfDeed):
    """Upright and slow after a somersault."""

    latex: ClassVar[str] = r"[\text{done}] \cos\theta (1 + e^{-v}) / 2"
    of: Somersault

    def value(self, step: Step) -> Tensor:
        """Return how well it rests."""
        calm = 0.5 + 0.5 * torch.exp(-step.measured("speed"))
        return step(self.of).done.float() * step.measured("uprightness") * calm


class LiftBlock(Term):
    """The block off the table, in parts of a height, in the hand."""

    latex: ClassVar[str] = "e^{-8d} h / h^*"
    height: float

    def value(self, step: Step) -> Tensor:
        """Return the share."""
        block = step(Block())
        return torch.exp(-8.0 * block.near) * (block.rise / self.height).clamp(0.0, 1.0)

    def slots(self) -> dict[str, int | None]:
        """Remember what `Block` does."""
        return Block().slots()


# ---- commands and reference motions


class FollowVelocity(_OfDeed):
    """Velocity over the ground close to the commanded one."""

    latex: ClassVar[str] = (
        r"e^{-4 \lVert v - v^* \rVert^2} + 0.4 (1 - \lVert v - v^* \rVert)"
    )
    of: CommandError

    def value(self, step: Step) -> Tensor:
        """Return the closeness."""
        off = step(self.of).ground
        return torch.exp(-4.0 * off.square()) + 0.4 * (1.0 - off).clamp(-1.0)


class FollowTurn(_OfDeed):
    """Turning rate close to the commanded one."""

    latex: ClassVar[str] = (
        r"e^{-4 (\omega - \omega^*)^2} + 0.4 (1 - |\omega - \omega^*|) - 0.1 (\omega - \omega^*)^2"
    )
    of: CommandError

    def value(self, step: Step) -> Tensor:
        """Return the closeness."""
        off = step(self.of).turn
        # Hips that swing with every step drown what turns: only of squares is the mean's part kept.
        close = torch.exp(-4.0 * off.square()) + 0.4 * (1.0 - off).clamp(-1.0)
        return close - 0.1 * off.square().clamp(max=9.0)


class Sway(_OfDeed):
    """Turning to and fro with every step, which no mean shows, as a cost."""

    latex: ClassVar[str] = r"-(\omega - \bar\omega)^2"
    of: CommandError

    def value(self, step: Step) -> Tensor:
        """Return the cost."""
        return -step(self.of).swing.square().clamp(max=9.0)


class Level(Term):
    """Going up and down, rolling and pitching, as a cost."""

    latex: ClassVar[str] = r"-(2 v_z^2 + 0.05 (\omega_x^2 + \omega_y^2))"

    def value(self, step: Step) -> Tensor:
        """Return the cost."""
        rocking = step.measured("roll_rate").square() + step.measured("pitch_rate").square()
        bobbing = step.measured("vertical_velocity").square()
        return -(2.0 * bobbing + 0.05 * rocking).clamp(max=2.0)


class StandOnFeet(Term):
    """Feet in the air while it is commanded to stand, as a cost."""

    latex: ClassVar[str] = r"-[\text{stand}] (1 - c_i)"
    moving: IsCommanded

    def value(self, step: Step) -> Tensor:
        """Return the cost."""
        lifts = 1.0 - step(Contacts()).mean(-1)
        return -lifts * (1.0 - step(self.moving))


class FollowJoints(Term):
    """Joints as in a motion that repeats with a clock.

    Each joint has a name and its course: the mean, then cosine and sine of each harmonic.
    """

    latex: ClassVar[str] = r"e^{-\overline{(q - q^*)^2} / w^2} - 0.3 \overline{(q - q^*)^2}"
    beat: Beat
    joints: tuple[tuple[str, tuple[float, ...]], ...]
    width: float

    def value(self, step: Step) -> Tensor:
        """Return the closeness."""
        x, y = step(self.beat)
        most = max(len(course) // 2 for _, course in self.joints)
        waves = [(x, y)]
        for _ in range(1, most):
            before_x, before_y = waves[-1]
            waves.append((before_x * x - before_y * y, before_x * y + before_y * x))
        errors: list[Tensor] = []
        for joint, (mean, *sizes) in self.joints:
            wanted = torch.full_like(x, mean)
            for place, size in enumerate(sizes):
                if size:
                    wanted = wanted + size * waves[place // 2][place % 2]
            errors.append((step.measured("joint_position", joint) - wanted).square())
        off = torch.stack(errors, -1).mean(-1)
        return torch.exp(-off / self.width**2) - 0.3 * off.clamp(max=2.0)
