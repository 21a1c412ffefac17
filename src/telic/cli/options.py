"""Options that several commands share, and how their values are read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from telic.errors import ConfigError

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
RunsDir = Annotated[
    Path, typer.Option("--runs-dir", help="Folder of runs.", envvar="TELIC_RUNS_DIR")
]
Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks.", hidden=True)]
RunName = Annotated[
    str,
    typer.Argument(help="Run: its id, the start of one, a path, or 'latest'.", show_default=True),
]
MemberName = Annotated[
    str | None, typer.Option("--member", "-m", help="Member of the run; the best one if left out.")
]

RUNS = Path("runs")


def pairs(given: Sequence[str], option: str) -> dict[str, Any]:
    """Read repeated `name=value` options."""
    from telic.core.config import read_value

    out: dict[str, Any] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals or not name:
            raise ConfigError(
                f'{option} "{each}" is not understood.', hint=f"Write {option} name=value."
            )
        out[name.strip()] = read_value(value)
    return out


def integers(text: str, option: str) -> list[int]:
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
    return out


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
