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
    """Single action. Frames of one phase are simultaneous, and phases are sequential."""

    verb: Act
    word: str = Field(description="source word of the intent")
    gait: str | None = Field(default=None, description="run, walk, trot, ...; for locomotion")
    direction: Direction | None = None
    degree: Degree | None = None
    dimension: str | None = Field(
        default=None,
        description="dimension of the degree or amount: speed, height, distance, turning, energy, "
        "duration or count",
    )
    amount: Amount | None = None
    bounds: tuple[Amount, ...] = Field(default=(), description="bounds of a given range")
    count: int | None = None
    count_rule: AmountRule = Field(default="about", description="number of times, or a bound")
    duration_s: float | None = None
    period_s: float | None = Field(default=None, description="period of a repetition, s")
    until_end: bool = Field(default=False, description="continue until the episode ends")
    ground: TerrainKind | None = Field(default=None, description="terrain; flat if None")
    hardest: float | None = Field(
        default=None, description="difficulty of the hardest field; default if None"
    )
    part: str | None = Field(default=None, description='everyday name: "torso", "front legs"')
    bodies: tuple[str, ...] = Field(
        default=(), description="bodies of this environment; empty if there are none"
    )
    postures: tuple[Posture, ...] = ()
    styles: tuple[Style, ...] = ()
    factor: float | None = Field(
        default=None, description="factor relative to the verb's default: 0.5 is half as fast"
    )
    bows: bool = Field(default=False, description="return to the initial pose: a bow, not a lean")
    is_change: bool = Field(default=False, description="the amount is relative: 5 cm lower")
    heading: float | None = Field(
        default=0.0,
        description="heading at this point, degrees to the left of the start; None if unknown",
    )
    is_of_start: bool = Field(
        default=False, description="the direction refers to the start, not to the body"
    )
    at_once: bool = Field(default=False, description="simultaneous with the previous action")
    phase: int = Field(default=0, description="index of the phase, from 0")

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
        """Stated angle in turns times the count, or the count alone."""
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
    words: str = Field(description="source words of the intent")
    part: str | None = Field(default=None, description="body part that it refers to")
    bodies: tuple[str, ...] = Field(default=(), description="bodies of this environment")


class WordClaim(Record):
    """Words that fill a slot of a frame or define a limit, and that a criterion must cover."""

    words: str
    at: tuple[int, ...] = Field(description="positions of the words among the tokens")
    slot: str = Field(description="verb, direction, degree, amount, ..., or limit")
    value: str = Field(default="", description="meaning of the words in that slot")
    dimension: str | None = Field(default=None, description="dimension of a degree, if stated")
    index: int = Field(default=0, description="index of the frame or limit")
    judged_as: str = Field(
        default="", description="interpretation, if it is more specific than the words"
    )


class ParsedIntent(Record):
    """Parsed intent, in which every word is used, ignored on purpose or not understood."""

    intent: str
    frames: tuple[Frame, ...]
    limits: tuple[Limit, ...]
    not_understood: tuple[str, ...]
    claims: tuple[WordClaim, ...] = Field(default=(), description="words by slot")
    unknown: tuple[tuple[int, str], ...] = Field(
        default=(), description="words not understood, with their positions"
    )
    unread: tuple[str, ...] = Field(
        default=(), description="words not understood, as quoted to users"
    )
    corrected: tuple[str, ...] = Field(
        default=(), description="descriptions of corrected typing errors"
    )
    lost: tuple[str, ...] = Field(
        default=(), description="words in verb position without a meaning"
    )
