"""How a robot led by hand would do what is asked, to try reward and judge on before training.

Only the torso is led (`telic.judges.puppet`), so that what is asked of limbs or postures has no
ideal here; neither has reaching for a target.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from telic.composer.draft import Draft
from telic.composer.frames import Direction, Frame, Verb
from telic.composer.going import speed_meant
from telic.composer.scene import Scene
from telic.judges.criteria import Motion

_REST = (Verb.STAND, Verb.STOP, Verb.BALANCE)
_PHASE_S = 3.0
_TURN_RPS = 1.5
_HOPS_PER_S = 1.6
_STRIDE_HZ = 1.5
_CIRCLE_RPS = 0.8


def ideal(phases: Sequence[Sequence[Frame]], scene: Scene, seconds: float) -> tuple[Motion, ...]:
    """Return the motions one after another; empty when a part of it is not one of the torso."""
    found: list[Motion] = []
    for index, frames in enumerate(phases):
        lasts = seconds if index == len(phases) - 1 else _lasts(frames)
        values: dict[str, Any] = {"seconds": min(max(lasts, 0.1), 60.0)}
        for frame in frames:
            motion = None if frame.postures or frame.bodies else _motion(frame, scene, lasts)
            if motion is None or set(motion) & set(values):
                return ()
            values |= motion
        each = values.pop("seconds_each", None)
        if each is not None:
            values["seconds"] = each * values["jumps"]
        found.append(Motion.model_validate(values))
        if each is not None:
            found.append(Motion(seconds=1.0))  # stands after its last landing
    return tuple(found)


def right_habits(phases: Sequence[Sequence[Frame]]) -> tuple[str, ...]:
    """Return the bad habits that are just what is asked for."""
    verbs = {frame.verb for frames in phases for frame in frames}
    if verbs <= {Verb.LIE}:
        return ("does nothing", "lies on its back", "topples over")
    if verbs <= {Verb.STAND, Verb.STOP, Verb.SIT}:
        return ("does nothing", "pushes", "pulls")  # constant force holds a pose, too
    return ("does nothing",) if verbs <= {*_REST, Verb.SIT} else ()


def _lasts(frames: Sequence[Frame]) -> float:
    return max((frame.duration_s or _PHASE_S for frame in frames), default=_PHASE_S)


def _motion(frame: Frame, scene: Scene, seconds: float) -> dict[str, Any] | None:
    """Return what a frame adds to a motion; None if the torso alone does not show it."""
    if frame.verb in _REST:
        return {}
    if frame.verb is Verb.GO:
        return _going(frame, scene)
    if frame.verb is Verb.CIRCLE:
        speed = speed_meant(frame, scene, Draft())[0]
        return {
            "forward_mps": 1.05 * speed,
            "turn_rps": _side(frame) * _CIRCLE_RPS,
            "circle": True,
            "stride_hz": _STRIDE_HZ,
        }
    if frame.verb is Verb.TURN and frame.amount is None and frame.count is None:
        return {"turn_rps": _side(frame) * _TURN_RPS, "stride_hz": _STRIDE_HZ}
    if frame.verb is Verb.JUMP and frame.dimension != "distance" and frame.direction is None:
        asked = frame.amount.value if frame.amount and frame.amount.unit == "m" else None
        height = 1.3 * (asked or float(scene.known["jump"])) + 0.1
        return {"jumps": frame.count or 1, "height_m": height, "seconds_each": 1.5}
    if frame.verb is Verb.FLIP:
        count = float(frame.count or 1)
        sign = 1.0 if frame.direction is Direction.FORWARD else -1.0
        return {
            "jumps": int(count),
            "height_m": 1.0,
            "pitch_turns": sign * count,
            "seconds_each": 2.0,
        }
    if frame.verb is Verb.HOP:
        hops = max(1, math.floor(_HOPS_PER_S * seconds))
        going = {} if frame.direction in (None, Direction.IN_PLACE) else _going(frame, scene)
        return None if going is None else {**going, "jumps": hops, "height_m": 0.12}
    return None


def _going(frame: Frame, scene: Scene) -> dict[str, Any] | None:
    if frame.direction is Direction.IN_PLACE or (frame.amount and frame.amount.unit == "m"):
        return None
    speed, is_exact = speed_meant(frame, scene, Draft())
    speed *= 1.0 if is_exact else 1.1
    match frame.direction:
        case Direction.LEFT | Direction.SIDEWAYS:
            return {"left_mps": speed, "stride_hz": _STRIDE_HZ}
        case Direction.RIGHT:
            return {"left_mps": -speed, "stride_hz": _STRIDE_HZ}
        case Direction.BACKWARD:
            return {"forward_mps": -speed, "stride_hz": _STRIDE_HZ}
        case _:
            return {"forward_mps": speed, "stride_hz": _STRIDE_HZ}


def _side(frame: Frame) -> float:
    return -1.0 if frame.direction in (Direction.RIGHT, Direction.CLOCKWISE) else 1.0
