"""What is said of the body besides a deed: postures, heights, and how a part of it is held.

"keeping the torso below 1 m" is a limit; "with your hands up" raises them; "with your head down"
says where the head is, which is not judged, and nothing of where to go.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from telic.composer.frames import Act, Amount, Direction, LimitKind, Posture
from telic.composer.marks import Mark

TRUNK = {None, "torso", "head", "pelvis", "waist", "cart"}
_POLE = ("pole", "poles", "tip")
_ARMS = ("arm", "arms", "hand", "hands")
_HELD = {
    Posture.UPRIGHT: LimitKind.UPRIGHT,
    Posture.LOW: LimitKind.LOW_HEIGHT,
    Posture.HIGH: LimitKind.KEEP_HEIGHT,
}


def part_in(marks: Sequence[Mark]) -> str | None:
    """Return the first part of the body that is named."""
    return next((mark.part.name for mark in marks if mark.part is not None), None)


def is_pole(part: str | None) -> bool:
    """Return whether a part is to be balanced: "upper pole"."""
    return part is not None and part.endswith(_POLE)


def is_raised(marks: Sequence[Mark]) -> bool:
    """Return whether hands or arms are said to be up: "with your hands up"."""
    part = part_in(marks)
    return part is not None and part.endswith(_ARMS) and Posture.HIGH in postures_in(marks)


def besides_part(marks: Sequence[Mark]) -> list[Mark]:
    """Return what is not said of a part: not the direction of "with your arms forward".

    A posture is judged of the trunk alone: "with straight legs" is no straight line. The part goes
    with what is said of it, so that both are named together.
    """
    part = next((mark for mark in marks if mark.part is not None), None)
    name = part.part.name if part is not None and part.part is not None else None
    if name is None or name == "target" or is_pole(name):
        return list(marks)
    of_it = {"direction"} if name in TRUNK else {"direction", "posture"}
    senses = {id(mark): {sense.slot for sense in mark.senses} for mark in marks}
    said = [mark for mark in marks if senses[id(mark)] & of_it]
    return [mark for mark in marks if mark not in said and not (said and mark is part)]


def apart(marks: Sequence[Mark]) -> list[Mark]:
    """Return a part and where it is said to be right behind it: "walk hands up"."""
    for part, where in pairwise(marks):
        values = {sense.value for sense in where.senses if sense.slot == "direction"}
        is_held = bool(values & {Direction.UP, Direction.DOWN})
        if part.part is not None and part.end == where.at[0] and is_held:
            return [part, where]
    return []


def postures_in(marks: Sequence[Mark]) -> set[Posture]:
    """Return the postures named; something kept "up" is high."""
    postures: set[Posture] = set()
    for mark in marks:
        sense = mark.sense()
        if sense is not None and sense.slot == "posture":
            postures.add(Posture(sense.value))
        elif sense is not None and sense.value == Direction.UP:
            postures.add(Posture.HIGH)
    return postures


def held_kind(mark: Mark, part: str | None, acts: bool) -> tuple[LimitKind | None, Amount | None]:
    """Return the limit that keeping this makes, while something else is done or not."""
    if is_height(mark, part) and mark.reading is not None and mark.reading.amount is not None:
        low = mark.reading.amount.rule == "at_most"
        return (LimitKind.LOW_HEIGHT if low else LimitKind.KEEP_HEIGHT), mark.reading.amount
    sense = mark.sense() or mark.sense(Act.STAND)
    if sense is None or not acts:
        return None, None
    if sense.slot == "posture":
        return _HELD.get(Posture(sense.value)), None
    if sense.value == Direction.IN_PLACE:
        return LimitKind.NO_DRIFT, None
    if sense.value == Direction.UP and part is not None:
        return LimitKind.KEEP_HEIGHT, None
    return None, None


def is_height(mark: Mark, part: str | None) -> bool:
    """Return whether it is a height to keep: "below 1 m", or of the torso any."""
    amount = mark.reading.amount if mark.reading else None
    return amount is not None and amount.unit == "m" and (amount.rule != "about" or bool(part))


def says_how_long(mark: Mark) -> bool:
    """Return whether it adds nothing but time: "stay up for 3 seconds", "stay there"."""
    sense = mark.sense()
    moved = sense is not None and sense.value in (Direction.UP, Direction.DOWN)
    return mark.slot in ("number", "until_end") or moved
