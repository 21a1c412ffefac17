"""What a score rests on: what was seen, and where two judges differ."""

from __future__ import annotations

from telic.core.config import Record

WHOLE = "the whole intent"
"""stands for the episode as such where a criterion is named"""


class Seen(Record):
    """What the vision judge saw of one criterion in one episode."""

    criterion: str
    score: float | None
    """median of the answers, 0 to 1 in steps of 0.1; None: it cannot be seen"""
    answers: tuple[float | None, ...]
    """every answer, when it was asked repeatedly"""
    start_s: float | None
    end_s: float | None
    """where in the episode it was seen; None: nowhere in particular, or there is no clock"""
    evidence: str


class Measured(Record):
    """A quantity over a part of an episode, computed from the recording."""

    quantity: str
    unit: str
    start_s: float
    end_s: float
    first: float
    last: float
    mean: float
    lowest: float
    highest: float


class Disagreement(Record):
    """A criterion on which code and vision differ by more than the margin."""

    criterion: str
    code: float
    vision: float
    margin: float
    start_s: float | None
    end_s: float | None
    """part of the episode in dispute, as the vision judge gave it"""
    measured: str
    """what the code judge rests on"""
    seen: str
    """what the vision judge rests on"""
    check: Measured | None = None
    """a quantity over the disputed part"""
    asked_again: float | None = None
    """vision's score after a second, closer look; None: not asked, or it could not be seen"""
    resolved: bool = False
    """whether they agree after that look"""
