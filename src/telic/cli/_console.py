"""The terminal: consoles that obey nothing they show, facts and tables.

Apart from `output`, so that a command that prints JSON loads nothing that draws.
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
    """A console that shows what a name or a file holds and never obeys it.

    Colours and cursor moves are segments of their own; in text, what a terminal would obey is
    written out.
    """

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Yield the segments of something, their text made printable."""
        for segment in super().render(renderable, options):
            text = segment.text if segment.control else printable(segment.text)
            yield segment if text is segment.text else Segment(text, segment.style)


console = PlainConsole(highlight=False)
errors = PlainConsole(stderr=True, highlight=False)
if not console.is_terminal:  # a file or a pipe has no width; 80 would break names apart
    console.width = _PIPED_WIDTH


def print_facts(facts: Mapping[str, Any]) -> None:
    """Print `key: value` lines that a person reads and a script can grep."""
    width = max(map(len, facts), default=0) + 1
    for key, value in facts.items():
        if value is not None:
            console.print(f"[bold]{key + ':':<{width}}[/] {escape(str(value))}", soft_wrap=True)


def print_rows(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], title: str | None = None
) -> None:
    """Print a plain table; numbers go to the right."""
    heading = None if title is None else escape(title)
    table = Table(title=heading, title_justify="left", box=None, pad_edge=False)
    table.header_style = "bold"
    cells = [[cell if isinstance(cell, str) else number(cell) for cell in row] for row in rows]
    for index, name in enumerate(columns):
        numeric = all(isinstance(row[index], int | float | None) for row in rows) and rows
        justify = "right" if numeric else "left"
        # The first column holds names, which are never broken.
        table.add_column(escape(name), justify=justify, overflow="fold", no_wrap=index == 0)
    for row in cells:
        table.add_row(*map(escape, row))
    console.print(table)
