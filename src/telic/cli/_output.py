"""Print results on the command line as one JSON document or as a formatted view.

The generic view prints facts as `key: value` lines and lists of records as tables. `view` registers
a specific view for a result type.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from textwrap import indent
from typing import Any, NoReturn

import typer

from telic.core.text import is_mapping, is_row, number
from telic.core.verb import as_data
from telic.errors import TelicError

_VIEWS: dict[str, Callable[[Any], None]] = {}
_SHORT = 160
"""maximum length of a list of words printed on one line"""


def print_json(value: Any) -> None:
    """Print one JSON document and nothing else."""
    sys.stdout.write(json.dumps(value, indent=2, default=str) + "\n")


def fail(error: TelicError, as_json: bool) -> NoReturn:
    """Print an error as one paragraph and exit with the error's exit code."""
    if as_json:
        print_json({"error": type(error).__name__, "message": error.message, "hint": error.hint})
    else:
        from rich.markup import escape

        from telic.cli import _console as terminal

        terminal.errors.print(f"[bold red]✗[/] {escape(error.message)}", soft_wrap=True)
        if error.hint:
            terminal.errors.print(f"  {escape(error.hint)}", soft_wrap=True)
    raise typer.Exit(error.exit_code)


def view(function: Callable[[Any], None]) -> Callable[[Any], None]:
    """Register a function as the view of its argument's type.

    Types are identified by their unique names, so that modules with views need not import them.
    """
    [kind] = [kind for name, kind in function.__annotations__.items() if name != "return"]
    _VIEWS[kind] = function
    return function


def show(result: Any) -> None:
    """Print a result in human-readable form."""
    import telic.cli._results  # noqa: F401  # imports rich, which --json does not need

    _VIEWS.get(type(result).__name__, show_generic)(result)


def show_generic(result: Any) -> None:
    """Print any result. The class of a result may define table `columns` and a final `hint`."""
    from telic.cli import _console as terminal

    print_data(as_data(result), getattr(result, "columns", ()))
    if hint := getattr(result, "hint", None):
        terminal.console.print(f"\n{hint}", markup=False, soft_wrap=True)


def print_data(data: Any, columns: tuple[str, ...] = (), title: str = "") -> None:
    """Print plain data: first the simple values, then nested tables and long texts."""
    from telic.cli import _console as terminal

    if is_mapping(data):
        if title:
            terminal.console.print(f"\n{title}", style="bold", markup=False)
        shown = {key: value for key, value in data.items() if key != "schema_version"}
        facts = {key: _line(value) for key, value in shown.items() if not _is_part(value)}
        terminal.print_facts({_words(key): value for key, value in facts.items()})
        for key, value in data.items():
            if _is_part(value):
                print_data(value, columns, _words(key))
    elif is_row(data) and data and all(map(is_mapping, data)):
        known = list(dict.fromkeys(key for row in data for key in row))
        shown = [key for key in columns or known if any(_says(row.get(key)) for row in data)]
        rows = [[_cell(row.get(key)) for key in shown] for row in data]
        terminal.print_rows([_words(key) for key in shown], rows, title or None)
    elif is_row(data):
        if title:
            terminal.console.print(f"\n{title}", style="bold", markup=False)
        for each in data:
            terminal.console.print(f"  • {_line(each)}", markup=False, soft_wrap=True)
        if not data:
            terminal.console.print("Nothing to show.")
    else:
        if title:
            terminal.console.print(f"\n{title}", style="bold", markup=False)
        # Indented below its title, so that it cannot imitate other lines.
        text = indent(str(data), "  ") if title else str(data)
        terminal.console.print(text, markup=False, soft_wrap=True)


def _is_part(value: Any) -> bool:
    """Return whether a value does not fit on one line."""
    if is_mapping(value):
        return bool(value)
    if is_row(value):
        return bool(value) and (any(map(is_mapping, value)) or len(str(_line(value))) > _SHORT)
    return isinstance(value, str) and "\n" in value


def _line(value: Any) -> Any:
    """Format a value as one line of text, or return None if it is empty."""
    if value is None or (is_row(value) and not value) or (is_mapping(value) and not value):
        return None
    if is_mapping(value):
        return ", ".join(f"{_words(key)} {_line(item)}" for key, item in value.items())
    if is_row(value):
        return ", ".join(str(_line(item)) for item in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return number(value) if isinstance(value, int | float) else value


def _says(value: Any) -> bool:
    """Return whether a cell has content, i.e. is neither empty nor a count of zero."""
    return (
        value is not None and value != "" and value is not False and _line(value) not in (None, "0")
    )


def _cell(value: Any) -> Any:
    """Format a value as a table cell. Numbers stay numbers so that they are right-aligned."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if value is None or is_number else str(_line(value) or "")


def _words(name: Any) -> str:
    return str(name).replace("_", " ")
