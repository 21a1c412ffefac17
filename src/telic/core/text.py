"""Format values for display, parse command-line values, and check types.

Numbers have the same format everywhere, and a missing number is shown as a dash. After
`is_dict(value)`, the type checker treats keys and values as Any, while `isinstance(value, dict)`
leaves them unknown.
"""

from __future__ import annotations

import ast
import difflib
import json
import math
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeGuard

from telic.errors import ConfigError

MISSING = "–"
_BLOCKS = "▁▂▃▄▅▆▇█"
_MAX_NAME = 200
_MAX_NUMBERS = 10_000
_MAX_COUNT = 10**15
_MAX_BITS = 62
_MAX_DRAWN = 1e300
_MAX_DEPTH = 20
_PARSING = threading.Lock()
_ROUNDING = 1e-9
# Control characters, bidirectional and invisible marks, surrogates.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)


def number(value: float | None, digits: int = 4, missing: str = MISSING) -> str:
    """Format a number with few digits: 0.1235, 12,345, yes."""
    if value is None:
        return missing
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


def few_digits(value: float) -> str:
    """Format a measurement with three digits, rounding numerical noise to 0."""
    return "0" if abs(value) < _ROUNDING else f"{value:.3g}"


def figure(value: float | None, digits: int = 3) -> str:
    """Format a number for reports with three digits and a true minus sign."""
    return number(value, digits).replace("-", "−")


def signed(value: float | None) -> str:
    """Format a difference with its sign: +0.196, −0.02."""
    return MISSING if value is None else f"{value:+.3g}".replace("-", "−")


def span(ends: Sequence[float] | None) -> str:
    """Format an interval: 0.77 to 0.79."""
    return MISSING if ends is None else f"{figure(ends[0])} to {figure(ends[1])}"


def percent(share: float | None) -> str:
    """Format a fraction as a percentage: 45%."""
    return MISSING if share is None else f"{share:.0%}"


def duration(seconds: float | None, missing: str = MISSING) -> str:
    """Format a duration: 12.3 s, 4 min 05 s, 2 h 05 min."""
    if seconds is None:
        return missing
    if seconds < 60.0:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def money(usd: float | None) -> str:
    """Format a price: $0.25, $0.0012, unknown."""
    if usd is None:
        return "unknown"
    return f"${usd:.2f}" if usd >= 0.1 or usd == 0 else f"${usd:.4f}"


def count(value: int, word: str) -> str:
    """Format a count with its noun: 1 iteration, 2 iterations."""
    return f"{value:,} {word}{'' if value == 1 else 's'}"


def sparkline(values: Sequence[float | None], width: int = 40) -> str:
    """Format a series as a sparkline of block characters."""
    present = [value for value in values if value is not None and abs(value) < _MAX_DRAWN]
    if not present:
        return ""
    if len(present) > width:
        edges = [round(i * len(present) / width) for i in range(width + 1)]
        present = [sum(present[a:b]) / (b - a) for a, b in pairwise(edges)]
    low, high = min(present), max(present)
    scale = (len(_BLOCKS) - 1) / (high - low) if high > low else 0.0
    return "".join(_BLOCKS[round((value - low) * scale)] for value in present)


def printable(text: str) -> str:
    """Escape control characters so that terminals display them instead of executing them."""
    return _UNSEEN.sub(lambda found: ascii(found[0])[1:-1], text)


def is_text(text: str) -> bool:
    """Return whether a text can be stored, i.e. contains no NUL or surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def closest(name: str, known: Iterable[str], at_most: int = 3) -> list[str]:
    """Return the known names most similar to `name`, best first, ignoring case."""
    name = name[:_MAX_NAME]
    by_lower = {other.lower(): other for other in known}
    near = difflib.get_close_matches(name.lower(), list(by_lower), n=at_most, cutoff=0.5)
    # Sequence similarity alone misses fragments such as "cheetah", which are common.
    near += [other for other in by_lower if name.lower() in other and other not in near]
    return [by_lower[other] for other in near[:at_most]]


def read_count(text: str, option: str) -> int:
    """Parse a number of steps: 1000000, 1_000_000, 1e6 or 1M."""
    cleaned = text.strip().lower().replace("_", "").replace(",", "")
    factor = {"k": 1_000, "m": 1_000_000, "b": 1_000_000_000}.get(cleaned[-1:], 1)
    try:
        value = float(cleaned[:-1] if factor > 1 else cleaned) * factor
    except ValueError:
        raise ConfigError(f'{option} "{text}" is not a number.', hint="Try 500k or 2M.") from None
    if not math.isfinite(value) or value < 1 or value != int(value):
        raise ConfigError(f"{option} {text} must be an integer of at least 1.")
    if value > _MAX_COUNT:
        raise ConfigError(f"{option} {text} is too large.")
    return int(value)


def integer_list(text: str, option: str) -> tuple[int, ...]:
    """Parse "1,2,3" or "1-5"."""
    out: list[int] = []
    try:
        for part in text.replace(" ", "").split(","):
            first, dash, last = part.partition("-")
            start, end = int(first), int(last if dash else first)
            if end < start or end.bit_length() > _MAX_BITS:
                raise ValueError(part)
            if len(out) + end - start >= _MAX_NUMBERS:
                raise ConfigError(
                    f"{option} {text} contains more than {_MAX_NUMBERS:,} numbers.",
                    hint="Each number starts a separate run. Use fewer numbers.",
                )
            out += range(start, end + 1)
    except ValueError:
        raise ConfigError(
            f'{option} "{text}" is not a list of integers.',
            hint=f"Use {option} 1,2,3 or 1-3.",
        ) from None
    return tuple(out)


def names(text: str, option: str) -> tuple[str, ...]:
    """Parse "a,b"."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def texts(words: Sequence[str], option: str) -> dict[str, str]:
    """Parse repeated `name=text` options. Values remain text."""
    out: dict[str, str] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or not name:
            raise ConfigError(f'Invalid {option} "{word}".', hint=f"Use {option} name=value.")
        out[name.strip()] = text
    return out


def safe_name(text: str) -> str:
    """Convert a name from a user to a safe part of a file name."""
    return re.sub(r"[^\w.-]+", "_", text).lstrip(".")[:80] or "_"


def read_value(text: str) -> Any:
    """Parse a command-line value as JSON, or else as a comma-separated list, or else as text."""
    text = text.strip()
    try:
        if text.count("[") + text.count("{") <= _MAX_DEPTH:
            return json.loads(text)
    except ValueError:  # not JSON, or an integer with thousands of digits
        pass
    if text.lower() in {"true", "false", "none", "null"}:
        return {"true": True, "false": False}.get(text.lower())
    if "," in text:
        return [read_value(part) for part in text.split(",") if part.strip()]
    return text


def pairs(words: Sequence[str], option: str) -> dict[str, Any]:
    """Parse repeated `name=value` options."""
    return {name: read_value(text) for name, text in texts(words, option).items()}


def crossed(words: Sequence[str], option: str) -> tuple[dict[str, Any], ...]:
    """Parse repeated `name=a,b` options into all combinations of their values."""
    combinations: list[dict[str, Any]] = [{}]
    for name, values in pairs(words, option).items():
        choices = values if is_row(values) else [values]
        if len(combinations) * len(choices) > _MAX_NUMBERS:
            raise ConfigError(f"{option} results in more than {_MAX_NUMBERS:,} combinations.")
        combinations = [{**chosen, name: choice} for chosen in combinations for choice in choices]
    return tuple(combinations)


def is_dict(value: object) -> TypeGuard[dict[Any, Any]]:
    """Return whether a value is a dictionary."""
    return isinstance(value, dict)


def is_mapping(value: object) -> TypeGuard[Mapping[Any, Any]]:
    """Return whether a value is a mapping."""
    return isinstance(value, Mapping)


def is_row(value: object) -> TypeGuard[list[Any] | tuple[Any, ...]]:
    """Return whether a value is a list or a tuple."""
    return isinstance(value, list | tuple)


def parse_python(source: str, filename: str = "<source>", mode: str = "exec") -> Any:
    """Parse Python code in one thread at a time, since concurrent parsing fails in CPython 3.11."""
    with _PARSING:
        return ast.parse(source, filename, mode)
