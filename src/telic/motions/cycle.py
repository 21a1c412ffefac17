"""Periodic references for rewards: the period of a clip, and a Fourier series for every joint.

The period is detected in the middle of the clip. A clip without repetition is a single period. Each
joint is a mean and a few harmonics

    q(t) = m + sum over k of a_k cos(2 pi k t / P) + b_k sin(2 pi k t / P)

fitted by least squares. Phase 0 is the landing of the first foot.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from telic.composer.reference import HandMotion, Reference
from telic.core.tensors import integers, numbers
from telic.errors import BadEnvironment, UsageError
from telic.judges.criteria import JointWave
from telic.motions._figure import SIDES, RobotFigure, Side, other_side
from telic.motions.clip import HumanTrack, MotionClip
from telic.motions.robot import MotionRobot
from telic.robots.structure import at_rest
from telic.training.mirror import joint_partners

SUFFIX = "-mirrored"
_FLIP = np.array([1.0, -1.0, 1.0])
_TURN = np.array([1.0, -1.0, 1.0, -1.0])


class Symmetry(NamedTuple):
    """Permutation and signs of clip columns under mirroring."""

    joints: tuple[int, ...]
    """index of the opposite joint for every joint"""
    signs: tuple[float, ...]
    feet: tuple[int, ...]


@functools.lru_cache(maxsize=8)
def symmetry(robot: MotionRobot) -> Symmetry:
    """Return a robot's mirror symmetry. Raises BadEnvironment if a joint has no partner."""
    partners = joint_partners(robot.model, robot.facts, robot.name)
    data = at_rest(robot.model, np.array(robot.facts.rest_qpos))
    feet = data.xpos[list(robot.facts.feet)]
    shown = feet * _FLIP + [0.0, 2.0 * float(data.xpos[robot.root][1]), 0.0]
    other = [int(np.argmin(np.linalg.norm(feet - place, axis=-1))) for place in shown]
    return Symmetry(tuple(integers(partners.index)), tuple(numbers(partners.sign)), tuple(other))


def mirrored(robot: MotionRobot, clip: MotionClip) -> MotionClip:
    """Return the clip mirrored at the x-z plane, in the split of the original.

    The root becomes root' = M root, (w, x, y, z)' = (w, -x, y, -z).
    """
    sides = symmetry(robot)
    order = list(sides.joints)
    flip: np.ndarray = _FLIP.astype(np.float32)
    human = clip.human
    return clip.replace(
        name=f"{clip.name}{SUFFIX}",
        root_pos=clip.root_pos * flip,
        root_quat=clip.root_quat * _TURN.astype(np.float32),
        joint_pos=clip.joint_pos[:, order] * np.array(sides.signs, dtype=np.float32)[order],
        contacts=None if clip.contacts is None else clip.contacts[:, list(sides.feet)],
        human=None if human is None else _mirrored_person(human),
        origin=clip.origin.then("mirrored"),
    )


def _mirrored_person(human: HumanTrack) -> HumanTrack:
    names = {name: place for place, name in enumerate(human.names)}
    swap = {"left_": "right_", "right_": "left_"}
    order = [
        names.get(next((b + n[len(a) :] for a, b in swap.items() if n.startswith(a)), n), place)
        for place, n in enumerate(human.names)
    ]
    points = human.points[:, order] * _FLIP.astype(np.float32)
    return HumanTrack(human.names, points, human.root_quat * _TURN.astype(np.float32))


_ENDS_S = 1.0
"""duration in s that is removed at both ends of clips longer than four times this"""
_MIN_S = 0.4
_SAME = 0.2
"""largest difference between two periods, relative to the RMS of the motion"""
_STILL_RAD, _STILL_M = 0.01, 0.01
_WAVES = 8
"""maximum number of harmonics"""
_CLOSE_RAD, _FAR_RAD = 0.01, 0.08
"""RMS errors at which a fit is sufficient, and at which it is rejected"""


def cycle_of(
    robot: MotionRobot,
    clip: MotionClip,
    *,
    hertz: float | None = None,
    waves: str | None = None,
    source: str = "",
) -> Reference:
    """Convert a clip to a periodic reference for a reward."""
    ends = round(_ENDS_S * clip.fps)
    core = clip.cut(ends, clip.frames - ends) if clip.frames > 4 * ends else clip
    period_s = 1.0 / hertz if hertz else _period_s(core)
    whole = max(1, int(core.duration_s / period_s + 1e-6)) * period_s
    core = core.cut(0, min(core.frames, round(whole * core.fps) + 1))
    turned = 2.0 * math.pi * np.arange(core.frames) / core.fps / period_s
    landings = _landings(core, turned)
    if landings:
        turned = turned - 2.0 * math.pi * landings[0][0]
        landings = tuple(((foot[0] - landings[0][0]) % 1.0,) for foot in landings)
    courses = _courses(clip, core.joint_pos, turned, robot)
    limbs: dict[str, list[JointWave]] = {}
    for joint, limb in _limbs(robot).items():
        limbs.setdefault(limb, []).append(courses[joint])
    made = f"{clip.origin.source or 'a clip'}, license {clip.origin.license or 'unknown'}"
    traveled = core.root_pos[-1] - core.root_pos[0]
    seconds = (core.frames - 1) / core.fps
    return Reference(
        name=clip.name,
        source=source or made,
        hertz=1.0 / period_s,
        limbs={limb: tuple(own) for limb, own in limbs.items()},
        rest=dict(zip(robot.joint_names, map(float, robot.home.joint_pos), strict=True)),
        forward_mps=float(traveled[0]) / seconds,
        landings=landings,
        duty=1.0 if core.contacts is None else float(np.mean(core.contacts)),
        hand=None if waves is None else _hand(robot, core, "left" if waves == "left" else "right"),
        mirrored={} if waves is None else _mirrored_arms(robot, courses),
    )


# ---- period and harmonics


def _period_s(core: MotionClip) -> float:
    """Return the period of a motion in s, or its duration if it does not repeat."""
    track: np.ndarray = core.joint_pos - core.joint_pos.mean(0)
    size = _rms(track)
    least = round(_MIN_S * core.fps)
    lags = range(least, len(track) // 2 + 1)
    if size < _STILL_RAD or len(lags) < 3:
        return core.duration_s
    apart = [_rms(track[lag:] - track[:-lag]) for lag in lags]
    for place in range(1, len(apart) - 1):
        before, here, after = apart[place - 1 : place + 2]
        if here <= min(before, after) and here < _SAME * size * math.sqrt(2.0):
            bent = before - 2.0 * here + after
            off = 0.5 * (before - after) / bent if bent > 0.0 else 0.0
            return (least + place + off) / core.fps
    return core.duration_s


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.square(values).mean()))


def _courses(
    clip: MotionClip, track: np.ndarray, turned: np.ndarray, robot: MotionRobot
) -> dict[str, JointWave]:
    """Fit every joint with the smallest number of harmonics that is accurate enough."""
    off, sizes = math.inf, np.zeros((1, track.shape[1]))
    for most in range(1, _WAVES + 1):
        parts = [np.ones_like(turned)]
        for k in range(1, most + 1):
            parts += [np.cos(k * turned), np.sin(k * turned)]
        basis = np.stack(parts, axis=1)
        sizes, *_ = np.linalg.lstsq(basis, track.astype(float), rcond=None)
        off = _rms(basis @ sizes - track)
        if off < _CLOSE_RAD:
            break
    else:
        if off > _FAR_RAD:
            raise UsageError(
                f"{clip.name} is too long or too complex for a reward. {_WAVES} harmonics per "
                f"joint deviate by {off:.2g} rad.",
                hint="Use a shorter clip, or train a tracker with: telic track train",
            )
    values = np.round(sizes.T, 5).tolist()
    return {
        name: JointWave(joint=name, terms=tuple(terms))
        for name, terms in zip(robot.joint_names, values, strict=True)
    }


def _landings(core: MotionClip, turned: np.ndarray) -> tuple[tuple[float, ...], ...]:
    """Return the phase in [0, 1) at which each foot lands, or () if a foot never lands."""
    if core.contacts is None:
        return ()
    found: list[tuple[float, ...]] = []
    for stands in np.asarray(core.contacts, dtype=bool).T:
        lands = np.flatnonzero(stands[1:] & ~stands[:-1]) + 1
        if not len(lands):
            return ()
        angle = float(np.angle(np.exp(1j * turned[lands]).mean()))
        found.append(((angle / (2.0 * math.pi)) % 1.0,))
    return tuple(found)


# ---- limbs


def _limbs(robot: MotionRobot) -> dict[str, str]:
    """Return the limb of every joint."""
    figure, model = RobotFigure(robot), robot.model
    bodies = robot.kinematics.bodies
    tips = dict.fromkeys(robot.facts.feet, "legs")
    if figure.has_arms:
        tips |= {int(bodies[figure.points[f"{side}_hand"].body]): f"{side} arm" for side in SIDES}
    moved: dict[int, str] = {}
    for tip, limb in tips.items():
        body = tip
        while body > 0 and body != robot.root:
            # Bodies shared by several limbs, such as a waist, belong to the trunk.
            moved[body] = limb if moved.get(body, limb) == limb else "trunk"
            body = int(model.body_parentid[body])
    owners: Any = model.jnt_bodyid
    return {
        name: moved.get(int(owners[joint]), "trunk")
        for name, joint in zip(robot.joint_names, robot.joints, strict=True)
    }


def _hand(robot: MotionRobot, core: MotionClip, side: Side) -> HandMotion | None:
    """Return the motion of a hand, or None if the robot has no arms or the hand does not move."""
    figure = RobotFigure(robot)
    if not figure.has_arms:
        return None
    own, other = (figure.points[f"{each}_hand"].body for each in (side, other_side(side)))
    names = robot.body_names
    places, _ = robot.bodies_of(core)
    seen = places[:, own].numpy() - core.root_pos
    rest, body = figure.rest.xpos, robot.kinematics.bodies[own]
    low, high = np.quantile(seen[:, 1], (0.05, 0.95)).tolist()
    swing = 0.5 * (high - low)
    if swing < _STILL_M:
        return None
    return HandMotion(
        body=names[own],
        other=names[other],
        rest_m=round(float(rest[body][2] - rest[robot.root][2]), 4),
        high_m=round(float(seen[:, 2].mean()), 4),
        swing_m=round(swing, 4),
    )


def _mirrored_arms(
    robot: MotionRobot, courses: dict[str, JointWave]
) -> dict[str, tuple[JointWave, ...]]:
    """Return the mirrored arm motions, or an empty dict if the robot is not symmetric."""
    try:
        sides, limbs = symmetry(robot), _limbs(robot)
    except BadEnvironment:
        return {}  # asymmetric robot
    found: dict[str, list[JointWave]] = {}
    for place, name in enumerate(robot.joint_names):
        if not limbs[name].endswith("arm"):
            continue
        partner, sign = robot.joint_names[sides.joints[place]], sides.signs[sides.joints[place]]
        terms = tuple(sign * value for value in courses[partner].terms)
        found.setdefault(limbs[name], []).append(JointWave(joint=name, terms=terms))
    return {limb: tuple(own) for limb, own in found.items()}
