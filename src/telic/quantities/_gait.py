"""Gait quantities, based on foot contacts and the order of touchdowns.

The *duty factor* of a foot is the fraction of time that it is on the ground, and a *flight* is a
period without any contact. The *phase* of a foot is its touchdown time in the cycle of the first
foot: 0 if both land together, 0.5 if it lands half a cycle later. Phases are angles, so they are
averaged as unit vectors, and the length of the mean vector is the regularity of the gait.

Touchdowns are debounced. Losing contact briefly, or for longer without rising, is vibration or
bouncing, and touching the ground briefly is scuffing. Neither counts. The debounce time is
sqrt(L / g) / 4 for leg length L. A foot swings if it rises by 3 % of L, or stays in the air for
more than twice that time. Touchdowns are detected with that delay, which does not change phases.
"""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor

from telic.core.rotations import rotate
from telic.core.tensors import cross, norm
from telic.envs.spec import EnvSpec, Robot
from telic.quantities._bodies import constant, foot_contact, places, touch
from telic.quantities.quantity import (
    FEET,
    Fields,
    Update,
    num_feet,
    quantity,
    robot_in,
    robot_need,
    time_step,
)

_MOMENT = 0.25
_LONG = 0.6
"""air time, relative to sqrt(L / g), above which a foot counts as swinging at any height"""
_RISE = 0.03
"""rise above the stance height, relative to L, above which a foot counts as swinging"""
_TURN = 2.0 * math.pi
TWO_FEET = robot_need("at least two feet", lambda robot: len(robot.feet) > 1)
LEGS = robot_need("legs with feet", lambda robot: robot.legs)


@quantity(
    unit="1", latex=r"\frac{1}{t}\sum_{s \le t} [\max_b \|f_b\| \le 0.01\, m g]", need=FEET, width=2
)
def flight_share(state: Tensor, info: Fields) -> Update:
    """Fraction of the episode so far in which no part of the robot was in contact with anything.

    A robot that slides on its shins is not in flight, although none of its feet is on the ground.
    """
    robot, force = robot_in(info), touch(info)
    bodies = (body for body, root in enumerate(robot.body_root) if root == robot.torso)
    own = force.index_select(-1, places(bodies, force.device))
    # memory: steps, steps in flight
    steps = state[..., 0] + 1.0
    flown = state[..., 1] + (own.amax(-1) <= robot.contact_threshold).to(state.dtype)
    return torch.stack((steps, flown), -1), flown / steps


def _ends(info: Fields) -> Tensor:
    """Return the position of the end of each foot, shape (..., F, 3)."""
    robot, xpos = robot_in(info), info["xpos"]
    rows = places(robot.feet, xpos.device)
    tips = constant(tuple(leg.tip for leg in robot.legs), xpos.device, xpos.dtype)
    return xpos.index_select(-2, rows) + rotate(info["xquat"].index_select(-2, rows), tips)


@quantity(unit="m", latex=r"z_{\text{end of foot } i}", need=LEGS, per="foot")
def foot_height(info: Fields) -> Tensor:
    """Height of the end of each foot above the zero level of the world."""
    return _ends(info)[..., 2]


@quantity(unit="m/s", latex=r"c_i\,\|v_{\text{end of foot } i}^{xy}\|", need=LEGS, per="foot")
def foot_slip(info: Fields) -> Tensor:
    """Horizontal speed of the end of each foot in contact, or 0 without contact."""
    robot, com = robot_in(info), info["subtree_com"]
    motion = info["cvel"].index_select(-2, places(robot.feet, com.device))
    roots = (robot.body_root[foot] for foot in robot.feet)
    arm = _ends(info) - com.index_select(-2, places(roots, com.device))
    velocity = motion[..., 3:] + cross(motion[..., :3], arm)
    return foot_contact.function(info) * norm(velocity[..., :2])


@quantity(
    unit="s",
    latex=r"t - t_{\text{last contact of foot } i}",
    need=FEET,
    width=num_feet,
    per="foot",
)
def foot_air_time(state: Tensor, info: Fields) -> Update:
    """Time since each foot left the ground, or 0 while it is in contact."""
    off = (foot_contact.function(info) == 0).to(state.dtype)
    clock = (state + time_step(info)) * off
    return clock, clock


@quantity(
    unit="1",
    latex=r"\frac{1}{s}\sum_t \min_{i: c_i = 1} \Delta x_i \cdot \widehat{\Delta x}",
    need=LEGS,
    width=lambda spec: 5 + 3 * num_feet(spec),
)
def slide_share(state: Tensor, info: Fields) -> Update:
    """Fraction of the path along which every foot on the ground slid along with the body.

    A walking robot always has a stationary foot on the ground. Flight counts as 0.
    """
    feet = _ends(info)[..., :2].to(state.dtype)
    body = info["xpos"][..., robot_in(info).torso or 0, :2].to(state.dtype)
    down = foot_contact.function(info).to(state.dtype)
    count = feet.shape[-2]
    # memory: whether it has begun, path length, slipped part; last body and foot places; contacts
    known, way, slid, was = state[..., 0], state[..., 1], state[..., 2], state[..., 3:5]
    feet_were = state[..., 5 : 5 + 2 * count].reshape(feet.shape)
    stood = known[..., None] * down * state[..., 5 + 2 * count :]
    moved = known[..., None] * (body - was)
    made = norm(moved)
    along = ((feet - feet_were) * (moved / made.clamp_min(1e-9)[..., None])[..., None, :]).sum(-1)
    least = torch.where(stood > 0, along.clamp_min(0.0), torch.inf).amin(-1)
    least = torch.where((stood > 0).any(-1), torch.minimum(least, made), torch.zeros_like(made))
    way, slid = way + made, slid + least
    sums = torch.stack((torch.ones_like(known), way, slid), -1)
    memory = torch.cat((sums, body, feet.flatten(-2), down), -1)
    return memory, slid / way.clamp_min(1e-6)


_PER_FOOT = 4


@lru_cache(maxsize=64)
def _leg_of(robot: Robot) -> tuple[float, float]:
    """Return the leg length L and the pendulum time constant sqrt(L / g)."""
    gravity = 100.0 * robot.contact_threshold / robot.mass
    length = max((leg.length_m for leg in robot.legs), default=0.0)
    return length, math.sqrt(length / gravity)


def _landing(memory: Tensor, info: Fields) -> tuple[Tensor, Tensor]:
    """Return the feet that land in this step, (..., F), and the updated memory, (..., 4 F).

    The memory of a foot holds whether it swings, its contact time, its air time, and its height
    at the last contact. Initially, all feet are in contact.
    """
    robot, dt = robot_in(info), time_step(info)
    length, time = _leg_of(robot)
    least = max(_MOMENT * time - 0.5 * dt, 0.0)
    off, touched, lost, stood = memory.chunk(_PER_FOOT, -1)
    down = foot_contact.function(info).to(memory.dtype)
    touched, lost = (touched + dt) * down, (lost + dt) * (1.0 - down)
    lands = (off > 0) & (touched > least)
    off = torch.where(lands, torch.zeros_like(off), off)
    is_long = lost > max(_LONG * time - 0.5 * dt, 0.0)
    if robot.legs and "xpos" in info and "xquat" in info:
        height = foot_height.function(info).to(memory.dtype)
        is_long = is_long | (height - stood > _RISE * length)
        stood = torch.where(down > 0, height, stood)
    off = torch.where((lost > least) & is_long, torch.ones_like(off), off)
    return lands, torch.cat((off, touched, lost, stood), -1)


@quantity(
    unit="1",
    latex=r"\frac{1}{n\,t}\sum_i \text{time that foot } i \text{ stands}",
    need=FEET,
    width=lambda spec: 2 + _PER_FOOT * num_feet(spec),
)
def stance_share(state: Tensor, info: Fields) -> Update:
    """Fraction of the episode so far in which a foot did not swing, averaged over the feet.

    Unlike `duty_factor`, which counts contacts, this includes feet that bounce slightly.
    """
    dt = time_step(info)
    before = state[..., 2:].chunk(_PER_FOOT, -1)[0]
    _, feet = _landing(state[..., 2:], info)
    off, _, lost, _ = feet.chunk(_PER_FOOT, -1)
    # A foot that starts to count as swinging has been swinging since it lost contact.
    found = (off > before).to(state.dtype) * (lost / dt - 1.0)
    steps, stood = state[..., 0] + 1.0, state[..., 1] + ((1.0 - off) - found).mean(-1)
    return torch.cat((torch.stack((steps, stood), -1), feet), -1), stood / steps


@quantity(
    unit="1/s",
    latex=r"\frac{1}{n\,t}\sum_i \#\{\text{touchdowns of foot } i\}",
    need=FEET,
    width=lambda spec: 2 + _PER_FOOT * num_feet(spec),
)
def stride_frequency(state: Tensor, info: Fields) -> Update:
    """Touchdowns per foot and second over the episode so far."""
    # memory: seconds, touchdowns, and the memory of `_landing`
    dt = time_step(info)
    lands, feet = _landing(state[..., 2:], info)
    seconds = state[..., 0] + dt
    landed = state[..., 1] + lands.to(state.dtype).mean(-1)
    return torch.cat((torch.stack((seconds, landed), -1), feet), -1), landed / seconds


def _phase_width(spec: EnvSpec) -> int:
    return 3 + (_PER_FOOT + 3) * num_feet(spec)


def _cycles(state: Tensor, info: Fields) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Accumulate the phase of every foot that lands. Returns the memory, direction sums and counts.

    The memory holds, for the first foot, whether it ever landed, the time since then and the last
    period. The memory of `_landing` follows, then the sums of cosine and sine, and the counts.
    """
    dt = time_step(info)
    known, since, period = state[..., :1], state[..., 1:2] + dt, state[..., 2:3]
    *feet, cosine, sine, count = state[..., 3:].chunk(_PER_FOOT + 3, -1)
    lands, landing = _landing(torch.cat(feet, -1), info)
    first = lands[..., :1]
    period = torch.where(first & (known > 0), since, period)
    since = since.masked_fill(first, 0.0)
    known = torch.maximum(known, first.to(state.dtype))
    # phase of the landing, assuming a cycle as long as the last one
    angle = _TURN * since / period.clamp_min(dt)
    counts = (lands & (period > 0)).to(state.dtype)
    cosine, sine = cosine + counts * angle.cos(), sine + counts * angle.sin()
    count = count + counts
    memory = torch.cat((known, since, period, landing, cosine, sine, count), -1)
    return memory, cosine, sine, count


@quantity(
    unit="turns",
    latex=r"\frac{1}{2\pi}\arg \sum_k e^{2\pi i (t_{i,k} - t_{1,k}) / T_k}",
    need=TWO_FEET,
    width=_phase_width,
    per="foot",
)
def foot_phase(state: Tensor, info: Fields) -> Update:
    """Phase of each foot in the cycle of the first foot: 0 if in phase, 0.5 if half a cycle later.

    This is the circular mean over all completed cycles, in [0, 1), or 0 before the first one.
    """
    memory, cosine, sine, _ = _cycles(state, info)
    return memory, (torch.atan2(sine, cosine) / _TURN).remainder(1.0)


@quantity(
    unit="1",
    latex=r"\frac{1}{K}\left|\sum_k e^{2\pi i (t_{i,k} - t_{1,k}) / T_k}\right|",
    need=TWO_FEET,
    width=_phase_width,
    per="foot",
)
def foot_phase_lock(state: Tensor, info: Fields) -> Update:
    """Regularity of each foot's phase in the cycle of the first foot, which is 1 if it is constant.

    This is the length of the mean unit vector of the phases, or 0 before the first completed cycle.
    """
    memory, cosine, sine, count = _cycles(state, info)
    return memory, torch.hypot(cosine, sine) / count.clamp_min(1.0)
