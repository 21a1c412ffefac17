"""telic doctor: what this machine has, what is active, and how to mend what is not."""

from __future__ import annotations

import typer

from telic.cli.options import AsJson, Debug
from telic.cli.output import command, console, print_json

_MARKS = {"ok": "[green]✓[/]", "note": "[yellow]•[/]", "bad": "[red]✗[/]"}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("doctor")(command(doctor))


def doctor(as_json: AsJson = False, debug: Debug = False) -> None:
    """Check versions, processors, rendering, confinement and optional parts."""
    from telic.training.machine import examine

    report = examine()
    if as_json:
        print_json([each.model_dump() for each in report])
    else:
        for each in report:
            console.print(
                f"{_MARKS[each.state]} [bold]{each.name}[/]: {each.message}", soft_wrap=True
            )
            if each.fix:
                console.print(f"    {each.fix}", soft_wrap=True)
    if any(each.state == "bad" for each in report):
        raise typer.Exit(1)
