"""Of several verbs in a clause one is meant: "keep running" is to run, for long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from telic.composer.frames import Act
from telic.composer.marks import Mark, is_acting, says


def as_verb(mark: Mark, verb: Act) -> Mark:
    """Return a verb that keeps something as what it means there: "keep" a pole is balance it."""
    sense = replace(mark.senses[0], value=str(verb), says={"until_end": True})
    return replace(mark, senses=(sense,))


def merge(verbs: list[Mark]) -> tuple[list[Mark], list[Mark]]:
    """Return the verbs of a clause that are meant, and those that gave way to them.

    "keep running", "move by hopping", "walk in a circle", "stop walking", "trot as commanded" and
    "come back up to a crouch" are one verb each.
    """
    kept = [mark for mark in verbs if not says(mark, "holder") and not says(mark, "weak")]
    kept = [mark for mark in kept if not _is_landing(mark)] or kept[:1]
    kept = kept or [mark for mark in verbs if is_acting(mark)][:1]
    first, *others = kept
    rest = [mark for mark in others if mark.senses != first.senses]
    if _verb(first) == Act.STOP:
        rest = [mark for mark in rest if says(mark, "turns")]  # "stop facing backward"
    elif rest and _is_plain_turn(first) and says(rest[0], "turns"):
        first, rest = _both(first, rest[0]), rest[1:]  # "turn to face left"
    elif rest and _verb(first) == Act.STAND_UP and _verb(rest[0]) == Act.SIT:
        first, rest = _both(first, rest[0]), rest[1:]  # "get up into a squat": no higher
    elif Act.OBEY in map(_verb, rest) or _verb(first) == Act.OBEY:
        first, rest = _obeying([first, *rest])
    elif rest and _verb(rest[0]) == Act.CIRCLE and _verb(first) in (Act.GO, Act.TURN):
        first, rest = _going_round(first, rest[0]), rest[1:]
    helping = [mark for mark in verbs if mark is not kept[0] and mark not in rest]
    return [_helped(first, helping), *rest], helping


def _helped(mark: Mark, helping: list[Mark]) -> Mark:
    """Return a verb with what its helpers add: "keep" that it lasts, "end up" that it is last."""
    sense = mark.senses[0]
    added: dict[str, Any] = {}
    if any(says(each, "holder") for each in helping):
        added["until_end"] = True
    if any(_is_landing(each) for each in helping):
        added["sequel"] = True
    return replace(mark, senses=(replace(sense, says={**sense.says, **added}),))


def _is_plain_turn(mark: Mark) -> bool:
    return _verb(mark) == Act.TURN and not says(mark, "turns")


def _both(one: Mark, other: Mark) -> Mark:
    """Return the second of two verbs, said by the words of both."""
    return replace(other, at=(*one.at, *other.at))


def _going_round(going: Mark, circle: Mark) -> Mark:
    """Return "walk in a circle" as one verb; turning in a circle stays turning."""
    value = circle.senses[0].value if _verb(going) == Act.GO else going.senses[0].value
    says = {**circle.senses[0].says, **going.senses[0].says}
    sense = replace(circle.senses[0], value=value, says=says)
    return replace(_both(going, circle), senses=(sense,))


def _obeying(verbs: Sequence[Mark]) -> tuple[Mark, list[Mark]]:
    """Return "trot as commanded" as one verb, and the verbs that are something else to do."""
    told = next(mark for mark in verbs if _verb(mark) == Act.OBEY)
    ways = [mark for mark in verbs if _verb(mark) in (Act.GO, Act.OBEY)]
    says = {key: value for mark in ways for key, value in mark.senses[0].says.items()}
    sense = replace(told.senses[0], says=says)
    at = tuple(sorted({place for mark in ways for place in mark.at}))
    return replace(told, at=at, senses=(sense,)), [mark for mark in verbs if mark not in ways]


def _verb(mark: Mark) -> Act:
    return Act(mark.senses[0].value)


def _is_landing(mark: Mark) -> bool:
    return _verb(mark) == Act.STAND and says(mark, "sequel")
