"""Put the frames of an intent in order: what is done together, and what comes after it."""

from __future__ import annotations

from collections.abc import Sequence

from telic.composer.draft import Draft
from telic.composer.frames import (
    OPPOSITE,
    Act,
    Direction,
    Frame,
    Limit,
    LimitKind,
    ParsedIntent,
    Posture,
)
from telic.composer.manners import stay_on_feet
from telic.composer.resting import end_at_rest
from telic.composer.scene import Scene
from telic.composer.travel import stop_in_the_end
from telic.judges import metrics, tracks
from telic.judges.criteria import Motion
from telic.rewards.signals import Gone, Measured
from telic.rewards.terms import Home, Small

_REST = (Act.STAND, Act.STOP, Act.SIT, Act.LIE)
_LANDS = (Act.FLIP, Act.ROLL, Act.JUMP, Act.HOP)
_KEEPS = (Act.REACH, Act.STAND_UP, Act.LIFT, Act.STAND, Act.BALANCE)
_LIMBS = (Act.LIFT, Act.KICK, Act.SWING)
_ANYWHERE = {Act.JUMP, Act.FLIP, Act.ROLL, Act.KICK, Act.SWING, Act.SIT, Act.BALANCE, Act.TURN}
"""what could wander off while it is done"""
_DEEDS = {Act.JUMP, Act.FLIP, Act.ROLL}
_MOVES = {Act.GO, Act.CIRCLE, Act.HOP, Act.TURN, *_DEEDS}
_TRAVELS = {Act.GO, Act.HOP, Act.CIRCLE}
_POSING, _IN_POSE = (Act.STAND, Act.STAND_UP, Act.BALANCE, Act.SIT), {*_TRAVELS, Act.TURN}
_RESTING = {Act.LIE: (Posture.LYING,), Act.SIT: (Posture.LOW,)}
_POSES = {
    Posture.LOW,
    Posture.TWO_LEGS,
    Posture.REAR_LEGS,
    Posture.FRONT_LEGS,
    Posture.ONE_LEG,
}
_LOW_VERBS = {Act.SIT, Act.LIE, Act.ROLL, Act.FLIP, Act.STAND_UP}
_LOW_POSES = {
    Posture.LOW,
    Posture.LYING,
    Posture.UPSIDE_DOWN,
    Posture.REAR_LEGS,
    Posture.FRONT_LEGS,
}


def arrange(parsed: ParsedIntent) -> list[list[Frame]]:
    """Return the phases in their order, each the frames that are done together."""
    phases: list[list[Frame]] = []
    frames = _with_gait(_with_ways(parsed.frames))
    for number in sorted({frame.phase for frame in frames}):
        now: list[Frame] = []
        for frame in (each for each in frames if each.phase == number):
            before = now or (phases[-1] if phases else [])
            if _is_done_anyway(frame, before):
                _prolong(frame, now or phases[-1])
            elif _is_repeated(frame, now) or _is_held_too(frame, now):
                continue
            elif _is_held_meanwhile(frame, now):
                now[0] = frame.model_copy(update={"postures": _postures(_posed(now[0]), frame)})
            elif now and not _goes_with(frame, now):
                phases.append(now)
                now = [frame]
            elif not _joined(frame, now):
                now.append(frame)
        if now:
            phases.append(now)
    return [
        [frame.model_copy(update={"phase": index}) for frame in phase]
        for index, phase in enumerate(phases)
    ]


def travels(frame: Frame) -> bool:
    """Say whether it goes somewhere."""
    stays = frame.direction in (None, Direction.IN_PLACE) and frame.verb is Act.HOP
    return frame.verb in _TRAVELS and frame.direction is not Direction.IN_PLACE and not stays


def _with_ways(frames: Sequence[Frame]) -> list[Frame]:
    """Give ways to go where they were said elsewhere: "run and stop at 5 m", "and come back"."""
    found: list[Frame] = []
    for frame in frames:
        last = next((k for k in range(len(found))[::-1] if found[k].verb is Act.GO), None)
        way = found[last] if last is not None else None
        if frame.verb is Act.STOP and _is_way(frame):
            said = {"amount": frame.amount, "dimension": "distance"}
            if last is None or way is None:
                found.append(frame.model_copy(update={"verb": Act.GO, **said}))
            elif not _is_way(way):
                found[last] = way.model_copy(update=said)
            frame = frame.model_copy(update={"amount": None, "dimension": None})
        elif frame.gait == "return" and way is not None and _is_way(way):
            back = OPPOSITE.get(way.direction or Direction.FORWARD)
            said = {"amount": way.amount, "dimension": "distance", "direction": back}
            frame = frame.model_copy(update={**said, "phase": max(frame.phase, way.phase + 1)})
        found.append(frame)
    return found


def _with_gait(frames: list[Frame]) -> list[Frame]:
    """Give the gait to who obeys commands: "follow the commands while trotting"."""
    told = next((frame for frame in frames if frame.verb is Act.OBEY), None)
    gaits = [frame for frame in frames if frame.verb is Act.GO and frame.gait and not _leads(frame)]
    if told is None or len(gaits) != 1 or told.gait or gaits[0].phase != told.phase:
        return frames
    told_so = told.model_copy(update={"gait": gaits[0].gait})
    return [told_so if each is told else each for each in frames if each is not gaits[0]]


def _leads(frame: Frame) -> bool:
    """Say whether it says where to, or how far."""
    return frame.direction is not None or frame.amount is not None


def _stops(frame: Frame) -> bool:
    return frame.verb is Act.GO and _is_way(frame)


def _is_way(frame: Frame) -> bool:
    return frame.amount is not None and frame.amount.unit == "m" and frame.dimension != "height"


def limits_of(parsed: ParsedIntent) -> tuple[Limit, ...]:
    """Return the limits, and for what is done in place that it stays there."""
    stays = [
        Limit(kind=LimitKind.NO_DRIFT, words=f"{frame.word} in place")
        for frame in parsed.frames
        if frame.direction is Direction.IN_PLACE and frame.verb in _ANYWHERE
    ]
    travels = any(frame.verb in _TRAVELS for frame in parsed.frames)
    if not stays or (travels and len(arrange(parsed)) > 1):
        return parsed.limits
    if any(limit.kind is LimitKind.NO_DRIFT for limit in parsed.limits):
        return parsed.limits
    return (*parsed.limits, stays[0])


def goes_low(frames: list[Frame], limits: tuple[Limit, ...]) -> bool:
    """Say whether it asks for poses in which an environment takes the robot for fallen."""
    return (
        any(frame.verb in _LOW_VERBS or _LOW_POSES & set(frame.postures) for frame in frames)
        or any(frame.verb is Act.SWING and frame.direction is Direction.UP for frame in frames)
        or any(limit.kind is LimitKind.LOW_HEIGHT for limit in limits)
    )


def _is_done_anyway(frame: Frame, before: list[Frame]) -> bool:
    """Say whether it is part of what comes before: a flip lands, a reaching hand stays."""
    verbs = {each.verb for each in before}
    if {*frame.postures} - {Posture.UPRIGHT}:
        return False  # "and rear up" is not how a flip lands
    if frame.verb is Act.BALANCE:
        return Act.SWING in verbs
    if frame.verb not in (Act.STAND, Act.STOP):
        return False
    if frame.verb is Act.STOP and frame.duration_s is None and any(map(_stops, before)):
        return True  # where a way ends, it stops
    if verbs & {Act.FLIP, Act.ROLL, Act.REACH}:
        return frame.duration_s is None
    is_landing = not frame.until_end and frame.duration_s is None and frame.verb is Act.STAND
    return bool(
        verbs & {Act.STAND_UP} or (is_landing and verbs & {*_LANDS, *_KEEPS}) or frame in before
    )


def _is_repeated(frame: Frame, now: list[Frame]) -> bool:
    """Say whether it only says again what is done anyway: "walk, walk, walk"."""
    plain = Frame(verb=frame.verb, word=frame.word, gait=frame.gait, phase=frame.phase)
    return frame.verb in _TRAVELS and frame == plain and frame in now


def _prolong(frame: Frame, before: list[Frame]) -> None:
    """Give a duration to what already includes the rest."""
    if frame.duration_s is not None:
        before[-1] = before[-1].model_copy(update={"duration_s": frame.duration_s})


def _goes_with(frame: Frame, now: list[Frame]) -> bool:
    """Say whether it can be done at the same time; what cannot comes afterwards."""
    verbs = {each.verb for each in now}
    if frame.verb in _REST or verbs & {*_REST, Act.STAND_UP}:
        return False
    if frame.verb is Act.STAND_UP and verbs & _MOVES:
        return False  # "do a roll and come back up": who stays up meanwhile does not roll
    if frame.duration_s is not None and any(each.duration_s is not None for each in now):
        return False  # "walk for 3 s, hop for 3 s"
    if frame.verb in verbs:
        return frame.verb in _LIMBS or (frame.verb is Act.GO and _crosses(frame, now))
    # "turn around and walk back", "walk 2 m and turn left"; but "walk 2 m, turning left".
    if frame.verb in _MOVES and not frame.word.endswith("ing"):
        return not any(_ends(each) or each.verb is Act.TURN for each in now)
    return not (frame.verb is Act.GO and any(_is_amount(each) for each in now))


def _ends(frame: Frame) -> bool:
    """Say whether it comes to an end by itself, after so far, so many or so much of a turn."""
    is_counted = frame.count is not None and frame.verb in _DEEDS
    return _stops(frame) or _is_amount(frame) or is_counted


def _is_amount(frame: Frame) -> bool:
    said = frame.amount is not None and frame.amount.unit in ("turns", "rad")
    return frame.verb is Act.TURN and (said or frame.count is not None)


def _crosses(frame: Frame, now: list[Frame]) -> bool:
    ahead = {Direction.FORWARD, Direction.BACKWARD}
    others = [each for each in now if each.verb is Act.GO]
    return len(others) == 1 and (frame.direction in ahead) != (others[0].direction in ahead)


def _joined(frame: Frame, now: list[Frame]) -> bool:
    """Join limbs that do the same: "lift the left arm and the right arm"."""
    for index, other in enumerate(now):
        if other.verb is frame.verb and frame.verb in _LIMBS:
            bodies = tuple(dict.fromkeys((*other.bodies, *frame.bodies)))
            part = " and ".join(each for each in (other.part, frame.part) if each) or None
            now[index] = other.model_copy(update={"bodies": bodies, "part": part})
            return True
    return False


def _is_held_too(frame: Frame, now: list[Frame]) -> bool:
    """Join another way to hold oneself, at once: "stand on your hind legs with a raised torso"."""
    if len(now) != 1 or {frame.verb, now[0].verb} != {Act.STAND}:
        return False
    first, is_told = now[0], frame.duration_s is not None
    if is_told or not (first.postures and frame.postures) or (first.part and frame.part):
        return False
    part, bodies = (frame.part, frame.bodies) if frame.part else (first.part, first.bodies)
    held = {"postures": _postures(first, frame), "part": part, "bodies": bodies}
    now[0] = first.model_copy(update=held)
    return True


def _is_held_meanwhile(frame: Frame, now: list[Frame]) -> bool:
    """Say whether it is done in the pose just named.

    "stand on your hind legs and walk"; and who lies or sits does so while a limb moves: "lie on
    your back and kick".
    """
    if len(now) != 1:
        return False
    pose = now[0]
    is_told = pose.duration_s is not None or pose.count is not None or pose.amount is not None
    if is_told or pose.until_end:
        return False
    is_pose = pose.verb in _POSING and bool(pose.postures) and set(pose.postures) <= _POSES
    if frame.verb in _LIMBS:
        return pose.verb in _RESTING or is_pose
    return frame.verb in _IN_POSE and is_pose and not pose.part


def _posed(pose: Frame) -> Frame:
    """Return a pose with what its verb says of the body."""
    return pose.model_copy(update={"postures": (*pose.postures, *_RESTING.get(pose.verb, ()))})


def _postures(one: Frame, other: Frame) -> tuple[Posture, ...]:
    return tuple(dict.fromkeys((*one.postures, *other.postures)))


# ---- coming back
# To end where the episode began, whatever way was made before. The place of the start is not
# observed, and a phase forgets what was before it: so it is remembered throughout, where the policy
# sees it, and pays only while the way back is on.


_NEAR_M, _FAR_M = 0.5, 1.5


_SETTLES_S = 2.0


def comes_home(frame: Frame) -> bool:
    """Say whether a frame asks to come back, and not how far that is."""
    is_way = frame.amount is not None and frame.amount.unit == "m"
    return frame.verb is Act.GO and frame.gait == "return" and frame.phase > 0 and not is_way


def rest_at_home(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Judge the rest at the end of the way back; the way itself is judged throughout."""
    scene.require("displacement", "come back")
    draft.pay("still", 0.2, Small(Measured("speed"), 2.0), "at rest in the end")
    stop_in_the_end(draft, 1.0, 0.4, 1.0)
    stay_on_feet(scene, draft)
    end_at_rest(draft, frame.duration_s or 1.0)
    draft.seconds = max(draft.seconds, (frame.duration_s or 0.0) + _SETTLES_S)


def come_home(scene: Scene, always: Draft, phase: int) -> None:
    """Pay for being near the start while a phase is on, and judge where the episode ends."""
    always.pay("home", 2.0, Home(Gone(scene.axes), phase), "near the start, on the way back")
    axes = tuple(f"{axis}_position" for axis in scene.axes)
    # A constraint: stopping where the way out ended is not coming back.
    value = tracks.last(metrics.gone(axes))
    always.require("ends where it began", value, _FAR_M, _NEAR_M, tag="too_far")


def way_back(before: Sequence[Motion], seconds: float) -> list[Motion]:
    """Return the motions that undo the last one, and rest."""
    last = before[-1]
    back = last.model_copy(
        update={"forward_mps": -last.forward_mps, "left_mps": -last.left_mps, "jumps": 0}
    )
    return [back, Motion(seconds=max(seconds, 1.0))]
