"""Scripted demonstrations of an intent, and normally failed behaviors that satisfy it.

A script only moves the torso (`telic.judges.criteria.Motion`), so it cannot demonstrate limb
motions, postures or reaching for targets.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from telic.composer._acrobatics import beats
from telic.composer._draft import Draft
from telic.composer._gaits import Gait, gait_meant, usual_gait
from telic.composer._phases import comes_home
from telic.composer._sizes import MAX_S, jump_height
from telic.composer._travel import command_range, side_of, speed_meant
from telic.composer.frames import Act, Frame
from telic.composer.scene import Scene
from telic.judges.criteria import Motion
from telic.judges.metrics import DEGREES

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
            is_plain = not {*frame.postures} - {"upright", "level"} and not (
                frame.bodies or frame.held
            )
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
    if verbs <= {"lie"}:
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
    plain = frame if way is None else replace(frame, amount=None)
    goal = speed_meant(plain, scene, Draft())
    speed = goal.value * (1.0 if goal.is_exact else 1.1)
    if way is not None:  # in time
        speed = max(speed, way / (0.7 * (frame.within_s or MAX_S)))
    degrees = DEGREES.get(frame.direction or "forward", 0.0)
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
