"""Closest known names for a name that is not known."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def closest(name: str, known: Iterable[str], at_most: int = 3) -> list[str]:
    """Return the known names most like `name`, best first, ignoring case."""
    by_lower = {each.lower(): each for each in known}
    near = difflib.get_close_matches(name.lower(), list(by_lower), n=at_most, cutoff=0.5)
    # A fragment ("cheetah") is a common way to ask; sequence similarity alone misses it.
    near += [each for each in by_lower if name.lower() in each and each not in near]
    return [by_lower[each] for each in near[:at_most]]
