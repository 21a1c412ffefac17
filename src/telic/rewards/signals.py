"""Signals: inputs of reward terms, measured for N environments at each step.

A signal is measured once per step however many terms use it. Most are quantities of one moment
(`Measured`); others remember the episode.
"""

# ruff: noqa: N802 - signals are written in files as the records that they make

from __future__ import annotations

import math
from functools import reduce
from typing import NamedTuple

import torch
from torch import Tensor

from telic.core.tensors import norm
from telic.quantities import QUANTITIES
from telic.quantities.observed import observed
from telic.rewards.node import StepView, signal

_AXES = {
    "forward": (0, 1),
    "backward": (0, -1),
    "left": (1, 1),
    "right": (1, -1),
    "sideways": (1, 1),
}
_VELOCITIES = (("x_velocity", "forward_velocity"), ("y_velocity", "lateral_velocity"))
_DIAGONAL = 0.7071


@signal("{quantity}")
def Measured(
    step: StepView, quantity: str, body: str | None = None, minus: float = 0.0, sign: int = 1
) -> Tensor:
    """A quantity of `telic quantities`, less a number; `sign` -1 turns it round."""
    value = step.measured(quantity, *(() if body is None else (body,)))
    value = value - minus if minus else value
    return -value if sign < 0 else value


@signal("{quantity}", memory=lambda of: {of["quantity"]: of["width"]})
def SoFar(step: StepView, quantity: str, width: int) -> Tensor:
    """A quantity of the episode so far; `width` is the size of its memory."""
    return step.so_far(quantity)


@signal("x")
def Observed(step: StepView, kind: str, columns: tuple[int, ...]) -> Tensor:
    """Compute a value from columns of the observation; see `telic.quantities.observed`."""
    return observed(step.next_obs, kind, columns)


@signal("r")
def Given(step: StepView, name: str) -> Tensor:
    """A value of the step's info, such as the environment's own reward."""
    return step.info[name]


@signal("|{x}|")
def Size(step: StepView, x: Tensor) -> Tensor:
    """The absolute value of a signal."""
    return x.abs()


@signal("{x} - {x}^*", digits=6)
def Less(step: StepView, x: Tensor, minus: float, sign: int = 1) -> Tensor:
    """A signal less a number; `sign` -1 turns it round."""
    return -(x - minus) if sign < 0 else x - minus


@signal("[x > x^*]", digits=6)
def Above(step: StepView, x: Tensor, limit: float) -> Tensor:
    """1 where a signal is above a limit."""
    return x > limit


@signal("[x < x^*]", digits=6)
def Below(step: StepView, x: Tensor, limit: float) -> Tensor:
    """1 where a signal is below a limit."""
    return x < limit


@signal("(1 - {x})")
def Not(step: StepView, x: Tensor) -> Tensor:
    """1 where a condition does not hold."""
    return 1.0 - x.float()


@signal("x")
def Part(step: StepView, whole: NamedTuple, name: str) -> Tensor:
    """One value of a signal that has several, by name."""
    return getattr(whole, name)


# ---- going


@signal("v")
def Along(step: StepView, direction: str | float, aside: str | None = None) -> Tensor:
    """Velocity over the ground in a direction, m/s; with `aside`, half way between two.

    A direction is a name ("ahead" is where it faces), or degrees to the left of where the robot
    faces when it starts.

    Of a robot without feet that of its centre of mass, since each of its parts swings faster than
    the whole goes; else the mean over the step where there is one, which shaking leaves at 0.
    """
    if direction == "ahead":
        return _ahead(step)
    if isinstance(direction, str):
        along = _velocity(step, direction)
        return along if aside is None else _DIAGONAL * (along + _velocity(step, aside))
    angle = math.radians(direction)
    return _velocity(step, "forward") * math.cos(angle) + _velocity(step, "left") * math.sin(angle)


def _velocity(step: StepView, direction: str) -> Tensor:
    (axis, sign), spec = _AXES[direction], step.spec
    mean, quantity = _VELOCITIES[axis]
    robot, centre = spec.robot, QUANTITIES["centre_of_mass_velocity"]
    winds = robot is not None and not robot.feet and robot.root.kind != "rail"
    if winds and centre.available(spec):
        value = centre(step.info)[:, axis]
    else:
        value = step.info[mean] if mean in spec.info_keys else step.measured(quantity)
    return -value if sign < 0 else value


@signal("v")
def Ahead(step: StepView, aside: bool = False) -> Tensor:
    """Velocity where the robot faces, or to its left, m/s, if possible the mean of the step."""
    return _ahead(step, aside)


def _ahead(step: StepView, aside: bool = False) -> Tensor:
    info = step.info
    if not {"x_velocity", "y_velocity"} <= set(step.spec.info_keys):
        return step.measured("sideways_velocity" if aside else "heading_velocity")
    facing = step.measured("heading")
    if aside:
        return info["y_velocity"] * facing.cos() - info["x_velocity"] * facing.sin()
    return info["x_velocity"] * facing.cos() + info["y_velocity"] * facing.sin()


@signal("d", memory={"start": 2})
def Made(step: StepView, direction: str | float) -> Tensor:
    """Way made in a direction (see `Along`) since the episode began, m."""
    if isinstance(direction, str):
        axis, sign = _AXES[direction]
        place = step.measured("xy"[axis] + "_position")
        place = -place if sign < 0 else place
    else:
        x, y, angle = *map(step.measured, ("x_position", "y_position")), math.radians(direction)
        place = x * math.cos(angle) + y * math.sin(angle)
    return place - step.first("start", place.unsqueeze(-1))[:, 0]


@signal("d", memory=lambda of: {"spot": 1 + 2 * len(of["axes"])})
def Gone(step: StepView, axes: str) -> Tensor:
    """Distance from where the episode began, m, along axes; its memory holds the way back."""
    here = torch.stack([step.measured(f"{axis}_position") for axis in axes], -1)
    gone = here - step.first("spot", here)
    step.keep("spot", torch.cat((step.recall("spot")[:, : 1 + len(axes)], gone), -1))
    return norm(gone)


class HeadingTurn(NamedTuple):
    """Turns of the heading since the episode began, and the turning rate of a step, rad/s."""

    turned: Tensor
    rate: Tensor


@signal("x", memory={"heading_turns": 6, "faced": None})
def Turns(step: StepView, side: str) -> HeadingTurn:
    """Turns of the heading to a side, and its turning rate as the mean of the step."""
    turns = step.so_far("heading_turns")
    rate = 2.0 * math.pi / step.dt * (turns - step.recall("faced"))
    step.keep("faced", turns)
    return HeadingTurn(-turns, -rate) if side == "right" else HeadingTurn(turns, rate)


# ---- feet


@signal(r"[\text{air}]")
def Airborne(step: StepView) -> Tensor:
    """1 while no foot touches the ground."""
    return (step.measured("feet_in_contact") == 0).float()


@signal(r"[\text{foot}]")
def Grounded(step: StepView) -> Tensor:
    """1 while a foot touches the ground."""
    return (step.measured("feet_in_contact") > 0).float()


@signal(r"[\text{feet}]")
def OnlyFeet(step: StepView, others: tuple[int, ...], mine: tuple[int, ...] = ()) -> Tensor:
    """1 while one of `mine` (by default any foot) touches the ground and none of `others`."""
    contact = step.measured("foot_contact")
    others_up = 1.0 - contact[:, list(others)].amax(-1) if others else 1.0
    return (contact[:, list(mine)] if mine else contact).amax(-1) * others_up


@signal(r"[\text{off}]")
def FeetOff(step: StepView, feet: tuple[int, ...]) -> Tensor:
    """1 while none of some feet touches the ground."""
    return 1.0 - step.measured("foot_contact")[:, list(feet)].amax(-1)


@signal(r"[\text{feet}]")
def FewFeet(step: StepView, most: int) -> Tensor:
    """1 while at least one foot touches the ground, and at most `most` do."""
    contact = step.measured("foot_contact")
    return (contact.sum(-1) < most + 0.5).float() * contact.amax(-1)


@signal(r"\Delta z")
def FeetUp(step: StepView, feet: tuple[int, ...] = (), rank: int = -1) -> Tensor:
    """Height of the lowest of some feet above the lowest foot of all, m.

    Without feet, of the one that `rank` feet are lower than; -1 is the highest.
    """
    up = step.measured("foot_height")
    up = up - up.amin(-1, keepdim=True)
    if feet:
        return up[:, list(feet)].amin(-1)
    return up.amax(-1) if rank < 0 else up.sort(-1)[0][:, rank]


@signal("[c_i = c_j]")
def Together(step: StepView) -> Tensor:
    """1 while all feet touch the ground, or none."""
    contact = step.measured("foot_contact")
    return 1.0 - (contact.amax(-1) - contact.amin(-1))


@signal(r"\overline{c_i v_i}")
def Slip(step: StepView) -> Tensor:
    """Speed over the ground of feet that touch it, m/s, mean of the feet."""
    return step.measured("foot_slip").mean(-1)


@signal("|d_l - d_r|", memory=lambda of: {"foot_duty_factor": 1 + of["feet"]})
def Skew(step: StepView, one: tuple[int, ...], other: tuple[int, ...], feet: int) -> Tensor:
    """Difference of the shares of time that the feet of two sides were on the ground."""
    duty = step.so_far("foot_duty_factor")
    return (duty[:, list(one)].mean(-1) - duty[:, list(other)].mean(-1)).abs()


class StrideState(NamedTuple):
    """Feet that came down in a step, and how far sides take turns."""

    landed: Tensor
    alternation: Tensor


@signal("x", memory={"steps": 5})
def Strides(step: StepView) -> StrideState:
    """Landings of this step, and alternation so far."""
    before = step.recall("steps")[:, 3]
    alternation = step.so_far("stride_alternation", "steps")
    return StrideState(step.recall("steps")[:, 3] - before, alternation)


@signal("x", digits=8)
def Beat(step: StepView, hertz: float) -> tuple[Tensor, Tensor]:
    """Return cosine and sine of the phase; with `phase_hz` of the reward, the policy sees it."""
    angle = (2.0 * math.pi * hertz) * step.info["time"].float()
    return angle.cos(), angle.sin()


# ---- repeated actions


class Cycle(NamedTuple):
    """State of a repeated action."""

    value: Tensor
    is_up: Tensor
    """1 from getting above `high` to getting below `low` again"""
    done: Tensor
    """1 in the step in which it is below again"""
    times: Tensor
    """how often it was done so far"""
    high: float
    low: float


@signal("x", memory={"is_up": None, "times": None})
def Cycles(step: StepView, x: Tensor, high: float, low: float) -> Cycle:
    """Count how often a signal was above `high` and then below `low`: jumps, waves, squats."""
    is_up = torch.maximum(step.recall("is_up"), (x > high).float())
    done = is_up * (x < low).float()
    step.keep("is_up", is_up - done)
    times = step.recall("times") + done
    step.keep("times", times)
    return Cycle(x, is_up, done, times, high, low)


class Wait(NamedTuple):
    """Time since the last repetition, s, and whether the next is due."""

    waited: Tensor
    due: Tensor
    done: Tensor
    period: float


@signal("x", memory={"waited": None})
def Waiting(step: StepView, cycle: Cycle, period: float) -> Wait:
    """Time since the last repetition, which the policy sees; due after 0.6 of a period."""
    waited = step.recall("waited") + step.dt
    due = torch.maximum(cycle.is_up, (waited > 0.6 * period).float())
    step.keep("waited", waited * (1.0 - cycle.done))
    return Wait(waited, due, cycle.done, period)


class Flight(NamedTuple):
    """State of a hop."""

    flown: Tensor
    """seconds in the air up to the step before"""
    landed: Tensor
    times: Tensor


@signal("x", memory={"air_time": 1, "hops": None})
def Flights(step: StepView, least_s: float) -> Flight:
    """Flights of at least so many seconds that land."""
    flown = step.recall("air_time")[:, 0]
    landed = ((step.so_far("air_time") == 0) & (flown > least_s)).float()
    times = step.recall("hops") + landed
    step.keep("hops", times)
    return Flight(flown, landed, times)


class TurnOver(NamedTuple):
    """State of a somersault."""

    progress: Tensor
    """turns gained in this step beyond the most so far"""
    done: Tensor
    landing: Tensor
    """1 in the step in which it lands"""
    landed: Tensor
    spin: Tensor
    """turning rate the right way, rad/s"""


@signal("x", memory=lambda of: {of["turns"]: 6, "best": None, "landed": None})
def Somersault(
    step: StepView, turns: str, sign: int, count: int, has_feet: bool = True
) -> TurnOver:
    """Turning over so often, and then standing on the feet."""
    turned, spin = step.so_far(turns), step.measured(turns.replace("turns", "rate"))
    turned, spin = (-turned, -spin) if sign < 0 else (turned, spin)
    best = torch.maximum(step.recall("best"), turned.clamp(0.0, float(count)))
    progress = best - step.recall("best")
    step.keep("best", best)
    upright, done = step.measured("uprightness"), best > count - 0.1
    stands = step.measured("feet_in_contact") > 0 if has_feet else upright > 0
    landed = torch.maximum(step.recall("landed"), (done & (upright > 0.8) & stands).float())
    landing = landed - step.recall("landed")
    step.keep("landed", landed)
    return TurnOver(progress, done, landing, landed, spin)


# ---- limbs, poles, ground, blocks


@signal(r"\Delta z", memory=lambda of: {"began": 1 + len(of["bodies"])})
def Rise(
    step: StepView, bodies: tuple[str, ...], highest: bool = False, from_torso: bool = True
) -> Tensor:
    """Height of the lowest, or highest, of some bodies above where it began, m.

    `from_torso`: as seen from the torso.
    """
    ends = torch.stack([step.measured("body_height", body) for body in bodies], -1)
    if from_torso:
        ends = ends - step.measured("height").unsqueeze(-1)
    rise = ends - step.first("began", ends)
    return rise.amax(-1) if highest else rise.amin(-1)


@signal(r"[f]\, v_\text{foot}")
def KickSpeed(
    step: StepView, body: str, foot: int, others: tuple[int, ...] = (), sign: int = 1
) -> Tensor:
    """Speed of a free foot forward, seen from the torso, m/s; `sign` -1: backward.

    It is free off the ground, and where there are `others` only if one of these carries the robot.
    """
    contact = step.measured("foot_contact")
    swing = step.measured("body_velocity", body)[:, 0] - step.measured("forward_velocity")
    free = 1.0 - contact[:, foot]
    free = free * contact[:, list(others)].amax(-1) if others else free
    return free * (-swing if sign < 0 else swing)


@signal(r"[\text{touch}]")
def Touching(step: StepView, bodies: tuple[str, ...], least: float) -> Tensor:
    """1 while more than a force, N, acts on one of some bodies."""
    forces = [step.measured("contact_force", body) for body in bodies]
    return (reduce(torch.maximum, forces) > least).float()


@signal(r"\theta")
def PoleAngle(step: StepView) -> Tensor:
    """Angle of the pole that is farthest from upright, rad."""
    return step.measured("pole_angles").abs().amax(-1)


@signal(r"[\text{down}]")
def IsDown(step: StepView, below: float) -> Tensor:
    """1 while the torso is below a height, or far from upright."""
    low = step.measured("height") < below
    return (low | (step.measured("uprightness") < 0.3)).float()


@signal("h / h^*")
def Climbed(step: StepView, steps: float) -> Tensor:
    """Share of the way up a field of so many steps that is made."""
    rise = step.measured("ground_step").clamp_min(1e-3)
    return (step.measured("ground_height") / (steps * rise)).clamp(0.0, 1.0)


class BlockState(NamedTuple):
    """Place of a block."""

    away: Tensor
    """from the goal, m"""
    near: Tensor
    """from the hand, m"""
    rise: Tensor
    """above where it lay, m"""
    way: Tensor
    """share of its way to the goal that is made"""


@signal("d", memory={"began": 3})
def Block(step: StepView) -> BlockState:
    """Place of the block, seen from the goal, the hand and the place where it lay."""
    block = step.measured("body_position", "block")
    away = norm(block - step.measured("body_position", "target"))
    near = norm(block - step.measured("body_position", "fingertip"))
    began = step.first("began", torch.stack((block[:, 2], away), dim=-1))
    # Of the way that this episode has: how far it is by chance is not to the policy's credit.
    way = (1.0 - away / began[:, 1].clamp_min(0.02)).clamp(-1.0, 1.0)
    return BlockState(away, near, block[:, 2] - began[:, 0], way)


# ---- commands


class Missed(NamedTuple):
    """Error of a commanded velocity, in parts of the largest command."""

    ground: Tensor
    turn: Tensor
    swing: Tensor
    """of the turning rate, what its mean does not show"""


@signal("x", memory=lambda of: {"strayed": 3} if of["mean_s"] else {})
def CommandError(step: StepView, ahead: float, turn: float, mean_s: float = 0.0) -> Missed:
    """Distance from the commanded velocity, in parts of the largest commands.

    Where hips sway it is a mean over `mean_s`, which a robot cannot keep: no policy sees it.
    """
    info = step.info
    off_ahead = (_ahead(step) - info["command_forward"]) / ahead
    off_aside = (_ahead(step, aside=True) - info["command_sideways"]) / ahead
    off_turn = (step.measured("heading_rate") - info["command_turn"]) / turn
    swing = torch.zeros_like(off_turn)
    if mean_s:
        kept = float(f"{math.exp(-step.dt / mean_s):.6g}")
        now = torch.stack((off_ahead, off_aside, off_turn), -1)
        mean = kept * step.recall("strayed") + float(f"{1.0 - kept:.6g}") * now
        step.keep("strayed", mean)
        swing = off_turn - mean[:, 2]
        off_ahead, off_aside, off_turn = mean.unbind(-1)
    ground = (off_ahead.square() + off_aside.square() + 1e-8).sqrt()
    return Missed(ground, off_turn.abs(), swing)


@signal(r"[\text{go}]")
def IsCommanded(step: StepView, ahead: float, turn: float) -> Tensor:
    """1 while it is commanded to move, more than 0.05 of the largest commands."""
    info = step.info
    ground = torch.hypot(info["command_forward"], info["command_sideways"])
    return ((ground > 0.05 * ahead) | (info["command_turn"].abs() > 0.05 * turn)).float()
