"""Put what an intent asks for in order: what is done together, and what comes after it."""

from __future__ import annotations

from telic.composer.frames import Direction, Frame, Limit, LimitKind, Parsed, Posture, Verb

_REST = (Verb.STAND, Verb.STOP, Verb.SIT, Verb.LIE)
_LANDS = (Verb.FLIP, Verb.ROLL, Verb.JUMP, Verb.HOP)
_KEEPS = (Verb.REACH, Verb.STAND_UP, Verb.LIFT, Verb.STAND, Verb.BALANCE)
_LIMBS = (Verb.LIFT, Verb.KICK, Verb.SWING)
_LOW_VERBS = {Verb.SIT, Verb.LIE, Verb.ROLL, Verb.FLIP, Verb.STAND_UP}
_LOW_POSES = {
    Posture.LOW,
    Posture.LYING,
    Posture.UPSIDE_DOWN,
    Posture.REAR_LEGS,
    Posture.FRONT_LEGS,
}


def arrange(parsed: Parsed) -> list[list[Frame]]:
    """Return the phases in their order, each the frames that are done together."""
    phases: list[list[Frame]] = []
    for number in sorted({frame.phase for frame in parsed.frames}):
        now: list[Frame] = []
        for frame in (each for each in parsed.frames if each.phase == number):
            before = now or (phases[-1] if phases else [])
            if _is_done_anyway(frame, before):
                _prolong(frame, now or phases[-1])
            elif now and not _goes_with(frame, now):
                phases.append(now)
                now = [frame]
            elif not _joined(frame, now):
                now.append(frame)
        if now:
            phases.append(now)
    return [[_placed(each, index) for each in phase] for index, phase in enumerate(phases)]


def goes_low(frames: list[Frame], limits: tuple[Limit, ...]) -> bool:
    """Say whether it asks for poses in which an environment takes the robot for fallen."""
    return (
        any(each.verb in _LOW_VERBS or _LOW_POSES & set(each.postures) for each in frames)
        or any(each.verb is Verb.SWING and each.direction is Direction.UP for each in frames)
        or any(each.kind is LimitKind.LOW_HEIGHT for each in limits)
    )


def _is_done_anyway(frame: Frame, before: list[Frame]) -> bool:
    """Say whether it is part of what comes before: a flip lands, a reaching hand stays."""
    verbs = {each.verb for each in before}
    if frame.verb is Verb.BALANCE:
        return Verb.SWING in verbs
    if frame.verb not in (Verb.STAND, Verb.STOP):
        return False
    if verbs & {Verb.FLIP, Verb.ROLL, Verb.REACH}:
        return frame.duration_s is None
    is_landing = not frame.until_end and frame.duration_s is None and frame.verb is Verb.STAND
    return bool(
        verbs & {Verb.STAND_UP} or (is_landing and verbs & {*_LANDS, *_KEEPS}) or frame in before
    )


def _prolong(frame: Frame, before: list[Frame]) -> None:
    """Give a duration to what already includes the rest."""
    if frame.duration_s is not None:
        before[-1] = before[-1].model_copy(update={"duration_s": frame.duration_s})


def _goes_with(frame: Frame, now: list[Frame]) -> bool:
    """Say whether it can be done at the same time; what cannot comes afterwards."""
    verbs = {each.verb for each in now}
    if frame.verb in _REST or verbs & {*_REST, Verb.STAND_UP}:
        return False
    if frame.verb in verbs:
        return frame.verb in _LIMBS or (frame.verb is Verb.GO and _crosses(frame, now))
    # "turn around and walk back"
    return not (frame.verb is Verb.GO and any(_is_amount(each) for each in now))


def _is_amount(frame: Frame) -> bool:
    said = frame.amount is not None and frame.amount.unit in ("turns", "rad")
    return frame.verb is Verb.TURN and (said or frame.count is not None)


def _crosses(frame: Frame, now: list[Frame]) -> bool:
    ahead = {Direction.FORWARD, Direction.BACKWARD}
    others = [each for each in now if each.verb is Verb.GO]
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


def _placed(frame: Frame, phase: int) -> Frame:
    return frame.model_copy(update={"phase": phase})
