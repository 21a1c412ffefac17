"""Conditions that a program can check: a metric, or the gain, compared with a number."""

from __future__ import annotations

import operator
import re
from typing import NamedTuple

GAIN = "gain"
"""what a condition calls the primary metric's lead over the incumbent on the same seeds"""
_FORM = re.compile(r"\s*(\S+)\s*(<=|>=|<|>)\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*")
_COMPARE = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


class Condition(NamedTuple):
    """E.g. `success < 0.6` or `gain < 0.02`."""

    what: str
    """a metric, or GAIN"""
    comparison: str
    number: float

    def holds(self, value: float) -> bool:
        """Say whether a value meets it."""
        return _COMPARE[self.comparison](value, self.number)


def read_condition(text: str) -> Condition | None:
    """Return what a text says, where it is a condition; None for any other words."""
    found = _FORM.fullmatch(text)
    return None if found is None else Condition(found[1], found[2], float(found[3]))
