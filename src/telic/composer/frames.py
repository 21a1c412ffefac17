"""Records of a parsed intent: frames, limits and word claims.

Forward is +x and left is +y, as everywhere in telic.
"""

from __future__ import annotations

import math
from typing import Literal

from pydantic import Field

from telic.core.config import Record
from telic.robots.terrain import TerrainKind

Unit = Literal["m/s", "m", "turns", "times", "s", "share", "rad", "rad/s", "steps"]
AmountRule = Literal["at_least", "at_most", "about"]
# Each value is a heading of the table in `tables/` that lists its words.
Act = str
Direction = str
Degree = str
Posture = str
Style = str
LimitKind = str


_PAIRS = (
    ("forward", "backward"),
    ("left", "right"),
    ("up", "down"),
    ("clockwise", "counterclockwise"),
)
OPPOSITE = dict(_PAIRS) | {other: one for one, other in _PAIRS}


class Amount(Record):
    """Number with a unit, converted to SI units, turns or a fraction."""

    value: float
    unit: Unit
    rule: AmountRule


class Frame(Record):
    """One action. Frames of the same phase are simultaneous; phases are sequential."""

    verb: Act
    word: str = Field(description="the word of the intent it was read from")
    gait: str | None = Field(default=None, description="run, walk, trot, ...; for ways of going")
    direction: Direction | None = None
    degree: Degree | None = None
    dimension: str | None = Field(
        default=None,
        description="what the degree or amount is about: speed, height, distance, turning, "
        "energy, duration or count",
    )
    amount: Amount | None = None
    bounds: tuple[Amount, ...] = Field(default=(), description="both ends of a given range")
    count: int | None = None
    count_rule: AmountRule = Field(default="about", description="that often, or more, or less")
    duration_s: float | None = None
    period_s: float | None = Field(default=None, description="to be done once in so many seconds")
    until_end: bool = Field(default=False, description="to be kept up until the episode ends")
    ground: TerrainKind | None = Field(default=None, description="what it goes over; None: flat")
    hardest: float | None = Field(
        default=None, description="how hard the hardest of that ground is; None: as usual"
    )
    part: str | None = Field(default=None, description='everyday name: "torso", "front legs"')
    bodies: tuple[str, ...] = Field(
        default=(), description="bodies of this environment the part is; empty: it has none"
    )
    postures: tuple[Posture, ...] = ()
    styles: tuple[Style, ...] = ()
    factor: float | None = Field(
        default=None, description="in parts of what the verb means by itself: 0.5 is half as fast"
    )
    bows: bool = Field(default=False, description="it comes up again: a bow, not a lean")
    is_change: bool = Field(default=False, description="the amount is a change: 5 cm lower")
    heading: float | None = Field(
        default=0.0,
        description="degrees to the left of the start that the body faces by then; None: unknown",
    )
    is_of_start: bool = Field(
        default=False, description="its direction is seen from the start, not from the body"
    )
    at_once: bool = Field(
        default=False, description="to be done at the same time as the action before it"
    )
    phase: int = Field(default=0, description="place in the sequence, from 0")

    def given(self, unit: Unit) -> float | None:
        """Return the stated amount if it has this unit, else None."""
        return self.amount.value if self.amount and self.amount.unit == unit else None

    @property
    def turns(self) -> float | None:
        """Stated angle in turns."""
        angle = self.given("rad")
        return self.given("turns") if angle is None else angle / (2.0 * math.pi)

    @property
    def all_turns(self) -> float | None:
        """Stated angle in turns, times the count; or the count alone."""
        count = None if self.count is None else float(self.count)
        return count if self.turns is None else self.turns * (count or 1.0)

    @property
    def way_m(self) -> float | None:
        """Stated distance in metres."""
        return None if self.dimension == "height" else self.given("m")


class Limit(Record):
    """Condition to keep throughout the episode."""

    kind: LimitKind
    amount: Amount | None = Field(default=None, description="limit value, if given")
    words: str = Field(description="the words of the intent it was read from")
    part: str | None = Field(default=None, description="what it is about, where it is a part")
    bodies: tuple[str, ...] = Field(default=(), description="bodies of this environment that it is")


class WordClaim(Record):
    """Words that fill a slot of a frame or define a limit, to be covered by a criterion."""

    words: str
    at: tuple[int, ...] = Field(description="places of the words among the tokens")
    slot: str = Field(description="verb, direction, degree, amount, ..., or limit")
    value: str = Field(default="", description="what the words mean in that slot")
    dimension: str | None = Field(default=None, description="what a degree is about, if it says so")
    index: int = Field(default=0, description="which frame, or which limit")
    judged_as: str = Field(
        default="", description="what these words are judged as, where they say more than that"
    )


class ParsedIntent(Record):
    """Parsed intent. Every word is used, ignored on purpose or not understood."""

    intent: str
    frames: tuple[Frame, ...]
    limits: tuple[Limit, ...]
    not_understood: tuple[str, ...]
    claims: tuple[WordClaim, ...] = Field(default=(), description="which words fill which slot")
    unknown: tuple[tuple[int, str], ...] = Field(
        default=(), description="what was not understood, each word with its place"
    )
    unread: tuple[str, ...] = Field(
        default=(), description="what was not understood, as one would quote it"
    )
    corrected: tuple[str, ...] = Field(
        default=(), description="typing errors that were undone, in words"
    )
    lost: tuple[str, ...] = Field(
        default=(), description="words where a verb should be, of which nothing was made"
    )
