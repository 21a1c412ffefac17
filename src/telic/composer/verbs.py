"""Verbs beside verbs: which one is meant, and which only helps it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from telic.composer.frames import Verb
from telic.composer.scan import Mark


def is_acting(mark: Mark) -> bool:
    """Return whether a mark is a verb that does something rather than keeps something."""
    return mark.slot == "verb" and not _says(mark, "holder")


def as_verb(mark: Mark, verb: Verb) -> Mark:
    """Return a verb that keeps something as what it means there: "keep" a pole is balance it."""
    sense = replace(mark.senses[0], value=str(verb), says={"until_end": True})
    return replace(mark, senses=(sense,))


def merge(verbs: list[Mark]) -> tuple[list[Mark], list[Mark]]:
    """Return the verbs of a clause that are meant, and those that gave way to them.

    "keep running", "move by hopping", "walk in a circle" and "stop walking" are one verb each.
    """
    kept = [mark for mark in verbs if not _says(mark, "holder") and not _says(mark, "weak")]
    kept = [mark for mark in kept if not _is_landing(mark)] or kept[:1]
    kept = kept or [mark for mark in verbs if is_acting(mark)][:1]
    first, *others = kept
    rest = [mark for mark in others if mark.senses != first.senses]
    if _verb(first) == Verb.STOP:
        rest = []
    elif rest and _verb(rest[0]) == Verb.CIRCLE and _verb(first) in (Verb.GO, Verb.TURN):
        first, rest = _going_round(first, rest[0]), rest[1:]
    helping = [mark for mark in verbs if mark is not kept[0] and mark not in rest]
    return [_helped(first, helping), *rest], helping


def _helped(mark: Mark, helping: list[Mark]) -> Mark:
    """Return a verb with what its helpers add: "keep" that it lasts, "end up" that it is last."""
    sense = mark.senses[0]
    added: dict[str, Any] = {}
    if any(_says(each, "holder") for each in helping):
        added["until_end"] = True
    if any(_is_landing(each) for each in helping):
        added["sequel"] = True
    return replace(mark, senses=(replace(sense, says={**sense.says, **added}),))


def _going_round(going: Mark, circle: Mark) -> Mark:
    """Return "walk in a circle" as one verb; turning in a circle stays turning."""
    value = circle.senses[0].value if _verb(going) == Verb.GO else going.senses[0].value
    says = {**circle.senses[0].says, **going.senses[0].says}
    sense = replace(circle.senses[0], value=value, says=says)
    return replace(circle, at=(*going.at, *circle.at), senses=(sense,))


def _verb(mark: Mark) -> Verb:
    return Verb(mark.senses[0].value)


def _says(mark: Mark, key: str) -> bool:
    return bool(mark.senses[0].says.get(key))


def _is_landing(mark: Mark) -> bool:
    return _verb(mark) == Verb.STAND and _says(mark, "sequel")
