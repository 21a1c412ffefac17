"""Jobs on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.markup import escape

from telic.cli.console import console, print_rows
from telic.cli.output import view
from telic.core.text import duration

if TYPE_CHECKING:
    from telic.jobs.board import JobLine
    from telic.jobs.spec import JobRecord
    from telic.verbs.jobs import JobTable, PrintedLog


@view
def show_jobs(table: JobTable) -> None:
    """Print a line per job."""
    if table.jobs:
        _print(table.jobs)
    else:
        console.print("No jobs yet. Start some: telic bench intents --on ray://HOST:10001")


@view
def show_job(line: JobLine) -> None:
    """Print how far one job is."""
    _print([line])


def _print(lines: Sequence[JobLine]) -> None:
    rows = [
        [
            line.job,
            line.place,
            line.state if not line.code else f"{line.state}, code {line.code}",
            line.attempts,
            line.node or "",
            duration(line.seconds),
            line.reason or "",
            line.command,
        ]
        for line in lines
    ]
    print_rows(["job", "on", "state", "tries", "node", "time", "why", "command"], rows)


@view
def show_printed(printed: PrintedLog) -> None:
    """Print what a job printed."""
    console.print(escape(printed.log), end="")


@view
def show_record(record: JobRecord) -> None:
    """Print how a job that was done once more ended."""
    tries = "attempt" if len(record.attempts) == 1 else "attempts"
    console.print(f"{record.name}: {record.state}, {len(record.attempts)} {tries} in all")
    if record.reason:
        console.print(escape(record.reason))
