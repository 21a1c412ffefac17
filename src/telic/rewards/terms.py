"""Reward terms: functions of signals, each about 1 in size when the behaviour is right.

    "speed": Ratio(Along("forward"), goal=3.0, most=1.5, words="speed forward"),
    "upright": Pay(Measured("uprightness"), low=-1.0, high=1.0, words="the right way up"),
    "control": Cost(Measured("effort"), words="mean squared action, as a cost"),

Costs are negative. Any term takes `words` that say what it rewards.
"""

# ruff: noqa: N802 - terms are written in files as the records that they make

from __future__ import annotations

import math
from typing import cast

import torch
from torch import Tensor

from telic.rewards.node import StepView, step_term, term
from telic.rewards.signals import (
    BlockState,
    Cycle,
    Flight,
    HeadingTurn,
    Missed,
    StrideState,
    TurnOver,
    Wait,
)

_SHARP = 4.0
"""how steeply a foot is wanted on the ground or off it"""


@step_term("1")
def Alive(step: StepView) -> Tensor:
    """1 at every step that the episode lasts."""
    return torch.ones_like(step.next_obs[:, 0])


@term("{x}")
def Pay(x: Tensor, low: float | None = None, high: float | None = None) -> Tensor:
    """A signal as it is, between two limits."""
    return x.float() if low is None and high is None else x.clamp(low, high)


@term("-{x}")
def Cost(x: Tensor, most: float | None = None) -> Tensor:
    """A signal as a cost, up to `most`."""
    return -(x if most is None else x.clamp(max=most))


@term("-{x}^2")
def SquareCost(x: Tensor, usual: float, most: float) -> Tensor:
    """The square of a signal over its usual size as a cost, up to `most`."""
    return -(x / usual).square().clamp(max=most)


@term("{x} / {x}^*")
def Ratio(x: Tensor, goal: float, low: float | None = -1.0, most: float | None = None) -> Tensor:
    """A signal in parts of its goal, between `low` and `most`."""
    return x / goal if low is None and most is None else (x / goal).clamp(low, most)


@term(r"\min({x} / {x}^*, 1)")
def Capped(x: Tensor, goal: float) -> Tensor:
    """A signal in parts of its goal, and a cost from 1.1 of it on."""
    return (x / goal).clamp(0.0, 1.0) - (x / goal - 1.1).clamp(0.0, 2.0)


@term("e^{-(({x} - {x}^*)/w)^2}")
def Peak(x: Tensor, at: float, width: float) -> Tensor:
    """1 where a signal is at a value, 1/e at `width` from it."""
    return torch.exp(-(((x - at) / width) ** 2))


@term("(e^{-(({x} - {x}^*)/w)^2} + 0.3 {x} / {x}^*)")
def Exact(x: Tensor, goal: float, width: float) -> Tensor:
    """A peak at the goal, and a slope that leads there from afar."""
    peak = torch.exp(-(((x - goal) / width) ** 2))
    return peak + 0.3 * (x / goal).clamp(-1.0, 1.0)


@term("(1 - |{x} - {x}^*| / {x}^*)")
def Proportional(x: Tensor, goal: float) -> Tensor:
    """1 at the goal, and less in proportion to the distance from it."""
    return 1.0 - ((x - goal).abs() / goal).clamp(max=2.0)


@term("(1 - |{x} - {x}^*| / {x}^* + e^{-(({x} - {x}^*)/w)^2})")
def Arrive(x: Tensor, goal: float, width: float) -> Tensor:
    """Closeness to a goal in proportion, and a peak there."""
    peak = torch.exp(-(((x - goal) / width) ** 2))
    return 1.0 - ((x - goal).abs() / goal).clamp(max=2.0) + peak


@term("1 / (1 + (({x} - {x}^*)/w)^2)", digits=6)
def Hill(x: Tensor, at: float, width: float) -> Tensor:
    """1 where a signal is at a value, 1/2 at `width` from it, with a slope that reaches far."""
    return 1.0 / (1.0 + ((x - at).abs() / width) ** 2)


@term("-|{x} - {x}^*| / s", digits=6)
def Off(x: Tensor, at: float, scale: float) -> Tensor:
    """The distance of a signal from a value as a cost, 1 from `scale` on."""
    return -((x - at).abs() / scale).clamp(max=1.0)


@term(r"\min(({x} - {x}^*) / s, 0)", digits=6)
def Missing(x: Tensor, goal: float, span: float) -> Tensor:
    """Shortfall of a signal from its goal as a cost, 1 at `span` from it."""
    return ((x - goal) / span).clamp(-1.0, 0.0)


@term("[{x} > {x}^*]", digits=6)
def Reached(x: Tensor, goal: float) -> Tensor:
    """1 from a value of a signal on."""
    return (x >= goal).float()


@term("e^{-{rate} {x}}")
def Small(x: Tensor, rate: float) -> Tensor:
    """1 where a signal is 0, falling off exponentially."""
    return torch.exp(-rate * x)


@term("e^{-{rate} {x}^2}")
def SmallSquare(x: Tensor, rate: float) -> Tensor:
    """1 where a signal is 0, falling off with its square."""
    return torch.exp(-rate * x**2)


@term("(e^{-{rate} {x}} - {x})")
def Near(x: Tensor, rate: float) -> Tensor:
    """Closeness of a distance to 0, less the distance."""
    return torch.exp(-rate * x) - x


@term("(e^{-({x}/w)^2} - {x})")
def AtEase(x: Tensor, width: float) -> Tensor:
    """Closeness of an error to 0 within a width, less the error up to 1."""
    return torch.exp(-((x / width) ** 2)) - x.clamp(max=1.0)


@step_term(r"(e^{-(1 - \cos\theta)/w} - 2 (1 - \cos\theta))", digits=3)
def Poise(step: StepView, width: float) -> Tensor:
    """Uprightness of the torso; it falls to 1/e at `width` of 1 - cos of the tilt."""
    leans = 1.0 - step.measured("uprightness")
    return torch.exp(-leans / width) - 2.0 * leans


@term(r"\sigma({x} / w)", digits=6)
def Sigmoid(x: Tensor, width: float) -> Tensor:
    """Sigmoid of a signal in parts of `width`, from 0 to 1."""
    return torch.sigmoid(x / width)


@term(r"\cos {x}")
def Cosine(x: Tensor) -> Tensor:
    """The cosine of an angle."""
    return torch.cos(x)


@step_term(r"(1 - |\cos\theta|)")
def Flat(step: StepView) -> Tensor:
    """1 where the torso lies level."""
    return 1.0 - step.measured("uprightness").abs()


@term(r"{condition}\, {pays}")
def When(condition: Tensor, pays: object) -> Tensor:
    """Another term, while a condition holds."""
    return condition.float() * cast("Tensor", pays)


@term(r"{one}\, {other}")
def Both(one: object, other: object) -> Tensor:
    """The product of two terms."""
    return cast("Tensor", one) * cast("Tensor", other)


@step_term(r"\Delta\Phi", memory=lambda of: {f"was_{of['name']}": 2})
def Nearer(step: StepView, name: str, pays: object, per_step: float) -> Tensor:
    """Gain of another term from step to step, and a little of its value, so that it stays."""
    now, kept = cast("Tensor", pays), step.recall(f"was_{name}")
    before = torch.where(kept[:, 0] > 0, kept[:, 1], now)
    step.keep(f"was_{name}", torch.stack((torch.ones_like(now), now), -1))
    return per_step * (now - before) + 0.2 * now


# ---- going, turning, stepping


@term("[s]")
def Touchdown(stride: StrideState) -> Tensor:
    """A foot comes down, of the other side than the one before."""
    return stride.landed.clamp(0.0, 1.0) * stride.alternation


@term(r"\min(\psi / \psi^*, 1)")
def TurnBy(heading: HeadingTurn, turns: float, at_least: bool = False) -> Tensor:
    """Turns in parts of what was asked for; more costs, unless it is asked for `at_least`."""
    share = (heading.turned / turns).clamp(-1.0, 1.0)
    return share if at_least else share - ((heading.turned - turns) / turns).clamp(0.0, 2.0)


@term(r"e^{-(\Delta\psi/w)^2} e^{-|\omega|}")
def TurnedThere(
    heading: HeadingTurn, turns: float, tolerance: float, at_least: bool = False
) -> Tensor:
    """Having turned so far, and no longer turning."""
    lacking = turns - heading.turned
    lacking = lacking.clamp(min=0.0) if at_least else lacking
    return torch.exp(-((lacking / tolerance) ** 2)) * torch.exp(-heading.rate.abs())


@step_term(r"(\overline{w_i (c_i - \tfrac12)} - \overline{w_i z_i})")
def Rhythm(
    step: StepView,
    beat: tuple[Tensor, Tensor],
    landings: tuple[tuple[float, ...], ...],
    duty: float,
    swing_m: float,
) -> Tensor:
    """Feet on the ground and off it as a clock wants them.

    `landings` say for each foot when it lands in a stride, 0 to 1; `duty` is the share of the
    stride that it stays. A foot in swing is above the others by `swing_m`: a slope to follow
    where contacts are all or nothing.
    """
    edge = _short(math.cos(math.pi * duty))
    wants = torch.stack([_stance(each, duty, beat) for each in landings], -1)
    wanted = torch.tanh(_SHARP * (wants - edge))
    in_time = 0.5 * (wanted * (2.0 * step.measured("foot_contact") - 1.0)).mean(-1)
    if len(landings) < 2:
        return in_time
    up = step.measured("foot_height")
    up = ((up - up.mean(-1, keepdim=True)) / swing_m).clamp(-1.0, 1.0)
    return in_time - ((wanted - wanted.mean(-1, keepdim=True)) * up).mean(-1)


def _stance(landings: tuple[float, ...], duty: float, beat: tuple[Tensor, Tensor]) -> Tensor:
    """Return what is largest in the middle of the stances that begin at landings."""
    angles = [2.0 * math.pi * (landing + 0.5 * duty) for landing in landings]
    x, y = beat
    found = [_short(math.cos(each)) * x + _short(math.sin(each)) * y for each in angles]
    return found[0] if len(found) == 1 else torch.maximum(found[0], found[1])


@step_term(r"\overline{\cos(\phi_i - \phi_j) c_i c_j}")
def Pattern(step: StepView, landings: tuple[float, ...]) -> Tensor:
    """Feet down together or apart as in a gait, without a clock; mean over pairs of feet."""
    steps = 2.0 * step.measured("foot_contact") - 1.0
    pairs = [(one, other) for one in range(len(landings)) for other in range(one)]
    total = torch.zeros_like(steps[:, 0])
    for one, other in pairs:
        apart = _short(math.cos(2.0 * math.pi * (landings[one] - landings[other])), 3)
        total = total + apart * steps[:, one] * steps[:, other]
    return total / len(pairs)


@step_term("(-v_{xy} - {gone} / d^*)")
def Stay(step: StepView, gone: Tensor, most: float) -> Tensor:
    """Going somewhere, and being elsewhere than at the start, as costs."""
    drift = step.measured("horizontal_speed").clamp(max=2.0)
    return -drift - (gone / most).clamp(max=2.0)


@step_term("(e^{-({gone}/w)^2} - {gone})")
def Home(step: StepView, gone: Tensor, phase: int) -> Tensor:
    """Being near the start, while a phase is on."""
    close = torch.exp(-((gone / 0.5) ** 2)) - (gone / 2.0).clamp(max=3.0)
    return close if step.phase is None else (step.phase == phase).float() * close


# ---- jumping, turning over, waving


@term(r"[\text{land}]\, t_\text{air}")
def Hop(flight: Flight) -> Tensor:
    """Each landing is worth the time in the air before it."""
    return flight.landed * (flight.flown / 0.2).clamp(0.0, 1.5)


@term(r"5 [\text{done}]")
def Done(cycle: Cycle, most: int | None = None) -> Tensor:
    """5 for each repetition, up to `most` times."""
    paid = 5.0 * cycle.done
    return paid if most is None else paid * (cycle.times < most + 0.5).float()


@term(r"5 [\text{done}] e^{-((t - T)/w)^2}")
def InTime(wait: Wait, late: float) -> Tensor:
    """5 for each repetition a period after the one before, give or take `late`."""
    return 5.0 * wait.done * torch.exp(-(((wait.waited - wait.period) / late) ** 2))


@term(r"(\pm\Delta z)")
def BackAndForth(cycle: Cycle, scale: float) -> Tensor:
    """The way up, then the way down again, in parts of `scale`."""
    way = torch.where(cycle.is_up > 0.5, -cycle.value, cycle.value)
    return (way / scale).clamp(-1.0, 1.0)


@term(r"(\pm\Delta h)")
def Toward(cycle: Cycle) -> Tensor:
    """Progress on its way up, and then down again."""
    return torch.where(cycle.is_up > 0.5, cycle.high - cycle.value, cycle.value - cycle.low)


@term(r"25\, \Delta b")
def TurnProgress(turn: TurnOver) -> Tensor:
    """25 times the turns gained in a step beyond the most so far."""
    return 25.0 * turn.progress


@term(r"\omega / 6")
def TurnSpin(turn: TurnOver) -> Tensor:
    """Turning the right way before a somersault is complete, and not turning after it."""
    return torch.where(turn.done, -turn.spin.abs(), turn.spin.clamp(-4.0, 12.0)) / 6.0


@term(r"15 [\text{land}]")
def TurnLanding(turn: TurnOver) -> Tensor:
    """15, once: on its feet after a somersault."""
    return 15.0 * turn.landing


@step_term(r"[\text{done}] \cos\theta (1 + e^{-v}) / 2")
def TurnRest(step: StepView, turn: TurnOver) -> Tensor:
    """Upright and slow after a somersault."""
    calm = 0.5 + 0.5 * torch.exp(-step.measured("speed"))
    return turn.done.float() * step.measured("uprightness") * calm


@term("e^{-8 d} h / h^*")
def LiftBlock(block: BlockState, height: float) -> Tensor:
    """The block off the table, in parts of a height, in the hand."""
    return torch.exp(-8.0 * block.near) * (block.rise / height).clamp(0.0, 1.0)


# ---- commands and reference motions


@term(r"(e^{-4 \lVert v - v^* \rVert^2} + 0.4 (1 - \lVert v - v^* \rVert))")
def FollowVelocity(missed: Missed) -> Tensor:
    """Velocity over the ground close to the commanded one."""
    return torch.exp(-4.0 * missed.ground.square()) + 0.4 * (1.0 - missed.ground).clamp(-1.0)


@term(r"(e^{-4 (\omega - \omega^*)^2} + 0.4 (1 - |\omega - \omega^*|) - 0.1 (\omega - \omega^*)^2)")
def FollowTurn(missed: Missed) -> Tensor:
    """Turning rate close to the commanded one."""
    off = missed.turn
    # Hips that swing with every step drown what turns: only of squares is the mean's part kept.
    close = torch.exp(-4.0 * off.square()) + 0.4 * (1.0 - off).clamp(-1.0)
    return close - 0.1 * off.square().clamp(max=9.0)


@term(r"(-(\omega - \bar\omega)^2)")
def Sway(missed: Missed) -> Tensor:
    """Turning to and fro with every step, which no mean shows, as a cost."""
    return -missed.swing.square().clamp(max=9.0)


@step_term(r"(-2 v_z^2 - 0.05 (\omega_x^2 + \omega_y^2))")
def Level(step: StepView) -> Tensor:
    """Going up and down, rolling and pitching, as a cost."""
    rocking = step.measured("roll_rate").square() + step.measured("pitch_rate").square()
    bobbing = step.measured("vertical_velocity").square()
    return -(2.0 * bobbing + 0.05 * rocking).clamp(max=2.0)


@step_term(r"(-[\text{stand}] (1 - c_i))")
def StandOnFeet(step: StepView, moving: Tensor) -> Tensor:
    """Feet in the air while it is commanded to stand, as a cost."""
    lifts = 1.0 - step.measured("foot_contact").mean(-1)
    return -lifts * (1.0 - moving)


@step_term(r"(e^{-\overline{(q - q^*)^2} / w^2} - 0.3 \overline{(q - q^*)^2})")
def FollowJoints(
    step: StepView,
    beat: tuple[Tensor, Tensor],
    joints: tuple[tuple[str, tuple[float, ...]], ...],
    width: float,
) -> Tensor:
    """Joints as in a motion that repeats with a clock.

    Each joint has a name and its course: the mean, then cosine and sine of each harmonic.
    """
    x, y = beat
    waves = [(x, y)]
    for _ in range(1, max(len(course) // 2 for _, course in joints)):
        before_x, before_y = waves[-1]
        waves.append((before_x * x - before_y * y, before_x * y + before_y * x))
    errors: list[Tensor] = []
    for joint, (mean, *sizes) in joints:
        wanted = torch.full_like(x, mean)
        for place, size in enumerate(sizes):
            wanted = wanted + size * waves[place // 2][place % 2] if size else wanted
        errors.append((step.measured("joint_position", joint) - wanted).square())
    off = torch.stack(errors, -1).mean(-1)
    return torch.exp(-off / _short(width**2)) - 0.3 * off.clamp(max=2.0)


def _short(value: float, digits: int = 4) -> float:
    return float(f"{value:.{digits}g}")
