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
    """Number converted to SI units, turns or a fraction."""

    value: float
    unit: Unit
    rule: AmountRule


class Frame(Record):
    """Single action. The frames of a phase are simultaneous, and the phases are sequential."""

    verb: Act
    word: str = Field(description="word of the intent")
    gait: str | None = Field(default=None, description="gait of locomotion, such as run or trot")
    direction: Direction | None = None
    degree: Degree | None = None
    dimension: str | None = Field(
        default=None,
        description="dimension of the degree or amount: speed, height, distance, turning, energy, "
        "duration or count",
    )
    amount: Amount | None = None
    bounds: tuple[Amount, ...] = Field(default=(), description="bounds of a range")
    count: int | None = None
    count_rule: AmountRule = Field(default="about", description="comparison for the count")
    duration_s: float | None = None
    period_s: float | None = Field(default=None, description="period of a repetition in s")
    until_end: bool = Field(default=False, description="continue until the episode ends")
    ground: TerrainKind | None = Field(default=None, description="terrain, or None if flat")
    hardest: float | None = Field(
        default=None, description="difficulty of the hardest terrain, or None for the default"
    )
    part: str | None = Field(default=None, description='everyday name such as "front legs"')
    bodies: tuple[str, ...] = Field(
        default=(), description="bodies of this environment, or empty if there are none"
    )
    postures: tuple[Posture, ...] = ()
    styles: tuple[Style, ...] = ()
    factor: float | None = Field(
        default=None, description="factor relative to the verb's default, e.g. 0.5 for half as fast"
    )
    bows: bool = Field(default=False, description="whether a lean returns, like a bow")
    is_change: bool = Field(default=False, description="whether the amount is relative")
    heading: float | None = Field(
        default=0.0,
        description="heading in degrees to the left of the start, or None if unknown",
    )
    is_of_start: bool = Field(
        default=False, description="whether the direction refers to the start, not to the body"
    )
    at_once: bool = Field(default=False, description="simultaneous with the previous one")
    phase: int = Field(default=0, description="index of the phase, from 0")

    def given(self, unit: Unit) -> float | None:
        """Return the stated amount if it has this unit, else None."""
        return self.amount.value if self.amount and self.amount.unit == unit else None

    @property
    def turns(self) -> float | None:
        """Given angle in turns."""
        angle = self.given("rad")
        return self.given("turns") if angle is None else angle / (2.0 * math.pi)

    @property
    def all_turns(self) -> float | None:
        """Given angle in turns times the count, or the count alone."""
        count = None if self.count is None else float(self.count)
        return count if self.turns is None else self.turns * (count or 1.0)

    @property
    def way_m(self) -> float | None:
        """Given distance in meters."""
        return None if self.dimension == "height" else self.given("m")


class Limit(Record):
    """Condition that must hold throughout the episode."""

    kind: LimitKind
    amount: Amount | None = Field(default=None, description="value of the limit, if given")
    words: str = Field(description="words of the intent")
    part: str | None = Field(default=None, description="body part to which it applies")
    bodies: tuple[str, ...] = Field(default=(), description="bodies of this environment")


class WordClaim(Record):
    """Words that fill a slot of a frame or define a limit, and that a criterion must cover."""

    words: str
    at: tuple[int, ...] = Field(description="positions of the words among the tokens")
    slot: str = Field(description="slot, such as verb or amount, or limit")
    value: str = Field(default="", description="meaning of the words in that slot")
    dimension: str | None = Field(default=None, description="dimension of a degree, if stated")
    index: int = Field(default=0, description="index of the frame or limit")
    judged_as: str = Field(
        default="", description="interpretation, if it is more specific than the words"
    )


class ParsedIntent(Record):
    """Parsed intent, in which every word is used, deliberately ignored or not understood."""

    intent: str
    frames: tuple[Frame, ...]
    limits: tuple[Limit, ...]
    not_understood: tuple[str, ...]
    claims: tuple[WordClaim, ...] = Field(default=(), description="words with the slots they fill")
    unknown: tuple[tuple[int, str], ...] = Field(
        default=(), description="words that are not understood, with their positions"
    )
    unread: tuple[str, ...] = Field(
        default=(), description="words that are not understood, as quoted to users"
    )
    corrected: tuple[str, ...] = Field(default=(), description="descriptions of corrected typos")
    lost: tuple[str, ...] = Field(
        default=(), description="words in verb position without a meaning"
    )
