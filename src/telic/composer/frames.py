"""Records of a parsed intent: frames, limits and word claims.

Forward is +x and left is +y, as everywhere in telic.
"""

import math
from dataclasses import dataclass, field
from typing import Literal

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


_WAYS = ("forward", "left", "up", "clockwise"), ("backward", "right", "down", "counterclockwise")
OPPOSITE = dict(zip((*_WAYS[0], *_WAYS[1]), (*_WAYS[1], *_WAYS[0]), strict=True))


@dataclass(frozen=True, slots=True)
class Amount:
    """Number converted to SI units, turns or a fraction."""

    value: float
    unit: Unit
    rule: AmountRule


NEAR = {"rad": 0.14, "m": 0.05, "m/s": 0.1, "rad/s": 0.1}
"""tolerance around a value to hold without a stated one (8 degrees)"""


@dataclass(frozen=True, slots=True)
class Held:
    """Quantity to be held between two values, of one or several bodies or joints."""

    name: str
    quantity: str
    low: float
    high: float
    unit: str
    of: tuple[str, ...] = ()
    """arguments of the quantity; a second body is the reference of a height"""
    zero: float = 0.0
    sign: int = 1
    """the value is `sign` times the quantity minus `zero`, such as the flexion of a joint"""
    is_size: bool = False
    """whether the value is the size of the quantity"""
    is_peak: bool = False
    """whether the highest value of the episode is meant"""
    is_always: bool = field(default=False, compare=False)
    """whether it must hold throughout the episode"""


@dataclass(frozen=True, slots=True)
class Frame:
    """Single action. The frames of a phase are simultaneous, and the phases are sequential."""

    verb: Act
    word: str
    """word of the intent"""
    gait: str | None = None
    """gait of locomotion, such as run or trot"""
    direction: Direction | None = None
    degree: Degree | None = None
    dimension: str | None = None
    """of the degree or amount: speed, height, distance, turning, energy, duration or count"""
    amount: Amount | None = None
    bounds: tuple[Amount, ...] = ()
    pace: Amount | None = None
    """speed at which the distance of `amount` is traveled"""
    count: int | None = None
    count_rule: AmountRule = "about"
    duration_s: float | None = None
    period_s: float | None = None
    """period of a repetition in s"""
    within_s: float | None = None
    until_end: bool = False
    """continue until the episode ends"""
    ground: TerrainKind | None = None
    hardest: float | None = None
    """difficulty of the hardest terrain, or None for the default"""
    part: str | None = None
    """everyday name such as "front legs" """
    bodies: tuple[str, ...] = ()
    """bodies of this environment, or empty if there are none"""
    postures: tuple[Posture, ...] = ()
    styles: tuple[Style, ...] = ()
    factor: float | None = None
    """factor relative to the verb's default, e.g. 0.5 for half as fast"""
    bows: bool = False
    """whether a lean returns, like a bow"""
    is_change: bool = False
    """whether the amount is relative"""
    heading: float | None = 0.0
    """heading in degrees left of the initial heading, or None"""
    is_of_start: bool = False
    """whether directions refer to the start, not to the body"""
    point: tuple[float, float | None] | None = None
    """coordinates of the destination in m, relative to the initial position"""
    held: tuple[Held, ...] = ()
    at_once: bool = False
    """simultaneous with the previous frame"""
    phase: int = 0

    def given(self, unit: Unit) -> float | None:
        """Return the stated amount if it has the given unit, else None."""
        return self.amount.value if self.amount and self.amount.unit == unit else None

    @property
    def tolerances(self) -> list[float]:
        """Distances of the stated bounds from the amount, as fractions of it."""
        amount = self.amount.value if self.amount else 0.0
        return [abs(bound.value / amount - 1.0) for bound in self.bounds if amount]

    @property
    def turns(self) -> float | None:
        """Given angle in turns."""
        angle = self.given("rad")
        return self.given("turns") if angle is None else angle / (2.0 * math.pi)

    @property
    def all_turns(self) -> float | None:
        """Stated angle in turns times the count, or only the count."""
        count = None if self.count is None else float(self.count)
        return count if self.turns is None else self.turns * (count or 1.0)

    @property
    def bearing(self) -> float | None:
        """Direction of the destination in degrees left of the initial heading."""
        point = self.point
        return None if point is None else math.degrees(math.atan2(point[1] or 0.0, point[0]))

    @property
    def way_m(self) -> float | None:
        """Given distance in meters."""
        if self.point is not None:
            return math.hypot(self.point[0], self.point[1] or 0.0)
        return None if self.dimension == "height" else self.given("m")


@dataclass(frozen=True, slots=True)
class Limit:
    """Condition that must hold throughout the episode."""

    kind: LimitKind
    words: str
    amount: Amount | None = None
    part: str | None = None
    """body part to which it applies"""
    bodies: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WordClaim:
    """Words that fill a slot of a frame or define a limit, and that a criterion must cover."""

    words: str
    at: tuple[int, ...]
    """positions of the words among the tokens"""
    slot: str
    """slot, such as verb or amount, or limit"""
    index: int
    """index of the frame or limit"""
    value: str = ""
    """meaning of the words in that slot"""
    dimension: str | None = None
    """dimension of a degree, if stated"""
    judged_as: str = ""
    """interpretation, if it is more specific than the words"""


@dataclass(frozen=True, slots=True)
class ParsedIntent:
    """Parsed intent, in which every word is used, deliberately ignored or not understood."""

    intent: str
    frames: tuple[Frame, ...]
    limits: tuple[Limit, ...]
    claims: tuple[WordClaim, ...]
    """words with the slots they fill"""
    unknown: tuple[tuple[int, str], ...]
    """words that are not understood, with their positions"""
    unread: tuple[str, ...]
    """words that are not understood, as quoted to users"""
    corrected: tuple[str, ...]
    """descriptions of corrected typos"""
    lost: tuple[str, ...]
    """words in verb position without a meaning"""
    omitted: frozenset[int] = frozenset()
    """positions of words that are not parsed"""
