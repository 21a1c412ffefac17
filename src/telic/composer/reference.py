"""Tracking of reference motions in rewards and judges.

A reference (`telic.session.motion`) is a cycle with a mean and harmonics per joint, so a reward
can store it as numbers and track its phase with the phase variable of a gait. The judge compares at
the best-fitting phase of the cycle. Scripted demonstrations only move the torso
(`telic.judges.criteria.Motion`), so they cannot show limb motions, postures or reaching.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
from pydantic import Field, PositiveFloat, ValidationError

from telic.composer._draft import Draft
from telic.composer._gaits import Gait, gait_meant, usual_gait
from telic.composer._manners import do_not_thrash, stay_on_feet
from telic.composer._movements import beats
from telic.composer._phases import comes_home
from telic.composer._sizes import MAX_S, jump_height
from telic.composer._travel import command_range, side_of, speed_meant
from telic.composer.frames import Act, Frame, ParsedIntent
from telic.composer.scene import Scene
from telic.core.config import Record
from telic.judges import metrics, tracks
from telic.judges.criteria import JointWave, Motion, PrescribedMotion
from telic.judges.metrics import DEGREES
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
    high_m: float = Field(description="mean height in m while waving")
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
    """Reward tracking of the reference for each limb and judge the tracking error."""
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
    angles = 2.0 * math.pi / _SHIFTS * np.arange(_SHIFTS)
    cycles = ((each.joint, metrics.periodic(each.terms, angles)) for each in reference.joints)
    rests = float(np.mean([np.abs(reference.rest[name] - cycle) for name, cycle in cycles]))
    every = tuple((course.joint, tuple(course.terms)) for course in reference.joints)
    value = metrics.motion_error(reference.hertz, every, _SHIFTS)
    zero, goal = max(_STILL * rests, 4.0 * _MIN_RAD), max(_CLOSE * rests, _MIN_RAD)
    title = f"moves as in the motion {reference.name}"
    draft.score(title, value, zero, goal, weight=2.0, tag="wrong_gait")
    draft.doubt(f"it follows the motion {reference.name}: {reference.source}")


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


_AT_REST = ("stand", "stop", "balance")
_PHASE_S = 3.0
_COMMANDS = ((1, 0, 0), (0.6, 0, 1), (0, 0, 0), (0, 1, 0), (-1, 0, -0.6), (0, -1, 1))
"""sequence of commands (forward, sideways, turn) as fractions of the largest command"""


def demonstrated(
    phases: Sequence[Sequence[Frame]], scene: Scene, seconds: float
) -> tuple[Motion, ...]:
    """Return the sequence of torso motions, or none if the torso alone cannot show all parts."""
    if phases[0][0].verb == "obey":
        return _commanded(phases[0][0], scene, seconds / len(_COMMANDS))
    found: list[Motion] = []
    for index, frames in enumerate(phases):
        lasts = max(frame.duration_s or _PHASE_S for frame in frames)
        lasts = seconds if index == len(phases) - 1 else lasts
        if found and any(map(comes_home, frames)):  # undo the last motion, and rest
            last = found[-1]
            back = {"forward_mps": -last.forward_mps, "left_mps": -last.left_mps, "jumps": 0}
            found += [last.model_copy(update=back), Motion(seconds=max(lasts, 1.0))]
            continue
        values: dict[str, Any] = {"seconds": min(max(lasts, 0.1), 60.0)}
        for frame in frames:
            poses = {*frame.postures} - {"upright", "level"}
            is_plain = not (poses or frame.bodies or frame.held)
            motion = _motion(frame, scene, lasts) if is_plain else None
            if motion is None or set(motion) & set(values):
                return ()
            values |= motion
        each, whole = values.pop("seconds_each", None), values.pop("seconds_all", None)
        if each is not None and whole is not None:
            return ()  # a turn takes longer than a jump
        if each or whole:
            values["seconds"] = whole or each * values["jumps"]
        try:
            found.append(Motion.model_validate(values))
        except ValidationError:
            return ()  # more than a script can do: 12 m up
        if each is not None:
            found.append(Motion(seconds=1.0))  # stands after its last landing
        elif whole is not None:  # and where it has arrived, longer in the end
            found.append(Motion(seconds=seconds if index == len(phases) - 1 else 0.3))
    return tuple(found)


def right_failure_modes(phases: Sequence[Sequence[Frame]], scene: Scene) -> tuple[str, ...]:
    """Return the behaviors that are normally failures but satisfy this intent."""
    verbs = {frame.verb for frames in phases for frame in frames}
    if any(frame.held for frames in phases for frame in frames):
        return ()
    if verbs <= {"lie"} and all({*f.postures} <= {"lying", "low"} for fs in phases for f in fs):
        return ("does nothing", "lies on its back", "topples over")
    is_once = len(phases) == 1 and not any(each.count or each.period_s for each in phases[0])
    poses = {"sit"} if is_once else set[Act]()  # going down and up again is a motion
    if verbs <= {"stand", "stop", *poses}:
        return ("does nothing", "pushes", "pulls")  # constant force holds a pose, too
    if verbs <= {"go", "turn"} and scene.on_wheels:
        return ("pushes", "pulls")  # a wheel drives well with a constant command
    if verbs <= {"jump"} and is_once:
        return ("pushes", "pulls")  # stretching all legs at once is a jump
    return ("does nothing",) if verbs <= {*_AT_REST, *poses} else ()


def _motion(frame: Frame, scene: Scene, seconds: float) -> dict[str, Any] | None:
    """Return parameters of a frame's torso motion, or None if other parts have to move."""
    stride, side = {"stride_hz": 1.5}, -1.0 if side_of(frame) == "right" else 1.0
    match frame.verb:
        case "stand" | "stop" | "balance":
            return {}
        case "go":
            return _going(frame, scene)
        case "circle":
            speed = 1.05 * speed_meant(frame, scene, Draft()).value
            speed *= -1.0 if frame.direction == "backward" else 1.0
            return {"forward_mps": speed, "turn_rps": side * 0.8, "circle": True, **stride}
        case "turn" if (turns := frame.all_turns) is not None:  # by 1 rad/s, or in time
            lasts = min(2.0 * math.pi * turns, 0.7 * (frame.within_s or math.inf))
            return {"turn_rps": side * math.tau * turns / lasts, "seconds_all": lasts, **stride}
        case "turn" if frame.amount is None:
            return {"turn_rps": side * 1.5, **stride}
        case "jump" if frame.dimension != "distance" and frame.direction is None:
            up = {"height_m": 1.3 * jump_height(frame, scene).value + 0.1}
            if frame.period_s is not None:
                return {"jumps": beats(frame.period_s), **up, "seconds_each": frame.period_s}
            return {"jumps": frame.count or 1, **up, "seconds_each": 1.5}
        case "flip":
            count = frame.count or 1
            turns = float(count if frame.direction == "forward" else -count)
            return {"jumps": count, "height_m": 1.0, "pitch_turns": turns, "seconds_each": 2.0}
        case "hop":
            stays = frame.direction in (None, "in_place") and frame.dimension in (None, "height")
            going = {} if stays else _going(frame, scene)
            seconds = (going or {}).get("seconds_all", seconds)
            height = jump_height(frame, scene).value if frame.dimension == "height" else 0.12
            hops = {"jumps": max(1, math.floor(1.6 * seconds)), "height_m": max(0.12, height)}
            return None if going is None else {**going, **hops}
        case _:
            return None


def _going(frame: Frame, scene: Scene) -> dict[str, Any] | None:
    if frame.direction == "in_place":
        return None
    way = frame.given("m")
    plain = frame if way is None else replace(frame, amount=frame.pace)
    goal = speed_meant(plain, scene, Draft())
    speed = goal.value * (1.0 if goal.is_exact else 1.1)
    if way is not None:  # in time
        speed = max(speed, way / (0.7 * (frame.within_s or MAX_S)))
    degrees = DEGREES.get(frame.direction or "forward", 0.0)
    if frame.bearing is not None and scene.has("y_position"):
        degrees = frame.bearing - (frame.heading or 0.0)
    degrees -= (frame.heading or 0.0) if frame.is_of_start else 0.0
    found: dict[str, Any] = _steps(gait_meant(frame, scene))
    for axis, angle in (("forward_mps", degrees), ("left_mps", degrees - 90.0)):
        if along := round(speed * math.cos(math.radians(angle)), 6):
            found[axis] = along
    if way is not None:
        found["seconds_all"] = 1.02 * way / speed
    return found if frame.heading == 0.0 else found | {"circle": True}


def _steps(gait: Gait | None) -> dict[str, Any]:
    if gait is None:
        return {"stride_hz": 1.5}
    return {"stride_hz": gait.hertz, "feet": gait.landings, "duty": gait.duty}


def _commanded(frame: Frame, scene: Scene, lasts: float) -> tuple[Motion, ...]:
    """Return motions that track commands in all directions and the command to stand."""
    spans = command_range(frame, scene, Draft())[1]
    found: list[Motion] = []
    for parts in _COMMANDS:
        # From -1 to 1: from the lowest command to the highest; nothing stays nothing.
        ahead, aside, turn = (
            0.9 * (high if part > 0.0 else -low) * part
            for (low, high), part in zip(spans, parts, strict=True)
        )
        values = dict[str, Any](seconds=lasts, command=(ahead, aside, turn), circle=True)
        if any((ahead, aside, turn)):
            values |= {"forward_mps": ahead, "left_mps": aside, "turn_rps": turn}
            values |= _steps(usual_gait(frame, scene))
        found.append(Motion.model_validate(values))
    return tuple(found)
