"""Findings: named remarks with numbers, for a person or a program to act on."""

from __future__ import annotations

from pydantic import Field

from telic.core.config import Record


class Finding(Record):
    """One thing worth knowing about a reward; training may start all the same."""

    name: str = Field(description="stable name of the kind of finding, e.g. looped")
    message: str = Field(description="what was seen, with numbers, and what to do")
    values: dict[str, float] = Field(default_factory=dict, description="the numbers")
