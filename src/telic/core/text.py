"""How numbers are written for people, everywhere the same; a missing one is a dash."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

MISSING = "–"
_BLOCKS = "▁▂▃▄▅▆▇█"


def number(value: float | None, digits: int = 4, missing: str = MISSING) -> str:
    """Return a number in few digits: 0.1235, 12,345, yes."""
    if value is None:
        return missing
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


def figure(value: float | None, digits: int = 3) -> str:
    """Return a number as a report prints it: three digits, a true minus."""
    return number(value, digits).replace("-", "−")


def signed(value: float | None) -> str:
    """Return a difference with its sign: +0.196, −0.02."""
    return MISSING if value is None else f"{value:+.3g}".replace("-", "−")


def span(ends: Sequence[float] | None) -> str:
    """Return an interval: 0.77 to 0.79."""
    return MISSING if ends is None else f"{figure(ends[0])} to {figure(ends[1])}"


def percent(share: float | None) -> str:
    """Return a share: 45%."""
    return MISSING if share is None else f"{share:.0%}"


def duration(seconds: float | None, missing: str = MISSING) -> str:
    """Return a time span: 12.3 s, 4 min 05 s, 2 h 05 min."""
    if seconds is None:
        return missing
    if seconds < 60.0:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def money(usd: float | None) -> str:
    """Return a price: $0.25, $0.0012, unknown."""
    if usd is None:
        return "unknown"
    return f"${usd:.2f}" if usd >= 0.1 or usd == 0 else f"${usd:.4f}"


def count(value: int, word: str) -> str:
    """Return a number of things: 1 iteration, 2 iterations."""
    return f"{value:,} {word}{'' if value == 1 else 's'}"


def sparkline(values: Sequence[float | None], width: int = 40) -> str:
    """Return a series as a row of blocks."""
    present = [value for value in values if value is not None]
    if not present:
        return ""
    if len(present) > width:
        edges = [round(i * len(present) / width) for i in range(width + 1)]
        present = [sum(present[a:b]) / (b - a) for a, b in pairwise(edges)]
    low, high = min(present), max(present)
    scale = (len(_BLOCKS) - 1) / (high - low) if high > low else 0.0
    return "".join(_BLOCKS[round((value - low) * scale)] for value in present)
