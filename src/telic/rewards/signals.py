"""Signals: inputs of reward terms, measured for N environments at each step.

A signal is measured once per step, regardless of how many terms use it. Most signals are
instantaneous quantities (`Measured`), and others accumulate over the episode.
"""

# ruff: noqa: N802 - signals are written in files under the names of the records they create

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial, reduce
from typing import Any, NamedTuple

import torch
from torch import Tensor

from telic.core.tensors import norm
from telic.quantities import QUANTITIES
from telic.quantities.quantity import observed_value
from telic.rewards.node import StepView, signal

_AXES = {
    "forward": ("x", 1),
    "backward": ("x", -1),
    "left": ("y", 1),
    "right": ("y", -1),
    "sideways": ("y", 1),
}
_DIAGONAL = 0.7071


def component(direction: str | float, aside: str | None, of_axis: Callable[[str], Any]) -> Any:
    """Return the component of a vector along a direction, or along a diagonal with `aside`.

    `of_axis` returns the vector's component along "x" or "y".
    """
    if isinstance(direction, str):
        axis, sign = _AXES[direction]
        found = -of_axis(axis) if sign < 0 else of_axis(axis)
        return found if aside is None else _DIAGONAL * (found + component(aside, None, of_axis))
    angle = math.radians(direction)
    return of_axis("x") * math.cos(angle) + of_axis("y") * math.sin(angle)


@signal("{quantity}")
def Measured(
    step: StepView, quantity: str, body: str | None = None, minus: float = 0.0, sign: int = 1
) -> Tensor:
    """Return an instantaneous quantity minus an offset, negated if `sign` is -1."""
    value = step.measured(quantity, *(() if body is None else (body,)))
    value = value - minus if minus else value
    return -value if sign < 0 else value


@signal("{quantity}", memory=lambda of: {of["quantity"]: of["width"]})
def SoFar(step: StepView, quantity: str, width: int) -> Tensor:
    """Return a quantity accumulated over the episode. `width` is the size of its memory."""
    return step.so_far(quantity)


@signal("x")
def Observed(step: StepView, kind: str, columns: tuple[int, ...]) -> Tensor:
    """Return a value computed from observation columns. See `telic.quantities.quantity`."""
    return observed_value(step.next_obs, kind, columns)


@signal("r")
def Given(step: StepView, name: str) -> Tensor:
    """Return a value from the step's info, such as the environment's reward."""
    return step.info[name]


@signal("|{x}|")
def Size(step: StepView, x: Tensor) -> Tensor:
    """Return the absolute value of a signal."""
    return x.abs()


@signal("{x} - {x}^*", digits=6)
def Less(step: StepView, x: Tensor, minus: float, sign: int = 1) -> Tensor:
    """Return a signal minus an offset, negated if `sign` is -1."""
    return -(x - minus) if sign < 0 else x - minus


@signal("[x > x^*]", digits=6)
def Above(step: StepView, x: Tensor, limit: float) -> Tensor:
    """Return 1 where a signal is above a limit."""
    return x > limit


@signal("[x < x^*]", digits=6)
def Below(step: StepView, x: Tensor, limit: float) -> Tensor:
    """Return 1 where a signal is below a limit."""
    return x < limit


@signal("(1 - {x})")
def Not(step: StepView, x: Tensor) -> Tensor:
    """Return 1 where a condition does not hold."""
    return 1.0 - x.float()


@signal("x")
def Part(step: StepView, whole: NamedTuple, name: str) -> Tensor:
    """Return one named value of a signal with several values."""
    return whole._asdict()[name]


# ---- locomotion


@signal("v")
def Along(step: StepView, direction: str | float, aside: str | None = None) -> Tensor:
    """Return the ground velocity in a direction, or along a diagonal if `aside` is given, in m/s.

    A direction is a name ("ahead" is the robot's heading), or an angle in degrees to the left of
    the initial heading.

    Without feet, it is the velocity of the center of mass, because single links swing faster than
    the robot travels. Otherwise, it is averaged over the control step, which removes jitter.
    """
    if direction == "ahead":
        return _ahead(step)
    return component(direction, aside, partial(_velocity, step))


def _velocity(step: StepView, axis: str) -> Tensor:
    spec, robot, center = step.spec, step.spec.robot, QUANTITIES["center_of_mass_velocity"]
    winds = robot is not None and not robot.feet and robot.root.kind != "rail"
    if winds and center.available(spec):
        return center(step.info)[:, "xy".index(axis)]
    mean = f"{axis}_velocity"
    end = "forward_velocity" if axis == "x" else "lateral_velocity"
    return step.info[mean] if mean in spec.info_keys else step.measured(end)


@signal("v")
def Ahead(step: StepView, aside: bool = False) -> Tensor:
    """Return the velocity along the heading or to its left, averaged over the step, in m/s."""
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
    """Return the displacement in a direction (see `Along`) since the start of the episode, in m."""
    place = component(direction, None, lambda axis: step.measured(f"{axis}_position"))
    return place - step.first("start", place.unsqueeze(-1))[:, 0]


@signal("d", memory=lambda of: {"spot": 1 + 2 * len(of["axes"])})
def Gone(step: StepView, axes: str, at: tuple[float, ...] = ()) -> Tensor:
    """Return the distance along the given axes from the initial position, or a point `at`, in m."""
    here = torch.stack([step.measured(f"{axis}_position") for axis in axes], -1)
    gone = here - step.first("spot", here) - (here.new_tensor(at) if at else 0.0)
    step.keep("spot", torch.cat((step.recall("spot")[:, : 1 + len(axes)], gone), -1))
    return norm(gone)


class HeadingTurn(NamedTuple):
    """Turns of the heading since the start of the episode, and yaw rate in this step, in rad/s."""

    turned: Tensor
    rate: Tensor


@signal("x", memory={"heading_turns": 6, "faced": None})
def Turns(step: StepView, side: str) -> HeadingTurn:
    """Return the turns of the heading to one side, and the mean yaw rate over the step."""
    turns = step.so_far("heading_turns")
    rate = 2.0 * math.pi / step.dt * (turns - step.recall("faced"))
    step.keep("faced", turns)
    return HeadingTurn(-turns, -rate) if side == "right" else HeadingTurn(turns, rate)


# ---- feet


@signal(r"[\text{air}]")
def Airborne(step: StepView) -> Tensor:
    """Return 1 while no foot is in contact with the ground."""
    return (step.measured("feet_in_contact") == 0).float()


@signal(r"[\text{foot}]")
def Grounded(step: StepView) -> Tensor:
    """Return 1 while at least one foot is in contact with the ground."""
    return (step.measured("feet_in_contact") > 0).float()


@signal(r"[\text{feet}]")
def OnlyFeet(step: StepView, others: tuple[int, ...], mine: tuple[int, ...] = ()) -> Tensor:
    """Return 1 while a foot in `mine` (default: any) is in contact, but no foot in `others`."""
    contact = step.measured("foot_contact")
    others_up = 1.0 - contact[:, list(others)].amax(-1) if others else 1.0
    return (contact[:, list(mine)] if mine else contact).amax(-1) * others_up


@signal(r"[\text{off}]")
def FeetOff(step: StepView, feet: tuple[int, ...]) -> Tensor:
    """Return 1 while none of the given feet is in contact with the ground."""
    return 1.0 - step.measured("foot_contact")[:, list(feet)].amax(-1)


@signal(r"[\text{feet}]")
def FewFeet(step: StepView, most: int) -> Tensor:
    """Return 1 while between one and `most` feet are in contact with the ground."""
    contact = step.measured("foot_contact")
    return (contact.sum(-1) < most + 0.5).float() * contact.amax(-1)


@signal(r"\Delta z")
def FeetUp(step: StepView, feet: tuple[int, ...] = (), rank: int = -1) -> Tensor:
    """Return the height of the lowest of the given feet above the lowest of all feet, in m.

    Without `feet`, use the foot at position `rank` in order of height, where -1 is the highest.
    """
    up = step.measured("foot_height")
    up = up - up.amin(-1, keepdim=True)
    if feet:
        return up[:, list(feet)].amin(-1)
    return up.amax(-1) if rank < 0 else up.sort(-1)[0][:, rank]


@signal(r"\overline{c_i v_i}")
def Slip(step: StepView) -> Tensor:
    """Return the slip speed of feet in contact with the ground, in m/s, averaged over the feet."""
    return step.measured("foot_slip").mean(-1)


@signal("|d_l - d_r|", memory=lambda of: {"foot_duty_factor": 1 + of["feet"]})
def Skew(step: StepView, one: tuple[int, ...], other: tuple[int, ...], feet: int) -> Tensor:
    """Return the difference between the duty factors of the feet on the two sides."""
    duty = step.so_far("foot_duty_factor")
    return (duty[:, list(one)].mean(-1) - duty[:, list(other)].mean(-1)).abs()


class StrideState(NamedTuple):
    """Touchdowns in a step, and the left-right alternation so far."""

    landed: Tensor
    alternation: Tensor


@signal("x", memory={"steps": 5})
def Strides(step: StepView) -> StrideState:
    """Return the touchdowns in the current step, and the left-right alternation so far."""
    before = step.recall("steps")[:, 3]
    alternation = step.so_far("stride_alternation", "steps")
    return StrideState(step.recall("steps")[:, 3] - before, alternation)


@signal("x", digits=8)
def Beat(step: StepView, hertz: float) -> tuple[Tensor, Tensor]:
    """Return the cosine and sine of the phase variable, which has the frequency `phase_hz`."""
    angle = (2.0 * math.pi * hertz) * step.info["time"].float()
    return angle.cos(), angle.sin()


# ---- repeated actions


class Cycle(NamedTuple):
    """State of a repeated motion."""

    value: Tensor
    is_up: Tensor
    """1 from rising above `high` until falling below `low`"""
    done: Tensor
    """1 in the step in which the signal falls below `low`"""
    times: Tensor
    """number of completed repetitions"""
    high: float
    low: float


@signal("x", memory={"is_up": None, "times": None})
def Cycles(step: StepView, x: Tensor, high: float, low: float) -> Cycle:
    """Count how often a signal rose above `high` and fell below `low`: jumps, waves, squats."""
    is_up = torch.maximum(step.recall("is_up"), (x > high).float())
    done = is_up * (x < low).float()
    step.keep("is_up", is_up - done)
    times = step.recall("times") + done
    step.keep("times", times)
    return Cycle(x, is_up, done, times, high, low)


class Wait(NamedTuple):
    """Time since the last repetition in s, and whether the next one is due."""

    waited: Tensor
    due: Tensor
    done: Tensor
    period: float


@signal("x", memory={"waited": None})
def Waiting(step: StepView, cycle: Cycle, period: float) -> Wait:
    """Return the time since the last repetition. The next one is due after 0.6 periods."""
    waited = step.recall("waited") + step.dt
    due = torch.maximum(cycle.is_up, (waited > 0.6 * period).float())
    step.keep("waited", waited * (1.0 - cycle.done))
    return Wait(waited, due, cycle.done, period)


class Flight(NamedTuple):
    """State of a hop."""

    flown: Tensor
    """time in the air up to the previous step, in s"""
    landed: Tensor
    times: Tensor


@signal("x", memory={"air_time": 1, "hops": None})
def Flights(step: StepView, least_s: float) -> Flight:
    """Detect flights of at least `least_s` seconds that end in a landing."""
    flown = step.recall("air_time")[:, 0]
    landed = ((step.so_far("air_time") == 0) & (flown > least_s)).float()
    times = step.recall("hops") + landed
    step.keep("hops", times)
    return Flight(flown, landed, times)


class TurnOver(NamedTuple):
    """State of a somersault."""

    progress: Tensor
    """progress in this step beyond the previous maximum, in turns"""
    done: Tensor
    landing: Tensor
    """1 in the step of the landing"""
    landed: Tensor
    spin: Tensor
    """angular velocity in the requested direction, in rad/s"""


@signal("x", memory=lambda of: {of["turns"]: 6, "best": None, "landed": None})
def Somersault(
    step: StepView, turns: str, sign: int, count: int, has_feet: bool = True
) -> TurnOver:
    """Detect a somersault of `count` turns after which the robot stands on its feet."""
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
    """Return the height of the lowest (or highest) given body above its initial height, in m.

    With `from_torso`, heights are relative to the torso.
    """
    ends = torch.stack([step.measured("body_height", body) for body in bodies], -1)
    if from_torso:
        ends = ends - step.measured("height").unsqueeze(-1)
    rise = ends - step.first("began", ends)
    return rise.amax(-1) if highest else rise.amin(-1)


@signal(r"\Delta z")
def Over(step: StepView, body: str, other: str) -> Tensor:
    """Return the height of a body above another one, in m."""
    return step.measured("body_height", body) - step.measured("body_height", other)


@signal(r"[f]\, v_\text{foot}")
def KickSpeed(
    step: StepView, body: str, foot: int, others: tuple[int, ...] = (), sign: int = 1
) -> Tensor:
    """Return the forward (or backward if `sign` is -1) speed of a free foot, relative to the torso.

    A foot is free if it is off the ground and, if `others` are given, one of them is in contact.
    """
    contact = step.measured("foot_contact")
    swing = step.measured("body_velocity", body)[:, 0] - step.measured("forward_velocity")
    free = 1.0 - contact[:, foot]
    free = free * contact[:, list(others)].amax(-1) if others else free
    return free * (-swing if sign < 0 else swing)


@signal(r"[\text{touch}]")
def Touching(step: StepView, bodies: tuple[str, ...], least: float) -> Tensor:
    """Return 1 while a contact force above `least` N acts on one of the given bodies."""
    forces = [step.measured("contact_force", body) for body in bodies]
    return (reduce(torch.maximum, forces) > least).float()


@signal(r"\theta")
def PoleAngle(step: StepView) -> Tensor:
    """Return the angle of the pole that is farthest from upright, in rad."""
    return step.measured("pole_angles").abs().amax(-1)


@signal("h / h^*")
def Climbed(step: StepView, steps: float) -> Tensor:
    """Return the fraction of a terrain of `steps` steps that the robot has climbed."""
    rise = step.measured("ground_step").clamp_min(1e-3)
    return (step.measured("ground_height") / (steps * rise)).clamp(0.0, 1.0)


class BlockState(NamedTuple):
    """Position of a block."""

    away: Tensor
    """distance from the goal, in m"""
    near: Tensor
    """distance from the hand, in m"""
    rise: Tensor
    """height above the initial position, in m"""
    way: Tensor
    """fraction of the initial distance to the goal that has been covered"""


@signal("d", memory={"began": 3})
def Block(step: StepView) -> BlockState:
    """Return the position of the block relative to the goal, the hand and its initial position."""
    block = step.measured("body_position", "block")
    away = norm(block - step.measured("body_position", "target"))
    near = norm(block - step.measured("body_position", "fingertip"))
    began = step.first("began", torch.stack((block[:, 2], away), dim=-1))
    # Relative to this episode's initial distance, so that a lucky start earns nothing.
    way = (1.0 - away / began[:, 1].clamp_min(0.02)).clamp(-1.0, 1.0)
    return BlockState(away, near, block[:, 2] - began[:, 0], way)


# ---- commands


class Missed(NamedTuple):
    """Velocity tracking error, as a fraction of the largest command."""

    ground: Tensor
    turn: Tensor
    swing: Tensor
    """yaw rate error that its moving average hides"""


@signal("x", memory=lambda of: {"strayed": 3} if of["mean_s"] else {})
def CommandError(step: StepView, ahead: float, turn: float, mean_s: float = 0.0) -> Missed:
    """Return the velocity tracking error, as a fraction of the largest commands.

    For robots whose hips sway, the error is a moving average over `mean_s` seconds.
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
    """Return 1 while the command is faster than 0.05 of the largest commands."""
    info = step.info
    ground = torch.hypot(info["command_forward"], info["command_sideways"])
    return ((ground > 0.05 * ahead) | (info["command_turn"].abs() > 0.05 * turn)).float()
