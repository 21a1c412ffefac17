"""Print facts and tables to the terminal, with control characters escaped.

This module is separate from `_output` so that commands that print JSON do not import rich.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment
from rich.table import Table

from telic.core.text import number, printable

_PIPED_WIDTH = 120


class PlainConsole(Console):
    """Console that escapes control characters in names and file contents.

    Colors and cursor moves are separate segments. Control characters within text are escaped.
    """

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Render an object as segments that contain only printable text."""
        for segment in super().render(renderable, options):
            text = segment.text if segment.control else printable(segment.text)
            yield segment if text is segment.text else Segment(text, segment.style)


console = PlainConsole(highlight=False)
errors = PlainConsole(stderr=True, highlight=False)
if not console.is_terminal:  # a file or pipe has no width; 80 would wrap names
    console.width = _PIPED_WIDTH


def print_facts(facts: Mapping[str, Any]) -> None:
    """Print `key: value` lines, which are readable and easy to grep."""
    width = max(map(len, facts), default=0) + 1
    for key, value in facts.items():
        if value is not None:
            console.print(f"[bold]{key + ':':<{width}}[/] {_one_line(str(value))}", soft_wrap=True)


def _one_line(text: str) -> str:
    """Return a text on one line, so that it cannot imitate other lines, with markup escaped."""
    return escape(" ".join(text.splitlines()))


def print_rows(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], title: str | None = None
) -> None:
    """Print a plain table with right-aligned numbers."""
    heading = None if title is None else escape(title)
    table = Table(title=heading, title_justify="left", box=None, pad_edge=False)
    table.header_style = "bold"
    cells = [[cell if isinstance(cell, str) else number(cell) for cell in row] for row in rows]
    for index, name in enumerate(columns):
        numeric = all(isinstance(row[index], int | float | None) for row in rows) and rows
        justify = "right" if numeric else "left"
        # The first column holds names, which are never wrapped.
        table.add_column(escape(name), justify=justify, overflow="fold", no_wrap=index == 0)
    for row in cells:
        table.add_row(*map(_one_line, row))
    console.print(table)
