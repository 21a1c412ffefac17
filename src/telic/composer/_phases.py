"""Arrange the frames of an intent into sequential phases of simultaneous frames."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from telic.composer.frames import OPPOSITE, Amount, Frame, ParsedIntent
from telic.composer.lexicon import word_table

_ABOUT_FACE = 180.0
QUARTER = Amount(value=0.25, unit="turns", rule="about")
_TRAVELS = {"go", "hop", "circle"}
_DEEDS = {"jump", "flip", "roll"}
_MOVES = {*_TRAVELS, *_DEEDS, "turn"}
_LIMBS = ("lift", "kick", "swing")
_RESTS = {"stand", "stop", "sit", "lie"}
_STANDS_AFTER = {*_DEEDS, "hop", "reach", "lift", "stand", "balance"}
"""verbs that already end with standing"""
_DEGREES = {"backward": 180.0, "left": 90.0, "right": -90.0}
_HOW = ("amount", "bounds", "degree", "dimension", "factor")
_RESTING = {"lie": ("lying",), "sit": ("low",)}
_HELD = {"stand", "stand_up", "balance", "sit", "lie"}
"""verbs for poses in which another action is possible"""
_ON_REAR_OR_FRONT = {"rear_legs", "front_legs"}
_POSES = {"low", "two_legs", "one_leg", *_ON_REAR_OR_FRONT}
_LOW_VERBS = {"sit", "lie", "roll", "flip", "stand_up", "lean"}
_LOW_POSES = {"low", "lying", "hands", "plank", "upside_down", *_ON_REAR_OR_FRONT}


def arrange(parsed: ParsedIntent) -> list[list[Frame]]:
    """Return the phases in order, each a list of simultaneous frames."""
    phases: list[list[Frame]] = []
    frames = _completed(_with_ways(parsed.frames))
    for number in sorted({frame.phase for frame in frames}):
        now: list[Frame] = []
        for frame in (each for each in frames if each.phase == number):
            before = now or (phases[-1] if phases else [])
            if not frame.at_once and _is_done_anyway(frame, before):
                if frame.duration_s is not None:
                    before[-1] = replace(before[-1], duration_s=frame.duration_s)
            elif frame.verb in _TRAVELS and frame in now and _is_bare(frame):
                continue  # "walk, walk, walk"
            elif changed := _held_together(frame, now):
                now[0] = changed
            elif now and not _goes_with(frame, now):
                phases.append(now)
                now = [frame]
            else:
                _add(frame, now)
        if now:
            phases.append(now)
    return _oriented(phases)


def _oriented(phases: Sequence[Sequence[Frame]]) -> list[list[Frame]]:
    """Return phases with their initial heading, to which words like "back" refer."""
    found: list[list[Frame]] = []
    heading: float | None = 0.0
    here = [0.0, 0.0]
    for index, phase in enumerate(phases):
        found.append([])
        for frame in phase:
            update: dict[str, Any] = {"phase": index, "heading": heading}
            if frame.point is not None:
                update |= _to_point(frame, frame.point, here)
            is_side = frame.verb == "turn" and frame.direction in ("left", "right")
            if frame.is_of_start and heading:
                update["is_of_start"] = False
                if abs(heading - _ABOUT_FACE) < 1.0:
                    # "turn around and walk back": the start is now ahead
                    update["direction"] = OPPOSITE[frame.direction or "backward"]
            elif is_side and index + 1 < len(phases) and _is_bare(frame):
                update |= {"amount": QUARTER, "dimension": "turning"}  # "turn left and walk"
            found[-1].append(replace(frame, **update))
        for frame in found[-1]:
            degrees = frame.bearing
            if degrees is None and frame.verb == "go" and heading is not None:
                degrees = heading + _DEGREES.get(frame.direction or "forward", 0.0)
            for axis, along in enumerate((math.cos, math.sin)):
                here[axis] += along(math.radians(degrees or 0.0)) * (frame.way_m or 0.0)
            turned = None if frame.point and frame.point[1] else _turned(frame)
            heading = None if heading is None or turned is None else (heading + turned) % 360.0
    return found


def _to_point(
    frame: Frame, point: tuple[float, float | None], here: Sequence[float]
) -> dict[str, Any]:
    """Return the fields of a frame that goes from one point to another."""
    ahead = round(point[0] - here[0], 6)
    aside = None if point[1] is None else round(point[1] - here[1], 6)
    if not ahead and not aside:
        return {"verb": "stand", "gait": None, "point": None}  # it is there already
    return {
        "point": (ahead, aside),
        "pace": frame.amount if frame.given("m/s") else None,
        "amount": Amount(round(math.hypot(ahead, aside or 0.0), 6), "m", "about"),
        "dimension": "speed" if frame.degree or frame.factor else "distance",
        "direction": "backward" if ahead < 0.0 else "forward",
    }


def _is_bare(frame: Frame) -> bool:
    """Return whether a frame specifies only a gait and a direction."""
    return frame == Frame(frame.verb, frame.word, frame.gait, frame.direction, phase=frame.phase)


def _turned(frame: Frame) -> float | None:
    """Return the angle in degrees by which a frame turns the body left, or None if unknown."""
    if frame.verb != "turn":
        return 0.0
    sign = -1.0 if frame.direction in ("right", "clockwise") else 1.0
    if frame.amount is not None and frame.turns is not None:
        return sign * 360.0 * (frame.all_turns or 0.0) if frame.amount.rule == "about" else None
    is_little = frame.degree == "little" and frame.dimension == "turning"
    return sign * 45.0 if is_little else 0.0 if frame.count else None


def travels(frame: Frame) -> bool:
    """Return whether a frame includes travel."""
    stays = frame.direction == "in_place" or (frame.direction is None and frame.verb == "hop")
    return frame.verb in _TRAVELS and not stays


def comes_home(frame: Frame) -> bool:
    """Return whether a frame is a return to the start without a stated distance."""
    is_open = frame.given("m") is None
    return frame.verb == "go" and frame.gait == "return" and frame.phase > 0 and is_open


def goes_low(frames: Sequence[Frame]) -> bool:
    """Return whether the intent requires poses that an environment would treat as a fall."""
    return any(
        frame.verb in _LOW_VERBS
        or _LOW_POSES & set(frame.postures)
        or (frame.verb == "swing" and frame.direction == "up")
        or frame.gait == "crawl"
        or any(held.quantity == "height" and math.isinf(held.low) for held in frame.held)
        for frame in frames
    )


def _with_ways(frames: Sequence[Frame]) -> list[Frame]:
    """Assign distances to the frame that travels, as in "run and stop at 5 m"."""
    found: list[Frame] = []
    for frame in frames:
        frame = replace(frame, phase=max(frame.phase, found[-1].phase if found else 0))
        last = next((k for k in range(len(found))[::-1] if found[k].verb in ("go", "hop")), None)
        way = found[last] if last is not None else None
        is_most = frame.amount is not None and frame.amount.rule == "at_most"
        is_back = frame.is_of_start and frame.direction == "backward" and frame.amount is None
        is_back = is_back or frame.gait == "return"  # "and walk back"
        ways = [each for each in found if each.way_m]
        if frame.verb == "stop" and frame.way_m and not is_most:
            given: dict[str, Any] = {"amount": frame.amount, "dimension": "distance"}
            if last is None or way is None:
                found.append(replace(frame, verb="go", **given))
            elif way.way_m is None:
                found[last] = replace(way, **given)
            frame = replace(frame, amount=None, dimension=None)
        elif frame.gait == "return" and (len(ways) > 1 or any(each.point for each in ways)):
            frame = replace(frame, gait=None, point=(0.0, 0.0), phase=found[-1].phase + 1)
        elif way and way.given("m") and frame.verb == "go" and is_back and not frame.duration_s:
            frame = replace(
                frame,
                phase=max(frame.phase, way.phase + 1),
                amount=way.amount,
                direction=OPPOSITE.get(way.direction or "forward"),
                dimension=frame.dimension or "distance",
                is_of_start=True,
            )
        found.append(frame)
    return found


def _completed(frames: Sequence[Frame]) -> list[Frame]:
    """Set the counts of repeated actions, and split actions that end in lying down."""
    found: list[Frame] = []
    for frame in frames:
        row, seconds = word_table("acts")[frame.verb], frame.duration_s
        pose = found[-1] if found and found[-1].phase == frame.phase else None
        is_whole = pose and (pose.bows or (pose.verb == "sit" and not pose.until_end))
        if pose and frame.verb == "stand_up" and is_whole and pose.duration_s is None:
            found[-1] = replace(pose, count=pose.count or 1)  # "bow and come up again"
            continue
        is_open = "kept" in row and frame.count is None and frame.period_s is None
        if is_open and (seconds or frame.until_end):
            kept = max(2, round(seconds / row["every"])) if seconds else row["kept"]
            frame = replace(frame, count=kept, count_rule="at_least")
        if frame.count is not None:  # the height of a repeated motion changes
            kept = tuple(each for each in frame.held if each.is_peak or each.quantity != "height")
            frame = replace(frame, held=kept)
        if frame.verb in _DEEDS and "lying" in frame.postures:
            lies = tuple(each for each in frame.postures if each == "lying" or each[:3] == "on_")
            postures = tuple(each for each in frame.postures if each not in lies)
            found.append(replace(frame, postures=postures))
            frame = Frame(verb="lie", word=frame.word, phase=frame.phase, postures=lies)
        found.append(frame)
    return found


def _is_done_anyway(frame: Frame, before: list[Frame]) -> bool:
    """Return whether previous frames imply a frame, as a flip implies a landing."""
    verbs, is_timed = {each.verb for each in before}, frame.duration_s is not None
    if {*frame.postures} - {"upright"} or frame.held:
        return False  # "and rear up" does not describe the landing of a flip
    if frame.verb == "balance":
        return "swing" in verbs
    if frame.verb not in ("stand", "stop"):
        return False
    stops = any(each.verb == "go" and each.way_m is not None for each in before)
    if frame.verb == "stop" and not is_timed and stops:
        return True  # travelling a distance includes stopping
    if verbs & {"flip", "roll", "reach"}:
        return not is_timed
    is_landing = not frame.until_end and not is_timed and frame.verb == "stand"
    is_landing = is_landing and not (verbs == {"stand"} and any(each.held for each in before))
    return bool("stand_up" in verbs or (is_landing and verbs & _STANDS_AFTER) or frame in before)


def _held_together(frame: Frame, now: list[Frame]) -> Frame | None:
    """Merge a pose and an action in this pose into one frame, or return None.

    Examples are "stand on your hind legs and walk", "stand on your hind legs with a raised torso"
    and "lie on your back and kick".
    """
    if len(now) != 1:
        return None
    pose, is_at_once = now[0], frame.at_once
    goes, tracks = sorted((frame, pose), key=lambda each: each.verb)
    if (goes.verb, tracks.verb) == ("go", "obey"):  # "follow the commands while trotting"
        is_plain = goes.gait and not goes.direction and not goes.amount and not tracks.gait
        return replace(tracks, gait=goes.gait) if is_plain else None
    if {frame.verb, pose.verb} == {"stand"}:
        is_one = frame.duration_s is None and not (pose.part and frame.part)
        if is_one and pose.postures and frame.postures:
            named = frame if frame.part else pose
            postures = tuple(dict.fromkeys((*pose.postures, *frame.postures)))
            return replace(pose, postures=postures, part=named.part, bodies=named.bodies)
    if frame.at_once and pose.verb not in _HELD:
        pose, frame = frame, pose  # "walk while crouching"
    is_kept = pose.until_end and frame.verb not in _LIMBS  # "stay lying and wave"
    is_timed = is_kept or pose.duration_s is not None
    if pose.count is not None or pose.amount is not None or (is_timed and not is_at_once):
        return None
    is_pose = pose.verb in _HELD and bool(pose.postures) and set(pose.postures) <= _POSES
    is_limb = frame.verb in _LIMBS and (is_pose or pose.verb in _RESTING)
    if is_limb or (frame.verb in {*_TRAVELS, "turn"} and is_pose and not pose.part):
        implied = _RESTING.get(pose.verb, ())
        postures = tuple(dict.fromkeys((*pose.postures, *implied, *frame.postures)))
        seconds = frame.duration_s or pose.duration_s
        return replace(frame, postures=postures, duration_s=seconds)
    return None


def _goes_with(frame: Frame, now: list[Frame]) -> bool:
    """Return whether a frame can hold at the same time as the current ones."""
    verbs, is_timed = {each.verb for each in now}, any(each.duration_s for each in now)
    if {frame.verb, *verbs} <= {"stand", *_LIMBS} and len({frame.verb, *verbs}) > 1:
        # A limb moves while it stands: not in "wave and stand".
        return frame.at_once or (frame.verb in ("lift", "swing") and not is_timed)
    is_next = frame.verb in _RESTS or frame.gait == "return" or (frame.bows and verbs & _MOVES)
    if is_next or verbs & {*_RESTS, "stand_up"}:
        return False
    if frame.verb == "stand_up" and verbs & _MOVES:
        return False  # "do a roll and come back up": a robot that stays up does not roll
    if frame.duration_s is not None and is_timed and not frame.at_once:
        return False  # "walk for 3 s, hop for 3 s"
    if frame.verb in verbs:
        ahead = {None, "forward", "backward"}
        going = [each for each in now if each.verb == "go"]
        crosses = len(going) == 1 and (frame.direction in ahead) != (going[0].direction in ahead)
        return frame.verb in _LIMBS or (frame.verb == "go" and crosses)
    if frame.at_once:
        return True
    turned = [each for each in now if each.verb == "turn"]
    by_angle = any(each.count is not None or each.turns is not None for each in turned)
    # "turn around and walk back", "walk 2 m and turn left"; but "walk 2 m, turning left".
    if frame.verb in _MOVES and not frame.word.endswith("ing"):
        goes = any(each.verb == "go" and (each.way_m or each.given("steps")) for each in now)
        does = any(each.verb in _DEEDS and each.count is not None for each in now)
        return not (goes or does or turned)
    return not (frame.verb == "go" and by_angle)


def _add(frame: Frame, now: list[Frame]) -> None:
    """Add a frame, merging limbs with the same action as in "lift the left and right arm"."""
    for index, other in enumerate(now):
        if other.verb == frame.verb == "go" and not (other.amount or other.degree or other.factor):
            how = {name: getattr(frame, name) for name in _HOW}
            now[index] = replace(other, **how)  # "walk forward and to the left at 1 m/s"
        arms = {any(k in str(each.part) for k in ("arm", "hand")) for each in (frame, other)}
        if other.verb is frame.verb and frame.verb in _LIMBS and len(arms) == 1:
            bodies = tuple(dict.fromkeys((*other.bodies, *frame.bodies)))
            part = " and ".join(each for each in (other.part, frame.part) if each) or None
            now[index] = replace(other, bodies=bodies, part=part)
            return
    now.append(frame)
