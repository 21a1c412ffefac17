"""A piece of an intent with a meaning: what it says, and where it stands."""

from __future__ import annotations

from dataclasses import dataclass

from telic.composer.amounts import Reading
from telic.composer.frames import Amount, LimitKind
from telic.composer.parts import BodyPart
from telic.composer.words import Sense


@dataclass(frozen=True, slots=True)
class Mark:
    """A piece of the text with a meaning; `slot` says which of the others is filled."""

    slot: str
    at: tuple[int, ...]
    senses: tuple[Sense, ...] = ()
    reading: Reading | None = None
    part: BodyPart | None = None
    limit: LimitKind | None = None
    amount: Amount | None = None

    @property
    def end(self) -> int:
        """Place after its last word."""
        return self.at[-1] + 1

    def sense(self, verb: str | None = None) -> Sense | None:
        """Return what it means beside a verb; meanings for that verb alone come first."""
        suited = [sense for sense in self.senses if sense.suits(verb)]
        return max(suited, key=lambda each: "verbs" in each.says, default=None)

    def is_join(self, *values: str) -> bool:
        """Return whether it is one of these joining words."""
        return any(sense.slot == "join" and sense.value in values for sense in self.senses)


def is_acting(mark: Mark) -> bool:
    """Return whether a mark is a verb that does something rather than keeps something."""
    return mark.slot == "verb" and not says(mark, "holder")


def says(mark: Mark, key: str) -> bool:
    """Return whether a verb says something besides."""
    return bool(mark.senses[0].says.get(key))
