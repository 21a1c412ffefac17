"""Arrange the frames of an intent into sequential phases of simultaneous frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from telic.composer.frames import OPPOSITE, Amount, Frame, Limit, ParsedIntent
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
_WANDERS = {*_DEEDS, "kick", "swing", "sit", "balance", "turn"}
"""verbs during which the robot could drift away"""
_HOW = ("amount", "bounds", "degree", "dimension", "factor")
_RESTING = {"lie": ("lying",), "sit": ("low",)}
_HELD = {"stand", "stand_up", "balance", "sit", "lie"}
"""verbs for poses in which another action is possible"""
_ON_REAR_OR_FRONT = {"rear_legs", "front_legs"}
_POSES = {"low", "two_legs", "one_leg", *_ON_REAR_OR_FRONT}
_LOW_VERBS = {"sit", "lie", "roll", "flip", "stand_up", "lean"}
_LOW_POSES = {
    "low",
    "lying",
    "hands",
    "upside_down",
    *_ON_REAR_OR_FRONT,
}


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
                    before[-1] = before[-1].model_copy(update={"duration_s": frame.duration_s})
            elif _is_repeated(frame, now):
                continue
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
    for index, phase in enumerate(phases):
        found.append([])
        for frame in phase:
            update: dict[str, Any] = {"phase": index, "heading": heading}
            if frame.is_of_start and heading and abs(heading - _ABOUT_FACE) < 1.0:
                # "turn around and walk back": the start is now ahead
                update |= {"direction": OPPOSITE[frame.direction or "backward"]}
                update["is_of_start"] = False
            elif frame.is_of_start and heading:
                update["is_of_start"] = False
            elif _is_open_turn(frame) and index + 1 < len(phases):
                update |= {"amount": QUARTER, "dimension": "turning"}  # "turn left and walk"
            found[-1].append(frame.model_copy(update=update))
        for frame in found[-1]:
            turned = _turned(frame)
            heading = None if heading is None or turned is None else (heading + turned) % 360.0
    return found


def _is_open_turn(frame: Frame) -> bool:
    """Return whether a frame is a turn without an angle, speed or duration."""
    plain = Frame(verb="turn", word=frame.word, direction=frame.direction, phase=frame.phase)
    return frame.direction in ("left", "right") and frame == plain


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


def limits_of(parsed: ParsedIntent) -> tuple[Limit, ...]:
    """Return the limits of an intent. Actions in place imply staying in place."""
    stays = [
        Limit(kind="no_drift", words=f"{frame.word} in place")
        for frame in parsed.frames
        if frame.direction == "in_place" and frame.verb in _WANDERS
    ]
    is_going = any(frame.verb in _TRAVELS for frame in parsed.frames)
    is_limited = any(limit.kind == "no_drift" for limit in parsed.limits)
    if not stays or is_limited or (is_going and len(arrange(parsed)) > 1):
        return parsed.limits
    return (*parsed.limits, stays[0])


def goes_low(frames: Sequence[Frame], limits: tuple[Limit, ...]) -> bool:
    """Return whether the intent requires poses that an environment would treat as a fall."""
    return any(limit.kind == "low_height" for limit in limits) or any(
        frame.verb in _LOW_VERBS
        or _LOW_POSES & set(frame.postures)
        or (frame.verb == "swing" and frame.direction == "up")
        or frame.gait == "crawl"
        for frame in frames
    )


def _with_ways(frames: Sequence[Frame]) -> list[Frame]:
    """Assign distances to the frame that travels, as in "run and stop at 5 m"."""
    found: list[Frame] = []
    for frame in frames:
        last = next((k for k in range(len(found))[::-1] if found[k].verb in ("go", "hop")), None)
        way = found[last] if last is not None else None
        if frame.verb == "stop" and frame.way_m is not None:
            given = {"amount": frame.amount, "dimension": "distance"}
            if last is None or way is None:
                found.append(frame.model_copy(update={"verb": "go", **given}))
            elif way.way_m is None:
                found[last] = way.model_copy(update=given)
            frame = frame.model_copy(update={"amount": None, "dimension": None})
        elif way is not None and way.way_m is not None and _goes_back(frame):
            back = OPPOSITE.get(way.direction or "forward")
            given = {"amount": way.amount, "direction": back, "is_of_start": True}
            given |= {"dimension": frame.dimension or "distance"}
            frame = frame.model_copy(update=given | {"phase": max(frame.phase, way.phase + 1)})
        found.append(frame)
    return found


def _goes_back(frame: Frame) -> bool:
    """Return whether a frame returns by an unspecified distance, as in "and walk back"."""
    is_back = frame.is_of_start and frame.direction == "backward" and frame.amount is None
    return frame.verb == "go" and (frame.gait == "return" or is_back) and not frame.duration_s


def _completed(frames: Sequence[Frame]) -> list[Frame]:
    """Set the counts of repeated actions, and split actions that end in lying down."""
    found: list[Frame] = []
    for frame in frames:
        row, seconds = word_table("acts")[frame.verb], frame.duration_s
        is_open = "kept" in row and frame.count is None and frame.period_s is None
        if is_open and (seconds or frame.until_end):
            kept = max(2, round(seconds / row["every"])) if seconds else row["kept"]
            frame = frame.model_copy(update={"count": kept, "count_rule": "at_least"})
        if frame.verb in _DEEDS and "lying" in frame.postures:
            postures = tuple(each for each in frame.postures if each != "lying")
            found.append(frame.model_copy(update={"postures": postures}))
            frame = Frame(verb="lie", word=frame.word, phase=frame.phase)
        found.append(frame)
    return found


def _is_done_anyway(frame: Frame, before: list[Frame]) -> bool:
    """Return whether previous frames imply a frame, as a flip implies a landing."""
    verbs, is_timed = {each.verb for each in before}, frame.duration_s is not None
    if {*frame.postures} - {"upright"}:
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
    return bool("stand_up" in verbs or (is_landing and verbs & _STANDS_AFTER) or frame in before)


def _is_repeated(frame: Frame, now: list[Frame]) -> bool:
    """Return whether a frame only repeats a current one, as in "walk, walk, walk"."""
    plain = Frame(verb=frame.verb, word=frame.word, gait=frame.gait, phase=frame.phase)
    return frame.verb in _TRAVELS and frame == plain and frame in now


def _held_together(frame: Frame, now: list[Frame]) -> Frame | None:
    """Merge a pose and an action in this pose into one frame, or return None.

    Examples are "stand on your hind legs and walk", "stand on your hind legs with a raised torso"
    and "lie on your back and kick".
    """
    if len(now) != 1:
        return None
    pose, is_at_once = now[0], frame.at_once
    goes, obeys = sorted((frame, pose), key=lambda each: each.verb)
    if (goes.verb, obeys.verb) == ("go", "obey"):  # "follow the commands while trotting"
        is_plain = goes.gait and not goes.direction and not goes.amount and not obeys.gait
        return obeys.model_copy(update={"gait": goes.gait}) if is_plain else None
    if {frame.verb, pose.verb} == {"stand"}:
        is_one = frame.duration_s is None and not (pose.part and frame.part)
        if is_one and pose.postures and frame.postures:
            named = frame if frame.part else pose
            postures = tuple(dict.fromkeys((*pose.postures, *frame.postures)))
            held = {"postures": postures, "part": named.part, "bodies": named.bodies}
            return pose.model_copy(update=held)
    if frame.at_once and pose.verb not in _HELD:
        pose, frame = frame, pose  # "walk while crouching"
    is_timed = pose.until_end or pose.duration_s is not None
    if pose.count is not None or pose.amount is not None or (is_timed and not is_at_once):
        return None
    is_pose = pose.verb in _HELD and bool(pose.postures) and set(pose.postures) <= _POSES
    is_limb = frame.verb in _LIMBS and (is_pose or pose.verb in _RESTING)
    if is_limb or (frame.verb in {*_TRAVELS, "turn"} and is_pose and not pose.part):
        implied = _RESTING.get(pose.verb, ())
        postures = tuple(dict.fromkeys((*pose.postures, *implied, *frame.postures)))
        seconds = frame.duration_s or pose.duration_s
        return frame.model_copy(update={"postures": postures, "duration_s": seconds})
    return None


def _goes_with(frame: Frame, now: list[Frame]) -> bool:
    """Return whether a frame can be simultaneous with the current ones."""
    verbs, is_timed = {each.verb for each in now}, any(each.duration_s for each in now)
    if {frame.verb, *verbs} <= {"stand", *_LIMBS} and len({frame.verb, *verbs}) > 1:
        # A limb moves while it stands: not in "wave and stand".
        return frame.at_once or (frame.verb in ("lift", "swing") and not is_timed)
    if frame.verb in _RESTS or verbs & {*_RESTS, "stand_up"}:
        return False
    if frame.verb == "stand_up" and verbs & _MOVES:
        return False  # "do a roll and come back up": a robot that stays up does not roll
    if frame.duration_s is not None and is_timed and not frame.at_once:
        return False  # "walk for 3 s, hop for 3 s"
    if frame.verb in verbs:
        ahead = {"forward", "backward"}
        going = [each for each in now if each.verb == "go"]
        crosses = len(going) == 1 and (frame.direction in ahead) != (going[0].direction in ahead)
        return frame.verb in _LIMBS or (frame.verb == "go" and crosses)
    if frame.at_once:
        return True
    turned = [each for each in now if each.verb == "turn"]
    by_angle = any(each.count is not None or each.turns is not None for each in turned)
    # "turn around and walk back", "walk 2 m and turn left"; but "walk 2 m, turning left".
    if frame.verb in _MOVES and not frame.word.endswith("ing"):
        ends = any(
            (each.verb == "go" and each.way_m is not None)
            or (each.verb in _DEEDS and each.count is not None)
            for each in now
        )
        return not (ends or turned)
    return not (frame.verb == "go" and by_angle)


def _add(frame: Frame, now: list[Frame]) -> None:
    """Add a frame, merging limbs with the same action as in "lift the left and right arm"."""
    for index, other in enumerate(now):
        if other.verb == frame.verb == "go" and not (other.amount or other.degree or other.factor):
            how = {name: getattr(frame, name) for name in _HOW}
            now[index] = other.model_copy(update=how)  # "walk forward and to the left at 1 m/s"
        if other.verb is frame.verb and frame.verb in _LIMBS:
            bodies = tuple(dict.fromkeys((*other.bodies, *frame.bodies)))
            part = " and ".join(each for each in (other.part, frame.part) if each) or None
            now[index] = other.model_copy(update={"bodies": bodies, "part": part})
            return
    now.append(frame)
