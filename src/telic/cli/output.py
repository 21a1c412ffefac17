"""How the command line speaks: one JSON document, or readable text that can be grepped."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

import typer
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment
from rich.table import Table

from telic.core.text import count, number, printable
from telic.errors import TelicError

if TYPE_CHECKING:
    from telic.core.events import ProbeFinding, TrainFinding  # all events, which few commands need

_PIPED_WIDTH = 120
_WHOLE_WORD = (14, 11, 9, 7)
"""letters of a word that the columns of a table keep together, if there is room"""
_VIEWS: dict[str, Callable[[Any], None]] = {}
_VIEW_MODULES = (
    "work_results",
    "label_results",
    "tool_results",
    "motion_results",
    "track_results",
    "study_views",
    "study_run_views",
)


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


def print_json(value: Any) -> None:
    """Print one JSON document and nothing else."""
    sys.stdout.write(json.dumps(value, indent=2, default=str) + "\n")


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
    for index, (name, width) in enumerate(zip(columns, _widths(columns, cells), strict=True)):
        numeric = all(isinstance(row[index], int | float | None) for row in rows) and rows
        justify, whole = "right" if numeric else "left", index == 0
        table.add_column(escape(name), justify=justify, overflow="fold", no_wrap=whole, width=width)
    for row in cells:
        table.add_row(*map(escape, row))
    console.print(table)


def _widths(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int | None]:
    """Return how wide columns are where room is short: words stay whole as far as it goes.

    None leaves it to the table: there is room for everything, or for too little. The first column
    holds names, which are never broken.
    """
    texts = [(name, *(row[index] for row in rows)) for index, name in enumerate(columns)]
    full = [max(map(cell_len, column)) for column in texts]
    words = [max(cell_len(word) for text in own for word in text.split() or [""]) for own in texts]
    room = console.width - 2 * (len(columns) - 1)
    if sum(full) <= room:
        return [None] * len(columns)
    for letters in _WHOLE_WORD:
        least = [full[0], *(min(longest, letters) for longest in words[1:])]
        left = room - sum(least)
        if left >= 0:
            for index in sorted(range(1, len(full)), key=lambda each: full[each]):
                more = min(full[index] - least[index], left)  # short columns whole, then the long
                least[index], left = least[index] + more, left - more
            return [*least]
    return [None] * len(columns)


def fail(error: TelicError, as_json: bool) -> NoReturn:
    """Say what went wrong in one paragraph and leave with the error's exit code."""
    if as_json:
        print_json({"error": type(error).__name__, "message": error.message, "hint": error.hint})
    else:
        errors.print(f"[bold red]✗[/] {escape(error.message)}", soft_wrap=True)
        if error.hint:
            errors.print(f"  {escape(error.hint)}", soft_wrap=True)
    raise typer.Exit(error.exit_code)


def view(function: Callable[[Any], None]) -> Callable[[Any], None]:
    """Make a function the way in which results of its argument's type are shown.

    Types are known by their names, which are unique, so that no view has to import what it shows.
    """
    [kind] = [kind for name, kind in function.__annotations__.items() if name != "return"]
    _VIEWS[kind] = function
    return function


def show(result: Any) -> None:
    """Print a result for people."""
    for module in _VIEW_MODULES:
        import_module(f"telic.cli.{module}")
    _VIEWS[type(result).__name__](result)


# ---- findings
# What looks wrong with a training is said once: a population of 48 must not say it 48 times.
# Findings of one kind come in bursts, a line per member. The first burst is one line with a count;
# members that join later are counted, and told together when the training ends.


_NAMED = 3
"""members that are listed by name; of more, one and their number"""


class FindingLines:
    """Gathers the findings of one training and makes lines of them."""

    def __init__(self) -> None:
        self._burst: dict[str, list[TrainFinding]] = {}
        self._said: dict[str, TrainFinding] = {}
        self._later: dict[str, int] = {}
        self._probed: set[tuple[str, str]] = set()

    def add(self, finding: TrainFinding) -> None:
        """Take in what was found of one member."""
        if finding.name in self._said:
            self._later[finding.name] = self._later.get(finding.name, 0) + 1
        else:
            self._burst.setdefault(finding.name, []).append(finding)

    def new(self) -> Iterator[str]:
        """Yield a line for each kind that was not told yet."""
        for name, findings in self._burst.items():
            self._said[name] = findings[0]
            yield f"{_who([each.member for each in findings])}: {findings[0].message}"
        self._burst = {}

    def rest(self) -> Iterator[str]:
        """Yield what is left to be told when the training has ended, and begin anew."""
        yield from self.new()
        for name, more in self._later.items():
            kind, first = name.partition(":")[0].replace("_", " "), self._said[name].member
            yield f"{count(more, 'member')} more had the same as {first} later: {kind}"
        self._said, self._later, self._probed = {}, {}, set()

    def unheard(self, findings: Iterable[ProbeFinding]) -> list[ProbeFinding]:
        """Return what no reward that was probed before had, too."""
        new = [each for each in findings if (each.name, each.message) not in self._probed]
        self._probed |= {(each.name, each.message) for each in new}
        return new


def _who(members: list[str]) -> str:
    if len(members) <= _NAMED:
        return ", ".join(members)
    return f"{len(members)} members, such as {members[0]}"
