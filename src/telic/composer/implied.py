"""What a word says where it is kept, or where there is no verb beside it."""

from __future__ import annotations

from collections.abc import Sequence

from telic.composer.frames import Amount, Direction, LimitKind, Posture, Verb
from telic.composer.scan import Mark

_HELD = {
    Posture.UPRIGHT: LimitKind.UPRIGHT,
    Posture.LOW: LimitKind.LOW_HEIGHT,
    Posture.HIGH: LimitKind.KEEP_HEIGHT,
}


def says_how_long(mark: Mark) -> bool:
    """Return whether it adds nothing but time: "stay up for 3 seconds", "stay there"."""
    sense = mark.sense()
    moved = sense is not None and sense.value in (Direction.UP, Direction.DOWN)
    return mark.slot in ("number", "until_end") or moved


def postures_in(marks: Sequence[Mark]) -> set[Posture]:
    """Return the postures named; something kept "up" is high."""
    found = set()
    for mark in marks:
        sense = mark.sense()
        if sense is not None and sense.slot == "posture":
            found.add(Posture(sense.value))
        elif sense is not None and sense.value == Direction.UP:
            found.add(Posture.HIGH)
    return found


def held_kind(mark: Mark, part: str | None, acts: bool) -> tuple[LimitKind | None, Amount | None]:
    """Return the limit that keeping this makes, while something else is done or not."""
    if is_height(mark, part) and mark.reading is not None and mark.reading.amount is not None:
        low = mark.reading.amount.rule == "at_most"
        return (LimitKind.LOW_HEIGHT if low else LimitKind.KEEP_HEIGHT), mark.reading.amount
    sense = mark.sense() or mark.sense(Verb.STAND)
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


def implied_verb(mark: Mark) -> Verb | None:
    """Return the verb a word implies where there is none."""
    sense = mark.sense()
    if mark.reading is not None and mark.reading.amount is not None:
        units = {"m/s": Verb.GO, "turns": Verb.TURN, "rad": Verb.TURN, "rad/s": Verb.TURN}
        return units.get(mark.reading.amount.unit)
    if sense is None:
        return None
    if sense.slot == "direction":
        turning = sense.value in (Direction.CLOCKWISE, Direction.COUNTERCLOCKWISE)
        still = sense.value in (Direction.IN_PLACE, Direction.UP, Direction.DOWN)
        return Verb.TURN if turning else None if still else Verb.GO
    if sense.slot == "posture":
        return Verb.STAND
    return Verb.GO if sense.says.get("dimension") == "speed" else None
