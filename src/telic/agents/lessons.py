"""Graded lessons: what later revisions should keep to. Kept apart so that reading is light."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from telic.core.config import Record

Tier = Literal["hard", "strong", "soft", "retired"]


class Lesson(Record):
    """Something learned that later revisions should keep to."""

    text: str = Field(min_length=1, description="one sentence, true beyond this one iteration")
    tier: Tier = Field(
        default="strong",
        description="hard: never go against it; strong: keep to it; soft: may be challenged; "
        "retired: found wrong, kept so that it is not found again",
    )
