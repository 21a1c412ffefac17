"""Reward terms: functions of signals with a magnitude of about 1.

    "speed": Ratio(Along("forward"), goal=3.0, most=1.5, words="speed forward"),
    "upright": Pay(Measured("uprightness"), low=-1.0, high=1.0, words="the right way up"),
    "control": Cost(Measured("effort"), words="mean squared action, as a cost"),

Costs are negative. Every term accepts `words`, a description of the rewarded behavior.
"""

# ruff: noqa: N802 - terms are written in files under the names of the records they create

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
"""steepness of the transitions between the rewarded stance and swing of a foot"""


@step_term("1")
def Alive(step: StepView) -> Tensor:
    """Return 1 at every step until the episode ends."""
    return torch.ones_like(step.next_obs[:, 0])


@term("{x}")
def Pay(x: Tensor, low: float | None = None, high: float | None = None) -> Tensor:
    """Return a signal clamped to an interval."""
    return x.float() if low is None and high is None else x.clamp(low, high)


@term("-{x}")
def Cost(x: Tensor, most: float | None = None) -> Tensor:
    """Return a signal as a cost of at most `most`."""
    return -(x if most is None else x.clamp(max=most))


@term("-{x}^2")
def SquareCost(x: Tensor, usual: float, most: float) -> Tensor:
    """Return the squared signal, relative to its usual size, as a cost of at most `most`."""
    return -(x / usual).square().clamp(max=most)


@term("{x} / {x}^*")
def Ratio(x: Tensor, goal: float, low: float | None = -1.0, most: float | None = None) -> Tensor:
    """Return a signal as a fraction of its goal, clamped to `low` and `most`."""
    return x / goal if low is None and most is None else (x / goal).clamp(low, most)


@term(r"\min({x} / {x}^*, 1)")
def Capped(x: Tensor, goal: float) -> Tensor:
    """Return a signal as a fraction of its goal, minus a cost above 1.1 times the goal."""
    return (x / goal).clamp(0.0, 1.0) - (x / goal - 1.1).clamp(0.0, 2.0)


@term("e^{-(({x} - {x}^*)/w)^2}")
def Peak(x: Tensor, at: float, width: float) -> Tensor:
    """Return a Gaussian peak that is 1 at a value and 1/e at a distance of `width`."""
    return torch.exp(-(((x - at) / width) ** 2))


@term("(e^{-(({x} - {x}^*)/w)^2} + 0.3 {x} / {x}^*)")
def Exact(x: Tensor, goal: float, width: float) -> Tensor:
    """Return a Gaussian peak at the goal plus a linear slope toward it."""
    peak = torch.exp(-(((x - goal) / width) ** 2))
    return peak + 0.3 * (x / goal).clamp(-1.0, 1.0)


@term("(1 - |{x} - {x}^*| / {x}^* + e^{-(({x} - {x}^*)/w)^2})")
def Arrive(x: Tensor, goal: float, width: float) -> Tensor:
    """Return 1 at the goal, decreasing linearly with the relative error, plus a Gaussian peak."""
    peak = torch.exp(-(((x - goal) / width) ** 2))
    return 1.0 - ((x - goal).abs() / goal).clamp(max=2.0) + peak


@term("1 / (1 + (({x} - {x}^*)/w)^2)", digits=6)
def Hill(x: Tensor, at: float, width: float) -> Tensor:
    """Return a Lorentzian peak that is 1 at a value and 1/2 at a distance of `width`."""
    return 1.0 / (1.0 + ((x - at).abs() / width) ** 2)


@term("-|{x} - {x}^*| / s", digits=6)
def Off(x: Tensor, at: float, scale: float) -> Tensor:
    """Return the distance of a signal from a value, relative to `scale`, as a cost of at most 1."""
    return -((x - at).abs() / scale).clamp(max=1.0)


@term(r"\min(({x} - {x}^*) / s, 0)", digits=6)
def Missing(x: Tensor, goal: float, span: float) -> Tensor:
    """Return the shortfall of a signal as a cost, which is 1 at `span` below the goal."""
    return ((x - goal) / span).clamp(-1.0, 0.0)


@term("[{x} > {x}^*]", digits=6)
def Reached(x: Tensor, goal: float) -> Tensor:
    """Return 1 where a signal reaches its goal."""
    return (x >= goal).float()


@term("e^{-{rate} {x}}")
def Small(x: Tensor, rate: float) -> Tensor:
    """Return 1 where a signal is 0, with exponential decay."""
    return torch.exp(-rate * x)


@term("e^{-{rate} {x}^2}")
def SmallSquare(x: Tensor, rate: float) -> Tensor:
    """Return 1 where a signal is 0, with exponential decay in its square."""
    return torch.exp(-rate * x**2)


@term("(e^{-{rate} {x}} - {x})")
def Near(x: Tensor, rate: float) -> Tensor:
    """Return e^(-rate x) of a distance x, minus the distance."""
    return torch.exp(-rate * x) - x


@term("(e^{-({x}/w)^2} - {x})")
def AtEase(x: Tensor, width: float) -> Tensor:
    """Return a Gaussian peak at zero error, minus the error (at most 1)."""
    return torch.exp(-((x / width) ** 2)) - x.clamp(max=1.0)


@step_term(r"(e^{-(1 - \cos\theta)/w} - 2 (1 - \cos\theta))", digits=3)
def Poise(step: StepView, width: float) -> Tensor:
    """Reward an upright torso with a peak of scale `width` in 1 - cos(tilt), and a linear cost."""
    leans = 1.0 - step.measured("uprightness")
    return torch.exp(-leans / width) - 2.0 * leans


@term(r"\sigma({x} / w)", digits=6)
def Sigmoid(x: Tensor, width: float) -> Tensor:
    """Return the sigmoid of a signal divided by `width`, in (0, 1)."""
    return torch.sigmoid(x / width)


@term(r"\cos {x}")
def Cosine(x: Tensor) -> Tensor:
    """Return the cosine of an angle."""
    return torch.cos(x)


@step_term(r"(1 - |\cos\theta|)")
def Flat(step: StepView) -> Tensor:
    """Return 1 where the torso is horizontal."""
    return 1.0 - step.measured("uprightness").abs()


@term(r"{condition}\, {pays}")
def When(condition: Tensor, pays: object) -> Tensor:
    """Return another term while a condition holds, else 0."""
    return condition.float() * cast("Tensor", pays)


@term(r"{one}\, {other}")
def Both(one: object, other: object) -> Tensor:
    """Return the product of two terms."""
    return cast("Tensor", one) * cast("Tensor", other)


# ---- locomotion, turning, stepping


@term("[s]")
def Touchdown(stride: StrideState) -> Tensor:
    """Reward touchdowns, weighted by how regularly the two sides alternate."""
    return stride.landed.clamp(0.0, 1.0) * stride.alternation


@term(r"\min(\psi / \psi^*, 1)")
def TurnBy(heading: HeadingTurn, turns: float, at_least: bool = False) -> Tensor:
    """Return turns as a fraction of the goal, with a cost for turning too far if not `at_least`."""
    share = (heading.turned / turns).clamp(-1.0, 1.0)
    return share if at_least else share - ((heading.turned - turns) / turns).clamp(0.0, 2.0)


@term(r"e^{-(\Delta\psi/w)^2} e^{-|\omega|}")
def TurnedThere(
    heading: HeadingTurn, turns: float, tolerance: float, at_least: bool = False
) -> Tensor:
    """Reward a robot that has turned by the requested angle and stands at that heading."""
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
    """Reward ground contact and swing of the feet in the rhythm of a phase variable.

    `landings` holds the touchdown phases of each foot in a stride, from 0 to 1, and `duty` is the
    duty factor. Swinging feet should be `swing_m` above the others. This provides a gradient,
    unlike binary contacts.
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
    """Return the stance signal of a foot (largest in the middle of each stance)."""
    angles = [2.0 * math.pi * (landing + 0.5 * duty) for landing in landings]
    x, y = beat
    found = [_short(math.cos(each)) * x + _short(math.sin(each)) * y for each in angles]
    return found[0] if len(found) == 1 else torch.maximum(found[0], found[1])


@step_term(r"\overline{\cos(\phi_i - \phi_j) c_i c_j}")
def Pattern(step: StepView, landings: tuple[float, ...]) -> Tensor:
    """Reward the contact pattern of a gait without a phase variable, averaged over foot pairs."""
    steps = 2.0 * step.measured("foot_contact") - 1.0
    pairs = [(one, other) for one in range(len(landings)) for other in range(one)]
    total = torch.zeros_like(steps[:, 0])
    for one, other in pairs:
        apart = _short(math.cos(2.0 * math.pi * (landings[one] - landings[other])), 3)
        total = total + apart * steps[:, one] * steps[:, other]
    return total / len(pairs)


@step_term("(-v_{xy} - {gone} / d^*)")
def Stay(step: StepView, gone: Tensor, most: float) -> Tensor:
    """Penalize horizontal motion and the distance from the initial position."""
    drift = step.measured("horizontal_speed").clamp(max=2.0)
    return -drift - (gone / most).clamp(max=2.0)


@step_term("(e^{-({gone}/w)^2} - {gone})")
def Home(step: StepView, gone: Tensor, phase: int) -> Tensor:
    """Reward a position near the initial position during a phase."""
    close = torch.exp(-((gone / 0.5) ** 2)) - (gone / 2.0).clamp(max=3.0)
    return close if step.phase is None else (step.phase == phase).float() * close


# ---- jumping, turning over, waving


@term(r"[\text{land}]\, t_\text{air}")
def Hop(flight: Flight) -> Tensor:
    """Reward each landing in proportion to the preceding flight time, up to a limit."""
    return flight.landed * (flight.flown / 0.2).clamp(0.0, 1.5)


@term(r"5 [\text{done}]")
def Done(cycle: Cycle, most: int | None = None) -> Tensor:
    """Return 5 for each of at most `most` repetitions."""
    paid = 5.0 * cycle.done
    return paid if most is None else paid * (cycle.times < most + 0.5).float()


@term(r"5 [\text{done}] e^{-((t - T)/w)^2}")
def InTime(wait: Wait, late: float) -> Tensor:
    """Return 5 for each repetition at one period after the last repetition, within `late`."""
    return 5.0 * wait.done * torch.exp(-(((wait.waited - wait.period) / late) ** 2))


@term(r"(\pm\Delta z)")
def BackAndForth(cycle: Cycle, scale: float) -> Tensor:
    """Reward upward and then downward progress of a signal, divided by `scale`."""
    way = torch.where(cycle.is_up > 0.5, -cycle.value, cycle.value)
    return (way / scale).clamp(-1.0, 1.0)


@term(r"(\pm\Delta h)")
def Toward(cycle: Cycle) -> Tensor:
    """Reward upward and then downward progress within a cycle."""
    return torch.where(cycle.is_up > 0.5, cycle.high - cycle.value, cycle.value - cycle.low)


@term(r"25\, \Delta b")
def TurnProgress(turn: TurnOver) -> Tensor:
    """Return 25 times the turns gained in this step beyond the previous maximum."""
    return 25.0 * turn.progress


@term(r"\omega / 6")
def TurnSpin(turn: TurnOver) -> Tensor:
    """Reward rotation in the requested direction during a somersault, and penalize it afterward."""
    return torch.where(turn.done, -turn.spin.abs(), turn.spin.clamp(-4.0, 12.0)) / 6.0


@term(r"15 [\text{land}]")
def TurnLanding(turn: TurnOver) -> Tensor:
    """Return 15 once, when the robot lands on its feet after a somersault."""
    return 15.0 * turn.landing


@step_term(r"[\text{done}] \cos\theta (1 + e^{-v}) / 2")
def TurnRest(step: StepView, turn: TurnOver) -> Tensor:
    """Reward an upright and slow torso after a somersault."""
    calm = 0.5 + 0.5 * torch.exp(-step.measured("speed"))
    return turn.done.float() * step.measured("uprightness") * calm


@term("e^{-8 d} h / h^*")
def LiftBlock(block: BlockState, height: float) -> Tensor:
    """Return the height of a held block above the table, as a fraction of `height`."""
    return torch.exp(-8.0 * block.near) * (block.rise / height).clamp(0.0, 1.0)


# ---- commands and reference motions


@term(r"(e^{-4 \lVert v - v^* \rVert^2} + 0.4 (1 - \lVert v - v^* \rVert))")
def FollowVelocity(missed: Missed) -> Tensor:
    """Reward tracking of the commanded ground velocity."""
    return torch.exp(-4.0 * missed.ground.square()) + 0.4 * (1.0 - missed.ground).clamp(-1.0)


@term(r"(e^{-4 (\omega - \omega^*)^2} + 0.4 (1 - |\omega - \omega^*|) - 0.1 (\omega - \omega^*)^2)")
def FollowTurn(missed: Missed) -> Tensor:
    """Reward tracking of the commanded yaw rate."""
    off = missed.turn
    # Hip sway masks the mean yaw rate; only a squared error keeps the share of the mean.
    close = torch.exp(-4.0 * off.square()) + 0.4 * (1.0 - off).clamp(-1.0)
    return close - 0.1 * off.square().clamp(max=9.0)


@term(r"(-(\omega - \bar\omega)^2)")
def Sway(missed: Missed) -> Tensor:
    """Penalize oscillation of the yaw rate within a stride, which the moving average hides."""
    return -missed.swing.square().clamp(max=9.0)


@step_term(r"(-2 v_z^2 - 0.05 (\omega_x^2 + \omega_y^2))")
def Level(step: StepView) -> Tensor:
    """Penalize vertical velocity, roll rate and pitch rate."""
    rocking = step.measured("roll_rate").square() + step.measured("pitch_rate").square()
    bobbing = step.measured("vertical_velocity").square()
    return -(2.0 * bobbing + 0.05 * rocking).clamp(max=2.0)


@step_term(r"(-[\text{stand}] (1 - c_i))")
def StandOnFeet(step: StepView, moving: Tensor) -> Tensor:
    """Penalize airborne feet while commanded to stand."""
    lifts = 1.0 - step.measured("foot_contact").mean(-1)
    return -lifts * (1.0 - moving)


@step_term(r"(e^{-\overline{(q - q^*)^2} / w^2} - 0.3 \overline{(q - q^*)^2})")
def FollowJoints(
    step: StepView,
    beat: tuple[Tensor, Tensor],
    joints: tuple[tuple[str, tuple[float, ...]], ...],
    width: float,
) -> Tensor:
    """Reward joint angles close to a periodic reference motion driven by a phase variable.

    Each joint has a name and Fourier coefficients: the mean, then a cosine and a sine per harmonic.
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
