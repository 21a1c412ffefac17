"""What no request may hold: numbers that are none or out of bounds, texts that are no text."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from telic.core.text import is_row, is_text
from telic.errors import ConfigError, UsageError

_LARGEST = 2.0**63
_LONGEST = 200_000
"""letters of a text that somebody gives as a word of a command"""


def check_value(
    field: str, value: Any, minimum: float | None = None, maximum: float | None = None
) -> None:
    """Raise ConfigError for a value that a field of a request cannot have.

    Args:
        field: its name.
        value: one value, or many of them as a sequence or a mapping.
        minimum: the least number it may be.
        maximum: the largest number it may be.
    """
    name = f"--{field.replace('_', '-')}"
    if isinstance(value, Mapping):
        inner = cast("Mapping[Any, Any]", value)
        value = [*inner, *inner.values()]
    for each in value if is_row(value) else (value,):
        if isinstance(each, str | Path):
            _check_text(name, str(each))
        elif isinstance(each, int | float) and not isinstance(each, bool):
            _check_number(name, each, minimum, maximum)


def check_folder(path: Path) -> None:
    """Raise UsageError for a place that can hold no runs; a folder that is not there yet can."""
    try:
        is_other = path.exists() and not path.is_dir()
    except OSError:  # a name that is too long, a folder that nobody may look into
        is_other = True
    if is_other:
        raise UsageError(
            f"{str(path)[:200]} is not a folder that can hold runs.",
            hint="Name a folder with --runs-dir; a new one is made.",
        )


def _check_text(name: str, text: str) -> None:
    if len(text) > _LONGEST:
        raise ConfigError(f"{name} is a text of {len(text):,} letters; {_LONGEST:,} are the most.")
    if not is_text(text):
        raise ConfigError(
            f'{name} "{text[:60]}" holds what is no character.',
            hint="Leave out what no name or text can have: NUL, halves of characters.",
        )


def _check_number(name: str, value: float, minimum: float | None, maximum: float | None) -> None:
    if not -_LARGEST <= value <= _LARGEST:  # NaN is in no bounds
        shown = f"{value}" if isinstance(value, float) else f"of {len(str(value)[:999])} digits"
        raise ConfigError(f"{name} {shown} is not a number to work with.")
    if minimum is not None and value < minimum:
        raise ConfigError(f"{name} {value} must be at least {minimum:g}.")
    if maximum is not None and value > maximum:
        raise ConfigError(f"{name} {value} must be at most {maximum:g}.")
