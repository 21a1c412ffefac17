"""Tracking of reference motions in rewards and judges.

A reference is a cycle with a mean and harmonics per joint, so a reward can store it as numbers and
track its phase with the phase variable of a gait. The judge compares at the best-fitting phase of
the cycle, so it evaluates the motion independently of that variable. Reference motions are provided
by `telic.session.motion`.
"""

from __future__ import annotations

import math
from typing import cast

import numpy as np
from pydantic import Field, PositiveFloat

from telic.composer._draft import Draft
from telic.composer._gaits import gait_meant
from telic.composer._manners import do_not_thrash, stay_on_feet
from telic.composer._travel import speed_meant
from telic.composer.frames import Frame, ParsedIntent
from telic.composer.scene import Scene
from telic.core.config import Record
from telic.judges import metrics, tracks
from telic.judges.criteria import JointWave, Motion, PrescribedMotion
from telic.rewards.node import Expression
from telic.rewards.signals import Beat
from telic.rewards.terms import FollowJoints

_WIDTH_RAD = 0.3
"""root mean square joint error of a limb at which the reward is 1/e"""
_SMALL_RAD = 0.004
"""minimum amplitude of joint harmonics that are included in a reward"""
_SHIFTS = 36
_STILL, _CLOSE = 0.9, 0.5
"""fractions of the error at rest that earn no credit and full credit"""
_MIN_RAD = 0.03
"""minimum error scale, for motions that hardly differ from rest"""
_FASTER = 1.1
"""factor applied to a requested minimum speed, so that tracking the motion reaches it"""


class HandMotion(Record):
    """Trajectory of the waving hand relative to the torso."""

    body: str
    other: str = Field(description="hand that does not wave")
    rest_m: float = Field(description="height of the resting hand above the torso in m")
    high_m: float = Field(description="mean height while waving in m")
    swing_m: PositiveFloat = Field(description="lateral amplitude in m")


class Reference(Record):
    """Cyclic reference motion that a reward can track."""

    name: str
    source: str = Field(description="description of its source")
    hertz: PositiveFloat = Field(description="frequency of the cycle in Hz")
    limbs: dict[str, tuple[JointWave, ...]] = Field(description='joints by limb ("right arm")')
    rest: dict[str, float] = Field(description="joint positions in the standing pose")
    forward_mps: float = 0.0
    landings: tuple[tuple[float, ...], ...] = Field(
        default=(), description="touchdown phases of each foot in the cycle, or empty if both stand"
    )
    duty: float = 1.0
    hand: HandMotion | None = Field(default=None, description="waving hand, if any")
    mirrored: dict[str, tuple[JointWave, ...]] = Field(
        default={}, description="mirrored motions of the arms"
    )

    @property
    def joints(self) -> tuple[JointWave, ...]:
        """All joints with a reference course."""
        return tuple(course for courses in self.limbs.values() for course in courses)


class RequestedMotion(Record):
    """Motion requested by the words of an intent."""

    waves: str | None = Field(default=None, description='"left" or "right" hand, if any')
    forward_mps: float | None = Field(default=None, description="speed, or None if in place")
    hertz: float | None = Field(default=None, description="stride frequency while traveling")


def motion_wanted(parsed: ParsedIntent, scene: Scene) -> RequestedMotion | None:
    """Return the motion requested by an intent, or None if no motion can cover all of it."""
    if {frame.phase for frame in parsed.frames} != {0}:
        return None
    wish: dict[str, object] = {}
    for frame in parsed.frames:
        if (side := _waving_side(frame, scene)) is not None:
            wish["waves"] = side
        elif frame.verb == "go" and frame.direction in (None, "forward"):
            goal, gait = speed_meant(frame, scene, Draft()), gait_meant(frame, scene)
            wish["forward_mps"] = goal.value * (1.0 if goal.is_exact else _FASTER)
            wish["hertz"] = gait.hertz if gait else None
        elif frame.verb not in ("stand", "stop", "sit"):
            return None
    return RequestedMotion.model_validate(wish)


def _waving_side(frame: Frame, scene: Scene) -> str | None:
    """Return the side of the waving hand of a frame, or None if it does not wave."""
    is_foot = bool(frame.bodies) and all(body in scene.spec.feet for body in frame.bodies)
    if frame.verb != "swing" or is_foot or (frame.part is not None and not frame.bodies):
        return None
    named = (frame.part or "", *frame.bodies)
    sides = [side for side in ("left", "right") if any(side in words for words in named)]
    return sides[0] if len(sides) == 1 else "right"


# ---- reward and judge


def is_shown(frame: Frame, scene: Scene) -> bool:
    """Return whether the reference contains the hand motion of a frame."""
    has_hand = scene.reference is not None and scene.reference.hand is not None
    return has_hand and _waving_side(frame, scene) is not None


def wave_as_shown(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Judge that one hand is raised and waves while the other does not."""
    assert scene.reference is not None and scene.reference.hand is not None
    hand, name = scene.reference.hand, frame.part or "hand"
    up_m = 0.5 * (hand.rest_m + hand.high_m)
    value = tracks.share(metrics.raised(hand.body, up_m))
    draft.score(f"holds its {name} up", value, 0.2, 0.75, weight=3.0, tag="too_low")
    value = tracks.per_second(metrics.hand_waves(hand.body, up_m, 0.5 * hand.swing_m))
    title = f"waves its {name} at least 0.6 times per second"
    draft.score(title, value, 0.1, 0.6, weight=5.0, tag="too_low")
    value = tracks.share(metrics.raised(hand.other, up_m))
    draft.require("does not hold the other hand up", value, 0.7, 0.3, tag="one_sided")
    do_not_thrash(scene, draft)
    stay_on_feet(scene, draft)


def follow_motion(reference: Reference, draft: Draft) -> None:
    """Reward tracking of the reference for each limb, and judge the tracking error."""
    beat, nodes = Beat(reference.hertz), [n for each in draft.terms for n in each.term.nodes()]
    if any(node.name == "Beat" and node != cast("Expression", beat) for node in nodes):
        # Drop the gait clock if its frequency differs.
        draft.terms = [each for each in draft.terms if each.name != "rhythm"]
    for limb, courses in reference.limbs.items():
        joints: list[tuple[str, tuple[float, ...]]] = []
        for course in courses:
            mean, *waves = course.terms
            large = (size if abs(size) >= _SMALL_RAD else 0.0 for size in waves)
            joints.append((course.joint, (mean, *large)))
        pays = FollowJoints(beat, tuple(joints), _WIDTH_RAD)
        words = f"{limb} as in the motion {reference.name}"
        draft.pay(f"shown_{limb.replace(' ', '_')}", 2.5 / len(reference.limbs), pays, words)
    rests = sum(_error_at_rest(course, reference) for course in reference.joints)
    rests /= len(reference.joints)
    every = tuple((course.joint, tuple(course.terms)) for course in reference.joints)
    value = metrics.motion_error(reference.hertz, every, _SHIFTS)
    zero, goal = max(_STILL * rests, 4.0 * _MIN_RAD), max(_CLOSE * rests, _MIN_RAD)
    title = f"moves as in the motion {reference.name}"
    draft.score(title, value, zero, goal, weight=2.0, tag="wrong_gait")
    draft.doubt(f"it follows the motion {reference.name}: {reference.source}")


def _error_at_rest(course: JointWave, reference: Reference) -> float:
    """Return the mean distance of a joint's resting position from its cycle, in radians."""
    angles = 2.0 * math.pi / _SHIFTS * np.arange(_SHIFTS)
    off = np.abs(reference.rest[course.joint] - metrics.periodic(course.terms, angles))
    return float(off.mean())


# ---- demonstrations


def shown_motions(reference: Reference, seconds: float) -> tuple[PrescribedMotion, ...]:
    """Return the motion as a demonstration, and counterexamples with missing or swapped parts."""
    moves = Motion(
        seconds=min(max(seconds, 0.1), 60.0),
        forward_mps=reference.forward_mps,
        stride_hz=reference.hertz,
        feet=reference.landings,
        duty=min(max(reference.duty, 0.05), 0.95),
    )
    stays = Motion(seconds=moves.seconds, stride_hz=reference.hertz)
    whole = {course.joint: course for course in reference.joints}
    still = {joint: JointWave(joint=joint, terms=(at,)) for joint, at in reference.rest.items()}
    limbs = reference.limbs.items()
    arms = {c.joint: c for limb, courses in limbs if limb.endswith("arm") for c in courses}
    shown = [("as in the motion", moves, {}), ("stands through the motion", stays, still)]
    if reference.hand is not None:
        other = {course.joint: course for limb in reference.mirrored.values() for course in limb}
        if other:
            shown.append(("waves with the other hand", moves, other))
        held = {
            joint: JointWave(joint=joint, terms=course.terms[:1]) for joint, course in arms.items()
        }
        shown.append(("does not wave", moves, {joint: still[joint] for joint in arms}))
        shown.append(("holds its hand still", moves, held))
    if reference.forward_mps > 0.1:
        if arms:
            legs = {joint: still[joint] for joint in whole if joint not in arms}
            shown.append(("stays where it is", stays, legs))
        shown.append(("steps on the spot", stays, {}))
    return tuple(
        PrescribedMotion(
            name=name,
            motion=motion,
            joints=tuple({**whole, **changes}.values()),
            is_good=index == 0,
        )
        for index, (name, motion, changes) in enumerate(shown)
    )
