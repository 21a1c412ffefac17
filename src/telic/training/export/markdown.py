"""Numbers, tables and folds in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

MISSING = "not measured"


def number(value: float | None, missing: str = MISSING) -> str:
    """Write a number for people."""
    if value is None:
        return missing
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def interval(bounds: Sequence[float] | None) -> str:
    """Write an interval."""
    return f"{number(bounds[0])} … {number(bounds[1])}" if bounds else MISSING


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table."""
    lines = ["| " + " | ".join(columns) + " |", "|" + " --- |" * len(columns)]
    lines += ["| " + " | ".join(_cell(each) for each in row) + " |" for row in rows]
    return "\n".join(lines)


def facts(rows: Mapping[str, Any]) -> str:
    """Return a table of names and values; those that are None are left out."""
    return table(["", ""], [(name, value) for name, value in rows.items() if value is not None])


def folded(title: str, content: str) -> str:
    """Return content that opens at a click."""
    return f"<details><summary>{title}</summary>\n\n{content}\n\n</details>"


def _cell(value: Any) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return " ".join(text.replace("|", "\\|").split())
