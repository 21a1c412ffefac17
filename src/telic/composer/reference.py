"""A reference motion in a reward and a judge: joints follow its cycle, a hand waves as it does.

What is followed is a cycle: for every joint a mean and some harmonics, so that a reward holds it as
plain numbers and keeps its place in it with the clock that gaits step by. The judge compares at
whatever place in the cycle fits best: it asks for the motion, not for the clock. Where motions come
from is not known here (`telic.session.motion`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

from pydantic import Field, PositiveFloat

from telic.composer.draft import Draft
from telic.composer.frames import Act, Direction, Frame, ParsedIntent
from telic.composer.gaits import gait_meant
from telic.composer.manners import do_it_on_purpose, stay_on_feet
from telic.composer.scene import Scene
from telic.composer.travel import speed_meant
from telic.core.config import Record
from telic.judges import metrics, tracks
from telic.judges.criteria import JointCourse, Motion, ShownMotion
from telic.rewards.node import Expression
from telic.rewards.signals import Beat
from telic.rewards.terms import FollowJoints

_WIDTH_RAD = 0.3
"""root of the mean squared error of a limb's joints at which it earns 1/e"""
_SMALL_RAD = 0.004
"""waves of a joint below this are left out of a reward"""
_SHIFTS = 36
_STILL, _CLOSE = 0.9, 0.5
"""of the error of who rests: worth nothing, and everything"""
_LEAST_RAD = 0.03
"""a motion that hardly differs from rest is followed when it is this close"""
_UP, _SWUNG = 0.5, 0.5
"""of a hand's rise, and of its swing, from which it counts"""
_SIDES = {"left": "right", "right": "left"}
_FASTER = 1.1
"""of a speed that is asked for at least, so that who follows has it"""


class HandCourse(Record):
    """What the hand that waves does, as seen from the torso."""

    body: str
    other: str = Field(description="the hand that does not wave")
    rest_m: float = Field(description="height of the resting hand above the torso")
    high_m: float = Field(description="mean height while it waves")
    swing_m: PositiveFloat = Field(description="how far to either side it goes")


class Reference(Record):
    """A motion that a reward may follow, as one cycle."""

    name: str
    source: str = Field(description="where it is from, in words")
    hertz: PositiveFloat = Field(description="cycles a second")
    limbs: dict[str, tuple[JointCourse, ...]] = Field(description='joints by limb: "right arm"')
    rest: dict[str, float] = Field(description="joints as the robot stands")
    forward_mps: float = 0.0
    landings: tuple[tuple[float, ...], ...] = Field(
        default=(), description="for each foot, when it lands in a cycle; empty: both stand"
    )
    duty: float = 1.0
    hand: HandCourse | None = Field(default=None, description="of a motion that waves")
    mirrored: dict[str, tuple[JointCourse, ...]] = Field(
        default={}, description="what its arms do in a mirror"
    )

    @property
    def joints(self) -> tuple[JointCourse, ...]:
        """All joints that are led."""
        return tuple(course for courses in self.limbs.values() for course in courses)


class MotionWish(Record):
    """What words ask of a motion."""

    waves: str | None = Field(default=None, description='"left" or "right"; None: nothing waves')
    forward_mps: float | None = Field(default=None, description="None: it stays where it is")
    hertz: float | None = Field(default=None, description="strides a second, where it goes")


def motion_wanted(parsed: ParsedIntent, scene: Scene) -> MotionWish | None:
    """Return what the words ask of a motion; None: no motion could be about all of them."""
    if {frame.phase for frame in parsed.frames} != {0}:
        return None
    wish: dict[str, object] = {}
    for frame in parsed.frames:
        side = waving_side(frame, scene)
        if side is not None:
            wish["waves"] = side
        elif frame.verb is Act.GO and frame.direction in (None, Direction.FORWARD):
            goal = speed_meant(frame, scene, Draft())
            gait = gait_meant(frame, scene)
            wish["forward_mps"] = goal.value * (1.0 if goal.is_exact else _FASTER)
            wish["hertz"] = gait.hertz if gait else None
        elif frame.verb not in (Act.STAND, Act.STOP, Act.SIT):
            return None
    return MotionWish.model_validate(wish)


def waving_side(frame: Frame, scene: Scene) -> str | None:
    """Return the side of the hand that a frame waves; None: it waves none."""
    if frame.verb is not Act.SWING:
        return None
    said = (frame.part or "", *frame.bodies)
    if frame.bodies and all(body in scene.spec.feet for body in frame.bodies):
        return None
    sides = [side for side in _SIDES if any(side in words for words in said)]
    if frame.part is not None and not frame.bodies:
        return None
    return sides[0] if len(sides) == 1 else "right"


# ---- what is paid and judged


def wave(frame: Frame, hand: HandCourse, draft: Draft) -> None:
    """Judge a hand that is up and goes to and fro, and the other one that does not."""
    name = frame.part or "hand"
    rises, far = hand.high_m - hand.rest_m, _SWUNG * hand.swing_m
    up_m = hand.rest_m + _UP * rises
    value = tracks.share(metrics.hand_up(hand.body, up_m))
    draft.score(f"holds its {name} up", value, 0.2, 0.75, weight=3.0, tag="too_low")
    value = tracks.per_second(metrics.hand_waves(hand.body, up_m, far))
    draft.score(f"waves its {name} to and fro", value, 0.1, 0.6, weight=5.0, tag="too_low")
    value = tracks.share(metrics.hand_up(hand.other, up_m))
    draft.require("does not hold the other hand up", value, 0.7, 0.3, tag="one_sided")


def is_shown(frame: Frame, scene: Scene) -> bool:
    """Say whether a frame is what the hand of the reference does."""
    has_hand = scene.reference is not None and scene.reference.hand is not None
    return has_hand and waving_side(frame, scene) is not None


def wave_as_shown(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Wave with a hand as a reference does."""
    assert scene.reference is not None and scene.reference.hand is not None
    wave(frame, scene.reference.hand, draft)
    do_it_on_purpose(scene, draft)
    stay_on_feet(scene, draft)


def follow(reference: Reference, draft: Draft) -> None:
    """Pay joints for following the reference, limb by limb, and judge how far off they are."""
    beat = Beat(reference.hertz)
    if draft.has_signal("Beat") and any(
        node.name == "Beat" and node != cast("Expression", beat)
        for each in draft.terms
        for node in each.term.nodes()
    ):
        # A gait's own rhythm goes where it is another one.
        draft.terms = [each for each in draft.terms if each.name != "rhythm"]
    weight = 2.5 / len(reference.limbs)
    for limb, courses in reference.limbs.items():
        joints = tuple((course.joint, _large(course)) for course in courses)
        pays = FollowJoints(beat, joints, _WIDTH_RAD)
        name = f"shown_{limb.replace(' ', '_')}"
        draft.pay(name, weight, pays, f"{limb} as in the motion {reference.name}")
    rests = _off_at_rest(reference)
    title = f"moves as in the motion {reference.name}"
    zero, goal = max(_STILL * rests, 4.0 * _LEAST_RAD), max(_CLOSE * rests, _LEAST_RAD)
    every = tuple((course.joint, tuple(course.terms)) for course in reference.joints)
    value = metrics.motion_error(reference.hertz, every, _SHIFTS)
    draft.score(title, value, zero, goal, weight=2.0, tag="wrong_gait")
    draft.doubt(f"it follows the motion {reference.name}: {reference.source}")


def _large(course: JointCourse) -> tuple[float, ...]:
    """Return the course of a joint without waves that hardly count."""
    mean, *waves = course.terms
    return (mean, *(size if abs(size) >= _SMALL_RAD else 0.0 for size in waves))


def _off_at_rest(reference: Reference) -> float:
    """Return the mean distance of the joints of who rests, in radians."""
    total = 0.0
    for course in reference.joints:
        total += sum(abs(reference.rest[course.joint] - at) for at in _cycle(course)) / _SHIFTS
    return total / len(reference.joints)


def _cycle(course: JointCourse) -> list[float]:
    """Return a joint at places of its cycle."""
    mean, *waves = course.terms
    places: list[float] = []
    for step in range(_SHIFTS):
        angle = 2.0 * math.pi * step / _SHIFTS
        parts = (
            size * (math.sin if place % 2 else math.cos)((place // 2 + 1) * angle)
            for place, size in enumerate(waves)
        )
        places.append(mean + sum(parts))
    return places


# ---- what it looks like, and what looks like it


def shown_motions(reference: Reference, seconds: float) -> tuple[ShownMotion, ...]:
    """Return the motion led by hand, and who leaves out or exchanges a part of it."""
    moves = Motion(
        seconds=min(max(seconds, 0.1), 60.0),
        forward_mps=reference.forward_mps,
        stride_hz=reference.hertz,
        feet=reference.landings,
        duty=min(max(reference.duty, 0.05), 0.95),
    )
    stays = Motion(seconds=moves.seconds, stride_hz=reference.hertz)
    arms = [limb for limb in reference.limbs if limb.endswith("arm")]
    everything = {course.joint: course for course in reference.joints}
    still = {joint: JointCourse(joint=joint, terms=(at,)) for joint, at in reference.rest.items()}

    def among(limbs: Sequence[str]) -> dict[str, JointCourse]:
        return {joint.joint: joint for limb in limbs for joint in reference.limbs[limb]}

    found = [_shown("as in the motion", moves, everything, is_good=True)]
    found.append(_shown("stands through the motion", stays, still))
    if reference.hand is not None:
        hangs = {joint: still[joint] for joint in among(arms)}
        other = {course.joint: course for limb in reference.mirrored.values() for course in limb}
        if other:
            found.append(_shown("waves with the other hand", moves, {**everything, **other}))
        found.append(_shown("does not wave", moves, {**everything, **hangs}))
        held = {
            course.joint: JointCourse(joint=course.joint, terms=course.terms[:1])
            for course in among(arms).values()
        }
        found.append(_shown("holds its hand still", moves, {**everything, **held}))
    if reference.forward_mps > 0.1:
        legs = [limb for limb in reference.limbs if limb not in arms]
        stands = {joint: still[joint] for joint in among(legs)}
        if arms:
            found.append(_shown("stays where it is", stays, {**everything, **stands}))
        found.append(_shown("steps on the spot", stays, everything))
    return tuple(found)


def _shown(
    name: str, motion: Motion, courses: dict[str, JointCourse], is_good: bool = False
) -> ShownMotion:
    return ShownMotion(name=name, motion=motion, joints=tuple(courses.values()), is_good=is_good)
