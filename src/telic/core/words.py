"""How values are written on the command line: counts, seeds, and name=value."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any, cast

from telic.errors import ConfigError


def closest(name: str, known: Iterable[str], at_most: int = 3) -> list[str]:
    """Return the known names most like `name`, best first, ignoring case."""
    by_lower = {other.lower(): other for other in known}
    near = difflib.get_close_matches(name.lower(), list(by_lower), n=at_most, cutoff=0.5)
    # A fragment ("cheetah") is a common way to ask; sequence similarity alone misses it.
    near += [other for other in by_lower if name.lower() in other and other not in near]
    return [by_lower[other] for other in near[:at_most]]


def count(text: str, option: str) -> int:
    """Read a number of steps: 1000000, 1_000_000, 1e6 or 1M."""
    cleaned = text.strip().lower().replace("_", "").replace(",", "")
    factor = {"k": 1_000, "m": 1_000_000, "b": 1_000_000_000}.get(cleaned[-1:], 1)
    try:
        value = float(cleaned[:-1] if factor > 1 else cleaned) * factor
    except ValueError:
        raise ConfigError(f'{option} "{text}" is not a number.', hint="Try 500k or 2M.") from None
    if value < 1 or value != int(value):
        raise ConfigError(f"{option} {text} must be a whole number of at least 1.")
    return int(value)


def integers(text: str, option: str) -> tuple[int, ...]:
    """Read "1,2,3" or "1-5"."""
    out: list[int] = []
    try:
        for part in text.replace(" ", "").split(","):
            first, dash, last = part.partition("-")
            out += range(int(first), int(last) + 1) if dash else [int(part)]
    except ValueError:
        raise ConfigError(
            f'{option} "{text}" is not a list of whole numbers.',
            hint=f"Write {option} 1,2,3 or 1-3.",
        ) from None
    return tuple(out)


def names(text: str, option: str) -> tuple[str, ...]:
    """Read "a,b"."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def texts(words: Sequence[str], option: str) -> dict[str, str]:
    """Read repeated `name=text` options; the text stays text."""
    out: dict[str, str] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or not name:
            raise ConfigError(
                f'{option} "{word}" is not understood.', hint=f"Write {option} name=value."
            )
        out[name.strip()] = text
    return out


def pairs(words: Sequence[str], option: str) -> dict[str, Any]:
    """Read repeated `name=value` options."""
    from telic.core.config import read_value

    return {name: read_value(text) for name, text in texts(words, option).items()}


def crossed(words: Sequence[str], option: str) -> tuple[dict[str, Any], ...]:
    """Read repeated `name=a,b` options as every combination of their values."""
    combinations: list[dict[str, Any]] = [{}]
    for name, values in pairs(words, option).items():
        choices = cast("list[Any]", values) if isinstance(values, list) else [values]
        combinations = [{**chosen, name: choice} for chosen in combinations for choice in choices]
    return tuple(combinations)
