"""How a robot led by hand would do what is asked, and which habits are no bad ones here.

Led is the torso (`telic.judges.criteria.Motion`): what is asked of limbs or postures has no ideal
here; neither has reaching for a target.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from telic.composer.acrobatics import beats
from telic.composer.draft import Draft
from telic.composer.frames import Act, Direction, Frame
from telic.composer.gaits import gait_meant
from telic.composer.obey import led_as_told
from telic.composer.phases import comes_home, way_back
from telic.composer.scene import Scene
from telic.composer.sizes import jump_height
from telic.composer.travel import speed_meant
from telic.judges.criteria import Motion

_AT_REST = (Act.STAND, Act.STOP, Act.BALANCE)
_PHASE_S = 3.0
_TURN_RPS = 1.5
_HOPS_PER_S = 1.6
_STRIDE_HZ = 1.5
_CIRCLE_RPS = 0.8


def ideal(phases: Sequence[Sequence[Frame]], scene: Scene, seconds: float) -> tuple[Motion, ...]:
    """Return the motions one after another; empty when a part of it is not one of the torso."""
    found: list[Motion] = []
    if phases[0][0].verb is Act.OBEY:
        return led_as_told(phases[0][0], scene, seconds)
    for index, frames in enumerate(phases):
        lasts = max(frame.duration_s or _PHASE_S for frame in frames)
        lasts = seconds if index == len(phases) - 1 else lasts
        if found and any(map(comes_home, frames)):
            found += way_back(found, lasts)
            continue
        values: dict[str, Any] = {"seconds": min(max(lasts, 0.1), 60.0)}
        for frame in frames:
            motion = None if frame.postures or frame.bodies else _motion(frame, scene, lasts)
            if motion is None or set(motion) & set(values):
                return ()
            values |= motion
        each = values.pop("seconds_each", None)
        if each is not None:
            values["seconds"] = each * values["jumps"]
        try:
            found.append(Motion.model_validate(values))
        except ValidationError:
            return ()  # more than a hand can lead it through: 12 m up
        if each is not None:
            found.append(Motion(seconds=1.0))  # stands after its last landing
    return tuple(found)


def right_habits(phases: Sequence[Sequence[Frame]], scene: Scene) -> tuple[str, ...]:
    """Return the bad habits that are just what is asked for."""
    verbs = {frame.verb for frames in phases for frame in frames}
    if verbs <= {Act.LIE}:
        return ("does nothing", "lies on its back", "topples over")
    is_once = len(phases) == 1 and not any(each.count or each.period_s for each in phases[0])
    poses = {Act.SIT} if is_once else set[Act]()  # who goes down and up again does something
    if verbs <= {Act.STAND, Act.STOP, *poses}:
        return ("does nothing", "pushes", "pulls")  # constant force holds a pose, too
    if verbs <= {Act.GO, Act.TURN} and scene.on_wheels:
        return ("pushes", "pulls")  # a wheel that is told one speed drives, and does it well
    if verbs <= {Act.JUMP} and is_once:
        return ("pushes", "pulls")  # who stretches all legs at once jumps; how, is not asked
    return ("does nothing",) if verbs <= {*_AT_REST, *poses} else ()


def _motion(frame: Frame, scene: Scene, seconds: float) -> dict[str, Any] | None:
    """Return what a frame adds to a motion; None if the torso alone does not show it."""
    if frame.verb in _AT_REST:
        return {}
    if frame.verb is Act.GO:
        return _going(frame, scene)
    if frame.verb is Act.CIRCLE:
        speed = speed_meant(frame, scene, Draft()).value
        return {
            "forward_mps": 1.05 * speed,
            "turn_rps": _side(frame) * _CIRCLE_RPS,
            "circle": True,
            "stride_hz": _STRIDE_HZ,
        }
    if frame.verb is Act.TURN and frame.amount is None and frame.count is None:
        return {"turn_rps": _side(frame) * _TURN_RPS, "stride_hz": _STRIDE_HZ}
    if frame.verb is Act.JUMP and frame.dimension != "distance" and frame.direction is None:
        height = 1.3 * jump_height(frame, scene).value + 0.1
        if frame.period_s is not None:
            count = beats(frame.period_s)
            return {"jumps": count, "height_m": height, "seconds_each": frame.period_s}
        return {"jumps": frame.count or 1, "height_m": height, "seconds_each": 1.5}
    if frame.verb is Act.FLIP:
        count = float(frame.count or 1)
        sign = 1.0 if frame.direction is Direction.FORWARD else -1.0
        return {
            "jumps": int(count),
            "height_m": 1.0,
            "pitch_turns": sign * count,
            "seconds_each": 2.0,
        }
    if frame.verb is Act.HOP:
        hops = max(1, math.floor(_HOPS_PER_S * seconds))
        going = {} if frame.direction in (None, Direction.IN_PLACE) else _going(frame, scene)
        height = jump_height(frame, scene).value if frame.dimension == "height" else 0.12
        return None if going is None else {**going, "jumps": hops, "height_m": max(0.12, height)}
    return None


def _going(frame: Frame, scene: Scene) -> dict[str, Any] | None:
    if frame.direction is Direction.IN_PLACE or (frame.amount and frame.amount.unit == "m"):
        return None
    goal = speed_meant(frame, scene, Draft())
    speed = goal.value * (1.0 if goal.is_exact else 1.1)
    gait = gait_meant(frame, scene)
    steps: dict[str, Any] = {"stride_hz": _STRIDE_HZ}
    if gait is not None:
        steps = {"stride_hz": gait.hertz, "feet": gait.landings, "duty": gait.duty}
    match frame.direction:
        case Direction.LEFT | Direction.SIDEWAYS:
            return {"left_mps": speed, **steps}
        case Direction.RIGHT:
            return {"left_mps": -speed, **steps}
        case Direction.BACKWARD:
            return {"forward_mps": -speed, **steps}
        case _:
            return {"forward_mps": speed, **steps}


def _side(frame: Frame) -> float:
    return -1.0 if frame.direction in (Direction.RIGHT, Direction.CLOCKWISE) else 1.0
